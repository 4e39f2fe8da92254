"""Occupancy: the warps of a kernel that a multiprocessor holds at a time."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from ..device import nvrtc
from ..device.cuda.architectures import is_for_90a
from ..device.interface import CompilerFailure
from ..errors import DeviceError
from ..text import Dim3
from ..text.signature import Unit

#: Of a multiprocessor of compute capability 9.0 (CUDA C++ Programming Guide, "Compute Capabilities").
_WARPS, _BLOCKS, _REGISTERS, _SHARED = 64, 32, 65536, 228 * 1024
#: Registers are given to warps by so many, and each block needs so many bytes of shared memory for itself.
_REGISTER_UNIT, _OWN_SHARED, _SHARED_UNIT = 256, 1024, 128
_USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


@dataclass(frozen=True)
class Occupancy:
    """The blocks and warps of a kernel that a multiprocessor of compute capability 9.0 holds at a time.

    Attributes:
        warps: their number, of at most 64.
        blocks: the number of blocks.
        limit: what allows no more: ``"threads"``, ``"blocks"``, ``"registers"`` or ``"shared memory"``.
        registers: per thread; None where no NVRTC tells.
        shared: bytes of shared memory per block, static and dynamic.
    """

    warps: int
    blocks: int
    limit: str
    registers: int | None
    shared: int

    @property
    def share(self) -> float:
        """Of the warps that a multiprocessor can hold."""
        return self.warps / _WARPS


def _used(unit: Unit) -> tuple[int | None, int]:
    """Registers per thread and bytes of static shared memory, as the GPU's assembler tells."""
    arch = "sm_90a" if is_for_90a(unit) else "sm_90"
    try:
        log = nvrtc.compile(unit.text, arch, options=["--ptxas-options=-v"]).log
    except (DeviceError, CompilerFailure):
        return None, 0
    match = _USED.search(log)
    return (int(match[1]), int(match[2] or 0)) if match else (None, 0)


def occupancy(unit: Unit, block: Dim3, dynamic_shared: int) -> Occupancy:
    """The occupancy of a launch.

    Args:
        unit: the kernel.
        block: threads of a block along each axis.
        dynamic_shared: bytes of dynamic shared memory per block.
    """
    registers, static = _used(unit)
    warps, shared = -(-math.prod(block) // 32), static + dynamic_shared
    limits = {"threads": _WARPS // warps, "blocks": _BLOCKS}
    if registers:
        per_warp = -(-32 * registers // _REGISTER_UNIT) * _REGISTER_UNIT
        limits["registers"] = _REGISTERS // per_warp // warps
    taken = -(-(shared + _OWN_SHARED) // _SHARED_UNIT) * _SHARED_UNIT
    limits["shared memory"] = _SHARED // taken
    limit = min(limits, key=lambda name: limits[name])
    blocks = limits[limit]
    return Occupancy(blocks * warps, blocks, limit, registers, shared)
