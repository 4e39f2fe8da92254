"""Programs whose kernel also sums some of the values over all axes but the last, as gradients of biases are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import dtypes
from ..array import Array
from ..array.layout import Layout, fresh_layout
from ..array.operators import FUNCTIONS
from ..device import Device
from ..kernel.plan import one_device, remember
from ..kernel.strides import Axes, broadcast_steps, collapse, needs_64_bits
from . import plan as launch
from .geometry import Operand, Task, summed
from .graph import input_node
from .print_cxx import statements
from .program import Backward, Program, program

#: A result of a derivative that is a sum: its number, the output that is summed, and the layout of the sum.
Total = tuple[int, int, Layout]


def totals_of(backward: Backward, forms: Sequence[Layout], shape: tuple[int, ...]) -> tuple[Total, ...]:
    """The cotangents of rows that were broadcast to ``shape``, if the kernel also stores another one.

    Args:
        forms: the layouts of the forward program's inputs.
    """
    results = list(enumerate(backward.results))
    found = [
        (i, result[1], forms[i])
        for i, result in results
        if result is not None
        and result[0] == "output"
        and forms[i].shape != shape
        and forms[i].shape[-1:] == shape[-1:]
        and forms[i].size == shape[-1]
        and forms[i].dtype in dtypes.FLOATS
    ]
    return tuple(found) if _stored(backward, found) else ()


def _stored(backward: Backward, totals: Sequence[Total]) -> tuple[int, ...]:
    """The outputs that are no sums alone."""
    sums = {i for i, _, _ in totals}
    results = [one for i, one in enumerate(backward.results) if i not in sums and one is not None]
    return tuple(sorted({at for kind, at in results if kind == "output"}))


_plans: dict[tuple[Any, ...], launch.Plan | None] = {}
_UNKNOWN: Any = object()


def evaluate(
    backward: Backward, totals: tuple[Total, ...], arrays: Sequence[Array], scalars: Sequence[Any]
) -> tuple[dict[int, Array], dict[int, Array]] | None:
    """The outputs of a derivative's program by number, and the sums by the number of their result.

    Nothing is recorded. None where one launch for both is not faster.
    """
    made = backward.program
    assert made is not None
    layouts = [one._layout or one._planned() for one in arrays]
    key = (backward, totals, *layouts)
    plan: launch.Plan | None = _plans.get(key, _UNKNOWN)
    stored = _stored(backward, totals)
    if plan is _UNKNOWN:
        device = one_device(made.name, arrays)
        plan = remember(_plans, key, make_plan(made, device, layouts, stored, totals))
    if plan is None:
        return None
    outs = plan.run(arrays, scalars)
    sums = {i: _whole(part, form) for (i, _, form), part in zip(totals, outs[len(stored) :], strict=True)}
    return dict(zip(stored, outs, strict=False)), sums


def _whole(part: Array, form: Layout) -> Array:
    """The sum of the blocks' sums."""
    if part.shape == form.shape:
        return part
    load = program("load", (input_node(0, part.dtype),), (part.dtype,))
    made: Array = FUNCTIONS["sum"].evaluate(load, (part,), (), (0,), False, form.dtype)
    return made


def make_plan(
    made: Program, device: Device, operands: Sequence[Layout], stored: Sequence[int], totals: Sequence[Total]
) -> launch.Plan | None:
    """The launch that stores some outputs and sums others, one row of sums per block; None if there is none."""
    plan = launch.Plan(made, device, operands)
    shape = plan.layouts[0].shape
    if launch._style(device) == "serial" or 0 in shape:
        return None
    outs = [plan.layouts[k] for k in stored]
    axes = _row_axes((*operands, *outs), shape)
    placed = tuple(
        Operand(one.dtype.itemsize, steps, one.aligned)
        for one, steps in zip((*operands, *outs), axes.steps, strict=True)
    )
    length = len(statements(made.outputs)[0])
    size = sum(dtypes.info(made.outputs[k].dtype).acc.itemsize for _, k, _ in totals)
    work = summed(Task(axes.shape, placed, len(operands), length, needs_64_bits(axes)), size)
    if work is None:
        return None
    count = work.grid[1]
    parts = []
    for _, k, form in totals:
        acc = dtypes.info(made.outputs[k].dtype).acc
        parts.append(form if count == 1 else fresh_layout(device, acc, (count, *form.shape)))
    plan.layouts = (*outs, *(fresh_layout(device, one.dtype, one.shape) for one in parts))
    sums = [(k, one.dtype) for (_, k, _), one in zip(totals, parts, strict=True)]
    bound = launch.variables(made, work, [False] * len(operands), stored, sums)
    plan.launch = launch._prepare(device, work, bound)
    return plan


def _row_axes(operands: Sequence[Layout], shape: tuple[int, ...]) -> Axes:
    """The axes of ``shape``, all but the last merged where they can be, and the strides along them."""
    steps = [broadcast_steps(one, shape) for one in operands]
    outer = collapse(shape[:-1], [one[:-1] for one in steps], steps[-1][:-1])
    along = [(*merged, one[-1]) for merged, one in zip(outer.steps, steps, strict=True)]
    return Axes((*outer.shape, shape[-1]), tuple(along))
