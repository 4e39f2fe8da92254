"""Convolutions against their definition in NumPy, in float64, and their gradients."""

from __future__ import annotations

import dataclasses
import itertools
import math
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from convolution_support import Definition, check, innermost
from nn_support import close, epsilon, random, sized

import cukern as ck
from cukern import nn
from cukern.launch.family import Used
from cukern.nn.convolution import problem
from cukern.nn.convolution.families import (
    CONVOLUTION,
    DEPTHWISE,
    DEPTHWISE_WEIGHTS,
    WEIGHTS_GRADIENT,
    weights_gradient,
)
from cukern.nn.convolution.problem import Windows
from cukern.nn.convolution.tensor_cores import TensorCores
from cukern.nn.convolution.variants import SIMT_TILES, TILES
from cukern.testing import gradcheck

CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 3, 7, 6), (4, 3, 3, 3), {"padding": 1}),
    ((2, 3, 9, 8), (5, 3, 3, 2), {"padding": (2, 1), "stride": (2, 3), "dilation": (1, 2)}),
    ((2, 6, 9, 8), (4, 3, 3, 2), {"groups": 2, "stride": 2}),
    ((1, 3, 5, 6), (2, 3, 1, 1), {"stride": 3}),
    ((2, 6, 11), (6, 1, 3), {"groups": 6, "padding": 1}),
    ((2, 3, 6), (2, 3, 3), {"padding": 5, "dilation": 4}),
    ((2, 2, 5, 6, 4), (3, 2, 2, 3, 2), {"stride": (1, 2, 1), "padding": 1}),
    ((2, 4, 5, 6), (4, 3, 3, 2), {"transposed": True, "stride": 2, "padding": 1, "output_padding": 1}),
    ((2, 4, 5, 6), (4, 3, 1, 2), {"transposed": True, "stride": (3, 2), "groups": 2, "dilation": 2}),
    ((2, 4, 5), (4, 3, 3), {"transposed": True, "stride": 3, "output_padding": 2}),
    ((1, 4, 3, 2, 3), (4, 3, 2, 2, 3), {"transposed": True, "stride": 2, "padding": 1}),
    ((0, 3, 7, 6), (4, 3, 3, 3), {}),
]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(("x", "w", "options"), CASES, ids=str)
def test_is_the_definition(
    device: ck.Device, x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any], last: bool
) -> None:
    with using("portable"):
        check(x, w, last=last, **options)


def mixed(
    x: tuple[int, ...], w: tuple[int, ...], dtype: str = "float32", transposed: bool = False, **options: Any
) -> None:
    """Values and gradients where memory orders of image, weights and the output's gradient differ."""
    axes = len(w) - 2
    name = f"conv_transpose{axes}d" if transposed else f"conv{axes}d"
    arrays = random(0, x, dtype), random(1, w, dtype)
    y, pull = ck.vjp(lambda x, w: getattr(nn, name)(x, w, **options), *arrays)
    dy = random(3, y.shape, dtype)
    wanted = [one.numpy() for one in (y, *pull(dy))]
    for image, weights, above in itertools.product((arrays[0], innermost(arrays[0])), *((False, True),) * 2):
        given = image, innermost(arrays[1]) if weights else arrays[1]
        y, pull = ck.vjp(lambda x, w: getattr(nn, name)(x, w, **options), *given)
        found = (y, *pull(innermost(dy) if above else dy))
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("number", [i for i in range(len(CASES)) if CASES[i][2].get("groups") != 6])
def test_panels(device: ck.Device, number: int) -> None:
    """By one thread a tile, of pixels that are innermost or are copied so."""
    x, w, options = CASES[number]
    with using("panels", weights=("panels",)) as used:
        for dtype in ("float32", "float64"):
            check(x, w, dtype, **options)
        mixed(x, w, **options)
    assert used and {one.name for one in used} == {"panels"}


def test_panels_in_several_parts(device: ck.Device) -> None:
    """More channels or taps than a panel has, more filters than a tile, several parts of the pixels; checked."""
    with using("panels", weights=("panels",)) as used:
        check((2, 21, 5, 70), (130, 21, 3, 3), "float32", padding=1)
        for x, w in (((2, 0, 9, 8), (4, 0, 3, 3)), ((2, 3, 9, 8), (0, 3, 3, 3))):
            check(x, w, "float32")
        check((2, 1, 14, 20), (3, 1, 13, 13), "float32", stride=4)
        with WEIGHTS_GRADIENT.only("panels", splits=3):
            check((3, 4, 9, 16), (5, 4, 3, 3), "float32", stride=(1, 2))
        with ck.testing.checked():
            check((2, 3, 5, 6), (9, 3, 3, 3), "float32", padding=1)
    assert {one.name for one in used} == {"panels"}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("shape", "w", "options"),
    [
        ((2, 8, 6, 11), (8, 1, 3, 3), {"padding": 1}),
        ((2, 16, 7, 10), (16, 1, 3, 2), {"stride": 2, "dilation": (2, 1), "padding": (0, 1)}),
        ((2, 6, 5, 9), (12, 1, 3, 3), {"padding": 1, "stride": (2, 3)}),
        ((2, 6, 5, 4), (6, 2, 2, 3), {"transposed": True, "stride": (1, 2)}),
        ((1, 8, 4, 3, 5), (8, 1, 2, 2, 2), {"stride": (1, 1, 3)}),
    ],
    ids=str,
)
def test_few_channels_a_group(
    device: ck.Device, shape: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any], last: bool
) -> None:
    groups = shape[1]
    check(shape, w, "float32" if shape[1] < 16 else "bfloat16", last=last, groups=groups, **options)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_dtypes(device: ck.Device, dtype: str) -> None:
    check((2, 3, 7, 6), (4, 3, 3, 3), dtype, padding=1)


#: Of 16-bit floats: channels that fill 16 bytes, that do not and are padded, and groups.
ALIGNED: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 8, 9, 8), (16, 8, 3, 3), {"padding": 1}),
    ((3, 3, 9, 8), (20, 3, 3, 3), {"padding": 1, "stride": 2}),
    ((2, 16, 6, 7), (32, 8, 3, 2), {"groups": 2, "padding": 1, "dilation": 2}),
    ((2, 16, 5, 6), (16, 8, 3, 3), {"groups": 2, "transposed": True, "stride": 2, "output_padding": 1}),
    ((1, 16, 3, 4, 5), (24, 16, 1, 1, 1), {"stride": 2}),
]


@contextmanager
def using(*names: str, weights: Sequence[str] = ("portable",), **fields: Any) -> Iterator[Used]:
    """Convolutions and gradients of images by variants of these names, gradients of weights by others."""
    with CONVOLUTION.only(*names, **fields) as used, WEIGHTS_GRADIENT.only(*weights):
        yield used


#: The tiles of tests that are always run: the smallest of warpgroups, and of warps.
TENSOR_TILES = TensorCores.tiles_of_halves
QUICK = (3, len(TENSOR_TILES) - 1)


@pytest.mark.parametrize(
    "number",
    [pytest.param(i, marks=() if i in QUICK else pytest.mark.thorough) for i in range(len(TENSOR_TILES))],
)
def test_tensor_cores(device: ck.Device, number: int) -> None:
    """Every tile."""
    tile = TensorCores(*TENSOR_TILES[number])
    if tile.grouped and device.kind == "cuda" and device.properties.compute_capability[0] != 9:
        pytest.skip("the instructions of sm_90a")
    few = ALIGNED if number == QUICK[1] or device.kind == "cuda" else ALIGNED[:1]
    for i, (x, w, options) in enumerate(few):
        with using("tensor cores", **dataclasses.asdict(tile)) as used:
            check(x, w, "bfloat16", last=i % 2 == 0, **options)
        assert used == [tile] * 2


def test_rounded_to_tf32(device: ck.Device) -> None:
    with ck.matmul_precision("tf32"), using("tensor cores", tile_m=64, tile_n=64) as used:
        check((2, 8, 5, 6), (12, 8, 3, 3), last=True, padding=1, ulps=2**13)
    assert len(used) == 2


@pytest.mark.parametrize("tile", TILES[1:4], ids=str)
def test_tiles_of_many_threads(device: ck.Device, tile: Any) -> None:
    """Those of a GPU."""
    fields = dict(zip(("tile_m", "tile_n", "items_m", "items_n", "depth"), tile, strict=True))
    for last in (False, True):
        with using("portable", **fields) as used:
            check((2, 5, 9, 8), (20, 5, 3, 2), last=last, padding=(2, 1), stride=(1, 2))
        assert [one.threads for one in used] == [tile[0] * tile[1] // tile[2] // tile[3]] * 2


#: Channels that are no multiples of a slab, filters that are padded, pixels without a tap, and groups.
EXACT: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ((2, 20, 6, 6), (38, 20, 3, 3), {"padding": 1}),
    ((2, 12, 9, 8), (20, 12, 1, 2), {"padding": (2, 1), "stride": (1, 3)}),
    ((2, 32, 5, 4), (72, 16, 2, 3), {"groups": 2, "padding": 1, "dilation": 2}),
    ((1, 17, 3, 4, 5), (40, 17, 2, 1, 2), {"stride": 2, "padding": 3}),
    ((3, 5, 5), (33, 5, 4), {"padding": 6}),
]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("number", "tile"),
    [
        (0, 2),
        *(
            pytest.param(*one, marks=pytest.mark.thorough)
            for one in itertools.product(range(len(EXACT)), range(len(SIMT_TILES)))
            if one != (0, 2)
        ),
    ],
)
def test_tiles_whose_k_blocks_are_copied_ahead(device: ck.Device, number: int, tile: int, last: bool) -> None:
    """Those of a GPU for many channels; others where 16 bytes are not copied at a time."""
    tile_m, tile_n, items_m, items_n, _ = SIMT_TILES[tile]
    x, w, options = EXACT[number]
    fields = {"tile_m": tile_m, "tile_n": tile_n, "items_m": items_m, "items_n": items_n}
    with using("simt", "portable", **fields) as used:
        check(x, w, last=last, **options)
    taken = [type(one).name for one in used]
    assert "simt" in taken or (last and w[1] % 4)


def test_offsets_of_64_bits(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of arrays with more than 2**31 elements."""
    monkeypatch.setattr(problem, "LARGEST_INDEX", 100)
    with using("portable"):
        check((2, 3, 5, 6), (4, 3, 3, 2), padding=1, stride=2)
    with DEPTHWISE.only("direct"), DEPTHWISE_WEIGHTS.only("direct"):
        check((2, 4, 5, 6), (4, 1, 3, 2), padding=1, groups=4)
    with using("portable"), pytest.raises(ValueError, match="at most 100 pixels, got 120"):
        check((4, 3, 5, 6), (4, 3, 1, 3), padding=(0, 1))


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        CASES[1],
        ((2, 3, 5, 6), (2, 3, 1, 1), {"stride": 3}),
        ((1, 3, 19), (2, 3, 3), {"padding": 5, "dilation": 4}),
        ((1, 3, 4), (2, 3, 1), {"padding": 12}),
        ((1, 4, 5, 6), (4, 3, 1, 2), {"transposed": True, "stride": (3, 2), "groups": 2, "padding": (0, 1)}),
    ],
    ids=str,
)
def test_more_pixels_than_a_kernel_counts(
    device: ck.Device,
    few_pixels: None,
    x: tuple[int, ...],
    w: tuple[int, ...],
    options: dict[str, Any],
    last: bool,
) -> None:
    check(x, w, last=last, **options)


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("dtype", "filters", "kernel", "groups"),
    [("bfloat16", 3, 3, 1), ("float16", 2, 3, 2), ("bfloat16", 3, 1, 1)],
    ids=str,
)
def test_gradients_of_weights_by_halves_are_rounded_once(
    device: ck.Device,
    few_pixels: None,
    dtype: str,
    filters: int,
    kernel: int,
    groups: int,
    last: bool,
) -> None:
    padding = kernel // 2
    dy, x = random(0, (40, filters, 4, 4), dtype), random(1, (40, 2, 4, 4), dtype)
    windows = Windows((1, 1), (padding,) * 2, (1, 1), groups)
    arrays = [innermost(one) if last else one for one in (dy, x)]
    found = weights_gradient(*arrays, windows, (kernel,) * 2, last)
    doubles = (one.numpy().astype(np.float64) for one in (dy, x))
    wanted = Definition(2, padding=padding, groups=groups).weights(*doubles, (kernel,) * 2)
    assert found.dtype == dy.dtype
    error = np.abs(found.numpy().astype(np.float64) - wanted) / np.abs(wanted)
    assert error.max() < 0.51 * epsilon(dtype)


@pytest.mark.parametrize("transposed", [False, True])
def test_derivatives_of_second_order(device: ck.Device, transposed: bool) -> None:
    x, w, bias = random(0, (2, 4, 4, 3)), random(1, (4, 2, 2, 2)), random(2, (4,))
    function = nn.conv_transpose2d if transposed else nn.conv2d
    gradcheck(lambda x, w, b: function(x, w, b, stride=(2, 1), groups=2, padding=1), (x, w, bias), order=2)


@pytest.mark.parametrize("activation", [ck.relu, ck.gelu, None])
def test_activation_is_part_of_the_launch(device: ck.Device, activation: Any) -> None:
    x, w, bias = random(0, (1, 2, 4, 4)), random(1, (3, 2, 3, 3)), random(2, (3,))

    def apart(x: ck.Array, w: ck.Array, b: ck.Array) -> ck.Array:
        y = nn.conv2d(x, w, padding=1) + ck.reshape(b, (3, 1, 1))
        return y if activation is None else activation(y)

    def whole(x: ck.Array, w: ck.Array, b: ck.Array) -> ck.Array:
        return nn.conv2d(x, w, b, padding=1, activation=activation)

    close(whole(x, w, bias), apart(x, w, bias).numpy(), 8)
    (y, pull), (want, pull_apart) = ck.vjp(whole, x, w, bias), ck.vjp(apart, x, w, bias)
    close(y, want.numpy(), 8)
    dy = random(3, y.shape)
    for one, other in zip(pull(dy), pull_apart(dy), strict=True):
        close(one, other.numpy(), 16)


@pytest.mark.parametrize(
    ("mode", "of_numpy"), [("reflect", "reflect"), ("circular", "wrap"), ("replicate", "edge")]
)
def test_modes_of_padding(device: ck.Device, mode: str, of_numpy: str) -> None:
    x, w = random(0, (2, 3, 6, 5)), random(1, (4, 3, 3, 2))

    def exact(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        whole = np.pad(x, [(0, 0), (0, 0), (2, 2), (1, 1)], of_numpy)  # type: ignore[call-overload]
        return Definition(2).forward(whole, w)

    close(nn.conv2d(x, w, padding=(2, 1), padding_mode=mode), sized(exact, x, w))


@pytest.mark.parametrize("mode", ["zeros", "reflect", "circular", "replicate"])
@pytest.mark.parametrize("padding", ["same", "valid", (2, 1)])
def test_transposed_padding_is_the_gradient_of_the_image(device: ck.Device, mode: str, padding: Any) -> None:
    x, w, bias = random(0, (2, 4, 6, 5)), random(1, (4, 3, 4, 3)), random(2, (3,))
    options = {"padding": padding, "padding_mode": mode, "dilation": (1, 2)}
    y = nn.conv_transpose2d(x, w, **options)
    image = random(3, y.shape)
    made, pull = ck.vjp(lambda image: nn.conv2d(image, w, **options), image)
    assert made.shape == x.shape
    close(y, pull(x)[0].numpy(), 32)
    again = nn.conv_transpose2d(x, w, bias, activation=ck.relu, **options)
    close(again, np.maximum(y.numpy() + bias.numpy()[:, None, None], 0), 32)
    if padding == "same":
        assert y.shape[2:] == x.shape[2:]
    if padding == (2, 1) and mode == "circular":
        gradcheck(lambda x, w, b: nn.conv_transpose2d(x, w, b, **options), (x, w, bias), order=2)


@pytest.mark.parametrize(
    ("x", "w", "options"),
    [
        ((2, 16, 9, 10), (24, 16, 3, 3), {"padding": 1}),
        ((2, 16, 9, 10), (24, 8, 3, 2), {"groups": 2, "stride": 2}),
        ((2, 40, 9, 10), (40, 1, 3, 3), {"groups": 40, "padding": 1}),
        ((2, 3, 9, 10), (24, 3, 3, 3), {"stride": 2}),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_gradients_have_the_same_bits_in_each_run(
    device: ck.Device, x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any], dtype: str
) -> None:
    image, weight, bias = (random(i, s).astype(dtype) for i, s in enumerate((x, w, (w[0],))))

    def run() -> list[bytes]:
        y, pull = ck.vjp(lambda *given: nn.conv2d(*given, **options), image, weight, bias)
        return [
            one.numpy().tobytes()
            for one in (y, *pull(ck.sin(ck.arange(y.size)).reshape(y.shape).astype(dtype)))
        ]

    first = run()
    for _ in range(3):
        assert run() == first


def test_same_padding_is_longer_after_the_image(device: ck.Device) -> None:
    x, w = random(0, (2, 3, 6, 5)), random(1, (4, 3, 4, 3))
    wanted = sized(Definition(2, padding=[(1, 2), (2, 2)], dilation=(1, 2)).forward, x, w)
    close(nn.conv2d(x, w, padding="same", dilation=(1, 2)), wanted)


def test_image_without_a_batch_and_views(device: ck.Device) -> None:
    x, w = random(0, (8, 3, 14)), random(1, (2, 4, 3))
    part = ck.flip(x[::2, 1, ::2], axis=-1)

    def exact(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        return Definition(1).forward(x[None], w)[0]

    close(nn.conv1d(part, w), sized(exact, part, w))
    wide = ck.broadcast_to(x[:4, :1, :1], (4, 3, 5))
    close(nn.conv1d(wide[:, 0], w), sized(exact, wide[:, 0], w))


def test_misaligned_channels(device: ck.Device) -> None:
    """Channels that lie innermost are read in packs, unless memory is misaligned."""
    x, w, dy = (
        random(k, shape, "bfloat16") for k, shape in enumerate([(2, 6, 5, 8), (8, 1, 3, 3), (2, 6, 5, 8)])
    )

    def call(x: Any, w: Any) -> Any:
        return nn.conv2d(ck.moveaxis(x, -1, 1), w, padding=1, groups=8)

    def moved(one: Any) -> Any:
        return ck.concat([one.reshape(-1)[:1], one.reshape(-1)])[1:].reshape(one.shape)

    y, pull = ck.vjp(call, x, w)
    again, pull_again = ck.vjp(call, moved(x), moved(w))
    expected = pull(ck.moveaxis(dy, -1, 1))
    close(again, y.numpy(), 1)
    for one, other in zip(pull_again(ck.moveaxis(moved(dy), -1, 1)), expected, strict=True):
        close(one, other.numpy(), 1)


def test_not_a_number_stays_where_windows_read_it(device: ck.Device) -> None:
    x = np.zeros((1, 1, 5, 5))
    x[0, 0, 0, 0] = np.nan
    y = nn.conv2d(ck.asarray(x), ck.zeros((1, 1, 3, 3), "float64"), padding=1).numpy()
    assert np.array_equal(np.argwhere(np.isnan(y[0, 0])), [[0, 0], [0, 1], [1, 0], [1, 1]])


def test_modules_start_as_those_of_pytorch(device: ck.Device) -> None:
    layer = nn.Conv2d(6, 8, (3, 2), groups=2, rng=0)
    assert layer.weight.shape == (8, 3, 3, 2)
    bound = 1 / math.sqrt(18)
    assert 0.9 * bound < float(ck.max(ck.abs(layer.weight))) <= bound
    transposed = nn.ConvTranspose2d(6, 8, 3, stride=2, groups=2, rng=0)
    assert transposed.weight.shape == (6, 4, 3, 3)
    assert transposed.bias is not None
    assert float(ck.max(ck.abs(transposed.bias))) <= 1 / 6
    x = random(0, (2, 6, 5, 4), "float32")
    close(layer(x), nn.conv2d(x, layer.weight, layer.bias, groups=2).numpy(), 1)
    assert transposed(x).shape == (2, 8, 11, 9)


@pytest.mark.parametrize(
    ("x", "w", "options", "message"),
    [
        ((2, 3, 5), (4, 3, 3, 3), {}, "x and weight|do not fit|x of shape"),
        ((2, 3, 5, 5), (4, 2, 3, 3), {}, "x of shape .* do not fit for 1 groups"),
        ((2, 3, 5, 5), (4, 3, 6, 3), {}, "no window of shape"),
        ((2, 3, 5, 5), (4, 3, 3), {}, "weight: expected shape"),
        ((2, 3, 5, 5), (4, 3, 3, 3), {"stride": 0}, "stride: expected at least 1"),
        ((2, 3, 5, 5), (4, 3, 3, 3), {"stride": 2, "padding": "same"}, "windows of stride 1"),
        ((2, 3, 5, 5), (4, 3, 3, 3), {"padding_mode": "mirror"}, "padding_mode: expected one of"),
        ((2, 3, 5, 5), (4, 3, 3, 3), {"groups": 0}, "groups: expected at least 1"),
    ],
)
def test_refused(
    device: ck.Device, x: tuple[int, ...], w: tuple[int, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"conv2d: .*({message})"):
        nn.conv2d(ck.zeros(x), ck.zeros(w), **options)
    with pytest.raises(TypeError, match="conv2d: activation: expected an elementwise function .* got 'relu'"):
        nn.conv2d(ck.zeros((1, 1, 3, 3)), ck.zeros((1, 1, 2, 2)), activation="relu")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="conv2d: dilation: expected an int or a pair"):
        nn.conv2d(ck.zeros((1, 1, 3, 3)), ck.zeros((1, 1, 2, 2)), dilation=(1, 2, 3))


def test_no_column_matrix_is_made(device: ck.Device) -> None:
    """It would have 25 times the image's memory, forward and in the gradients."""
    if device.kind != "host":
        pytest.skip("memory is counted by Python's own allocations")
    x, w = (ck.asarray(np.ones(shape, np.float32)) for shape in ((1, 4, 96, 96), (4, 4, 5, 5)))

    def gradients(x: ck.Array) -> Any:
        return ck.grad(lambda x, w: nn.conv2d(x, w, padding=2).sum(), argnums=(0, 1))(x, w)

    gradients(x)
    tracemalloc.start()
    try:
        gradients(x)
        assert tracemalloc.get_traced_memory()[1] < 6 * x.nbytes
    finally:
        tracemalloc.stop()


def test_options_of_another_type_are_refused_after_calls_with_equal_ones(device: ck.Device) -> None:
    x, w = ck.ones((1, 2, 5, 5)), ck.ones((3, 2, 3, 3))
    first = nn.conv2d(x, w, stride=1).tolist()
    assert nn.conv2d(x, w, stride=(1, 1)).tolist() == first == nn.conv2d(x + 0, w, stride=1).tolist()
    for wrong in (True, 1.0, (1, True)):
        with pytest.raises(TypeError, match="conv2d: stride: expected an int or a pair"):
            nn.conv2d(x, w, stride=wrong)


def test_half_types_lie_channels_last_on_a_gpu(device: ck.Device) -> None:
    """Also where the image does not, and through layers that keep the order; the host keeps the image's."""
    x, w = (
        ck.asarray(np.ones(shape, np.float32), dtype="bfloat16") for shape in ((2, 8, 6, 6), (16, 8, 3, 3))
    )
    y = nn.conv2d(x, w, padding=1)
    z = nn.interpolate(nn.silu(nn.group_norm(ck.concat([y, y], 1), 4)), scale_factor=2)
    innermost = [one.strides.index(min(one.strides)) for one in (y, z)]
    assert innermost == ([1, 1] if device.kind == "cuda" else [3, 3])
    assert nn.conv2d(x.astype("float32"), w.astype("float32")).is_contiguous


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_pixel_that_no_window_reaches(device: ck.Device, dtype: str) -> None:
    """Where the result has one pixel, its channels are innermost in either order of memory."""
    weights = ck.ones((4, 8, 1), dtype=dtype)
    for x in (ck.ones((3, 4, 2), dtype=dtype), ck.moveaxis(ck.ones((3, 2, 4), dtype=dtype), -1, 1)):
        used = [ck.full((3, 8, 1), 7.0, dtype=dtype) for _ in range(5)]
        del used
        made = nn.conv_transpose1d(x, weights, stride=2, padding=1)
        assert made.shape == (3, 8, 1) and not made.numpy().any()
        assert nn.conv1d(x, ck.ones((8, 4, 2), dtype=dtype)).tolist() == [[[8.0]] * 8] * 3
