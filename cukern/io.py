"""Arrays in files: NumPy's ``.npy`` and ``.npz``, and safetensors."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from . import dtypes
from .array import Array
from .creation import asarray
from .device import Device

__all__ = ["load", "save", "save_safetensors", "savez", "savez_compressed"]

File = str | os.PathLike[str] | IO[bytes]


def _data(x: object, name: str) -> npt.NDArray[Any]:
    if not isinstance(x, Array):
        raise TypeError(f"{name}: expected a cukern.Array, got {type(x).__name__}")
    return x.numpy()


def save(file: File, x: Array, /) -> None:
    """Write an array to a ``.npy`` file, as ``numpy.save`` does.

    NumPy's format has no bfloat16: such arrays are read as two raw bytes an element by NumPy, and
    as what they were by :func:`load`.

    Args:
        file: a path, to which ``.npy`` is added where it lacks it, or a binary file.
        x: any array.

    >>> import io, cukern as ck
    >>> file = io.BytesIO()
    >>> ck.save(file, ck.asarray([1.0, 2.0]))
    >>> _ = file.seek(0)
    >>> ck.load(file).tolist()
    [1.0, 2.0]
    """
    np.save(file, _data(x, "x"), allow_pickle=False)


def savez(file: File, /, *arrays: Array, **named: Array) -> None:
    """Write arrays to one ``.npz`` file; those without a name are called ``arr_0``, ``arr_1`` and so on."""
    np.savez(file, *_all(arrays), **_by_name(named))


def savez_compressed(file: File, /, *arrays: Array, **named: Array) -> None:
    """:func:`savez`, compressed."""
    np.savez_compressed(file, *_all(arrays), **_by_name(named))


def _all(arrays: tuple[Array, ...]) -> list[npt.NDArray[Any]]:
    return [_data(x, f"arrays[{i}]") for i, x in enumerate(arrays)]


def _by_name(named: Mapping[str, Array]) -> dict[str, Any]:
    return {name: _data(x, name) for name, x in named.items()}


def save_safetensors(
    file: str | os.PathLike[str], arrays: Mapping[str, Array], /, metadata: dict[str, str] | None = None
) -> None:
    """Write named arrays of any dtype to a safetensors file.

    Args:
        file: a path.
        arrays: the arrays by name.
        metadata: texts kept beside them.
    """
    from safetensors.numpy import save_file

    save_file({name: np.asarray(x, order="C") for name, x in _by_name(arrays).items()}, file, metadata)


def load(file: File, /, *, device: Device | str | None = None) -> Array | dict[str, Array]:
    """What a file holds: the array of a ``.npy`` file, the arrays by name of ``.npz`` and safetensors.

    Args:
        file: a path or a binary file; of safetensors a path.
        device: where the arrays are put; the current device when None.

    Raises:
        ValueError: the file is none of these, or holds Python objects.
        OSError: it cannot be read.
    """
    if isinstance(file, (str, os.PathLike)):
        with open(file, "rb") as opened:
            head = opened.read(9)
            if head[:6] != b"\x93NUMPY" and head[8:9] == b"{":
                return _load_safetensors(file, device)
            opened.seek(0)
            return load(opened, device=device)
    try:
        found = np.load(file, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return _array(found, device)
        with found:
            return {name: _array(found[name], device) for name in found.files}
    except (zipfile.BadZipFile, EOFError) as error:
        raise ValueError(f"load: {file} is damaged: {error}") from None


def _array(data: npt.NDArray[Any], device: Device | str | None) -> Array:
    raw = data.dtype.kind == "V" and data.dtype.itemsize == 2 and data.dtype.names is None
    return asarray(data.view(dtypes.bfloat16) if raw else data, device=device)


def _load_safetensors(file: Any, device: Device | str | None) -> dict[str, Array]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return {name: asarray(data, device=device) for name, data in load_file(file).items()}
    except SafetensorError as error:
        raise ValueError(f"load: {file} is no safetensors file: {error}") from None
