"""softmax and log_softmax along an axis, and their derivatives, in one launch each.

Rows that fit are held in registers and read once; others are read again for each pass: the largest element, the sum
of exponentials, the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .. import dtypes
from ..array import Array
from ..array.layout import Layout, fresh_layout
from ..array.mapping import mapped, over_axis
from ..autodiff import tape
from ..cache import Cache
from ..elementwise.function import astype
from ..elementwise.fuse import fuse
from ..elementwise.operands import normalize_axis, public, require_array
from ..elementwise.table import add, exp, multiply, negative, subtract
from ..kernel.by_numpy import watchers
from ..kernel.plan import Plan, kept, made, on
from .rows import normalizers, sum

__all__ = ["log_softmax", "softmax"]

#: Elements per row from which a few rows are computed by several launches.
_LONG = 1 << 20
#: Plans by kind, axis and layouts.
_PLANS: Cache[Any, Plan] = kept("softmax")


def _run(kind: str, axis: int, *arrays: Array) -> Array:
    result: Array = made(kind, _launched, kind, axis, *arrays)
    return result


def _launched(kind: str, axis: int, *arrays: Array) -> Array:
    layouts = [array._layout or array._planned() for array in arrays]
    plan = None if watchers else _PLANS.get((kind, axis, *layouts))
    if plan is None:
        first = layouts[0]
        if not first.size:
            with on(first.device):
                return Array._made(fresh_layout(first.device, first.dtype, first.shape))
        plan = _plan_for(kind, axis, *layouts)
        if not kind.endswith("_vjp") and tape.recording(arrays):
            plan.device.backend.ahead(partial(_plan_for, f"{kind}_vjp", axis, *plan.layouts, *plan.layouts))
    return plan(*arrays)


def _plan_for(kind: str, axis: int, *layouts: Layout) -> Plan:
    """Make and keep a plan."""
    from .families import SOFTMAX  # many programs have no softmax
    from .softmax_variants import Softmax

    plan: Any = SOFTMAX(Softmax(kind, axis, layouts))
    return _PLANS.keep((kind, axis, *layouts), plan)


# ----- the second derivative, and rows too long for one block, by array functions -----


@fuse(static=("axis",))
def _dot(x: Array, y: Array, axis: int) -> Array:
    # In the accumulator's dtype: a half type would round or overflow.
    return sum(multiply(x, y), axis, dtype=dtypes.info(x.dtype).acc, keepdims=True)


@fuse(static=("axis",))
def _dot_exp(x: Array, y: Array, axis: int) -> Array:
    return sum(multiply(x, exp(y)), axis, dtype=dtypes.info(x.dtype).acc, keepdims=True)


@fuse
def _below(x: Array, total: Array) -> Array:
    return subtract(x, total).astype(x.dtype)


@fuse
def _log_share(x: Array, peak: Array, rest: Array) -> Array:
    return subtract(subtract(x, peak), rest).astype(x.dtype)


@fuse
def _share(x: Array, peak: Array, rest: Array) -> Array:
    return exp(subtract(subtract(x, peak), rest)).astype(x.dtype)


@fuse
def _centred(g: Array, y: Array, total: Array) -> Array:
    return multiply(y, subtract(g, total)).astype(y.dtype)


@fuse
def _log_centred(g: Array, y: Array, total: Array) -> Array:
    return subtract(g, multiply(exp(y), total)).astype(y.dtype)


@fuse
def _centred_by_y(h: Array, g: Array, gy: Array, hy: Array) -> Array:
    return subtract(multiply(h, subtract(g, gy)), multiply(g, hy)).astype(g.dtype)


@fuse
def _centred_along_y(t: Array, g: Array, y: Array, gy: Array, gt: Array) -> Array:
    return subtract(multiply(t, subtract(g, gy)), multiply(y, gt)).astype(g.dtype)


@fuse
def _log_centred_by_y(h: Array, y: Array, total: Array) -> Array:
    return negative(multiply(multiply(h, exp(y)), total)).astype(y.dtype)


def _sum(x: Array, axis: int) -> Array:
    return sum(x, axis, dtype=dtypes.info(x.dtype).acc, keepdims=True)


def _is_long(x: Array, axis: int) -> bool:
    """Whether one block per row would leave most of the device idle."""
    n = x.shape[axis]
    return n >= _LONG and x.size // n < 64


@mapped(over_axis("axis"))
def _derived(kind: str, g: Array, y: Array, axis: int) -> Array:
    """The cotangent of the argument from that of the result, and the result; recorded."""
    logs = kind == "log_softmax"
    if _is_long(y, axis):
        return _log_centred(g, y, _sum(g, axis)) if logs else _centred(g, y, _dot(g, y, axis))
    result = _run(f"{kind}_vjp", axis, g, y)
    if tape.recording((g, y)):

        def vjp(cotangents: tape.Arrays, saved: tape.Arrays, needs: Sequence[bool]) -> list[Array | None]:
            (h,), (g, y) = cotangents, saved
            if logs:
                return [
                    _below(h, _dot_exp(h, y, axis)) if needs[0] else None,
                    _log_centred_by_y(h, y, _sum(g, axis)) if needs[1] else None,
                ]
            return [
                _derived("softmax", h, y, axis) if needs[0] else None,
                _centred_by_y(h, g, _dot(g, y, axis), _dot(h, y, axis)) if needs[1] else None,
            ]

        def jvp(tangents: Sequence[Array | None], saved: tape.Arrays) -> list[Array]:
            (tg, ty), (g, y) = tangents, saved
            parts = [] if tg is None else [_derived(kind, tg, y, axis)]
            if ty is not None and logs:
                parts.append(_log_centred_by_y(ty, y, _sum(g, axis)))
            elif ty is not None:
                parts.append(_centred_along_y(ty, g, y, _dot(g, y, axis), _dot(g, ty, axis)))
            return [parts[0] if len(parts) == 1 else add(parts[0], parts[1])]

        tape.record(f"{kind}_vjp", (g, y), (result,), vjp, (g, y), jvp=jvp)
    return result


def _normalized(kind: str, x: Array, axis: int, end: Callable[[Array, Array, Array], Array]) -> Array:
    x = require_array(x, kind)
    axis = normalize_axis(axis, x.ndim, kind)
    if dtypes.info(x.dtype).kind != "f":
        x = astype(x, dtypes.get_default_dtype())
    if x.size and _is_long(x, axis):
        return end(x, *normalizers(x, axis))
    y = _run(kind, axis, x)
    if tape.recording((x,)):
        tape.record(
            kind,
            (x,),
            (y,),
            lambda gradients, saved, _: (_derived(kind, gradients[0], saved[0], axis),),
            (y,),
            jvp=lambda tangents, saved: (_pushed(kind, tangents[0], saved[0], axis),),
        )
    return y


def _pushed(kind: str, t: Array, y: Array, axis: int) -> Array:
    """The tangent of the result; the Jacobian of softmax is symmetric."""
    return _derived(kind, t, y, axis) if kind == "softmax" else _below(t, _dot_exp(t, y, axis))


@public
@mapped(over_axis("axis"))
def softmax(x: Array, /, axis: int = -1) -> Array:
    """exp(x) divided by its sum along an axis; NaN where all elements along the axis are -inf, or one is inf.

    It is one kernel, and so is its derivative; a few rows of a million elements or more take several kernels.

    Args:
        x: any array; integers are computed in the default floating dtype.
        axis: the axis.

    Raises:
        AxisError: there is no such axis.

    >>> import cukern as ck
    >>> ck.softmax(ck.asarray([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """
    return _normalized("softmax", x, axis, _share)


@public
@mapped(over_axis("axis"))
def log_softmax(x: Array, /, axis: int = -1) -> Array:
    """The logarithm of :func:`softmax`, accurate where that is small; arguments and errors as there."""
    return _normalized("log_softmax", x, axis, _log_share)
