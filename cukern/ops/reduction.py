"""Reductions: a row says how values are combined, one template walks the axes."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .. import dtypes
from ..cxx import compute_type, statements
from ..device import Device
from ..device.base import CompiledFunction
from ..dtypes import DType
from ..kernel import Kernel
from ..program import Program
from .launch import (
    Axes,
    allocate,
    broadcast_shapes,
    broadcast_steps,
    collapse,
    needs_64_bits,
    on,
    power_of_two,
    remember,
    step_kind,
)

_KERNEL = Kernel("reduce.cu", block=256)
_PIECE = 65536
#: Neighbouring results that one host thread reduces together, where the reduced elements are far apart.
_TILE = 64
#: Threads that keep a GPU busy.
_THREADS = 1 << 18


@dataclass(frozen=True, eq=False)
class Reduction:
    """How a reduction combines values: C++ over a state.

    ``T`` is the type of the values, ``A`` that of the accumulator, ``State`` the state.

    Attributes:
        name: the public name.
        push: the state ``a`` with the value ``x`` at place ``i`` added.
        combine: the states ``a`` and ``b`` together.
        identity: the state of no value.
        finish: the result, of the state ``a`` of ``n`` values, and the parameter ``p`` where there is one.
        state: the type of the state.
        wide: whether float32 accumulates in float64, and integers modulo 2**64.
        parameter: whether there is a parameter ``p``.
        ordered: whether the places of the values matter.
        empty: whether the reduction of no value has a result.
        batch: the state ``a`` with the values of the array ``v`` added, whose places are ``i``, ``i + step``
            and so on; by default a thread keeps a state for each place of ``v`` instead.
    """

    name: str
    push: str
    combine: str
    identity: str
    finish: str = "a"
    state: str = "A"
    wide: bool = False
    parameter: bool = False
    ordered: bool = False
    empty: bool = True
    batch: str = ""


@dataclass(frozen=True)
class Geometry:
    """How threads share a reduction's work.

    Attributes:
        block: threads of a block.
        lanes: threads that share a row.
        tile: neighbouring rows of a task.
        unroll: values that a thread takes at once.
        rows_piece: tasks of a group of ``lanes`` threads.
        outer_piece: outer reduced places of a piece.
        inner_piece: inner reduced places of a piece.
    """

    block: int
    lanes: int
    tile: int
    unroll: int
    rows_piece: int
    outer_piece: int
    inner_piece: int


def geometry(kind: str, rows: int, columns: int, outer: int, inner: int) -> Geometry:
    """The launch shape for a kind of device.

    Args:
        rows: results.
        columns: how many neighbouring results read neighbouring elements; 1 where reduced places are nearer.
        outer: reduced places but for the inner axis.
        inner: reduced places along the inner axis.
    """
    size = outer * inner
    if kind == "host":
        tile = _TILE if columns >= 8 else 1
        pieces = max(1, min(size // _PIECE, 256)) if rows < 64 * tile else 1
        unroll = 32 if inner >= 64 else 8 if inner >= 8 else 1
        return Geometry(
            1, 1, tile, unroll, max(1, _PIECE // max(1, size * tile)), *_cut(outer, inner, pieces)
        )
    if columns > 1:
        lanes = 1 if rows >= 256 else 256 // power_of_two(rows)
    else:
        lanes = 1 if size <= 4 else 32 if size <= 1024 else 256
    lanes = min(lanes, power_of_two(inner), 256)
    lanes = lanes if lanes <= 32 else 256
    pieces = max(1, min(_THREADS // (rows * lanes), size // (16 * lanes), 4096))
    return Geometry(256, lanes, 1, 4, 1, *_cut(outer, inner, pieces))


def _cut(outer: int, inner: int, pieces: int) -> tuple[int, int]:
    """Sizes of about ``pieces`` pieces: the outer axes are cut first."""
    outer_pieces = min(outer, pieces)
    inner_pieces = max(1, min(inner, -(-pieces // outer_pieces)))
    return -(-outer // outer_pieces), max(1, -(-inner // inner_pieces))


class Plan:
    """The launches of a reduction for arrays of one layout."""

    __slots__ = (
        "final",
        "final_tail",
        "grid",
        "grid_final",
        "main",
        "parts",
        "shape",
        "tail",
        "threads",
        "variables",
    )

    main: CompiledFunction | None
    final: CompiledFunction | None
    grid: tuple[int, int, int]
    grid_final: tuple[int, int, int]
    threads: int
    tail: tuple[Any, ...]
    final_tail: tuple[Any, ...]
    parts: int
    shape: tuple[int, ...]
    variables: list[dict[str, Any]]


def _accumulator(reduction: Reduction, value: DType) -> str:
    """The C++ type that values of a dtype accumulate in."""
    if reduction.wide:
        kind = dtypes.info(value).kind
        if kind in "iu":
            return "unsigned long long"
        if value == dtypes.float32:
            return "double"
    return compute_type(value)


#: Bytes of a state, in multiples of the accumulator's.
_STATE_SIZE = {"A": 8, "T": 8, "int": 8, "Indexed<T>": 16, "Moments<A>": 24, "LogSum<A>": 16}


def _split(axes: Axes) -> tuple[Axes, int, tuple[int, ...]]:
    """All axes but the last, the last one's size, and the operands' steps along it."""
    return (
        Axes(axes.shape[:-1], tuple(steps[:-1] for steps in axes.steps)),
        axes.shape[-1],
        tuple(steps[-1] for steps in axes.steps),
    )


def make_plan(
    reduction: Reduction,
    program: Program,
    device: Device,
    datas: Sequence[Any],
    reduced: frozenset[int],
    result: DType,
) -> Plan:
    """Choose and compile the launches of ``reduction`` over the axes ``reduced`` of ``program``'s value."""
    shape = broadcast_shapes(program.name, [data.shape for data in datas])
    steps = [broadcast_steps(data, shape) for data in datas]
    kept_axes = [i for i in range(len(shape)) if i not in reduced]
    over_axes = sorted(reduced)
    plan = Plan()
    plan.shape = tuple(shape[i] for i in kept_axes)
    plan.main = plan.final = None
    plan.variables = []
    rows = math.prod(plan.shape)
    if rows == 0:
        return plan
    kept = collapse(plan.shape, [tuple(step[i] for i in kept_axes) for step in steps])
    over_shape = tuple(shape[i] for i in over_axes)
    over_steps = [tuple(step[i] for i in over_axes) for step in steps]
    size = math.prod(over_shape)
    if size == 0:
        over = Axes((0,), ((0,),) * len(datas))
    else:
        over = collapse(over_shape, over_steps, None if reduction.ordered else over_steps[0])
    if not over.shape:
        over = Axes((1,), ((0,),) * len(datas))
    _compile(plan, reduction, program, device, kept, over, result)
    return plan


def _compile(
    plan: Plan, reduction: Reduction, program: Program, device: Device, kept: Axes, over: Axes, result: DType
) -> None:
    over, inner, step = _split(over)
    rows, outer = math.prod(kept.shape), math.prod(over.shape)
    column = tuple(steps[-1] for steps in kept.steps) if kept.shape else (0,) * len(step)
    columns = kept.shape[-1] if kept.shape and 0 < abs(column[0]) < abs(step[0]) else 1
    shape = geometry(device.kind, rows, columns, outer, inner)
    tasks = rows
    if shape.tile > 1:
        kept, columns, column = _split(kept)
        tasks = math.prod(kept.shape) * -(-columns // shape.tile)
    work = Axes((rows, max(outer * inner, shape.lanes)), ())
    wide = (
        any(needs_64_bits(axes) for axes in (work, kept, over))
        or max(map(abs, step), default=0) * inner > 2**30
        or max(map(abs, column), default=0) * columns > 2**30
    )
    pieces = -(-outer // shape.outer_piece) * -(-inner // shape.inner_piece) if outer * inner else 1
    bound = _variables(reduction, program, result, shape, kept, over, step, column, wide)
    stage = "whole" if pieces == 1 else "partial"
    plan.variables = [{**bound, "stage": stage}]
    plan.main = _KERNEL.bind(device, **plan.variables[0]).function
    plan.threads = shape.block
    groups = shape.block // shape.lanes
    rows_piece = shape.rows_piece if pieces == 1 else 1
    plan.grid = (-(-tasks // (groups * rows_piece)), pieces, 1)
    layout = [*kept.shape, *(s for steps in kept.steps for s in steps)] if kept.shape else []
    layout += [*over.shape, *(s for steps in over.steps for s in steps)] if over.shape else []
    layout += [*step, *column]
    tail: list[Any] = [struct.pack(f"{len(layout)}{'q' if wide else 'i'}", *layout)]
    tail += [outer, inner, shape.outer_piece, shape.inner_piece]
    if shape.tile > 1:
        tail += [columns, -(-columns // shape.tile)]
    plan.tail = tuple(tail)
    plan.final_tail = (tasks, rows_piece)
    plan.parts = 0 if pieces == 1 else pieces
    if pieces > 1:
        _compile_final(plan, reduction, device, bound, rows, pieces)


def _compile_final(
    plan: Plan, reduction: Reduction, device: Device, bound: dict[str, Any], rows: int, pieces: int
) -> None:
    lanes = 1 if device.kind == "host" or pieces <= 8 else 32
    changed = {"lanes": lanes, "tile": 1, "unroll": 1, "stage": "final", "name": bound["name"] + "_final"}
    plan.variables.append({**bound, **changed})
    plan.final = _KERNEL.bind(device, **plan.variables[-1]).function
    plan.grid_final = (-(-rows * lanes // plan.threads), 1, 1)


def _variables(
    reduction: Reduction,
    program: Program,
    result: DType,
    shape: Geometry,
    kept: Axes,
    over: Axes,
    step: Sequence[int],
    column: Sequence[int],
    wide: bool,
) -> dict[str, Any]:
    """The template variables of a reduction's kernel."""
    body, (value,) = statements(program.outputs)
    dtype = program.outputs[0].dtype
    name = reduction.name if program.name == "load" else f"{reduction.name}_{program.name}"
    return {
        "name": f"{name}_{dtypes.info(program.inputs[0]).name}_{shape.block}",
        "block": shape.block,
        "index": "long long" if wide else "int",
        "lanes": shape.lanes,
        "tile": shape.tile,
        "unroll": shape.unroll,
        "kept": len(kept.shape),
        "over": len(over.shape),
        "inputs": [
            {
                "k": k,
                "type": dtypes.info(d).cxx,
                "compute": compute_type(d),
                "step": step_kind(step[k]),
                "column": step_kind(column[k]),
            }
            for k, d in enumerate(program.inputs)
        ],
        "scalars": [compute_type(d) for d in program.scalars],
        "body": body,
        "value": value,
        "value_type": compute_type(dtype),
        "accumulator": _accumulator(reduction, dtype),
        "result": dtypes.info(result).cxx,
        "reduction": reduction,
    }


_plans: dict[Any, Plan] = {}


def source(
    reduction: Reduction,
    program: Program,
    device: Device,
    datas: Sequence[Any],
    reduced: frozenset[int],
    result: DType,
) -> str:
    """The text of the kernel that :func:`run` launches, or of the two."""
    with on(device):
        plan = make_plan(reduction, program, device, datas, reduced, result)
    return "\n".join(_KERNEL.source(**one) for one in plan.variables)


def run(
    reduction: Reduction,
    program: Program,
    device: Device,
    datas: Sequence[Any],
    scalars: Sequence[Any],
    reduced: frozenset[int],
    result: DType,
    parameter: float = 0.0,
) -> Any:
    """Launch ``reduction`` of ``program``'s one value on ndarrays of ``device``.

    Args:
        reduced: the axes that are reduced.
        result: the dtype of the result.
        parameter: ``p`` of the row.

    Returns:
        The result's ndarray, the reduced axes left out.
    """
    key = (reduction, program, device, reduced, result, *((data.shape, data.strides) for data in datas))
    with on(device):
        plan = _plans.get(key)
        if plan is None:
            plan = remember(_plans, key, make_plan(reduction, program, device, datas, reduced, result))
        made = allocate(device, plan.shape, result)
        if plan.main is None:
            return made
        shape = broadcast_shapes(program.name, [data.shape for data in datas])
        finish: list[Any] = [made, math.prod(shape[i] for i in reduced)]
        if reduction.parameter:
            finish.append(parameter)
        block = (plan.threads, 1, 1)
        if not plan.parts:
            plan.main(plan.grid, block, 0, (*datas, *scalars, *plan.tail, *finish, *plan.final_tail))
            return made
        parts = allocate(device, (made.size * plan.parts * _STATE_SIZE[reduction.state],), dtypes.uint8)
        plan.main(plan.grid, block, 0, (*datas, *scalars, *plan.tail, parts, plan.parts, *plan.final_tail))
        assert plan.final is not None
        plan.final(plan.grid_final, block, 0, (parts, plan.parts, *finish, made.size, 1))
        return made
