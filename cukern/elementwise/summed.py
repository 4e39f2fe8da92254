"""Programs whose kernel also sums some of the values: gradients of what was broadcast, as a bias or a gate.

Either over all axes but the last, or along the last axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import dtypes
from ..array import Array
from ..array.layout import Layout, fresh_layout
from ..array.operators import FUNCTIONS
from ..cache import Cache
from ..kernel.strides import needs_64_bits
from . import geometry
from . import plan as launch
from .geometry import Operand, Task
from .graph import input_node
from .print_cxx import statements
from .program import Derivative, Program, program


class Summing(launch.Plan):
    """The plan of a program that also sums outputs: new arrays of some outputs, and the sums behind them."""

    __slots__ = ()


class Total(NamedTuple):
    """A cotangent that is a sum: its number among a derivative's results, the output that is summed, its layout."""

    result: int
    output: int
    form: Layout


class Totals(NamedTuple):
    """The cotangents of a derivative that are sums, and the outputs that are stored for the others.

    Attributes:
        along: whether it is sums along the last axis; else they are over all others.
    """

    sums: tuple[Total, ...]
    stored: tuple[int, ...]
    along: bool = False


def totals_of(backward: Derivative, forms: Sequence[Layout], shape: tuple[int, ...]) -> Totals | None:
    """The cotangents of real rows that were broadcast to ``shape``, or of columns where there is no such row.

    None if there are no others or no such ones.

    Args:
        forms: the layouts of the forward program's inputs.
    """
    made = [
        Total(i, result[1], form)
        for i, (result, form) in enumerate(zip(backward.results, forms, strict=True))
        if result is not None and result[0] == "output"
    ]
    apart = [one for one in made if one.form.shape != shape and one.form.dtype in dtypes.FLOATS]
    rows = [one for one in apart if one.form.shape[-1:] == shape[-1:] and one.form.size == shape[-1]]
    sums = tuple(rows or [one for one in apart if one.form.shape == (*shape[:-1], 1)])
    stored = {one.output for one in made if one not in sums}
    return Totals(sums, tuple(sorted(stored)), not rows) if sums and stored else None


_plans: Cache[tuple[Any, ...], Summing | None] = Cache()
_UNKNOWN: Any = object()


def evaluate(
    backward: Derivative, totals: Totals, arrays: Sequence[Array], scalars: Sequence[Any]
) -> tuple[dict[int, Array], dict[int, Array]] | None:
    """The outputs of a derivative's program by number, and the sums by the number of their result.

    Nothing is recorded. None where one launch for both is not faster.
    """
    layouts = [one._layout or one._planned() for one in arrays]
    key = (backward, totals, *layouts)
    plan: Summing | None = _plans.get(key, _UNKNOWN)
    if plan is _UNKNOWN:
        made = None if backward.program is None else make_plan(backward.program, totals, *layouts)
        plan = _plans.keep(key, made)
    if plan is None:
        return None
    outs = plan.run(arrays, scalars)
    parts = zip(totals.sums, outs[len(totals.stored) :], strict=True)
    sums = {total.result: part if totals.along else _whole(part, total.form) for total, part in parts}
    return dict(zip(totals.stored, outs, strict=False)), sums


def _whole(part: Array, form: Layout) -> Array:
    """The sum of the blocks' sums."""
    if part.shape == form.shape:
        return part
    load = program("load", (input_node(0, part.dtype),), (part.dtype,))
    result: Array = FUNCTIONS["sum"].evaluate(load, (part,), (), (0,), False, form.dtype)
    return result


def beside(pulled: Program, operands: Sequence[Layout], form: Layout) -> Summing | None:
    """The launch that stores a program's only output and sums its rows, to a row or to one per block.

    None where that is not faster than another launch.
    """
    key = (pulled, form, *operands)
    plan: Summing | None = _plans.get(key, _UNKNOWN)
    if plan is _UNKNOWN:
        plan = _plans.keep(key, make_plan(pulled, Totals((Total(0, 0, form),), (0,)), *operands))
    return plan


def make_plan(pulled: Program, totals: Totals, *operands: Layout) -> Summing | None:
    """The launch that stores some outputs and sums others, those of columns in one row per block.

    None if there is none.
    """
    device = operands[0].device
    if launch._style(device) == "serial":
        return None
    plan = Summing(pulled, device, operands)
    shape = plan.layouts[0].shape
    if 0 in shape:
        return None
    outs = [plan.layouts[k] for k in totals.stored]
    along = [fresh_layout(device, one.form.dtype, one.form.shape) for one in totals.sums if totals.along]
    axes = launch.row_axes((*operands, *outs, *along), shape)
    placed = tuple(
        Operand(one.dtype.itemsize, steps, one.aligned)
        for one, steps in zip((*operands, *outs, *along), axes.steps, strict=True)
    )
    accumulators = [dtypes.info(pulled.outputs[one.output].dtype).acc for one in totals.sums]
    length, size = len(statements(pulled.outputs)[0]), sum(acc.itemsize for acc in accumulators)
    task = Task(axes.shape, placed, len(operands), length, needs_64_bits(axes))
    work = geometry.summed_along(task, len(along)) if totals.along else geometry.summed(task, size)
    if work is None:
        return None
    blocks = work.grid[1]
    parts = along or [
        fresh_layout(device, acc, (blocks, *one.form.shape))
        if blocks > 1
        else fresh_layout(device, one.form.dtype, one.form.shape)
        for one, acc in zip(totals.sums, accumulators, strict=True)
    ]
    plan.layouts = (*outs, *parts)
    sums = [(one.output, part.dtype) for one, part in zip(totals.sums, parts, strict=True)]
    bound = launch.variables(pulled, work, [None] * len(operands), totals.stored, sums, totals.along)
    return plan.prepared(launch._ready(device, work, bound))
