"""The methods of elementwise functions that combine elements: reduce, accumulate, reduceat, and at."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import asarray
from ..array.operators import FUNCTIONS
from ..autodiff import tape
from ..elementwise.function import Elementwise, astype
from ..elementwise.graph import COMPARISONS
from ..elementwise.operands import normalize_axes, normalize_axis, require_array, require_written
from ..elementwise.row import is_scalar
from ..elementwise.table import where as choose
from ..index.fold import folded
from ..index.gather_scatter import ranges
from ..index.segments import segment_max, segment_min, segment_prod, segment_sum
from ..index.subscript import getitem, setitem
from ..index.take import take, wraps
from ..index.update import numbers
from ..reduction.function import masked
from ..reduction.rows import sum
from ..shape.joins import concat, stack
from ..shape.views import broadcast_to, expand_dims, moveaxis, reshape

__all__: list[str] = []


class _Combination(NamedTuple):
    """A function of two operands whose order does not matter.

    Attributes:
        identity: the number that changes no other; None if there is none.
        reduction: the reduction that combines elements this way; empty if there is none.
        scan: the same of the scan.
        update: the method of ``x.at[key]``.
    """

    identity: float | None = None
    reduction: str = ""
    scan: str = ""
    update: str = ""


_INF = math.inf
_COMBINATIONS = {
    "add": _Combination(0, "sum", "cumsum", "add"),
    "multiply": _Combination(1, "prod", "cumprod", "multiply"),
    "maximum": _Combination(None, "max", "cummax", "max"),
    "minimum": _Combination(None, "min", "cummin", "min"),
    "fmax": _Combination(),
    "fmin": _Combination(),
    "logical_and": _Combination(1, "all"),
    "logical_or": _Combination(0, "any"),
    "logical_xor": _Combination(0),
    "bitwise_and": _Combination(-1),
    "bitwise_or": _Combination(0),
    "bitwise_xor": _Combination(0),
    "gcd": _Combination(0),
    "lcm": _Combination(1),
    "hypot": _Combination(0),
    "logaddexp": _Combination(-_INF, "logsumexp", "logcumsumexp"),
    "logaddexp2": _Combination(-_INF),
}


def _checked(row: Elementwise, method: str) -> _Combination | None:
    """The properties of a function whose operands may be reordered; None if they may not be."""
    if row.operands not in ("xx", "bb"):
        raise ValueError(
            f"{row.name}.{method}: expected a function of two operands of one dtype, which it is not"
        )
    return _COMBINATIONS.get(row.name)


def _combined_in(row: Elementwise, x: Array, dtype: Any) -> dtypes.DType:
    """The dtype in which elements are combined, which is that of the result.

    Raises:
        TypeError: a comparison of elements that are not bool, or a dtype that the function does not give.
    """
    wanted = x.dtype if dtype is None else dtypes.as_dtype(dtype)
    if row.result == "b" and (dtype is not None or row.name in COMPARISONS) and wanted != dtypes.bool_:
        raise TypeError(
            f"{row.name}: the result is bool, so that elements of {wanted} cannot be combined in turn"
        )
    dtypes.refuse_real(row.name, x.dtype, wanted)
    if dtype is None:
        wanted = row.resolve((wanted, wanted))[1]
        if row.name in ("add", "multiply"):
            wanted = sum.dtypes_of(wanted)[1]
    return wanted


def _values(row: Elementwise, x: Any, dtype: Any) -> Array:
    """The elements in the dtype in which they are combined."""
    result = require_array(x, row.name)
    return astype(result, _combined_in(row, result, dtype), copy=False)


def _halved(row: Elementwise, x: Array) -> Array:
    """The elements along the first axis, at least one, combined in pairs, pairs of pairs and so on."""
    while len(x) > 1:
        half = len(x) // 2
        result = row(x[:half], x[half : 2 * half])  # type: ignore[operator]
        x = concat([result, x[2 * half :]]) if len(x) % 2 else result
    return x[0]


def _in_order(row: Elementwise, x: Array, first: Array | None, mask: Array | None) -> Array:
    """``first`` and then each element along the first axis where the mask is true, combined from left to right."""
    result, start = (x[0], 1) if first is None else (first, 0)
    for i in range(start, len(x)):
        combined = astype(row(result, x[i]), x.dtype, copy=False)  # type: ignore[operator]
        result = combined if mask is None else choose(mask[i], combined, result)
    return result


def _identity(row: Elementwise, known: _Combination | None, x: Array) -> Array | None:
    if known is None or known.identity is None:
        return None
    number = bool(known.identity) if x.dtype == dtypes.bool_ else known.identity
    return asarray(number, device=x.device).astype(x.dtype)


def reduce(
    row: Elementwise, x: Any, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any
) -> Array:
    """:meth:`~cukern.elementwise.ufunc.Ufunc.reduce` without ``out``."""
    known = _checked(row, "reduce")
    where = None if where is True else where
    x = require_array(x, row.name)
    axes = () if not x.ndim and axis in (0, -1) else normalize_axes(axis, x.ndim, row.name)
    if known is None and len(axes) > 1:
        raise ValueError(
            f"{row.name}.reduce: axis: expected one axis, as the order of the operands matters, got {axis}"
        )
    if known is not None and known.reduction:
        options: dict[str, Any] = {"keepdims": keepdims}
        if where is not None:
            options["where"] = where
        if known.reduction in ("sum", "prod", "max", "min"):
            if dtype is not None and known.reduction in ("sum", "prod"):
                options["dtype"] = dtype
            return FUNCTIONS[known.reduction](
                x if dtype is None else astype(x, dtype, copy=False), axes, initial=initial, **options
            )
        if known.reduction in ("all", "any") and initial is None and dtype is None:
            return FUNCTIONS[known.reduction](x, axes, **options)
        if initial is None and where is None:
            return FUNCTIONS[known.reduction](_values(row, x, dtype), axes, **options)
    values = _values(row, x, dtype)
    mask = None if where is None else masked(values, where, row.name)
    first = None if initial is None else asarray(initial, values.dtype, values.device)
    result = _reduced(row, values, axes, known, first, mask)
    return expand_dims(result, axes) if keepdims and axes else result


def _reduced(
    row: Elementwise,
    x: Array,
    axes: tuple[int, ...],
    known: _Combination | None,
    first: Array | None,
    mask: Array | None,
) -> Array:
    """The number ``first``, if given, and the elements where the mask is true, combined along axes."""
    identity = _identity(row, known, x)
    if mask is not None:
        neutral = first if identity is None else identity
        if neutral is None:
            raise ValueError(f"{row.name}.reduce: where: give initial as well, as there is no identity")
        x = x if known is None else choose(mask, x, neutral)
    kept = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    rows, front = (math.prod(x.shape[i] for i in axes), *kept), tuple(range(len(axes)))
    moved = reshape(moveaxis(x, axes, front), rows)
    if known is None:
        start = None if first is None else broadcast_to(first, kept)
        if start is not None or len(moved):
            chosen = (
                None if mask is None else reshape(moveaxis(broadcast_to(mask, x.shape), axes, front), rows)
            )
            return _in_order(row, moved, start, chosen)
    elif len(moved):
        result = _halved(row, moved)
        return result if first is None else astype(row(first, result), x.dtype, copy=False)  # type: ignore[operator]
    neutral = identity if first is None else first
    if neutral is None:
        raise ValueError(f"{row.name}.reduce: no element to combine along axes {axes} of shape {x.shape}")
    return broadcast_to(neutral, kept)


def accumulate(row: Elementwise, x: Any, axis: int, dtype: Any) -> Array:
    """:meth:`~cukern.elementwise.ufunc.Ufunc.accumulate` without ``out``."""
    known = _checked(row, "accumulate")
    x = require_array(x, row.name)
    if not x.ndim:
        raise TypeError(f"{row.name}.accumulate: expected an array of at least one axis, got a 0-d array")
    axis = normalize_axis(axis, x.ndim, row.name)
    if (
        known is not None
        and known.scan
        and not (known.scan == "logcumsumexp" and x.dtype not in dtypes.INEXACT)
    ):
        if dtype is None:
            return FUNCTIONS[known.scan](x, axis)
        given = {"dtype": dtype} if known.scan in ("cumsum", "cumprod") else {}
        return FUNCTIONS[known.scan](astype(x, dtype, copy=False), axis, **given)
    values = moveaxis(_values(row, x, dtype), axis, 0)
    if known is None:
        result = [values[i] for i in range(min(len(values), 1))]
        for i in range(1, len(values)):
            result.append(row(result[-1], values[i]))  # type: ignore[operator]
        values = stack(result) if result else values
    step = 1
    while known is not None and step < len(values):
        values = concat([values[:step], row(values[:-step], values[step:])])  # type: ignore[operator]
        step *= 2
    return moveaxis(values, 0, axis).contiguous()


def reduceat(row: Elementwise, x: Any, indices: Any, axis: int, dtype: Any) -> Array:
    """:meth:`~cukern.elementwise.ufunc.Ufunc.reduceat` without ``out``."""
    known = _checked(row, "reduceat")
    x = require_array(x, row.name)
    if not x.ndim:
        raise TypeError(f"{row.name}.reduceat: expected an array of at least one axis, got a 0-d array")
    axis = normalize_axis(axis, x.ndim, row.name)
    starts = _starts(f"{row.name}.reduceat", indices, x, x.shape[axis])
    wanted = _combined_in(row, x, dtype)
    if wanted in dtypes.INEXACT and row.differentiable and tape.recording((x,)):
        return _slices(row, x, starts, axis, wanted)
    return folded(row, x, starts._data, axis, wanted, known is None)


def _starts(name: str, indices: Any, x: Array, n: int) -> Array:
    """The argument ``indices`` of ``reduceat``, int64 on the device of ``x``.

    Raises:
        IndexError: one is out of range; those that are on a GPU are not looked at, unless indices are checked.
        TypeError: they are not integers.
        ValueError: they have not one axis.
    """
    data = indices._data if isinstance(indices, Array) else np.asarray(indices)
    if data.dtype.kind not in "iu" and data.size:
        raise TypeError(f"{name}: indices: expected integers, got {data.dtype}")
    if data.ndim != 1:
        raise ValueError(f"{name}: indices: expected one axis, got shape {data.shape}")
    seen = isinstance(data, np.ndarray) or not wraps(x)
    if data.size and (not n or (seen and not (int(data.min()) >= 0 and int(data.max()) < n))):
        raise IndexError(f"{name}: indices: expected 0 to {n - 1}, got {data[:8].tolist()}")
    if not isinstance(indices, Array):
        return asarray(data.astype(np.int64), device=x.device)
    return astype(indices.to_device(x.device), dtypes.int64, copy=False).contiguous()


def _slices(row: Elementwise, x: Array, starts: Array, axis: int, dtype: dtypes.DType) -> Array:
    """``reduceat`` as a composition of functions, which has their derivatives; reads the starts on the host."""
    known, first, n = _COMBINATIONS.get(row.name), starts.numpy().clip(0, x.shape[axis] - 1), x.shape[axis]
    lengths = np.maximum(np.append(first[1:], n) - first, 1)
    values = moveaxis(astype(x, dtype, copy=False), axis, 0)
    if known is not None and known.reduction in _SEGMENTS:
        owners, indices = ranges(x.device, first, lengths)
        result = _SEGMENTS[known.reduction](
            take(values, indices, axis=0), owners, len(first), indices_are_sorted=True
        )
    else:
        result = _slices_in_order(row, values, first, lengths)
    return moveaxis(result, 0, axis)


#: The reductions of segments, by the reduction of the whole.
_SEGMENTS = {"sum": segment_sum, "prod": segment_prod, "max": segment_max, "min": segment_min}


def _rows(x: Array, indices: Any) -> Array:
    """The elements of ``x`` at host indices along the first axis."""
    return take(x, asarray(indices, dtypes.int64, x.device), axis=0)


def _slices_in_order(row: Elementwise, x: Array, starts: Any, lengths: Any) -> Array:
    """The elements of slices along the first axis, combined from left to right."""
    result = _rows(x, starts)
    for k in range(1, int(lengths.max(initial=0))):
        inside = np.flatnonzero(lengths > k)
        rows = asarray(inside, device=x.device)
        more = row(result[rows], _rows(x, starts[inside] + k))  # type: ignore[operator]
        result = result.at[rows].set(more)
    return result


def at(row: Elementwise, x: Array, indices: Any, values: Any) -> None:
    """:meth:`~cukern.elementwise.ufunc.Ufunc.at`."""
    require_written(x, f"{row.name}.at")
    if (values is None) != (len(row.operands) == 1):
        raise TypeError(f"{row.name}.at: expected {len(row.operands) - 1} operands beside x[indices]")
    operand: tuple[Any, ...] = () if values is None else (values,)
    if operand and not is_scalar(values):
        operand = (require_array(values, row.name, "values", x),)
    kinds = (x.dtype, *(one.dtype if isinstance(one, Array) else one for one in operand))
    result = row.resolve(kinds)[1]
    dtypes.refuse_real(f"{row.name}.at", result, x.dtype)
    known = _COMBINATIONS.get(row.name)
    if row.name == "subtract" and result == x.dtype:
        less = (
            broadcast_to(require_array(operand[0], row.name, "values", x), ())
            if is_scalar(values)
            else operand[0]
        )
        operand, known = (-astype(less, x.dtype, copy=False),), _COMBINATIONS["add"]
    if known is not None and known.update and result == x.dtype:
        setitem(x, ..., getattr(x.at[indices], known.update)(operand[0]))
        return
    with tape.stop_recording():
        updated = _in_turn(row, x, indices, operand)
    setitem(x, ..., updated)


def _in_turn(row: Elementwise, x: Array, indices: Any, operand: tuple[Any, ...]) -> Array:
    """``x`` after the function was applied to each index, to repeated ones in turn."""
    positions = getitem(numbers(x), indices)
    flat_positions = positions.numpy().reshape(-1)
    order = np.argsort(flat_positions, kind="stable")
    first = np.searchsorted(flat_positions[order], flat_positions[order])
    repeats = np.empty(flat_positions.size, np.int64)
    repeats[order] = np.arange(flat_positions.size) - first  # how often the index came before
    flat = reshape(x, (-1,)).copy()
    others = [
        reshape(broadcast_to(require_array(one, row.name, "values", x), positions.shape), (-1,))
        for one in operand
    ]
    for turn in range(int(repeats.max(initial=-1)) + 1):
        now = np.flatnonzero(repeats == turn)
        to = asarray(flat_positions[now], device=x.device)
        mine = [take(other, asarray(now, device=x.device)) for other in others]
        setitem(flat, to, astype(row(take(flat, to), *mine), x.dtype, copy=False))  # type: ignore[operator]
    return reshape(flat, x.shape)


_METHODS: dict[str, Callable[..., Any]] = {
    "reduce": reduce,
    "accumulate": accumulate,
    "reduceat": reduceat,
    "at": at,
}
FUNCTIONS.update({f"ufunc_{name}": method for name, method in _METHODS.items()})
