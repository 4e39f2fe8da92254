"""What a launch takes of a GPU that need not be here: the warps that a multiprocessor holds, bytes of its memory."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NamedTuple

from ..device import nvrtc
from ..device.cuda.architectures import capability, is_for_90a
from ..device.interface import CompilerFailure
from ..errors import DeviceError
from ..text import Dim3
from ..text.signature import Unit


class _Multiprocessor(NamedTuple):
    warps: int
    blocks: int
    shared: int


#: By compute capability (CUDA C++ Programming Guide, "Compute Capabilities").
_MULTIPROCESSORS = {
    (7, 0): _Multiprocessor(64, 32, 96),
    (7, 5): _Multiprocessor(32, 16, 64),
    (8, 0): _Multiprocessor(64, 32, 164),
    (8, 6): _Multiprocessor(48, 16, 100),
    (8, 7): _Multiprocessor(48, 16, 164),
    (8, 9): _Multiprocessor(48, 24, 100),
    (9, 0): _Multiprocessor(64, 32, 228),
    (10, 0): _Multiprocessor(64, 32, 228),
    (12, 0): _Multiprocessor(48, 24, 100),
}
_REGISTERS = 65536
#: Registers are given to warps by so many, and from 8.0 on each block needs so many bytes of shared memory for itself.
_REGISTER_UNIT, _OWN_SHARED, _SHARED_UNIT = 256, 1024, 128
_USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")
_SPILLED = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
#: Bytes of memory that a GPU moves in a second, as NVIDIA states them.
BANDWIDTHS = {
    "V100": 0.9e12,
    "T4": 0.32e12,
    "A100": 2.039e12,
    "L4": 0.3e12,
    "RTX 3090": 0.936e12,
    "RTX 4090": 1.008e12,
    "H100": 3.35e12,
    "H200": 4.8e12,
    "B200": 8e12,
    "RTX 5090": 1.792e12,
}


@dataclass(frozen=True)
class Occupancy:
    """The blocks and warps of a kernel that a multiprocessor holds at a time.

    Attributes:
        warps: their number.
        blocks: the number of blocks.
        limit: what allows no more: ``"threads"``, ``"blocks"``, ``"registers"`` or ``"shared memory"``.
        registers: per thread; None where no NVRTC tells.
        shared: bytes of shared memory per block, static and dynamic.
        most: the warps that a multiprocessor can hold.
        spilled: bytes per thread that are stored to memory and loaded again for want of registers; None where no NVRTC
            tells.
    """

    warps: int
    blocks: int
    limit: str
    registers: int | None
    shared: int
    most: int = 64
    spilled: int | None = None

    @property
    def share(self) -> float:
        """Of the warps that a multiprocessor can hold."""
        return self.warps / self.most


class Cost(NamedTuple):
    """What a launch moves, of all its blocks, if they are like those that were traced.

    Attributes:
        moved: bytes of the sectors of global memory that requests touch.
        least: bytes that they would touch if each were coalesced.
        conflicts: turns of the banks of shared memory beyond the least.
        seconds: the time that the GPU's memory takes to move as many as ``least``.
    """

    moved: int
    least: int
    conflicts: int
    seconds: float


def _used(unit: Unit, arch: str) -> tuple[int | None, int, int | None]:
    """Registers per thread, bytes of static shared memory and bytes spilled, as the GPU's assembler tells."""
    name = "sm_90a" if arch == "sm_90" and is_for_90a(unit) else arch
    try:
        log = nvrtc.compile(unit.text, name, options=["--ptxas-options=-v"]).log
    except (DeviceError, CompilerFailure):
        return None, 0, None
    match, spilled = _USED.search(log), _SPILLED.search(log)
    found = (int(match[1]), int(match[2] or 0)) if match else (None, 0)
    return *found, int(spilled[1]) + int(spilled[2]) if spilled else None


def occupancy(unit: Unit, block: Dim3, dynamic_shared: int, arch: str = "sm_90") -> Occupancy:
    """The occupancy of a launch.

    Args:
        unit: the kernel.
        block: threads of a block along each axis.
        dynamic_shared: bytes of dynamic shared memory per block.
        arch: the architecture of the GPU, which need not be here.

    Raises:
        DeviceError: the architecture is not known.
    """
    numbers = capability(arch)
    room = _MULTIPROCESSORS[numbers]
    registers, static, spilled = _used(unit, arch)
    warps, shared = -(-math.prod(block) // 32), static + dynamic_shared
    limits = {"threads": room.warps // warps, "blocks": room.blocks}
    if registers:
        per_warp = -(-32 * registers // _REGISTER_UNIT) * _REGISTER_UNIT
        limits["registers"] = _REGISTERS // per_warp // warps
    own = _OWN_SHARED if numbers >= (8, 0) else 0
    taken = -(-(shared + own) // _SHARED_UNIT) * _SHARED_UNIT
    limits["shared memory"] = room.shared * 1024 // max(taken, 1)
    limit = min(limits, key=lambda name: limits[name])
    blocks = limits[limit]
    return Occupancy(blocks * warps, blocks, limit, registers, shared, room.warps, spilled)
