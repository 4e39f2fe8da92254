"""Padding of arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.batched import Level
from ..array.creation import arange, asarray, full_like
from ..array.host_data import holds_array
from ..array.mapping import mapped
from ..elementwise.function import astype
from ..elementwise.operands import (
    normalize_axis,
    on_device,
    public,
    recorded,
    require_array,
    require_constant,
)
from ..elementwise.table import floor
from ..elementwise.table import round as rint
from ..index.take import on_device_of, scatter
from ..reduction.rows import max as largest
from ..reduction.rows import mean
from ..reduction.rows import min as smallest
from ..shape.joins import concat
from ..shape.remap import remap
from ..shape.views import broadcast_to, flip, moveaxis, reshape
from .statistics import median

__all__ = ["pad"]

#: Modes whose padding consists of elements of the array.
_CHOOSE = ("edge", "reflect", "symmetric", "wrap")
_STATISTICS: dict[str, Callable[..., Array]] = {
    "maximum": largest,
    "mean": mean,
    "median": median,
    "minimum": smallest,
}
#: The argument that a mode has.
_OPTIONS = {
    "constant": "constant_values",
    "linear_ramp": "end_values",
    **dict.fromkeys(("reflect", "symmetric"), "reflect_type"),
    **dict.fromkeys(_STATISTICS, "stat_length"),
}
_MODES = ("constant", "empty", "linear_ramp", *_CHOOSE, *_STATISTICS)

Pairs = Sequence[tuple[Any, Any]]


@public
def pad(
    x: Array,
    /,
    pad_width: Any,
    mode: str | Callable[..., Any] = "constant",
    *,
    constant_values: Any = None,
    end_values: Any = None,
    stat_length: Any = None,
    reflect_type: str | None = None,
    **options: Any,
) -> Array:
    """Pad ``x`` before and after its elements along each axis; differentiable.

    Args:
        x: any array.
        pad_width: the number of elements: one number, a pair ``(before, after)``, a pair for each axis, or a dictionary
            from axes to these.
        mode: ``"constant"``; ``"edge"`` repeats the edge, ``"reflect"`` mirrors without and ``"symmetric"`` with the
            edge, ``"wrap"`` continues from the other end; ``"maximum"``, ``"mean"``, ``"median"`` or ``"minimum"`` of
            elements at the edge; ``"linear_ramp"`` from the edge to a number; ``"empty"`` for unspecified values. A
            function ``f(vector, width, axis, options)`` is called with each vector along each axis, zeros at both ends,
            and writes into it; it has no derivative.
        constant_values: the constants, as ``pad_width``; numbers or arrays of one number, differentiable; 0 when None.
        end_values: the end values of ramps, likewise.
        stat_length: the number of elements at the edge in a statistic, likewise; all by default.
        reflect_type: for ``"reflect"`` and ``"symmetric"``; ``"odd"`` subtracts what is mirrored from twice the edge,
            ``"even"`` does not.
        options: the last argument of a function.

    Raises:
        OverflowError: an integer of ``constant_values`` is out of the range of the dtype of ``x``.
        ValueError: a width is negative, there is no such mode or an argument is for another one, or there is no
            element to repeat.

    >>> import cukern as ck
    >>> ck.pad(ck.asarray([1, 2, 3]), (2, 1), "reflect").tolist()
    [3, 2, 1, 2, 3, 2]
    """
    x = require_array(x, "pad")
    widths = _widths(pad_width, x.ndim)
    if callable(mode):
        return _by_function(x, widths, mode, options)
    if not isinstance(mode, str) or mode not in _MODES:
        raise ValueError(f"pad: mode: expected a function or one of {_MODES}, got {mode!r}")
    named = {
        "constant_values": constant_values,
        "end_values": end_values,
        "stat_length": stat_length,
        "reflect_type": reflect_type,
    }
    given = options.keys() | {name for name, value in named.items() if value is not None}
    if more := sorted(given - {_OPTIONS.get(mode)}):
        raise ValueError(f"pad: {', '.join(more)}: no argument of mode {mode!r}")
    constant_values = 0 if constant_values is None else constant_values
    end_values = 0 if end_values is None else end_values
    if reflect_type not in (None, "even", "odd"):
        raise ValueError(f"pad: reflect_type: expected 'even' or 'odd', got {reflect_type!r}")
    for axis, width in enumerate(widths):
        if mode not in ("constant", "empty") and any(width) and not x.shape[axis]:
            raise ValueError(f"pad: axis {axis} of shape {x.shape} has nothing to repeat")
    if mode == "constant" and _holds(constant_values):
        values = _pairs(constant_values, x.ndim, "constant_values")
        return _along_axes(x, widths, lambda x, axis, side: astype(values[axis][side], x.dtype))
    if mode in ("constant", "empty"):
        return _constant(x, widths, _pairs(constant_values, x.ndim, "constant_values"))
    if mode in _CHOOSE:
        odd = reflect_type == "odd" and mode in ("reflect", "symmetric")
        return _oddly_reflected(x, widths, mode) if odd else _extended(x, widths, mode)
    if mode == "linear_ramp":
        ends = _pairs(end_values, x.ndim, "end_values")
        return _along_axes(
            x, widths, lambda x, axis, side: _ramp(x, axis, side, widths[axis], ends[axis][side])
        )
    lengths = _pairs(stat_length, x.ndim, "stat_length")
    if mode in ("maximum", "minimum") and any(0 in pair for pair in lengths):
        raise ValueError(f"pad: stat_length: expected at least 1, got {stat_length}")
    return _along_axes(x, widths, lambda x, axis, side: _statistic(x, axis, side, mode, lengths[axis][side]))


def _of_all(level: Level, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Array:
    """The rule of the paddings of an array by widths."""
    x, widths, *how = args
    if isinstance(how[0], list):
        how[0] = [(0, 0), *how[0]]
    return function(level.front(x), [(0, 0), *widths], *how, **kwargs)


def _pairs(value: Any, ndim: int, name: str) -> list[tuple[Any, Any]]:
    """A number, a pair, or a pair for each axis, as NumPy takes them."""
    if type(value) is int or type(value) is float:
        return [(value, value)] * ndim
    if type(value) is list and len(value) == ndim and all(map(_is_pair, value)):
        return value
    try:
        if _holds(value):
            table = broadcast_to(asarray(value), (ndim, 2))
            return [(table[axis, 0], table[axis, 1]) for axis in range(ndim)]
        return [tuple(pair) for pair in np.broadcast_to(np.asarray(value), (ndim, 2)).tolist()]
    except ValueError:
        raise ValueError(f"pad: {name}: expected a number or pairs for {ndim} axes, got {value!r}") from None


def _is_pair(value: Any) -> bool:
    """Whether it is two Python integers."""
    return type(value) is tuple and len(value) == 2 and type(value[0]) is type(value[1]) is int


def _holds(value: Any) -> bool:
    return isinstance(value, Array) or (isinstance(value, (list, tuple)) and holds_array(value))


def _widths(value: Any, ndim: int) -> list[tuple[int, int]]:
    """The number of elements to add before and after each axis.

    Raises:
        TypeError: they are not integers.
        ValueError: a number is negative, or there are too many.
    """
    if isinstance(value, dict):
        spread = [(0, 0)] * ndim
        for axis, width in value.items():
            spread[normalize_axis(axis, ndim, "pad")] = _pairs(width, 1, "pad_width")[0]
        value = spread
    try:
        widths = [(operator.index(a), operator.index(b)) for a, b in _pairs(value, ndim, "pad_width")]
    except TypeError:
        raise TypeError(f"pad: pad_width: expected integers, got {value!r}") from None
    if any(n < 0 for pair in widths for n in pair):
        raise ValueError(f"pad: pad_width: expected numbers of at least 0, got {value!r}")
    return widths


def _shape(x: Array, widths: Pairs) -> tuple[int, ...]:
    return tuple(n + before + after for n, (before, after) in zip(x.shape, widths, strict=True))


def _within(x: Array, axis: int, start: int, count: int) -> Array:
    """A view of ``count`` elements along an axis."""
    return x[(slice(None),) * axis + (slice(start, start + count),)]


@mapped(_of_all)
def _constant(x: Array, widths: Pairs, values: Pairs) -> Array:
    """Pad with constants: one launch if all are equal, else one for each axis."""
    padded = [axis for axis, width in enumerate(widths) if any(width)]
    if len({value for axis in padded for value in values[axis]}) > 1 and len(padded) > 1:
        for axis in padded:
            one = [width if i == axis else (0, 0) for i, width in enumerate(widths)]
            x = _constant(x, one, values)
        return x
    ends = values[padded[0]] if padded else (0, 0)
    before = [width[0] for width in widths]
    data = remap(x, _shape(x, widths), before, "constant", ends, order=x._planned().order)
    key = tuple(slice(start, start + n) for start, n in zip(before, x.shape, strict=True))
    zeros = [(0, 0)] * x.ndim
    return recorded("pad", x, data, lambda g: g[key], lambda t: _constant(t, widths, zeros))


@mapped(_of_all)
def _extended(x: Array, widths: Pairs, mode: str) -> Array:
    before = [width[0] for width in widths]
    data = remap(x, _shape(x, widths), before, mode, order=x._planned().order)
    sizes = x.shape
    return recorded(
        "pad", x, data, lambda g: folded(g, sizes, before, mode), lambda t: _extended(t, widths, mode)
    )


def _oddly_reflected(x: Array, widths: Pairs, mode: str) -> Array:
    """Reflect axis by axis, at most the array's size at a time: twice the edge, less what is mirrored."""
    overlap = 1 if mode == "reflect" else 0
    for axis, (before, after) in enumerate(widths):
        while before or after:
            n = x.shape[axis]
            if n == 1 and overlap:
                x = _extended(x, _only(axis, x.ndim, before, after), "edge")
                break
            sides = min(before, n - overlap), min(after, n - overlap)
            parts = [x]
            for side, count in enumerate(sides):
                if count:
                    edge = _within(x, axis, 0 if side == 0 else n - 1, 1)
                    mirrored = _within(x, axis, overlap if side == 0 else n - overlap - count, count)
                    part = 2 * edge - flip(mirrored, axis=axis)
                    parts = [part, *parts] if side == 0 else [*parts, part]
            x = concat(parts, axis)
            before, after = before - sides[0], after - sides[1]
    return x


def _only(axis: int, ndim: int, before: int, after: int) -> Pairs:
    return [(before, after) if i == axis else (0, 0) for i in range(ndim)]


def _by_function(x: Array, widths: Pairs, function: Callable[..., Any], options: dict[str, Any]) -> Array:
    """Zeros around ``x``, in which ``function`` writes the vectors along each axis."""
    require_constant("pad", x=x)
    result = _constant(x, widths, [(0, 0)] * x.ndim)
    for axis, width in enumerate(widths):
        rows = moveaxis(result, axis, -1)
        for index in np.ndindex(rows.shape[:-1]):
            function(rows[index], width, axis, options)
    return result


@on_device
def folded(g: Array, sizes: tuple[int, ...], before: Sequence[int], mode: str) -> Array:
    """The transpose of :func:`pad`: the elements of a padded array added to those from which they were copied.

    Args:
        g: any array.
        sizes: the shape before it was padded.
        before: the number of elements before each axis.
        mode: ``"edge"``, ``"reflect"``, ``"symmetric"`` or ``"wrap"``.
    """
    for axis, (n, start) in enumerate(zip(sizes, before, strict=True)):
        count = g.shape[axis]
        if count == n:
            continue
        indices = on_device_of(g, _places(np.arange(-start, count - start), n, mode))
        outer, inner = g.shape[:axis], g.shape[axis + 1 :]
        flat = reshape(g, (math.prod(outer), count, math.prod(inner)))
        g = reshape(scatter(flat, indices, flat.shape[0], n, flat.shape[2]), (*outer, n, *inner))
    return g


def _places(p: Any, n: int, mode: str) -> Any:
    """The indices in an axis of ``n`` from which the padded indices ``p`` are copied, as in the kernel."""
    if mode == "edge":
        return np.clip(p, 0, n - 1)
    if mode == "wrap" or n == 1:
        return p % n
    overlap = 1 if mode == "reflect" else 0
    p = p % (2 * (n - overlap))
    return np.where(p < n, p, 2 * n - 1 - overlap - p)


def _along_axes(x: Array, widths: Pairs, end: Callable[[Array, int, int], Array]) -> Array:
    """Pad ``x`` axis by axis with ``end(x, axis, side)`` at both ends."""
    for axis, width in enumerate(widths):
        if any(width):
            before, after = (
                broadcast_to(end(x, axis, side), (*x.shape[:axis], width[side], *x.shape[axis + 1 :]))
                for side in (0, 1)
            )
            x = concat([before, x, after], axis, dtype=x.dtype, casting="unsafe")
    return x


def _ramp(x: Array, axis: int, side: int, width: tuple[int, int], end: Any) -> Array:
    """Evenly spaced numbers from the edge, exclusive, to ``end``, inclusive."""
    count, floating = width[side], x.dtype in dtypes.INEXACT
    edge = _within(x, axis, 0 if side == 0 else x.shape[axis] - 1, 1)
    edge = astype(edge, dtypes.info(x.dtype).acc if floating else dtypes.float64, copy=False)
    indices = arange(count, device=x.device) if side == 0 else arange(count - 1, -1, -1, device=x.device)
    end = astype(end, edge.dtype) if isinstance(end, Array) else end
    steps = reshape(astype(indices, edge.dtype), (-1, *(1,) * (x.ndim - axis - 1)))
    result: Array = (edge - end) / max(1, count) * steps + end
    return result if floating else floor(result)


def _statistic(x: Array, axis: int, side: int, mode: str, length: int | None) -> Array:
    """A statistic of ``length`` elements at an edge; the axis stays, with size 1."""
    n, floating = x.shape[axis], x.dtype in dtypes.INEXACT
    count = n if length is None else min(n, operator.index(length))
    if count < 0 or (not count and not floating):
        raise ValueError(f"pad: stat_length: expected at least 1, got {length}")
    if not count:  # the mean and the median of nothing
        return full_like(_within(x, axis, 0, 1), math.nan)
    part = _within(x, axis, 0 if side == 0 else n - count, count)
    if mode in ("maximum", "minimum") or floating:
        return _STATISTICS[mode](part, axis, keepdims=True)
    result = _STATISTICS[mode](astype(part, dtypes.float64), axis, keepdims=True)
    return result if x.dtype == dtypes.bool_ else rint(result)
