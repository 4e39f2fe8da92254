"""The normalised exponentials, along an axis."""

from __future__ import annotations

from collections.abc import Callable

from .. import dtypes, tape
from ..array import Array
from ..fuse import fuse
from ..table import divide, exp, multiply, subtract
from .axes import normalize_axes, public, require_array
from .elementwise import astype
from .reduce import logsumexp, max, sum

__all__ = ["log_softmax", "softmax"]


@fuse
def _exp_below(x: Array, peak: Array) -> Array:
    return exp(subtract(x, peak))


# Sums over an axis come in the accumulator's dtype: a half type would round them, or overflow.
@fuse
def _divided(x: Array, total: Array) -> Array:
    return divide(x, total).astype(x.dtype)


@fuse
def _below(x: Array, total: Array) -> Array:
    return subtract(x, total).astype(x.dtype)


@fuse
def _centred(g: Array, y: Array, mean: Array) -> Array:
    return multiply(y, subtract(g, mean)).astype(y.dtype)


@fuse
def _log_centred(g: Array, y: Array, total: Array) -> Array:
    return subtract(g, multiply(exp(y), total)).astype(y.dtype)


def _wide_sum(x: Array, axis: int) -> Array:
    return sum(x, axis, dtype=dtypes.info(x.dtype).acc, keepdims=True)


@public
def softmax(x: Array, /, axis: int = -1) -> Array:
    """exp(x) divided by its sum along an axis; NaN where all of the axis is -inf, or some of it inf.

    Args:
        x: an array; integers are computed in float64.
        axis: the axis.

    Raises:
        AxisError: there is no such axis.
    """

    def compute(x: Array) -> Array:
        e = _exp_below(x, max(x, axis, keepdims=True))
        return _divided(e, _wide_sum(e, axis))

    def vjp(g: Array, y: Array) -> Array:
        return _centred(g, y, _wide_sum(g * y, axis))

    return _normalized("softmax", x, axis, compute, vjp)


@public
def log_softmax(x: Array, /, axis: int = -1) -> Array:
    """The logarithm of :func:`softmax`, exact where that is small. Arguments as there."""

    def compute(x: Array) -> Array:
        return _below(x, logsumexp._apply(x, axis, True, dtypes.info(x.dtype).acc))

    def vjp(g: Array, y: Array) -> Array:
        return _log_centred(g, y, _wide_sum(g, axis))

    return _normalized("log_softmax", x, axis, compute, vjp)


def _normalized(
    name: str, x: Array, axis: int, compute: Callable[[Array], Array], rule: Callable[[Array, Array], Array]
) -> Array:
    """``compute(x)``, recorded with a derivative that reads the result."""
    normalize_axes(axis, require_array(x, name).ndim, name)
    with tape.stop_recording():
        wide = x if dtypes.info(x.dtype).kind == "f" else astype(x, dtypes.float64)
        y = compute(wide) if x.size else astype(wide, wide.dtype)
    if tape.recording((x,)):
        tape.record(name, (x,), (y,), lambda cotangents, saved, needs: (rule(cotangents[0], saved[0]),), (y,))
    return y
