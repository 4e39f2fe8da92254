"""Times of a task's reference on a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...device import Device
from ..shapes import on
from .task import Case, Task
from .worker import FLUSHED


def reference_times(
    task: Task, inputs: Mapping[str, Any], case: Case, device: Device, count: int = 5
) -> list[float]:
    """Milliseconds of the reference in the case's dtype, the L2 overwritten before each; none for NumPy's functions."""
    if task.library != "cukern":
        return []
    import cupy

    forward = task.forward
    args: list[Any] = [
        on(inputs[one.name], one.dtype(case.dtype), device) for one in forward.of("in", "inout")
    ]
    held = task.scalars_of(case)
    args += [held[one.name] for one in forward.of("scalar") if one.name in held]
    times: list[float] = []
    with device.activate():
        flush = cupy.empty(FLUSHED, cupy.uint8)
        for i in range(count + 1):
            flush[...] = i
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record()
            task.reference(*args)
            end.record()
            end.synchronize()
            times.append(float(cupy.cuda.get_elapsed_time(begin, end)))
    return times[1:]
