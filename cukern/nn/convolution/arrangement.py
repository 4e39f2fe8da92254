"""How arrays are arranged for a convolution's kernels, and the plans that copy, launch and add up partial sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.layout import Layout, fresh_layout, layout
from ...device import Device
from ...kernel.plan import on
from ...kernel.sizes import ACCESS, divide_up
from ...launch.params import Given, Params
from ...reduction.plan import load
from ...shape.copy import contiguous, permuted
from ...shape.known_views import relaid
from .problem import Gemm, View, channels_last_layout, view_of


class Arranged(NamedTuple):
    """An array as kernels read it.

    Attributes:
        layout: with the axes of a convolution's array, whatever the memory order.
        order: the axes as they are copied, the innermost last; None if nothing is copied.
        padded: elements of the innermost axis of the copy.
    """

    layout: Layout
    order: tuple[int, ...] | None = None
    padded: int = 0

    @property
    def swapped(self) -> bool:
        """Whether the first two axes have changed places."""
        return self.order is not None and self.order[0] == 1

    def __call__(self, x: Array) -> Array:
        """The array or the copy."""
        if self.order is None:
            return x
        more = self.padded - x.shape[self.order[-1]]
        if not more:
            moved = permuted(x._layout or x._planned(), self.order)
            return relaid(x, moved, self.order) if moved.contiguous else contiguous(x, self.order)
        x = ops.pad(ops.permute_dims(x, self.order), [(0, 0)] * (x.ndim - 1) + [(0, more)]).contiguous()
        x._planned()
        return x


def padded(channels: int, elem: dtypes.DType) -> int:
    """The number of channels in multiples of 16 bytes."""
    chunk = ACCESS // elem.itemsize
    return divide_up(channels, chunk) * chunk


def is_packed(given: Layout) -> bool:
    """Whether channels lie innermost in memory, and packs of them at multiples of 16 bytes."""
    view, chunk = view_of(given), ACCESS // given.dtype.itemsize
    others = (view.strides[0], *view.strides[2:])
    even = view.channels % chunk == 0 and all(n >= 0 and n % chunk == 0 for n in others)
    return given.aligned and view.strides[1] == 1 and even


def widest_pack(most: int, axis: int, *layouts: Layout) -> int:
    """The elements of the widest aligned pack along an axis in all arrays: ``most``, or a half of a half ... of it."""
    while most > 1 and not all(_has_packs(one, most, axis) for one in layouts):
        most //= 2
    return most


def _has_packs(given: Layout, chunk: int, axis: int) -> bool:
    item = given.dtype.itemsize
    strides = [step // item for n, step in zip(given.shape, given.strides, strict=True) if n > 1]
    even = given.shape[axis] % chunk == 0 and all(step == 1 or step % chunk == 0 for step in strides)
    return given.aligned and given.strides[axis] == item and even


def packed_channels(*layouts: Layout) -> int:
    """The channels of 16 bytes if packs of them lie innermost in all arrays, else 1."""
    packed = all(view_of(one).channels_last and is_packed(one) for one in layouts)
    return ACCESS // layouts[0].dtype.itemsize if packed else 1


#: Strides and sizes of an image or output, and strides of weights: fields of other parameters.
PLANE = Params(
    "Plane",
    **dict.fromkeys(("batch", "channel", "row", "column"), "index"),
    **dict.fromkeys(("rows", "columns"), "int"),
)
TAPS = Params("Taps", group="index", row="index", column="index")


def plane_of(view: View) -> Given:
    """The strides and sizes of an image or output of two axes."""
    batch, channel, _, row, column = view.strides
    _, rows, columns = view.size
    return PLANE(batch=batch, channel=channel, row=row, column=column, rows=rows, columns=columns)


def taps_of(gemm: Gemm) -> Given:
    """The strides of the weights."""
    return TAPS(group=gemm.weight_group, row=gemm.weights[3], column=gemm.weights[4])


def channels_last(given: Layout, transposed: bool = False) -> Arranged:
    """An array with its second axis innermost in memory, in multiples of 16 bytes.

    Args:
        given: how it lies.
        transposed: whether the first two axes change places.
    """
    if is_packed(given) and not transposed:
        return Arranged(given)
    first, second, *size = given.shape
    if transposed:
        first, second = second, first
    many = padded(second, given.dtype)
    own = channels_last_layout(given.device, given.dtype, (first, many, *size))
    return Arranged(own, (int(transposed), *range(2, given.ndim), int(not transposed)), many)


def channels_first(given: Layout) -> Arranged:
    """An array with its pixels innermost in memory."""
    if not view_of(given).channels_last:
        return Arranged(given)
    own = fresh_layout(given.device, given.dtype, given.shape)
    return Arranged(own, tuple(range(given.ndim)), given.shape[-1])


def filters_last(given: Layout, transposed: bool) -> Arranged:
    """Weights with the axis of a result's channels innermost in memory, in multiples of 16 bytes."""
    order = (*range(2, given.ndim), *((0, 1) if transposed else (1, 0)))
    sizes = [given.shape[i] for i in order]
    sizes[-1] = padded(sizes[-1], given.dtype)
    by = fresh_layout(given.device, given.dtype, tuple(sizes)).strides
    strides = tuple(by[order.index(i)] for i in range(given.ndim))
    return Arranged(layout(given.device, given.dtype, given.shape, strides, True), order, sizes[-1])


def added(partials: Array, dtype: dtypes.DType) -> Array:
    """The sum along the first axis, rounded to ``dtype`` once."""
    return ops.sum.evaluate(load(partials.dtype, partials.dtype), (partials,), (), (0,), False, dtype)


class Pipeline:
    """Launches that write one new array, with the copies before and after them.

    Args:
        device: where they run.
        out: the layout that the launches write: in C order, or with channels last.
        arranged: for each of the first arrays how the launches read it.
        runs: the launches.
        splits: how many partial sums they write behind one another, which are then added up in order.
        wanted: the layout of the result: of fewer channels or filters than ``out``, or in another memory order.
    """

    def __init__(
        self,
        device: Device,
        out: Layout,
        arranged: Sequence[Arranged],
        runs: Sequence[Callable[[Sequence[Any]], None]],
        splits: int = 1,
        wanted: Layout | None = None,
    ) -> None:
        self._device, self._runs, self._splits = device, tuple(runs), splits
        self._arranged = [(i, one) for i, one in enumerate(arranged) if one.order is not None]
        self._dtype, self._sizes = out.dtype, None if wanted is None else wanted.shape[:2]
        if self._sizes == out.shape[:2]:
            self._sizes = None
        same = out.contiguous and self._sizes is None
        self._copies = wanted is not None and wanted.contiguous and not same
        self._axes = None if out.contiguous else (0, out.ndim - 1, *range(1, out.ndim - 1))
        memory = out.shape if self._axes is None else (out.shape[0], *out.shape[2:], out.shape[1])
        self._fresh = fresh_layout(device, out.dtype, memory)
        self._out = out
        if splits > 1:
            self._fresh = fresh_layout(device, dtypes.info(out.dtype).acc, (splits, *memory))
        elif not out.on_host and out.order is not None:
            self._fresh, self._axes = out, None

    def __call__(self, *arrays: Array) -> Array:
        """Launch with the arrays' memory and return the result."""
        with on(self._device):
            given = list(arrays)
            for i, arrange in self._arranged:
                given[i] = arrange(given[i])
            result = Array._made(self._fresh)
            given.append(result)
            for run in self._runs:
                run(given)
            if self._splits > 1:
                result = added(result, self._dtype)
            if self._axes is not None:
                result = relaid(result, self._out, self._axes)
            if self._sizes is not None:
                result = result[: self._sizes[0], : self._sizes[1]]
            return result.contiguous() if self._copies else result
