"""Checked launches of kernels on arrays that are larger than memory."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..device import Device
from ..device.host.checked import mode
from ..dtypes import DType
from ..errors import KernelFault, KernelReport, LaunchError, require_int
from ..kernel import Kernel
from ..text.signature import Param

#: Linux's flag for memory that is not there until it is touched.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)
_LARGEST_SIZE = 2**31


def check_large(
    kernel: Kernel,
    shapes: Sequence[Any],
    *,
    grid: int | Sequence[int] | None = None,
    shared: int = 0,
    blocks: int = 64,
    timeout: float = 10.0,
    **overrides: Any,
) -> list[KernelReport]:
    """Launch a kernel on arrays of any size, without the memory for them, and report wrong indices.

    Some blocks run on the host, the first and the last among them, as in a checked launch. They find above all
    integers that overflow in the arithmetic of indices, and the accesses out of bounds that follow. Arrays
    appear to hold zeros; only what the blocks touch takes memory. Unsigned integers may overflow by C++'s rules, so
    they are not reported, but where they lead out of bounds.

    Args:
        kernel: the kernel.
        shapes: its arguments, with a shape (a tuple) in place of each array, whose dtype is that of the parameter.
        grid: the blocks along x, y and z. None: one thread for each element of the first written array, or of the
            first array.
        shared: bytes of dynamic shared memory per block.
        blocks: how many blocks run.
        timeout: seconds after which the launch ends; its findings until then count.
        overrides: template variables. ``elem`` is float32 by default, and ``index`` as for a launch on such arrays.

    Returns:
        An empty list.

    Raises:
        KernelFault: something is wrong.
        LaunchError: there are too many or too few arguments, or one does not fit its parameter.
        ValueError: ``blocks`` is less than 1.

    >>> import cukern as ck
    >>> double = ck.Kernel('''
    ... extern "C" __global__ void << name >>(const float* x, float* y, int rows, int columns) {
    ...     int row = blockIdx.y, column = blockIdx.x * << block >> + threadIdx.x;
    ...     if (column < columns) y[row * columns + column] = 2 * x[row * columns + column];
    ... }''', name="doubled")
    >>> check_large(double, [(40000, 50000), (40000, 50000), 40000, 50000], grid=(196, 40000))
    []
    >>> check_large(double, [(50000, 50000), (50000, 50000), 50000, 50000], grid=(196, 50000))
    Traceback (most recent call last):
    cukern.errors.KernelFault: doubled_float32_256: overflow: ...
    """
    require_int("blocks", blocks, 1)
    host = Device("host")
    given = {"elem": dtypes.float32, **kernel.variables, **overrides}
    largest = max((math.prod(shape) for shape in shapes if isinstance(shape, tuple)), default=0)
    if "index" not in given and largest >= _LARGEST_SIZE:
        overrides = {**overrides, "index": "long long"}
    if "elem" not in kernel.variables:
        overrides = {"elem": dtypes.float32, **overrides}
    bound = kernel.bind(host, **overrides)
    params = bound.signature.params
    if len(shapes) != len(params):
        wanted = ", ".join(f"{param.type_text} {param.name}" for param in params)
        raise LaunchError(f"{kernel.name}: expected {len(params)} arguments ({wanted}), got {len(shapes)}")
    args = [_argument(kernel, param, one, host) for param, one in zip(params, shapes, strict=True)]
    with sampled(blocks, timeout) as faults:
        bound(args, bound.grid_for(args) if grid is None else grid, shared)
    if faults:
        raise KernelFault("\n".join(one.message for one in faults), tuple(faults))
    return []


@contextmanager
def sampled(blocks: int = 64, seconds: float = 3.0) -> Iterator[list[KernelReport]]:
    """A with-block in which so many blocks of each launch run on the host, no longer than that.

    Yields:
        what they report of indices, at the block's end.
    """
    from ..device.host.checked.function import time_limit  # loads the compiler's module

    reports: list[KernelReport] = []
    chosen = mode.Mode(seeds=1, sampled=blocks, reports=reports)
    with mode.checking(chosen), Device("host").activate(), time_limit(seconds):
        yield reports
    reports[:] = [one for one in reports if one.kind not in ("timeout", "unset", "unwritten")]


def _argument(kernel: Kernel, param: Param, given: Any, host: Device) -> Any:
    if not isinstance(given, tuple):
        return given
    if param.kind not in ("pointer", "view"):
        raise LaunchError(
            f"{kernel.name}: argument {param.name}: expected {param.type_text}, got the shape {given}"
        )
    dtype = dtypes.uint8 if param.dtype is None else param.dtype
    return Array._wrap(sparse(given, dtype), host)


def sparse(shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
    """An array of zeros whose pages take memory only once they are written to."""
    nbytes = max(1, math.prod(shape) * dtype.itemsize)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    return np.frombuffer(mmap.mmap(-1, nbytes, flags=flags), dtype, math.prod(shape)).reshape(shape)
