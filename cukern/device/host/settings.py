"""The environment variables by which launches on the host are set."""

from __future__ import annotations

import os
from pathlib import Path

from ...errors import DeviceError


def _quota() -> int:
    """The number of cores that a container may use, by cgroup version 2; a large number without a limit."""
    try:
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return max(1, -(-int(limit) // int(period)))
    except (OSError, ValueError):
        return 1 << 20


def thread_count() -> int:
    """The threads that share the blocks of a launch."""
    chosen = os.environ.get("CUKERN_NUM_THREADS")
    if chosen is None:
        return min(len(os.sched_getaffinity(0)), _quota())
    if not chosen.isdigit() or int(chosen) < 1:
        raise DeviceError(f"CUKERN_NUM_THREADS: expected a number that is at least 1, got {chosen!r}")
    return int(chosen)


def _limit(name: str, default: str, unit: str) -> float:
    """A limit that a variable sets; 0 for none."""
    chosen = os.environ.get(name, default)
    try:
        limit = float(chosen)
    except ValueError:
        limit = -1.0
    if not 0 <= limit < 1e9:
        raise DeviceError(f"{name}: expected {unit}, 0 for no limit, got {chosen!r}")
    return limit


#: What an error says of the variable that :func:`time_limit` reads.
TIME_LIMIT = "CUKERN_KERNEL_TIMEOUT sets the seconds, 0 for no limit"


def time_limit() -> int:
    """The time limit of a user's kernel in nanoseconds; 0 for none."""
    return int(_limit("CUKERN_KERNEL_TIMEOUT", "60", "seconds") * 1e9)


def compiler_limits() -> tuple[float, float]:
    """The seconds and the GiB of memory that a compiler may take for a kernel; 0 for no limit."""
    seconds = _limit("CUKERN_COMPILER_TIMEOUT", "600", "seconds")
    return seconds, _limit("CUKERN_COMPILER_MEMORY", "4", "GiB of memory")


def builds_quickly() -> bool:
    """Whether the library's own kernels are built quickly at first."""
    chosen = os.environ.get("CUKERN_QUICK_BUILDS", "1")
    if chosen not in ("0", "1"):
        raise DeviceError(f"CUKERN_QUICK_BUILDS: expected 0 or 1, got {chosen!r}")
    return chosen == "1"
