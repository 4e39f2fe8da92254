"""cuBLAS's products called as they are: every float dtype at its own speed, strides read in place, and in captures.

CuPy's own products have no bfloat16 and refuse to run while a stream is captured.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from .. import dtypes, live
from ..errors import DeviceError

#: cudaDataType of a dtype.
_TYPES = {dtypes.float16: 2, dtypes.bfloat16: 14, dtypes.float32: 0, dtypes.float64: 1}
#: CUBLAS_COMPUTE_32F and CUBLAS_COMPUTE_64F, and one and zero as they read them.
_IN_SINGLE = 68, np.array([1, 0], np.float32)
_IN_DOUBLE = 70, np.array([1, 0], np.float64)
#: Bytes, as NVIDIA recommends for compute capability 9; cuBLAS itself would allocate where a capture forbids it.
_WORKSPACE = 32 * 2**20
_LARGEST_INT = 2**31 - 1


class _Thread(threading.local):
    """What a thread has of cuBLAS: its handles by device, which are not to be shared, and their workspaces."""

    def __init__(self) -> None:
        self.handles: dict[int, ctypes.c_void_p] = {}
        self.workspaces: dict[tuple[int, int], Any] = {}
        self.set: dict[int, tuple[int, int]] = {}


_thread = _Thread()


@cache
def _library(major: int) -> Any:
    """The library that CuPy has loaded, with the types of what is called."""
    library = ctypes.CDLL(f"libcublas.so.{major}")
    pointer, integer, long = ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong
    library.cublasCreate_v2.argtypes = (pointer,)
    library.cublasSetStream_v2.argtypes = (pointer, pointer)
    library.cublasSetWorkspace_v2.argtypes = (pointer, pointer, ctypes.c_size_t)
    library.cublasGemmStridedBatchedEx.argtypes = (
        *(pointer, integer, integer, integer, integer, integer, pointer),
        *(pointer, integer, integer, long, pointer, integer, integer, long),
        *(pointer, pointer, integer, integer, long, integer, integer, integer),
    )
    return library


def _check(status: int, what: str) -> None:
    if status:
        raise DeviceError(f"cuBLAS: {what} failed with status {status}")


def _ready(cupy: Any) -> tuple[Any, ctypes.c_void_p]:
    """The library and this thread's handle of the current device, set to the current stream."""
    runtime = cupy.cuda.runtime
    index, stream = runtime.getDevice(), cupy.cuda.get_current_stream().ptr
    library = _library(_major(cupy))
    handle = _thread.handles.get(index)
    if handle is None:
        handle = ctypes.c_void_p()
        _check(library.cublasCreate_v2(ctypes.byref(handle)), "cublasCreate")
        _thread.handles[index] = handle
    recorder = live.recorder()
    if recorder is not None:
        memory = recorder.workspace(_WORKSPACE)
    else:
        memory = _thread.workspaces.get((index, stream))
        if memory is None:
            memory = _thread.workspaces[index, stream] = cupy.cuda.alloc(_WORKSPACE)
    if _thread.set.get(index) != (stream, memory.ptr):
        _check(library.cublasSetStream_v2(handle, stream), "cublasSetStream")
        _check(library.cublasSetWorkspace_v2(handle, memory.ptr, _WORKSPACE), "cublasSetWorkspace")
        _thread.set[index] = stream, memory.ptr
    return library, handle


@cache
def _major(cupy: Any) -> int:
    """The library's major version: that of the CUDA which CuPy is built for; it is loaded when this returns."""
    cupy.cuda.device.get_cublas_handle()
    return int(cupy.cuda.runtime.runtimeGetVersion()) // 1000


def _read(data: Any) -> tuple[int, int] | None:
    """How the last two axes of an ndarray are read: whether by columns, and the leading dimension.

    None where neither axis is contiguous, or the other one overlaps itself.
    """
    rows, columns = data.shape[-2:]
    row, column = data.strides[-2] // data.itemsize, data.strides[-1] // data.itemsize
    if (columns == 1 or column == 1) and (rows == 1 or columns <= row <= _LARGEST_INT):
        return 0, row if rows > 1 else columns
    if (rows == 1 or row == 1) and (columns == 1 or rows <= column <= _LARGEST_INT):
        return 1, column if columns > 1 else rows
    return None


def readable(cupy: Any, data: Any) -> Any:
    """An ndarray whose last two axes :func:`product` can read: itself, or a copy in C order."""
    return (
        cupy.ascontiguousarray(data.view("uint16") if data.dtype == dtypes.bfloat16 else data).view(
            data.dtype
        )
        if _read(data) is None
        else data
    )


def product(
    cupy: Any,
    a: Any,
    b: Any,
    out: Any,
    batch: int = 1,
    steps: Sequence[int] = (0, 0, 0),
    offsets: Sequence[int] = (0, 0, 0),
) -> None:
    """``out = a @ b`` for a batch of matrices of one floating dtype on the current device.

    Args:
        a: an ndarray whose last two axes are the first of the left matrices, as :func:`readable` gives it.
        b: likewise for the right matrices.
        out: an ndarray whose last two axes are the first result, its rows contiguous; of the dtype of ``a``, or
            float32. No size is 0.
        batch: how many matrices there are.
        steps: from each to the next, in elements, in the three of them.
        offsets: to the first, likewise.
    """
    library, handle = _ready(cupy)
    (rows, inner), columns = a.shape[-2:], b.shape[-1]
    left, right = _read(a), _read(b)
    assert left is not None and right is not None
    kind = _TYPES[a.dtype]
    compute, numbers = _IN_DOUBLE if kind == 1 else _IN_SINGLE
    one = numbers.ctypes.data
    at, of, to = (one.data.ptr + one.itemsize * skip for one, skip in zip((a, b, out), offsets, strict=True))
    # cuBLAS stores by columns: it is asked for the transpose of all this.
    status = library.cublasGemmStridedBatchedEx(
        *(handle, right[0], left[0], columns, rows, inner, one),
        *(of, kind, right[1], steps[1], at, kind, left[1], steps[0]),
        *(one + numbers.itemsize, to, _TYPES[out.dtype]),
        *(max(columns, out.strides[-2] // out.itemsize), steps[2], batch, compute, -1),
    )
    _check(status, "cublasGemmStridedBatchedEx")
