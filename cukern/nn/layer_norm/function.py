"""Layer and root-mean-square normalization: the forward passes, their gradients and the modules."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from ... import namespace as ops
from ...array import Array
from ...array.batched import Level
from ...array.creation import ones, zeros
from ...array.mapping import mapped
from ...autodiff import recompute, tape
from ...cache import Cache
from ...device import Device
from ...dtypes import DType
from ...elementwise.operands import first_array, require_array
from ...ops.info import finfo
from ..fused import fused_vjp, in_common_dtype, is_int, layouts_of, record_fused, require_eps, tracked
from ..module import Module, Parameter
from .families import expect_backward, launch_backward, launch_forward
from .reference import layer_norm_reference


def normalized(
    name: str,
    x: Array,
    normalized_shape: int | Sequence[int],
    weight: Array | None,
    bias: Array | None,
    eps: float | None,
    centered: bool,
    residual: Array | None = None,
) -> Any:
    """:func:`layer_norm`, or :func:`.rms_norm`, which does not center rows; with a residual a pair.

    The pair is what :func:`add_layer_norm` returns.
    """
    layouts = layouts_of(x, weight, bias, residual)
    sizes = normalized_shape if isinstance(normalized_shape, tuple) else (normalized_shape,)
    key = (sizes, layouts) if _INT.issuperset(map(type, sizes)) else None
    if key in _checked:
        return _recorded(name, x, weight, bias, sizes, _eps_of(name, eps, x), centered, residual)
    x = require_array(x, name, "x", first_array((weight, bias, residual)))
    given = x
    x, weight, bias, residual = in_common_dtype(
        name, {"x": x}, {"weight": weight, "bias": bias, "residual": residual}
    )
    eps = _eps_of(name, eps, given)
    sizes = require_normalized_shape(normalized_shape, name)
    if x.shape[max(x.ndim - len(sizes), 0) :] != sizes:
        raise ValueError(f"{name}: x: expected trailing axes of sizes {sizes}, got shape {x.shape}")
    for argument, one in (("weight", weight), ("bias", bias)):
        if one is not None and one.shape != sizes:
            raise ValueError(f"{name}: {argument}: expected shape {sizes}, got {one.shape}")
    if residual is not None and residual.shape != x.shape:
        raise ValueError(f"{name}: residual: expected the shape of x, {x.shape}, got {residual.shape}")
    if not x.size:
        x = x if residual is None else ops.add(x, residual)
        y = layer_norm_reference(x, len(sizes), weight, bias, eps, centered) if all(sizes) else x
        return y if residual is None else (y, x)
    if key is not None and layouts is not None and layouts == layouts_of(x, weight, bias, residual):
        _checked.keep(key, True)
    return _recorded(name, x, weight, bias, sizes, eps, centered, residual)


def _eps_of(name: str, eps: float | None, x: Array) -> float:
    return _epsilon(x.dtype) if eps is None else require_eps(name, eps)


@cache
def _epsilon(dtype: DType) -> float:
    return float(finfo(dtype).eps)


_INT = frozenset((int,))
#: ``normalized_shape`` and the layouts of checked arguments of one dtype.
_checked: Cache[Any, bool] = Cache()


def _recorded(
    name: str,
    x: Array,
    weight: Array | None,
    bias: Array | None,
    sizes: tuple[int, ...],
    eps: float,
    centered: bool,
    residual: Array | None = None,
) -> Any:
    """The same of checked arguments, on tapes that track them."""
    if residual is not None:
        return _added(name, x, residual, weight, bias, sizes, eps, centered)
    columns = math.prod(sizes)
    primals = (x, weight, bias)
    tracking = tracked(primals) if tape.opened else None
    if tracking is not None:
        expect_backward(x, columns, weight is not None, centered)
    y, statistics = launch_forward(x, weight, bias, eps, columns, centered)
    if tracking is not None:

        def kernels(
            saved: Sequence[Any], cotangents: Sequence[Array], wanted: Sequence[bool]
        ) -> Sequence[Array | None]:
            x, weight, bias, statistics = saved
            which = (wanted[1], wanted[2])
            dx, dweight, dbias = launch_backward(
                x, cotangents[0], weight, statistics, columns, which, centered
            )
            return [dx, _shaped(dweight, weight), _shaped(dbias, bias)]

        def composed(x: Array, weight: Array | None, bias: Array | None) -> Array:
            return layer_norm_reference(x, len(sizes), weight, bias, eps, centered)

        def again(x: Array, weight: Array | None, bias: Array | None) -> Array:
            return launch_forward(x, weight, bias, eps, columns, centered)[0]

        known = sizes, eps
        record_fused(name, primals, (y,), (statistics,), kernels, composed, tracking, again, known)
    return y


def _added(
    name: str,
    x: Array,
    residual: Array,
    weight: Array | None,
    bias: Array | None,
    sizes: tuple[int, ...],
    eps: float,
    centered: bool,
) -> tuple[Array, Array]:
    """The same of ``x + residual``, and the sum: what is kept for the gradient is the sum alone."""
    columns = math.prod(sizes)
    given = [one for one in (x, residual, weight, bias) if one is not None]
    tracking = tape.tracked(given) if tape.opened else None
    y, statistics, total = launch_forward(x, weight, bias, eps, columns, centered, residual)
    if tracking is None:
        return y, total
    _, keys, tapes = tracking
    saved = total, weight, bias, statistics
    known = name, layouts_of(x, residual, weight, bias), sizes, eps
    operation = _sums.get(known)
    if operation is None:
        forms = [one._planned() for one in given]
        pull = partial(_pull_sum, sizes, eps, centered)
        operation = tape.Operation(name, forms, [y._planned(), total._planned()], pull, False)
        _sums.keep(known, operation)
    tape.record_tracked(operation, keys, (y, total), saved, tapes)
    if tapes[0].recompute:

        def again(total: Array, weight: Array | None, bias: Array | None) -> Array:
            return launch_forward(total, weight, bias, eps, columns, centered)[0]

        recompute.note(name, again, saved[:3], y, tapes)
    return y, total


#: By the name of a norm of a sum, the layouts of its arguments, the sizes of rows, and eps.
_sums: Cache[tuple[Any, ...], tape.Operation] = Cache()


def _pull_sum(
    sizes: tuple[int, ...],
    eps: float,
    centered: bool,
    cotangents: Sequence[Any],
    kept: Sequence[Any],
    needs: Sequence[bool],
) -> Sequence[Array | None]:
    """The gradients of the arguments of :func:`_added`, from those of the norm and of the sum."""
    (dy, plus), (total, weight, bias, statistics) = cotangents, kept
    of_sum = needs[0] or needs[1]
    if dy is None:
        return [*(plus if need else None for need in needs[:2]), *(None for _ in needs[2:])]
    still = iter(needs[2:])
    wanted = of_sum, weight is not None and next(still), bias is not None and next(still)

    def composed(total: Array, weight: Array | None, bias: Array | None) -> Any:
        y = layer_norm_reference(total, len(sizes), weight, bias, eps, centered)
        return y if plus is None else (y, total)

    def kernels() -> Sequence[Array | None]:
        made = launch_backward(total, dy, weight, statistics, math.prod(sizes), wanted[1:], centered, plus)
        return [made[0], _shaped(made[1], weight), _shaped(made[2], bias)]

    own = total, weight, bias
    given = (dy,) if plus is None else (dy, plus)
    dx, *others = fused_vjp(kernels, composed, own, given, wanted)
    of_numbers = [one for one, primal in zip(others, own[1:], strict=True) if primal is not None]
    return [*(dx if need else None for need in needs[:2]), *of_numbers]


def of_all(level: Level, norm: Callable[..., Array], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Array:
    """The rule of a norm of rows: weights of each example are multiplied behind it."""
    bound = inspect.signature(norm).bind(*args, **kwargs)
    given = bound.arguments
    x = given["x"] = level.front(given["x"])
    last = {name: given.pop(name) for name in ("weight", "bias") if level.holds(given.get(name))}
    if "weight" in last and given.get("bias") is not None:
        last["bias"] = given.pop("bias")
    y = norm(**given)
    for name, combine in (("weight", ops.multiply), ("bias", ops.add)):
        if name in last:
            y = combine(y, level.value(last[name], x.ndim - 1))
    return y


def _shaped(gradient: Array | None, like: Array | None) -> Array | None:
    """A gradient with the shape of ``like``; None if there is none."""
    if gradient is None or like is None or gradient.shape == like.shape:
        return gradient
    return ops.reshape(gradient, like.shape)


@mapped(of_all)
def layer_norm(
    x: Array,
    normalized_shape: int | Sequence[int],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> Array:
    """``(x - mean) / sqrt(variance + eps) * weight + bias``, with mean and variance over the trailing axes.

    A GPU reads ``x`` once if a block can hold a row (up to 32,768 elements), or from compute capability 9 on a
    cluster of eight blocks (262,144 elements). The gradient reads ``x`` and the result's gradient once for rows that
    begin at multiples of 16 bytes, of up to half as many elements, a quarter in float64. Other rows, and all rows on
    the host, are read twice: once for the mean and variance, or the gradient's sums, and once for the result. The mean
    is subtracted before squaring, so a large mean costs no accuracy. The gradient subtracts the row's first element
    instead: if that is k standard deviations from the mean, rounding errors are k times as large.

    Args:
        x: shape (..., *normalized_shape), a floating dtype.
        normalized_shape: the sizes of the trailing axes; an int for one axis.
        weight: shape ``normalized_shape``; ones when None.
        bias: shape ``normalized_shape``; zeros when None.
        eps: added to the variance, whose divisor is the number of elements.

    Returns:
        The shape of ``x``, in the promoted dtype of the arguments.

    Raises:
        TypeError: an argument is not a floating array.
        ValueError: the shapes do not fit, or ``eps`` is negative.

    Source: Ba, Kiros and Hinton, "Layer Normalization", 2016.

    >>> import cukern as ck
    >>> ck.nn.layer_norm(ck.asarray([[1.0, 3.0]]), 2, eps=0.0).tolist()
    [[-1.0, 1.0]]
    """
    return normalized("layer_norm", x, normalized_shape, weight, bias, eps, True)


def add_layer_norm(
    x: Array,
    residual: Array,
    normalized_shape: int | Sequence[int],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> tuple[Array, Array]:
    """:func:`layer_norm` of ``x + residual``, and the sum itself, in one launch; so are their gradients.

    A residual block adds what it has computed to its input, and the next one normalizes the sum and adds to it again.

    Args:
        x: shape (..., *normalized_shape), a floating dtype.
        residual: shape of ``x``.
        normalized_shape: the sizes of the trailing axes; an int for one axis.
        weight: shape ``normalized_shape``; ones when None.
        bias: shape ``normalized_shape``; zeros when None.
        eps: added to the variance.

    Returns:
        The normalized sum and the sum, both of the shape of ``x``, in the promoted dtype of the arguments.

    Raises:
        TypeError: an argument is not a floating array.
        ValueError: the shapes do not fit, or ``eps`` is negative.

    >>> import cukern as ck
    >>> y, total = ck.nn.add_layer_norm(ck.asarray([[1.0, 1.0]]), ck.asarray([[0.0, 2.0]]), 2, eps=0.0)
    >>> y.tolist(), total.tolist()
    ([[-1.0, 1.0]], [[1.0, 3.0]])
    """
    require_residual("add_layer_norm", residual)
    return normalized("add_layer_norm", x, normalized_shape, weight, bias, eps, True, residual)


@mapped(of_all)
def rms_norm(
    x: Array, normalized_shape: int | Sequence[int], weight: Array | None = None, eps: float | None = None
) -> Array:
    """``x / sqrt(mean(x ** 2) + eps) * weight``, with the mean over the trailing axes.

    The kernels are those of :func:`layer_norm`, which says how often they read ``x``.

    Args:
        x: shape (..., *normalized_shape), a floating dtype.
        normalized_shape: the sizes of the trailing axes; an int for one axis.
        weight: shape ``normalized_shape``; ones when None.
        eps: added to the mean; the machine epsilon of the dtype of ``x`` when None.

    Returns:
        The shape of ``x``, in the promoted dtype of the arguments.

    Raises:
        TypeError: an argument is not a floating array.
        ValueError: the shapes do not fit, or ``eps`` is negative.

    Source: Zhang and Sennrich, "Root mean square layer normalization", 2019.

    >>> import cukern as ck
    >>> ck.nn.rms_norm(ck.asarray([[3.0, 3.0]]), 2, eps=0.0).tolist()
    [[1.0, 1.0]]
    """
    return normalized("rms_norm", x, normalized_shape, weight, None, eps, False)


def add_rms_norm(
    x: Array,
    residual: Array,
    normalized_shape: int | Sequence[int],
    weight: Array | None = None,
    eps: float | None = None,
) -> tuple[Array, Array]:
    """:func:`rms_norm` of ``x + residual``, and the sum itself, in one launch; so are their gradients.

    Args:
        x: shape (..., *normalized_shape), a floating dtype.
        residual: shape of ``x``.
        normalized_shape: the sizes of the trailing axes; an int for one axis.
        weight: shape ``normalized_shape``; ones when None.
        eps: added to the mean; the machine epsilon of the dtype of ``x`` when None.

    Returns:
        The normalized sum and the sum, both of the shape of ``x``, in the promoted dtype of the arguments.

    Raises:
        TypeError: an argument is not a floating array.
        ValueError: the shapes do not fit, or ``eps`` is negative.

    >>> import cukern as ck
    >>> y, total = ck.nn.add_rms_norm(ck.asarray([[1.0, 1.0]]), ck.asarray([[2.0, 2.0]]), 2, eps=0.0)
    >>> y.tolist(), total.tolist()
    ([[1.0, 1.0]], [[3.0, 3.0]])
    """
    require_residual("add_rms_norm", residual)
    return normalized("add_rms_norm", x, normalized_shape, weight, None, eps, False, residual)


def require_residual(name: str, residual: object) -> None:
    """Raise if there is none.

    Raises:
        TypeError: it is None.
    """
    if residual is None:
        raise TypeError(f"{name}: residual: expected a cukern array, got NoneType")


def require_normalized_shape(normalized_shape: int | Sequence[int], name: str) -> tuple[int, ...]:
    """The sizes of the trailing axes.

    Raises:
        ValueError: there is none, or one is not a size.
    """
    shape = normalized_shape if isinstance(normalized_shape, Sequence) else (normalized_shape,)
    if not shape or not all(is_int(n) and n >= 0 for n in shape):
        raise ValueError(f"{name}: normalized_shape: expected one size or more, got {normalized_shape!r}")
    return tuple(map(int, shape))


class LayerNorm(Module):
    """:func:`layer_norm` with trained weight, initially ones, and bias, initially zeros.

    Args:
        normalized_shape: the sizes of the trailing axes; an int for one axis.
        eps: added to the variance.
        affine: whether there are a weight and a bias.
        bias: whether there is a bias besides the weight.
        dtype: that of the parameters; the default floating dtype when None.
        device: that of the parameters; the current one when None.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        affine: bool = True,
        bias: bool = True,
        dtype: Any = None,
        device: Device | str | None = None,
    ) -> None:
        self.normalized_shape = require_normalized_shape(normalized_shape, "layer_norm")
        self.eps = eps
        sizes = self.normalized_shape
        self.weight = Parameter(ones(sizes, dtype, device)) if affine else None
        self.bias = Parameter(zeros(sizes, dtype, device)) if affine and bias else None

    def forward(self, x: Array, residual: Array | None = None) -> Any:
        """The normalized ``x``, of its shape; with a ``residual`` what :func:`add_layer_norm` returns, a pair."""
        own = self.normalized_shape, self.weight, self.bias, self.eps
        return layer_norm(x, *own) if residual is None else add_layer_norm(x, residual, *own)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"


class RMSNorm(Module):
    """:func:`rms_norm` with a trained weight, initially ones.

    Args:
        normalized_shape: the sizes of the trailing axes; an int for one axis.
        eps: added to the mean square; the machine epsilon of the inputs' dtype when None.
        affine: whether there is a weight.
        dtype: that of the weight; the default floating dtype when None.
        device: that of the weight; the current one when None.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        affine: bool = True,
        dtype: Any = None,
        device: Device | str | None = None,
    ) -> None:
        self.normalized_shape = require_normalized_shape(normalized_shape, "RMSNorm")
        self.eps = eps if eps is None else require_eps("RMSNorm", eps)
        self.weight = Parameter(ones(self.normalized_shape, dtype, device)) if affine else None

    def forward(self, x: Array, residual: Array | None = None) -> Any:
        """The normalized ``x``, of its shape; with a ``residual`` what :func:`add_rms_norm` returns, a pair."""
        own = self.normalized_shape, self.weight, self.eps
        return rms_norm(x, *own) if residual is None else add_rms_norm(x, residual, *own)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}"
