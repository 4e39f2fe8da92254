"""GGUF files, read by mapping them into memory and written by the package ``gguf``."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import dtypes
from ..array import Array
from ..device import Device, current
from ..device.transfer import unstaged
from ..files import replacing
from ..quant import QuantArray, from_blocks
from ..quant.kinds import KINDS
from .header import ALIGNMENT, AXES, SCALARS, Place, read_header, require_alignment

#: The dtypes of tensors that are not quantised.
DENSE: dict[str, dtypes.DType] = {
    "F16": dtypes.float16,
    "BF16": dtypes.bfloat16,
    "F32": dtypes.float32,
    "F64": dtypes.float64,
    "I8": dtypes.int8,
    "I16": dtypes.int16,
    "I32": dtypes.int32,
    "I64": dtypes.int64,
}
_KINDS = {dtype: kind for kind, dtype in DENSE.items()}
#: As Linux has it, which Python's module names from 3.13 on.
_MAP_NORESERVE = 0x4000
#: Bytes: a huge page, beyond which no alignment has a use.
_LARGEST_ALIGNMENT = 1 << 21


@dataclass(frozen=True)
class GGUFFile:
    """What :func:`load_gguf` has read.

    Attributes:
        metadata: values by name, of the types that the file states: NumPy's scalars and one-dimensional arrays of
            numbers, ``bool``, ``str``, and lists of these.
        tensors: by name, an array, or a quantised one where the file has blocks.
    """

    metadata: dict[str, Any]
    tensors: dict[str, Array | QuantArray]


class Mapped:
    """A GGUF file in memory that the system reads as it is used; its header is checked.

    Attributes:
        name: the file's path.
        metadata: as in :class:`GGUFFile`.
        places: the type, shape and place of each tensor, by name.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        require_path("load_gguf", path)
        _require_package("load_gguf")
        self.name = os.fspath(path)
        size = os.stat(path).st_size
        self._data = _mapped(path) if size else np.zeros(0, np.uint8)
        try:
            self.metadata, self.places = read_header(self._data.data)
        except ValueError as error:
            raise ValueError(f"{self.name}: {error}") from None

    def array(self, name: str, device: Device) -> Any:
        """A tensor on a device; on the host it shares the file's memory.

        Raises:
            TypeError: cukern lacks the tensor's type.
        """
        place = self.places[name]
        self._require_kind(name)
        data = unstaged(self._bytes(name), device)
        return _made(Array._wrap(data, device), place.kind, place.shape)

    def joined(self, names: Sequence[str], device: Device) -> list[Any]:
        """Matrices with as many columns, as one if they have one type and go to a GPU.

        Raises:
            TypeError: as :meth:`array`.
        """
        places = [self.places[name] for name in names]
        kinds = {place.kind for place in places}
        if device.addressable or len(kinds) > 1:
            return [self.array(name, device) for name in names]
        self._require_kind(names[0])
        with device.activate():
            whole = device.xp.empty(sum(place.nbytes for place in places), np.uint8)
            start = 0
            for name, place in zip(names, places, strict=True):
                whole[start : start + place.nbytes].set(self._bytes(name))
                start += place.nbytes
        shape = (sum(place.shape[0] for place in places), places[0].shape[1])
        return [_made(Array._wrap(whole, device), kinds.pop(), shape)]

    def _bytes(self, name: str) -> npt.NDArray[np.uint8]:
        place = self.places[name]
        return self._data[place.start : place.start + place.nbytes]

    def _require_kind(self, name: str) -> None:
        kind = self.places[name].kind
        if kind not in DENSE and kind not in KINDS:
            raise TypeError(f"{self.name}: {name!r}: cukern does not have the type {kind}")


def _mapped(path: str | os.PathLike[str]) -> npt.NDArray[np.uint8]:
    """The bytes of a file. Pages are copied when written; no memory is reserved for that, as the file may be larger."""
    with open(path, "rb") as file:
        flags, prot = mmap.MAP_PRIVATE | _MAP_NORESERVE, mmap.PROT_READ | mmap.PROT_WRITE
        return np.frombuffer(mmap.mmap(file.fileno(), 0, flags=flags, prot=prot), np.uint8)


def _made(data: Array, kind: str, shape: tuple[int, ...]) -> Any:
    """The array of a type whose bytes are ``data``."""
    if kind not in DENSE:
        return from_blocks(data, shape, kind)
    return Array._wrap(data._data.view(DENSE[kind]).reshape(shape), data.device)


def open_gguf(path: str | os.PathLike[str]) -> Mapped:
    """The header of a file, whose tensors are read one by one."""
    return Mapped(path)


def require_path(function: str, path: Any) -> None:
    """Raise TypeError unless ``path`` is one."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"{function}: path: expected a string or a path, got {type(path).__name__}")


def _require_package(function: str) -> None:
    try:
        import gguf  # noqa: F401
    except ImportError as error:
        message = f"{function}: it needs the package gguf: pip install 'cukern[gguf]' ({error})"
        raise ImportError(message) from None


def load_gguf(path: str | os.PathLike[str], *, device: Device | str | None = None) -> GGUFFile:
    """Read the metadata and all tensors of a GGUF file, version 2 or 3, little-endian.

    The file is mapped into memory: tensors are copied from it to a GPU without another copy in the host's memory. On
    the host they share the mapping, so that only what is used is read; the file must not change meanwhile. A write to
    such an array leaves the file as it is.

    Args:
        path: the file.
        device: where to put the tensors; the current device when None.

    Raises:
        ValueError: it is not a GGUF file, or is damaged; the message names the file and the field.
        TypeError: a tensor has a type that cukern lacks; or ``path`` is none.
        OSError: the file cannot be read.
        ImportError: the package ``gguf`` is not installed.

    >>> import os, tempfile, cukern as ck
    >>> path = os.path.join(tempfile.mkdtemp(), "small.gguf")
    >>> ck.save_gguf(path, {"x": ck.asarray([1.0, 2.0])}, {"general.name": "small", "layers": 2})
    >>> read = ck.load_gguf(path)
    >>> read.tensors["x"].tolist(), read.metadata["general.name"], int(read.metadata["layers"])
    ([1.0, 2.0], 'small', 2)
    """
    where = current() if device is None else Device(device)
    mapped = open_gguf(path)
    return GGUFFile(mapped.metadata, {name: mapped.array(name, where) for name in mapped.places})


def save_gguf(
    path: str | os.PathLike[str], tensors: Mapping[str, Any], metadata: Mapping[str, Any] | None = None
) -> None:
    """Write tensors and metadata to a GGUF file.

    An existing file is replaced atomically; tensors that are mapped from it keep their values.

    Args:
        path: the file.
        tensors: arrays by name, with at most four axes: floating ones, signed integers or quantised arrays.
        metadata: values by name. NumPy's scalars and arrays keep their types. Python's ints become uint32, or int32,
            uint64 or int64 if they need it, and floats float32. Lists have strings or numbers of one type.
            ``general.alignment`` is the alignment of the tensors in bytes, 32 by default, at most 2**21.

    Raises:
        TypeError: an array's dtype or a value's type is not one of the format's, or an argument is none of these.
        ValueError: an array has more than four axes, a list is empty, a number does not fit, or a text is no valid
            Unicode.
        OSError: the file cannot be written.
        ImportError: the package ``gguf`` is not installed.

    The tensors are in host memory at most one at a time, if they are on a GPU.
    """
    _require_package("save_gguf")
    from gguf import GGMLQuantizationType, GGUFValueType, GGUFWriter
    from gguf.gguf_writer import WriterState

    require_path("save_gguf", path)
    for argument, given in (("tensors", tensors), ("metadata", metadata or {})):
        if not isinstance(given, Mapping):
            raise TypeError(f"save_gguf: {argument}: expected values by name, got {type(given).__name__}")
    writer = GGUFWriter(None, "")
    writer.kv_data[0].clear()  # the writer's own entry of the architecture
    for key, value in (metadata or {}).items():
        code, item, plain = _typed(key, value)
        sub_type = None if item is None else GGUFValueType(item)
        writer.add_key_value(key, plain, GGUFValueType(code), sub_type)
    alignment = writer.data_alignment = _written_alignment(metadata or {})
    for name, x in tensors.items():
        place = _form(name, x)
        size = np.dtype(np.uint16)  # any but uint8, by which the writer means blocks
        writer.add_tensor_info(name, place.shape, size, place.nbytes, GGMLQuantizationType[place.kind])
    with replacing(path) as file:
        writer.fout, writer.state = [file], WriterState.EMPTY
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        file.write(bytes(-file.tell() % alignment))
        for x in tensors.values():
            data = _bytes(x)
            file.write(data)
            file.write(bytes(-data.nbytes % alignment))


def _written_alignment(metadata: Mapping[str, Any]) -> int:
    alignment = require_alignment(metadata.get("general.alignment", ALIGNMENT))
    if alignment > _LARGEST_ALIGNMENT:
        raise ValueError(
            f"save_gguf: metadata: 'general.alignment': expected at most {_LARGEST_ALIGNMENT}, as zeros fill "
            f"the file up to it after each tensor, got {alignment}"
        )
    return alignment


def _form(name: str, x: Any) -> Place:
    """The type, shape and size of a tensor to be written."""
    if not isinstance(name, str):
        raise TypeError(f"save_gguf: tensors: expected names that are strings, got {name!r:.60}")
    _require_text("save_gguf: tensors", name)
    if not isinstance(x, (Array, QuantArray)):
        raise TypeError(f"save_gguf: {name!r}: expected a cukern array, got {type(x).__name__}")
    if x.ndim > AXES:
        raise ValueError(f"save_gguf: {name!r}: expected at most {AXES} axes, got shape {x.shape}")
    if isinstance(x, QuantArray):
        return Place(x.kind, x.shape, 0, x.nbytes)
    if x.dtype not in _KINDS:
        raise TypeError(f"save_gguf: {name!r}: the format has no {x.dtype}; cast it to one of {[*_KINDS]}")
    return Place(_KINDS[x.dtype], x.shape, 0, x.nbytes)


def _bytes(x: Any) -> npt.NDArray[np.uint8]:
    data = x.blocks if isinstance(x, QuantArray) else x
    return np.ascontiguousarray(data.numpy()).reshape(-1).view(np.uint8)


_CODES = {scalar: code for code, scalar in SCALARS.items()}
_STRING, _ARRAY, _BOOL = 8, 9, 7


def _typed(key: str, value: Any) -> tuple[int, int | None, Any]:
    """A value's type, that of its items if it is an array, and the value in Python's types."""
    if not isinstance(key, str) or not key:
        raise TypeError(
            f"save_gguf: metadata: expected names that are strings and not empty, got {key!r:.60}"
        )
    _require_text("save_gguf: metadata", key)
    try:
        if isinstance(value, (list, tuple, np.ndarray)):
            return _typed_array(value)
        code, plain = _typed_scalar(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"save_gguf: metadata: {key!r}: {error}") from None
    return code, None, plain


def _require_text(where: str, text: str) -> None:
    """Refuse lone surrogates, which UTF-8 does not have."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{where}: {text!r:.60} is no valid Unicode") from None


def _typed_scalar(value: Any) -> tuple[int, Any]:
    if isinstance(value, str):
        _require_text("expected a string", value)
        return _STRING, value
    if isinstance(value, bool):
        return _BOOL, value
    if isinstance(value, int):
        return _integer_code(value, value), value
    if isinstance(value, np.generic) and type(value) in _CODES:
        return _CODES[type(value)], value.item()
    if isinstance(value, float):
        try:
            struct.pack("<f", value)
        except OverflowError:
            raise ValueError(f"expected a number that fits float32, got {value}: write np.float64") from None
        return _CODES[np.float32], value
    raise TypeError(f"expected numbers, bools, strings or lists of them, got {type(value).__name__}")


def _integer_code(least: int, largest: int) -> int:
    """The first type that holds both."""
    for scalar in (np.uint32, np.int32, np.uint64, np.int64):
        if np.iinfo(scalar).min <= least and largest <= np.iinfo(scalar).max:
            return _CODES[scalar]
    found = f"{largest}" if least == largest else f"{least} beside {largest}"
    raise ValueError(f"expected integers that one type of at most 64 bits holds, got {found}")


def _typed_array(value: Any) -> tuple[int, int, list[Any]]:
    if (isinstance(value, np.ndarray) and value.ndim != 1) or not len(value):
        raise ValueError(f"expected one axis and at least one item, got {value!r:.60}")
    if isinstance(value, np.ndarray):
        if value.dtype.type not in _CODES:
            raise TypeError(f"expected an array of numbers that the format has, got {value.dtype}")
        return _ARRAY, _CODES[value.dtype.type], value.tolist()
    items = [_typed_scalar(one) for one in value]
    kinds = {code for code, _ in items}
    if len(kinds) > 1 and kinds <= {_CODES[np.uint32], _CODES[np.int32], _CODES[np.uint64], _CODES[np.int64]}:
        kinds = {_integer_code(min(value), max(value))}
    if len(kinds) > 1:
        raise TypeError("expected a list of items of one type")
    return _ARRAY, kinds.pop(), [plain for _, plain in items]
