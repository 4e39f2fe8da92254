"""Packing of a launch's arguments for the host's runtimes, by the compiled kernel's sizes of its parameters."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ... import dtypes
from ...errors import DeviceError, LaunchError
from ...text import Dim3
from ...text.signature import Param, Unit
from ...text.variables import device_variables
from ..interface import Tiles

#: The first arguments of every launch: grid, block and bytes of shared memory.
GRID = "6IQ"
#: The bytes of these.
HEAD = struct.calcsize(f"={GRID}")
#: The first word of every tensor map, by which kernels tell it from anything else.
_TENSOR_MAP = 0x70616D726F736E65
_MAP = struct.Struct("16Q")


class Kernel(ctypes.Structure):
    _fields_ = (
        ("abi", ctypes.c_uint),
        ("param_count", ctypes.c_uint),
        ("param_sizes", ctypes.POINTER(ctypes.c_uint)),
    )


class _Variable(ctypes.Structure):
    _fields_ = (("at", ctypes.c_void_p), ("bytes", ctypes.c_ulonglong))


class _Param(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_uint),
        ("offset", ctypes.c_uint),
        ("axes", ctypes.c_uint),
        ("itemsize", ctypes.c_uint),
        ("written", ctypes.c_uint),
        ("name", ctypes.c_char_p),
    )


#: Called with the file of each library before it is loaded, for programs whose kernels are not trusted.
before_loading: list[Callable[[Path], None]] = []


def load(path: Path, bundled: bool = False) -> ctypes.CDLL:
    for check in before_loading:
        check(path)
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        folder, variable = ("temporary", "TMPDIR") if bundled else ("cache's", "CUKERN_CACHE_DIR")
        advice = (
            f"where the {folder} folder forbids programs (noexec), set {variable} to one that allows them"
        )
        if (most := _mappings_used_up()) is not None:
            advice = f"this process has as many memory mappings as it may have, {most} (vm.max_map_count)"
        raise DeviceError(f"what was compiled for the host cannot be loaded: {error}; {advice}") from error


def _mappings_used_up() -> int | None:
    """The memory mappings that a process may have, if this one has nearly all of them."""
    try:
        most = int(Path("/proc/sys/vm/max_map_count").read_text())
        with open("/proc/self/maps", "rb") as lines:
            return most if sum(1 for _ in lines) > most - 16 else None
    except OSError:
        return None


def variable_addresses(library: ctypes.CDLL, unit: Unit) -> dict[str, tuple[int, int]]:
    """The address and the bytes of each variable of a unit, in its compiled library."""
    variables = () if unit.trusted else device_variables(unit.text)
    if not variables:
        return {}
    table = (_Variable * len(variables)).in_dll(library, "cukern_variables")
    return {one.name: (int(row.at), int(row.bytes)) for one, row in zip(variables, table, strict=True)}


def _bits(dtype: dtypes.DType, value: float) -> int:
    with np.errstate(over="ignore"):
        return int(np.asarray(value, dtype).view(dtypes.info(dtype).bits))


def _struct_check(kernel: str, param: Param, size: int) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if len(value) != size:
            raise LaunchError(
                f"{kernel}: parameter {param.name}: {param.type_text} has {size} bytes, got {len(value)}"
            )
        return value

    return check


def _layout(kernel: str, param: Param, size: int) -> tuple[str, Callable[[Any], Any] | None, int]:
    """How to pack a parameter of ``size`` bytes: its struct format, conversion, and expected size."""
    padding = -size % 8
    if param.kind in ("pointer", "table"):
        return "Q", id, 8
    if param.kind == "view":
        expected = 8 + 16 * param.ndim
        return f"Q{expected - 8}x", id, expected
    if param.kind == "struct" or param.dtype is None:
        return f"{size}s{padding}x", _struct_check(kernel, param, size), size
    row = dtypes.info(param.dtype)
    convert: Callable[[Any], Any] | None = partial(_bits, row.dtype) if row.extension else None
    if row.kind == "c":
        convert = row.as_bytes
    return f"{row.format}{padding}x", convert, row.itemsize


class Packing:
    """The layout of a kernel's arguments.

    Attributes:
        params: the signature's parameters.
        sizes: the bytes of each.
        table: their description for a runtime, which must live as long as the kernel.
        nbytes: the bytes of all packed parameters.
        codes: the struct format of each.
        converters: the conversion of each value to one that the format takes; None for no conversion.
    """

    def __init__(self, unit: Unit, kernel: Kernel) -> None:
        name = unit.signature.name
        self.sizes = sizes = [kernel.param_sizes[i] for i in range(kernel.param_count)]
        offset, self.table = 0, (_Param * max(1, len(sizes)))()
        self.codes: list[str] = []
        self.converters: list[Callable[[Any], Any] | None] = []
        for i, (param, size) in enumerate(zip(unit.signature.params, sizes, strict=True)):
            code, convert, expected = _layout(name, param, size)
            if size != expected:
                raise LaunchError(
                    f"{name}: parameter {param.name}: {param.type_text} has {size} bytes for the compiler "
                    f"and {expected} by its signature"
                )
            itemsize = param.dtype.itemsize if param.dtype is not None else 0
            kind = {"pointer": 1, "view": 2, "table": 1}.get(param.kind, 0)
            written = kind != 0 and not param.const and param.kind != "table"
            if param.kind == "table":
                itemsize = 8
            self.table[i] = _Param(kind, offset, param.ndim, itemsize, written, param.name.encode())
            self.codes.append(code)
            offset += -(-size // 8) * 8
            self.converters.append(convert)
        self.nbytes = offset
        self.params = unit.signature.params
        self._pack = struct.Struct(f"={GRID}{''.join(self.codes)}").pack

    def arrays(self, packed: bytes) -> list[np.ndarray[Any, Any] | None]:
        """The array of each parameter of a packed launch that has one."""
        found: list[np.ndarray[Any, Any] | None] = []
        for param, row in zip(self.params, self.table, strict=False):
            array = None
            if param.kind in ("pointer", "view", "table"):
                (address,) = struct.unpack_from("=Q", packed, HEAD + row.offset)
                array = ctypes.cast(address, ctypes.py_object).value
            found.append(array)
        return found

    def stored(self, packed: bytes) -> list[tuple[int, int]]:
        """The address of each array that a packed launch may store to by a tensor map, and its parameter's number."""
        found: list[tuple[int, int]] = []
        for i, (param, row) in enumerate(zip(self.params, self.table, strict=False)):
            if param.kind == "struct":
                start = HEAD + row.offset
                found += ((i, address) for address in _stored(packed[start : start + self.sizes[i]]))
        return found

    def numbers(self, packed: bytes) -> list[int]:
        """Each parameter of a packed launch that is a whole number; 0 in the place of others."""
        return [
            int(np.frombuffer(packed, param.dtype, 1, HEAD + row.offset)[0])
            if param.kind == "scalar" and param.dtype is not None and param.dtype.kind in "iub"
            else 0
            for param, row in zip(self.params, self.table, strict=False)
        ]

    def pack(self, grid: Dim3, block: Dim3, shared: int, values: Sequence[Any]) -> bytes:
        """The bytes of a launch. A number too large for a float is infinite."""
        pairs = zip(self.converters, values, strict=True)
        items = [value if convert is None else convert(value) for convert, value in pairs]
        try:
            return self._pack(*grid, *block, shared, *items)
        except OverflowError:
            items = [param.rounded(item) for param, item in zip(self.params, items, strict=True)]
            return self._pack(*grid, *block, shared, *items)


def tensor_map(tiles: Tiles) -> bytes:
    """The tensor map of tiles: 128 bytes as CUDA's, with contents of the host's own, the axes innermost first."""
    axes = len(tiles.shape)

    def packed(values: Sequence[int]) -> list[int]:
        return [*reversed(values), *[0] * (5 - len(values))]

    row = dtypes.info(tiles.dtype)
    number = "uif".index(row.kind) + (row.dtype == dtypes.bfloat16)
    kind = axes | row.itemsize << 8 | tiles.swizzle << 16 | tiles.writes << 32 | number << 40
    boxes = sum(size << 12 * axis for axis, size in enumerate(reversed(tiles.box)))
    strides = packed((*tiles.strides, row.itemsize))
    return _MAP.pack(_TENSOR_MAP, tiles.address, kind, *packed(tiles.shape), *strides, boxes, 0, 0)


def _stored(struct_bytes: bytes) -> Iterator[int]:
    """The addresses of the arrays that a kernel may store to by the tensor maps of which a struct consists."""
    for at in range(0, len(struct_bytes) - _MAP.size + 1, _MAP.size):
        mark, address, kind = struct.unpack_from("3Q", struct_bytes, at)
        if mark == _TENSOR_MAP and kind >> 32 & 1:
            yield address
