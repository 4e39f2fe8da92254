"""Functions that join arrays, and that take one apart into views."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.batched import Batched, innermost, is_logical, level_of
from ..array.deferred import trace, traced_threads
from ..array.layout import ALIGNMENT, Layout, fresh_layout, layout, memory_order
from ..autodiff import tape
from ..autodiff.cotangents import zeros_like
from ..cache import Cache
from ..device.interface import Prepared
from ..dtypes import DType
from ..elementwise.graph import Expr
from ..elementwise.operands import (
    array_or_symbol,
    normalize_axis,
    public,
    recorded_many,
    require_arrays,
    view,
)
from ..elementwise.ufunc import Casting, can_cast, one_out, written
from ..kernel.plan import on, one_device
from .copy import copier, write
from .known_views import items
from .views import ravel

__all__ = ["array_split", "concat", "dsplit", "hsplit", "split", "stack", "unstack", "vsplit"]


def _joinable(arrays: Sequence[Array], name: str) -> tuple[list[Array], DType]:
    """The arrays, which must be on one device, and their common dtype.

    Raises:
        ValueError: there is no array.
        DeviceError: they are on different devices.
    """
    result = require_arrays(arrays, name)
    if not result:
        raise ValueError(f"{name}: expected at least one array")
    one_device(name, result)
    kinds = {x.dtype for x in result}
    return result, result[0].dtype if len(kinds) == 1 else dtypes.result_type(*kinds)


def _castable(arrays: Sequence[Array], dtype: Any, casting: str, name: str) -> DType:
    """The requested dtype, checked against ``casting`` for every array."""
    wanted = dtypes.as_dtype(dtype)
    for x in arrays:
        if not can_cast(x.dtype, wanted, casting):
            raise TypeError(f"{name}: dtype: {x.dtype} is not cast to {wanted} by casting={casting!r}")
    return wanted


@public
def concat(
    arrays: Sequence[Array],
    /,
    axis: int | None = 0,
    out: Array | None = None,
    *,
    dtype: Any = None,
    casting: Casting = "same_kind",
) -> Array:
    """Join arrays along an existing axis; if ``axis`` is None, flatten them first.

    Args:
        arrays: arrays of the same shape except along ``axis``.
        axis: the axis.
        out: the array to write the result to.
        dtype: that of the result; the promoted dtype of the arrays by default.
        casting: the allowed casts to ``dtype``: ``"same_kind"``, ``"unsafe"``, or another of NumPy's names.

    Raises:
        TypeError: an array cannot be cast to ``dtype``.
        ValueError: there is no array, or sizes differ along another axis.
    """
    plan = None if out is not None or dtype is not None else _known("concat", arrays, axis)
    if plan is not None:
        return plan(arrays)
    joined, common = _joinable(arrays, "concat")
    wanted = common if dtype is None else _castable(joined, dtype, casting, "concat")
    if axis is None:
        joined, axis = [x if x.ndim == 1 else ravel(x) for x in joined], 0
    given, axis = axis, normalize_axis(axis, joined[0].ndim, "concat")
    shapes = [x.shape for x in joined]
    if any(len(s) != len(shapes[0]) or _without(s, axis) != _without(shapes[0], axis) for s in shapes):
        raise ValueError(
            f"concat: shapes {', '.join(map(str, shapes))} differ along an axis other than {axis}"
        )
    result = _joined("concat", joined, axis, wanted, given if wanted == common else None)
    return result if out is None else _given("concat", result, out, dtype, casting)


def _given(name: str, result: Array, out: Array, dtype: Any, casting: Casting) -> Array:
    """``out`` with the elements of ``result``."""
    if dtype is not None:
        raise TypeError(f"{name}: out and dtype: expected one of them, as out has a dtype, got both")
    target = one_out(name, out)
    if target is not None and target.shape != result.shape:
        raise ValueError(f"{name}: out: expected shape {result.shape}, got {target.shape}")
    return written(name, result, target, casting)


class _Join:
    """A join of arrays of given layouts, each copied, and cast, to its part of a new array.

    Args:
        name: of the function.
        layouts: those of the arrays, which have one shape but along ``axis``.
        axis: along which they are joined.
        dtype: of the result.
        adds_axis: whether it is a new axis.
        order: the axes of the result in memory; that of all arrays, or C order, when None.
    """

    __slots__ = ("_device", "_keys", "_mapped", "_operation", "_parts", "_whole")

    def __init__(
        self,
        name: str,
        layouts: Sequence[Layout],
        axis: int,
        dtype: DType,
        adds_axis: bool,
        order: tuple[int, ...] | None = None,
    ) -> None:
        first, whole = layouts[0], (slice(None),) * axis
        ends = list(accumulate((1 if adds_axis else one.shape[axis] for one in layouts), initial=0))
        shape = (*first.shape[:axis], ends[-1], *first.shape[axis + (not adds_axis) :])
        if order is None and not adds_axis:
            order = _common_order(layouts)
        self._device = first.device
        self._whole = fresh_layout(first.device, dtype, shape, order)

        def push(tangents: Sequence[Array | None], saved: object) -> tuple[Array]:
            parts = [zeros_like(one) if t is None else t for t, one in zip(tangents, layouts, strict=True)]
            return (_join(name, parts, axis, dtype, order)(parts),)

        self._operation = tape.Operation(name, tuple(layouts), (self._whole,), self._pull, jvp=push)
        self._keys: list[tuple[Any, ...]] = [
            (*whole, start, ...) if adds_axis else (*whole, slice(start, end))
            for start, end in pairwise(ends)
        ]
        strides = self._whole.strides
        kept = (*strides[:axis], *strides[axis + 1 :]) if adds_axis else strides
        #: The bytes before each array's part, and its copy, on a GPU.
        self._parts: list[tuple[int, Prepared | None]] = []
        #: The join of all examples of a batch.
        self._mapped: Callable[[Sequence[Array]], Array] | None = None
        if is_logical(layouts):
            self._mapped = partial(
                stack if adds_axis else concat, axis=axis + 1, dtype=dtype, casting="unsafe"
            )
            return
        for one, start in zip(() if first.on_host else layouts, ends, strict=False):
            at = start * strides[axis]
            part = layout(one.device, dtype, one.shape, kept, at % ALIGNMENT == 0)
            self._parts.append((at, copier(one, part)))

    def __call__(self, arrays: Sequence[Array]) -> Array:
        """The joined array, on tapes that track one of ``arrays``."""
        result = self._joined(arrays)
        if tape.opened and self._whole.floating and (tracking := tape.tracked(arrays)) is not None:
            _, keys, tapes = tracking
            tape.record_tracked(self._operation, keys, (result,), (), tapes)
        return result

    def _joined(self, arrays: Sequence[Array]) -> Array:
        if (mapped := self._mapped) is not None:
            level = innermost(arrays)
            return level.batched(level.run(lambda: mapped([level.front(x) for x in arrays])))
        with on(self._device):
            result = Array._made(self._whole)
            for x, (offset, copy) in zip(arrays, self._parts, strict=False):
                if copy is not None:
                    copy(x._operand, result._operand + offset)
        if self._whole.on_host:
            for key, x in zip(self._keys, arrays, strict=True):
                write(self._device, result._data[key], x._data)
        return result

    def _pull(self, cotangents: tape.Arrays, saved: object, needs: tuple[bool, ...]) -> list[Array | None]:
        (g,) = cotangents
        return [g[key] if need else None for key, need in zip(self._keys, needs, strict=True)]


def _common_order(layouts: Sequence[Layout]) -> tuple[int, ...] | None:
    """The order of the axes in memory that all arrays have; None for C order."""
    orders = {None if one.contiguous else one.order for one in layouts}
    return orders.pop() if len(orders) == 1 else None


_made = lru_cache(maxsize=8192)(_Join)
#: The joins of arrays of the same layouts, in their common dtype.
_joins: Cache[tuple[Any, ...], _Join] = Cache()


def _key(name: str, arrays: Sequence[Array], axis: Any) -> tuple[Any, ...]:
    return (name, axis, *[x._layout or x._planned() for x in arrays])


def _known(name: str, arrays: Any, axis: Any) -> _Join | None:
    """The join of arrays whose layouts were joined before, in their common dtype; None of other arguments."""
    if type(arrays) not in (list, tuple) or type(axis) is not int or traced_threads:
        return None
    for x in arrays:
        if not isinstance(x, Array):
            return None
    return _joins.get(_key(name, arrays, axis))


def _join(
    name: str, arrays: Sequence[Array], axis: int, dtype: DType, order: tuple[int, ...] | None = None
) -> _Join:
    """The join of checked arrays."""
    layouts = tuple([x._layout or x._planned() for x in arrays])
    return _made(name, layouts, axis, dtype, name in ("stack", "unstack"), order)


def _joined(name: str, arrays: Sequence[Array], axis: int, dtype: DType, given: int | None) -> Array:
    """The join of checked arrays; it is found again by ``given``, the argument, unless that is None."""
    waits = traced_threads and level_of(arrays) is None and any(x.size for x in arrays)
    if waits and (active := trace()) is not None:
        return _waiting(active, name, arrays, axis, dtype)
    plan = _join(name, arrays, axis, dtype)
    if given is not None:
        _joins.keep(_key(name, arrays, given), plan)
    return plan(arrays)


def _waiting(active: Any, name: str, arrays: Sequence[Array], axis: int, dtype: DType) -> Array:
    """The join of arrays that waits in a trace."""
    adds_axis, first = name == "stack", arrays[0]
    ends = list(accumulate((1 if adds_axis else x.shape[axis] for x in arrays), initial=0))
    shape = (*first.shape[:axis], ends[-1], *first.shape[axis + (not adds_axis) :])
    order = None if adds_axis else _common_order([x._layout or x._planned() for x in arrays])
    whole = tuple([slice(0, n) for n in shape])
    boxes = [(*whole[:axis], slice(start, end), *whole[axis + 1 :]) for start, end in pairwise(ends)]
    index = (*(slice(None),) * axis, *((None,) if adds_axis else ()), *(slice(None),) * (first.ndim - axis))
    layout = fresh_layout(first.device, dtype, shape, order)
    parts = [(box, x, index) for box, x in zip(boxes, arrays, strict=True) if x.size]
    keys = [(*whole[:axis], start, ...) for start in ends[:-1]] if adds_axis else boxes

    def pulled(g: Array, needs: Sequence[bool]) -> list[Array | None]:
        return [g[key] if need else None for key, need in zip(keys, needs, strict=True)]

    return recorded_many(name, arrays, active.joined(layout, parts), pulled)


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


def _part(x: Array, axis: int, start: int, end: int) -> Array:
    """The elements from ``start`` to ``end`` along an axis, a view."""
    return x[(slice(None),) * axis + (slice(start, end),)]


@public
def stack(
    arrays: Sequence[Array],
    /,
    axis: int = 0,
    out: Array | None = None,
    *,
    dtype: Any = None,
    casting: Casting = "same_kind",
) -> Array:
    """Join arrays of one shape along a new axis; ``out``, ``dtype`` and ``casting`` as in :func:`concat`.

    Raises:
        TypeError: an array cannot be cast to ``dtype``.
        ValueError: there is no array, or shapes differ.
    """
    plan = None if out is not None or dtype is not None else _known("stack", arrays, axis)
    if plan is not None:
        return plan(arrays)
    joined, common = _joinable(arrays, "stack")
    if any(x.shape != joined[0].shape for x in joined):
        raise ValueError(f"stack: expected one shape, got {', '.join(str(x.shape) for x in joined)}")
    given, axis = axis, normalize_axis(axis, joined[0].ndim + 1, "stack")
    wanted = common if dtype is None else _castable(joined, dtype, casting, "stack")
    result = _joined("stack", joined, axis, wanted, given if wanted == common else None)
    return result if out is None else _given("stack", result, out, dtype, casting)


@public
def unstack(x: Array, /, axis: int = 0) -> tuple[Array, ...]:
    """The views of ``x`` at each index along an axis."""
    x = array_or_symbol(x, "unstack")
    axis = normalize_axis(axis, x.ndim, "unstack")
    whole = (slice(None),) * axis
    keys = [(*whole, i, ...) for i in range(x.shape[axis])]
    if isinstance(x, (Batched, Expr)):
        return tuple(x[key] for key in keys)
    return tuple(_taken_apart(x, "unstack", axis, keys, items(x, axis)))


@public
def split(x: Array, /, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Array]:
    """Split ``x`` along an axis into views: into equal parts, or before each of the given indices.

    Raises:
        ValueError: the axis cannot be split into that number of equal parts.
    """
    x = array_or_symbol(x, "split")
    axis = normalize_axis(axis, x.ndim, "split")
    size = x.shape[axis]
    if isinstance(indices_or_sections, (int, np.integer)):
        sections = int(indices_or_sections)
        if sections < 1 or size % sections:
            raise ValueError(f"split: an axis of size {size} has no {sections} equal parts")
        ends = [size // sections * i for i in range(1, sections)]
    else:
        ends = [min(max(e + size if e < 0 else e, 0), size) for e in map(operator.index, indices_or_sections)]
    parts = [(a, max(a, b)) for a, b in pairwise([0, *ends, size])]
    if ends != sorted(ends):  # overlapping parts
        return [_part(x, axis, *part) for part in parts]
    keys = [(*(slice(None),) * axis, slice(*part)) for part in parts]
    if isinstance(x, (Batched, Expr)):
        return [x[key] for key in keys]
    if x.device.addressable:
        views = [view(x, x._data[key]) for key in keys]
    else:
        with tape.stop_recording():
            views = [x[key] for key in keys]
    return _taken_apart(x, "split", axis, keys, views)


def _taken_apart(
    x: Array, name: str, axis: int, keys: Sequence[tuple[Any, ...]], views: list[Array]
) -> list[Array]:
    """The ``views`` of ``x`` at ``keys``, which cover ``x``: one operation, whose derivative joins the cotangents.

    Args:
        axis: the axis along which they lie.
    """
    if views and tape.recording((x,)):
        like = x._layout or x._planned()

        def vjp(cotangents: Any, saved: object, needs: object) -> tuple[Array]:
            return (put_together(name, cotangents, keys, like, axis),)

        def jvp(tangents: Any, saved: object) -> list[Array]:
            return [tangents[0][key] for key in keys]

        tape.record(name, (x,), views, vjp, jvp=jvp)
    return views


def put_together(
    name: str, parts: Sequence[Array], keys: Sequence[tuple[Any, ...]], like: Layout, axis: int
) -> Array:
    """The array whose views at ``keys``, which lie along ``axis`` and cover it, are ``parts``.

    Args:
        name: of the function, for tapes.
        like: its shape, and where it is new, its order in memory.
    """
    result = _lying_so(parts, like.shape, axis)
    if result is None:
        kind = "unstack" if parts[0].ndim < like.ndim else name
        return _join(kind, parts, axis, parts[0].dtype, like.order)(parts)
    return recorded_many(name, parts, result, lambda g, needs: [g[key] for key in keys])


def _lying_so(parts: Sequence[Array], shape: tuple[int, ...], axis: int) -> Array | None:
    """A GPU's array of this shape that consists of ``parts`` along an axis, if they lie in one memory so; else None."""
    first, layouts = parts[0], [part._layout or part._planned() for part in parts]
    own, storage = layouts[0], first._storage
    if own.on_host or not own.size or is_logical(layouts):
        return None
    strides = list(own.strides)
    if own.ndim < len(shape):
        strides.insert(axis, parts[1]._operand - first._operand if len(parts) > 1 else own.nbytes)
    at, step = first._operand, strides[axis]
    for part, of_part in zip(parts, layouts, strict=True):
        fits = of_part is own or (
            of_part.dtype == own.dtype
            and all(
                n == 1 or a == b for n, a, b in zip(of_part.shape, of_part.strides, own.strides, strict=True)
            )
        )
        if not fits or part._storage is not storage or part._operand != at:
            return None
        at += step if of_part.ndim < len(shape) else of_part.shape[axis] * step
    if memory_order(shape, tuple(strides), own.dtype.itemsize) is None:  # they leave gaps, or overlap
        return None
    return first._seen(layout(own.device, own.dtype, shape, tuple(strides), own.aligned))


@public
def array_split(x: Array, /, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Array]:
    """:func:`split` into parts whose sizes may differ by one, the larger ones first.

    Raises:
        ValueError: the number of parts is less than one.
    """
    x = array_or_symbol(x, "array_split")
    axis = normalize_axis(axis, x.ndim, "array_split")
    if not isinstance(indices_or_sections, (int, np.integer)):
        return split(x, indices_or_sections, axis)
    sections = operator.index(indices_or_sections)
    if sections < 1:
        raise ValueError(f"array_split: expected at least one section, got {sections}")
    each, more = divmod(x.shape[axis], sections)
    sizes = [each + (i < more) for i in range(sections)]
    return split(x, list(accumulate(sizes))[:-1], axis)


def _split_along(x: Array, cuts: int | Sequence[int], axis: int, least: int, name: str) -> list[Array]:
    x = array_or_symbol(x, name)
    if x.ndim < least:
        raise ValueError(f"{name}: expected at least {least} axes, got shape {x.shape}")
    return split(x, cuts, axis)


@public
def hsplit(x: Array, /, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """:func:`split` along the second axis, or along the first for a vector."""
    x = array_or_symbol(x, "hsplit")
    return _split_along(x, indices_or_sections, 1 if x.ndim > 1 else 0, 1, "hsplit")


@public
def vsplit(x: Array, /, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """:func:`split` along the first axis of an array with two or more."""
    return _split_along(x, indices_or_sections, 0, 2, "vsplit")


@public
def dsplit(x: Array, /, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """:func:`split` along the third axis."""
    return _split_along(x, indices_or_sections, 2, 3, "dsplit")
