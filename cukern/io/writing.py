"""Arrays written to NumPy's ``.npy`` and ``.npz`` files."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from ..array import Array
from ..elementwise.operands import require_array
from ..files import Stream, is_stream, replacing

File = str | os.PathLike[str] | IO[bytes]


def save(file: File, x: Array) -> None:
    """Write an array to a ``.npy`` file, as ``numpy.save`` does.

    An existing file is replaced when the new one is on the disk: an error or the process's end leave it as it is.

    NumPy's format has no bfloat16: NumPy reads such arrays as two raw bytes per element, :func:`load` reads them
    as bfloat16.

    Args:
        file: a path, to which ``.npy`` is added if it lacks it and is no pipe or device; or a binary file.
        x: any array.

    Raises:
        OSError: the file cannot be written, as on a full disk; the error names it.

    >>> import io, cukern as ck
    >>> file = io.BytesIO()
    >>> ck.save(file, ck.asarray([1.0, 2.0]))
    >>> _ = file.seek(0)
    >>> ck.load(file).tolist()
    [1.0, 2.0]
    """
    data = _data(x, "x")
    with _written(file, ".npy") as opened:
        unbuffered = isinstance(opened, (io.RawIOBase, io.BufferedWriter))
        np.save(Stream(opened) if unbuffered else opened, data, allow_pickle=False)


def savez(file: File, /, *arrays: Array, **named: Array) -> None:
    """Write arrays to one ``.npz`` file, by name; positional ones are named ``arr_0``, ``arr_1`` and so on.

    An existing file is replaced as by :func:`save`.

    Raises:
        ValueError: a named array has the name of a positional one.
        OSError: the file cannot be written, as on a full disk; the error names it.
    """
    _save_zip(file, "savez", arrays, named, zipfile.ZIP_STORED)


def savez_compressed(file: File, /, *arrays: Array, **named: Array) -> None:
    """:func:`savez`, compressed."""
    _save_zip(file, "savez_compressed", arrays, named, zipfile.ZIP_DEFLATED)


def _save_zip(
    file: File, function: str, arrays: Sequence[Array], named: Mapping[str, Array], compression: int
) -> None:
    datas = {name: _data(x, name) for name, x in named.items()}
    for i, x in enumerate(arrays):
        if f"arr_{i}" in datas:
            raise ValueError(
                f"{function}: arr_{i} is the name of the positional array {i}, and was given too"
            )
        datas[f"arr_{i}"] = _data(x, f"arrays[{i}]")
    with _written(file, ".npz") as opened, zipfile.ZipFile(opened, "w", compression) as archive:
        for name, data in datas.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, data, allow_pickle=False)


@contextmanager
def _written(file: File, extension: str) -> Iterator[Any]:
    """A binary file to write: ``file`` itself, or the one at a path, to which the extension is added."""
    if not isinstance(file, (str, os.PathLike)):
        yield file
        return
    path = os.fspath(file)
    with replacing(path if path.endswith(extension) or is_stream(path) else path + extension) as opened:
        yield opened


def _data(x: object, name: str) -> npt.NDArray[Any]:
    return require_array(x, "save", name).numpy()
