"""Equations, inverses and determinants of a batch of matrices on a GPU, by an LU decomposition of all at once.

cuSOLVER decomposes one matrix after another. Source: Golub and Van Loan, "Matrix computations", 2013, chapter 3.
"""

from __future__ import annotations

import math
from typing import Any

from .. import dtypes
from ..array import Array
from ..array.array import copied
from ..device import Device
from ..device.cuda.cublas import subtract_product
from ..device.interface import CompiledFunction
from ..dtypes import DType
from ..elementwise.function import astype
from ..elementwise.fuse import fuse
from ..elementwise.table import abs, equal, log, where
from ..kernel import Kernel
from ..kernel.plan import allocate, compiled, launch, on
from ..kernel.sizes import divide_up
from ..reduction.rows import prod, sum
from ..shape.joins import concat
from ..shape.views import reshape
from .diagonals import diagonal

_ELIMINATE = Kernel("linear/eliminate.cu", block=256)
_SUBSTITUTE = Kernel("linear/substitute.cu", block=128)
_SMALL = {name: Kernel(f"linear/{name}_small.cu") for name in ("solve", "determinant")}
#: The largest matrices: a thread of a block owns a row.
_LARGEST = 1024
#: Rows up to which a part of a warp has a matrix.
_SMALLEST = 32
#: Threads per block of such parts.
_THREADS = 64
#: Right-hand sides of small matrices that are solved at once.
_TOGETHER = 8
#: Bytes of a row of the panel that is eliminated at once, which is in a thread's registers.
_PANEL = 128
_COLUMNS = 128


def together(a: Array) -> bool:
    """Whether the square matrices ``a`` are a batch that is decomposed at once; singular ones raise no error."""
    if a.device.addressable or not 0 < a.shape[-1] <= _LARGEST or math.prod(a.shape[:-2]) < 2:
        return False
    return is_stand_in(a.device) or not raises()


def is_stand_in(device: Device) -> bool:
    """Whether the device records launches for GPUs that are not there, without CuPy and its libraries."""
    return hasattr(device.xp, "products")


def raises() -> bool:
    """Whether singular matrices are to raise LinAlgError."""
    import cupyx

    return bool(cupyx.geterr()["linalg"] == "raise")


def _numbers(dtype: DType) -> dict[str, Any]:
    """The variables of templates that find pivots."""
    row = dtypes.info(dtype)
    return {"elem": dtype, "real": dtypes.info(row.real).cxx, "is_complex": row.kind == "c"}


def _of_small(what: str, device: Device, dtype: DType, lanes: int, **variables: Any) -> CompiledFunction:
    name = "_".join(map(str, (what, dtypes.info(dtype).name, lanes, *variables.values())))
    own = {"lanes": lanes, **variables, **_numbers(dtype)}
    return compiled(_SMALL[what], device, name=name, block=_THREADS, **own)


def _panel(dtype: DType, n: int) -> int:
    """Columns that are eliminated at once."""
    return min(_PANEL // dtype.itemsize, max(4, 1 << (n - 1).bit_length()))


def eliminated(a: Array) -> tuple[Any, Any]:
    """Matrices with U in the upper triangle, and the number of rows that were exchanged in each.

    Args:
        a: shape (..., n, width), whose first ``n`` columns are the matrices and whose others are right-hand sides,
            which are multiplied by the same exchanges and the inverse of L. It is overwritten.
    """
    n, width = a.shape[-2:]
    device, dtype, data = a.device, a.dtype, a._data.reshape(-1, n, width)
    exchanges, panel = allocate(device, (len(data),), dtypes.int32), _panel(dtype, n)
    for first in range(0, n, panel):
        block = max(32, 1 << (n - first - 1).bit_length())
        name = f"eliminate_{dtypes.info(dtype).name}_{block}_{panel}"
        kernel = compiled(_ELIMINATE, device, name=name, block=block, panel=panel, **_numbers(dtype))
        launch(device, kernel, len(data), block, (data, exchanges, n, width, first))
        end = first + panel
        if end < n:
            with on(device):
                subtract_product(
                    device.xp, data[:, end:, first:end], data[:, first:end, end:], data[:, end:, end:]
                )
    return data, exchanges


def solutions(a: Array, b: Array) -> Array:
    """The solutions ``x`` of ``a @ x = b``, by elimination with row exchanges and back substitution.

    Args:
        a: shape (..., n, n), and ``b`` (..., n, k) of the same dtype and batch, without a size of 0.
    """
    n, columns = b.shape[-2:]
    if n <= _SMALLEST:
        return _small_solutions(a, b)
    data, _ = eliminated(concat([a, b], axis=-1))
    device, dtype, panel = a.device, a.dtype, _panel(a.dtype, n)
    result = allocate(device, (len(data), n, columns), dtype)
    name = f"substitute_{dtypes.info(dtype).name}_{panel}"
    kernel = compiled(_SUBSTITUTE, device, name=name, elem=dtype, block=_COLUMNS, panel=panel)
    grid = len(data), divide_up(columns, _COLUMNS), 1
    for first in reversed(range(0, n, panel)):
        launch(device, kernel, grid, _COLUMNS, (data, result, n, n + columns, first))
        if first:
            end = min(first + panel, n)
            with on(device):
                subtract_product(
                    device.xp, data[:, :first, first:end], result[:, first:end], data[:, :first, n:]
                )
    return Array._wrap(result.reshape(b.shape), device)


def _lanes(n: int) -> int:
    """The threads of a small matrix."""
    return max(4, 1 << (n - 1).bit_length())


def _small_solutions(a: Array, b: Array) -> Array:
    n, columns = b.shape[-2:]
    device, dtype, count, lanes = a.device, a.dtype, math.prod(a.shape[:-2]), _lanes(n)
    together = b._data[(0,) * (b.ndim - 2)] if not any(b._data.strides[:-2]) else b._data
    sides = Array._wrap(together, device).contiguous()
    step = n * columns if sides.ndim > 2 else 0
    result = allocate(device, b.shape, dtype)
    width = min(_TOGETHER, 1 << (columns - 1).bit_length())
    kernel = _of_small("solve", device, dtype, lanes, width=width)
    arrays, numbers = (a.contiguous()._data, sides._data, result), (count, n, columns, step)
    launch(device, kernel, divide_up(count * lanes, _THREADS), _THREADS, (*arrays, *numbers))
    return Array._wrap(result, device)


def _small_log_determinants(a: Array, wide: DType) -> tuple[Array, Array]:
    device, batch, n = a.device, a.shape[:-2], a.shape[-1]
    count, lanes = math.prod(batch), _lanes(n)
    signs, sizes = allocate(device, batch, wide), allocate(device, batch, dtypes.float64)
    kernel = _of_small("determinant", device, a.dtype, lanes)
    values = (a.contiguous()._data, signs, sizes, count, n)
    launch(device, kernel, divide_up(count * lanes, _THREADS), _THREADS, values)
    return Array._wrap(signs, device), Array._wrap(sizes, device)


def log_determinants(a: Array) -> tuple[Array, Array]:
    """The signs of determinants, and the logarithms of their absolute values, in double precision."""
    wide = dtypes.complex128 if a.dtype in dtypes.COMPLEX else dtypes.float64
    if a.shape[-1] <= _SMALLEST:
        return _small_log_determinants(a, wide)
    data, exchanges = eliminated(copied(a))
    pivots = diagonal(Array._wrap(data, a.device), 0, -2, -1)
    turns, sizes = _of_pivots(astype(pivots, wide))
    odd = Array._wrap(exchanges, a.device) % 2
    sign = prod(turns, -1) * (1 - 2 * odd)
    return reshape(sign, a.shape[:-2]), reshape(sum(sizes, -1), a.shape[:-2])


@fuse
def _of_pivots(pivots: Any) -> tuple[Any, Any]:
    size = abs(pivots)
    zero = equal(size, 0)
    return where(zero, 0, pivots / where(zero, 1, size)), log(size)
