"""Products of ndarrays by libraries: direct calls of cuBLAS and cuBLASLt, NumPy's and CuPy's ``matmul``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.host_data import quiet
from ..array.layout import Layout, fresh_layout
from ..array.operators import FUNCTIONS
from ..autodiff import tape
from ..cache import Cache
from ..device import Device, kernels_only
from ..device.cuda import cublas, cublas_lt
from ..device.precision import allows_tf32
from ..elementwise.function import astype
from ..elementwise.table import add
from ..kernel import Kernel
from ..kernel import plan as kernel_plan
from ..kernel.by_numpy import by_numpy
from ..kernel.plan import on, raw
from ..kernel.sizes import divide_up
from ..kernel.strides import Axes, Strides, broadcast_shapes, collapse
from ..shape.copy import in_order, permuted, write

#: The largest size that the libraries take, that of C's int.
_LIMIT = 2**31 - 1


def multiply(device: Device, a: Any, b: Any, out: Any = None) -> Any:
    """``a @ b`` for ndarrays of one dtype on ``device``, which is the current one.

    Args:
        a: shape (..., m, k).
        b: shape (..., k, n).
        out: an ndarray (..., m, n) in C order to write to, of the operands' dtype or float32, whose sizes fit C's
            int.

    Returns:
        The product, of shape (..., m, n).
    """
    xp = device.xp
    if kernels_only.active():
        return _by_kernels(device, a, b, a.dtype if out is None else out.dtype, out)
    if device.addressable:
        return _by_numpy(a, b, out)
    if a.dtype not in dtypes.FLOATS:
        return xp.matmul(a, b) if out is None else xp.matmul(a, b, out=out)
    return in_pieces(xp, a, b, _LIMIT) if out is None else _blas(xp, a, b, out)


def _by_kernels(
    device: Device, a: Any, b: Any, dtype: dtypes.DType, out: Any = None, plus: bool = False
) -> Any:
    """The product of ndarrays by the library's own kernels in ``dtype``, which is that of ``out``, if it is given.

    With ``plus`` it is added to what ``out`` holds.
    """
    with tape.stop_recording():
        left, right = (astype(Array._wrap(one, device), dtype, copy=False) for one in (a, b))
        product: Array = FUNCTIONS["matmul"](left, right)
        product = add(Array._wrap(out, device), product) if plus else product
    if out is None:
        return product._data
    write(device, out, product._data)
    return out


#: Bytes of a product from which NumPy writes it to memory that the host's runtime keeps, in place of new memory.
_LARGE = 1 << 20


def _by_numpy(a: Any, b: Any, out: Any = None) -> Any:
    """The product by NumPy, which calls its BLAS; half types, which that lacks, by way of float32."""
    if dtypes.info(a.dtype).narrow:
        product = _by_numpy(*(one.astype(dtypes.info(one.dtype).acc) for one in (a, b)))
        if out is None:
            return product.astype(a.dtype)
        out[...] = product
        return out
    return quiet().run(np.matmul, a, b, out=out)


HOST_PRODUCT = by_numpy("matmul", refusals=(), why="a BLAS, or loops of NumPy's, are at hand")(_by_numpy)


class LibraryPlan(kernel_plan.Plan):
    """A product of GPU arrays of given layouts: one call of the library, after copies of operands it cannot read."""

    __slots__ = ("_copied",)

    def __init__(self, a: Layout, b: Layout, dtype: dtypes.DType | None = None) -> None:
        batch = broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]])
        layout = fresh_layout(a.device, dtype or a.dtype, (*batch, a.shape[-2], b.shape[-1]))
        self._copied = tuple(cublas.read(one) is None for one in (a, b))
        with on(a.device):
            call = _call(a.device.xp, *self._read(a, b), layout)
            if call is None and (b.ndim == 2 or math.prod(batch) > _MOST_POINTERS):
                # The copy pays off, because all rows become one product.
                self._copied = (True, b.ndim > 2 or self._copied[1])
                call = _call(a.device.xp, *self._read(a, b), layout)
            elif call is None:
                call = _by_pointers(*self._read(a, b), layout)
        assert call is not None
        super().__init__(a.device, (layout,), call)

    @property
    def copies(self) -> bool:
        """Whether it copies a factor, of which it then reads more than the address."""
        return any(self._copied)

    def _read(self, *layouts: Layout) -> tuple[Layout, Layout]:
        """The layouts of the operands that the library reads, after copies."""
        a, b = (
            fresh_layout(one.device, one.dtype, one.shape) if copied else one
            for one, copied in zip(layouts, self._copied, strict=True)
        )
        return a, b

    def __call__(self, *arrays: Array) -> Array:
        """Compute and return the product of two arrays, a new array."""
        if any(self._copied):
            with on(self.device):
                read = [_copy(x) if copied else x for x, copied in zip(arrays, self._copied, strict=True)]
            return super().__call__(*read)
        return super().__call__(*arrays)


class HostPlan(kernel_plan.Plan):
    """A product of arrays of the host by NumPy, which calls its BLAS."""

    __slots__ = ()

    @property
    def copies(self) -> bool:
        """NumPy reads shapes and strides besides addresses."""
        return True

    def __init__(self, a: Layout, b: Layout) -> None:
        batch = broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]])
        super().__init__(a.device, (fresh_layout(a.device, a.dtype, (*batch, a.shape[-2], b.shape[-1])),))

    def __call__(self, *arrays: Array) -> Array:
        """Compute and return the product of two arrays, a new array."""
        a, b = arrays
        if self.layouts[0].nbytes < _LARGE:
            return Array._wrap(_by_numpy(a._data, b._data), self.device)
        result = Array._made(self.layouts[0])
        _by_numpy(a._data, b._data, result._data)
        return result


def _copy(x: Array) -> Array:
    result = Array._wrap(in_order(x.device, x._data), x.device)
    result._planned()
    return result


def fits_library(a: Layout, b: Layout) -> bool:
    """Whether no size is 0 or exceeds C's int."""
    sizes = (*a.shape, *b.shape, a.size // max(1, a.shape[-1]), b.size // max(1, b.shape[-1]))
    return min(sizes) > 0 and max(sizes) <= _LIMIT


_sums: Cache[tuple[Layout, Layout], LibraryPlan] = Cache()


def sums(a: Array, b: Array) -> Array:
    """``a @ b`` for two GPU arrays of one floating dtype, not rounded from the dtype of their sums; not recorded.

    Their sizes are neither 0 nor exceed C's int.
    """
    if kernels_only.active():
        acc = dtypes.info(a.dtype).acc
        return Array._wrap(_by_kernels(a.device, a._data, b._data, acc), a.device)
    key = (a._planned(), b._planned())
    plan = _sums.get(key)
    if plan is None:
        with on(a.device):
            plan = _sums.keep(key, LibraryPlan(*key, dtypes.info(a.dtype).acc))
    return plan(a, b)


class Product:
    """``out = a @ b`` for matrices of given layouts, prepared once.

    Args:
        a: a floating dtype, as the device's library reads it without a copy (:func:`readable`).
        b: likewise.
        out: contiguous rows, of the dtype of ``a`` and ``b`` or of their accumulator.
        transposed: whether the transposes of ``a`` and of ``b`` are multiplied.
        add: whether the product is added to ``out``.
    """

    __slots__ = ("_add", "_call", "_convert", "_device", "_transposed")

    def __init__(
        self,
        a: Layout,
        b: Layout,
        out: Layout,
        transposed: tuple[bool, bool] = (False, False),
        add: bool = False,
    ) -> None:
        self._add, self._device, self._transposed = add, a.device, transposed
        self._convert = out.dtype if a.on_host and out.dtype != a.dtype else None
        self._call: Callable[[int, int, int], None] | None = None
        if not a.on_host and min(a.size, b.size, out.size):
            left, right = (
                permuted(one, (1, 0)) if turn else one for one, turn in zip((a, b), transposed, strict=True)
            )
            prepare = partial(cublas.prepare, add=True) if add else _call
            with on(self._device):
                self._call = prepare(self._device.xp, left, right, out)

    def __call__(self, a: Array, b: Array, out: Array) -> None:
        """Write the product; the current device must be that of the arrays."""
        own = kernels_only.active()
        if self._call is not None and not own:
            self._call(a._operand, b._operand, out._operand)
            return
        left, right = (
            one._data.T if turn else one._data for one, turn in zip((a, b), self._transposed, strict=True)
        )
        result = out._data
        if own:
            _by_kernels(self._device, left, right, result.dtype, result, self._add)
            return
        if self._convert is not None:
            left, right = left.astype(self._convert), right.astype(self._convert)
        if self._add:
            result += multiply(self._device, left, right)
        else:
            multiply(self._device, left, right, result)


#: A product of matrices of given layouts, prepared at the first call for them.
product = lru_cache(maxsize=8192)(Product)


def readable(x: Array) -> Array:
    """``x`` if the library of its device can read the matrix, else a copy in C order."""
    layout = x._layout or x._planned()
    return x if layout.on_host or cublas.read(layout) else x.contiguous()


def in_pieces(xp: Any, a: Any, b: Any, limit: int) -> Any:
    """The product of two ndarrays, split into products whose sizes and batches do not exceed ``limit``."""
    (m, k), n = a.shape[-2:], b.shape[-1]
    batch = broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]]) if a.ndim > 2 or b.ndim > 2 else ()
    if max(m, k, n, math.prod(batch)) <= limit:
        return np.matmul(a, b) if xp is np else _blas(xp, a, b, xp.empty((*batch, m, n), a.dtype))
    if k > limit:
        half = k // 2
        return in_pieces(xp, a[..., :half], b[..., :half, :], limit) + in_pieces(
            xp, a[..., half:], b[..., half:, :], limit
        )
    # Axes are counted from the last one, because batches broadcast.
    at = (
        -2
        if m > limit
        else -1
        if n > limit
        else max(range(len(batch)), key=batch.__getitem__) - len(batch) - 2
    )
    size = (*batch, m, n)[at]
    parts = []
    for start, end in ((0, size // 2), (size // 2, size)):
        left = a if at == -1 else _cut(a, at, start, end)
        right = b if at == -2 else _cut(b, at, start, end)
        parts.append(raw(in_pieces(xp, left, right, limit)))
    return xp.concatenate(parts, axis=at).view(a.dtype)


def _cut(data: Any, axis: int, start: int, end: int) -> Any:
    """A part of an axis, counted from the last one; the whole axis if it broadcasts."""
    if -axis > data.ndim or data.shape[axis] == 1:
        return data
    return data[(..., slice(start, end)) + (slice(None),) * (-axis - 1)]


def _blas(xp: Any, a: Any, b: Any, out: Any) -> Any:
    """``out = a @ b`` by one call of cuBLAS, with copies if a batch does not have a single stride."""
    if not out.size:
        return out
    if not a.shape[-1]:
        raw(out)[...] = 0
        return out
    a, b = cublas.readable(xp, a), cublas.readable(xp, b)
    call = _call(xp, a, b, out)
    if call is None:
        a, b = (xp.ascontiguousarray(raw(one)).view(one.dtype) for one in (a, b))
        call = _call(xp, a, b, out)
    assert call is not None
    call(*(one.data.ptr for one in (a, b, out)))
    return out


class Matrix(NamedTuple):
    """A matrix in memory, with the attributes of an ndarray."""

    dtype: dtypes.DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]


Call = Callable[[int, int, int], None]
_prepared: Cache[tuple[Any, ...], Call] = Cache()


def _call(xp: Any, a: Any, b: Any, out: Any) -> Call | None:
    """The call of cuBLAS for ``out = a @ b``, of three addresses; None if the batch does not have a single stride.

    Args:
        a: an ndarray or a layout that :func:`cublas.read` reads.
        b: likewise.
        out: likewise, in C order.
    """
    if b.ndim == 2 and a.ndim > 2:
        rows = _rows(a)
        if rows is not None:  # one product of all rows
            a, out = rows, _rows(out)
    axes = _batch(a, b, out)
    if len(axes.shape) > 1:
        return None
    inner = tuple([one[-1] if one else 0 for one in axes.steps])
    count = axes.shape[0] if axes.shape else 1
    left, right, result_matrix = (Matrix(one.dtype, one.shape[-2:], one.strides[-2:]) for one in (a, b, out))
    key = (left, right, result_matrix, count, inner, xp.cuda.runtime.getDevice())
    call = _prepared.get(key)
    if call is None:
        call = _prepared.keep(key, _prepare(xp, left, right, result_matrix, count, inner))
    return call


def _prepare(xp: Any, a: Matrix, b: Matrix, out: Matrix, count: int, inner: Strides) -> Call:
    """The call of cuBLASLt, which takes the host less time, or cuBLAS's where that has none, or of other addresses."""
    call = cublas.prepare(xp, a, b, out, count, inner)
    exact, fast = (
        cublas_lt.prepare(xp, a, b, out, count, inner, tf32=tf32)
        if tf32 <= (a.dtype == dtypes.float32)
        else None
        for tf32 in (False, True)
    )
    if exact is None:
        return call

    def aligned(at: int, of: int, to: int) -> None:
        if (at | of | to) % cublas_lt.ALIGNMENT:
            call(at, of, to)
        elif fast is not None and allows_tf32():
            fast(at, of, to)
        else:
            exact(at, of, to)

    return aligned


def _rows(x: Any) -> Matrix | None:
    """An array of several axes as one matrix of all its rows; None if the rows do not have a single stride."""
    axes = collapse(x.shape[:-1], [_steps(x, x.shape[:-1], x.strides[:-1])])
    if len(axes.shape) > 1:
        return None
    (step,) = axes.steps[0] or (x.shape[-1],)
    flat = Matrix(x.dtype, (math.prod(x.shape[:-1]), x.shape[-1]), (step * x.dtype.itemsize, x.strides[-1]))
    return None if cublas.read(flat) is None else flat


def _batch(a: Any, b: Any, out: Any) -> Axes:
    """The axes of a batch, and the strides of the three operands in elements."""
    shape = out.shape[:-2]
    return collapse(shape, [_steps(one, shape, one.strides[:-2]) for one in (a, b, out)])


def _steps(x: Any, shape: tuple[int, ...], strides: Sequence[int]) -> Strides:
    """The strides in elements of ``x``, with its leading axes broadcast."""
    sizes, size = x.shape[: len(strides)], x.dtype.itemsize
    own = [0 if n == 1 else stride // size for n, stride in zip(sizes, strides, strict=True)]
    return (0,) * (len(shape) - len(own)) + tuple(own)


#: The most matrices in a product by a table of addresses, the limit of a grid's second and third axes.
_MOST_POINTERS = 65535
_POINTERS = Kernel("linear/pointers.cu", block=128)


def _pointers(device: Device, shape: Sequence[int], steps: Sequence[Sequence[int]]) -> tuple[Any, bytes]:
    """The kernel that writes a batch's addresses, and its struct: sizes of axes, and the operands' steps in bytes."""
    from ..launch.params import Params  # few programs have such a batch

    batch = Params("Batch", step=("long long", (3, len(shape))), size=("long long", len(shape)))
    bound = _POINTERS.bind(device, axes=len(shape), Batch=batch.source({}))
    return bound, batch(step=steps, size=shape).packed({})


def _by_pointers(a: Layout, b: Layout, out: Layout) -> Call:
    """:func:`_call` for a batch with several strides: one launch writes a table of addresses, another multiplies."""
    device, axes = out.device, _batch(a, b, out)
    count, size = math.prod(axes.shape), out.dtype.itemsize
    bound, batch = _pointers(device, axes.shape, [[size * step for step in one] for one in axes.steps])
    write = bound.function.prepare((divide_up(count, 128), 1, 1), bound.block, 0, (batch, count))
    table = fresh_layout(device, dtypes.uint64, (3 * count,))
    multiply = cublas.prepare_pointers(device.xp, a, b, out, count)

    def call(at: int, of: int, to: int) -> None:
        memory = Array._made(table)
        write(memory._operand, at, of, to)
        multiply(memory._operand)

    return call
