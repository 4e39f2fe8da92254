"""Kernels that shift elements, or pad them beyond the ends of axes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.deferred import trace, traced_threads
from ..array.layout import Layout, fresh_layout
from ..dtypes import DType
from ..elementwise.geometry import geometry
from ..kernel import Kernel
from ..kernel.plan import Plan, new, on
from ..kernel.sizes import LARGEST_INDEX
from ..kernel.strides import Axes, needs_64_bits
from ..launch.params import layout_params
from .copy import permuted

_REMAP = Kernel("shape/remap.cu", block=256)


class _Axis(NamedTuple):
    """An axis of the kernel: its size in the result and in the array, the padding before, the array's stride."""

    shape: int
    size: int
    before: int
    step: int

    @property
    def same(self) -> bool:
        return self.shape == self.size and not self.before


def _collapsed(own: Layout, shape: Sequence[int], before: Sequence[int], beyond: str) -> list[_Axis]:
    """As few axes as possible: an axis without padding is merged with the next outer one if they are contiguous."""
    axes: list[_Axis] = []
    for m, n, stride, start in zip(shape, own.shape, own.strides, before, strict=True):
        axis = _Axis(m, n, start, stride // own.dtype.itemsize)
        if axis.same and n == 1:
            continue
        if axes and axis.same and (axes[-1].same or beyond in ("wrap", "constant")):
            outer = axes[-1]
            if outer.step == axis.step * n:
                axes[-1] = _Axis(outer.shape * n, outer.size * n, outer.before * n, axis.step)
                continue
        axes.append(axis)
    return axes or [_Axis(1, 1, 0, 1)]


@lru_cache(maxsize=8192)
def _plan(
    own: Layout,
    sizes: tuple[int, ...],
    before: tuple[int, ...],
    beyond: str,
    order: tuple[int, ...] | None,
) -> Plan:
    """The launch for an array of a layout; none of no elements."""
    device, result = own.device, fresh_layout(own.device, own.dtype, sizes, order)
    if not result.size:
        return Plan(device, (result,))
    lying = tuple(range(len(sizes))) if order is None else order
    shape, starts = ([one[axis] for axis in lying] for one in (sizes, before))
    axes = _collapsed(permuted(own, lying), shape, starts, beyond)
    shape = [axis.shape for axis in axes]
    rows, columns, outer = math.prod(shape[:-1]), shape[-1], len(axes) - 1
    # With outer axes, columns lie along blockIdx.y, so one row needs the geometry of several.
    spread = geometry(device.style, max(rows, 2) if outer else 1, columns)
    spans = Axes(tuple(axis.size for axis in axes), (tuple(axis.step for axis in axes),))
    wide = needs_64_bits(spans) or max(rows * spread.lanes, 2 * rows * columns) > LARGEST_INDEX
    bits = dtypes.info(own.dtype).bits
    index = {"index": "long long" if wide else "int"}
    walked = layout_params(**dict(zip(_Axis._fields, zip(*axes, strict=True), strict=True)))
    bound = _REMAP.bind(
        device,
        **index,
        Layout=walked.source(index),
        elem=bits,
        block=spread.block,
        lanes=spread.lanes,
        beyond=beyond,
        outer=outer,
        unit=axes[-1].step == 1,
        name=f"remap_{beyond}_{bits.name}_{spread.block}",
    )
    groups, pieces = spread.block // spread.lanes, -(-columns // spread.piece)
    grid = (-(-rows // (groups * spread.rows_piece)), pieces, 1) if outer else (-(-pieces // groups), 1, 1)
    tail = (walked.packed(index), rows, spread.rows_piece, spread.piece)
    return Plan(device, (result,), bound.function.prepare(grid, (spread.block, 1, 1), 0, tail))


def remap(
    x: Array,
    shape: Sequence[int],
    before: Sequence[int],
    beyond: str,
    ends: tuple[Any, Any] = (0, 0),
    order: tuple[int, ...] | None = None,
) -> Array:
    """A new array of ``shape`` with the elements of ``x`` at the offset ``before``, in one launch.

    Tapes do not record it.

    Args:
        x: an array of any strides.
        shape: the sizes of the result's axes.
        before: for each axis, the number of elements before the first of ``x``; at least 0.
        beyond: the padding outside ``x``: ``"constant"``, ``"edge"``, ``"wrap"``, ``"reflect"`` or
            ``"symmetric"``; an axis of size 0 allows only constants.
        ends: the constants before and after ``x``; they must be equal if several axes are padded.
        order: the result's axes in memory, the innermost last; C order when None.
    """
    if traced_threads and (active := trace()) is not None:
        waiting: Array | None = _by_parts(active, x, tuple(shape), before, beyond, ends, order)
        called: Array = (
            active.call(remap, (x, shape, before, beyond, ends, order), {}) if waiting is None else waiting
        )
        return called
    own = x._layout or x._planned()
    with on(x.device):
        plan = _plan(own, tuple(shape), tuple(before), beyond, order)
        (result,) = new(plan.layouts)
        if plan.launch is not None:
            values = ends if beyond == "constant" else (0, 0)
            plan.launch(x._operand, result._operand, *[_as_bits(one, own.dtype) for one in values])
    return result


#: The most axes of which a trace reads several parts.
_MOST_AXES = 2


def _by_parts(
    active: Any,
    x: Array,
    shape: tuple[int, ...],
    before: Sequence[int],
    beyond: str,
    ends: tuple[Any, Any],
    order: tuple[int, ...] | None,
) -> Array | None:
    """The result of :func:`remap` that waits in a trace; None where the kernel is to compute it."""
    if beyond == "wrap" and shape == x.shape and order is None:
        rolled: Array | None = active.rolled(x, before)
        if rolled is not None:
            return rolled
    sides = [_sides(*sizes, beyond) for sizes in zip(shape, x.shape, before, strict=True)]
    several = sum(len(side or ()) > 1 for side in sides)
    if not active.in_parts(x) or None in sides or several > _MOST_AXES:
        return None
    whole = fresh_layout(x.device, x.dtype, shape, order)
    numbers = [np.asarray(end, x.dtype).item() for end in ends] if beyond == "constant" else []
    parts: list[tuple[Any, Any, Any]] = []
    for each in itertools.product(*[side or () for side in sides]):
        box = tuple([part for part, _ in each])
        key = tuple([own for _, own in each])
        side = next((int(part.start > 0) for part, own in each if own is None), None)
        parts.append((box, x, key) if side is None else (box, numbers[side], ()))
    again = remap, x, (shape, before, beyond, ends, order)
    return active.joined(whole, parts, again)


def _sides(m: int, n: int, before: int, beyond: str) -> list[tuple[slice, slice | None]] | None:
    """The slices of an axis of size ``m``, each with that of an axis of size ``n``, None for a number.

    None for all if one has more elements than that axis.
    """
    after = m - n - before
    if max(before, after) > n - (beyond == "reflect") and beyond not in ("constant", "edge"):
        return None
    first: slice | None = None
    last: slice | None = None
    if beyond == "wrap":
        first, last = slice(n - before, n), slice(0, after)
    elif beyond == "edge":
        first, last = slice(0, 1), slice(n - 1, n)
    elif beyond != "constant":
        skipped = int(beyond == "reflect")
        stop = n - 1 - skipped - after
        first = slice(before - 1 + skipped, skipped - 1 if skipped else None, -1)
        last = slice(n - 1 - skipped, stop if stop >= 0 else None, -1)
    middle = slice(before, min(m, before + n))
    sides = [
        (slice(0, before), first),
        (middle, slice(0, middle.stop - before)),
        (slice(middle.stop, m), last),
    ]
    return [one for one in sides if one[0].start < one[0].stop]


def _as_bits(value: Any, dtype: DType) -> int | bytes:
    """The bits of a number of a dtype, as an integer, or as bytes where no integer has as many.

    Raises:
        OverflowError: an integer is out of the range of the dtype.
    """
    if type(value) is int and not value and dtype.itemsize <= 8:
        return 0
    with np.errstate(over="ignore"):
        bits = np.asarray(value, dtype).view(dtypes.info(dtype).bits)
        return bits.tobytes() if bits.itemsize > 8 else int(bits)
