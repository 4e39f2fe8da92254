"""GPU architectures: targets of ahead-of-time compilation, and the GPUs that run them."""

from __future__ import annotations

import re
from typing import Any

from ...errors import DeviceError
from ...text.signature import Unit
from .. import nvrtc
from ..bundle_file import Target
from ..interface import CompilerFailure, Properties
from . import driver

#: Instructions of compute capability 9.0 alone, the header that has them, and its functions that use them.
_FOR_90A = (
    (
        "wgmma.",
        "prelude/wgmma.cuh",
        {"wgmma", "wgmma_line", "wgmma_fence", "wgmma_commit", "wgmma_wait", "wgmma_made"},
    ),
    ("setmaxnreg.", "prelude/warp_roles.cuh", {"give_registers", "take_registers"}),
)
_NAME = re.compile(r"sm_([1-9][0-9]?)([0-9])a?")
#: CuPy compiles with this option too, so that a kernel's values do not depend on who compiled it.
_OPTIONS = ("-ftz=true",)

#: A GPU of each compute capability, its multiprocessors, and the most bytes of shared memory of a block.
_GPUS = {
    (7, 0): ("V100", 80, 98304),
    (7, 5): ("T4", 40, 65536),
    (8, 0): ("A100", 108, 166912),
    (8, 6): ("RTX 3090", 82, 101376),
    (8, 7): ("Orin", 16, 166912),
    (8, 9): ("RTX 4090", 128, 101376),
    (9, 0): ("H100 or H200", 132, 232448),
    (10, 0): ("B200", 148, 232448),
    (12, 0): ("RTX 5090", 170, 101376),
}


def is_for_90a(unit: Unit) -> bool:
    """Whether a kernel has instructions that the compiler takes for compute capability 9.0 alone."""
    return any(
        not functions.isdisjoint(unit.calls) if f'"{header}"' in unit.text else instruction in unit.text
        for instruction, header, functions in _FOR_90A
    )


def capability(name: str) -> tuple[int, int]:
    """The compute capability of an architecture such as ``sm_90`` or ``sm_90a``.

    Raises:
        DeviceError: it is no name of an architecture whose GPUs are known here.
    """
    match = _NAME.fullmatch(name)
    numbers = (int(match[1]), int(match[2])) if match else (0, 0)
    if numbers not in _GPUS:
        known = ", ".join(f"sm_{major}{minor}" for major, minor in _GPUS)
        raise DeviceError(f"--arch: expected host, host:LEVEL or one of {known}, got {name!r}")
    return numbers


def properties(name: str, multiprocessors: int | None = None, shared: int | None = None) -> Properties:
    """The limits of a GPU of an architecture, which kernels are planned for.

    Args:
        name: the architecture.
        multiprocessors: the GPU's, where they are not those of the GPU in the table.
        shared: the most bytes of shared memory of a block, likewise.
    """
    numbers = capability(name)
    gpu, processors, most = _GPUS[numbers]
    return Properties(
        name=gpu,
        max_threads_per_block=1024,
        max_block=(1024, 1024, 64),
        max_grid=(2**31 - 1, 65535, 65535),
        max_shared_memory_per_block=shared or most,
        warp_size=32,
        multiprocessors=multiprocessors or processors,
        max_blocks_per_cluster=most_blocks_per_cluster(numbers[0]),
        compute_capability=numbers,
    )


def most_blocks_per_cluster(major: int) -> int:
    """The portable cluster size of a compute capability."""
    return 8 if major >= 9 else 1


def target(name: str) -> Target:
    """What NVRTC compiles for an architecture.

    Raises:
        DeviceError: there is no NVRTC, or it does not compile for the architecture.
    """
    major, minor = capability(name)
    try:
        nvrtc.compile("", f"sm_{major}{minor}")
    except CompilerFailure as failure:
        raise DeviceError(
            f"--arch: NVRTC {'.'.join(map(str, nvrtc.version()))} does not compile for {name}: {failure.log}"
        ) from None
    facts = {"compute capability": f"{major}.{minor}", "nvrtc": "{}.{}".format(*nvrtc.version())}
    return Target(f"sm_{major}{minor}", facts)


def compiled(unit: Unit, name: str) -> bytes:
    """The machine code of a unit for an architecture, such as CuPy would compile on its GPU.

    Raises:
        CompilerFailure: NVRTC refuses the text.
    """
    major, minor = capability(name)
    # Kernels wait for the one before also where a driver before 12.3 starts none early: then there is none to wait for.
    waits = major >= 9 and driver.may_overlap(unit)
    only = "a" if (major, minor) == (9, 0) and is_for_90a(unit) else ""
    try:
        text = driver.waiting(unit) if waits else unit.text
        options = [*_OPTIONS, nvrtc.PLAIN] if unit.plain else _OPTIONS
        return nvrtc.compile(text, f"sm_{major}{minor}{only}", options=options).cubin
    except CompilerFailure as failure:
        raise CompilerFailure(failure.log.replace(driver.WAIT, "")) from None


def why_not(limits: Properties, runtime: Any, target: Target) -> str | None:
    """Why a GPU cannot run what was compiled for a target; None if it can.

    Args:
        limits: of the GPU.
        runtime: CuPy's module of CUDA's runtime.
        target: the target.
    """
    major, minor = limits.compute_capability
    if target.facts.get("compute capability") != f"{major}.{minor}":
        return f"this GPU, {limits.name}, is of sm_{major}{minor}"
    version, nvrtc_version = runtime.driverGetVersion(), target.facts.get("nvrtc", "")
    if (
        not nvrtc_version.partition(".")[0].isdecimal()
        or int(nvrtc_version.partition(".")[0]) > version // 1000
    ):
        return (
            f"it was compiled by NVRTC {nvrtc_version or 'of an unknown version'}, and the driver is of "
            f"CUDA {version // 1000}.{version % 1000 // 10}"
        )
    return None
