"""Views by layouts alone: what an earlier call worked out for the same layout and arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ..array import Array
from ..array.batched import Batched
from ..array.deferred import trace, traced_threads
from ..array.layout import ALIGNMENT, Layout, layout
from ..array.operators import FUNCTIONS
from ..autodiff import tape
from ..autodiff.cotangents import Parts
from ..cache import Cache
from ..elementwise.operands import recorded, view


class _View(NamedTuple):
    """A view of arrays of one layout.

    Attributes:
        layout: that of the view.
        offset: bytes before it, on a GPU.
        take: makes it of an ndarray, on the host.
        operation: what a tape records.
    """

    layout: Layout
    offset: int
    take: Callable[[Any], Any]
    operation: tape.Operation


_views: Cache[tuple[Any, ...], _View] = Cache()
#: Of arguments that are equal only if they mean the same; True equals 1, and is none.
_PLAIN = frozenset((str, int, type(None)))


def known(x: Array, key: tuple[Any, ...]) -> Array | None:
    """The view of ``x`` for which :func:`viewed` got ``key`` for an array of this layout; else None."""
    if not _PLAIN.issuperset(map(type, key)) or not isinstance(x, Array) or traced_threads:
        return None
    cached = _views.get((x._layout or x._planned(), *key))
    if cached is None:
        return None
    if cached.layout.on_host:
        data = cached.take(x._ndarray)
        result = view(x, data)
        result._layout, result._operand = cached.layout, id(data)
    else:
        result = x._seen(cached.layout, cached.offset)
    if tape.opened:
        tracking = tape.tracked((x,))
        if tracking is not None:
            _, keys, tapes = tracking
            tape.record_tracked(cached.operation, keys, (result,), (), tapes)
    return result


def relaid(x: Array, wanted: Layout, axes: Sequence[int]) -> Array:
    """The memory of ``x`` with its axes in another order, which gives this layout; tapes do not record it."""
    if not wanted.on_host:
        return x._seen(wanted)
    data = x._data.transpose(axes)
    result = Array._wrap(data, x.device, x._storage)
    result._layout, result._operand = wanted, id(data)
    return result


@lru_cache(maxsize=8192)
def _items(own: Layout, axis: int) -> list[Layout]:
    """The layouts of the items of an array along an axis."""
    shape, strides = ((*one[:axis], *one[axis + 1 :]) for one in (own.shape, own.strides))
    aligned = [own.aligned and i * own.strides[axis] % ALIGNMENT == 0 for i in range(own.shape[axis])]
    return [layout(own.device, own.dtype, shape, strides, each) for each in aligned]


def items(x: Array, axis: int = 0) -> list[Array]:
    """The items of ``x`` along an axis: views, which tapes do not record."""
    own = x._layout or x._planned()
    if own.on_host or min(own.strides) < 0:
        whole = (slice(None),) * axis
        return [view(x, x._data[(*whole, i, ...)]) for i in range(own.shape[axis])]
    step, views = own.strides[axis], []
    for i, one in enumerate(_items(own, axis)):
        views.append(x._seen(one, i * step))
    return views


#: By the layout of the array, and what :func:`recorded_by` is told.
_linear: Cache[tuple[Any, ...], tape.Operation] = Cache()


def recorded_by(
    x: Array,
    result: Array,
    vjp: Callable[[Array], Array | Parts | None],
    key: tuple[Any, ...],
    again: Callable[[Array], Array],
) -> Array:
    """``result``, recorded as a linear function of ``x`` if a tape tracks ``x``.

    Args:
        x: any array.
        result: what was computed of it.
        vjp: the cotangent of ``x`` from that of the result.
        key: the function's name and what else, with the layout of ``x``, says what ``vjp`` and the result's layout are.
        again: the function itself.
    """
    if tape.opened and (tracking := tape.tracked((x,))) is not None:
        _, keys, tapes = tracking
        own = x._planned()
        operation = _linear.get((own, *key))
        if operation is None:
            operation = _linear.keep(
                (own, *key), _linear_operation(key[0], own, result._planned(), vjp, again)
            )
        if result._planned().floating:
            tape.record_tracked(operation, keys, (result,), (), tapes)
    return result


def _linear_operation(
    name: str,
    own: Layout,
    result: Layout,
    vjp: Callable[[Array], Array | Parts | None],
    again: Callable[[Array], Array],
) -> tape.Operation:
    def pull(cotangents: Any, saved: object, needs: object) -> tuple[Array | Parts | None]:
        return (vjp(cotangents[0]),)

    def push(tangents: Any, saved: object) -> tuple[Array]:
        return (again(tangents[0]),)

    return tape.Operation(name, (own,), (result,), pull, jvp=push)


class Examples:
    """The array of all examples of a batch, with the methods by which a view is taken of one."""

    def __init__(self, whole: Array) -> None:
        self._whole = whole

    def reshape(self, sizes: tuple[int, ...]) -> Any:
        """The view of each in another shape, or a copy."""
        return FUNCTIONS["reshape"](self._whole, (len(self._whole), *sizes))

    def transpose(self, order: Sequence[int] | None = None) -> Any:
        """The view with the axes of each in another order, by default reversed."""
        axes = range(self._whole.ndim - 1)[::-1] if order is None else order
        return FUNCTIONS["permute_dims"](self._whole, (0, *[axis + 1 for axis in axes]))

    def squeeze(self, axes: Sequence[int]) -> Any:
        """The view without these axes."""
        return FUNCTIONS["squeeze"](self._whole, tuple([axis + 1 for axis in axes]))

    def view(self) -> Any:
        """The view of all."""
        return FUNCTIONS["broadcast_to"](self._whole, self._whole.shape)

    def broadcast(self, shape: tuple[int, ...]) -> Any:
        """The view of each that is broadcast to a shape."""
        one = self._whole.shape[1:]
        added = tuple(range(1, 1 + len(shape) - len(one)))
        return FUNCTIONS["broadcast_to"](
            FUNCTIONS["expand_dims"](self._whole, added), (len(self._whole), *shape)
        )

    def __getitem__(self, key: tuple[Any, ...]) -> Any:
        return FUNCTIONS["getitem"](self._whole, (slice(None), *key))


def viewed(
    x: Array,
    take: Callable[[Any], Any],
    vjp: Callable[[Array], Array | Parts | None],
    key: tuple[Any, ...],
    again: Callable[[Array], Array],
) -> Array:
    """A view of ``x``, recorded as a linear function of it.

    Args:
        x: any array, or a symbol of a fused function.
        take: makes the view of an ndarray, and that of a symbol.
        vjp: the cotangent of ``x`` from that of the view.
        key: the function's name and arguments, strings, integers and None, from which both follow for the layout of
            ``x``.
        again: the function itself.
    """
    if not isinstance(x, Array):
        return take(x)
    made: Array
    if type(x) is Batched:
        level = x._level
        made = level.batched(level.run(take, Examples(level.value(x))))
        return recorded_by(x, made, vjp, key, again)
    if traced_threads and (active := trace()) is not None and (pending := active.view(x, take)) is not None:
        made = recorded_by(x, pending, vjp, key, again)
        return made
    data = take(x._data)
    own = x._layout or x._planned()
    backwards = not own.on_host and min(data.strides, default=0) < 0
    if backwards or not _PLAIN.issuperset(map(type, key)):
        return recorded(key[0], x, view(x, data), vjp, again)
    offset = 0 if own.on_host else x.device.backend.operand(data) - x._operand
    aligned = own.aligned and offset % ALIGNMENT == 0
    result = layout(x.device, data.dtype, data.shape, data.strides, aligned)

    operation = _linear_operation(key[0], own, result, vjp, again)
    _views.keep((own, *key), _View(result, offset, take, operation))
    made_view = known(x, key)
    if made_view is None:  # another thread traces
        return recorded(key[0], x, view(x, data), vjp, again)
    return made_view
