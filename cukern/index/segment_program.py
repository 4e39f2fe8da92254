"""The launch of a segment program: rows that are computed as they are read, those of each segment combined."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import dtypes
from ..array import Array
from ..array.layout import Layout, fresh_layout
from ..cache import Cache
from ..elementwise.geometry import WIDEST
from ..elementwise.plan import converter
from ..elementwise.print_cxx import argument_types, compute_type, statements
from ..elementwise.staged import SegmentProgram
from ..kernel.plan import Plan, on, operands, serial
from ..kernel.sizes import divide_up, power_of_two
from ..kernel.strides import Axes, broadcast_steps, collapse, contiguous_steps, needs_64_bits, step_kind
from ..launch.params import layout_params
from .combine import Combination, Combining, Launches, launches

#: Elements that the host computes at once.
_UNROLL = 64
#: Bytes of rows in flight that a thread holds in registers, where a value counts as 4 at least; and the most rows.
_HELD, _FLIGHT = 256, 4
#: Threads of a block; the packs of a row up to which a thread has one, and the most that it has of longer rows.
_BLOCK, _LANES, _ITEMS = 256, 32, 4
#: Statements for all elements of a thread, all unrolled, above which it has fewer rows in flight.
_STATEMENTS = 1024


class SegmentPlan(Plan):
    """The launches of a segment program for arrays of given layouts.

    Attributes:
        launches: what is launched.
        converters: functions that convert each Python number to the dtype in which it is computed.
        ordered: whether there is an order of the rows among the arrays, after the keys and the starts.
    """

    __slots__ = ("converters", "launches", "ordered")

    def __init__(self, problem: SegmentProgram, number: int, made: Launches) -> None:
        result = fresh_layout(made.result.device, made.result.dtype, (number, *problem.shape[1:]))
        super().__init__(result.device, (result,), made.all)
        self.converters = tuple(map(converter, problem.program.scalars))
        self.launches, self.ordered = made, len(problem.order) > len(("keys", "starts"))

    @property
    def source(self) -> str:
        """The kernels' text."""
        return "\n".join(text() for text in self.launches.texts)

    def run(self, arrays: Sequence[Array], scalars: Sequence[Any] = ()) -> Array:
        """Launch and return the result, a new array, for arrays followed by the keys, the starts and the order."""
        device = self.device
        order = arrays[-1] if self.ordered else None
        *given, keys, starts = arrays[:-1] if self.ordered else arrays
        numbers = [convert(value) for convert, value in zip(self.converters, scalars, strict=True)]
        with on(device):
            result = Array._made(self.layouts[0])
            rows = [*operands(device, given), *numbers, *operands(device, (order, starts, result))]
            self.launches.run(device, rows, keys)
        return result


_plans: Cache[Any, SegmentPlan] = Cache()


def segment_plan(problem: SegmentProgram, number: int, how: Combination, mean: bool = False) -> SegmentPlan:
    """The plan of a segment program with so many segments, none empty of rows or elements."""
    key = problem, number, how, mean
    return _plans.get(key) or _plans.keep(key, _made(problem, number, how, mean))


def _made(problem: SegmentProgram, number: int, how: Combination, mean: bool) -> SegmentPlan:
    shape, gathers = problem.shape, problem.gathers
    count, *rest = shape
    inner = math.prod(rest)
    steps = gathers.steps(problem.operands, shape)
    columns = collapse(rest, [step[1:] for step in (*steps, contiguous_steps(shape))])
    columns = columns if columns.shape else Axes((1,), ((0,),) * (len(steps) + 1))
    along = [step[-1] for step in columns.steps[:-1]]
    body, (value,) = statements(problem.program.outputs)
    sources = gathers.sources(problem.operands)
    from_row = [step[0] for step in steps]
    for (k, _), one in zip(gathers.operands, sources, strict=True):
        from_row[k] = one.steps[0][0]
    device, dtype = problem.operands[0].device, problem.program.outputs[0].dtype
    if serial(device):
        width, packed = math.gcd(columns.shape[-1], _UNROLL), False
        s = Combining(1, 1, 1, 1)
    else:
        width, packed = _width(problem.operands, columns, from_row), True
        s = _combining(inner // width, width, len(body), [
            (max(4, one.dtype.itemsize), step) for one, step in zip(problem.operands, along, strict=True)
        ])  # fmt: skip
    read = [(one.shape, broadcast_steps(one, one.shape)) for one in (*problem.operands, *gathers.indices)]
    spans = [Axes(own, (step,)) for own, step in read]
    spans += [Axes((n,), ()) for n in ((number + count) * s.lanes, inner)]
    index = {"index": "long long" if any(map(needs_64_bits, spans)) else "int"}
    walked = layout_params(
        column_shape=columns.shape,
        column_step=columns.steps[:-1],
        row_step=from_row,
        step=along,
        source_size=[one.shape[0] for one in sources],
        index_step=[one.strides[0] // one.dtype.itemsize for one in gathers.indices],
    )
    by = {k: (i, place) for place, (k, i) in enumerate(gathers.operands)}
    source = {
        **index,
        "inputs": [
            {
                "k": k,
                "type": dtypes.info(one.dtype).cxx,
                "compute": compute_type(one.dtype),
                "step": "pack" if packed and step == 1 else step_kind(step),
                "by": by.get(k),
            }
            for k, (one, step) in enumerate(zip(problem.operands, along, strict=True))
        ],
        "indices": [dtypes.info(one.dtype).cxx for one in gathers.indices],
        "scalars": argument_types(problem.program),
        "body": body,
        "value": value,
        "clip": True,
        "Layout": walked.source(index),
    }
    keys, starts = (one.dtype for one in problem.order[:2])
    with on(device):
        sizes = (1, number, count, inner)
        made = launches(
            device,
            dtype,
            sizes,
            s,
            width,
            starts,
            keys,
            how,
            mean,
            source=source,
            layout=(walked.packed(index),),
        )
    return SegmentPlan(problem, number, made)


def _width(arrays: Sequence[Layout], columns: Axes, from_row: Sequence[int]) -> int:
    """The elements of a row that a thread of a GPU reads at once."""
    moving = [k for k, step in enumerate(columns.steps[:-1]) if step[-1] == 1]
    width = WIDEST // max([arrays[k].dtype.itemsize for k in moving], default=4)
    if not all(arrays[k].aligned for k in moving):
        return 1
    apart = [columns.shape[-1]]
    for k in moving:
        apart += [from_row[k], *columns.steps[k][:-1]]
    return math.gcd(width, *apart)


def _combining(packs: int, width: int, length: int, arrays: Sequence[tuple[int, int]]) -> Combining:
    """How threads of a GPU share rows of so many packs.

    Args:
        length: the statements for an element.
        arrays: the sizes of values, and steps along rows.
    """
    size = sum(size * (width if step == 1 else 1) for size, step in arrays)
    items = max(1, min(_ITEMS, divide_up(packs, _LANES), _HELD // (2 * size)))
    flight = min(_FLIGHT, _HELD // (items * size), _STATEMENTS // (max(1, length) * width * items))
    return Combining(_BLOCK, min(_BLOCK, power_of_two(divide_up(packs, items))), items, max(1, flight))
