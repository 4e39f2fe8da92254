"""Regression losses: the squared and the absolute error, and the Huber losses between them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from numbers import Real
from typing import Any

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..elementwise.fuse import Fused, fuse
from ..elementwise.operands import require_arrays
from ..errors import require_choice
from .fused import common_dtype, require_shape

REDUCTIONS = ("mean", "sum", "none")


def reduced(values: Any, reduction: str) -> Any:
    """The mean or the sum of ``values``, or ``values``, at the end of a fused loss."""
    if reduction == "none":
        return values
    return ops.mean(values) if reduction == "mean" else ops.sum(values)


def by_reduction(values: Callable[..., Any]) -> dict[str, Fused[..., Any]]:
    """``values`` as a fused function for each reduction, faster than one function with a static argument."""

    def ending(reduction: str) -> Fused[..., Any]:
        @functools.wraps(values)
        def function(*args: Any) -> Any:
            return reduced(values(*args), reduction)

        return fuse(function)

    return {reduction: ending(reduction) for reduction in REDUCTIONS}


def require_same_shape(name: str, given: dict[str, Any]) -> list[Array]:
    """Two operands as arrays of the same shape; broadcasting would hide a mismatch.

    Targets, the second, may be integers or bools: they take the dtype of the first.

    Raises:
        TypeError: the first is not a floating array, or the second one of complex numbers.
        ValueError: the shapes or the devices differ.
    """
    arrays = dict(zip(given, require_arrays(given.values(), name, list(given)), strict=True))
    (first, one), (second, other) = arrays.items()
    common_dtype(name, {first: one})
    if dtypes.info(other.dtype).kind in "iub":
        other = ops.astype(other, one.dtype)
    common_dtype(name, {first: one, second: other})
    if one.shape != other.shape:  # before words are made for an error
        require_shape(name, second, other, *one.shape, note=f", as {first} has")
    return [one, other]


def _require_width(name: str, argument: str, value: float, least: float) -> None:
    if not isinstance(value, Real) or isinstance(value, bool) or not value >= least:
        raise ValueError(f"{name}: {argument}: expected a number of at least {least:g}, got {value!r}")


@by_reduction
def _squared(prediction: Any, target: Any) -> Any:
    return ops.square(prediction - target)


@by_reduction
def _absolute(prediction: Any, target: Any) -> Any:
    return abs(prediction - target)


@by_reduction
def _huber(prediction: Any, target: Any, delta: float, scale: float) -> Any:
    # Not a choice of two formulas: the square of the one that is not taken overflows, and its derivative is NaN. Nor of
    # absolute errors, whose second derivative at 0 is lost.
    error = prediction - target
    within = ops.clip(error, -delta, delta)
    return within * scale * (error - 0.5 * within)


def mse_loss(prediction: Array, target: Array, reduction: str = "mean") -> Array:
    """The mean of ``(prediction - target) ** 2``.

    Args:
        prediction: a floating dtype.
        target: of the same shape, any real dtype.
        reduction: ``"mean"`` or ``"sum"`` over all elements, or ``"none"`` for the loss of each.

    Returns:
        A 0-d array, or for ``"none"`` one of the shape of ``prediction``.

    Raises:
        TypeError: ``prediction`` is not a floating array, or ``target`` not one of real numbers.
        ValueError: the shapes differ, which broadcasting would hide, or there is no such reduction.

    >>> import cukern as ck
    >>> ck.nn.mse_loss(ck.asarray([1.0, 2.0]), ck.asarray([1.0, 4.0])).item()
    2.0
    """
    require_choice("mse_loss: reduction", reduction, REDUCTIONS)
    prediction, target = require_same_shape("mse_loss", {"prediction": prediction, "target": target})
    return _squared[reduction](prediction, target)


def l1_loss(prediction: Array, target: Array, reduction: str = "mean") -> Array:
    """The mean of ``|prediction - target|``; the derivative is 0 where they are equal.

    Arguments, result and errors are those of :func:`mse_loss`.

    >>> import cukern as ck
    >>> ck.nn.l1_loss(ck.asarray([1.0, 2.0]), ck.asarray([1.0, 4.0])).item()
    1.0
    """
    require_choice("l1_loss: reduction", reduction, REDUCTIONS)
    prediction, target = require_same_shape("l1_loss", {"prediction": prediction, "target": target})
    return _absolute[reduction](prediction, target)


def huber_loss(prediction: Array, target: Array, delta: float = 1.0, reduction: str = "mean") -> Array:
    """The mean of ``0.5 * error ** 2`` for errors below ``delta``, else of ``delta * (error - 0.5 * delta)``.

    The error is ``|prediction - target|``; ``delta`` is positive. The other arguments, the result and the errors
    raised are those of :func:`mse_loss`.

    Source: Huber, "Robust estimation of a location parameter", 1964.

    >>> import cukern as ck
    >>> ck.nn.huber_loss(ck.asarray([0.0, 0.0]), ck.asarray([1.0, 3.0]), reduction="none").tolist()
    [0.5, 2.5]
    """
    require_choice("huber_loss: reduction", reduction, REDUCTIONS)
    prediction, target = require_same_shape("huber_loss", {"prediction": prediction, "target": target})
    _require_width("huber_loss", "delta", delta, 0.0)
    if not delta:
        raise ValueError("huber_loss: delta: expected a number above 0, got 0")
    return _huber[reduction](prediction, target, float(delta), 1.0)


def smooth_l1_loss(prediction: Array, target: Array, beta: float = 1.0, reduction: str = "mean") -> Array:
    """:func:`huber_loss` with ``delta=beta``, divided by ``beta``; for ``beta`` 0 the L1 loss.

    Source: Girshick, "Fast R-CNN", 2015.

    >>> import cukern as ck
    >>> ck.nn.smooth_l1_loss(ck.asarray([0.0, 0.0]), ck.asarray([1.0, 3.0]), beta=2.0, reduction="none").tolist()
    [0.25, 2.0]
    """
    require_choice("smooth_l1_loss: reduction", reduction, REDUCTIONS)
    prediction, target = require_same_shape("smooth_l1_loss", {"prediction": prediction, "target": target})
    _require_width("smooth_l1_loss", "beta", beta, 0.0)
    if not beta:
        return l1_loss(prediction, target, reduction)
    return _huber[reduction](prediction, target, float(beta), 1.0 / beta)
