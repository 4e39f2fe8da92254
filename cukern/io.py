"""Arrays in files: NumPy's ``.npy`` and ``.npz``, and safetensors."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import pickle
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from . import dtypes
from .array import Array
from .array.creation import asarray
from .device import Device
from .elementwise.operands import require_array

__all__ = ["load", "save", "save_safetensors", "savez", "savez_compressed"]

File = str | os.PathLike[str] | IO[bytes]

_NPY = b"\x93NUMPY"
#: Zip files: the size of a local header, whose last fields are the lengths of the name and the extra field; the sizes
#: of the data descriptor that may follow an entry; the most bytes that one deflated byte expands to.
_ZIP_HEADER, _ZIP_GAPS, _MOST_DEFLATED = 30, (0, 12, 16, 20, 24), 1032
#: The dtypes of safetensors; None for those that cukern lacks.
_SAFETENSORS: dict[str, dtypes.DType | None] = {
    **{row.safetensors: row.dtype for row in dtypes.TABLE if row.safetensors},
    **dict.fromkeys(("F4", "F6_E2M3", "F6_E3M2", "F8_E5M2", "F8_E4M3", "F8_E8M0"), None),
}


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """The path of a new file, which replaces that at ``path`` atomically if no error is raised."""
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        yield partial
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _data(x: object, name: str) -> npt.NDArray[Any]:
    return require_array(x, "save", name).numpy()


def save(file: File, x: Array) -> None:
    """Write an array to a ``.npy`` file, as ``numpy.save`` does.

    NumPy's format has no bfloat16: NumPy reads such arrays as two raw bytes per element, :func:`load` reads them
    as bfloat16.

    Args:
        file: a path, to which ``.npy`` is added if it lacks it, or a binary file.
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
    """Write arrays to one ``.npz`` file, by name; positional ones are named ``arr_0``, ``arr_1`` and so on."""
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
    """Write named arrays of any dtype but complex128 to a safetensors file.

    Args:
        file: a path.
        arrays: the arrays by name.
        metadata: strings by name, stored with the arrays.

    Raises:
        TypeError: an array is of complex128, which the format does not have.
    """
    from safetensors.numpy import save_file

    for name, x in arrays.items():
        dtype = getattr(x, "dtype", None)
        if dtype in dtypes.ALL and not dtypes.info(dtype).safetensors:
            raise TypeError(
                f"{name!r}: safetensors has no dtype {dtype}: save it in an .npz file, or its parts"
            )
    save_file({name: np.asarray(x, order="C") for name, x in _by_name(arrays).items()}, file, metadata)


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

    Every size in the file is checked before memory is allocated for it, and Python objects are never made. The
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
        head = opened.read(9)
        if head[:6] != _NPY and head[8:] == b"{":
            return read_safetensors(name, device)
        opened.seek(0)
        return _load(opened, name, device, True, allow_pickle)


class _OfArrays(pickle.Unpickler):
    """Reads pickles of NumPy's arrays, and refuses what names another function or class."""

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "numpy" and name in ("_reconstruct", "_frombuffer", "ndarray", "dtype"):
            return super().find_class(module, name)
        if (module, name) == ("ml_dtypes", "bfloat16") or (module, name) == ("_codecs", "encode"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"it names {module}.{name}, and only NumPy's arrays are read")


def _unpickled(file: Any, name: str, device: Device | str | None) -> Array:
    with _described(name):
        try:
            made = _OfArrays(file).load()
        except (
            pickle.UnpicklingError,
            AttributeError,
            ImportError,
            IndexError,
            KeyError,
            TypeError,
        ) as error:
            raise ValueError(f"expected a pickle of an array: {error}") from None
        if not isinstance(made, np.ndarray):
            raise ValueError(f"expected a pickle of an array, got one of {type(made).__name__}")
        return _array(made, device)


def _load(
    file: Any, name: str, device: Device | str | None, whole: bool, pickled: bool
) -> Array | dict[str, Array]:
    """:func:`load`; ``whole``: whether a ``.npy`` file must end with its array."""
    start = file.tell()
    head = file.read(len(_NPY))
    file.seek(start)
    if head == _NPY:
        with _described(name):
            end = file.seek(0, os.SEEK_END)
            file.seek(start)
            return _array(_read_npy(file, end - start, whole), device)
    if head[:2] == b"PK":
        return _load_npz(file, name, device)
    if pickled and head[:1] == b"\x80":
        return _unpickled(file, name, device)
    raise ValueError(
        f"{name}: expected a .npy, .npz or safetensors file; pickles of arrays are read with allow_pickle=True"
    )


@contextmanager
def _described(name: str, field: str = "") -> Iterator[None]:
    """Turn the errors that readers raise on damaged input into errors that name the file and the field."""
    place = f"{name}: {field}: " if field else f"{name}: "
    try:
        yield
    except TypeError as error:
        raise TypeError(f"{place}{error}") from None
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # EINVAL: a position before the file's start
            raise
        raise ValueError(f"{place}damaged: {error}") from None
    except (ValueError, EOFError, NotImplementedError, OverflowError, RuntimeError, struct.error) as error:
        raise ValueError(f"{place}damaged: {error}") from None
    except (zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{place}damaged: {error}") from None


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
    made = Arrays()
    start = file.tell()
    with _described(name):
        archive = zipfile.ZipFile(file)
    with archive:
        _check_entries(file, name, archive, start)
        for entry in archive.infolist():
            field = _field(entry)
            with _described(name, repr(field)):
                if field in made:
                    raise ValueError("the name comes twice")
                data = archive.read(entry)  # all of it: the checksum is checked at the end
                made[field] = _array(_read_npy(io.BytesIO(data), len(data), whole=True), device)
    return made


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
        with _described(name, repr(_field(entry))):
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


def _array(data: npt.NDArray[Any], device: Device | str | None) -> Array:
    if data.dtype.kind == "V" and data.dtype.itemsize == 2 and data.dtype.names is None:
        data = data.view(dtypes.bfloat16)
    if data.dtype == np.bool_ and np.max(data.view(np.uint8), initial=0) > 1:
        raise ValueError("a bool is neither 0 nor 1")
    return asarray(data, device=device)


def read_safetensors(path: str | os.PathLike[str], device: Device | str | None = "host") -> dict[str, Array]:
    """The arrays of a safetensors file, by name.

    Args:
        path: the file.
        device: where to put the arrays; the current device when None.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not a safetensors file, or is damaged; the message names the array and the field.
        TypeError: an array has a dtype that cukern lacks.
    """
    file, name = Path(path).read_bytes(), os.fspath(path)
    try:
        fields, begin = _header(file)
        places = [(*_place(field, entry), field) for field, entry in fields.items()]
        end = 0
        for first, last, field in sorted(places):
            if first != end:
                raise ValueError(f"{field!r}: data_offsets: begins at {first}, where {end} is the next byte")
            end = last
        if end != len(file) - begin:
            raise ValueError(f"data_offsets: the arrays have {end} bytes, the file {len(file) - begin}")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: expected a safetensors file: {error}") from None
    read = {}
    for first, last, field in places:
        with _described(name, repr(field)):
            data = memoryview(file)[begin + first : begin + last]
            dtype, shape = _SAFETENSORS[fields[field]["dtype"]], fields[field]["shape"]
            if dtype is None:
                raise TypeError(f"dtype: cukern does not have {fields[field]['dtype']}")
            read[field] = _array(np.array(np.frombuffer(data, dtype).reshape(shape)), device)
    return read


def _header(file: bytes) -> tuple[dict[str, Any], int]:
    """The header of a safetensors file without its metadata, and the offset of the arrays."""
    size = int.from_bytes(file[:8], "little")
    if not 2 <= size <= len(file) - 8:
        raise ValueError(f"the header's length is {size}, and {max(0, len(file) - 8)} bytes follow")

    def refuse(constant: str) -> None:
        raise ValueError(f"the header has {constant}")

    header = json.loads(file[8 : 8 + size].decode(), object_pairs_hook=_once, parse_constant=refuse)
    if not isinstance(header, dict):
        raise ValueError("the header is not a JSON object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise ValueError("__metadata__: expected texts by name")
    return header, 8 + size


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(n for n in names if names.count(n) > 1)!r} comes twice")
    return found


def _place(field: str, entry: Any) -> tuple[int, int]:
    """The begin and end offset of an entry, checked against its dtype and shape."""
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
        raise ValueError(f"{field!r}: expected dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _SAFETENSORS:
        raise ValueError(f"{field!r}: dtype: {dtype!r} is unknown")
    for key, numbers in (("shape", shape), ("data_offsets", offsets)):
        if not isinstance(numbers, list) or not all(type(n) is int and n >= 0 for n in numbers):
            raise ValueError(f"{field!r}: {key}: expected integers that are at least 0, got {numbers!r:.60}")
    if len(offsets) != 2 or offsets[0] > offsets[1]:
        raise ValueError(
            f"{field!r}: data_offsets: expected where the data begin and end, got {offsets!r:.60}"
        )
    known = _SAFETENSORS[dtype]
    if known is not None and math.prod(shape) * known.itemsize != offsets[1] - offsets[0]:
        raise ValueError(
            f"{field!r}: data_offsets: {offsets[1] - offsets[0]} bytes cannot be shape {shape!r:.60} of {dtype}"
        )
    return offsets[0], offsets[1]
