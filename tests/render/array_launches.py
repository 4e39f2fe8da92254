"""Launches of the kernels of arrays, in their variants."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import pytest
from emptied import elementwise_plans, emptied

import cukern as ck
from cukern import dtypes
from cukern.array.operators import FUNCTIONS
from cukern.elementwise import plan
from cukern.elementwise.function import Elementwise
from cukern.index import compact, sort
from cukern.index.families import SORT
from cukern.index.scan import recurrence
from cukern.launch.family import STAND_IN
from cukern.reduction import rows as reduce
from cukern.reduction.families import REDUCTION, SOFTMAX
from cukern.shape.copy import Copies
from cukern.sparse.products import Form, data_shape, multiplied, multiplying, sampled
from cukern.sparse.structure import Structure

#: Limits of a host, for which the loops of its kernels are laid out on a GPU.
HOST = STAND_IN._replace(compute_capability=(0, 0))


def arrays(dtype: Any, *shapes: tuple[int, ...]) -> list[ck.Array]:
    return [ck.zeros(shape, dtype) for shape in shapes]


def with_derivatives(f: Callable[..., Any], *args: ck.Array) -> None:
    """Launch ``f`` and its first derivatives."""
    result, pullback = ck.vjp(f, *args)
    pullback(tuple(map(ck.zeros_like, result)) if isinstance(result, tuple) else ck.zeros_like(result))


def launch_elementwise(dtype: Any) -> None:
    """Every row of the table that takes the dtype, in one kernel; then other layouts of operands.

    The kernel of every row is of a line with gaps: packs would repeat each row for every element of one.
    """
    rows = []
    for row in FUNCTIONS.values():
        if isinstance(row, Elementwise):
            with suppress(TypeError):
                row.resolve([dtype] * len(row.operands))
                rows.append(row)
    assert len(rows) > 20
    (line,) = arrays(dtype, (18,))
    ck.fuse(lambda x: [row(*[x] * len(row.operands)) for row in rows])(line[::2])
    # Vectors along an axis, a row beside a matrix, and tiles of a transpose.
    matrix, row = arrays(dtype, (64, 1024), (1024,))
    ck.equal(matrix, row)
    ck.equal(matrix[:, :64], matrix[:, :64].T)
    if dtype in dtypes.FLOATS:
        # More statements than hide behind a load and a store.
        ck.fuse(lambda x: functools.reduce(lambda y, _: y * x + x, range(60), x))(line)
        many = arrays(dtype, (1024, 1024))[0]
        with_derivatives(ck.fuse(lambda x, y: ck.tanh(x + y)), many, row)  # whose columns are summed
        gates = arrays(dtype, (16384, 1))[0]
        with_derivatives(ck.multiply, many.reshape((16384, 64)), gates)  # sums along rows
    if dtype in dtypes.INEXACT:
        smooth = [row for row in rows if row.vjp is not None]
        with_derivatives(ck.fuse(lambda x: tuple(row(*[x] * len(row.operands)) for row in smooth)), line[::2])
    others = [other for other in dtypes.ALL if dtype not in dtypes.COMPLEX or other in dtypes.COMPLEX]
    (image,) = arrays(dtype, (514, 514))
    ck.fuse(lambda x: ck.where(x[2:, 1:-1] == x[:-2, 1:-1], x[1:-1, 2:], x[1:-1, :-2]))(image)
    ck.fuse(lambda x: [ck.astype(x, other) for other in others])(*arrays(dtype, (7,)))
    x, row, scalar = arrays(dtype, (4, 5, 6), (6,), ())
    ck.equal(ck.permute_dims(x, (2, 0, 1))[:, ::2], scalar)
    ck.equal(x, row)
    if dtype == ck.float32:
        with pytest.MonkeyPatch.context() as patch, emptied(*elementwise_plans()):
            patch.setattr(plan, "_style", lambda device: "serial")
            ck.equal(*arrays(dtype, (6000, 3), (6000, 1)))


def launch_reduce(dtype: Any, everything: bool = False) -> None:
    """Rows of every reduction; of one dtype and one of each state also columns, and rows in all their ways.

    Those are within a warp, within a block and cut into pieces.
    """
    row: Any = ((3, 300), -1)
    others = ((3, 4), -1), ((2, 5000), -1), ((2, 1 << 20), -1), ((300, 40), 0), ((4, 5, 6), (0, 2))
    one_of_each = ("sum", "max", "any", "argmax", "var", "logsumexp")
    for name in reduce.__all__:
        more = everything or (dtype == ck.float32 and name in one_of_each)
        for shape, axis in (row, *others) if more else (row,):
            if isinstance(axis, int) or name not in ("argmax", "argmin", "nanargmax", "nanargmin"):
                refuses = nullcontext() if dtypes.info(dtype).kind == "f" else suppress(TypeError)
                with refuses:
                    getattr(ck, name)(*arrays(dtype, shape), axis=axis)
    with REDUCTION.only("loops", limits=HOST):
        for axis in (0, 1):
            ck.sum(*arrays(dtype, (9, 30)), axis=axis)
        if dtype == ck.float32:
            ck.sum(*arrays(dtype, (3000, 5)), axis=1)


def launch_index(dtype: Any) -> None:
    x, places = ck.zeros((4, 5, 6), dtype), ck.zeros((3,), "int64")
    along = ck.zeros((4, 2, 6), "int64")
    for inner in (x, ck.zeros((4, 5), dtype)):
        ck.take(inner, places, axis=1)
    ck.take_along_axis(x, along, axis=1)
    line, many = ck.zeros((300,), dtype), ck.zeros((200,), "int64")
    line.at[many].max(line[:200])
    x.at[:, many[:9]].set(1)
    for rows in (x.reshape((4, 30)), line):
        rows.at[many].add(1)
        rows[many] = ck.zeros((), dtype)
        rows[places[:1]] = ck.zeros((), dtype)
        rows[places] = 1
    if dtype == ck.float32:
        ck.tril_indices(4)
    if dtype in (ck.float32, ck.uint8, ck.int32):
        of_bits = line.astype("bool") if dtype == ck.float32 else line
        for bits in (of_bits, of_bits[:64].contiguous()):
            ck.packbits(bits)
    if dtypes.info(dtype).kind == "f":
        with_derivatives(lambda x: ck.take_along_axis(x, many), line)
        with_derivatives(lambda x: ck.take(x, places, axis=1), x)
        with_derivatives(lambda x: ck.take_along_axis(x, along, axis=1), x)
        with_derivatives(lambda x: x[places, places], x)
        with_derivatives(lambda x: ck.cross(x, x), ck.zeros((5, 3), dtype))


def launch_sorting(dtype: Any) -> None:
    """A thread a row, a block a row, merges of several tiles; for some both directions, a thread alone, and digits."""
    for shape in ((3, 20), (2, 5000)):
        (x,) = arrays(dtype, shape)
        ck.sort(x)
        ck.argsort(x, descending=dtype in (ck.float32, ck.int8))
    if dtype not in dtypes.COMPLEX:
        ck.topk(x, 3)
        ck.median(x, 1)
    line = x[0].contiguous()
    for side in ("left", "right"):
        ck.searchsorted(line, line, side=side)
        ck.searchsorted(line[:20], line, side=side)
    ck.isin(line, line[:20])
    if dtypes.info(dtype).kind == "f":
        for knots in (line, line[:20]):
            ck.interp(line, knots, knots)
    ck.searchsorted(line, line, sorter=ck.zeros(line.shape, "int64"))
    ck.lexsort((line, line))
    if dtype in (ck.float32, ck.int8):
        for name, limits in (("merge", HOST), ("radix runs", HOST), ("radix", None)):
            with SORT.only(name, limits=limits):
                sort.sorted_rows(line, True, False)
    if dtypes.info(dtype).kind == "f":
        with_derivatives(ck.sort, line)


def launch_scan(dtype: Any) -> None:
    """A warp or a block a row, a thread a column, and long ones that are cut into pieces."""
    shapes = [(3, 300)]
    if dtype in (ck.float32, ck.int8):
        shapes += [(3, 8), (3, 30), (2, 2000), (2, 1 << 16), (5000, 3)]
    for shape in shapes:
        (x,) = arrays(dtype, shape)
        ck.cumulative_sum(x, axis=0 if shape[0] > shape[1] else 1)
        ck.cumulative_prod(x, axis=1, include_initial=True)
        ck.cummax(x, 1)
    if dtype == ck.float32:
        x, z = arrays(dtype, (2, 1 << 16), (2, 1 << 16))
        recurrence(x, z, 1, True)
    if dtypes.info(dtype).kind == "f":
        with_derivatives(lambda x: ck.cumulative_prod(x, axis=1), x)
        with_derivatives(lambda x: ck.logcumsumexp(x, 1), x)


def launch_moving(dtype: Any) -> None:
    """Elements move by their size: every way beyond the ends for one dtype."""
    copies = arrays(dtype, (3,), (0,))
    for into in (True, False):
        Copies(copies[0].device, copies, into)(copies)
    modes = ("constant", "edge", "reflect", "symmetric", "wrap") if dtype == ck.float32 else ("constant",)
    for mode in modes:
        for x in arrays(dtype, (9,), (3, 4), (3, 4, 5)):
            ck.pad(x, 1, mode)
            ck.pad(x[..., ::2], 1, mode)


def launch_convolve(dtype: Any) -> None:
    ck.convolve(*arrays(dtype, (9,), (3,)))


def launch_histogram(dtype: Any) -> None:
    """Counts in the memory of a block and in the whole array's, and weights; bins that are even or not."""
    (x,) = arrays(dtype, (9,))
    edges = ck.zeros(4, ck.float64)
    for bins in (3, 9000) if dtype == ck.float32 else (3,):
        ck.histogram(x, bins, (0, 1))
    ck.histogram(x, edges)
    ck.histogram(x, edges, weights=ck.zeros(9))
    if dtypes.info(dtype).kind != "f":
        ck.bincount(x, minlength=2)


def launch_compact(dtype: Any) -> None:
    """The places of what is true; a GPU that runs nothing counts none, so the second stage is compiled by name."""
    device = ck.nonzero(ck.zeros(9, "bool"))[0].device
    compact.compacting(device, "write", 256)
    compact.compacting(device, "few", 1024)
    for other in (ck.float32, ck.complex64, ck.bfloat16, ck.int8):
        for stage in ("count", "write"):
            compact.compacting(device, stage, 256, other, True, True, True)


def launch_random(dtype: Any) -> None:
    rng = ck.random.default_rng(0)
    for draw in (rng.random, rng.standard_normal, rng.standard_exponential, rng.gumbel):
        draw(size=9, dtype=dtype)
    if dtype == ck.float32:
        for counts in (rng.poisson(3.0, 9), rng.binomial(5, 0.5, 9), rng.geometric(0.5, 9), rng.zipf(2.0, 9)):
            assert counts.shape == (9,)
        rng.hypergeometric(5, 6, 4, 9)
        rng.negative_binomial(2.0, 0.5, 9)
        rng.gamma(*arrays(dtype, (9,)))
        rng.beta(2.0, 3.0, 9)
        rng.noncentral_f(2.0, 3.0, 1.0, 9)
        rng.standard_t(2.0, 9)
        rng.vonmises(0.0, 1.0, 9)
        rng.dirichlet([1.0, 2.0], 9)
        ck.betainc(*arrays(dtype, (9,), (9,), (9,)))
        ck.y1(*arrays(dtype, (9,)))
    for integer in ("int8", "uint64"):
        rng.integers(5, size=9, dtype=integer)
    rng.integers(2**40, size=9)
    rng.bits(9)
    rng.bits(9, "uint64")
    if dtype == ck.float32:
        rng.permutation(9)


def launch_softmax(dtype: Any) -> None:
    for shape, axis in (((3, 20), -1), ((3, 5000), -1), ((3, 1 << 17), -1), ((30, 4), 0)):
        (x,) = arrays(dtype, shape)
        for function in (ck.softmax, ck.log_softmax):
            with_derivatives(lambda x, f=function, axis=axis: f(x, axis=axis), x)
    with SOFTMAX.only("passes", limits=HOST):
        for shape, axis in (((3, 21), -1), ((30, 9), 0)):
            (x,) = arrays(dtype, shape)
            for function in (ck.softmax, ck.log_softmax):
                with_derivatives(lambda x, f=function, axis=axis: f(x, axis=axis), x)


def launch_row_programs(dtype: Any) -> None:
    """Reductions with expressions behind them: of parts of a warp, of a block, of elements that are picked."""

    @ck.jit
    def normalised(x: ck.Array) -> ck.Array:
        y = ck.exp(x - x.max(axis=1, keepdims=True))
        return y / y.sum(axis=1, keepdims=True) - x.mean(axis=1)[:, None] * x.std(axis=1, keepdims=True)

    @ck.jit
    def of_gathered(x: ck.Array, places: ck.Array) -> tuple[ck.Array, ck.Array]:
        rows = x[places] * 2
        return rows - rows.mean(axis=1, keepdims=True), ck.tanh(x[places])

    @ck.jit
    def of_elements(x: ck.Array, places: ck.Array) -> tuple[ck.Array, ...]:
        own = x[places]
        return own - own.mean(axis=1, keepdims=True), (own * 2).sum(axis=0), x[places[0]] + 1

    of_elements(*arrays(dtype, (50,)), ck.zeros((20, 64), "int32"))
    for shape in ((64, 32), (64, 4096), (64, 1201)):
        normalised(*arrays(dtype, shape))
        of_gathered(*arrays(dtype, shape), ck.zeros((20,), "int32"))


def launch_segment_programs(dtype: Any) -> None:
    """Segments of rows that are gathered and computed: wide and short ones, and so many that a tree combines them."""
    for shape, count in (((8, 4, 40), 20), ((8, 3), 200)):
        x, w, places = *arrays(dtype, shape, (count, *shape[1:-1], 1)), ck.zeros((count,), "int32")
        for how in ("sum", "mean", "max"):
            combine = getattr(ck, f"segment_{how}")
            ck.jit(lambda x, w, f=combine, at=places: f(ck.tanh(x[at]) * w, at, 4))(x, w)


def launch_at(dtype: Any) -> None:
    x, places = ck.zeros((4, 5), dtype), ck.zeros((3,), "int64")
    for method in ("set", "min", "max"):
        getattr(x.at[places], method)(1)
    x[places] = 1


def launch_segments(dtype: Any) -> None:
    """Few rows of each segment; of float32 so many that a tree combines them, and by each operation, sorted or not."""
    rows, operations = (8200, ("sum", "prod", "max", "min")) if dtype == ck.float32 else (20, ("max",))
    if dtype in dtypes.COMPLEX:
        operations = ("prod",)
    (x,) = arrays(dtype, (rows, 8))
    places = ck.zeros(rows, "int64")
    for how in operations:
        getattr(ck, f"segment_{how}")(x, places, 3)
    if dtype == ck.float32:
        ck.segment_sum(x, places, 3, indices_are_sorted=True)
        ck.segment_mean(x, offsets=ck.asarray([0, 1, len(x)]))
    if dtype not in dtypes.COMPLEX:
        ck.maximum.reduceat(x, [0, 5])
        (ck.logical_xor if dtype == ck.bool_ else ck.power).reduceat(x[:, 0], [0, 2])


def launch_sparse(dtype: Any) -> None:
    """Products, and the entries of dense products; of float32 with vectors and matrices, single entries and blocks."""
    places = ck.zeros(5, "int32")
    whole = dtype == ck.float32
    for blocks in ((1, 1), (2, 3)) if whole else ((1, 1),):
        structure = Structure((4, 5), places, places)
        data = ck.zeros(data_shape(structure, blocks), dtype)
        for columns in (1, 200) if whole else (3,):
            x, g = arrays(dtype, (5 * blocks[1], columns), (4 * blocks[0], columns))
            multiplied(structure, blocks, data, x)
            sampled(structure, blocks, g, x)
        form = Form(dtype, places.dtype, blocks, 256, 16, 2, 2, True, 1)
        for name in ("multiply_long", "add_parts"):
            multiplying(data.device, name, form)


def launch_equations(dtype: Any) -> None:
    """Batches of matrices, in one step and in several."""
    if dtype in dtypes.INEXACT and not dtypes.info(dtype).narrow:
        for n in {ck.float32: (5, 40), ck.complex128: (40,)}.get(dtype, (5,)):
            ck.linalg.solve(*arrays(dtype, (2, n, n), (2, n, 3)))
        ck.linalg.det(*arrays(dtype, (2, 5, 5)))


def launch_matmul(dtype: Any) -> None:
    """By a kernel, of factors that lie along their rows and along their columns."""
    a, b = arrays(dtype, (70, 33), (33, 130))
    with ck.kernels_only():
        ck.matmul(a, b)
        ck.matmul(b.T, a.T)


#: What takes every dtype.
EVERY: tuple[Callable[[Any], None], ...] = (
    launch_elementwise,
    launch_reduce,
    launch_index,
    launch_moving,
    launch_sorting,
    launch_scan,
    launch_convolve,
    launch_histogram,
    launch_at,
    launch_segments,
    launch_equations,
    launch_matmul,
)
