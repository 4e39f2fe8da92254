"""Convolutions as products of transformed tiles, against their definition in NumPy, in float64."""

from __future__ import annotations

from typing import Any

import pytest
from convolution_support import Definition, check, innermost
from nn_support import close, random, sized

import cukern as ck
from cukern import nn
from cukern.array.layout import fresh_layout
from cukern.nn.convolution import geometry, plan, winograd
from cukern.testing import gradcheck


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The transforms that are made, of all arrays for whose windows there are some."""
    found: list[object] = []
    for name in ("Convolution", "Weights"):
        real = getattr(winograd, name)
        monkeypatch.setattr(winograd, name, lambda *given, real=real: found.append(given) or real(*given))
    monkeypatch.setattr(plan, "_plans", {})
    monkeypatch.setattr(winograd, "_pays", lambda *_: True)
    return found


#: The roundings of a result: of sums of transformed tiles, which are larger than it.
TRANSFORMED = 128
#: Planes of whole tiles, and whose rows and columns end within one; padding of one, and larger than a window's.
CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 7, 6), (4, 3, 3, 3), {"padding": 1}),
    ((3, 4, 4, 12), (8, 4, 3, 3), {"padding": 1}),
    ((2, 3, 5, 6), (3, 4, 3, 3), {"transposed": True, "padding": 1}),
    ((1, 3, 4, 4), (2, 3, 3, 3), {"padding": (3, 0)}),
]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("x", "w", "options"), CASES, ids=str)
def test_is_the_definition(
    device: ck.Device,
    made: list[object],
    x: tuple[int, ...],
    w: tuple[int, ...],
    options: dict[str, Any],
    last: bool,
) -> None:
    check(x, w, last=last, ulps=TRANSFORMED, **options)
    assert len(made) == 3


@pytest.mark.parametrize("last", [False, True])
def test_parts_of_the_batch_and_of_tiles(
    device: ck.Device, made: list[object], monkeypatch: pytest.MonkeyPatch, last: bool
) -> None:
    """As of large arrays, and for as many multiprocessors as a GPU has."""
    monkeypatch.setattr(winograd, "_batch", lambda *_: 2)
    monkeypatch.setattr(winograd, "parts_for", lambda *_: 3)
    check((3, 4, 9, 12), (8, 4, 3, 3), last=last, padding=1, ulps=TRANSFORMED)
    assert len(made) == 3


def test_images_of_another_order_than_the_result(device: ck.Device, made: list[object]) -> None:
    x, w, dy = (
        random(0, (2, 3, 7, 8), "float32"),
        random(1, (5, 3, 3, 3), "float32"),
        random(2, (2, 5, 5, 6), "float32"),
    )
    windows = geometry.Windows((1, 1), (0, 0), (1, 1))
    for image, output, last in (
        (x, innermost(dy), True),
        (innermost(x), dy, False),
        (x[..., ::-1], dy, True),
    ):
        found = plan.convolve(image, w, (), windows, (5, 6), False, last)
        close(found, sized(Definition(2).forward, image, w), TRANSFORMED)
        found = plan.weights_gradient(output, image, windows, (3, 3), last)
        close(found, sized(lambda d, own: Definition(2).weights(d, own, (3, 3)), dy, image), TRANSFORMED)
    assert len(made) == 6


def test_offsets_of_64_bits(device: ck.Device, made: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    """As of arrays with more than 2**31 elements."""
    for module in (geometry, winograd):
        monkeypatch.setattr(module, "LARGEST_INDEX", 200)
    x, w = random(0, (2, 3, 7, 6), "float32"), random(1, (4, 3, 3, 3), "float32")
    close(nn.conv2d(x, w), sized(Definition(2).forward, x, w), TRANSFORMED)
    assert len(made) == 1


def test_nothing_to_convolve(device: ck.Device, made: list[object]) -> None:
    w = ck.ones((4, 8, 3, 3))
    assert nn.conv2d(ck.zeros((0, 8, 9, 8)), w).shape == (0, 4, 7, 6)
    assert not nn.conv2d(ck.zeros((2, 0, 9, 8)), w[:, :0]).numpy().any()
    assert not made


@pytest.mark.parametrize("last", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_derivatives_of_second_order(device: ck.Device, made: list[object], last: bool) -> None:
    x, w, bias = random(0, (2, 2, 5, 6)), random(1, (3, 2, 3, 3)), random(2, (3,))
    if last:
        x, w = innermost(x), innermost(w)
    gradcheck(lambda x, w, b: nn.conv2d(x, w, b, padding=1, activation=ck.sin), (x, w, bias), order=2)
    assert len(made) >= 3


def test_where_they_are_chosen(device: ck.Device) -> None:
    """By the size of a product, for float32 alone, and not where windows' products are asked for."""

    def chosen(
        dtype: str = "float32",
        channels: int = 128,
        kernel: tuple[int, ...] = (3, 3),
        size: tuple[int, ...] = (28, 28),
        stride: int = 1,
        dilation: int = 1,
        groups: int = 1,
    ) -> bool:
        axes = len(size)
        windows = geometry.Windows((stride,) * axes, (1,) * axes, (dilation,) * axes, groups)
        shapes = (64, channels, *size), (channels, channels // groups, *kernel), (64, channels, *size)
        x, w, y = (fresh_layout(device, ck.zeros(0, dtype).dtype, shape) for shape in shapes)
        found = [winograd.task_of(x, w, y, windows, turned) for turned in (False, True)]
        one, other = (task is not None and winograd.takes(task, x.dtype, device) for task in found)
        assert one == other
        return one

    assert chosen()
    for other in (
        {"kernel": (3, 1)},
        {"kernel": (5, 5)},
        {"kernel": (3,), "size": (28,)},
        {"dtype": "float64"},
    ):
        assert not chosen(**other)
    assert not chosen(kernel=(3, 3, 3), size=(5, 28, 28))
    assert not chosen("bfloat16")
    assert not chosen(size=(5000, 5000)) and not chosen(channels=2048)  # transforms that need much memory
    assert not chosen(channels=1) and not chosen(size=(1, 1), channels=2)
    assert not chosen(stride=2) and not chosen(dilation=2) and not chosen(groups=2)
    for precision in ("direct", "tf32"):
        with ck.matmul_precision(precision):
            assert not chosen()


def test_weights_whose_window_of_three_axes_lies_in_the_padding(device: ck.Device) -> None:
    x = ck.ones((2, 8, 1, 8, 8), device=device, dtype="float32")
    w = ck.ones((8, 8, 1, 3, 3), device=device, dtype="float32")
    with ck.Tape() as tape:
        tape.watch(w)
        y = ck.nn.conv3d(x, w, stride=(3, 1, 1), padding=(1, 1, 1))
    assert not tape.gradient(y, w).numpy().any()
