"""The header of a GGUF file: its metadata and the places of its tensors, every number checked before it is used.

The reader of the package ``gguf`` takes a file at its word: lengths beyond the file's end, sizes whose product
overflows and data outside the file give wrong arrays or endless loops. Its tables of types serve here, its reader not.

Source of the format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

__all__ = ["ALIGNMENT", "AXES", "SCALARS", "Header", "Place", "block_of", "read_header", "require_alignment"]

#: Versions of the format that are read; 1 had other sizes, 3 allows other byte orders.
_VERSIONS = (2, 3)
#: The alignment of tensors where the metadata has none, and the most axes of a tensor.
ALIGNMENT, AXES = 32, 4
#: NumPy's dtypes of the numbers in metadata, by the format's code.
SCALARS: dict[int, type[np.generic]] = {
    0: np.uint8,
    1: np.int8,
    2: np.uint16,
    3: np.int16,
    4: np.uint32,
    5: np.int32,
    6: np.float32,
    7: np.bool_,
    10: np.uint64,
    11: np.int64,
    12: np.float64,
}
_STRING, _ARRAY = 8, 9
#: Bytes that a value has at least, which bounds a count before anything is read; arrays in arrays at most.
_LEAST_BYTES = {code: np.dtype(scalar).itemsize for code, scalar in SCALARS.items()} | {
    _STRING: 8,
    _ARRAY: 12,
}
_LEAST_ENTRY, _LEAST_TENSOR, _DEPTH = 8 + 4 + 1, 8 + 4 + 4 + 8, 4


class Place(NamedTuple):
    """Where a tensor is.

    Attributes:
        kind: the name of its type, such as ``F32`` or ``Q4_K``.
        shape: its sizes in C order, the last one along the rows.
        start: the offset of its first byte in the file.
        nbytes: its size.
    """

    kind: str
    shape: tuple[int, ...]
    start: int
    nbytes: int


class Header(NamedTuple):
    """What stands before the data.

    Attributes:
        metadata: values by name: NumPy's scalars and arrays, ``bool``, ``str`` and lists of them.
        places: where each tensor is, by name.
    """

    metadata: dict[str, Any]
    places: dict[str, Place]


def block_of(kind: str) -> tuple[int, int]:
    """The numbers of a block of a type of tensors, and its bytes."""
    from gguf import constants

    return constants.GGML_QUANT_SIZES[constants.GGMLQuantizationType[kind]]


class _Cursor:
    """Reads a file from its begin on; ``field`` names what is read, for errors."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.at, self.field = data, 0, "header"

    def fail(self, message: str) -> ValueError:
        return ValueError(f"{self.field}: {message}")

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, count: int) -> memoryview:
        if count > self.left:
            raise self.fail(f"expected {count} bytes at {self.at}, but the file ends at {len(self.data)}")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, format: str) -> Any:
        return struct.unpack("<" + format, self.take(struct.calcsize(format)))[0]

    def text(self) -> str:
        length = self.number("Q")
        if length > self.left:
            raise self.fail(f"a string's length is {length}, and {self.left} bytes follow")
        try:
            return str(self.take(length), "utf-8")
        except UnicodeDecodeError as error:
            raise self.fail(f"a string is not UTF-8: {error}") from None

    def count(self, format: str, least_bytes: int, of: str) -> int:
        """The number of things that follow, each of at least so many bytes."""
        count: int = self.number(format)
        if count * least_bytes > self.left:
            raise self.fail(f"{count} {of} do not fit into the {self.left} bytes that follow")
        return count

    @contextmanager
    def within(self, field: str) -> Any:
        before, self.field = self.field, field
        yield
        self.field = before


def _value(cursor: _Cursor, code: int, depth: int = 0) -> Any:
    if code == _STRING:
        return cursor.text()
    if code == _ARRAY:
        return _array(cursor, depth)
    return _numbers(cursor, code, 1)[0]


def _numbers(cursor: _Cursor, code: int, count: int) -> Any:
    """Numbers of one of the scalar types; bools as a list of Python's."""
    if code not in SCALARS:
        raise cursor.fail(f"type {code} of values is not known")
    dtype = np.dtype(SCALARS[code]).newbyteorder("<")
    raw = cursor.take(count * dtype.itemsize)
    if dtype == np.bool_:
        if any(byte > 1 for byte in raw):
            raise cursor.fail("a bool is neither 0 nor 1")
        return [byte == 1 for byte in raw]
    return np.frombuffer(raw, dtype).astype(SCALARS[code])


def _array(cursor: _Cursor, depth: int) -> Any:
    if depth == _DEPTH:
        raise cursor.fail(f"arrays are nested more than {_DEPTH} deep")
    code = cursor.number("I")
    if code not in _LEAST_BYTES:
        raise cursor.fail(f"type {code} of values is not known")
    count = cursor.count("Q", _LEAST_BYTES[code], "values")
    if code in SCALARS:
        return _numbers(cursor, code, count)
    return [_value(cursor, code, depth + 1) for _ in range(count)]


def _named(cursor: _Cursor, count: int, of: str, read: Callable[[_Cursor], Any]) -> dict[str, Any]:
    """As many named things, read by ``read``."""
    found: dict[str, Any] = {}
    for i in range(count):
        with cursor.within(f"{of} {i}"):
            name = cursor.text()
        with cursor.within(f"{name!r:.80}"):
            if name in found:
                raise cursor.fail("the name comes twice")
            found[name] = read(cursor)
    return found


def require_alignment(value: Any) -> int:
    """The alignment of tensors that the metadata state.

    Raises:
        ValueError: it is not a power of two of at least 8, as uint32.
    """
    whole = isinstance(value, (int, np.uint32)) and not isinstance(value, bool)
    if not whole or value < 8 or int(value).bit_count() != 1 or value > 2**31:
        raise ValueError(f"'general.alignment': expected a power of two of at least 8, got {value!r:.60}")
    return int(value)


def _tensor(cursor: _Cursor) -> Place:
    """A tensor's place, with its offset from the begin of the data."""
    from gguf.constants import GGMLQuantizationType

    axes = cursor.number("I")
    if axes > AXES:
        raise cursor.fail(f"expected at most {AXES} axes, got {axes}")
    shape = tuple(cursor.number("Q") for _ in range(axes))[::-1]
    code, start = cursor.number("I"), cursor.number("Q")
    if code not in list(GGMLQuantizationType):
        raise cursor.fail(f"type {code} of tensors is not known")
    kind = GGMLQuantizationType(code).name
    numbers, nbytes = block_of(kind)
    row = shape[-1] if shape else 1
    if row % numbers:
        raise cursor.fail(f"{kind} has blocks of {numbers} numbers, which do not divide rows of {row}")
    if math.prod(max(n, 1) for n in shape) * nbytes >= 2**63:
        raise cursor.fail(f"shape {shape} is too large for any file")
    return Place(kind, shape, start, math.prod(shape) // numbers * nbytes)


def read_header(data: memoryview) -> Header:
    """The header of a GGUF file.

    Args:
        data: the whole file.

    Raises:
        ValueError: it is not a GGUF file of the known versions and byte order, or is damaged; the message names the
            field.
    """
    cursor = _Cursor(data)
    if bytes(data[:4]) != b"GGUF":
        raise ValueError(f"expected a GGUF file, which begins with b'GGUF', got {bytes(data[:4])!r}")
    cursor.at = 4
    version = cursor.number("I")
    if version not in _VERSIONS:
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big") in _VERSIONS
        found = "the byte order is big-endian" if swapped else f"got version {version}"
        raise cursor.fail(f"expected version 2 or 3 of the format in little-endian order, {found}")
    tensors = cursor.count("Q", _LEAST_TENSOR, "tensors")
    entries = cursor.count("Q", _LEAST_ENTRY, "entries of metadata")
    metadata = _named(cursor, entries, "entry of metadata", lambda c: _value(c, c.number("I")))
    alignment = require_alignment(metadata.get("general.alignment", ALIGNMENT))
    places = _named(cursor, tensors, "tensor", _tensor)
    begin = cursor.at + -cursor.at % alignment
    return Header(metadata, _checked(places, begin, alignment, len(data)))


def _checked(places: dict[str, Place], begin: int, alignment: int, size: int) -> dict[str, Place]:
    """The places with offsets in the file, in which they lie apart from each other."""
    end, before, found = 0, "", {}
    for name, one in sorted(places.items(), key=lambda item: (item[1].start, item[1].nbytes)):
        if one.start % alignment:
            raise ValueError(
                f"{name!r}: the offset {one.start} is not a multiple of the alignment {alignment}"
            )
        if begin + one.start + one.nbytes > size:
            raise ValueError(
                f"{name!r}: {one.nbytes} bytes at {begin + one.start} end beyond the file's end at {size}"
            )
        if one.nbytes and one.start < end:
            raise ValueError(f"{name!r}: it begins at {begin + one.start}, within {before!r}")
        if one.nbytes:
            end, before = one.start + one.nbytes, name
        found[name] = one._replace(start=begin + one.start)
    return {name: found[name] for name in places}
