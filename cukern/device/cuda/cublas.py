"""cuBLAS's products called as they are: every float dtype at its own speed, strides read in place, and in captures.

CuPy's own products have no bfloat16 and refuse to run while a stream is captured.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ... import dtypes
from ...errors import DeviceError
from .. import capture_hooks
from .libraries import needed

#: CUBLAS_COMPUTE_32F and CUBLAS_COMPUTE_64F, and one and zero as they read them.
_IN_SINGLE = 68, np.array([1, 0], np.float32)
_IN_DOUBLE = 70, np.array([1, 0], np.float64)
#: Bytes, as NVIDIA recommends for compute capability 9; cuBLAS itself would allocate where a capture forbids it.
_WORKSPACE = 32 * 2**20
#: A product of at most so many multiplications, each result of at most so many, gets no workspace: with one, cuBLAS 13
#: splits the inner axis into a part for each multiprocessor, and joining the parts takes longer than the product.
_SMALL, _SHORT = 2**24, 1024
_LARGEST_INT = 2**31 - 1


class _Thread(threading.local):
    """What a thread has of cuBLAS: its handles by device, which are not to be shared, and their workspaces."""

    def __init__(self) -> None:
        #: By the device, and whether they are for small products.
        self.handles: dict[tuple[int, bool], ctypes.c_void_p] = {}
        self.workspaces: dict[tuple[int, int], Any] = {}
        self.set: dict[tuple[int, bool], tuple[int, int]] = {}
        #: By whether it was small: what the last call found, and of which device and stream.
        self.last: dict[bool, tuple[tuple[int, int], tuple[Any, ctypes.c_void_p]]] = {}


_thread = _Thread()


@cache
def _library(major: int) -> Any:
    """The library that CuPy has loaded, with the types of what is called."""
    library = ctypes.CDLL(f"libcublas.so.{major}")
    pointer = ctypes.c_void_p
    library.cublasCreate_v2.argtypes = (pointer,)
    library.cublasSetStream_v2.argtypes = (pointer, pointer)
    library.cublasSetWorkspace_v2.argtypes = (pointer, pointer, ctypes.c_size_t)
    return library


def _check(status: int, what: str) -> None:
    if status:
        raise DeviceError(f"cuBLAS: {what} failed with status {status}")


def _ready(cupy: Any, small: bool) -> tuple[Any, ctypes.c_void_p]:
    """The library and this thread's handle of the current device, set to the current stream.

    Args:
        small: whether it does without a workspace.
    """
    where = index, stream = cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream().ptr
    last, recorder = _thread.last.get(small), capture_hooks.recorder()
    if last is not None and last[0] == where and recorder is None:
        return last[1]
    major = _major(cupy)
    with needed(cupy, "cublas"):
        library = _library(major)
    handle = _thread.handles.get((index, small))
    if handle is None:
        handle = ctypes.c_void_p()
        _check(library.cublasCreate_v2(ctypes.byref(handle)), "cublasCreate")
        _thread.handles[index, small] = handle
    memory = None if small else _workspace(cupy, recorder, index, stream)
    at, size = (0, 0) if memory is None else (memory.ptr, _WORKSPACE)
    if _thread.set.get((index, small)) != (stream, at):
        _check(library.cublasSetStream_v2(handle, stream), "cublasSetStream")
        _check(library.cublasSetWorkspace_v2(handle, at, size), "cublasSetWorkspace")
        _thread.set[index, small] = stream, at
    found = library, handle
    if recorder is None:
        _thread.last[small] = where, found
    else:
        _thread.last.pop(small, None)
    return found


def _workspace(cupy: Any, recorder: Any, index: int, stream: int) -> Any:
    if recorder is not None:
        return recorder.workspace(_WORKSPACE)
    memory = _thread.workspaces.get((index, stream))
    if memory is None:
        memory = _thread.workspaces[index, stream] = cupy.cuda.alloc(_WORKSPACE)
    return memory


@cache
def _major(cupy: Any) -> int:
    """The library's major version: that of the CUDA which CuPy is built for; it is loaded when this returns."""
    with needed(cupy, "cublas"):
        cupy.cuda.device.get_cublas_handle()
    return int(cupy.cuda.runtime.runtimeGetVersion()) // 1000


def read(data: Any) -> tuple[int, int] | None:
    """How the last two axes of an ndarray are read: whether by columns, and the leading dimension.

    None where neither axis is contiguous, or the other one overlaps itself.
    """
    rows, columns = data.shape[-2:]
    row, column = (stride // data.dtype.itemsize for stride in data.strides[-2:])
    if (columns == 1 or column == 1) and (rows == 1 or columns <= row <= _LARGEST_INT):
        return 0, row if rows > 1 else columns
    if (rows == 1 or row == 1) and (columns == 1 or rows <= column <= _LARGEST_INT):
        return 1, column if columns > 1 else rows
    return None


def readable(cupy: Any, data: Any) -> Any:
    """An ndarray whose last two axes :func:`prepare` can read: itself, or a copy in C order."""
    return (
        cupy.ascontiguousarray(data.view("uint16") if data.dtype == dtypes.bfloat16 else data).view(
            data.dtype
        )
        if read(data) is None
        else data
    )


def prepare(
    cupy: Any, a: Any, b: Any, out: Any, batch: int = 1, steps: Sequence[int] = (0, 0, 0)
) -> Callable[[int, int, int], None]:
    """``out = a @ b`` for a batch of matrices of one floating dtype, as a call of their three addresses.

    Args:
        a: what has the shape, strides and dtype of the first left matrix in its last two axes, as
            :func:`readable` gives it.
        b: likewise of the right matrix.
        out: likewise of the result, its rows contiguous; of the dtype of ``a``, or float32. No size is 0.
        batch: how many matrices there are.
        steps: from each to the next, in elements, in the three of them.

    Returns:
        The call; it runs on the current stream of the current device, whose memory the addresses are of.
    """
    small, head, of_right, of_left, zero, of_out, tail = _arguments(a, b, out, batch)
    long, pointer = ctypes.c_longlong, ctypes.c_void_p
    of_left, of_right = (*of_left, long(steps[0])), (*of_right, long(steps[1]))
    tail = (*of_out, long(steps[2]), *tail)

    def call(at: int, of: int, to: int) -> None:
        library, handle = _ready(cupy, small)
        status = library.cublasGemmStridedBatchedEx(
            handle, *head, pointer(of), *of_right, pointer(at), *of_left, zero, pointer(to), *tail
        )
        if status:
            _check(status, "cublasGemmStridedBatchedEx")

    return call


def prepare_pointers(cupy: Any, a: Any, b: Any, out: Any, batch: int) -> Callable[[int], None]:
    """:func:`prepare` for matrices that lie anywhere.

    Returns:
        The call, of the address of a table in the device's memory: the addresses of all left matrices, then of the
        right ones, then of the results.
    """
    small, head, of_right, of_left, zero, of_out, tail = _arguments(a, b, out, batch)
    pointer, size = ctypes.c_void_p, 8 * batch

    def call(table: int) -> None:
        library, handle = _ready(cupy, small)
        at, of, to = pointer(table), pointer(table + size), pointer(table + 2 * size)
        status = library.cublasGemmBatchedEx(
            handle, *head, of, *of_right, at, *of_left, zero, to, *of_out, *tail
        )
        if status:
            _check(status, "cublasGemmBatchedEx")

    return call


def _arguments(a: Any, b: Any, out: Any, batch: int) -> tuple[Any, ...]:
    """What the two products of the library share: whether they are small, and their arguments but the addresses.

    cuBLAS stores by columns: it is asked for the transpose of the product.
    """
    (rows, inner), columns = a.shape[-2:], b.shape[-1]
    left, right = read(a), read(b)
    assert left is not None and right is not None
    kind, result = dtypes.info(a.dtype).blas, dtypes.info(out.dtype).blas
    compute, numbers = _IN_DOUBLE if kind == 1 else _IN_SINGLE
    integer, pointer = ctypes.c_int, ctypes.c_void_p
    one, zero = pointer(numbers.ctypes.data), pointer(numbers.ctypes.data + numbers.itemsize)
    leading = max(columns, out.strides[-2] // out.dtype.itemsize)
    small = batch * rows * columns * inner <= _SMALL and inner <= _SHORT
    return (
        small,
        (*map(integer, (right[0], left[0], columns, rows, inner)), one),
        (integer(kind), integer(right[1])),
        (integer(kind), integer(left[1])),
        zero,
        (integer(result), integer(leading)),
        tuple(map(integer, (batch, compute, -1))),
    )
