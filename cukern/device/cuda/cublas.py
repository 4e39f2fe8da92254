"""GEMMs of cuBLAS, called directly: in every float dtype, on strided operands without a copy, and in captures.

CuPy's products lack bfloat16 and refuse to run while a stream is captured.
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
from ..precision import allows_tf32
from .libraries import needed

#: CUBLAS_COMPUTE_32F and CUBLAS_COMPUTE_64F, with their constants one and zero.
IN_SINGLE = 68, np.array([1, 0], np.float32)
IN_DOUBLE = 70, np.array([1, 0], np.float64)
#: CUBLAS_COMPUTE_32F_FAST_TF32.
IN_TF32 = 77
#: CUDA_R_32F.
FLOAT32 = 0
#: Bytes, as NVIDIA recommends for compute capability 9; without it cuBLAS would allocate, which a capture forbids.
WORKSPACE = 32 * 2**20
# Small products get no workspace: with one, cuBLAS 13 splits the inner axis into a part per multiprocessor (split-K),
# and summing the parts takes longer than the product.
#: The most multiplications of a small product.
_SMALL = 2**24
#: The most multiplications per result of a small product, measured on an H200: tensor cores take fewer steps for them
#: than the CUDA cores that multiply in single precision.
_SHORT = 1024
_SHORT_IN_SINGLE = 128
_LARGEST_INT = 2**31 - 1
# Few large triangles are solved one after another instead of in a batch; the limits are PyTorch's.
#: The most triangles.
_FEW_TRIANGLES = 8
#: The fewest rows of a triangle.
_LARGE_TRIANGLE = 64
#: The letters of cuBLAS's functions, by NumPy's of the dtype.
LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}


class _Thread(threading.local):
    """A thread's cuBLAS handles, which threads must not share, and their workspaces."""

    def __init__(self) -> None:
        #: By device, and whether they are for small products.
        self.handles: dict[tuple[int, bool], ctypes.c_void_p] = {}
        self.workspaces: dict[tuple[int, int], Any] = {}
        self.set: dict[tuple[int, bool], tuple[int, int]] = {}
        #: By whether the product is small: the last call's device and stream, and its result.
        self.last: dict[bool, tuple[tuple[int, int], tuple[Any, ctypes.c_void_p]]] = {}


_thread = _Thread()


@cache
def _library(major: int) -> Any:
    """The library that CuPy has loaded, with the argument types of the functions called here."""
    library = ctypes.CDLL(f"libcublas.so.{major}")
    pointer = ctypes.c_void_p
    library.cublasCreate_v2.argtypes = (pointer,)
    library.cublasSetStream_v2.argtypes = (pointer, pointer)
    library.cublasSetWorkspace_v2.argtypes = (pointer, pointer, ctypes.c_size_t)
    return library


def check(status: int, what: str) -> None:
    """Raise DeviceError for what a function of the library returned, unless it is 0."""
    if status:
        raise DeviceError(f"cuBLAS: {what} failed with status {status}")


def _ready(cupy: Any, small: bool) -> tuple[Any, ctypes.c_void_p]:
    """The library and this thread's handle of the current device, set to the current stream.

    Args:
        small: whether the product is small and needs no workspace.
    """
    where = index, stream = cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream().ptr
    last, recorder = _thread.last.get(small), capture_hooks.recorder()
    if last is not None and last[0] == where and recorder is None:
        return last[1]
    major = major_version(cupy)
    with needed(cupy, "cublas"):
        library = _library(major)
    handle = _thread.handles.get((index, small))
    if handle is None:
        handle = ctypes.c_void_p()
        check(library.cublasCreate_v2(ctypes.byref(handle)), "cublasCreate")
        _thread.handles[index, small] = handle
    memory = None if small else workspace(cupy, recorder, index, stream)
    at, size = (0, 0) if memory is None else (memory.ptr, WORKSPACE)
    if _thread.set.get((index, small)) != (stream, at):
        check(library.cublasSetStream_v2(handle, stream), "cublasSetStream")
        check(library.cublasSetWorkspace_v2(handle, at, size), "cublasSetWorkspace")
        _thread.set[index, small] = stream, at
    result = library, handle
    if recorder is None:
        _thread.last[small] = where, result
    else:
        _thread.last.pop(small, None)
    return result


def workspace(cupy: Any, recorder: Any, index: int, stream: int) -> Any:
    """:data:`WORKSPACE` bytes for this thread's products on a stream of a device, or for those of a capture."""
    if recorder is not None:
        return recorder.workspace(WORKSPACE, stream)
    memory = _thread.workspaces.get((index, stream))
    if memory is None:
        memory = _thread.workspaces[index, stream] = cupy.cuda.alloc(WORKSPACE)
    return memory


@cache
def major_version(cupy: Any) -> int:
    """The library's major version, that of the CUDA for which CuPy is built; loads the library."""
    with needed(cupy, "cublas"):
        cupy.cuda.device.get_cublas_handle()
    return int(cupy.cuda.runtime.runtimeGetVersion()) // 1000


def read(data: Any) -> tuple[int, int] | None:
    """How cuBLAS can read the last two axes of an ndarray: whether column-major, and the leading dimension.

    None if neither axis is contiguous, or rows or columns overlap.
    """
    rows, columns = data.shape[-2:]
    row, column = (stride // data.dtype.itemsize for stride in data.strides[-2:])
    if (columns == 1 or column == 1) and (rows == 1 or columns <= row <= _LARGEST_INT):
        return 0, row if rows > 1 else columns
    if (rows == 1 or row == 1) and (columns == 1 or rows <= column <= _LARGEST_INT):
        return 1, column if columns > 1 else rows
    return None


def needs_no_workspace(dtype: dtypes.DType, rows: int, columns: int, inner: int, batch: int) -> bool:
    """Whether a product is so small that a workspace makes it slower."""
    short = _SHORT_IN_SINGLE if dtype in (dtypes.float32, dtypes.complex64) else _SHORT
    return batch * rows * columns * inner <= _SMALL and inner <= short


def readable(cupy: Any, data: Any) -> Any:
    """``data`` if :func:`prepare` can read its last two axes, else a copy in C order."""
    return (
        cupy.ascontiguousarray(data.view("uint16") if data.dtype == dtypes.bfloat16 else data).view(
            data.dtype
        )
        if read(data) is None
        else data
    )


def prepare(
    cupy: Any, a: Any, b: Any, out: Any, batch: int = 1, steps: Sequence[int] = (0, 0, 0), add: bool = False
) -> Callable[[int, int, int], None]:
    """Prepare ``out = a @ b`` for a batch of matrices of one floating dtype.

    Args:
        a: an ndarray from :func:`readable` with the dtype of the left matrices, and their shape and strides in its
            last two axes.
        b: likewise for the right matrices.
        out: likewise for the results, with contiguous rows; its dtype is that of ``a``, or float32. No size is 0.
        batch: the number of matrices.
        steps: the strides from matrix to matrix, in elements, of ``a``, ``b`` and ``out``.
        add: whether the product is added to ``out``.

    Returns:
        A function of three addresses in the current device's memory; it runs on the current stream.
    """
    if (own := getattr(cupy, "products", None)) is not None:  # of what stands in for CuPy
        return own.prepare(a, b, out, batch, steps, add)
    small, head, of_right, of_left, factor, of_out, tails = _arguments(a, b, out, batch, add)
    long, pointer = ctypes.c_longlong, ctypes.c_void_p
    of_left, of_right = (*of_left, long(steps[0])), (*of_right, long(steps[1]))
    full, fast = ((*of_out, long(steps[2]), *tail) for tail in tails)

    def call(at: int, of: int, to: int) -> None:
        library, handle = _ready(cupy, small)
        tail = fast if allows_tf32() else full
        status = library.cublasGemmStridedBatchedEx(
            handle, *head, pointer(of), *of_right, pointer(at), *of_left, factor, pointer(to), *tail
        )
        if status:
            check(status, "cublasGemmStridedBatchedEx")

    return call


def prepare_pointers(cupy: Any, a: Any, b: Any, out: Any, batch: int) -> Callable[[int], None]:
    """:func:`prepare` for matrices at arbitrary addresses.

    Returns:
        A function of the address of a table in the device's memory: the addresses of all left matrices, then of
        the right ones, then of the results.
    """
    if (own := getattr(cupy, "products", None)) is not None:
        return own.prepare_pointers(a, b, out, batch)
    small, head, of_right, of_left, zero, of_out, (full, fast) = _arguments(a, b, out, batch)
    pointer, size = ctypes.c_void_p, 8 * batch

    def call(table: int) -> None:
        library, handle = _ready(cupy, small)
        at, of, to = pointer(table), pointer(table + size), pointer(table + 2 * size)
        status = library.cublasGemmBatchedEx(
            handle, *head, of, *of_right, at, *of_left, zero, to, *of_out, *(fast if allows_tf32() else full)
        )
        if status:
            check(status, "cublasGemmBatchedEx")

    return call


def subtract_product(xp: Any, a: Any, b: Any, out: Any) -> None:
    """``out -= a @ b`` for ndarrays of CuPy or NumPy, not rounded to tf32.

    Args:
        a: shape (batch, m, k), ``b`` (batch, k, n), ``out`` (batch, m, n), of one dtype, float32 or wider, real or
            complex, with contiguous rows.
    """
    if not hasattr(xp, "cuda") or hasattr(xp, "products"):  # NumPy, or what stands in for CuPy
        out -= a @ b
        return
    from cupy_backends.cuda.libs import cublas

    with needed(xp, "cublas"):
        handle = xp.cuda.device.get_cublas_handle()
    product = getattr(cublas, f"{LETTERS[out.dtype.char]}gemmStridedBatched")
    numbers = np.array([-1, 1], out.dtype)
    (batch, rows, columns), inner = out.shape, a.shape[-1]
    parts = []
    for one in (b, a, out):  # the product is stored column-major, so it is that of the transposes
        batch_step, row_step, _ = (step // one.itemsize for step in one.strides)
        parts.append((one.data.ptr, max(row_step, 1), batch_step))
    at = numbers.ctypes.data
    product(
        handle, 0, 0, columns, rows, inner, at, *parts[0], *parts[1], at + numbers.itemsize, *parts[2], batch
    )


def solve_triangles(
    cupy: Any, a: Any, b: Any, lower: bool, transposed: bool, unit: bool, of_rows: bool = False
) -> None:
    """Overwrite ``b`` with the ``y`` for which ``a @ y`` is ``b``, by substitution.

    Args:
        a: a CuPy ndarray of shape (batch, n, n), whose triangles are the matrices.
        b: one of the same dtype, float32 or wider, real or complex, and of shape (batch, n, k), without a size of 0;
            both are contiguous in C order.
        lower: whether the lower triangles are read.
        transposed: whether to solve with the transposes of the matrices.
        unit: whether the diagonals consist of ones and are not read.
        of_rows: whether ``b`` is of shape (batch, k, n) instead, and ``a @ y`` is each of its rows.
    """
    batch, (n, k) = len(b), b.shape[:0:-1] if of_rows else b.shape[1:]
    factor, long = np.ones(1, b.dtype), ctypes.c_int64
    letter, pointer = LETTERS[b.dtype.char].upper(), ctypes.c_void_p
    # The library reads in column-major order: transposes of the matrices, with the other triangle, and rows as columns.
    # It solves with a matrix from the left or, of the transposed equation, from the right.
    head = (
        *map(ctypes.c_int, (not of_rows, lower, transposed != of_rows, unit)),
        *map(long, (n, k) if of_rows else (k, n)),
        pointer(factor.ctypes.data),
    )
    step = long(b.shape[-1])
    library, handle = _ready(cupy, False)
    if batch <= _FEW_TRIANGLES and n >= _LARGE_TRIANGLE:
        solve = getattr(library, f"cublas{letter}trsm_v2_64")
        for left, right in zip(a, b, strict=True):
            status = solve(handle, *head, pointer(left.data.ptr), long(n), pointer(right.data.ptr), step)
            check(status, "trsm")
        return
    left, right = (
        cupy.arange(one.data.ptr, one.data.ptr + batch * one[0].nbytes, one[0].nbytes, np.uint64)
        for one in (a, b)
    )
    tables = pointer(left.data.ptr), long(n), pointer(right.data.ptr), step, long(batch)
    check(getattr(library, f"cublas{letter}trsmBatched_64")(handle, *head, *tables), "trsmBatched")


def _arguments(a: Any, b: Any, out: Any, batch: int, add: bool = False) -> tuple[Any, ...]:
    """Whether the product is small, and the arguments that both of the library's products take besides addresses.

    The last are those of a product in full precision, and of one that may be rounded to tf32.
    cuBLAS stores column-major, so it computes the transpose of the product.
    """
    (rows, inner), columns = a.shape[-2:], b.shape[-1]
    left, right = read(a), read(b)
    assert left is not None and right is not None
    kind, result = dtypes.info(a.dtype).blas, dtypes.info(out.dtype).blas
    compute, numbers = IN_DOUBLE if kind == 1 else IN_SINGLE
    integer, pointer = ctypes.c_int, ctypes.c_void_p
    one, zero = pointer(numbers.ctypes.data), pointer(numbers.ctypes.data + numbers.itemsize)
    leading = max(columns, out.strides[-2] // out.dtype.itemsize)
    return (
        needs_no_workspace(a.dtype, rows, columns, inner, batch),
        (*map(integer, (right[0], left[0], columns, rows, inner)), one),
        (integer(kind), integer(right[1])),
        (integer(kind), integer(left[1])),
        one if add else zero,
        (integer(result), integer(leading)),
        tuple(
            tuple(map(integer, (batch, one, -1)))
            for one in (compute, IN_TF32 if kind == FLOAT32 else compute)
        ),
    )
