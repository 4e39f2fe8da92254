"""Launches that work on many arrays at once: the addresses and sizes are parameters of the kernel.

Nothing is copied to the device for them, so that a CUDA graph can hold such a launch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..array import Array
from ..device import Device
from ..dtypes import DType
from ..kernel import Kernel
from ..kernel.arguments import address

#: Bytes that CUDA takes of parameters, and those that are kept for what are no arrays.
_PARAMETERS, _NUMBERS = 4096, 128
#: Arrays of a launch for which a kernel with few parameters does.
_FEW = 8
_UNUSED = 2**31 - 1


@dataclass(frozen=True)
class Geometry:
    """How arrays are cut up: elements of a piece, threads of a block, elements of an access (None: 16 bytes)."""

    piece: int
    block: int
    vec: int | None


_GEOMETRY = {"simt": Geometry(4096, 256, None), "serial": Geometry(16384, 1, 1)}


@dataclass(frozen=True)
class Batch:
    """Arrays of one launch.

    Attributes:
        members: the numbers of the arrays among those that :func:`batches` was given.
        variables: what the kernel's template is to know.
        blocks: one for each piece of an array.
        sizes: the parameter that tells the sizes.
    """

    members: tuple[int, ...]
    variables: dict[str, Any]
    blocks: int
    sizes: bytes

    @property
    def capacity(self) -> int:
        """The arrays that a launch of this form may have."""
        capacity: int = self.variables["capacity"]
        return capacity

    def addresses(self, arrays: Sequence[Array]) -> bytes:
        """The addresses of the members, given in their order, as a parameter."""
        device = arrays[0].device
        found = (
            [address(one._data) for one in arrays]
            if device.style == "serial"
            else [one._operand for one in arrays]
        )
        packed: bytes = _PACK[self.capacity](*found, *[0] * (self.capacity - len(found)))
        return packed

    def prepare(
        self, kernel: Kernel, device: Device, tail: Sequence[Any], structs: int, **variables: Any
    ) -> Any:
        """The launch of a kernel.

        Args:
            tail: the last parameters before the sizes.
            structs: how many of the parameters before these are the addresses of arrays.
        """
        bound = kernel.bind(device, **{**self.variables, **variables})
        return bound.function.prepare(
            (self.blocks, 1, 1),
            (bound.block[0], 1, 1),
            0,
            (*tail, self.sizes),
            structs=[8 * self.capacity] * structs,
        )


class _Packers(dict[int, Any]):
    def __missing__(self, capacity: int) -> Any:
        made = self[capacity] = struct.Struct(f"={capacity}Q").pack
        return made


_PACK = _Packers()


def batches(device: Device, dtype: DType, widest: DType, sizes: Sequence[int], pointers: int) -> list[Batch]:
    """The launches for arrays of one device and dtype.

    Args:
        widest: the dtype of the arrays of which an access takes 16 bytes: where these are float32, half types are
            moved 8 bytes at a time, so that neighbouring threads have neighbouring memory of both.
        sizes: the elements of each array, none 0.
        pointers: how many arrays there are of each size.
    """
    geometry = _GEOMETRY[device.style]
    most = (_PARAMETERS - _NUMBERS) // (8 * pointers + 12) // 2 * 2
    capacity = _FEW if len(sizes) <= _FEW else most
    variables = {
        "elem": dtype,
        "capacity": capacity,
        "piece": geometry.piece,
        "block": geometry.block,
        "vec": geometry.vec or 16 // widest.itemsize,
    }
    made = []
    for start in range(0, len(sizes), capacity):
        part = list(sizes[start : start + capacity])
        firsts, blocks = [], 0
        for size in part:
            firsts.append(blocks)
            blocks += -(-size // geometry.piece)
        unused = capacity - len(part)
        table = struct.pack(f"={capacity}q{capacity}i", *part, *[0] * unused, *firsts, *[_UNUSED] * unused)
        made.append(Batch(tuple(range(start, start + len(part))), variables, blocks, table))
    return made
