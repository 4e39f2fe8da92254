"""Memory moved between devices."""

from __future__ import annotations

from typing import Any

from . import Device


def uploaded(data: Any, where: Device) -> Any:
    """An ndarray on another device; on the host a NumPy array as it is.

    CuPy makes a 0-d array by filling with its number, which loses the sign of -0.0.
    """
    if where.addressable:
        return data
    flat = where.xp.array(data.reshape(1) if not data.ndim else data)
    return flat.reshape(data.shape)


def carried(data: Any, home: Device, where: Device) -> Any:
    """A copy on another GPU of an ndarray in C order.

    CuPy copies on the stream of the GPU that is written, which knows nothing of the other's.
    """
    cuda = where.xp.cuda
    with home.activate():
        before, source = cuda.Event(disable_timing=True), cuda.get_current_stream()
        before.record(source)
    with where.activate():
        after, target = cuda.Event(disable_timing=True), cuda.get_current_stream()
        target.wait_event(before)
        made = where.xp.array(data)
        after.record(target)
    with home.activate():  # whose memory may be handed out again
        source.wait_event(after)
    return made
