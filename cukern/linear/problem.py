"""Products as problems of a family: what one call asks for, and the sizes and strides that kernels see."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from .. import dtypes
from ..array.layout import Layout, fresh_layout, layout
from ..device import Device
from ..device.interface import Properties
from ..elementwise.graph import cast, input_node
from ..elementwise.print_cxx import compute_type, statements
from ..elementwise.program import Program, program
from ..kernel.sizes import ACCESS, LARGEST_INDEX
from ..kernel.strides import broadcast_shapes, broadcast_steps, collapse, step_kind
from ..launch import cost
from ..launch.params import Given, Params
from ..reduction.plan import Reduction, accumulator

#: Matrices of a batch at most: blocks along y.
MOST_MATRICES = 65535
#: Rows or columns beyond a product's last, to which a tile may reach.
_BEYOND = 256
#: A division, or the call of a function that takes more than an instruction.
_LONG = re.compile(r"/|\b(?!(?:float|double|maximum|minimum|fabs|floor)\()[a-zA-Z_]\w*\(")


#: Rows and columns from which a library multiplies by tiles, whose kernels are slow where rows are misaligned.
_LEAST_MISALIGNED = 16


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


class Gemm(NamedTuple):
    """A product in batches: sizes, factors, and the steps of each operand through batch, rows and columns.

    Attributes:
        itemsize: bytes of an element of the factors.
        saves: whether the product itself is stored too, beside the result of the epilogue.
        rows: the reduction of each row, whose result is stored instead.
        paired: which operands are contiguous along the columns, in pairs that begin at multiples of their size.
        alone: whether the result is the rounded product, and nothing follows it.
        mapped: the number of the first operand, from 1 on, that is a matrix of the factors' dtype in rows that begin at
            multiples of 16 bytes, as tensor maps describe it; 0 if there is none.
        function: whether what follows takes more than an instruction.
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
    function: bool = False

    @property
    def whole_rows(self) -> bool:
        """Whether the rows of the result begin at multiples of 16 bytes."""
        return self.n * self.itemsize % ACCESS == 0

    @property
    def matrix(self) -> bool:
        """Whether an operand has an element for each of the product."""
        return any(row and column for _, row, column in self.operands)

    @property
    def transposed(self) -> Gemm:
        """The product of which this one is the transpose."""
        operands = tuple((batch, column, row) for batch, row, column in self.operands)
        return Gemm(self.batches, self.n, self.m, self.k, self.b, self.a, operands, self.itemsize)


def gemm_of(a: Layout, b: Layout, operands: Sequence[Layout], strided: bool = False) -> Gemm | None:
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
    result = math.prod(batch) * m * n
    if not result * k or max(m, n, k, result // m, result // n) > LARGEST_INDEX:
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
    if len(axes.shape) > 1 or math.prod(axes.shape) > MOST_MATRICES:
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
    return Gemm(
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


def is_misaligned(one: Layout) -> bool:
    """Whether rows of matrices, contiguous along one of their axes, begin at other addresses than multiples of 16."""
    (rows, columns), (row, column), unit = one.shape[-2:], one.strides[-2:], one.dtype.itemsize
    if unit not in (row, column):
        return False
    steps = [step for size, step in ((rows, row), (columns, column)) if step != unit and size > 1]
    return not one.aligned or any(step % ACCESS for step in (*steps, *one.strides[:-2]))


def _ends_apart(one: Layout) -> bool:
    """Whether the contiguous axis of matrices has another size than multiples of 16 bytes."""
    ends = zip(one.shape[-2:], one.strides[-2:], strict=True)
    return any(step == one.dtype.itemsize and size * step % ACCESS for size, step in ends)


def is_wide(gemm: Gemm) -> bool:
    """Whether an offset may exceed 32 bits, those of rows beyond the last tile included."""
    spans = []
    for one, count in ((gemm.a, gemm.m), (gemm.b, gemm.n)):
        rows, size = (count, gemm.k) if one.by_depth else (gemm.k, count)
        within = (rows + _BEYOND) * abs(one.row) + (size + _BEYOND) * abs(one.unit)
        spans.append(gemm.batches * abs(one.batch) + within)
    spans += [gemm.batches * abs(x) + gemm.m * abs(y) + gemm.n * abs(z) for x, y, z in gemm.operands]
    return max(gemm.batches * gemm.m * gemm.n, *spans) > LARGEST_INDEX


def variables(program: Program, elem: dtypes.DType, gemm: Gemm) -> dict[str, Any]:
    """The template variables of the epilogue, of the types of the factors and of the result, and of indices."""
    names = epilogue_variables(program, elem, gemm.operands, gemm.paired)
    return {**names, "index": "long long" if is_wide(gemm) else "int"}


def epilogue_variables(
    program: Program, elem: dtypes.DType, steps: Sequence[Sequence[int]], paired: Sequence[bool] = ()
) -> dict[str, Any]:
    """The template variables of `linear/epilogue.cuh` but the type of indices.

    Args:
        program: makes an element of a sum and of operands.
        elem: of the factors.
        steps: strides of each operand through the batch, the rows and the columns, in elements.
        paired: which operands are read two elements at a time.
    """
    (root,) = program.outputs
    if root.kind == "cast" and compute_type(root.args[0].dtype) == compute_type(root.dtype):
        (root,) = root.args  # it is rounded when it is stored
    body, (value,) = statements((root,))
    pairs = {i for i, one in enumerate(paired, 1) if one}
    accumulated = dtypes.info(dtypes.info(elem).acc)
    return {
        "elem": elem,
        # Sums of signed integers wrap around as NumPy's; signed overflow is undefined in C++.
        "acc": f"u{accumulated.name}" if accumulated.kind == "i" else accumulated.name,
        "sum": accumulated.cxx,
        "out": dtypes.info(program.outputs[0].dtype).cxx,
        "operands": [
            {
                "k": i,
                "type": dtypes.info(d).cxx,
                "compute": compute_type(d),
                "row": step_kind(row),
                "column": step_kind(column),
                "paired": i in pairs,
            }
            for i, (d, (_, row, column)) in enumerate(zip(program.inputs[1:], steps, strict=True), 1)
        ],
        "scalars": [compute_type(d) for d in program.scalars],
        "body": body,
        "value": value,
    }


@lru_cache(maxsize=64)
def _steps(operands: int) -> Params:
    return Params("Steps", of=("index", (operands, 3)))


def epilogue_steps(steps: Sequence[Sequence[int]]) -> Given:
    """The struct Steps of `linear/epilogue.cuh`: strides of each operand, and zeros where there is none."""
    return _steps(max(1, len(steps)))(of=[tuple(one) for one in steps] or [(0, 0, 0)])


def ending_variables(program: Program, elem: dtypes.DType, gemm: Gemm) -> dict[str, Any]:
    """:func:`variables`, and those of `linear/ends.cuh`."""
    result = variables(program, elem, gemm)
    if gemm.rows is None:
        return {**result, "saves": gemm.saves, "rows": None}
    (root,) = program.outputs
    # A value is rounded only where the expression says so.
    result["body"], (result["value"],) = statements((root,))
    rows = {
        "reduction": gemm.rows.reduction,
        "result": dtypes.info(gemm.rows.result).cxx,
        "accumulator": accumulator(gemm.rows.reduction, root.dtype),
    }
    return {**result, "out": compute_type(root.dtype), "saves": gemm.saves, "rows": rows}


def ending_name(program: Program, elem: dtypes.DType, gemm: Gemm) -> str:
    """The first words of a kernel's name."""
    name = program.name if gemm.rows is None else f"{gemm.rows.reduction.name}_{program.name}"
    return f"{name}_{dtypes.info(elem).name}{'_saving' if gemm.saves else ''}"


def tiled_variables(program: Program, elem: dtypes.DType, gemm: Gemm, m: int, n: int) -> dict[str, Any]:
    """:func:`ending_variables`, and those of kernels with tiles of ``m`` rows and ``n`` columns."""
    return {
        **ending_variables(program, elem, gemm),
        "name": f"{ending_name(program, elem, gemm)}_{m}x{n}",
        "tile_m": m,
        "tile_n": n,
        "a_by_depth": gemm.a.by_depth,
        "b_by_depth": gemm.b.by_depth,
    }


#: The sizes of a product in tiles: see linear/product.cuh.
TILED = Params(
    "TiledSizes",
    batch_a="index",
    batch_b="index",
    row_a="index",
    row_b="index",
    batches="int",
    m="int",
    n="int",
    k="int",
    tiles_m="int",
    tiles_n="int",
)


def tiled_sizes(gemm: Gemm, tiles: tuple[int, int]) -> Given:
    """Those of a product of which a matrix has so many tiles along rows and columns."""
    return TILED(
        batch_a=gemm.a.batch,
        batch_b=gemm.b.batch,
        row_a=gemm.a.row,
        row_b=gemm.b.row,
        batches=gemm.batches,
        m=gemm.m,
        n=gemm.n,
        k=gemm.k,
        tiles_m=tiles[0],
        tiles_n=tiles[1],
    )


class Product(NamedTuple):
    """A batched product of matrices, and an epilogue in the same launch.

    Attributes:
        a: shape (..., m, k), of a floating dtype; for kernels only of any.
        b: shape (..., k, n), of the same dtype; (..., n, k) if ``transposed``.
        operands: of the epilogue, broadcast to the product.
        epilogue: makes an element of the result of a sum and of the operands; None if nothing follows.
        rows: what each row of the result is reduced to; None if they are not.
        saves: whether the product itself is returned too.
        precision: how floats are multiplied where an epilogue follows: see :func:`cukern.matmul_precision`.
        transposed: whether the last two axes of ``b`` are swapped.
    """

    a: Layout
    b: Layout
    operands: tuple[Layout, ...] = ()
    epilogue: Program | None = None
    rows: Rows | None = None
    saves: bool = False
    precision: str = "highest"
    transposed: bool = False

    @property
    def right(self) -> Layout:
        """The right factor with shape (..., k, n)."""
        if not self.transposed:
            return self.b
        shape, strides = ((*one[:-2], one[-1], one[-2]) for one in (self.b.shape, self.b.strides))
        return layout(self.b.device, self.b.dtype, shape, strides, self.b.aligned)

    @property
    def device(self) -> Device:
        """Where it is computed."""
        return self.a.device

    @property
    def elem(self) -> dtypes.DType:
        """The dtype of the factors."""
        return self.a.dtype

    @property
    def float_bytes(self) -> int:
        """Bytes of an element of a floating dtype; 0 of others."""
        return self.elem.itemsize if self.elem in dtypes.FLOATS else 0

    @property
    def tf32(self) -> bool:
        """Whether factors may be rounded to tf32."""
        return self.elem == dtypes.float32 and self.precision == "tf32" and self.epilogue is not None

    @property
    def batch(self) -> tuple[int, ...]:
        """The leading axes of the result."""
        return broadcast_shapes("matmul", [self.a.shape[:-2], self.b.shape[:-2]])

    @property
    def results(self) -> tuple[Layout, ...]:
        """The layouts of the product, if it is returned, and of the result."""
        product = fresh_layout(self.device, self.elem, (*self.batch, self.a.shape[-2], self.right.shape[-1]))
        if self.rows is None:
            return (product, product) if self.saves else (product,)
        kept = (1,) if self.rows.keepdims else ()
        result = fresh_layout(self.device, self.rows.result, (*self.batch, self.a.shape[-2], *kept))
        return (product, result) if self.saves else (result,)

    @property
    def program(self) -> Program:
        """The epilogue; of a product that nothing follows it rounds the sum."""
        return self.epilogue or _rounded(self.elem)

    @property
    def then(self) -> str:
        """What follows: "nothing", "bias", "matrix", or "function" for what takes more than an instruction."""
        if self.epilogue is None:
            return "nothing"
        if _takes_long(self.epilogue):
            return "function"
        gemm = self.gemm or self.strided
        return "matrix" if gemm is not None and gemm.matrix else "bias"

    @property
    def gemm(self) -> Gemm | None:
        """The sizes and strides; None if factors do not lie in rows that begin at multiples of 16 bytes."""
        return _gemm(self, False)

    @property
    def strided(self) -> Gemm | None:
        """The same with factors of any strides; None if the batch has several."""
        return _gemm(self, True)

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Matrices of the batch, rows, columns and depth."""
        return math.prod(self.batch), self.a.shape[-2], self.right.shape[-1], self.a.shape[-1]

    @property
    def misaligned(self) -> bool:
        """Whether rows of 16-bit factors or of the result begin or end where a library is slow."""
        _, m, n, _ = self.sizes
        if self.float_bytes != 2 or min(m, n) < _LEAST_MISALIGNED:
            return False
        return n * 2 % ACCESS != 0 or any(is_misaligned(one) or _ends_apart(one) for one in (self.a, self.b))

    @property
    def features(self) -> dict[str, Any]:
        """What its time depends on."""
        gemm, (batches, m, n, k) = self.gemm or self.strided, self.sizes
        begins = {"misaligned": True} if self.misaligned else {}
        return {
            **begins,
            "dtype": "tf32" if self.tf32 else dtypes.info(self.elem).name,
            "then": self.then,
            "rows": self.rows is not None,
            "saves": self.saves,
            "a_by_depth": gemm is None or gemm.a.by_depth,
            "b_by_depth": gemm is None or gemm.b.by_depth,
            "batches": gemm.batches if gemm else batches,
            "m": gemm.m if gemm else m,
            "n": n,
            "k": k,
        }

    @property
    def summary(self) -> str:
        """The problem in a line."""
        batches, m, n, k = self.sizes
        many = f"{batches} times " if batches > 1 else ""
        then = "" if self.epilogue is None else f", then {self.epilogue.name} ({self.then})"
        return f"{many}{m} x {k} @ {k} x {n} of {dtypes.info(self.elem).name}{then}"

    @property
    def operations(self) -> float:
        """Two for each product."""
        return 2.0 * math.prod(self.sizes)

    @property
    def nbytes(self) -> int:
        """Bytes that are read or written once."""
        return sum(one.nbytes for one in (self.a, self.b, *self.operands, *self.results))

    @property
    def by_tensor_cores(self) -> bool:
        """Whether products may be computed on tensor cores."""
        return dtypes.info(self.elem).narrow or self.tf32

    def least_seconds(self, limits: Properties) -> float:
        """The time of its bytes, or of its products."""
        return cost.least_seconds(
            self.operations, self.nbytes, self.elem.itemsize, self.by_tensor_cores, limits
        )


@lru_cache(maxsize=256)
def _takes_long(epilogue: Program) -> bool:
    return any(_LONG.search(line.code) for line in statements(epilogue.outputs)[0])


@lru_cache(maxsize=64)
def _rounded(elem: dtypes.DType) -> Program:
    acc = dtypes.info(elem).acc
    return program("matmul", (cast(input_node(0, acc), elem),), (acc,))


@lru_cache(maxsize=1024)
def _gemm(product: Product, strided: bool) -> Gemm | None:
    result = gemm_of(product.a, product.right, product.operands, strided)
    if result is None:
        return None
    return result._replace(
        rows=product.rows,
        saves=product.saves,
        alone=product.epilogue is None,
        function=product.epilogue is not None and _takes_long(product.epilogue),
    )
