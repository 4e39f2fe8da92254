"""Layer and root-mean-square normalization: the forward passes, their gradients and the modules."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import namespace as ops
from ...array import Array
from ...array.batched import Level
from ...array.creation import ones, zeros
from ...array.mapping import mapped
from ...autodiff import recompute, tape
from ...cache import Cache
from ...device import Device
from ...elementwise.operands import first_array, require_array
from ...ops.info import finfo
from ..fused import (
    fused_vjp,
    in_common_dtype,
    is_int,
    layouts_of,
    record_fused,
    require_eps,
    require_shape,
    tracked,
)
from ..module import Module, Parameter
from .families import expect_backward, launch_backward, launch_forward
from .reference import layer_norm_reference


class _Norm(NamedTuple):
    """What a call asks for besides its arrays.

    Attributes:
        name: of the function.
        sizes: of the trailing axes, which are normalized.
        eps: what is added to the variance.
        centered: whether the mean is subtracted, as RMS norm does not.
    """

    name: str
    sizes: tuple[int, ...]
    eps: float
    centered: bool

    @property
    def columns(self) -> int:
        """Elements of a row."""
        return math.prod(self.sizes)

    def launch(
        self, x: Array, weight: Array | None, bias: Array | None, residual: Array | None = None
    ) -> list[Array]:
        """The result and statistics, and with a residual the sum."""
        return launch_forward(x, weight, bias, self.eps, self.columns, self.centered, residual)

    def again(self, x: Array, weight: Array | None, bias: Array | None) -> Array:
        """The result alone."""
        return self.launch(x, weight, bias)[0]

    def composed(self, x: Array, weight: Array | None, bias: Array | None) -> Array:
        """The result as a composition."""
        return layer_norm_reference(x, len(self.sizes), weight, bias, self.eps, self.centered)

    def kernels(
        self,
        saved: Sequence[Any],
        cotangents: Sequence[Array],
        wanted: Sequence[bool],
        plus: Array | None = None,
    ) -> Sequence[Array | None]:
        """The gradients of x, to which ``plus`` is added, weight and bias."""
        x, weight, bias, statistics = saved
        of_columns = wanted[1], wanted[2]
        dx, dweight, dbias = launch_backward(
            x, cotangents[0], weight, statistics, self.columns, of_columns, self.centered, plus
        )
        return [dx, _shaped(dweight, weight), _shaped(dbias, bias)]

    def pull_of_sum(
        self, cotangents: Sequence[Any], kept: Sequence[Any], needs: Sequence[bool]
    ) -> Sequence[Array | None]:
        """The gradients of the arguments of :func:`_added`, from those of the norm and of the sum."""
        (dy, plus), (*own, _) = cotangents, kept
        if dy is None:
            return [*(plus if need else None for need in needs[:2]), *(None for _ in needs[2:])]
        still = iter(needs[2:])
        wanted = needs[0] or needs[1], *(one is not None and next(still) for one in own[1:])

        def composed(total: Array, weight: Array | None, bias: Array | None) -> Any:
            y = self.composed(total, weight, bias)
            return y if plus is None else (y, total)

        given = (dy,) if plus is None else (dy, plus)
        dx, *others = fused_vjp(lambda: self.kernels(kept, given, wanted, plus), composed, own, given, wanted)
        of_numbers = [one for one, primal in zip(others, own[1:], strict=True) if primal is not None]
        return [*(dx if need else None for need in needs[:2]), *of_numbers]


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
    plain = _INT.issuperset(map(type, sizes)) and type(eps) in _EPS
    key = (name, sizes, eps, layouts) if plain else None
    norm = _checked.get(key)
    if norm is not None:
        return _recorded(norm, x, weight, bias, residual)
    x = require_array(x, name, "x", first_array((weight, bias, residual)))
    own = x.dtype
    x, weight, bias, residual = in_common_dtype(
        name, {"x": x}, {"weight": weight, "bias": bias, "residual": residual}
    )
    eps = float(finfo(own).eps) if eps is None else require_eps(name, eps)
    sizes = require_normalized_shape(normalized_shape, name)
    if x.shape[max(x.ndim - len(sizes), 0) :] != sizes:
        raise ValueError(f"{name}: x: expected trailing axes of sizes {sizes}, got shape {x.shape}")
    for argument, one in (("weight", weight), ("bias", bias)):
        require_shape(name, argument, one, *sizes)
    if residual is not None and residual.shape != x.shape:
        raise ValueError(f"{name}: residual: expected the shape of x, {x.shape}, got {residual.shape}")
    norm = _Norm(name, sizes, eps, centered)
    if not x.size:
        x = x if residual is None else ops.add(x, residual)
        y = norm.composed(x, weight, bias) if all(sizes) else x
        return y if residual is None else (y, x)
    if key is not None and layouts is not None and layouts == layouts_of(x, weight, bias, residual):
        _checked.keep(key, norm)
    return _recorded(norm, x, weight, bias, residual)


#: Types of sizes, and of eps: numbers that are equal as keys are the same eps, but for bools, which are none.
_INT, _EPS = frozenset((int,)), frozenset((float, int, np.float64, np.float32, type(None)))
#: What is asked for, by the arguments besides arrays and the layouts of these, of checked ones of one dtype.
_checked: Cache[Any, _Norm] = Cache()


def _recorded(norm: _Norm, x: Array, weight: Array | None, bias: Array | None, residual: Array | None) -> Any:
    """The same of checked arguments, on tapes that track them."""
    if residual is not None:
        return _added(norm, x, residual, weight, bias)
    primals = (x, weight, bias)
    tracking = tracked(primals) if tape.opened else None
    if tracking is not None:
        expect_backward(x, weight, bias, norm.columns, tracking[0], norm.centered)
    y, statistics = norm.launch(x, weight, bias)
    if tracking is not None:
        record_fused(
            norm.name, primals, (y,), (statistics,), norm.kernels, norm.composed, tracking, norm.again, norm
        )
    return y


def _added(
    norm: _Norm, x: Array, residual: Array, weight: Array | None, bias: Array | None
) -> tuple[Array, Array]:
    """The same of ``x + residual``, and the sum: what is kept for the gradient is the sum alone."""
    given = [one for one in (x, residual, weight, bias) if one is not None]
    tracking = tape.tracked(given) if tape.opened else None
    y, statistics, total = norm.launch(x, weight, bias, residual)
    if tracking is None:
        return y, total
    _, keys, tapes = tracking
    known = norm, layouts_of(x, residual, weight, bias)
    operation = _sums.get(known)
    if operation is None:
        forms = [one._planned() for one in given]
        operation = tape.Operation(
            norm.name, forms, [y._planned(), total._planned()], norm.pull_of_sum, False
        )
        _sums.keep(known, operation)
    tape.record_tracked(operation, keys, (y, total), (total, weight, bias, statistics), tapes)
    if tapes[0].recompute:
        recompute.note(norm.name, norm.again, (total, weight, bias), y, tapes)
    return y, total


#: By a norm of a sum, and the layouts of its arguments.
_sums: Cache[tuple[Any, ...], tape.Operation] = Cache()


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
