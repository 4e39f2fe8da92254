"""What a launch takes of a GPU that need not be here: warps, registers, bytes of its memory, its arithmetic."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NamedTuple

from ..device import nvrtc
from ..device.cuda.architectures import capability, is_for_90a
from ..device.interface import MISSING_HEADER, CompilerFailure
from ..errors import DeviceError, require_choice
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


class Gpu(NamedTuple):
    """The most that a GPU does in a second, as NVIDIA states it for matrices that are not sparse and sums in float32.

    Attributes:
        bandwidth: bytes of memory.
        rates: floating-point operations by kind, as a trace counts them; without those that it cannot do at all.
    """

    bandwidth: float
    rates: dict[str, float]


#: Arithmetic in 1e12 operations a second: of the CUDA cores, and of tensor cores by the type of the factors.
_RATES = ("float32", "float64", "float16", "tensor float16", "tensor tf32", "tensor float8", "tensor float64")


def _gpu(bandwidth: float, *rates: float) -> Gpu:
    return Gpu(
        bandwidth * 1e12, {kind: 1e12 * rate for kind, rate in zip(_RATES, rates, strict=True) if rate}
    )


#: By name, the modules for servers where there are several (datasheets of these GPUs).
GPUS = {
    "V100": _gpu(0.9, 15.7, 7.8, 31.4, 125, 0, 0, 0),
    "T4": _gpu(0.32, 8.1, 0.25, 16.2, 65, 0, 0, 0),
    "A100": _gpu(2.039, 19.5, 9.7, 78, 312, 156, 0, 19.5),
    "L4": _gpu(0.3, 30.3, 0.49, 30.3, 121, 60, 242, 0),
    "RTX 3090": _gpu(0.936, 35.6, 0.56, 35.6, 71, 35.6, 0, 0),
    "RTX 4090": _gpu(1.008, 82.6, 1.3, 82.6, 165.2, 82.6, 330.3, 0),
    "H100": _gpu(3.35, 67, 34, 134, 989, 495, 1979, 67),
    "H200": _gpu(4.8, 67, 34, 134, 989, 495, 1979, 67),
    "B200": _gpu(8, 75, 37, 150, 2250, 1125, 4500, 37),
    "RTX 5090": _gpu(1.792, 104.8, 1.64, 104.8, 209.5, 104.8, 419, 0),
}


def gpu_named(name: str, of: str) -> Gpu:
    """A GPU of :data:`GPUS`.

    Raises:
        ValueError: it is not known; the message begins with ``of``.
    """
    require_choice(f"{of}: gpu", name, GPUS)
    return GPUS[name]


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
        unknown: why none tells; static shared memory is not counted then.
    """

    warps: int
    blocks: int
    limit: str
    registers: int | None
    shared: int
    most: int = 64
    spilled: int | None = None
    unknown: str = ""

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
        missed: accesses for which the trace had no room, and which none of these numbers has.
    """

    moved: int
    least: int
    conflicts: int
    seconds: float
    missed: int


@dataclass(frozen=True)
class Roofline:
    """The least time that a launch takes of a GPU, by its memory and by its arithmetic.

    Source: Williams et al., Roofline: An Insightful Visual Performance Model for Multicore Architectures, 2009.

    Attributes:
        flops: floating-point operations of all blocks; None if they could not be counted.
        calls: beside these, calls of functions such as ``exp`` and ``sqrt``.
        bytes: of the sectors of global memory that the launch reads, and that it writes, each once, as if caches kept
            all.
        exact: whether all accesses of all blocks were traced; else ``bytes`` is estimated from those that were.
        memory: the seconds that the GPU's memory takes for the bytes.
        arithmetic: the seconds that its cores take for the operations, those of one kind beside those of others; None
            if they were not counted.
        missed: accesses for which the trace had no room, and which ``bytes`` and ``memory`` do not have.
    """

    flops: int | None
    calls: int
    bytes: int
    exact: bool
    memory: float
    arithmetic: float | None
    missed: int

    @property
    def intensity(self) -> float | None:
        """Operations per byte; None if they were not counted or nothing is moved."""
        return None if self.flops is None or not self.bytes else self.flops / self.bytes

    @property
    def bound(self) -> str:
        """What takes longer: ``"memory"`` or ``"arithmetic"``; ``"unknown"`` if operations were not counted."""
        if self.arithmetic is None:
            return "unknown"
        return "arithmetic" if self.arithmetic > self.memory else "memory"

    @property
    def seconds(self) -> float:
        """The longer of the two."""
        return max(self.memory, self.arithmetic or 0.0)


def arithmetic_seconds(operations: dict[str, int], gpu: str, of: str) -> float:
    """The time that a GPU's cores take for operations by kind: CUDA cores for double, those for others, tensor cores.

    Raises:
        ValueError: it has no such cores; the message begins with ``of``.
    """
    rates, units = GPUS[gpu].rates, dict.fromkeys(("float64", "tensor", "float"), 0.0)
    for kind, count in operations.items():
        if not count or kind == "calls":
            continue
        if kind not in rates:
            raise ValueError(f"{of}: gpu: the {gpu} has no tensor cores for {kind.removeprefix('tensor ')}")
        unit = kind if kind == "float64" else "tensor" if kind.startswith("tensor") else "float"
        units[unit] += count / rates[kind]
    return max(units.values())


def _used(unit: Unit, arch: str) -> tuple[int | None, int, int | None, str]:
    """Registers per thread, bytes of static shared memory and bytes spilled, as the assembler tells; or why not."""
    name = "sm_90a" if arch == "sm_90" and is_for_90a(unit) else arch
    try:
        log = nvrtc.compile(unit.text, name, options=["--ptxas-options=-v"]).log
    except DeviceError:
        return None, 0, None, "there is no NVRTC"
    except CompilerFailure as error:
        missing = MISSING_HEADER.search(error.log)
        why = f"{missing[1]} is not on this machine" if missing else "NVRTC does not compile the kernel"
        return None, 0, None, why
    match, spilled = _USED.search(log), _SPILLED.search(log)
    found = (int(match[1]), int(match[2] or 0)) if match else (None, 0)
    return (
        *found,
        int(spilled[1]) + int(spilled[2]) if spilled else None,
        "" if match else "NVRTC does not tell",
    )


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
    registers, static, spilled, unknown = _used(unit, arch)
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
    return Occupancy(blocks * warps, blocks, limit, registers, shared, room.warps, spilled, unknown)
