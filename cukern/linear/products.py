"""Products of vectors, matrices and tensors by the device's BLAS."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.batched import Level, level_of, levels
from ..array.creation import full
from ..array.deferred import about_to_write, trace, traced_threads
from ..array.layout import Layout, address, fresh_layout
from ..array.operators import FUNCTIONS
from ..autodiff import tape, writes
from ..autodiff.cotangents import Gradient, Parts, Term, form_of
from ..cache import Cache
from ..device import kernels_only
from ..device.kernels_only import allows_numpy
from ..elementwise.complex_rows import conjugated
from ..elementwise.function import astype
from ..elementwise.fuse import fuse
from ..elementwise.graph import SYMBOLS, Expr, input_node, product
from ..elementwise.inplace import check_writable, kept
from ..elementwise.operands import (
    normalize_axes,
    normalize_axis,
    public,
    require_array,
    require_arrays,
    require_written,
)
from ..elementwise.program import Program, program
from ..elementwise.table import add
from ..elementwise.table import multiply as multiply_elements
from ..elementwise.ufunc import can_cast, one_out, written
from ..errors import DeviceError, LaunchError
from ..kernel.by_numpy import MANY, by_numpy
from ..kernel.plan import Plan, on
from ..kernel.strides import broadcast_shapes
from ..reduction.rows import sum
from ..shape.copy import permuted, write
from ..shape.views import (
    expand_dims,
    matrix_transpose,
    moveaxis,
    permute_dims,
    ravel,
    reshape,
    squeeze,
    swapaxes,
)
from .blas import HOST_PRODUCT, fits_library, multiply

if TYPE_CHECKING:
    from ..launch.family import Family
    from .problem import Product

__all__ = [
    "dot",
    "inner",
    "kron",
    "matmul",
    "matvec",
    "outer",
    "tensordot",
    "vdot",
    "vecdot",
    "vecmat",
]

_BLAS = "a BLAS has it at hand"
_DOT = by_numpy("product with a vector", least=0, most=None, warns=True, why=_BLAS)(lambda a, b: a.dot(b))

#: The family of products and the class of its problems: imported with the first product, as many programs have none.
_asked: tuple[Family[Any], type[Product]] | None = None


def product_family() -> tuple[Family[Any], type[Product]]:
    """The family of products, and the class of its problems."""
    global _asked
    if _asked is None:
        from .families import PRODUCT
        from .problem import Product

        _asked = PRODUCT, Product
    return _asked


def _known(a: object, b: object) -> Any:
    """The plan for two arguments, if they are arrays with the layouts of an earlier product; else None."""
    if _asked is not None and isinstance(a, Array) and isinstance(b, Array):
        family, problem = _asked
        return family.known(problem(a._layout or a._planned(), b._layout or b._planned()))
    return None


def _product(a: Array, b: Array) -> Array:
    """The product of two arrays of one dtype."""
    if levels and (level := level_of((a, b))) is not None:
        return level.batched(level.run(_of_all, level, a, b))
    own = kernels_only.active()
    if own or a.dtype in dtypes.FLOATS:
        layouts = a._layout or a._planned(), b._layout or b._planned()
        if fits_library(*layouts):
            family, problem = product_family()
            return family(problem(*layouts))(a, b)
    if own:
        shape = (*broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]]), a.shape[-2], b.shape[-1])
        if a.size and b.size:
            raise LaunchError(f"matmul: kernels have no product of shapes {a.shape} and {b.shape}: too large")
        return full(shape, 0, a.dtype, a.device)
    if (result := HOST_PRODUCT(a.device, a._data, b._data)) is not None:
        return result
    with on(a.device):
        return Array._wrap(multiply(a.device, a._data, b._data), a.device)


def _of_all(level: Level, a: Array, b: Array) -> Array:
    """The products of all examples of a batch: that of all rows where the right factor is one matrix."""
    ndim = max(a.ndim, b.ndim)
    if a.shape[-1] == 1:
        product: Array = multiply_elements(level.value(a, ndim), level.value(b, ndim))
        return product
    if level.holds(b) or not level.holds(a):
        return matmul(level.value(a, ndim), level.value(b, ndim))
    x = level.value(a)
    if b.ndim > 2:
        return matmul(level.value(a, ndim), b)
    y = matmul(reshape(x, (math.prod(x.shape[:-1]), x.shape[-1])), b)
    return reshape(y, (*x.shape[:-1], y.shape[-1]))


def _is_called(x1: Any, x2: Any) -> bool:
    """Whether a trace calls a product of these as it is."""
    return not isinstance(x1, SYMBOLS) and level_of((x1, x2)) is None


@public
def matmul(x1: Array, x2: Array, /, out: Array | None = None) -> Array:
    """The matrix product over the last two axes; the leading axes broadcast.

    Args:
        x1: shape (..., m, k), or (k,) for a row.
        x2: shape (..., k, n), or (k,) for a column.
        out: an array that the result is written to, and that is returned.

    Returns:
        Shape (..., m, n), without the axis that a vector operand lacks. float16 and bfloat16 products
        accumulate in float32.

    Raises:
        ValueError: an operand has no axis, or the shapes do not fit.
        DeviceError: the operands are on different devices.
    """
    if out is not None:
        result, target = matmul(x1, x2), one_out("matmul", out)
        # The axes of one product do not broadcast, as those before them do.
        axes = (np.ndim(x1) > 1) + (np.ndim(x2) > 1)
        fits = (
            target is None or result.shape[result.ndim - axes :] == target.shape[max(target.ndim - axes, 0) :]
        )
        return written("matmul", result, target, broadcast=fits)
    if traced_threads and (active := trace()) is not None and _is_called(x1, x2):
        waiting: Array | None = active.product(x1, x2)
        called: Array = active.call(matmul, (x1, x2), {}) if waiting is None else waiting
        return called if waiting is None else recorded_product(x1, x2, called)
    plan = _known(x1, x2)
    if plan is not None:
        return recorded_product(x1, x2, plan(x1, x2))
    if (y := _by_vector(x1, x2)) is not None:
        return y
    if isinstance(x1, SYMBOLS) or isinstance(x2, SYMBOLS):
        symbol: Any = product(x1, x2)
        return symbol
    x1, x2 = require_arrays((x1, x2), "matmul", ("x1", "x2"))
    if x1.device is not x2.device:
        raise DeviceError(f"matmul: expected arrays on one device, got {x1.device} and {x2.device}")
    if not x1.ndim or not x2.ndim:
        raise ValueError(f"matmul: expected at least one axis each, got shapes {x1.shape} and {x2.shape}")
    a, b = x1, x2
    if x1.dtype != x2.dtype:
        dtype = dtypes.result_type(x1.dtype, x2.dtype)
        a, b = astype(x1, dtype, copy=False), astype(x2, dtype, copy=False)
    if (
        a.ndim == b.ndim == 1
        and a.shape == b.shape
        and not allows_numpy(a.device)
        and a.dtype in dtypes.INEXACT
    ):
        # A product of matrices gives the work to one block.
        return _sum_of_products(a, b, a.dtype)
    if a.ndim == 1:
        return squeeze(matmul(expand_dims(a, 0), b), -2 if b.ndim > 1 else 0)
    if b.ndim == 1:
        return squeeze(matmul(a, expand_dims(b, 1)), -1)
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(
            f"matmul: shapes {x1.shape} and {x2.shape} do not fit: {a.shape[-1]} is not {b.shape[-2]}"
        )
    try:
        y = _product(a, b)
    except ValueError:
        raise ValueError(f"matmul: shapes {x1.shape} and {x2.shape} do not broadcast") from None
    return recorded_product(a, b, y)


@public
def inplace_matmul(x: Array, other: Any, /) -> Array:
    """Overwrite ``x`` with its product with ``other``, and return ``x``: ``x @= other``.

    If a tape tracks one of them, it records the product, and ``x`` is the result from then on.

    Raises:
        GradientError: a tape tracks one of them, and ``x`` is watched, a parameter, or shares its memory with another
            array.
        TypeError: the product's dtype cannot be cast to that of ``x``.
        ValueError: the product does not have the shape of ``x``, or ``x`` is a repeated view.
    """
    if isinstance(x, Expr):
        x.require_own("matmul")
        return matmul(x, other)
    other = require_array(other, "matmul", "x2", x)
    if not x.ndim or other.ndim < 2:
        raise ValueError(
            f"in-place matmul: expected at least one axis and two, got shapes {x.shape} and {other.shape}"
        )
    recording = tape.recording((x, other))
    check_writable(x, "matmul", recording)
    # A backward reads a copy of x, which may be overwritten again.
    before = kept(x) if recording else x
    result = matmul(before, before if other is x else other)
    if not can_cast(result.dtype, x.dtype, "same_kind"):
        raise TypeError(f"matmul: a result of {result.dtype} cannot be written to an array of {x.dtype}")
    if result.shape != x.shape:
        raise ValueError(f"matmul: a result of shape {result.shape} does not fit an array of shape {x.shape}")
    result = astype(result, x.dtype, copy=False)
    tracking = tape.tracked((result,))
    about_to_write(x)
    write(x.device, x._data, result._data)
    x._bump("matmul")
    if tracking is not None:
        _, keys, tapes = tracking
        writes.overwritten(x, tapes, True)
        forms = [form_of(x)]
        operation = tape.Operation(
            "in-place matmul",
            forms,
            forms,
            lambda cotangents, *_: cotangents,
            jvp=lambda tangents, *_: tangents,
        )
        tape.append(operation, keys, (x._key,), (), tapes)
    return x


def _by_vector(x1: Any, x2: Any) -> Array | None:
    """The product with a vector by NumPy on the host; None if that is not taken."""
    if type(x1) is not Array or type(x2) is not Array:
        return None
    if not _fit_with_vector(x1._layout or x1._planned(), x2._layout or x2._planned()):
        return None
    return _DOT(x1, x2)


@lru_cache(maxsize=4096)
def _fit_with_vector(one: Layout, other: Layout) -> bool:
    """Whether factors on the host, of one dtype of BLAS, of which one is a vector, have a product."""
    if one.device is not other.device or not one.on_host:
        return False
    if one.dtype is not other.dtype or (one.ndim, other.ndim) not in ((1, 1), (1, 2), (2, 1)):
        return False
    return one.dtype.char in "fdFD" and one.shape[-1] == other.shape[0]


def recorded_product(a: Array, b: Array, result: Array, transposed: bool = False) -> Array:
    """The product, recorded if a tape tracks a factor."""
    tracking = tape.tracked((a, b)) if tape.opened else None
    if tracking is not None:
        needs, keys, tapes = tracking
        saved = (a if needs[1] else None, b if needs[0] else None)
        key = a._planned(), b._planned(), result._planned(), transposed
        operation = _operations.get(key)
        if operation is None:
            rule = partial(pull, key[1], transposed)
            along = partial(push, transposed)
            operation = _operations.keep(key, tape.Operation("matmul", key[:2], key[2:3], rule, jvp=along))
            if not a.device.addressable and b.ndim == 2 and b.dtype in dtypes.FLOATS:
                traced = bool(traced_threads) and trace() is not None
                a.device.backend.ahead(partial(_expect, *key[:2], transposed, traced), plans_alone=True)
        tape.record_tracked(operation, keys, (result,), saved, tapes)
    return result


def _expect(left: Layout, right: Layout, transposed: bool, traced: bool) -> None:
    """Compile ahead of need the products that are the gradients of one with a matrix, for a cotangent in C order.

    In a trace, where a product waits for what follows it, also the product alone, as a model's last one mostly is.
    """
    inputs, outputs = right.shape[::-1] if transposed else right.shape
    rows = math.prod(left.shape[:-1])
    x, g = (fresh_layout(left.device, left.dtype, (rows, n)) for n in (inputs, outputs))
    first, second = (g, x) if transposed or _is_transposed(right) else (x, g)
    of_left, of_right = (
        (g, right if transposed else permuted(right, (1, 0))),
        (permuted(first, (1, 0)), second),
    )
    family, problem = product_family()
    alone = [(x, permuted(right, (1, 0)) if transposed else right)] if traced else []
    for factors in (*alone, of_left, of_right):
        if fits_library(*factors):
            family.expect(problem(*factors))


#: What tapes record of products, by the layouts of factors and result, and whether the right factor is transposed.
_operations: Cache[tuple[Layout, Layout, Layout, bool], tape.Operation] = Cache()


def takes_transposed(b: Array) -> bool:
    """Whether :func:`matmul_transposed` takes a right factor."""
    return not b.device.addressable and b.ndim == 2 and b.dtype in dtypes.FLOATS


_transposed_plans: Cache[tuple[Layout, Layout], Plan] = Cache()


@public
def matmul_transposed(a: Array, b: Array) -> Array:
    """``a @ b.T``; for a matrix of floats on a GPU without a view of ``b``, and recorded as one operation."""
    if traced_threads and (active := trace()) is not None and _is_called(a, b):
        waiting: Array | None = active.product(a, b, transposed=True)
        called: Array = active.call(matmul_transposed, (a, b), {}) if waiting is None else waiting
        return called if waiting is None else recorded_product(a, b, called, transposed=True)
    key = (a._layout or a._planned(), b._layout or b._planned())
    plan = None if kernels_only.active() else _transposed_plans.get(key)
    if plan is not None:
        return recorded_product(a, b, plan(a, b), transposed=True)
    view = matrix_transpose(b)
    result = matmul(a, view)
    known = _known(a, view) if takes_transposed(b) and not kernels_only.active() else None
    if isinstance(known, Plan) and not known.copies:
        _transposed_plans.keep(key, known)
    return result


def pull(right: Layout, transposed: bool, cotangents: Any, saved: Any, needs: object) -> list[Gradient]:
    """The cotangents of a product's factors; of one that is not needed, the other is not saved.

    Args:
        right: the layout of the right factor.
        transposed: whether the product is that of the transpose of the right factor.
        cotangents: that of the product.
        saved: the factors.
        needs: not read.
    """
    (g,), (a, b) = cotangents, saved
    of_left = _of_left_untransposed if transposed else _of_left
    of_right = _of_transpose if transposed or _is_transposed(right) else _of_right
    adjoined = of_right is _of_transpose and not transposed
    return [
        None if b is None else _Factor(of_left, g, b, right, False),
        None if a is None else _Factor(of_right, g, a, right, adjoined),
    ]


def push(transposed: bool, tangents: Sequence[Array | None], saved: Sequence[Any]) -> tuple[Array]:
    """The tangent of a product: those of its factors, each times the other factor."""
    (ta, tb), (a, b) = tangents, saved
    multiply = matmul_transposed if transposed else matmul
    if tb is None:
        assert ta is not None
        return (multiply(ta, b),)
    if ta is None:
        return (multiply(a, tb),)
    first = multiply(ta, b)
    if first.dtype not in dtypes.FLOATS or a.ndim < 2 or b.ndim < 2:
        return (add(first, multiply(a, tb)),)
    end = _sum_with(first.dtype)
    return (FUNCTIONS["product_then"](end, 0, a, tb, (first,), (), transposed),)


@lru_cache(maxsize=64)
def _sum_with(dtype: dtypes.DType) -> Program:
    made, before = Expr(input_node(0, dtype)), Expr(input_node(1, dtype))
    return program("product_sum", (add(made, before).node,), (dtype, dtype))


class _Factor(Term):
    """The cotangent of a product's factor: a product of two factors that are views.

    Args:
        factors: makes the views of the next two.
        g: the cotangent of the product.
        other: the other factor.
        right: the layout of the right factor.
        adjoined: whether the factors make the adjoint of the cotangent.
    """

    __slots__ = ("_adjoined", "_factors", "_g", "_other", "_right")

    def __init__(
        self,
        factors: Callable[..., tuple[Array, Array]],
        g: Array,
        other: Array,
        right: Layout,
        adjoined: bool,
    ) -> None:
        self._factors, self._g, self._other, self._right = factors, g, other, right
        self._adjoined = adjoined

    def alone(self) -> Array:
        """See :class:`.Term`."""
        made = _pulled(self._factors, self._g, self._other, self._right)
        return adjoint(made) if self._adjoined else made

    def plus(self, before: Array | Parts) -> Array | None:
        """See :class:`.Term`."""
        if isinstance(before, Parts) or before.dtype not in dtypes.FLOATS:
            return None
        if levels and level_of((self._g, self._other, before)) is not None:
            return None
        then = adjoint(before) if self._adjoined else before
        x, y = self._factors(self._g, self._other, self._right)
        if (*x.shape[:-1], y.shape[-1]) != then.shape:
            return None
        made: Array = FUNCTIONS["product_then"](_sum_with(before.dtype), 0, x, y, (then,), ())
        return adjoint(made) if self._adjoined else made


def _of_left(g: Array, b: Array, right: Layout) -> tuple[Array, Array]:
    """The factors of the cotangent of the left factor."""
    return g, adjoint(b)


def _of_left_untransposed(g: Array, b: Array, right: Layout) -> tuple[Array, Array]:
    """:func:`_of_left` if the right factor is the transpose of a real matrix."""
    return g, b


def _of_right(g: Array, a: Array, right: Layout) -> tuple[Array, Array]:
    """The factors of the cotangent of the right factor."""
    g, a = _as_rows(g, a, right)
    return adjoint(a), g


def _of_transpose(g: Array, a: Array, right: Layout) -> tuple[Array, Array]:
    """Those of the adjoint of :func:`_of_right`."""
    g, a = _as_rows(g, a, right)
    return adjoint(g), a


def _as_rows(g: Array, a: Array, right: Layout) -> tuple[Array, Array]:
    """Both as matrices of all rows, if one matrix is their right factor: one product then."""
    if right.ndim > 2 or a.ndim == 2:
        return g, a
    rows = math.prod(a.shape[:-1])
    return reshape(g, (rows, g.shape[-1])), reshape(a, (rows, a.shape[-1]))


def _is_transposed(right: Layout) -> bool:
    """Whether the right factor is a transposed view, as ``weight.T`` is, so that its cotangent is one too."""
    return right.strides[-2] < right.strides[-1]


#: Cache: a rule and the layouts of (g, other) -> plan of the product that is the gradient, operands swapped?
_pulls: Cache[tuple[Any, ...], tuple[Plan, bool]] = Cache()


def _pulled(factors: Callable[..., tuple[Array, Array]], g: Array, other: Array, right: Layout) -> Array:
    """The product of two factors that are views of the cotangent and of the other factor."""
    key = (factors, g._layout or g._planned(), other._layout or other._planned(), right)
    own = kernels_only.active() or (traced_threads and trace() is not None)
    repeated = None if own or (tape.opened and tape.active()) else _pulls.get(key)
    if repeated is not None:  # without the views
        plan, swapped = repeated
        return plan(other, g) if swapped else plan(g, other)
    x, y = factors(g, other, right)
    result = matmul(x, y)
    known, swapped = None if own else _known(x, y), factors is _of_right
    if isinstance(known, Plan) and not known.copies:
        begins = [_begin(one) for one in ((other, g) if swapped else (g, other))]
        if [_begin(x), _begin(y)] == begins:
            _pulls.keep(key, (known, swapped))
    return result


def _begin(x: Array) -> int:
    """The address of an array whose operand is known."""
    return address(x._data) if x.device.addressable else x._operand


def adjoint(x: Array) -> Array:
    """The conjugate of matrices with the last two axes swapped; of real ones the transpose, a view."""
    return swapaxes(conjugated(x), -2, -1)


@public
def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The sum of products of conj(x1) and x2 along an axis; a negative ``axis`` counts from the end of both.

    Raises:
        AxisError: an operand has no such axis.
        ValueError: the sizes of the axis differ, or the other axes do not broadcast.
    """
    x1, x2 = require_arrays((x1, x2), "vecdot", ("x1", "x2"))
    place1 = normalize_axis(axis, x1.ndim, "vecdot")
    place2 = normalize_axis(axis, x2.ndim, "vecdot")
    if x1.shape[place1] != x2.shape[place2]:
        raise ValueError(f"vecdot: shapes {x1.shape} and {x2.shape} differ along axis {axis}")
    left = x1 if place1 == x1.ndim - 1 else moveaxis(x1, place1, -1)
    right = x2 if place2 == x2.ndim - 1 else moveaxis(x2, place2, -1)
    return _dot(left, right, dtypes.result_type(x1.dtype, x2.dtype))


@fuse(static=["dtype"])
def _dot(x: Array, y: Array, dtype: dtypes.DType) -> Array:
    return sum(conjugated(x) * y, -1, dtype=dtype)


@fuse(static=["dtype"])
def _sum_of_products(x: Array, y: Array, dtype: dtypes.DType) -> Array:
    return sum(x * y, -1, dtype=dtype)


@public
def matvec(x1: Array, x2: Array, /) -> Array:
    """The products of matrices (..., m, n) with vectors (..., n): (..., m).

    Raises:
        ValueError: an operand has too few axes, or the shapes do not fit.
    """
    if type(x1) is Array and x1.ndim == 2 and (result := _by_vector(x1, x2)) is not None:
        return result
    x1, x2 = require_arrays((x1, x2), "matvec", ("x1", "x2"))
    if x1.ndim < 2 or not x2.ndim:
        raise ValueError(f"matvec: expected a matrix and a vector, got shapes {x1.shape} and {x2.shape}")
    return squeeze(matmul(x1, expand_dims(x2, -1)), -1)


@public
def vecmat(x1: Array, x2: Array, /) -> Array:
    """The products of conjugated vectors (..., m) with matrices (..., m, n): (..., n).

    Raises:
        ValueError: an operand has too few axes, or the shapes do not fit.
    """
    if (
        type(x2) is Array
        and x2.ndim == 2
        and x2.dtype.kind == "f"
        and (result := _by_vector(x1, x2)) is not None
    ):
        return result
    x1, x2 = require_arrays((x1, x2), "vecmat", ("x1", "x2"))
    if not x1.ndim or x2.ndim < 2:
        raise ValueError(f"vecmat: expected a vector and a matrix, got shapes {x1.shape} and {x2.shape}")
    row = expand_dims(conjugated(x1), -2)
    return squeeze(matmul(row, x2), -2)


@public
def tensordot(x1: Array, x2: Array, /, axes: Any = 2) -> Array:
    """The sum of products over axes of both.

    Args:
        x1: any array.
        x2: any array.
        axes: the number of last axes of ``x1`` and first axes of ``x2``, or a pair of sequences of axes.

    Returns:
        The other axes of ``x1``, then those of ``x2``.

    Raises:
        ValueError: the sizes or the numbers of the axes differ.
    """
    x1, x2 = require_arrays((x1, x2), "tensordot", ("x1", "x2"))
    if isinstance(axes, int):
        if not 0 <= axes <= min(x1.ndim, x2.ndim):
            raise ValueError(f"tensordot: axes: {axes} are more than {x1.shape} or {x2.shape} has")
        first, second = tuple(range(x1.ndim - axes, x1.ndim)), tuple(range(axes))
    else:
        pair = [(one,) if isinstance(one, int) else tuple(one) for one in axes]
        first = normalize_axes(pair[0], x1.ndim, "tensordot")
        second = normalize_axes(pair[1], x2.ndim, "tensordot")
    sizes1, sizes2 = [x1.shape[i] for i in first], [x2.shape[i] for i in second]
    if sizes1 != sizes2:
        raise ValueError(f"tensordot: axes: shapes {x1.shape} and {x2.shape} differ along {axes}")
    rows = [i for i in range(x1.ndim) if i not in first]
    columns = [i for i in range(x2.ndim) if i not in second]
    inner = math.prod(sizes1)
    if not rows and not columns:
        return matmul(*(reshape(permute_dims(x, axes), (inner,)) for x, axes in ((x1, first), (x2, second))))
    left = reshape(permute_dims(x1, (*rows, *first)), (math.prod(x1.shape[i] for i in rows), inner))
    right = reshape(permute_dims(x2, (*second, *columns)), (inner, math.prod(x2.shape[i] for i in columns)))
    return reshape(matmul(left, right), (*(x1.shape[i] for i in rows), *(x2.shape[i] for i in columns)))


@public
def outer(x1: Array, x2: Array, /, out: Array | None = None) -> Array:
    """The matrix of products of all pairs of elements of two flattened arrays; ``out``: where to write it."""
    x1, x2 = require_arrays((x1, x2), "outer", ("x1", "x2"))
    first, second = ravel(x1), ravel(x2)
    return written("outer", expand_dims(first, 1) * second, one_out("outer", out))


@public
def inner(x1: Array, x2: Array, /) -> Array:
    """The sum of products over the last axes."""
    if type(x2) is Array and x2.ndim == 1 and (result := _by_vector(x1, x2)) is not None:
        return result
    x1, x2 = require_arrays((x1, x2), "inner", ("x1", "x2"))
    if not x1.ndim or not x2.ndim:
        return x1 * x2
    return tensordot(x1, x2, axes=((-1,), (-1,)))


@public
def dot(x1: Array, x2: Array, /, out: Array | None = None) -> Array:
    """The product of matrices or vectors; in general over the last axis of ``x1`` and the second to last of ``x2``.

    Args:
        x1: any array.
        x2: any array.
        out: the array to write the result to, of its shape and dtype and in C order, as of ``numpy.dot``.

    Raises:
        DeviceError: the arrays are on different devices.
        ValueError: the shapes do not fit, or ``out`` does not.
    """
    result: Array | None
    if out is not None:
        result = dot(x1, x2)
        require_written(out, "dot", "out")
        if out.shape != result.shape or out.dtype != result.dtype or not out.flags.c_contiguous:
            raise ValueError(
                f"dot: out: expected an array of shape {result.shape} and {result.dtype} in C order, got shape "
                f"{out.shape} and {out.dtype}"
            )
        return written("dot", result, out)
    if (result := _by_vector(x1, x2)) is not None:
        return result
    x1, x2 = require_arrays((x1, x2), "dot", ("x1", "x2"))
    if not x1.ndim or not x2.ndim:
        return x1 * x2
    return tensordot(x1, x2, axes=((-1,), (-2,) if x2.ndim > 1 else (0,)))


@by_numpy("vdot", alike=True, why=_BLAS)
def _vdot(a: Any, b: Any) -> Any:
    return (
        np.vdot(a, b)
        if a.shape == b.shape and a.dtype in ("f4", "f8")
        else "of two shapes, or no floats of BLAS"
    )


@public
def vdot(x1: Array, x2: Array, /) -> Array:
    """The sum of products of conj(x1) and x2 over all elements, both flattened."""
    if type(x2) is Array:
        layout = x2._layout or x2._planned()
        many = layout.ndim == 1 and layout.size >= MANY and layout.dtype.kind == "f"
        if many and (result := _by_vector(x1, x2)) is not None:
            return result
    x1, x2 = require_arrays((x1, x2), "vdot", ("x1", "x2"))
    if (result := _vdot(x1, x2)) is not None:
        return result
    return vecdot(ravel(x1), ravel(x2))


@by_numpy("kron", alike=True, warns=True)
def _kronecker(a: Any, b: Any, shape: tuple[int, ...]) -> Any:
    return np.multiply(a, b).reshape(shape)


@public
def kron(x1: Array, x2: Array, /) -> Array:
    """The Kronecker product: blocks of ``x2`` multiplied by each element of ``x1``."""
    x1, x2 = require_arrays((x1, x2), "kron", ("x1", "x2"))
    ndim = max(x1.ndim, x2.ndim)
    sizes = [(1,) * (ndim - x.ndim) + x.shape for x in (x1, x2)]
    left = reshape(x1, tuple(n for size in sizes[0] for n in (size, 1)))
    right = reshape(x2, tuple(n for size in sizes[1] for n in (1, size)))
    shape = tuple(a * b for a, b in zip(*sizes, strict=True))
    if (result := _kronecker(left, right, shape, times=x2.size)) is not None:
        return result
    return reshape(left * right, shape)
