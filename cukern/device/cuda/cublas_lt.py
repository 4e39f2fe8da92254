"""GEMMs of cuBLASLt with epilogues: a bias, an added matrix, and a ReLU in the library's own kernels.

The heuristic chooses an algorithm once, when a product is prepared; cuBLAS chooses in each call.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from ... import dtypes
from .. import capture_hooks
from .cublas import (
    FLOAT32,
    IN_DOUBLE,
    IN_SINGLE,
    IN_TF32,
    WORKSPACE,
    check,
    major_version,
    needs_no_workspace,
    read,
    workspace,
)
from .libraries import load

#: CUBLASLT_MATMUL_DESC_TRANSA, _TRANSB, _EPILOGUE and _BIAS_POINTER: attributes of a product.
_TRANSPOSE_A, _TRANSPOSE_B, _EPILOGUE, _BIAS = 3, 4, 7, 8
#: CUBLASLT_EPILOGUE_DEFAULT, and the bits of _RELU and _BIAS.
_DEFAULT, _RELU, _ADD_BIAS = 1, 2, 4
#: CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT and _STRIDED_BATCH_OFFSET: attributes of a matrix.
_BATCH, _STEP = 5, 6
#: CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, and _MIN_ALIGNMENT_A_BYTES to _D_BYTES: preferences.
_MOST_WORKSPACE, _ALIGNMENTS = 1, (5, 6, 7, 8)
#: CUBLAS_STATUS_NOT_SUPPORTED: there is no algorithm.
_NOT_SUPPORTED = 15
#: CUDA_R_64F, of factors that are summed up in double precision.
_FLOAT64 = 1
#: Bytes to whose multiples the addresses of all operands are aligned.
ALIGNMENT = 16
_int, _size, _pointer = ctypes.c_int32, ctypes.c_uint64, ctypes.c_void_p


class _Thread(threading.local):
    """The devices that a thread has made current here. In a thread that has not called CUDA yet `getDevice` says 0, but
    there is no context, without which the library fails."""

    def __init__(self) -> None:
        self.devices: set[int] = set()


_thread = _Thread()


class _Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("status", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


class _Described:
    """A description that the library keeps: a product, a matrix or preferences."""

    def __init__(self, library: Any, kind: str, *given: Any) -> None:
        self.at = _pointer()
        self.set_attribute = library[f"cublasLt{kind}SetAttribute"]
        self._destroy = library[f"cublasLt{kind}Destroy"]
        check(library[f"cublasLt{kind}Create"](ctypes.byref(self.at), *given), f"cublasLt{kind}Create")

    def set(self, attribute: int, value: Any) -> None:
        """Set an attribute to a number of ctypes."""
        size = ctypes.c_size_t(ctypes.sizeof(value))
        check(self.set_attribute(self.at, attribute, ctypes.byref(value), size), "setting an attribute")

    def __del__(self) -> None:
        self._destroy(self.at)


@cache
def _library(cupy: Any) -> Any:
    """The library, which cuBLAS needs too; None if there is none."""
    load("cublasLt")
    try:
        library = ctypes.CDLL(f"libcublasLt.so.{major_version(cupy)}")
    except OSError:
        return None
    library.cublasLtMatmul.argtypes = (*[_pointer] * 14, ctypes.c_size_t, _pointer)
    return library


@cache
def _handle(cupy: Any, index: int) -> ctypes.c_void_p:
    """The library's handle of the current device, ``index``; threads share it."""
    handle = _pointer()
    check(_library(cupy).cublasLtCreate(ctypes.byref(handle)), "cublasLtCreate")
    return handle


def prepare(
    cupy: Any,
    a: Any,
    b: Any,
    out: Any,
    batch: int,
    steps: Sequence[int],
    added: Sequence[str] = (),
    relu: bool = False,
    tf32: bool = False,
) -> Callable[..., None] | None:
    """Prepare ``out = a @ b`` for a batch of matrices and what follows; all addresses have :data:`ALIGNMENT`.

    Args:
        cupy, a, b, out, batch, steps: those of :func:`.cublas.prepare`.
        added: what is added to the product, of its dtype: "row", to each of its rows, or "matrix", which lies as
            ``out`` does; each once at most.
        relu: whether what is less than 0 becomes 0 after that.
        tf32: whether float32 may be rounded to tf32.

    Returns:
        A function of the addresses of ``a``, ``b``, what is added, and ``out``, in the memory of the device that is the
        current one now; it runs on the current stream. None if the library cannot be loaded, has no
        algorithm for the product, or cannot read the matrices.
    """
    if (own := getattr(cupy, "products", None)) is not None:  # of what stands in for CuPy
        return own.prepare_ended(a, b, out, batch, steps, added, relu)
    library = _library(cupy)
    if library is None or read(a) is None or read(b) is None:
        return None
    index = cupy.cuda.runtime.getDevice()
    handle, numbers = _handle(cupy, index), _arithmetic(a.dtype)[1]
    # The matrices are stored by columns there: the transpose of the product is that of the transposed factors.
    operands = tuple(zip((b, a, out), (steps[1], steps[0], steps[2]), strict=True))
    right, left, result = matrices = [_matrix(library, *one, batch) for one in operands]
    row_at, matrix_at = (added.index(one) if one in added else None for one in ("row", "matrix"))
    product = _product(library, a, b, row_at is not None, relu, tf32)
    (rows, inner), columns = a.shape[-2:], b.shape[-1]
    most = 0 if needs_no_workspace(a.dtype, rows, columns, inner, batch) else WORKSPACE
    wanted = _preferences(library, most, [_alignment(*one) for one in operands])
    heuristic = _algorithm(library, handle, product, matrices, wanted)
    if heuristic is None:
        return None
    one, zero = _pointer(numbers.ctypes.data), _pointer(numbers.ctypes.data + numbers.itemsize)
    beta = zero if matrix_at is None else one
    algorithm, size, row, lock = ctypes.byref(heuristic), heuristic.workspace, _pointer(), threading.Lock()
    multiply, current = library.cublasLtMatmul, cupy.cuda.get_current_stream

    def call(at: int, of: int, *then: int) -> None:
        if index not in _thread.devices:
            cupy.cuda.Device(index).use()
            _thread.devices.add(index)
        to, stream, memory = then[-1], current().ptr, 0
        if size:
            memory = workspace(cupy, capture_hooks.recorder(), index, stream).ptr
        with lock:  # the bias is an attribute of the product
            if row_at is not None and row.value != then[row_at]:
                row.value = then[row_at]
                product.set(_BIAS, row)
            status = multiply(
                handle, product.at, one, of, right.at, at, left.at,
                beta, to if matrix_at is None else then[matrix_at], result.at, to, result.at,
                algorithm, memory, size, stream,
            )  # fmt: skip
        if status:
            check(status, "cublasLtMatmul")

    return call


def _matrix(library: Any, one: Any, step: int, batch: int) -> _Described:
    """The layout of a batch of matrices in memory, column-major; the product says whether a factor is transposed."""
    rows, columns = one.shape[-2:]
    transposed, leading = _lies(one)
    sizes = (rows, columns) if transposed else (columns, rows)
    kind = dtypes.info(one.dtype).blas
    layout = _Described(library, "MatrixLayout", kind, *map(_size, sizes), ctypes.c_int64(leading))
    if batch > 1:
        layout.set(_BATCH, _int(batch))
        layout.set(_STEP, ctypes.c_int64(step))
    return layout


def _lies(one: Any) -> tuple[int, int]:
    """:func:`.cublas.read`, and of results, whose rows are contiguous."""
    return read(one) or (0, max(one.shape[-1], one.strides[-2] // one.dtype.itemsize))


def _alignment(one: Any, step: int) -> int:
    """Bytes to whose multiples the rows of all matrices of a batch are aligned."""
    size = one.dtype.itemsize
    return math.gcd(ALIGNMENT, size * _lies(one)[1], size * step)


def _arithmetic(dtype: dtypes.DType) -> tuple[int, Any]:
    return IN_DOUBLE if dtypes.info(dtype).blas == _FLOAT64 else IN_SINGLE


def _product(library: Any, a: Any, b: Any, bias: bool, relu: bool, tf32: bool) -> _Described:
    kind = dtypes.info(a.dtype).blas
    compute = IN_TF32 if tf32 and kind == FLOAT32 else _arithmetic(a.dtype)[0]
    product = _Described(library, "MatmulDesc", compute, _FLOAT64 if kind == _FLOAT64 else FLOAT32)
    for attribute, one in ((_TRANSPOSE_A, b), (_TRANSPOSE_B, a)):
        product.set(attribute, _int(_lies(one)[0]))
    product.set(_EPILOGUE, _int((_RELU * relu + _ADD_BIAS * bias) or _DEFAULT))
    if bias:
        product.set(_BIAS, _pointer(ALIGNMENT))  # an algorithm is chosen by the alignment
    return product


def _preferences(library: Any, size: int, alignments: Sequence[int]) -> _Described:
    """The most bytes of workspace, and the alignments of the factors and of the results."""
    preferences = _Described(library, "MatmulPreference")
    preferences.set(_MOST_WORKSPACE, _size(size))
    for attribute, bytes_ in zip(_ALIGNMENTS, (*alignments, alignments[-1]), strict=True):
        preferences.set(attribute, ctypes.c_uint32(bytes_))
    return preferences


def _algorithm(
    library: Any, handle: Any, product: _Described, matrices: Sequence[_Described], wanted: _Described
) -> _Heuristic | None:
    """The best algorithm by the library's heuristic; None if it has none."""
    best, count = _Heuristic(), ctypes.c_int()
    right, left, out = (one.at for one in matrices)
    status = library.cublasLtMatmulAlgoGetHeuristic(
        handle, product.at, right, left, out, out, wanted.at, 1, ctypes.byref(best), ctypes.byref(count)
    )
    if status not in (0, _NOT_SUPPORTED):
        check(status, "cublasLtMatmulAlgoGetHeuristic")
    return None if status or not count.value or best.status else best
