"""What a GPU launches for blocks of public models in a jitted function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from gpu_without_one import gpu_without_one

import cukern as ck
from cukern import nn
from cukern.elementwise import special, table
from cukern.elementwise.costs import _OF_ROWS, operations
from cukern.elementwise.graph import Expr, input_node
from cukern.elementwise.row import Row


def image(batch: int, channels: int, size: int) -> ck.Array:
    """Zeros whose channels lie innermost."""
    return ck.moveaxis(ck.zeros((batch, size, size, channels), "bfloat16"), -1, 1)


class Block(nn.Module):
    """Convolutions by windows of these sizes, of which the middle one of three may be depthwise, with batch norms."""

    def __init__(
        self, channels: tuple[int, ...], taps: tuple[int, ...], groups: int, end: Callable[[Any], Any]
    ) -> None:
        sizes = zip(channels, channels[1:], taps, strict=False)
        self.convolutions = [
            nn.Conv2d(a, b, k, padding=k // 2, groups=groups if k > 1 else 1, bias=False) for a, b, k in sizes
        ]
        self.norms = [nn.BatchNorm(n) for n in channels[1:]]
        self.end = end

    def forward(self, x: Any) -> Any:
        y = x
        for convolution, norm in zip(self.convolutions[:-1], self.norms, strict=False):
            y = ck.clip(norm(convolution(y)), 0, 6)
        return self.end(self.norms[-1](self.convolutions[-1](y)) + x)


class Unet(nn.Module):
    """A residual block of a diffusion model."""

    def __init__(self, channels: int) -> None:
        self.norms = [nn.GroupNorm(8, channels) for _ in range(2)]
        self.convolutions = [nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2)]

    def forward(self, x: Any, time: Any) -> Any:
        y = self.convolutions[0](ck.silu(self.norms[0](x))) + time[:, :, None, None]
        return x + self.convolutions[1](ck.silu(self.norms[1](y)))


def same(y: Any) -> Any:
    return y


#: What makes the factors of a batch norm's channels, once each.
FACTORS = "add_rsqrt_multiply"
#: Models, their arguments, and what is launched.
BLOCKS: dict[str, tuple[Callable[[], nn.Module], Callable[[], list[ck.Array]], list[str]]] = {
    "basic": (
        lambda: Block((64, 64, 64), (3, 3), 1, ck.relu),
        lambda: [image(64, 64, 56)],
        [FACTORS, "convolution_multiply_add_clip", FACTORS, "convolution_multiply_add_relu"],
    ),
    "bottleneck": (
        lambda: Block((256, 64, 64, 256), (1, 3, 1), 1, ck.relu),
        lambda: [image(64, 256, 56)],
        [FACTORS, "convolution_multiply_add_clip"] * 2 + [FACTORS, "convolution", "multiply_add_relu"],
    ),
    "deep bottleneck": (
        lambda: Block((2048, 512, 2048), (1, 1), 1, ck.relu),
        lambda: [image(64, 2048, 14)],
        [FACTORS, "convolution_multiply_add_clip", FACTORS, "convolution_multiply_add_relu"],
    ),
    "inverted bottleneck": (
        lambda: Block((32, 192, 192, 32), (1, 3, 1), 192, same),
        lambda: [image(64, 32, 56)],
        [FACTORS, "convolution_multiply_add_clip"] * 2 + [FACTORS, "convolution", "subtract_multiply_add"],
    ),
    "UNet": (
        lambda: Unet(64),
        lambda: [image(2, 64, 32), ck.zeros((2, 64), "bfloat16")],
        ["channel_norm_silu", "convolution_add"] * 2,
    ),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_what_follows_a_convolution_is_in_its_launch(name: str) -> None:
    model, arguments, launched = BLOCKS[name]
    with gpu_without_one(compiles=False):
        module = model().eval().astype("bfloat16")
        f = ck.jit(lambda *args: module(*args))
        assert [one.name for one in f.launches(*arguments())] == launched
        assert "more at most" in f.explain(*arguments())  # each is a step that later calls repeat


def test_a_gpu_computes_functions_of_channels_once_where_that_saves_more_than_a_launch() -> None:
    """Each device those of its own arrays."""
    light, heavy = (lambda x, v: x * ck.rsqrt(v)), (lambda x, v: x * (ck.exp(v) * ck.tanh(v) / ck.log(v)))
    with gpu_without_one(compiles=False):
        x, v = (ck.zeros(shape, "bfloat16") for shape in ((1 << 20, 8), (8,)))
        own = [ck.zeros(one.shape, "bfloat16", device="host") for one in (x, v)]
        assert len(ck.jit(light).launches(x[: 1 << 18], v)) == len(ck.jit(heavy).launches(x[:64], v)) == 1
        assert len(ck.jit(light).launches(ck.zeros((1 << 23, 8), "bfloat16"), v)) == 2
        # On an H200 70 us by one launch and 55 by two, and 166 and 54.
        images, w = (ck.zeros(shape, "bfloat16") for shape in ((64 * 56 * 56, 256), (256,)))
        for function, launches in ((light, 2), (lambda x, v: x * v**v, 2), (lambda x, v: x * abs(v), 1)):
            assert len(ck.jit(function).launches(images, w)) == launches
        both = ck.jit(lambda x, v, y, w: (heavy(x, v), heavy(x[1:], v), heavy(y, w)))
        made = [(one.outputs[0].device, one.outputs[0].size) for one in both.launches(x, v, *own)]
        assert {*made[:2]} == {(x.device, 8), (own[0].device, 8)} and len(made) == 5


def test_a_kernel_sums_the_gradient_that_it_computes_for_others() -> None:
    """The gradient of a bias, beside what the products need."""

    def loss(x: Any, w: Any, b: Any, out: Any) -> Any:
        return ck.sum(ck.tanh(ck.gelu(x @ w + b) @ out))

    with gpu_without_one(compiles=False):
        arrays = [ck.zeros(one, "bfloat16") for one in ((4096, 256), (256, 1024), (1024,), (1024, 1024))]
        launches = ck.jit(ck.grad(loss, argnums=(1, 2))).launches(*arrays)
        (both,) = (one for one in launches if len(one.outputs) == 2 and one.outputs[0].shape == (4096, 1024))
        assert "erf" in both.name and both.outputs[1].shape[1:] == (1024,)
        sums = [one.inputs for one in launches if one.outputs[0].shape == (1024,)]
        assert sums == [both.outputs[1:]]


def test_rows_have_costs_by_their_names() -> None:
    """That of a name that no row has would count for nothing."""
    rows = {one.name for room in (table, special) for one in vars(room).values() if isinstance(one, Row)}
    assert not _OF_ROWS.keys() - rows
    x = Expr(input_node(0, np.dtype("float32")))
    costs = [operations((one.node,)) for one in (ck.add(x, 1), ck.exp(x), ck.tanh(x), x**x)]
    assert costs == sorted(costs) and costs[0] < 4 and costs[-1] > 70


def test_a_product_is_computed_with_what_alone_reads_it_though_a_tape_keeps_that() -> None:
    with gpu_without_one(compiles=False):
        x, w, b, v, c = (
            ck.zeros(shape, "bfloat16") for shape in ((8192, 768), (3072, 768), (3072,), (768, 3072), (768,))
        )

        def loss(w: Any, b: Any, v: Any, c: Any) -> Any:
            hidden = nn.linear(x, w, b)
            y = x + nn.linear(ck.gelu_tanh(hidden), v, c)
            return ck.sum(y * y)

        launches = ck.jit(ck.grad(loss, (0, 1, 2, 3))).launches(w, b, v, c)
        assert [one.name for one in launches[:4]] == ["add", "gelu_tanh", "add", "sum"]
        # Both bias and residual are added by products, and nothing else reads the products.
        assert [len(one.inputs) for one in launches[:4]] == [3, 1, 4, 1]

        def both(w: Any, b: Any) -> Any:
            product = nn.linear(x, w)
            return ck.tanh(product + b), ck.exp(product)

        launches = ck.jit(both).launches(w, b)
        assert launches[0].name == "matmul"  # which two read
