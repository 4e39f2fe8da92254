"""The launch of a row program: several reductions along the same rows, with expressions between and behind them."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

from .. import dtypes
from ..elementwise import plan as launches
from ..elementwise.geometry import WIDEST
from ..elementwise.graph import Node, input_node, order, substitute
from ..elementwise.plan import converter
from ..elementwise.print_cxx import argument_types, compute_type, literal, statements
from ..elementwise.staged import RowProgram
from ..kernel import Kernel
from ..kernel import plan as kernel_plan
from ..kernel.plan import BoundLaunch, on
from ..kernel.sizes import divide_up, power_of_two
from ..kernel.strides import Axes, broadcast_steps, contiguous_steps, needs_64_bits, step_kind
from ..launch.params import layout_params
from .plan import accumulator, along
from .variants import HOST_PIECE

KERNEL = Kernel("reduction/row_program.cu")
#: Elements that the host computes at once, if a row has as many.
_UNROLL = (64, 32, 16, 8, 1)
#: From here on numbers of results that nothing reads, and of values that wait where results are written.
_UNREAD, _KEPT = 1 << 30, 1 << 29
#: The largest stride along a row, in elements, with which the host reads rows again and again.
_NEAR = 8
#: Bytes of a row that a thread holds in registers, if there are threads enough; and the most. A value counts as 4 at
#: least.
_HELD, _MOST_HELD = 128, 256
#: The most threads that share a row.
_LANES = 512
#: Threads of a block in which parts of warps have rows.
_BLOCK = 128
#: Statements for the elements of a thread, all unrolled, above which more threads share a row; and the most.
_STATEMENTS, _MOST_STATEMENTS = 2048, 8192


class RowPlan(launches.Plan):
    """The launch of a row program for arrays of given layouts."""

    __slots__ = ()

    def __init__(self, problem: RowProgram) -> None:
        kernel_plan.Plan.__init__(self, problem.operands[0].device, problem.outs)
        self.program, self.operands = problem.program, problem.operands
        self.converters = tuple(map(converter, self.program.scalars))
        self.make, self.backwards = None, {}


@lru_cache(maxsize=8192)
def row_plan(problem: RowProgram) -> RowPlan | None:
    """The plan of a row program; None where its reductions are faster one by one."""
    found = _made(problem)
    return None if isinstance(found, str) else found


def _axes(problem: RowProgram) -> tuple[Axes, Axes]:
    """The rows' axes and the reduced ones, merged, with the steps of arrays, results and indices."""
    shape, plain = problem.shape, problem.shape[: -problem.axes]
    steps = problem.gathers.steps(problem.operands, shape)
    for out, wide in zip(problem.outs, problem.wide, strict=True):
        rows = (*contiguous_steps(plain), *(0,) * problem.axes)
        steps.append(broadcast_steps(out, shape) if wide else rows)
    steps += [(*broadcast_steps(one, shape[:1]), *(0,) * (len(shape) - 1)) for one in problem.gathers.indices]
    kept = along(range(len(plain)), shape, steps)
    over = along(range(len(plain), len(shape)), shape, steps)
    return kept if kept.shape else Axes((1,), ((0,),) * len(steps)), over


def _made(problem: RowProgram) -> RowPlan | str:
    plan = RowPlan(problem)
    kept, over = _axes(problem)
    if len(over.shape) != 1:
        return "its arrays do not have the reduced axes one behind another"
    (n,), rows, step = over.shape, math.prod(kept.shape), [own[0] for own in over.steps]
    serial = launches._style(plan.device) == "serial"
    variables = _variables(problem, step, serial)
    if max(map(abs, step)) > (_NEAR if serial else 1) or (not serial and min(step) < 0):
        return "the elements of a row are apart"
    if serial:
        each = max(1, HOST_PIECE // n)
        threads = {
            "block": 1,
            "lanes": 1,
            "width": next(w for w in _UNROLL if w <= n or w == 1),
            "count": 0,
            "full": False,
        }
        blocks = divide_up(rows, each)
    else:
        each = 0
        length = sum(len(one["body"]) for one in (*variables["stages"], variables["ends"]))
        found = _threads(problem, kept, step, n, max(1, length))
        if isinstance(found, str):
            return found
        threads, blocks = found, divide_up(rows, found["block"] // found["lanes"])
    count = threads["count"]
    for stage in variables["stages"]:
        size = (8 if "double" in stage["accumulator"] else 4) * count * threads["width"]
        fits = threads["full"] and power_of_two(count) == count and size <= _MOST_HELD
        stage["whole"] = fits and bool(stage["row"].batch)
    whole = Axes((*kept.shape, n), tuple([(*a, *b) for a, b in zip(kept.steps, over.steps, strict=True)]))
    sources = problem.gathers.sources(problem.operands)
    wide = (
        any(map(needs_64_bits, sources))
        or needs_64_bits(whole)
        or needs_64_bits(Axes((rows, max(n, _LANES)), ()))
    )
    index = {"index": "long long" if wide else "int"}
    walked = layout_params(
        kept_shape=kept.shape,
        kept_step=kept.steps,
        step=step,
        source_size=[one.shape[0] for one in sources],
        source_step=[one.steps[0][0] for one in sources],
    )
    block = threads["block"]
    name = f"rows_{problem.program.name}_{dtypes.info(problem.operands[0].dtype).name}_{block}"
    with on(plan.device):
        bound_to = {"name": name, "Layout": walked.source(index), **index, **variables, **threads}
        tail = (walked.packed(index), rows, n, each)
        return plan.prepared(BoundLaunch(KERNEL.bind(plan.device, **bound_to), (blocks, 1, 1), block, tail))


def _threads(
    problem: RowProgram, kept: Axes, step: Sequence[int], n: int, statements: int
) -> dict[str, Any] | str:
    """How the threads of a GPU share a row: the template variables, or why they had better not."""
    arrays = [
        (one, own)
        for one, own, along in zip((*problem.operands, *problem.outs), kept.steps, step, strict=False)
        if along
    ]
    width = WIDEST // max([one.dtype.itemsize for one, _ in arrays], default=4)
    if not all(one.aligned for one, _ in arrays):
        width = 1
    sources = zip(problem.gathers.operands, problem.gathers.sources(problem.operands), strict=True)
    apart = [n, *[one.steps[0][0] for (k, _), one in sources if step[k]]]
    while width > 1 and any(places % width for _, own in arrays for places in (*apart, *own)):
        width //= 2
    packs = n // width
    moving = zip(problem.operands, step, strict=False)
    size = width * (sum(max(4, one.dtype.itemsize) for one, along in moving if along) or 4)
    lanes = power_of_two(divide_up(packs, max(1, min(_HELD // size, _STATEMENTS // (width * statements)))))
    lanes = min(max(lanes, min(32, power_of_two(packs))), _LANES)
    count = divide_up(packs, lanes)
    if count * size > _MOST_HELD or count * width * statements > _MOST_STATEMENTS:
        return "a row does not fit into registers"
    full = lanes * count * width == n
    return {
        "block": lanes if lanes > 32 else _BLOCK,
        "lanes": lanes,
        "width": width,
        "count": count,
        "full": full,
    }


def _variables(problem: RowProgram, step: Sequence[int], serial: bool) -> dict[str, Any]:
    """The template variables of the program, for arrays with these steps along rows.

    Args:
        serial: whether a thread has a whole row, which it may read several times.
    """
    program, k = problem.program, len(problem.operands)
    rowwise = {*[i for i in range(k) if not step[i]], *range(k, len(program.inputs))}
    last = len(problem.stages)
    stages, levels = [], list[list[dict[str, Any]]]()
    level_of: dict[int, int] = {}
    for i, (row, read_as, dtype, parameter) in enumerate(problem.stages):
        number = read_as if read_as >= 0 else _UNREAD + i
        root = program.outputs[i]
        part, (value,) = _part([root], rowwise, i)
        stages.append(
            {
                **part,
                "i": i,
                "row": row,
                "number": number,
                "value": value,
                "value_type": compute_type(root.dtype),
                "accumulator": accumulator(row, root.dtype),
                "result": dtypes.info(dtype).cxx,
                "compute": compute_type(dtype),
                "parameter": literal(parameter, dtypes.float64),
            }
        )
        read = [level_of[one.value] for one in order([root]) if one.kind == "input" and one.value in level_of]
        level_of[number] = 1 + max(read, default=-1)
        if level_of[number] == len(levels):
            levels.append([])
        levels[level_of[number]].append(stages[-1])
    kept = _kept(problem, step) if serial else {}
    for stage in stages:
        stage["kept"] = kept.get(stage["i"])
    for level in levels:
        _share_moments(level, program.outputs, serial)
    again = {
        program.outputs[i]: input_node(one["number"], program.outputs[i].dtype) for i, one in kept.items()
    }
    ends, values = _part(substitute(program.outputs[last:], again), rowwise, last)
    ends["again"] = list(kept.values())
    outputs = [
        {
            "k": j,
            "at": k + j,
            "type": dtypes.info(out.dtype).cxx,
            "wide": wide,
            "step": step_kind(step[k + j]),
            "value": value,
        }
        for j, (out, wide, value) in enumerate(zip(problem.outs, problem.wide, values, strict=True))
    ]
    inputs = [
        {"k": i, "type": dtypes.info(d).cxx, "compute": compute_type(d), "step": step_kind(step[i])}
        for i, d in enumerate(program.inputs[:k])
    ]
    parts = [*stages, ends]
    return {
        "inputs": inputs,
        "indices": [
            {"at": k + len(outputs) + i, "type": dtypes.info(one.dtype).cxx}
            for i, one in enumerate(problem.gathers.indices)
        ],
        "gathers": problem.gathers.operands,
        "clip": True,
        "scalars": argument_types(program),
        "outputs": outputs,
        "stages": stages,
        "levels": levels,
        "ends": ends,
        "arrays": len(step),
        "computed": any(one["body"] or one["before"] for one in parts),
        "half": all(d in dtypes.NARROW for d in program.inputs[:k]),
    }


def _share_moments(level: Sequence[dict[str, Any]], roots: Sequence[Node], serial: bool) -> None:
    """Have the host read rows twice for variances, which is faster than to join those of parts, and means be theirs."""
    moments: dict[Node, int] = {}
    for stage in level:
        calls = any(one.row is not None and one.row.calls for one in order([roots[stage["i"]]]))
        stage["twice"] = serial and stage["row"].state == "Moments<A>" and not calls
        if stage["twice"]:
            moments[roots[stage["i"]]] = stage["i"]
    for stage in level:
        stage["mean_of"] = moments.get(roots[stage["i"]]) if stage["row"].name == "mean" else None


def _kept(problem: RowProgram, step: Sequence[int]) -> dict[int, dict[str, Any]]:
    """By the numbers of stages whose values take long to compute: the results in whose place these values wait."""
    program, last, kept = problem.program, len(problem.stages), dict[int, dict[str, Any]]()
    free = [j for j, wide in enumerate(problem.wide) if wide]
    for i, value in enumerate(program.outputs[:last]):
        for j in free:
            nodes, at = order([program.outputs[last + j]]), len(problem.operands) + j
            alike = value.dtype == problem.outs[j].dtype and value.dtype not in dtypes.NARROW
            if (
                alike
                and step[at]
                and value in nodes
                and any(one.row and one.row.calls for one in order([value]))
            ):
                own = {"k": j, "at": at, "step": step_kind(step[at]), "type": compute_type(value.dtype)}
                kept[i] = {**own, "number": _KEPT + j}
                free.remove(j)
                break
    return kept


def _part(roots: Sequence[Node], rowwise: Collection[int], number: int) -> tuple[dict[str, Any], list[str]]:
    """What computes some roots: what is the same for a row, then statements for each element; and the roots' values.

    Args:
        rowwise: the inputs that are the same for a row.
        number: that of the part, by which names are told apart.
    """
    nodes = order(roots)
    fixed: dict[Node, bool] = {}
    for node in nodes:
        plain = node.kind in ("scalar", "constant", "table") or (
            node.kind == "input" and node.value in rowwise
        )
        fixed[node] = plain or (bool(node.args) and all(fixed[arg] for arg in node.args))
    used = {arg for node in nodes if not fixed[node] for arg in node.args} | set(roots)
    tops = [node for node in nodes if node.args and fixed[node] and node in used]
    named = {node: input_node((number + 1) * 1_000_000 + i, node.dtype) for i, node in enumerate(tops)}
    before, values = statements(tops)
    rest = substitute(roots, named)
    body, results = statements(rest)
    own = [
        {"type": compute_type(node.dtype), "k": named[node].value, "value": value}
        for node, value in zip(tops, values, strict=True)
    ]
    reads = [node.value for node in order(rest) if node.kind == "input" and not fixed.get(node, True)]
    return {"fixed": own, "before": before, "body": body, "reads": reads, "again": []}, results
