"""Copies between devices."""

from __future__ import annotations

from typing import Any

from . import Device


def copied_across(data: Any, home: Device, where: Device) -> Any:
    """Copy a C-ordered ndarray to another GPU.

    CuPy copies on the stream of the destination GPU, which is not ordered with the source's stream.
    """
    cuda = where.xp.cuda
    with home.activate():
        before, source = cuda.Event(disable_timing=True), cuda.get_current_stream()
        before.record(source)
    with where.activate():
        after, target = cuda.Event(disable_timing=True), cuda.get_current_stream()
        target.wait_event(before)
        copied = where.xp.array(data)
        after.record(target)
    with home.activate():  # the source's memory may be reused after the copy
        source.wait_event(after)
    return copied


def unstaged(data: Any, where: Device) -> Any:
    """An upload without CuPy's staging copy in page-locked memory, which it would keep: for large arrays."""
    if where.addressable:
        return data
    with where.activate():
        uploaded = where.xp.empty(data.shape, data.dtype)
        uploaded.set(data)
    return uploaded
