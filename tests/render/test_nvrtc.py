"""Every kernel of the library through NVRTC, for GPUs that need not be here."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import numpy as np
import pytest
from gpu_without_one import Gpu, gpu_without_one, require_nvrtc

import cukern as ck
from cukern import dtypes
from cukern.array.operators import FUNCTIONS
from cukern.elementwise.function import Elementwise
from cukern.generate.kernels import HeadWeights, add_norm, append_heads, gated_planes
from cukern.index import search, sort
from cukern.index.scan import recurrence
from cukern.linear import epilogue, measured, tensor_cores
from cukern.linear.tma import TMA_TILES
from cukern.nn.convolution import plan as convolutions
from cukern.nn.convolution import tensor as convolution
from cukern.nn.matmul_add_relu import HOST_TILE, launch
from cukern.nn.pooling import plan as pool_launch
from cukern.quant import few_rows, planes, tiles
from cukern.quant.kinds import KINDS
from cukern.reduction import plan as reduction
from cukern.reduction import rows as reduce
from cukern.reduction import softmax
from cukern.shape.copy import Copies
from cukern.text import render

require_nvrtc()


def _zeros(dtype: Any, *shapes: tuple[int, ...]) -> list[ck.Array]:
    return [ck.zeros(shape, dtype) for shape in shapes]


def _derivatives(f: Callable[..., Any], *args: ck.Array) -> None:
    """Launch ``f`` and its first derivatives."""
    result, pullback = ck.vjp(f, *args)
    pullback(tuple(map(ck.zeros_like, result)) if isinstance(result, tuple) else ck.zeros_like(result))


def _elementwise(dtype: Any) -> None:
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
    (line,) = _zeros(dtype, (18,))
    ck.fuse(lambda x: [row(*[x] * len(row.operands)) for row in rows])(line[::2])
    # Vectors along an axis, a row beside a matrix, and tiles of a transpose.
    matrix, row = _zeros(dtype, (64, 1024), (1024,))
    ck.equal(matrix, row)
    ck.equal(matrix[:, :64], matrix[:, :64].T)
    if dtype in dtypes.INEXACT:
        smooth = [row for row in rows if row.vjp is not None]
        _derivatives(ck.fuse(lambda x: tuple(row(*[x] * len(row.operands)) for row in smooth)), line[::2])
    others = [other for other in dtypes.ALL if dtype not in dtypes.COMPLEX or other in dtypes.COMPLEX]
    ck.fuse(lambda x: [ck.astype(x, other) for other in others])(*_zeros(dtype, (7,)))
    x, row, scalar = _zeros(dtype, (4, 5, 6), (6,), ())
    ck.equal(ck.permute_dims(x, (2, 0, 1))[:, ::2], scalar)
    ck.equal(x, row)


def _reduce(dtype: Any, everything: bool = False) -> None:
    """Rows of every reduction; of two dtypes and one of each state also columns, and rows in all their ways.

    Those are within a warp, within a block and cut into pieces.
    """
    row: Any = ((3, 300), -1)
    others = ((3, 4), -1), ((2, 5000), -1), ((2, 1 << 20), -1), ((300, 40), 0), ((4, 5, 6), (0, 2))
    one_of_each = ("sum", "max", "any", "argmax", "var", "logsumexp")
    for name in reduce.__all__:
        more = everything or (dtype in (ck.float32, ck.bfloat16) and name in one_of_each)
        for shape, axis in (row, *others) if more else (row,):
            if isinstance(axis, int) or name not in ("argmax", "argmin", "nanargmax", "nanargmin"):
                refuses = nullcontext() if dtypes.info(dtype).kind == "f" else suppress(TypeError)
                with refuses:
                    getattr(ck, name)(*_zeros(dtype, shape), axis=axis)
    with pytest.MonkeyPatch.context() as patch:  # the host's loops
        patch.setattr(reduction, "_plans", {})
        patch.setattr(reduction, "_style", lambda device: "serial")
        for axis in (0, 1):
            ck.sum(*_zeros(dtype, (9, 30)), axis=axis)


def _index(dtype: Any) -> None:
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
        rows[many] = 1
        rows[places[:1]] = 1
    if dtypes.info(dtype).kind == "f":
        _derivatives(lambda x: ck.take_along_axis(x, many), line)
        _derivatives(lambda x: ck.take(x, places, axis=1), x)
        _derivatives(lambda x: ck.take_along_axis(x, along, axis=1), x)
        _derivatives(lambda x: x[places, places], x)


def _sorting(dtype: Any) -> None:
    """A thread a row, a block a row, merges of several tiles; for some both directions, and a thread alone."""
    for shape in ((3, 20), (2, 5000)):
        (x,) = _zeros(dtype, shape)
        ck.sort(x)
        ck.argsort(x, descending=dtype in (ck.float32, ck.int8))
    line = x[0].contiguous()
    for side in ("left", "right"):
        ck.searchsorted(line, line, side=side)
    ck.searchsorted(line, line, sorter=ck.zeros(line.shape, "int64"))
    ck.lexsort((line, line))
    if dtype in (ck.float32, ck.int8):
        sort.sorted_rows(line, True, False, sort.Shape(1, 1, 16))
    if dtypes.info(dtype).kind == "f":
        _derivatives(ck.sort, line)


def _scan(dtype: Any) -> None:
    """A warp or a block a row, a thread a column, and long ones that are cut into pieces."""
    shapes = [(3, 300)]
    if dtype in (ck.float32, ck.int8):
        shapes += [(3, 8), (3, 30), (2, 2000), (2, 1 << 16), (5000, 3)]
    for shape in shapes:
        (x,) = _zeros(dtype, shape)
        ck.cumulative_sum(x, axis=0 if shape[0] > shape[1] else 1)
        ck.cumulative_prod(x, axis=1, include_initial=True)
        ck.cummax(x, 1)
    if dtype == ck.float32:
        x, z = _zeros(dtype, (2, 1 << 16), (2, 1 << 16))
        recurrence(x, z, 1, True)
    if dtypes.info(dtype).kind == "f":
        _derivatives(lambda x: ck.cumulative_prod(x, axis=1), x)
        _derivatives(lambda x: ck.logcumsumexp(x, 1), x)


def _moving(dtype: Any) -> None:
    """Elements move by their size: every way beyond the ends for one dtype."""
    copies = _zeros(dtype, (3,), (0,))
    for into in (True, False):
        Copies(copies[0].device, copies, into)(copies)
    modes = ("constant", "edge", "reflect", "symmetric", "wrap") if dtype == ck.float32 else ("constant",)
    for mode in modes:
        for x in _zeros(dtype, (9,), (3, 4), (3, 4, 5)):
            ck.pad(x, 1, mode)
            ck.pad(x[..., ::2], 1, mode)


def _convolve(dtype: Any) -> None:
    ck.convolve(*_zeros(dtype, (9,), (3,)))


def _histogram(dtype: Any) -> None:
    """Counts in the memory of a block and in the whole array's, and weights; bins that are even or not."""
    (x,) = _zeros(dtype, (9,))
    edges = ck.zeros(4, ck.float64)
    for bins in (3, 9000) if dtype == ck.float32 else (3,):
        ck.histogram(x, bins, (0, 1))
    ck.histogram(x, edges)
    ck.histogram(x, edges, weights=ck.zeros(9))
    if dtypes.info(dtype).kind != "f":
        ck.bincount(x, minlength=2)


def _compact(dtype: Any) -> None:
    """The places of what is true; a GPU that runs nothing counts none, so the second stage is compiled by name."""
    device = ck.nonzero(ck.zeros(9, "bool"))[0].device
    search._compacting(device, "write", 256)


def _random(dtype: Any) -> None:
    rng = ck.random.default_rng(0)
    for draw in (rng.random, rng.standard_normal, rng.standard_exponential, rng.gumbel):
        draw(size=9, dtype=dtype)
    if dtype == ck.float32:
        for counts in (rng.poisson(3.0, 9), rng.binomial(5, 0.5, 9), rng._log_gamma("gamma", 2.0, 9)):
            assert counts.shape == (9,)
        ck.betainc(*_zeros(dtype, (9,), (9,), (9,)))
        ck.y1(*_zeros(dtype, (9,)))
    for integer in ("int8", "uint64"):
        rng.integers(5, size=9, dtype=integer)
    rng.bits(9)
    rng.bits(9, "uint64")


def _softmax(dtype: Any) -> None:
    for shape, axis in (((3, 20), -1), ((3, 5000), -1), ((3, 1 << 17), -1), ((30, 4), 0)):
        (x,) = _zeros(dtype, shape)
        for function in (ck.softmax, ck.log_softmax):
            _derivatives(lambda x, f=function, axis=axis: f(x, axis=axis), x)
    with pytest.MonkeyPatch.context() as patch:  # the host's loops
        patch.setattr(softmax, "_plans", {})
        patch.setattr(
            softmax, "geometry", lambda style, *sizes, real=softmax.geometry: real("serial", *sizes)
        )
        for shape, axis in (((3, 21), -1), ((30, 9), 0)):
            (x,) = _zeros(dtype, shape)
            for function in (ck.softmax, ck.log_softmax):
                _derivatives(lambda x, f=function, axis=axis: f(x, axis=axis), x)


def _at(dtype: Any) -> None:
    x, places = ck.zeros((4, 5), dtype), ck.zeros((3,), "int64")
    for method in ("set", "min", "max"):
        getattr(x.at[places], method)(1)
    x[places] = 1


def _matmul_add_relu(dtype: Any) -> None:
    """Tiles that are staged, by axes and layouts; and those that are not."""
    for lhs, rhs, bias in (
        ((5, 7), (7, 6), (6,)),
        ((3, 1, 5, 7), (2, 7, 6), ()),
        ((2, 2048, 16), (16, 2048), (2048, 1)),
    ):
        a, b, c = _zeros(dtype, lhs, rhs, bias)
        _derivatives(ck.nn.matmul_add_relu, a, b, c)
        launch(a, b, c, (*np.broadcast_shapes(lhs[:-2], rhs[:-2]), lhs[-2], rhs[-1]), HOST_TILE)
        ck.nn.matmul_add_relu(a, ck.swapaxes(ck.zeros(rhs[:-2] + rhs[:-3:-1], dtype), -1, -2), c)


def _layer_norm(dtype: Any) -> None:
    for columns in (5, 64, 1000, 8192, 40_000, 300_000):
        x, weight, bias = _zeros(dtype, (3, columns), (columns,), (columns,))
        _derivatives(lambda x, w, b, n=columns: ck.nn.layer_norm(x, n, w, b), x, weight, bias)
        for given in ((), (weight,), (None, bias)) if columns in (1000, 40_000) else ():
            _derivatives(lambda x, n=columns, own=given: ck.nn.layer_norm(x, n, *own), x)


def _norms(dtype: Any) -> None:
    """Rows that are not centered, in every kernel of layer norm's; sums over channels first and last."""
    for columns in (5, 1000, 300_000):
        x, weight = _zeros(dtype, (3, columns), (columns,))
        _derivatives(lambda x, w, n=columns: ck.nn.rms_norm(x, n, w), x, weight)
    x, weight = _zeros(dtype, (4, 8, 400), (8,))
    for axis, one in ((1, x), (-1, ck.zeros((4, 400, 8), dtype))):
        _derivatives(
            lambda x, w, a=axis: ck.nn.batch_norm(x, None, None, w, w, True, channel_axis=a), one, weight
        )
        _derivatives(lambda x, w, a=axis: ck.nn.group_norm(x, 2, w, w, channel_axis=a), one, weight)


def _dropout(dtype: Any) -> None:
    x = ck.zeros((40,), dtype)
    for one in (x, x[1:]):
        ck.nn.dropout(one, 0.5, ck.random.default_rng(0))


def _rotary(dtype: Any) -> None:
    x, positions, table = ck.zeros((4, 6, 64), dtype), ck.zeros((6,), "int32"), ck.zeros((6, 16))
    _derivatives(ck.nn.rotary_embedding, x)
    ck.nn.rotary_embedding(x, positions, interleaved=True, size=32)
    ck.nn.rotary_embedding(x, cos=table, sin=table, size=32)


def _resample(dtype: Any) -> None:
    """Few weights an axis, and many."""
    _derivatives(lambda x: ck.nn.interpolate(x, (12, 16), mode="linear"), ck.zeros((1, 2, 6, 8), dtype))
    _derivatives(lambda x: ck.nn.interpolate(x, 2, mode="area"), ck.zeros((1, 2, 99), dtype))


def _cross_entropy(dtype: Any) -> None:
    """Part of a warp, a warp and a block a row, in packs or not."""
    for columns in (5, 1024, 4096, 4100):
        logits, targets = ck.zeros((300, columns), dtype), ck.zeros((300,), "int64")
        _derivatives(lambda x, targets=targets: ck.nn.cross_entropy(x, targets), logits)
    _derivatives(lambda x: ck.nn.cross_entropy(x, targets, ignore_index=-100), logits)


def _attention(dtype: Any) -> None:
    """Without tensor cores and with them; every option of the kernels, and a plain call of the widest heads."""
    q, k, slope, bias, drop = (
        *_zeros(dtype, (2, 4, 40, 16), (2, 2, 48, 16), (4, 1, 1), (40, 48)),
        ck.random.default_rng(0),
    )
    lengths, starts = ck.zeros((2,), "int32"), ck.zeros((3,), "int32")

    def changed(*own: ck.Array) -> ck.Array:
        return ck.nn.attention(
            *own[:3],
            causal=True,
            window=9,
            offset="end",
            score=lambda s, b, h, i, j, x, t: ck.tanh(s) * x + b - h * j + i + t[h, i - j],
            arrays=[own[3]],
            tables=[own[4]],
            bias=own[4],
            dropout=0.5,
            rng=drop,
            key_lengths=lengths,
        )

    _derivatives(changed, q, k, k, slope, bias)
    if dtype in (ck.float32, ck.bfloat16):
        # Few queries: the keys are split.
        ck.nn.attention(q[:, :, :1], *_zeros(dtype, (2, 2, 4096, 16), (2, 2, 4096, 8)), key_lengths=lengths)
        ck.nn.KeyValueCache(2, 2, 8, 16, dtype=dtype).append(k[:, :, :1], k[:, :, 1:2])
    # Rows that are no packs of 16 bytes take no tensor cores.
    odd = ck.zeros((2, 9, 5), dtype)
    _derivatives(lambda *own: ck.nn.attention(*own, starts=(starts, starts)), odd, odd, odd)
    if dtypes.info(dtype).narrow:
        wide = ck.zeros((1, 32, 256), dtype)
        _derivatives(ck.nn.attention, wide, wide, wide)
    if dtype == ck.bfloat16:
        # Queries enough for warpgroups: a plain call, the widest heads, and functions of a score.
        _derivatives(lambda *own: ck.nn.attention(*own, causal=True), *_zeros(dtype, *[(2, 2, 64, 64)] * 3))
        ck.nn.attention(*_zeros(dtype, *[(1, 64, 256)] * 3))
        _derivatives(
            lambda *own: ck.nn.attention(
                *own[:3],
                window=9,
                offset="end",
                score=lambda s, b, h, i, j, x: ck.tanh(s) * x - h * j + i,
                arrays=own[3:],
                dropout=0.5,
                rng=drop,
            ),
            *_zeros(dtype, (2, 4, 64, 128), (2, 2, 64, 128), (2, 2, 64, 128), (4, 1, 1)),
        )


def _linear(dtype: Any) -> None:
    a, b, bias, y = _zeros(dtype, (3, 4), (4, 5), (5,), (3, 5))
    ck.Kernel("nn/linear_fused.cu", block=(32, 8))(a, b, bias, y, grid=1)


def _lltm(dtype: Any) -> None:
    """A sequence; steps that are small, and with products, in packs or not; gradients of the parameters alone."""
    _derivatives(ck.nn.lltm, *_zeros(dtype, (3, 4, 5), (18, 11), (18,), (4, 6), (4, 6)))
    for batch, state in ((4, 6), (40, 6), (40, 128)):
        weights = (3 * state, 5 + state)
        x, *parameters, h, cell = _zeros(
            dtype, (batch, 5), weights, weights[:1], (batch, state), (batch, state)
        )
        _derivatives(ck.nn.lltm_cell, x, *parameters, h, cell)
        with ck.Tape() as tape:
            tape.watch(parameters)
            total = ck.add(*(ck.sum(one) for one in ck.nn.lltm_cell(x, *parameters, h, cell)))
        tape.gradient(total, parameters)


def _pool2d(dtype: Any) -> None:
    """Tiles of one row, as for so small an array, and those of several; windows taken one by one."""
    _pool2d_as_it_is(dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pool_launch, "_BUSY", 0)
        pool_launch._plan.cache_clear()
        _pool2d_as_it_is(dtype)
    for pool in (ck.nn.avg_pool2d, ck.nn.max_pool2d):
        _derivatives(lambda x, pool=pool: pool(x, (9, 8), stride=17), *_zeros(dtype, (2, 3, 9, 8)))


def _pool2d_as_it_is(dtype: Any) -> None:
    (x,) = _zeros(dtype, (2, 3, 9, 8))
    for options in ({}, {"stride": 1, "padding": 1}, {"stride": (2, 3), "ceil_mode": True}):
        _derivatives(lambda x, given=options: ck.nn.avg_pool2d(x, 3, **given), x)
        _derivatives(lambda x, given=options: ck.nn.max_pool2d(x, 3, **given), x)
    _derivatives(lambda x: ck.nn.avg_pool2d(x, (2, 3), padding=1, count_include_pad=False), x)
    _derivatives(lambda x: ck.nn.max_pool2d(x, (2, 3), dilation=(1, 2)), x)


def _convolution(dtype: Any) -> None:
    """Products of plain tiles and those of tensor cores, of an order of axes each, and sums by threads."""
    first, last, weight = _zeros(dtype, (2, 16, 9, 8), (2, 9, 8, 16), (32, 16, 3, 3))
    image = ck.moveaxis(last, -1, 1) if dtype in (ck.float16, ck.bfloat16) else first
    _derivatives(lambda x, w: ck.nn.conv2d(x, w), image, weight)
    if dtype not in (ck.float32, ck.bfloat16):
        return
    bias, alone = _zeros(dtype, (16,), (16, 1, 3, 3))
    _derivatives(lambda x, w, b: ck.nn.conv2d(x, w, b, groups=16, activation=ck.relu), image, alone, bias)
    _derivatives(lambda x: ck.nn.unfold(x, 2), first)
    form = convolution.TF32_TILES[-1] if dtype == ck.float32 else convolution.TILES[-1]
    with pytest.MonkeyPatch.context() as patch, ck.matmul_precision("tf32"):
        patch.setattr(convolutions, "_plans", {})
        patch.setattr(convolution, "tile_for", lambda *given: form)
        _derivatives(lambda x, w: ck.nn.conv2d(x, w), image, weight)


def _optimizers(dtype: Any) -> None:
    """A step of each kind; one of more parameters than a small launch takes; masters; gradients of another dtype."""
    x, g = _zeros(dtype, (3,), (3,))
    options: tuple[dict[str, Any], ...] = ({"momentum": 0.5, "nesterov": True}, {}, {"momentum": 0.5})
    for given in options if dtype == ck.float32 else options[:1]:
        ck.optim.SGD([x], lr=1.0, **given).step([g])
    ck.optim.RMSprop([x], centered=True, momentum=0.5).step([g])
    ck.optim.AdamW([x]).step([g])
    if dtype == ck.float32:
        ck.optim.Adam([x]).step([g])
        ck.optim.RMSprop([x]).step([g])
        many = _zeros(dtype, *[(3,)] * 20)
        ck.optim.AdamW(many).step(many)
    if dtype == ck.bfloat16:
        ck.optim.AdamW([x]).step([ck.zeros(3)])
        ck.optim.AdamW([x], masters=False).step([g])


def _product(dtype: Any) -> None:
    """A batch that takes two steps."""
    a, b = (x.transpose(0, 2, 1, 3) for x in _zeros(dtype, (2, 3, 4, 5), (2, 5, 4, 3)))
    ck.matmul(a, b)
    if dtypes.info(dtype).narrow:
        c, d, bias = _zeros(dtype, (300, 128), (128, 264), (264,))
        ended = ck.fuse(lambda a, b, bias, scale: ck.gelu(a @ b * scale + bias))
        for left, fed in ((c, TMA_TILES[0]), (ck.zeros((128, 300), dtype).T, TMA_TILES[2])):
            for tile in (tensor_cores.TILES[0], tensor_cores.TILES[-1]._replace(parts=2), fed):
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(epilogue, "_plans", {})
                    patch.setattr(tensor_cores, "quickest", lambda *given, tile=tile: tile)
                    ended(left, d, bias, 0.5)
    if dtype != ck.float64:
        with pytest.MonkeyPatch.context() as patch:
            forms = ("tf32", "few rows", "few rows of float32")
            patch.setattr(
                measured, "TIMES", [measured.Times(form, 1, 64, 64, 64, True, 1, 2, 3) for form in forms]
            )
            patch.setattr(epilogue, "_plans", {})
            _products_of_other_forms(dtype)


def _products_of_other_forms(dtype: Any) -> None:
    """Of few rows, and of floats rounded to tf32."""
    ended = ck.fuse(lambda a, b, bias: ck.gelu(a @ b + bias))
    if dtype == ck.float32:
        c, d, bias = _zeros(dtype, (8, 300, 64), (8, 64, 264), (264,))
        with ck.matmul_precision("tf32"):
            ended(c, d, bias)
            ended(ck.swapaxes(ck.zeros((8, 64, 60), dtype), -1, -2), d, bias)
    weights, bias = _zeros(dtype, (64, 264), (264,))
    ended(ck.zeros((3, 64), dtype), weights, bias)
    ended(ck.zeros((64, 16), dtype).T, ck.zeros((264, 64), dtype).T, bias)
    ended(weights.T, ck.zeros((64, 9), dtype), ck.zeros((264, 1), dtype))


def _generate(dtype: Any) -> None:
    """A step of a decoder: heads, whose cache has the dtype; and the norms of its stream, and gates."""
    x, weight = _zeros("float32", (2, 3, 192), (192,))
    cache, lengths = ck.nn.KeyValueCache(2, 2, 8, 32, dtype=dtype), ck.zeros((2,), "int32")
    q, k, table = x[..., :128], x[..., 128:], ck.zeros((8, 12, 2))
    append_heads((q, k, k), HeadWeights(), table, cache, lengths, dtype == ck.float16, 1e-5)
    if dtype != ck.float32:
        return
    for post, kind in ((None, None), (weight, KINDS["Q8_0"])):
        add_norm(x, x + 1, weight, 1e-5, post, kind)
    for name, activation in (("Q4_0", "silu"), ("Q6_K", "gelu_tanh")):
        made = gated_planes(x, x, activation, KINDS[name])
    w = ck.quant.from_blocks(ck.zeros((5, KINDS["Q8_0"].row_bytes(192)), "uint8"), (5, 192), "Q8_0")
    planes.product(made._replace(kind=KINDS["Q8_0"]), w)


def _quantised(dtype: Any) -> None:
    """Every kind in bfloat16; of one all launches: planes, rows that are taken, tiles, what the host's threads run."""
    every = [kind for kind in KINDS.values() if kind.dtype is None]
    inputs = 9 * 256
    for kind in every if dtype == ck.bfloat16 else every[:1]:
        w = ck.quant.from_blocks(ck.zeros((5, kind.row_bytes(inputs)), "uint8"), (5, inputs), kind.name)
        x, wide, bias = _zeros(dtype, (1, inputs), (9, inputs), (5,))
        if dtype == ck.float64:
            w.dequantize(dtype)
        else:
            few_rows.product(x, w, None)
        if dtype == ck.bfloat16 and kind.name in ("Q4_0", "Q6_K"):
            for tile in (tensor_cores.TILES[1], tensor_cores.TILES[-1]):
                tiles.product(wide, w, bias, tile=tile)
    if dtype == ck.float32:
        ck.quant.take(w, [1], dtype)
        ck.quant.quantize(x, "Q4_0")
        few_rows.product(wide[:8], w, bias)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(few_rows, "_is_serial", lambda device: True)
            few_rows.product(x, w, bias)


def _clip(dtype: Any) -> None:
    ck.optim.clip_by_global_norm(_zeros(dtype, (3,), (4,)), 1.0)


#: What launches the kernels of the templates, in their variants: for every dtype, and for the floating ones.
EVERY: tuple[Callable[[Any], None], ...] = (
    _elementwise,
    _reduce,
    _index,
    _moving,
    _sorting,
    _scan,
    _convolve,
    _histogram,
    _at,
)
FLOATING: tuple[Callable[[Any], None], ...] = (
    _matmul_add_relu,
    _layer_norm,
    _norms,
    _dropout,
    _rotary,
    _resample,
    _cross_entropy,
    _attention,
    _linear,
    _lltm,
    _pool2d,
    _convolution,
    _optimizers,
    _generate,
    _clip,
    _compact,
    _random,
    _softmax,
    _product,
    _quantised,
)
#: Dtypes whose kernels are those of another integer but for the type's name.
ALIKE = [np.dtype(name) for name in ("int16", "uint16", "uint32")]
#: Those whose kernels are optimised, which shows the loads that they get; of the others it is thorough.
OPTIMISED = [ck.float32, ck.bfloat16]
#: What computes real numbers alone.
REAL = (_convolve, _histogram)
CASES = [
    (launch, dtype)
    for launch in EVERY
    for dtype in dtypes.ALL
    if dtype not in ALIKE and not (launch in REAL and dtype in dtypes.COMPLEX)
]
CASES += [(launch, dtype) for launch in FLOATING for dtype in dtypes.FLOATS]


@pytest.mark.parametrize(
    ("launch", "dtype"), CASES, ids=[f"{launch.__name__[1:]}-{dtype}" for launch, dtype in CASES]
)
def test_kernels_compile(
    gpu: Gpu, monkeypatch: pytest.MonkeyPatch, launch: Callable[[Any], None], dtype: Any
) -> None:
    monkeypatch.setattr(gpu, "optimises", dtype in OPTIMISED)
    launch(dtype)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("launch", "dtype"),
    [
        pytest.param(*case, id=f"{case[0].__name__[1:]}-{case[1]}")
        for case in CASES
        if case[1] not in OPTIMISED
    ],
)
def test_kernels_compile_when_optimised(launch: Callable[[Any], None], dtype: Any) -> None:
    with gpu_without_one():
        launch(dtype)


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ALIKE, ids=str)
@pytest.mark.parametrize("launch", EVERY)
def test_kernels_of_similar_dtypes_compile(gpu: Gpu, launch: Callable[[Any], None], dtype: Any) -> None:
    launch(dtype)


@pytest.mark.thorough
def test_every_reduction_compiles_in_every_way(gpu: Gpu) -> None:
    _reduce(ck.float32, everything=True)


@pytest.mark.parametrize("dtype", ["bfloat16", "float64", "int32"])
def test_a_users_own_functions_compile(gpu: Gpu, dtype: str) -> None:
    kind = "integral" if dtype == "int32" else "real floating"
    own = ck.elementwise("own", "x - y * 2", kind=kind, vjp=lambda g, x, y, r: (g, -2 * g))
    most = ck.reduction("most", "x", "a > b ? a : b", "a", identity=-np.inf, kind=kind)
    x, y = _zeros(dtype, (3, 40), (40,))
    own(x, y)
    for axis in (0, 1):
        most(x, axis=axis)
    if dtype != "int32":
        length = ck.reduction(
            "length", "x * x", "a + b", "sqrt(a)", identity=0, vjp=lambda g, x, y, n: g * x / y
        )
        _derivatives(lambda x: length(own(x, y), axis=1), x)
    with pytest.raises(ck.CompileError, match='identifier "nosuch" is undefined'):
        ck.elementwise("bad", "nosuch(x)", kind=kind)(x)


def test_every_template_is_compiled() -> None:
    """The cases above compile; here they show by rendering that they leave out no template."""
    with gpu_without_one(compiles=False) as gpu:
        for launched in (*EVERY, *FLOATING):
            launched(ck.float32)
        _product(ck.bfloat16)
        _attention(ck.bfloat16)
    names = {str(path.relative_to(render.TEMPLATES)) for path in render.TEMPLATES.rglob("*.cu")}
    missing = names - gpu.templates
    assert not missing, f"add a function that launches {missing}, and name it in EVERY or FLOATING"
