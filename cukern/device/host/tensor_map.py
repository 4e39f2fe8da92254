"""Tensor maps of the host: the same 128 bytes as CUDA's, with contents of its own."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from ... import dtypes
from ..interface import Tiles

#: The first word of every tensor map, by which kernels tell it from anything else.
_TENSOR_MAP = 0x70616D726F736E65
_MAP = struct.Struct("16Q")


def tensor_map(tiles: Tiles) -> bytes:
    """The tensor map of tiles, with the axes innermost first, as in CUDA."""
    axes = len(tiles.shape)

    def packed(values: Sequence[int]) -> list[int]:
        return [*reversed(values), *[0] * (5 - len(values))]

    row = dtypes.info(tiles.dtype)
    number = "uif".index(row.kind) + (row.dtype == dtypes.bfloat16)
    kind = axes | row.itemsize << 8 | tiles.swizzle << 16 | tiles.writes << 32 | number << 40
    boxes = sum(size << 12 * axis for axis, size in enumerate(reversed(tiles.box)))
    strides = packed((*tiles.strides, row.itemsize))
    return _MAP.pack(_TENSOR_MAP, tiles.address, kind, *packed(tiles.shape), *strides, boxes, 0, 0)


def stored(struct_bytes: bytes) -> Iterator[int]:
    """The addresses of the arrays that a kernel may store to by the tensor maps of which a struct consists."""
    for at in range(0, len(struct_bytes) - _MAP.size + 1, _MAP.size):
        mark, address, kind = struct.unpack_from("3Q", struct_bytes, at)
        if mark == _TENSOR_MAP and kind >> 32 & 1:
            yield address
