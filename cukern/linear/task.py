"""Products of layouts as kernels see them: sizes, and the strides of factors and operands."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from .. import dtypes
from ..array.layout import Layout
from ..elementwise.print_cxx import compute_type, statements
from ..elementwise.program import Program
from ..kernel.sizes import ACCESS, LARGEST_INDEX, divide_up
from ..kernel.strides import broadcast_shapes, broadcast_steps, collapse, step_kind
from ..reduction.plan import Reduction, accumulator

#: Matrices of a batch at most: blocks along y.
_MOST_MATRICES = 65535
#: Rows or columns beyond a product's last, to which a tile may reach.
_BEYOND = 256
#: A division, or the call of a function that takes more than an instruction.
_LONG = re.compile(r"/|\b(?!(?:float|double|maximum|minimum|fabs|floor)\()[a-zA-Z_]\w*\(")


class Factor(NamedTuple):
    """How a factor lies in memory: the steps through the batch and between its contiguous rows, in elements.

    Attributes:
        by_depth: whether it is contiguous along the axis that is summed over.
        unit: the step within a row; 1 where it is contiguous.
    """

    batch: int
    row: int
    by_depth: bool
    unit: int = 1


class Rows(NamedTuple):
    """A reduction of each row of the result to a number.

    Attributes:
        reduction: how values are combined.
        keepdims: whether the axis of the columns stays, with size 1.
        result: the dtype of the numbers.
    """

    reduction: Reduction
    keepdims: bool
    result: dtypes.DType


class Task(NamedTuple):
    """A product in batches: sizes, factors, and the steps of each operand through batch, rows and columns.

    Attributes:
        itemsize: bytes of an element of the factors.
        saves: whether the product itself is stored too, beside what is made of it.
        rows: what each row of the result is reduced to, which is stored in its place.
        paired: which operands are contiguous along the columns, in pairs that begin at multiples of their size.
        alone: whether the result is the rounded product, and nothing follows it.
        mapped: the number of the first operand, from 1 on, that is a matrix of the factors' dtype in rows that begin at
            multiples of 16 bytes, as tensor maps describe it; 0 if there is none.
    """

    batches: int
    m: int
    n: int
    k: int
    a: Factor
    b: Factor
    operands: tuple[tuple[int, ...], ...]
    itemsize: int = 2
    saves: bool = False
    rows: Rows | None = None
    paired: tuple[bool, ...] = ()
    alone: bool = False
    mapped: int = 0

    @property
    def turned(self) -> Task:
        """The product of which this one is the transpose."""
        operands = tuple((batch, column, row) for batch, row, column in self.operands)
        return Task(self.batches, self.n, self.m, self.k, self.b, self.a, operands, self.itemsize)


def kind_of(made: Program, task: Task) -> str:
    """What follows a product, as the table of times has it: "function", "matrix" or "bias".

    Args:
        made: a program of the product, its first input, and of the operands.
        task: the product.
    """
    if any(_LONG.search(line.code) for line in statements(made.outputs)[0]):
        return "function"
    return "matrix" if any(row and column for _, row, column in task.operands) else "bias"


def task_of(a: Layout, b: Layout, operands: Sequence[Layout], strided: bool = False) -> Task | None:
    """The product of two layouts whose shapes fit, and of operands that broadcast to it; None if the kernel cannot.

    It needs a batch whose matrices are at equal distances and, unless ``strided``, factors that are contiguous along
    one axis, in rows that begin at multiples of 16 bytes.
    """
    (m, k), n = a.shape[-2:], b.shape[-1]
    batch = broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]])
    steps = [
        broadcast_steps(one, (*batch, *own))
        for one, own in ((a, (m, k)), (b, (k, n)), *((x, (m, n)) for x in operands))
    ]
    made = math.prod(batch) * m * n
    if not made * k or max(m, n, k, made // m, made // n) > LARGEST_INDEX:
        return None
    if not (strided or (a.aligned and b.aligned)):
        return None
    rows = [(*one[:-1],) for one in (steps[0], *steps[2:])]
    if not any(steps[1][:-2]) and (strided or steps[0][-1] in (0, 1)):
        one_matrix = collapse((*batch, m), rows)  # all rows as those of one matrix
        if len(one_matrix.shape) <= 1:
            m, batch = math.prod((*batch, m)), ()
            own = [(one or (0,))[0] for one in one_matrix.steps]
            steps = [
                (own[0], steps[0][-1]),
                steps[1][-2:],
                *((s, x[-1]) for s, x in zip(own[1:], steps[2:], strict=True)),
            ]
    axes = collapse(batch, [one[:-2] for one in steps])
    if len(axes.shape) > 1 or math.prod(axes.shape) > _MOST_MATRICES:
        return None
    through = [(one or (0,))[0] for one in axes.steps]
    chunk = ACCESS // a.dtype.itemsize
    factor = _any_factor if strided else partial(_factor, chunk=chunk)
    first = factor(through[0], steps[0][-1], steps[0][-2], k, m)
    second = factor(through[1], steps[1][-2], steps[1][-1], k, n)
    if first is None or second is None:
        return None
    others = tuple((by, *one[-2:]) for by, one in zip(through[2:], steps[2:], strict=True))
    paired = tuple(
        x.aligned and x.dtype.itemsize in (2, 4) and column == 1 and batch % 2 == row % 2 == 0
        for x, (batch, row, column) in zip(operands, others, strict=True)
    )
    mapped = (
        x.dtype == a.dtype
        and x.aligned
        and column == 1
        and row > 0
        and batch >= 0
        and not (row | batch) % chunk
        for x, (batch, row, column) in zip(operands, others, strict=True)
    )
    number = next((i for i, fits in enumerate(mapped, 1) if fits), 0)
    return Task(
        *(math.prod(axes.shape), m, n, k, first, second, others, a.dtype.itemsize),
        paired=paired,
        mapped=number,
    )


def _factor(batch: int, along_depth: int, along_own: int, k: int, size: int, chunk: int) -> Factor | None:
    for unit, row, by_depth, length in (
        (along_depth, along_own, True, k),
        (along_own, along_depth, False, size),
    ):
        if (unit == 1 or length == 1) and row % chunk == 0 and batch % chunk == 0 and row >= 0:
            return Factor(batch, row, by_depth)
    return None


def _any_factor(batch: int, along_depth: int, along_own: int, k: int, size: int) -> Factor:
    by_depth = abs(along_depth) <= abs(along_own)
    unit, row = (along_depth, along_own) if by_depth else (along_own, along_depth)
    return Factor(batch, row, by_depth, unit)


def is_wide(task: Task) -> bool:
    """Whether an offset may exceed 32 bits, those of rows beyond the last tile included."""
    across = max(task.m, task.n, task.k) + _BEYOND
    spans = [
        task.batches * abs(one.batch) + across * (abs(one.row) + abs(one.unit)) for one in (task.a, task.b)
    ]
    spans += [task.batches * abs(x) + task.m * abs(y) + task.n * abs(z) for x, y, z in task.operands]
    return max(task.batches * task.m * task.n, *spans) > LARGEST_INDEX


def variables(program: Program, elem: dtypes.DType, task: Task) -> dict[str, Any]:
    """The template variables of the epilogue, and of the types of the factors and of the result."""
    (root,) = program.outputs
    if root.kind == "cast" and compute_type(root.args[0].dtype) == compute_type(root.dtype):
        (root,) = root.args  # it is rounded when it is stored
    body, (value,) = statements((root,))
    paired = {i for i, one in enumerate(task.paired, 1) if one}
    return {
        "elem": elem,
        "out": dtypes.info(program.outputs[0].dtype).cxx,
        "index": "long long" if is_wide(task) else "int",
        "operands": [
            {
                "k": i,
                "type": dtypes.info(d).cxx,
                "compute": compute_type(d),
                "row": step_kind(row),
                "column": step_kind(column),
                "paired": i in paired,
            }
            for i, (d, (_, row, column)) in enumerate(zip(program.inputs[1:], task.operands, strict=True), 1)
        ],
        "scalars": [compute_type(d) for d in program.scalars],
        "body": body,
        "value": value,
    }


def structs(task: Task, steps: Sequence[int], sizes: Sequence[int]) -> tuple[bytes, bytes]:
    """The kernel's structs: strides of the factors and sizes, and the strides of the operands."""
    wide = is_wide(task)
    code = "q" if wide else "i"
    padding = "4x" if wide and len(sizes) % 2 else ""
    head = struct.pack(f"{len(steps)}{code}{len(sizes)}i{padding}", *steps, *sizes)
    of = [step for one in task.operands for step in one] or [0, 0, 0]
    return head, struct.pack(f"{len(of)}{code}", *of)


def ending_variables(program: Program, elem: dtypes.DType, task: Task) -> dict[str, Any]:
    """:func:`variables`, and those of `linear/ends.cuh`."""
    made = variables(program, elem, task)
    if task.rows is None:
        return {**made, "saves": task.saves, "rows": None}
    (root,) = program.outputs
    made["body"], (made["value"],) = statements((root,))  # a value is rounded if the expression says so alone
    rows = {
        "reduction": task.rows.reduction,
        "result": dtypes.info(task.rows.result).cxx,
        "accumulator": accumulator(task.rows.reduction, root.dtype),
    }
    return {**made, "out": compute_type(root.dtype), "saves": task.saves, "rows": rows}


def ending_name(program: Program, elem: dtypes.DType, task: Task) -> str:
    """The first words of a kernel's name."""
    name = program.name if task.rows is None else f"{task.rows.reduction.name}_{program.name}"
    return f"{name}_{dtypes.info(elem).name}{'_saving' if task.saves else ''}"


def tiled_variables(program: Program, elem: dtypes.DType, task: Task, m: int, n: int) -> dict[str, Any]:
    """:func:`ending_variables`, and those of kernels that make tiles of ``m`` rows and ``n`` columns."""
    return {
        **ending_variables(program, elem, task),
        "name": f"{ending_name(program, elem, task)}_{m}x{n}",
        "tile_m": m,
        "tile_n": n,
        "a_by_depth": task.a.by_depth,
        "b_by_depth": task.b.by_depth,
    }


def tiled_structs(task: Task, tiles: tuple[int, int]) -> tuple[bytes, bytes]:
    """:func:`structs` of such kernels, of which a matrix has so many tiles along rows and columns."""
    steps = (task.a.batch, task.b.batch, task.a.row, task.b.row)
    return structs(task, steps, (task.batches, task.m, task.n, task.k, *tiles))


def parts_of(task: Task, parts: int, depth: int) -> int:
    """How many parts of the depth there are, if each but the last has equally many slabs and none is empty."""
    slabs = divide_up(task.k, depth)
    return divide_up(slabs, divide_up(slabs, parts))
