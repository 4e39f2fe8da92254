"""Arrays as text, of NumPy's form, and in text files."""

from __future__ import annotations

import contextlib
import importlib
import locale
import os
from collections.abc import Callable, Sequence
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt

from .. import dtypes
from ..array import Array, printing
from ..array.creation import asarray
from ..device import Device
from ..elementwise.operands import require_array
from ..files import replacing

__all__ = ["array2string", "array_repr", "array_str", "loadtxt", "savetxt"]

TextFile = str | os.PathLike[str] | IO[Any]


def array2string(
    x: Any,
    /,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
    separator: str = " ",
    prefix: str = "",
    *,
    formatter: Any = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    sign: Any = None,
    floatmode: Any = None,
    suffix: str = "",
    legacy: Any = None,
) -> str:
    """The elements as text; arguments as of ``numpy.array2string``.

    >>> import cukern as ck
    >>> array2string(ck.asarray([0.5, 2.0]), separator="; ", precision=1)
    '[0.5; 2. ]'
    """
    return np.array2string(
        require_array(x, "array2string")._fetched(),
        max_line_width,
        precision,
        suppress_small,
        separator,
        prefix,
        formatter=formatter,
        threshold=threshold,
        edgeitems=edgeitems,
        sign=sign,
        floatmode=floatmode,
        suffix=suffix,
        legacy=legacy,
    )


def array_repr(
    x: Any,
    /,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """``repr(x)``, with the options of ``numpy.array_repr``.

    >>> import cukern as ck
    >>> array_repr(ck.asarray([1 / 3], device="host"), precision=2)
    "Array([0.33], dtype=float32, device='host')"
    """
    return printing.described(require_array(x, "array_repr"), max_line_width, precision, suppress_small)


def array_str(
    x: Any,
    /,
    max_line_width: int | None = None,
    precision: int | None = None,
    suppress_small: bool | None = None,
) -> str:
    """``str(x)``, with the options of ``numpy.array_str``.

    >>> import cukern as ck
    >>> array_str(ck.asarray([1 / 3, 2]), precision=2)
    '[0.33 2.  ]'
    """
    return np.array_str(require_array(x, "array_str")._fetched(), max_line_width, precision, suppress_small)


def savetxt(
    fname: TextFile,
    X: Any,
    fmt: str | Sequence[str] = "%.18e",
    delimiter: str = " ",
    newline: str = "\n",
    header: str = "",
    footer: str = "",
    comments: str = "# ",
    encoding: str | None = None,
) -> None:
    """Write an array of one or two axes to a text file, a row a line; arguments as of ``numpy.savetxt``.

    The file of a path is replaced as by :func:`cukern.save`.

    Raises:
        ValueError: the array has no axis, or more than two; or ``fmt`` does not fit the columns.

    >>> import io, cukern as ck
    >>> file = io.StringIO()
    >>> savetxt(file, ck.asarray([[1, 2], [3, 4]]), fmt="%d", delimiter=",")
    >>> file.getvalue()
    '1,2\\n3,4\\n'
    """
    data = require_array(X, "savetxt", "X").numpy()
    if dtypes.info(data.dtype).extension:
        data = data.astype(np.float32)
    options = fmt, delimiter, newline, header, footer, comments
    if not isinstance(fname, (str, os.PathLike)):
        np.savetxt(fname, data, *options, encoding)
        return
    packed = _PACKED.get(os.path.splitext(fname)[1], contextlib.nullcontext)
    with replacing(fname) as file, packed(file) as result:
        np.savetxt(result, data, *options, encoding or locale.getpreferredencoding(False))


def _by(module: str) -> Callable[[Any], Any]:
    return lambda file: importlib.import_module(module).open(file, mode="wb")


#: How NumPy compresses text files, by their names' ends.
_PACKED: dict[str, Callable[[Any], Any]] = {".gz": _by("gzip"), ".bz2": _by("bz2"), ".xz": _by("lzma")}


def loadtxt(
    fname: Any,
    dtype: npt.DTypeLike | None = None,
    comments: Any = "#",
    delimiter: str | None = None,
    converters: Any = None,
    skiprows: int = 0,
    usecols: Any = None,
    unpack: bool = False,
    ndmin: Literal[0, 1, 2] = 0,
    encoding: str | None = None,
    max_rows: int | None = None,
    *,
    quotechar: str | None = None,
    device: Device | str | None = None,
) -> Array:
    """The numbers of a text file, a line a row; arguments that are not named here as of ``numpy.loadtxt``.

    Args:
        fname: a path, an open file, or lines.
        dtype: the dtype; the default floating one when None.
        unpack: whether the columns are the rows of the result.
        device: where the array is made.

    Raises:
        ValueError: a line has other than numbers, or another count of them.

    >>> import cukern as ck
    >>> loadtxt(["1 2", "3 4"], usecols=1).tolist()
    [2.0, 4.0]
    """
    wanted = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    read = np.float32 if dtypes.info(wanted).extension else wanted
    result: Any = np.loadtxt(
        fname,
        read,
        comments,
        delimiter,
        converters,
        skiprows,
        usecols,
        unpack,
        ndmin,
        encoding,
        max_rows,
        quotechar=quotechar,
    )
    return asarray(result, wanted, device)
