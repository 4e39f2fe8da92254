"""NumPy's ``.npy`` and ``.npz`` files, every number of which is checked before memory is allocated for it."""

from __future__ import annotations

import errno
import math
import os
import struct
import tokenize
import zipfile
from typing import Any

import numpy as np
import numpy.typing as npt

from ..array import Array
from ..device import Device
from .checked import described, to_array
from .pickles import unpickled
from .safetensors import read_safetensors
from .writing import File

_NPY = b"\x93NUMPY"
#: Bytes of a zip file's local header, whose last fields are the lengths of the name and the extra field.
_ZIP_HEADER = 30
#: Bytes of the data descriptor that may follow a zip file's entry.
_ZIP_GAPS = (0, 12, 16, 20, 24)
#: The most bytes that one deflated byte expands to.
_MOST_DEFLATED = 1032


class Arrays(dict[str, Array]):
    """The arrays of a file by name. As NumPy's ``NpzFile``, ``with load(file) as arrays:`` is allowed; nothing is open.

    Attributes:
        files: the names.
    """

    @property
    def files(self) -> list[str]:
        """The names."""
        return list(self)

    def close(self) -> None:
        """Do nothing: all arrays have been read."""

    def __enter__(self) -> Arrays:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def load(
    file: File, *, device: Device | str | None = None, allow_pickle: bool = False
) -> Array | dict[str, Array]:
    """Read the array of a ``.npy`` file, or the arrays of an ``.npz`` or safetensors file as a dict by name.

    Every size in the file is checked before memory is allocated for it, and Python objects are never created. The
    contents of an ``.npz`` file are checked by their checksums.

    Args:
        file: a path or a binary file; for safetensors, a path.
        allow_pickle: whether a pickle of one NumPy array is read, such as :meth:`cukern.Array.dump` writes. A pickle
            that names anything but NumPy's arrays and dtypes is refused.
        device: where to put the arrays; the current device when None.

    Raises:
        ValueError: the file has another format, is damaged, or holds Python objects; the message names file and field.
        TypeError: an array has a dtype that cukern lacks.
        OSError: the file cannot be read.
    """
    if not isinstance(file, (str, os.PathLike)):
        return _load(file, str(getattr(file, "name", "a file")), device, False, allow_pickle)
    name = os.fspath(file)
    with open(file, "rb") as opened:
        if not opened.seekable():
            raise OSError(errno.ESPIPE, "a pipe cannot be read twice; read it into a file", name)
        head = opened.read(9)
        if head[:6] != _NPY and head[8:] == b"{":
            return read_safetensors(name, device)
        opened.seek(0)
        return _load(opened, name, device, True, allow_pickle)


def _unpickled(file: Any, name: str, device: Device | str | None, whole: bool) -> Array:
    start, data = file.tell(), file.read()
    with described(name):
        values, length = unpickled(data)
        if whole and length != len(data):
            raise ValueError(f"the pickle has {length} bytes, the file {len(data)}")
        file.seek(start + length)
        return to_array(values, device)


def _load(
    file: Any, name: str, device: Device | str | None, whole: bool, pickled: bool
) -> Array | dict[str, Array]:
    """:func:`load`; ``whole``: whether a file must end with its array."""
    start = file.tell()
    head = file.read(len(_NPY))
    file.seek(start)
    if head == _NPY:
        with described(name):
            end = file.seek(0, os.SEEK_END)
            file.seek(start)
            return to_array(_read_npy(file, end - start, whole), device)
    if head[:2] == b"PK":
        return _load_npz(file, name, device)
    if pickled and head[:1] == b"\x80":
        return _unpickled(file, name, device, whole)
    raise ValueError(
        f"{name}: expected a .npy, .npz or safetensors file; pickles of arrays are read with allow_pickle=True"
    )


def _read_npy(file: Any, size: int, whole: bool) -> npt.NDArray[Any]:
    """The array of a ``.npy`` file of at most ``size`` bytes; checks the header before it allocates."""
    start = file.tell()
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"version {version[0]}.{version[1]} of the format is not known")
    width = 2 if version == (1, 0) else 4
    length = int.from_bytes(file.read(width), "little")
    if len(_NPY) + 2 + width + length > size:
        raise ValueError(f"the header's length is {length}, beyond the file's end")
    file.seek(start + len(_NPY) + 2)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, in_columns, dtype = read(file)
    except (SyntaxError, TypeError, KeyError, MemoryError, RecursionError, tokenize.TokenError) as error:
        raise ValueError(f"the header does not describe an array ({error})") from None
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are pickled and not read")
    if any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"shape: expected sizes that are at least 0, got {shape}")
    there, stated = size - (file.tell() - start), math.prod(shape) * dtype.itemsize
    if stated > there or (whole and stated < there):
        raise ValueError(f"shape {shape} of {dtype} takes {stated} bytes, and {there} follow the header")
    data = bytearray(stated)
    view, done = memoryview(data), 0
    while done < stated and (count := file.readinto(view[done:])):
        done += count
    if done != stated:
        raise ValueError(f"shape {shape} of {dtype} takes {stated} bytes, and {done} follow the header")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if in_columns else "C")


def _load_npz(file: Any, name: str, device: Device | str | None) -> Arrays:
    arrays = Arrays()
    start = file.tell()
    with described(name):
        archive = zipfile.ZipFile(file)
    with archive:
        _check_entries(file, name, archive, start)
        for entry in archive.infolist():
            field = _field(entry)
            with described(name, repr(field)):
                if field in arrays:
                    raise ValueError("the name comes twice")
                with archive.open(entry) as data:
                    read = _read_npy(data, entry.file_size, whole=True)
                    data.read(1)  # at the end the checksum is checked
                arrays[field] = to_array(read, device)
    return arrays


def _field(entry: zipfile.ZipInfo) -> str:
    return entry.filename.removesuffix(".npy")


def _check_entries(file: Any, name: str, archive: zipfile.ZipFile, start: int) -> None:
    """Raise ValueError if a zip file's entries have impossible sizes, overlap or leave a gap.

    Args:
        start: the archive's offset in the file.
    """
    end = start
    for entry in sorted(archive.infolist(), key=lambda entry: entry.header_offset):
        packed, size = entry.compress_size, entry.file_size
        with described(name, repr(_field(entry))):
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or entry.flag_bits & 1:
                raise ValueError("it is compressed or encrypted as NumPy does not")
            stored = entry.compress_type == zipfile.ZIP_STORED
            if size != packed if stored else size > _MOST_DEFLATED * packed + 64:
                raise ValueError(f"{packed} bytes cannot hold the {size} that it states")
            if entry.header_offset - end not in (_ZIP_GAPS if end > start else (0,)):
                raise ValueError(f"it begins at {entry.header_offset}, where {end} is the next byte")
            file.seek(entry.header_offset + _ZIP_HEADER - 4)
            end = entry.header_offset + _ZIP_HEADER + sum(struct.unpack("<HH", file.read(4))) + packed
            if end > archive.start_dir:
                raise ValueError(f"it ends at {end}, beyond the entries' end at {archive.start_dir}")
    if archive.start_dir - end not in (_ZIP_GAPS if end > start else (0,)):
        raise ValueError(
            f"{name}: damaged: the entries end at {end}, their table begins at {archive.start_dir}"
        )
