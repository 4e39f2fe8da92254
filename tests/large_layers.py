"""Cases of more than 2**31 elements: the functions of ``cukern.nn``, and their gradients.

Most take a batch whose members do not depend on each other: the last members of the result, and of the gradient, are
those that the last members alone give. Some take one image of so many pixels: its last corner is that of a piece around
the corner.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from large_inputs import Case, Inputs, host, tail

import cukern as ck
from cukern import nn

Function = Callable[[ck.Array], ck.Array]


def draw(seed: int, *shape: int) -> ck.Array:
    return ck.random.default_rng(seed).uniform(0.1, 0.9, shape, dtype="bfloat16")


def batch(a: Inputs, *member: int) -> ck.Array:
    """So many members that there are at least as many elements as in the other cases."""
    return draw(0, -(-a.n // int(np.prod(member))), *member)


def last(f: Function, x: ck.Array, gradient: bool) -> list[Any]:
    """The last two members of ``f(x)``, and of the gradient for a cotangent of its squares, which differ."""
    if not gradient:
        return [host(tail(f(x), 2))]
    with ck.Tape() as tape:
        tape.watch([x])
        y = f(x)
    (made,) = tape.gradient(y, [x], output_gradients=[y * y])
    return [host(tail(y, 2)), host(tail(made, 2))]


def members(a: Inputs, f: Function, *member: int, gradient: bool = True) -> Case:
    @cache
    def right() -> list[Any]:
        return last(f, tail(batch(a, *member), 2), gradient)

    def scaled(parts: list[Any]) -> Any:
        """Small numbers count as much as others."""
        sizes = [min(1.0, np.abs(one).max()) for one in right()]
        assert min(sizes) > 1e-5, sizes
        return np.concatenate([one.ravel() / size for one, size in zip(parts, sizes, strict=True)])

    return Case(lambda: scaled(last(f, batch(a, *member), gradient)), lambda: scaled(right()), 0.03)


def corner(a: Inputs, f: Function, size: int = 6) -> Case:
    """Of an image of one channel; its sides are multiples of 64."""
    side = 64 * -(-int(a.n**0.5 + 1) // 64)

    def made() -> Any:
        return host(f(draw(0, 1, 1, side, side))[:, :, -size:, -size:])

    def wanted() -> Any:
        return host(f(draw(0, 1, 1, side, side)[:, :, -64:, -64:].copy())[:, :, -size:, -size:])

    return Case(made, wanted, 0.03)


def images(a: Inputs) -> dict[str, Case]:
    kernel, depthwise, line, block = (
        draw(1, 4, 4, 3, 3),
        draw(2, 4, 1, 3, 3),
        draw(3, 4, 4, 3),
        draw(4, 4, 4, 2, 2, 2),
    )
    one = draw(5, 1, 1, 3, 3)
    plane: dict[str, Function] = {
        "conv2d": lambda x: nn.conv2d(x, kernel, padding=1),
        "conv2d depthwise": lambda x: nn.conv2d(x, depthwise, padding=1, groups=4),
        "conv2d stride": lambda x: nn.conv2d(x, kernel, padding=1, stride=2),
        "conv_transpose2d": lambda x: nn.conv_transpose2d(x, kernel, padding=1),
        "avg_pool2d": lambda x: nn.avg_pool2d(x, 2),
        "max_pool2d": lambda x: nn.max_pool2d(x, 3, stride=2),
        "adaptive_avg_pool2d": lambda x: nn.adaptive_avg_pool2d(x, 3),
        "adaptive_max_pool2d": lambda x: nn.adaptive_max_pool2d(x, 3),
        "interpolate": lambda x: nn.interpolate(x, scale_factor=0.5, mode="bilinear"),
        "interpolate nearest": lambda x: nn.interpolate(x, scale_factor=2),
        "pixel_shuffle": lambda x: nn.pixel_shuffle(x, 2),
        "pixel_unshuffle": lambda x: nn.pixel_unshuffle(x, 2),
        "pad": lambda x: nn.pad(x, 1, "reflect"),
        "batch_norm": lambda x: nn.batch_norm(x, *_running()),
        "group_norm": lambda x: nn.group_norm(x, 2),
        "unfold": lambda x: nn.unfold(x, 2, stride=2),
    }
    made = {f"nn.{name}": members(a, f, 4, 16, 16) for name, f in plane.items()}
    made["nn.fold"] = members(a, lambda x: nn.fold(x, 16, 2, stride=2), 16, 64)
    other: dict[str, tuple[Function, tuple[int, ...]]] = {
        "conv1d": (lambda x: nn.conv1d(x, line, padding=1), (4, 256)),
        "conv_transpose1d": (lambda x: nn.conv_transpose1d(x, line, padding=1), (4, 256)),
        "conv3d": (lambda x: nn.conv3d(x, block), (4, 8, 8, 8)),
        "conv_transpose3d": (lambda x: nn.conv_transpose3d(x, block), (4, 8, 8, 8)),
    }
    for axes, shape in ((1, (4, 256)), (3, (4, 8, 8, 8))):
        for name in ("avg_pool", "max_pool", "adaptive_avg_pool", "adaptive_max_pool"):
            pool = getattr(nn, f"{name}{axes}d")
            other[f"{name}{axes}d"] = (lambda x, pool=pool: pool(x, 2), shape)
    made |= {f"nn.{name}": members(a, f, *shape) for name, (f, shape) in other.items()}
    whole: dict[str, Function] = {
        "conv2d": lambda x: nn.conv2d(x, one, padding=1),
        "avg_pool2d": lambda x: nn.avg_pool2d(x, 2),
        "max_pool2d": lambda x: nn.max_pool2d(x, 2),
        "interpolate": lambda x: nn.interpolate(x, scale_factor=0.5, mode="bilinear"),
        "pixel_unshuffle": lambda x: nn.pixel_unshuffle(x, 2),
        "pad": lambda x: nn.pad(x, 1, "reflect"),
    }
    return made | {f"nn.{name} of one image": corner(a, f) for name, f in whole.items()}


def _running() -> tuple[ck.Array, ck.Array]:
    return ck.asarray([0.1, 0.2, 0.3, 0.4]), ck.asarray([1.0, 2.0, 3.0, 4.0])


def rows(a: Inputs) -> dict[str, Case]:
    square, narrow, bias = draw(1, 256, 256), draw(2, 16, 256), draw(3, 256)
    few, state = 64, draw(4, 96, 64 + 32) - 0.5
    plain: dict[str, Function] = {
        name: getattr(nn, name)
        for name in (
            "elu",
            "gelu",
            "gelu_tanh",
            "leaky_relu",
            "log_sigmoid",
            "relu",
            "sigmoid",
            "silu",
            "softplus",
        )
        + ("softsign", "tanh")
    }
    plain |= {
        "layer_norm": lambda x: nn.layer_norm(x, 256),
        "rms_norm": lambda x: nn.rms_norm(x, 256),
        "softmax": lambda x: nn.softmax(8 * x, -1),
        "log_softmax": lambda x: nn.log_softmax(x, -1),
        "linear": lambda x: nn.linear(x, square, bias),
        "matmul_add_relu": lambda x: nn.matmul_add_relu(x, square, bias),
        "l1_loss": lambda x: nn.l1_loss(x, _halves(x), reduction="none"),
        "mse_loss": lambda x: nn.mse_loss(x, _halves(x), reduction="none"),
        "huber_loss": lambda x: nn.huber_loss(x, _halves(x), reduction="none"),
        "smooth_l1_loss": lambda x: nn.smooth_l1_loss(x, _halves(x), reduction="none"),
        "kl_div": lambda x: nn.kl_div(x, _halves(x), reduction="none"),
        "binary_cross_entropy": lambda x: nn.binary_cross_entropy(x, _halves(x), reduction="none"),
        "binary_cross_entropy_with_logits": lambda x: nn.binary_cross_entropy_with_logits(
            x, _halves(x), reduction="none"
        ),
        "cross_entropy": lambda x: nn.cross_entropy(x, _classes(x), reduction="none"),
        "nll_loss": lambda x: nn.nll_loss(x, _classes(x), reduction="none"),
    }
    made = {f"nn.{name}": members(a, f, 256) for name, f in plain.items()}
    made |= {
        "nn.attention": members(a, lambda x: nn.attention(x, x, x), 2, 64, 64),
        "nn.attention causal": members(
            a, lambda x: nn.attention(x, x, x, causal=True, deterministic=True), 1, 128, 128
        ),
        "nn.scaled_dot_product_attention": members(
            a, lambda x: nn.scaled_dot_product_attention(x, x, x), 1, 64, 64, gradient=False
        ),
        "nn.rotary_embedding": members(a, nn.rotary_embedding, 2, 32, 64),
        "nn.lltm_cell": members(a, lambda x: nn.lltm_cell(x, state, bias[:96], x[:, :32], x[:, :32])[0], few),
        "nn.lltm": members(
            a, lambda x: ck.moveaxis(nn.lltm(x[None], state, bias[:96], x[:, :32], x[:, :32])[0], 1, 0), few
        ),
        "nn.embedding": Case(lambda: _embedded(a), lambda: host(tail(batch(a, 256), 1))[0], 0.01),
        "nn.embedding to many": Case(lambda: _embedded_often(a), lambda: host(draw(1, 4, 256)[3])),
        "nn.one_hot": Case(
            lambda: host(tail(nn.one_hot(ck.full(-(-a.n // 64), 5), 64, "int8"), 1))[0], np.eye(64)[5]
        ),
        "nn.linear_cross_entropy": Case(
            lambda: _chosen(batch(a, 256), narrow), lambda: _chosen(tail(batch(a, 256), 2), narrow), 0.03
        ),
        "nn.dropout": Case(lambda: _dropped(a), [0.25, 1.0], 0.01),
        "nn.sample_tokens": Case(
            lambda: host(tail(nn.sample_tokens(_peaks(a), 0.01, rng=ck.random.default_rng(0)), 3)), [7, 7, 7]
        ),
        "nn.cross_entropy of one row": Case(
            lambda: host(nn.cross_entropy(draw(0, 1, a.n), ck.asarray([a.n - 1]))),
            lambda: np.log(a.n * (np.exp(0.9) - np.exp(0.1)) / 0.8) - host(draw(0, 1, a.n)[0, a.n - 1]),
            0.01,
        ),
    }
    return made


def _halves(x: ck.Array) -> ck.Array:
    return ck.full(x.shape, 0.5, dtype=x.dtype)


def _classes(x: ck.Array) -> ck.Array:
    return ck.full(x.shape[0], 5, dtype="int32")


def _chosen(x: ck.Array, weight: ck.Array) -> Any:
    """Of the last rows, the gradients of the sum of all rows' losses."""
    with ck.Tape() as tape:
        tape.watch([x])
        loss = nn.linear_cross_entropy(x, weight, _classes(x), reduction="sum")
    return host(tail(tape.gradient(loss, [x])[0], 2))


def _peaks(a: Inputs) -> ck.Array:
    x = batch(a, 64)
    x[:, 7] = 4
    return x


def _embedded(a: Inputs) -> Any:
    weight = batch(a, 256)
    return host(nn.embedding(ck.asarray([weight.shape[0] - 1]), weight)[0])


def _embedded_often(a: Inputs) -> Any:
    return host(tail(nn.embedding(ck.full(-(-a.n // 256), 3), draw(1, 4, 256)), 1)[0])


def _dropped(a: Inputs) -> Any:
    """The share of zeros, and the mean, of ones; and whether the derivative has the same zeros at the end."""
    x = ck.ones(a.n, dtype="bfloat16")
    with ck.Tape() as tape:
        tape.watch([x])
        y = nn.dropout(x, 0.25, rng=ck.random.default_rng(0))
    (made,) = tape.gradient(y, [x], output_gradients=[x])
    assert (host(tail(made, 4096)) == host(tail(y, 4096))).all()
    return [host(ck.count_nonzero(y == 0)) / a.n, host(ck.mean(y, dtype="float32"))]
