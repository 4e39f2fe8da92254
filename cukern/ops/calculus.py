"""Differences, numerical derivatives, convolutions and interpolation along an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import asarray, beside, zeros
from ..autodiff import tape
from ..device.interface import Style
from ..dtypes import DType
from ..elementwise.complex_rows import from_parts, imag, real
from ..elementwise.function import astype
from ..elementwise.fuse import fuse
from ..elementwise.operands import (
    array_or_symbol,
    first_array,
    normalize_axes,
    normalize_axis,
    public,
    require_array,
    require_arrays,
    require_constant,
)
from ..elementwise.row import convert_scalar
from ..elementwise.table import isnan, not_equal, remainder, subtract, where
from ..errors import require_int
from ..index.search import interpolated, searchsorted
from ..index.sort import argsort
from ..index.take import take
from ..kernel import Kernel
from ..kernel.by_numpy import by_numpy
from ..kernel.plan import allocate, compiled, launch, one_device
from ..kernel.sizes import divide_up
from ..reduction.rows import sum
from ..shape.joins import concat
from ..shape.views import broadcast_to, flip, reshape

__all__ = ["convolve", "correlate", "diff", "ediff1d", "gradient", "interp", "trapezoid"]

_CONVOLVE = Kernel("ops/convolve.cu", block=256)
#: Products that one thread adds.
_PART = 1024
#: The most partial sums.
_PARTIAL = 1 << 24
#: Products after which a sum is moved to a wider accumulator.
_RUN = 64


def _slice(x: Array, axis: int, *bounds: int | None) -> Array:
    """A view of ``x`` between bounds along an axis."""
    return x[(slice(None),) * axis + (slice(*bounds),)]


@public
def diff(x: Array, /, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Array:
    """The ``n``-th differences of neighbours along an axis; for bools, whether neighbours differ.

    Args:
        x: any array.
        n: how many times to take differences.
        axis: the axis.
        prepend: an array or a number to insert before ``x`` along the axis. A Python integer counts as int64 if ``x``
            is of integers.
        append: an array or a number to append likewise.

    Raises:
        AxisError: there is no such axis.
        ValueError: ``n`` is negative, or the shapes do not fit.

    >>> import cukern as ck
    >>> ck.diff(ck.asarray([1, 4, 9, 16]), n=2).tolist()
    [2, 2]
    """
    alone = prepend is None and append is None
    if not isinstance(x, Array):
        beside_ends = first_array((prepend, append))
        x = array_or_symbol(x, "diff") if alone else require_array(x, "diff", "x", beside_ends)
    axis = normalize_axis(axis, x.ndim, "diff")
    times = require_int("diff: n", n, 0)
    if times == 0:
        return x
    if alone and isinstance(x, Array) and (differences := _differences(x, times, axis)) is not None:
        return differences
    parts = []
    for end in (prepend, x, append):
        if end is None or end is x:
            parts += [] if end is None else [x]
            continue
        array = beside(end, x)
        if not array.ndim:
            array = broadcast_to(array, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
        parts.append(array)
    result = concat(parts, axis=axis) if len(parts) > 1 else x
    between = not_equal if result.dtype == dtypes.bool_ else subtract
    for _ in range(times):
        end = max(result.shape[axis] - 1, 0)
        result = between(_slice(result, axis, 1, None), _slice(result, axis, 0, end))
    return result


@by_numpy("diff", warns=True)
def _differences(data: Any, times: int, axis: int) -> Any:
    between = np.not_equal if data.dtype == np.bool_ else np.subtract
    if data.ndim == times == 1:
        return between(data[1:], data[:-1])
    whole = (slice(None),) * axis
    for _ in range(times):
        data = between(data[(*whole, slice(1, None))], data[(*whole, slice(-1))])
    return data


@public
def ediff1d(x: Array, /, to_end: Any = None, to_begin: Any = None) -> Array:
    """The differences of neighbours in the flattened array, with optional values before and after.

    Raises:
        TypeError: the values' dtype cannot be cast to that of ``x``.
    """
    x = require_array(x, "ediff1d")
    result = diff(x if x.ndim == 1 else reshape(x, (-1,)))
    if to_end is None and to_begin is None:
        return result
    parts = []
    part: Any
    for name, part in (("to_begin", to_begin), ("", result), ("to_end", to_end)):
        if part is None:
            continue
        whole = isinstance(part, int) and x.dtype in dtypes.INTS
        end = asarray(convert_scalar(part, x.dtype) if whole else part, x.dtype if whole else None, x.device)
        if "buifc".index(dtypes.info(end.dtype).kind) > "buifc".index(dtypes.info(x.dtype).kind):
            raise TypeError(f"ediff1d: {name}: expected what {x.dtype} holds, got {end.dtype}")
        parts.append(reshape(astype(end, result.dtype, copy=False), (-1,)))
    return parts[0] if len(parts) == 1 else concat(parts)


def _floating(x: Array) -> Array:
    """``x`` in its floating dtype; integers as float64 until the result is computed."""
    return x if x.dtype in dtypes.INEXACT else astype(x, dtypes.float64)


def _spacings(spacing: Sequence[Any], axes: tuple[int, ...], x: Array) -> list[Any]:
    """The spacing along each axis: a number, or coordinates as an array."""
    given = list(spacing) or [1.0]
    if len(given) == 1 and np.ndim(given[0]) == 0:
        given *= len(axes)
    if len(given) != len(axes):
        raise TypeError(
            f"gradient: expected one number for all axes, or {len(axes)} spacings, got {len(given)}"
        )
    result: list[Any] = []
    for one, axis in zip(given, axes, strict=True):
        if isinstance(one, (int, float)):
            result.append(float(one))
            continue
        points = _floating(asarray(one, device=x.device))
        if points.ndim == 0:
            result.append(points)
        elif points.shape != (x.shape[axis],):
            raise ValueError(
                f"gradient: expected {x.shape[axis]} coordinates for axis {axis}, got {points.shape}"
            )
        else:
            result.append(diff(points))
    return result


def _gradient_along(x: Array, axis: int, spacing: Any, edge_order: int) -> Array:
    """Differences along an axis, of second order inside and of order ``edge_order`` at the ends."""
    n = x.shape[axis]
    if n < edge_order + 1:
        raise ValueError(f"gradient: axis {axis} of size {n} is too short for edges of order {edge_order}")

    def part(*bounds: int | None) -> Array:
        return _slice(x, axis, *bounds)

    if not isinstance(spacing, Array) or not spacing.ndim:
        steps = [spacing] * 4
        inside = (part(2, None) - part(0, n - 2)) / (2 * spacing)
    else:
        shape = (-1,) + (1,) * (x.ndim - axis - 1)
        before, after = reshape(spacing[:-1], shape), reshape(spacing[1:], shape)
        left, middle = -after / (before * (before + after)), (after - before) / (before * after)
        right = before / (after * (before + after))
        inside = left * part(0, n - 2) + middle * part(1, n - 1) + right * part(2, None)
        indices = (0, min(1, n - 2), max(n - 3, 0), n - 2)
        steps = [reshape(spacing[i : i + 1], shape) for i in indices]
    if edge_order == 1:
        first = (part(1, 2) - part(0, 1)) / steps[0]
        last = (part(n - 1, n) - part(n - 2, n - 1)) / steps[3]
    else:
        a, b = steps[0], steps[1]
        first = (
            part(0, 1) * (-(2 * a + b) / (a * (a + b)))
            + part(1, 2) * ((a + b) / (a * b))
            - part(2, 3) * (a / (b * (a + b)))
        )
        a, b = steps[2], steps[3]
        last = (
            part(n - 3, n - 2) * (b / (a * (a + b)))
            - part(n - 2, n - 1) * ((a + b) / (a * b))
            + part(n - 1, n) * ((2 * b + a) / (b * (a + b)))
        )
    return concat([first, inside, last], axis=axis)


@public
def gradient(
    x: Array, /, *spacing: Any, axis: int | tuple[int, ...] | None = None, edge_order: int = 1
) -> Any:
    """The derivative along axes by second-order differences, as ``numpy.gradient``.

    Args:
        x: samples.
        spacing: nothing for 1, one number for all axes, or a number or an array of coordinates for each axis.
        axis: the axis or axes; all by default.
        edge_order: 1 or 2, the order of the differences at the ends.

    Returns:
        An array for one axis, else a tuple of arrays, in the floating dtype of ``x``; for integers, in that of the
        coordinate arrays, or the default one.

    Raises:
        TypeError: the number of spacings is that of the axes neither, nor is there one number.
        ValueError: an axis is too short, or the number of coordinates is wrong.
    """
    x = require_array(x, "gradient")
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order: expected 1 or 2, got {edge_order}")
    axes = normalize_axes(axis, x.ndim, "gradient")
    wide, result = _floating(x), x.dtype
    if x.dtype not in dtypes.INEXACT:
        points = [one.dtype for one in spacing if isinstance(one, (Array, np.ndarray))]
        result = dtypes.float_of(x.dtype, *points)
    gradients = [
        astype(_gradient_along(wide, dim, one, edge_order), result, copy=False)
        for dim, one in zip(axes, _spacings(spacing, axes, x), strict=True)
    ]
    return gradients[0] if len(gradients) == 1 else tuple(gradients)


@public
def trapezoid(y: Array, /, x: Any = None, dx: float = 1.0, axis: int = -1) -> Array:
    """The integral along an axis by the trapezoidal rule.

    Args:
        y: samples.
        x: their coordinates, one axis or the shape of ``y``; evenly spaced when None.
        dx: the spacing without ``x``.
        axis: the axis.
    """
    y = require_array(y, "trapezoid", "y", x if isinstance(x, Array) else None)
    axis = normalize_axis(axis, y.ndim, "trapezoid")
    values = _floating(y)
    steps: Any = dx
    result = dtypes.inexact_of(y.dtype)
    if x is not None:
        points = asarray(x, device=y.device)
        result = dtypes.inexact_of(y.dtype, points.dtype)
        steps = diff(points, axis=0 if points.ndim == 1 else axis)
        if points.ndim == 1:
            steps = reshape(steps, (-1,) + (1,) * (y.ndim - axis - 1))
    n = y.shape[axis]
    if x is None and np.ndim(dx) == 0 and n > 1:
        ends = _slice(values, axis, 0, 1) + _slice(values, axis, n - 1, n)
        inner = sum(_slice(values, axis, 1, n - 1), axis)
        return astype((inner + 0.5 * sum(ends, axis)) * dx, result, copy=False)
    both = _slice(values, axis, 1, None) + _slice(values, axis, 0, max(n - 1, 0))
    return astype(sum(both * steps * 0.5, axis), result, copy=False)


class Shape(NamedTuple):
    """The geometry of sliding sums: threads per block, sums at a time, elements per thread, size of a kernel part."""

    block: int
    items: int
    piece: int
    part: int


def shape_for(style: Style, count: int, m: int) -> Shape:
    """The geometry for ``count`` sums of ``m`` products: few long sums are split into parts."""
    parts = min(divide_up(m, _PART), max(1, _PARTIAL // count))
    part = divide_up(m, parts)
    return Shape(1, 32, 4096, part) if style == "serial" else Shape(256, 1, 1, part)


def sliding(x: Array, kernel: Array, shape: Shape | None = None) -> Array:
    """``y[i] = sum over j of x[i + j] * kernel[j]`` for all positions of ``kernel`` within ``x``; both of one dtype."""
    x, kernel = x.contiguous(), kernel.contiguous()
    count, m = x.size - kernel.size + 1, kernel.size
    shape = shape or shape_for(x.device.style, count, m)
    parts = divide_up(m, shape.part)
    compute, wide = _sum_dtypes(x.dtype)
    result = x.dtype if parts == 1 else wide
    data = allocate(x.device, (parts, count), result)
    types = {"result": result, "compute": compute, "wide": wide}
    function = compiled(
        _CONVOLVE,
        x.device,
        name=f"correlate_{dtypes.info(x.dtype).name}_{shape.block}",
        elem=x.dtype,
        **{name: dtypes.info(one).cxx for name, one in types.items()},
        run=_RUN,
        block=shape.block,
        items=shape.items,
    )
    grid = (divide_up(count, shape.block * shape.piece), parts, 1)
    values = (x._data, kernel._data, data, count, m, shape.part, shape.piece)
    launch(x.device, function, grid, shape.block, values)
    taps = Array._wrap(data, x.device)
    return astype(sum(taps, 0), x.dtype) if parts > 1 else reshape(taps, (count,))


def _sum_dtypes(dtype: DType) -> tuple[DType, DType]:
    """The dtype in which products are added, and that in which such partial sums are added.

    Integers use unsigned dtypes, which wrap around; signed overflow is undefined in C++.
    """
    info = dtypes.info(dtype)
    if info.kind in "iu":
        unsigned = dtypes.uint64 if info.itemsize == 8 else dtypes.uint32
        return unsigned, unsigned
    return info.acc, dtypes.float64


def _valid(x: Array, kernel: Array) -> Array:
    """:func:`sliding`, recorded."""
    with tape.stop_recording():
        result = sliding(x, kernel)
    if tape.recording((x, kernel)):

        def vjp(cotangents: tape.Arrays, saved: tape.Arrays, needs: Sequence[bool]) -> list[Array | None]:
            (g,), (x, kernel) = cotangents, saved
            room = zeros(kernel.size - 1, g.dtype, g.device)
            wide = concat([room, g, room])
            return [_valid(wide, flip(kernel)) if needs[0] else None, _valid(x, g) if needs[1] else None]

        tape.record("correlate", (x, kernel), (result,), vjp, (x, kernel))
    return result


def _correlated(name: str, a: Array, v: Array, mode: str, reverse: bool) -> Array:
    a, v = require_arrays((a, v), name, ("a", "v"))
    one_device(name, (a, v))
    if a.ndim != 1 or v.ndim != 1 or not a.size or not v.size:
        raise ValueError(
            f"{name}: expected two arrays of one axis, not empty, got shapes {a.shape} and {v.shape}"
        )
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"{name}: mode: expected 'full', 'same' or 'valid', got {mode!r}")
    dtype = dtypes.result_type(a.dtype, v.dtype)
    if dtype in dtypes.COMPLEX:
        return _complex_correlated(name, astype(a, dtype), astype(v, dtype), mode, reverse)
    if dtype == dtypes.bool_:
        result = _correlated(name, astype(a, dtypes.int32), astype(v, dtypes.int32), mode, reverse)
        return astype(result, dtypes.bool_)
    first, second = astype(a, dtype, copy=False), astype(v, dtype, copy=False)
    swapped = second.size > first.size
    if swapped:
        first, second = second, first
    kernel = second if not reverse else flip(second)
    m = second.size
    before, after = {"full": (m - 1, m - 1), "same": (m // 2, m - 1 - m // 2), "valid": (0, 0)}[mode]
    ends = [zeros(room, dtype, a.device) for room in (before, after)]
    result = _valid(concat([ends[0], first, ends[1]]) if before + after else first, kernel)
    return flip(result).contiguous() if swapped and not reverse else result


def _complex_correlated(name: str, a: Array, v: Array, mode: str, reverse: bool) -> Array:
    """By four correlations of real numbers; a correlation conjugates ``v``."""
    parts = [_correlated(name, f(a), g(v), mode, reverse) for f in (real, imag) for g in (real, imag)]
    sign = 1 if reverse else -1
    return from_parts(parts[0] - sign * parts[3], sign * parts[1] + parts[2])


@public
def convolve(a: Array, v: Array, /, mode: Literal["full", "same", "valid"] = "full") -> Array:
    """The convolution of two vectors: ``sum over j of a[j] * v[i - j]``; differentiable.

    Args:
        a: shape (n,); a 0-d array is taken as one element.
        v: shape (m,), as ``a``.
        mode: ``"full"`` for every overlap, n + m - 1 elements; ``"same"`` for the middle max(n, m) of them;
            ``"valid"`` for those where the shorter vector lies within the longer.

    Raises:
        DeviceError: the arrays are on different devices.
        ValueError: an array is not a vector or is empty, or there is no such mode.

    >>> import cukern as ck
    >>> ck.convolve(ck.asarray([1, 2, 3]), ck.asarray([1, 1])).tolist()
    [1, 3, 5, 3]
    """
    a, v = (x if x.ndim else reshape(x, (1,)) for x in require_arrays((a, v), "convolve", ("a", "v")))
    return _correlated("convolve", a, v, mode, True)


@public
def correlate(a: Array, v: Array, /, mode: Literal["full", "same", "valid"] = "valid") -> Array:
    """The correlation of two vectors: ``sum over j of a[i + j] * conj(v[j])``; arguments as in :func:`convolve`."""
    return _correlated("correlate", a, v, mode, False)


@public
def interp(
    x: Any, xp: Array, fp: Array, /, left: Any = None, right: Any = None, period: float | None = None
) -> Array:
    """Linear interpolation at ``x`` between points ``(xp, fp)``; differentiable with respect to ``x`` and ``fp``.

    Args:
        x: any shape.
        xp: shape (n,), increasing, unless there is a ``period``.
        fp: shape (n,), real or complex.
        left: the value below ``xp[0]``; ``fp[0]`` when None.
        right: the value above ``xp[-1]``; ``fp[-1]`` when None.
        period: the period of ``xp``, which may then be in any order.

    Returns:
        An array of the shape of ``x``, in the floating dtype of the arguments, the default one for integers; complex
        if ``fp`` is.

    Raises:
        DeviceError: ``xp`` and ``fp`` are on different devices.
        TypeError: ``x`` or ``xp`` is complex, or ``left`` or ``right`` is and ``fp`` is real.
        ValueError: ``xp`` and ``fp`` are not vectors, are empty or differ in shape; or ``period`` is 0.
    """
    fp = require_array(fp, "interp", "fp", first_array((xp, x)))
    if fp.dtype in dtypes.COMPLEX:
        beyond = [[None if one is None else part(one) for one in (left, right)] for part in (real, imag)]
        parts = [
            interp(x, xp, part(fp), below, above, period)
            for part, (below, above) in zip((real, imag), beyond, strict=True)
        ]
        return from_parts(*parts)
    x, xp, fp = require_arrays((x, xp, fp), "interp", ("x", "xp", "fp"))
    if xp.ndim != 1 or xp.shape != fp.shape or not xp.size:
        raise ValueError(
            f"interp: xp, fp: expected one axis of one size, not empty, got {xp.shape} and {fp.shape}"
        )
    one_device("interp", (xp, fp))
    points, knots, values = asarray(x, device=xp.device), xp, fp
    given = [one.dtype for one in (points, knots, values)]
    result = dtypes.float_of(*given)
    acc = dtypes.info(result).acc if set(given) <= set(dtypes.FLOATS) else dtypes.float64
    points, knots, values = (astype(one, acc, copy=False) for one in (points, knots, values))
    if period is not None:
        require_constant("interp", period=period)
        if period == 0:
            raise ValueError("interp: period: expected a number other than 0, got 0")
        span = math.fabs(period)
        points, knots = remainder(points, span), remainder(knots, span)
        order = argsort(knots)
        knots, values = take(knots, order), take(values, order)
        knots = concat([knots[-1:] - span, knots, knots[:1] + span])
        values = concat([values[-1:], values, values[:1]])
        left = right = None
    ends_known = all(one is None or isinstance(one, (int, float)) for one in (left, right))
    if ends_known and acc in (dtypes.float32, dtypes.float64) and not tape.recording((points, knots, values)):
        with tape.stop_recording():
            return interpolated(points, knots, values, left, right, result)
    n = knots.size
    low = (searchsorted(knots, points, side="right") - 1).clip(0, max(n - 2, 0))
    high = (low + 1).clip(0, n - 1)
    ends = (
        knots[0],
        knots[n - 1],
        values[0] if left is None else left,
        values[n - 1] if right is None else right,
    )
    y = _line(points, take(knots, low), take(knots, high), take(values, low), take(values, high), *ends)
    return astype(y, result, copy=False)


@fuse
def _line(p: Any, x0: Any, x1: Any, y0: Any, y1: Any, first: Any, last: Any, below: Any, above: Any) -> Any:
    """The value at ``p`` of the line through two points; ``below`` and ``above`` outside of ``first`` to ``last``."""
    width = x1 - x0
    slope = (y1 - y0) / where(width == 0, 1, width)
    inside = y0 + (p - x0) * slope
    # If the first point is infinite, start from the other one.
    inside = where(isnan(inside), where(y0 == y1, y0, y1 + (p - x1) * slope), inside)
    inside = where((p == x0) & isnan(inside), y0, where(p == x1, y1, inside))
    result = where(p < first, below, where(p > last, above, inside))
    return where(isnan(p), p, result)
