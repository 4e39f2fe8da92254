"""The methods of elementwise functions that combine elements: reduce, accumulate, reduceat, and at."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import asarray
from ..array.operators import FUNCTIONS
from ..autodiff import tape
from ..elementwise.function import Elementwise, astype
from ..elementwise.operands import normalize_axes, normalize_axis, require_array, require_written
from ..elementwise.row import is_scalar
from ..elementwise.table import where as choose
from ..index.subscript import getitem, setitem
from ..index.take import take
from ..index.update import numbers
from ..reduction.function import masked
from ..shape.views import broadcast_to, concat, expand_dims, moveaxis, reshape, stack

__all__: list[str] = []


@dataclass(frozen=True)
class _Combination:
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


def _values(row: Elementwise, x: Any, dtype: Any) -> Array:
    """The elements in the dtype in which they are combined, which is that of the result."""
    made = require_array(x, row.name)
    wanted = made.dtype if dtype is None else dtypes.as_dtype(dtype)
    dtypes.refuse_real(row.name, made.dtype, wanted)
    if dtype is None:
        wanted = row.resolve((wanted, wanted))[1]
        if row.name in ("add", "multiply"):
            wanted = FUNCTIONS["sum"].dtypes_of(wanted)[1]
    return astype(made, wanted, copy=False)


def _folded(row: Elementwise, x: Array, commutes: bool) -> Array:
    """The elements along the first axis, at least one, combined: in pairs, or in turn."""
    if not commutes:
        made = x[0]
        for i in range(1, len(x)):
            made = row(made, x[i])  # type: ignore[operator]
        return made
    while len(x) > 1:
        half = len(x) // 2
        made = row(x[:half], x[half : 2 * half])  # type: ignore[operator]
        x = concat([made, x[2 * half :]]) if len(x) % 2 else made
    return x[0]


def _identity(row: Elementwise, known: _Combination | None, dtype: dtypes.DType) -> Array | None:
    if known is None or known.identity is None:
        return None
    return asarray(bool(known.identity) if dtype == dtypes.bool_ else known.identity).astype(dtype)


def reduce(
    row: Elementwise, x: Any, axis: Any, dtype: Any, keepdims: bool, initial: Any, where: Any
) -> Array:
    """:meth:`~cukern.elementwise.ufunc.Ufunc.reduce` without ``out``."""
    known = _checked(row, "reduce")
    where = None if where is True else where
    x = require_array(x, row.name)
    axes = normalize_axes(axis, x.ndim, row.name)
    if known is None and len(axes) > 1:
        raise ValueError(
            f"{row.name}.reduce: axis: expected one axis, as the order of the operands matters, got {axis}"
        )
    if known is not None and known.reduction:
        options: dict[str, Any] = {"keepdims": keepdims}
        if where is not None:
            options["where"] = where
        if known.reduction in ("sum", "prod", "max", "min"):
            return FUNCTIONS[known.reduction](  # type: ignore[no-any-return]
                x if dtype is None else astype(x, dtype, copy=False), axes, initial=initial, **options
            )
        if known.reduction in ("all", "any") and initial is None:
            return FUNCTIONS[known.reduction](x, axes, **options)  # type: ignore[no-any-return]
        if initial is None and where is None and dtype is None:
            return FUNCTIONS[known.reduction](x, axes, **options)  # type: ignore[no-any-return]
    values = _values(row, x, dtype)
    identity = _identity(row, known, values.dtype)
    if where is not None:
        filled = identity if initial is None else asarray(initial, values.dtype, values.device)
        if filled is None:
            raise ValueError(f"{row.name}.reduce: where: give initial as well, as there is no identity")
        values = choose(masked(values, where, row.name), values, filled)
    made = _reduced(row, values, axes, known is not None, identity if initial is None else initial)
    if initial is not None:
        made = astype(row(asarray(initial, values.dtype, values.device), made), values.dtype, copy=False)  # type: ignore[operator]
    return expand_dims(made, axes) if keepdims and axes else made


def _reduced(row: Elementwise, x: Array, axes: tuple[int, ...], commutes: bool, none: Any) -> Array:
    """The elements combined along axes; ``none`` where there are no elements."""
    kept = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    if not axes:
        return x
    moved = reshape(moveaxis(x, axes, tuple(range(len(axes)))), (math.prod(x.shape[i] for i in axes), *kept))
    if len(moved):
        return _folded(row, moved, commutes)
    if none is None:
        raise ValueError(f"{row.name}.reduce: no element to combine along axes {axes} of shape {x.shape}")
    return broadcast_to(asarray(none, x.dtype, x.device), kept)


def accumulate(row: Elementwise, x: Any, axis: int, dtype: Any) -> Array:
    """:meth:`~cukern.elementwise.ufunc.Ufunc.accumulate` without ``out``."""
    known = _checked(row, "accumulate")
    x = require_array(x, row.name)
    if not x.ndim:
        raise TypeError(f"{row.name}.accumulate: expected an array of at least one axis, got a 0-d array")
    place = normalize_axis(axis, x.ndim, row.name)
    if (
        known is not None
        and known.scan
        and not (known.scan == "logcumsumexp" and x.dtype not in dtypes.INEXACT)
    ):
        return FUNCTIONS[known.scan](x if dtype is None else astype(x, dtype, copy=False), place)  # type: ignore[no-any-return]
    values = moveaxis(_values(row, x, dtype), place, 0)
    if known is None:
        made = [values[i] for i in range(min(len(values), 1))]
        for i in range(1, len(values)):
            made.append(row(made[-1], values[i]))  # type: ignore[operator]
        values = stack(made) if made else values
    step = 1
    while known is not None and step < len(values):
        values = concat([values[:step], row(values[:-step], values[step:])])  # type: ignore[operator]
        step *= 2
    return moveaxis(values, 0, place).contiguous()


def reduceat(row: Elementwise, x: Any, indices: Any, axis: int, dtype: Any) -> Array:
    """:meth:`~cukern.elementwise.ufunc.Ufunc.reduceat` without ``out``; reads the indices on the host."""
    _checked(row, "reduceat")
    x = require_array(x, row.name)
    if not x.ndim:
        raise TypeError(f"{row.name}.reduceat: expected an array of at least one axis, got a 0-d array")
    place = normalize_axis(axis, x.ndim, row.name)
    starts = np.asarray(indices.numpy() if isinstance(indices, Array) else indices)
    if starts.dtype.kind not in "iu" and starts.size:
        raise TypeError(f"{row.name}.reduceat: indices: expected integers, got {starts.dtype}")
    n = x.shape[place]
    if starts.ndim != 1:
        raise ValueError(f"{row.name}.reduceat: indices: expected one axis, got shape {starts.shape}")
    if starts.size and not (starts.min() >= 0 and starts.max() < n):
        raise IndexError(f"{row.name}.reduceat: indices: expected 0 to {n - 1}, got {starts.tolist()}")
    ends = np.append(starts[1:], n)
    lengths = np.maximum(ends - starts, 1)
    values = moveaxis(_values(row, x, dtype), place, 0)
    made = take(values, asarray(starts.astype(np.int64), device=x.device), axis=0)
    for k in range(1, int(lengths.max(initial=0))):
        inside = np.flatnonzero(lengths > k)
        rows = asarray(inside, device=x.device)
        more = row(made[rows], take(values, asarray(starts[inside] + k, device=x.device), axis=0))  # type: ignore[operator]
        made = made.at[rows].set(more)
    return moveaxis(made, 0, place).contiguous()


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
    if known is not None and known.update and result == x.dtype:
        setitem(x, ..., getattr(x.at[indices], known.update)(operand[0]))
        return
    with tape.stop_recording():
        made = _in_turn(row, x, indices, operand)
    setitem(x, ..., made)


def _in_turn(row: Elementwise, x: Array, indices: Any, operand: tuple[Any, ...]) -> Array:
    """``x`` after the function was applied to each index, to repeated ones in turn."""
    found = getitem(numbers(x), indices)
    places = found.numpy().reshape(-1)
    order = np.argsort(places, kind="stable")
    first = np.searchsorted(places[order], places[order])
    turns = np.empty(places.size, np.int64)
    turns[order] = np.arange(places.size) - first  # how often the index came before
    flat = reshape(x, (-1,)).copy()
    others = [
        reshape(broadcast_to(require_array(one, row.name, "values", x), found.shape), (-1,))
        for one in operand
    ]
    for turn in range(int(turns.max(initial=-1)) + 1):
        now = np.flatnonzero(turns == turn)
        to = asarray(places[now], device=x.device)
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
