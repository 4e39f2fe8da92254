"""Launches of the kernels of layers, products and optimizers, in their variants."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

from array_launches import (
    arrays,
    launch_compact,
    launch_random,
    launch_row_programs,
    launch_segment_programs,
    launch_softmax,
    launch_sparse,
    with_derivatives,
)

import cukern as ck
from cukern import dtypes
from cukern.elementwise.many import split
from cukern.generate.kernels import HeadWeights, Scores, add_norm, append_heads, attend, gated_planes
from cukern.launch.family import Family, Used
from cukern.linear.families import PRODUCT
from cukern.linear.tma import TF32_TMA_TILES, TMA_TILES
from cukern.linear.variants import OneLaunch, Simt, TensorCores
from cukern.nn.convolution.families import (
    CONVOLUTION,
    DEPTHWISE,
    DEPTHWISE_WEIGHTS,
    WEIGHTS_GRADIENT,
    weights_gradient,
)
from cukern.nn.convolution.problem import Windows
from cukern.nn.pooling.families import GRADIENT as POOLING_GRADIENT
from cukern.nn.pooling.families import POOLING
from cukern.nn.pooling.variants import Tiles, TilesGradient
from cukern.nn.recurrence import stacked
from cukern.nn.recurrent import _gru_step, _lstm_step
from cukern.quant import planes
from cukern.quant.families import QUANTISED
from cukern.quant.kinds import KINDS
from cukern.shape.copy import copying


def launch_layer_norm(dtype: Any) -> None:
    for columns in (5, 64, 1000, 8192, 40_000, 300_000):
        x, weight, bias = arrays(dtype, (3, columns), (columns,), (columns,))
        with_derivatives(lambda x, w, b, n=columns: ck.nn.layer_norm(x, n, w, b), x, weight, bias)
        for given in ((), (weight,), (None, bias)) if columns in (1000, 40_000) else ():
            with_derivatives(lambda x, n=columns, own=given: ck.nn.layer_norm(x, n, *own), x)


def launch_norms(dtype: Any) -> None:
    """Rows that are not centered, in every kernel of layer norm's; sums over channels first and last."""
    for columns in (5, 1000, 300_000):
        x, weight = arrays(dtype, (3, columns), (columns,))
        with_derivatives(lambda x, w, n=columns: ck.nn.rms_norm(x, n, w), x, weight)
        with_derivatives(lambda x, r, n=columns: ck.nn.add_rms_norm(x, r, n), x, x)
        with_derivatives(lambda x, r, w, n=columns: ck.nn.add_layer_norm(x, r, n, w, w), x, x, weight)
    x, weight = arrays(dtype, (4, 8, 400), (8,))
    for axis, one in ((1, x), (-1, ck.zeros((4, 400, 8), dtype))):
        with_derivatives(
            lambda x, w, a=axis: ck.nn.batch_norm(x, None, None, w, w, True, channel_axis=a), one, weight
        )
        with_derivatives(lambda x, w, a=axis: ck.nn.group_norm(x, 2, w, w, channel_axis=a), one, weight)
        with_derivatives(
            lambda x, w, a=axis: ck.nn.group_norm(x, 2, w, w, channel_axis=a, activation=ck.gelu), one, weight
        )
    if dtype != ck.bfloat16:
        return
    mean, variance = arrays(ck.float64, (8,), (8,))
    for training in (True, False):
        with_derivatives(
            lambda x, w, t=training: ck.nn.batch_norm(x, mean, variance, w, w, t, channel_axis=-1),
            ck.zeros((4, 400, 8), dtype),
            weight,
        )
        with_derivatives(
            lambda x, w, t=training: ck.nn.batch_norm(x, mean, variance, w, w, t, activation=ck.silu),
            x,
            weight,
        )
    # As many as keep a GPU busy by clusters, of channels, and of instances, and by all its blocks together.
    for function, shape, axis in (
        (lambda x, w: ck.nn.batch_norm(x, None, None, w, w, True), (4, 34, 16384), 1),
        (lambda x, w: ck.nn.group_norm(x, 2, w, w, channel_axis=-1), (17, 1600, 64), 2),
        (lambda x, w: ck.nn.group_norm(x, 2, w, w, channel_axis=-1, activation=ck.silu), (17, 1600, 64), 2),
        (lambda x, w: ck.nn.batch_norm(x, None, None, w, w, True, channel_axis=-1), (24600, 64), 1),
        # And of these more than have a place at a time.
        (lambda x, w: ck.nn.batch_norm(x, None, None, w, w, True), (4, 700, 400), 1),
        (lambda x, w: ck.nn.batch_norm(x, None, None, w, w, True, activation=ck.silu), (4, 700, 400), 1),
        (lambda x, w: ck.nn.batch_norm(x, None, None, w, w, True, channel_axis=-1), (200, 8576), 1),
    ):
        with_derivatives(function, ck.zeros(shape, dtype), ck.zeros((shape[axis],), dtype))


def launch_dropout(dtype: Any) -> None:
    x = ck.zeros((40,), dtype)
    for one in (x, x[1:]):
        ck.nn.dropout(one, 0.5, ck.random.default_rng(0))


def launch_rotary(dtype: Any) -> None:
    x, positions, table = ck.zeros((4, 6, 64), dtype), ck.zeros((6,), "int32"), ck.zeros((6, 16))
    with_derivatives(ck.nn.rotary_embedding, x)
    ck.nn.rotary_embedding(x, positions, interleaved=True, size=32)
    ck.nn.rotary_embedding(x, cos=table, sin=table, size=32)


def launch_resample(dtype: Any) -> None:
    """Few weights an axis, at equal distances or not, and many."""
    for rows, columns in ((6, 8), (5, 16)):
        x = ck.zeros((1, 2, rows, columns), dtype)
        with_derivatives(lambda x: ck.nn.interpolate(x, (12, 32), mode="linear"), x)
    with_derivatives(lambda x: ck.nn.interpolate(x, 2, mode="area"), ck.zeros((1, 2, 99), dtype))


def launch_cross_entropy(dtype: Any) -> None:
    """Part of a warp, a warp and a block a row, in packs or not."""
    for columns in (5, 1024, 4096, 4100):
        logits, targets = ck.zeros((300, columns), dtype), ck.zeros((300,), "int64")
        with_derivatives(lambda x, targets=targets: ck.nn.cross_entropy(x, targets), logits)
    with_derivatives(lambda x: ck.nn.cross_entropy(x, targets, ignore_index=-100), logits)
    x, weight = arrays(dtype, (300, 24), (4100, 24))
    with_derivatives(lambda x, w: ck.nn.linear_cross_entropy(x, w, targets, chunks=2), x, weight)


def launch_attention(dtype: Any) -> None:
    """Without tensor cores and with them; every option of the kernels, and a plain call of the widest heads."""
    q, k, slope, bias, drop = (
        *arrays(dtype, (2, 4, 40, 16), (2, 2, 48, 16), (4, 1, 1), (40, 48)),
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

    with_derivatives(changed, q, k, k, slope, bias)
    if dtype in (ck.float32, ck.bfloat16):
        # Few queries: the keys are split.
        ck.nn.attention(q[:, :, :1], *arrays(dtype, (2, 2, 4096, 16), (2, 2, 4096, 8)), key_lengths=lengths)
        ck.nn.KeyValueCache(2, 2, 8, 16, dtype=dtype).append(k[:, :, :1], k[:, :, 1:2])
        # A mask that may empty tiles.
        mask = ck.zeros((2, 1, 256, 256), "bool")
        with_derivatives(
            lambda *own: ck.nn.attention(*own, mask=mask),
            *arrays(dtype, (2, 4, 256, 16), (2, 2, 256, 16), (2, 2, 256, 16)),
        )
    # Rows that are no packs of 16 bytes take no tensor cores.
    odd = ck.zeros((2, 9, 5), dtype)
    with_derivatives(lambda *own: ck.nn.attention(*own, starts=(starts, starts)), odd, odd, odd)
    if dtypes.info(dtype).narrow:
        wide = ck.zeros((1, 32, 256), dtype)
        with_derivatives(ck.nn.attention, wide, wide, wide)


def launch_attention_of_warpgroups(dtype: Any, everything: bool = False) -> None:
    """Queries enough for warpgroups: a plain call, the widest heads, functions of a score; their derivatives if all."""
    if dtype != ck.bfloat16:
        return
    drop = ck.random.default_rng(0)
    with_derivatives(lambda *own: ck.nn.attention(*own, causal=True), *arrays(dtype, *[(2, 2, 64, 64)] * 3))
    ck.nn.attention(*arrays(dtype, *[(1, 64, 256)] * 3))

    def changed(*own: ck.Array) -> ck.Array:
        return ck.nn.attention(
            *own[:3],
            window=9,
            offset="end",
            score=lambda s, b, h, i, j, x: ck.tanh(s) * x - h * j + i,
            arrays=own[3:],
            dropout=0.5,
            rng=drop,
        )

    def by_place(*own: ck.Array, deterministic: bool = False) -> ck.Array:
        """A table by the distance, an array by tiles, and a condition."""
        n = own[0].shape[-2]
        return ck.nn.attention(
            *own,
            score=lambda s, b, h, i, j, t, of: ck.where(of[i] == of[j], s + t[h, j - i + n], -float("inf")),
            tables=[ck.zeros((2, 2 * n)), ck.zeros((n,), "int32")],
            bias=None if deterministic else ck.zeros((n, n), dtype),
            deterministic=deterministic,
        )

    given = arrays(dtype, (2, 4, 64, 128), (2, 2, 64, 128), (2, 2, 64, 128), (4, 1, 1))
    masked = arrays(dtype, (1, 4, 128, 128), (1, 2, 128, 128), (1, 2, 128, 128))
    mask = ck.zeros((4, 128, 128), "bool")
    if everything:
        for options in ({}, {"deterministic": True, "causal": True}):
            with_derivatives(lambda *own, o=options: ck.nn.attention(*own, mask=mask, **o), *masked)
        with_derivatives(changed, *given)
        with_derivatives(lambda *own: ck.nn.attention(*own, deterministic=True), *given[:3])
        with_derivatives(ck.nn.attention, *given[:3])
        with_derivatives(ck.nn.attention, *arrays(dtype, *[(1, 64, 256)] * 3))
        for features in (64, 128):
            with_derivatives(
                lambda *own: ck.nn.attention(*own, score=lambda s, *_: 30 * ck.tanh(s / 30)),
                *arrays(dtype, *[(2, 2, 64, features)] * 3),
            )
            with_derivatives(by_place, *arrays(dtype, *[(2, 2, 192, features)] * 3))
        with_derivatives(
            lambda *own: by_place(*own, deterministic=True), *arrays(dtype, *[(2, 2, 192, 64)] * 3)
        )
    else:
        changed(*given)
        by_place(*arrays(dtype, *[(2, 2, 192, 64)] * 3))
        ck.nn.attention(*masked, mask=mask)


def launch_linear(dtype: Any) -> None:
    a, b, bias, y = arrays(dtype, (3, 4), (4, 5), (5,), (3, 5))
    ck.Kernel("nn/linear_fused.cu", block=(32, 8))(a, b, bias, y, grid=1)


def launch_pool2d(dtype: Any) -> None:
    """Tiles of one row, as for so small an array, and those of several; windows taken one by one."""
    small, large = arrays(dtype, (2, 3, 9, 8), (64, 64, 33, 32))
    launch_pool2d_of(small)
    one = small.device.properties._replace(multiprocessors=1)
    names = "tiles", "portable", "channels last"
    with POOLING.only(*names, limits=one) as used, POOLING_GRADIENT.only(*names, limits=one) as others:
        launch_pool2d_of(large)
    assert {type(config) for config in (*used, *others) if getattr(config, "rows", 1) > 1} == {
        Tiles,
        TilesGradient,
    }
    for pool in (ck.nn.avg_pool2d, ck.nn.max_pool2d):
        with_derivatives(lambda x, pool=pool: pool(x, (9, 8), stride=17), small)
        with_derivatives(lambda x, pool=pool: pool(ck.moveaxis(x, -1, 1), 3), *arrays(dtype, (2, 9, 8, 16)))


def launch_pool2d_of(x: ck.Array) -> None:
    for options in ({}, {"stride": 1, "padding": 1}, {"stride": (2, 3), "ceil_mode": True}):
        with_derivatives(lambda x, given=options: ck.nn.avg_pool2d(x, 3, **given), x)
        with_derivatives(lambda x, given=options: ck.nn.max_pool2d(x, 3, **given), x)
    with_derivatives(lambda x: ck.nn.avg_pool2d(x, (2, 3), padding=1, count_include_pad=False), x)
    with_derivatives(lambda x: ck.nn.max_pool2d(x, (2, 3), dilation=(1, 2)), x)


def launch_convolution(dtype: Any) -> None:
    """By every variant that takes a call: few channels and many, of both orders, windows of several sizes, a bias."""
    narrow = dtype in (ck.float16, ck.bfloat16)
    if dtype not in (ck.float32, ck.bfloat16):
        x, weight = arrays(dtype, (2, 16, 9, 8), (32, 16, 3, 3))
        return with_derivatives(lambda x, w: ck.nn.conv2d(x, w), x, weight)
    with_derivatives(lambda x: ck.nn.unfold(x, 2), *arrays(dtype, (2, 16, 9, 8)))
    calls: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
        ((2, 64, 6, 14), (64, 64, 3, 3), {"padding": 1}),
        ((2, 64, 6, 14), (64, 64, 3, 3), {"stride": 2}),
        ((2, 16, 9, 8), (3, 16, 3, 3), {}),
        ((2, 3, 9, 9), (64, 3, 3, 3), {"stride": 2, "padding": 1}),
        ((2, 16, 8, 8), (32, 16, 1, 1), {}),
        ((2, 16, 8, 8), (16, 1, 3, 3), {"groups": 16, "padding": 1}),
    ]
    dense, depthwise = (CONVOLUTION, WEIGHTS_GRADIENT), (DEPTHWISE, DEPTHWISE_WEIGHTS)
    for shape, weights, options in calls:
        for last in (False, True):
            x, w, bias = arrays(dtype, shape, weights, (weights[0],))
            x = ck.moveaxis(ck.moveaxis(x, 1, -1).contiguous(), -1, 1) if last else x

            def call(x: Any, w: Any, bias: Any = bias, options: dict[str, Any] = options) -> Any:
                return ck.nn.conv2d(x, w, bias if weights[0] == 3 else None, **options)  # noqa: B023

            for family in depthwise if "groups" in options else dense:
                for name in family.variants:
                    run_only(family, name, partial(with_derivatives, call, x, w))
    image = ck.moveaxis(ck.zeros((2, 8, 8, 64), dtype), -1, 1)
    windows = Windows((1, 1), (1, 1), (1, 1), 64)
    for name in DEPTHWISE_WEIGHTS.variants:  # both arrays with channels innermost
        run_only(DEPTHWISE_WEIGHTS, name, partial(weights_gradient, image, image, windows, (3, 3), True))
    if narrow:
        weight, each = arrays(dtype, (64, 64, 3, 3), (2, 64, 1, 1))
        then = ck.jit(lambda x, w, t: ck.relu(ck.nn.conv2d(x, w, padding=1) * 2 + t + x))
        run_only(CONVOLUTION, "tma bands", partial(then, image, weight, each))
    else:
        with ck.matmul_precision("tf32"):
            for family in dense:
                given = arrays(dtype, (2, 64, 6, 14), (64, 64, 3, 3))
                run_only(family, "tensor cores", partial(with_derivatives, ck.nn.conv2d, *given))


def run_only(family: Family[Any], name: str, call: Callable[[], object]) -> None:
    """Call a function with one variant of a family, if that fits."""
    with family.only(name):
        try:
            call()
        except ck.LaunchError as error:
            if "no variant fits" not in str(error):
                raise


def launch_optimizers(dtype: Any) -> None:
    """A step of each kind; one of more parameters than a small launch takes; masters; gradients of another dtype."""
    x, g = arrays(dtype, (3,), (3,))
    options: tuple[dict[str, Any], ...] = ({"momentum": 0.5, "nesterov": True}, {}, {"momentum": 0.5})
    for given in options if dtype == ck.float32 else options[:1]:
        ck.optim.SGD([x], lr=1.0, **given).step([g])
    ck.optim.RMSprop([x], centered=True, momentum=0.5).step([g])
    ck.optim.AdamW([x]).step([g])
    if dtype == ck.float32:
        ck.optim.Adam([x]).step([g])
        ck.optim.RMSprop([x]).step([g])
        many = arrays(dtype, *[(3,)] * 20)
        ck.optim.AdamW(many).step(many)
    if dtype == ck.bfloat16:
        ck.optim.AdamW([x]).step([ck.zeros(3)])
        ck.optim.AdamW([x], masters=False).step([g])


def launch_product(dtype: Any, everything: bool = False) -> None:
    """A batch that takes two steps; of each variant a tile with what follows the product, and with the product saved.

    The tiles that are finished while the next is multiplied take long to compile: one of each kind, or all.
    """
    a, b = (x.transpose(0, 2, 1, 3) for x in arrays(dtype, (2, 3, 4, 5), (2, 5, 4, 3)))
    ck.matmul(a, b)
    ended = ck.fuse(lambda a, b, bias, scale: ck.gelu(a @ b * scale + bias))
    added = ck.fuse(lambda a, b, bias, other: ck.gelu(a @ b + bias) + other)
    c, d, bias = arrays(dtype, (304, 128), (128, 264), (264,))
    turned = ck.zeros((128, 304), dtype).T
    configs: list[OneLaunch] = [Simt(64, 64 // dtypes.info(dtype).acc.itemsize)]
    if dtypes.info(dtype).narrow:
        configs += [TensorCores(*TensorCores.tiles[0]), TensorCores(*TensorCores.tiles[-1])]
        configs += [replace(TMA_TILES[i], blocks=2) for i in (0, 2, 3)]
        for tile in (TMA_TILES[4], TMA_TILES[6]) if everything else (TMA_TILES[6],):
            with only(replace(tile, blocks=2)):
                added(c, d, bias, ck.zeros((304, 264), dtype))
    for config in configs:
        with only(config):
            deferred = getattr(config, "deferred", False)
            for left in (c, turned) if everything else (c,) if deferred else (turned,):
                ended(left, d, bias, 0.5)
            if not deferred:
                saved(lambda x: ended(c, x, bias, 0.5), d)
    launch_rows_of_products(dtype)
    if dtype != ck.float64:
        launch_products_of_other_forms(dtype)


def only(config: OneLaunch) -> AbstractContextManager[Used]:
    """Products of these constants, where the variant takes them."""
    return PRODUCT.only(config.name, "library", **PRODUCT.fields(config))


def saved(function: Callable[[ck.Array], ck.Array], x: ck.Array) -> None:
    """Under a tape, whose derivative reads the product."""
    with ck.Tape() as tape:
        tape.watch(x)
        function(x)


def launch_rows_of_products(dtype: Any) -> None:
    """Reduced on tensor cores and without, by several reductions; once with the product saved."""
    a, b, bias = arrays(dtype, (300, 128), (128, 56), (56,))
    made = [ck.fuse(lambda a, b, bias, f=f: f(ck.tanh(a @ b + bias), axis=-1)) for f in (ck.sum, ck.argmax)]
    configs: list[OneLaunch] = [Simt(64, 64 // dtypes.info(dtype).acc.itemsize)]
    if dtypes.info(dtype).narrow:
        configs += [TensorCores(*TensorCores.tiles[i]) for i in (1, -1)]
    for config in configs:
        with only(config):
            for one in made:
                one(a, b, bias)
            made[0](a, ck.zeros((56, 128), dtype).T, ck.zeros((300, 1), dtype))
            saved(lambda x: made[0](a, x, bias), b)


def launch_products_of_other_forms(dtype: Any) -> None:
    """Of few rows, by one thread a tile, and of floats rounded to tf32."""
    ended = ck.fuse(lambda a, b, bias: ck.gelu(a @ b + bias))
    weights, bias = arrays(dtype, (64, 264), (264,))
    if dtype == ck.float32:
        with PRODUCT.only("panels", "library"):
            saved(lambda x: ended(x, weights, bias), ck.zeros((3, 64), dtype))
            least = ck.fuse(lambda a, b: (a @ b).min(axis=1))
            saved(lambda x: least(x, weights), ck.zeros((3, 64), dtype))
    with PRODUCT.only("few rows"):
        if dtype != ck.float32:
            ended(*arrays(dtype, (16, 64), (64, 4096), (4096,)))  # clusters share the rows
        ended(ck.zeros((3, 64), dtype), weights, bias)
        few = 16 if dtypes.info(dtype).narrow else 4
        ended(ck.zeros((64, few), dtype).T, ck.zeros((264, 64), dtype).T, bias)
        ended(weights.T, ck.zeros((64, few), dtype), ck.zeros((264, 1), dtype))
    if dtype == ck.float32:
        c, d = ck.zeros((8, 300, 64), dtype), ck.swapaxes(ck.zeros((8, 264, 64), dtype), -1, -2)
        for tile in TF32_TMA_TILES:
            with only(replace(tile, blocks=2)), ck.matmul_precision("tf32"):
                ended(c, d, bias)
                saved(lambda x: ended(c, d, x), bias)


def launch_generate(dtype: Any) -> None:
    """A step of a decoder: heads, whose cache has the dtype; and the norms of its stream, and gates."""
    x, weight = arrays("float32", (2, 3, 192), (192,))
    cache, lengths = ck.nn.KeyValueCache(2, 2, 8, 32, dtype=dtype), ck.zeros((2,), "int32")
    q, k, table = x[..., :128], x[..., 128:], ck.zeros((8, 12, 2))
    heads = (q, k, k), HeadWeights(), table, cache, lengths, dtype == ck.float16, 1e-5
    append_heads(*heads)
    if dtype in (ck.float16, ck.float32):
        kind, scores = (KINDS["Q8_0"], Scores(1.0)) if dtype == ck.float16 else (None, Scores(1.0, 2.0, 3))
        attend(tuple(one[:, :1] for one in heads[0]), *heads[1:], scores, kind)
    if dtype != ck.float32:
        return
    for post, kind in ((None, None), (weight, KINDS["Q8_0"])):
        add_norm(x, x + 1, weight, 1e-5, post, kind)
    for name, activation in (("Q4_0", "silu"), ("Q6_K", "gelu_tanh")):
        made = gated_planes(x, x, activation, KINDS[name])
    w = ck.quant.from_blocks(ck.zeros((5, KINDS["Q8_0"].row_bytes(192)), "uint8"), (5, 192), "Q8_0")
    planes.product(made._replace(kind=KINDS["Q8_0"]), w)
    planes.product(planes.Normed(weight, weight, 1e-5), w, added=ck.zeros((1, 5)))
    pair = ck.quant.from_blocks(ck.zeros((4400, KINDS["Q4_0"].row_bytes(192)), "uint8"), (4400, 192), "Q4_0")
    planes.product(planes.Normed(weight, weight, 1e-5), pair, gate="gelu_tanh")


def launch_quantised(dtype: Any) -> None:
    """Every kind in bfloat16; of one all launches: planes, rows that are taken, tiles, what the host's threads run."""
    every = [kind for kind in KINDS.values() if kind.dtype is None]
    inputs = 9 * 256
    for kind in every if dtype == ck.bfloat16 else every[:1]:
        w = ck.quant.from_blocks(ck.zeros((5, kind.row_bytes(inputs)), "uint8"), (5, inputs), kind.name)
        x, wide, bias = arrays(dtype, (1, inputs), (9, inputs), (5,))
        if dtype == ck.float64:
            w.dequantize(dtype)
        else:
            ck.quant.linear(x, w)
        if dtype == ck.bfloat16 and kind.name in ("Q4_0", "Q6_K"):
            for i in (1, -1):
                m, n = TensorCores.tiles[i][:2]
                with QUANTISED.only("tiles", tile_m=m, tile_n=n, grouped=i > 0):
                    ck.quant.linear(wide, w, bias)
            w = ck.quant.from_blocks(ck.zeros((72, kind.row_bytes(2048)), "uint8"), (72, 2048), kind.name)
            for size in ((64, 8, 1), (256, 4, 2)):
                with QUANTISED.only(
                    "warpgroups", **dict(zip(("tile_n", "stages", "shares"), size, strict=True))
                ):
                    ck.quant.linear(ck.zeros((9, 2048), dtype), w, ck.zeros(72, dtype))
    if dtype == ck.float32:
        ck.quant.take(w, [1], dtype)
        ck.quant.quantize(x, "Q4_0")
        ck.quant.linear(wide[:8], w, bias)
        with QUANTISED.only("serial", limits=ck.Device("host").properties):
            ck.quant.linear(x, w, bias)


def launch_recurrent(dtype: Any) -> None:
    """Steps whose rows begin at multiples of 16 bytes, and others."""
    for size in (6, 32):
        for step, gates, states in ((_lstm_step, 4, 2), (_gru_step, 3, 1)):
            shapes = (2, 3, gates * size), (gates * size, size), (gates * size,), *[(3, size)] * states

            def along(x: Any, weight: Any, bias: Any, *state: Any, step: Any = step) -> Any:
                return stacked(step, False, x, [(None, None, weight, bias, state)])[0]

            with_derivatives(along, *arrays(dtype, *shapes))


def launch_many(dtype: Any) -> None:
    """Kernels for many arrays."""
    given = arrays(dtype, (3,), (4,))
    ck.optim.clip_by_global_norm(given, 1.0)
    copy = copying(dtypes.info(given[0].dtype).bits)
    ((_, plan),) = split(copy, given[0].device, [one._planned() for one in given])
    plan.run(given)


#: What takes floating dtypes alone.
FLOATING: tuple[Callable[[Any], None], ...] = (
    launch_layer_norm,
    launch_norms,
    launch_dropout,
    launch_rotary,
    launch_resample,
    launch_cross_entropy,
    launch_attention,
    launch_attention_of_warpgroups,
    launch_linear,
    launch_recurrent,
    launch_pool2d,
    launch_convolution,
    launch_optimizers,
    launch_generate,
    launch_many,
    launch_compact,
    launch_random,
    launch_row_programs,
    launch_segment_programs,
    launch_softmax,
    launch_sparse,
    launch_product,
    launch_quantised,
)
