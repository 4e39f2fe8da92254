"""Convolutions as products of transformed tiles, against their definition in NumPy, in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from convolution_support import Definition, check, innermost
from nn_support import close, epsilon, random, sized

import cukern as ck
from cukern import nn
from cukern.array.layout import fresh_layout
from cukern.kernel import sizes
from cukern.nn.convolution import families, panels, problem
from cukern.nn.convolution.families import CONVOLUTION, WEIGHTS_GRADIENT
from cukern.nn.convolution.problem import Convolution, Form, WeightsGradient, Windows

Used = tuple[list[Any], list[Any]]


@pytest.fixture
def used(device: ck.Device) -> Iterator[Used]:
    """The transforms, which alone compute convolutions, and those of weights gradients."""
    with CONVOLUTION.only("winograd") as forward, WEIGHTS_GRADIENT.only("winograd") as weights:
        yield forward, weights


#: The roundings of a result: of sums of transformed tiles, which are larger than it.
TRANSFORMED = 128
#: Planes of whole tiles, and whose rows and columns end within one; padding of one and of two.
CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 17, 7, 6), (18, 17, 3, 3), {"padding": 1}),
    ((3, 20, 4, 12), (16, 20, 3, 3), {"padding": 1}),
    ((2, 16, 5, 6), (16, 17, 3, 3), {"transposed": True, "padding": 1}),
    ((1, 16, 4, 4), (17, 16, 3, 3), {"padding": (2, 0)}),
    ((2, 16, 1, 5, 6), (16, 16, 1, 3, 3), {"padding": (0, 1, 1)}),
]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("number", range(len(CASES)))
def test_is_the_definition(used: Used, number: int, last: bool) -> None:
    x, w, options = CASES[number]
    check(x, w, last=last, ulps=TRANSFORMED, **options)
    assert (len(used[0]), len(used[1])) == (2, 1)


def test_windows_beyond_the_image(used: Used) -> None:
    """Their sums are zeros but for the roundings of their tile, which has pixels of the image too."""
    x, w = random(0, (1, 16, 4, 4), "float32"), random(1, (17, 16, 3, 3), "float32")
    right = sized(Definition(2, padding=(3, 0)).forward, x, w)
    found = nn.conv2d(x, w, padding=(3, 0)).numpy()
    assert not right.exact[:, :, 0].any() and found.shape == right.exact.shape
    assert np.abs(found - right.exact).max() < TRANSFORMED * epsilon("float32") * right.size.max()


@pytest.mark.parametrize("last", [False, True])
def test_parts_of_the_batch_and_of_tiles(device: ck.Device, last: bool) -> None:
    """As of large arrays, and for as many multiprocessors as a GPU has."""
    forward = CONVOLUTION.only("winograd", images=2)
    weights = WEIGHTS_GRADIENT.only("winograd", images=2, parts=3)
    with forward as used, weights as others:
        check((3, 20, 9, 12), (16, 20, 3, 3), last=last, padding=1, ulps=TRANSFORMED)
    assert [one.images for one in (*used, *others)] == [2, 2, 2] and others[0].parts == 3


def test_images_of_another_order_than_the_result(used: Used) -> None:
    x, w, dy = (
        random(i, shape, "float32") for i, shape in enumerate(((2, 16, 7, 8), (17, 16, 3, 3), (2, 17, 5, 6)))
    )
    windows = Windows((1, 1), (0, 0), (1, 1))
    for image, output, last in (
        (x, innermost(dy), True),
        (innermost(x), dy, False),
        (x[..., ::-1], dy, True),
    ):
        found = families.convolution(image, w, (), Form(windows, (5, 6), False, last))
        close(found, sized(Definition(2).forward, image, w), TRANSFORMED)
        found = families.weights_gradient(output, image, windows, (3, 3), last)
        close(found, sized(lambda d, own: Definition(2).weights(d, own, (3, 3)), dy, image), TRANSFORMED)
    assert (len(used[0]), len(used[1])) == (3, 3)


def test_offsets_of_64_bits(used: Used, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of arrays with more than 2**31 elements."""
    for module in (problem, sizes):
        monkeypatch.setattr(module, "LARGEST_INDEX", 200)
    x, w = random(0, (2, 16, 7, 6), "float32"), random(1, (17, 16, 3, 3), "float32")
    close(nn.conv2d(x, w), sized(Definition(2).forward, x, w), TRANSFORMED)
    assert len(used[0]) == 1


def test_nothing_to_convolve(device: ck.Device) -> None:
    w = ck.ones((16, 16, 3, 3))
    with CONVOLUTION.only("winograd", "portable") as used:
        assert nn.conv2d(ck.zeros((0, 16, 9, 8)), w).shape == (0, 16, 7, 6)
        assert not nn.conv2d(ck.zeros((2, 0, 9, 8)), w[:, :0]).numpy().any()
    assert [one.name for one in used] == ["portable", "portable"]


def test_activations_of_sums_and_a_bias(used: Used) -> None:
    x, w, bias = (
        random(i, shape, "float32") for i, shape in enumerate(((2, 16, 6, 7), (17, 16, 3, 3), (17,)))
    )
    found = nn.conv2d(x, w, bias, padding=1, activation=ck.sin)
    right = sized(lambda a, b, c: Definition(2, padding=1).forward(a, b) + c.reshape(-1, 1, 1), x, w, bias)
    close(found, right._replace(exact=ck.sin(ck.asarray(right.exact)).numpy()), TRANSFORMED)
    assert len(used[0]) == 1


def test_where_they_are_chosen(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the size of a product, for float32 alone, and not where windows' products are asked for.

    On the host only where panels take longer than they do.
    """
    monkeypatch.setattr(panels, "rate", lambda limits, of_library: of_library / 2)

    def chosen(
        dtype: str = "float32",
        channels: int = 128,
        kernel: tuple[int, ...] = (3, 3),
        size: tuple[int, ...] = (28, 28),
        precision: str = "highest",
        **options: int,
    ) -> bool:
        axes = len(size)
        groups, stride, dilation = (options.get(name, 1) for name in ("groups", "stride", "dilation"))
        windows = Windows((stride,) * axes, (1,) * axes, (dilation,) * axes, groups)
        of = Definition(axes, stride, 1, dilation)
        shapes = (64, channels, *size), (channels, channels // groups, *kernel)
        x, w = (fresh_layout(device, ck.zeros(0, dtype).dtype, shape) for shape in shapes)
        out = of.output(size, kernel)
        y = fresh_layout(device, x.dtype, (64, channels, *out))
        own = kernel, False, x.dtype, precision
        found = [
            CONVOLUTION.choices(Convolution(x, w, windows, out, False, False, None, precision)),
            CONVOLUTION.choices(Convolution(y, w, windows, size, True, False, None, precision)),
            WEIGHTS_GRADIENT.choices(WeightsGradient(y, x, windows, *own)),
        ]
        one, *others = ([each.variant for each in some if each.chosen] == ["winograd"] for some in found)
        assert others == [one, one]
        return one

    assert chosen()
    for other in ((3, 1), (5, 5), (1, 1)):
        assert not chosen(kernel=other)
    assert not chosen(kernel=(3,), size=(28,)) and not chosen(kernel=(3, 3, 3), size=(5, 28, 28))
    assert not chosen("float64") and not chosen("bfloat16")
    assert not chosen(size=(5000, 5000)) and not chosen(channels=2048)  # transforms that need much memory
    assert not chosen(channels=1) and not chosen(size=(1, 1), channels=2)
    assert not chosen(stride=2) and not chosen(dilation=2) and not chosen(groups=2)
    assert not chosen(precision="direct") and not chosen(precision="tf32")


def test_weights_whose_window_of_three_axes_lies_in_the_padding(device: ck.Device) -> None:
    x = ck.ones((2, 16, 1, 8, 8), device=device, dtype="float32")
    w = ck.ones((16, 16, 1, 3, 3), device=device, dtype="float32")
    with ck.Tape() as tape:
        tape.watch(w)
        y = ck.nn.conv3d(x, w, stride=(3, 1, 1), padding=(1, 1, 1))
    assert not tape.gradient(y, w).numpy().any()
