"""Launches on many arrays at once: their addresses and sizes are kernel parameters.

Nothing is copied to the device for them, so a CUDA graph can contain such a launch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..array import Array
from ..array.layout import address
from ..device import Device
from ..dtypes import DType
from ..kernel import Kernel
from ..kernel.plan import on, serial

_COPIES = Kernel("optim/copies.cu", block=256, name="copies")
#: The most bytes of a kernel's parameters.
_PARAMETERS = 4096
#: Bytes reserved for parameters other than arrays.
_NUMBERS = 128
#: The most arrays per launch for a kernel with few parameters.
_FEW = 8
_UNUSED = 2**31 - 1


@dataclass(frozen=True)
class Geometry:
    """How arrays are split: elements per piece, threads per block, elements per access (None: 16 bytes)."""

    piece: int
    block: int
    vec: int | None


_GEOMETRY = {"simt": Geometry(4096, 256, None), "serial": Geometry(16384, 1, 1)}


@dataclass(frozen=True)
class Batch:
    """The arrays of one launch.

    Attributes:
        members: the indices of the arrays in the arguments of :func:`batches`.
        variables: template variables of the kernel.
        blocks: the number of blocks, one for each piece of an array.
        sizes: the kernel parameter with the sizes.
    """

    members: tuple[int, ...]
    variables: dict[str, Any]
    blocks: int
    sizes: bytes

    @property
    def capacity(self) -> int:
        """The most arrays of such a launch."""
        return self.variables["capacity"]

    def addresses(self, arrays: Sequence[Array]) -> bytes:
        """The addresses of the members, in their order, as a kernel parameter."""
        device = arrays[0].device
        addresses = (
            [address(array._data) for array in arrays]
            if serial(device)
            else [array._operand for array in arrays]
        )
        return _PACK[self.capacity](*addresses, *[0] * (self.capacity - len(addresses)))

    def prepare(
        self, kernel: Kernel, device: Device, tail: Sequence[Any], structs: int, **variables: Any
    ) -> Any:
        """Prepare the launch of a kernel.

        Args:
            tail: the last parameters before the sizes.
            structs: the number of leading parameters that are addresses of arrays.
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
        result = self[capacity] = struct.Struct(f"={capacity}Q").pack
        return result


_PACK = _Packers()


def batches(device: Device, dtype: DType, widest: DType, sizes: Sequence[int], pointers: int) -> list[Batch]:
    """The launches for arrays of one device and dtype.

    Args:
        widest: the dtype of the arrays that are accessed 16 bytes at a time. With float32, half types are accessed
            8 bytes at a time, so that accesses to both are coalesced.
        sizes: the number of elements of each array, none 0.
        pointers: the number of arrays of each size.
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
    result = []
    for start in range(0, len(sizes), capacity):
        part = list(sizes[start : start + capacity])
        firsts, blocks = [], 0
        for size in part:
            firsts.append(blocks)
            blocks += -(-size // geometry.piece)
        unused = capacity - len(part)
        table = struct.pack(f"={capacity}q{capacity}i", *part, *[0] * unused, *firsts, *[_UNUSED] * unused)
        result.append(Batch(tuple(range(start, start + len(part))), variables, blocks, table))
    return result


class Copies:
    """Copies of arrays of given dtype and sizes to others, in few launches.

    Args:
        sizes: the number of elements of each array, none 0.
    """

    def __init__(self, device: Device, dtype: DType, sizes: Sequence[int]) -> None:
        self._device = device
        copies = batches(device, dtype, dtype, sizes, 2)
        self._launches = [(batch, batch.prepare(_COPIES, device, [], 2)) for batch in copies]

    def __call__(self, given: Sequence[Array], result: Sequence[Array]) -> None:
        """Copy the memory of ``given``, arrays without gaps, to that of ``result``, which share none with them."""
        for one in (*given, *result):
            one._planned()
        with on(self._device):
            for batch, launch in self._launches:
                sides = ([side[i] for i in batch.members] for side in (given, result))
                launch(*map(batch.addresses, sides))
