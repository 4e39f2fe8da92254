"""The kernels of convolutions of each channel with one filter of its own."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from convolution_support import Definition, check, innermost
from nn_support import Sized, close, random

import cukern as ck
from cukern.device.interface import Properties
from cukern.launch.family import STAND_IN
from cukern.nn.convolution import depthwise, depthwise_gradients
from cukern.nn.convolution.families import DEPTHWISE, DEPTHWISE_WEIGHTS, weights_gradient
from cukern.nn.convolution.problem import Convolution, WeightsGradient, Windows

thorough = pytest.mark.thorough


def small(memory: int) -> Properties:
    """A GPU with less shared memory a block, in bytes, and fewer multiprocessors."""
    return STAND_IN._replace(max_shared_memory_per_block=memory, multiprocessors=64)


def windows_of(channels: int) -> Windows:
    """Those of 3 by 3, with padding."""
    return Windows((1, 1), (1, 1), (1, 1), channels)


def forward_of(x: ck.Array, weights: ck.Array, channels_last: bool = False) -> Convolution:
    own = x._planned(), weights._planned()
    return Convolution(*own, windows_of(x.shape[1]), x.shape[2:], False, channels_last, None, "highest")


def sized(function: Callable[..., np.ndarray], *arrays: np.ndarray) -> Sized:
    """A sum of products, and by that of their squares the size of what is rounded."""
    return Sized(function(*arrays), np.sqrt(function(*(one * one for one in arrays))))


def require_sm_90(device: ck.Device) -> None:
    if device.kind == "cuda" and device.properties.compute_capability[0] != 9:
        pytest.skip("the kernel needs sm_90")


@pytest.mark.parametrize(
    ("shape", "kernel", "padding", "dtype", "last"),
    [
        ((2, 40, 5, 9), (3, 2), (1, 0), "bfloat16", True),
        ((2, 3, 5, 8), (3, 3), (1, 1), "float32", False),
        ((2, 3, 6, 9), (3, 2), (1, 0), "float32", False),
        pytest.param((2, 24, 7, 10), (3, 3), (1, 1), "float16", True, marks=thorough),
        pytest.param((3, 8, 9, 5), (2, 3), (2, 0), "float32", True, marks=thorough),
        pytest.param((3, 5, 7, 16), (3, 3), (1, 1), "bfloat16", False, marks=thorough),
        pytest.param((1, 2, 4, 4), (3, 1), (0, 1), "float16", False, marks=thorough),
        pytest.param((2, 3, 7, 8), (2, 3), (0, 2), "float64", False, marks=thorough),
        pytest.param((2, 144, 4, 4), (3, 1), (0, 1), "float16", True, marks=thorough),
        pytest.param((1, 5, 1, 1), (3, 3), (1, 1), "float32", False, marks=thorough),
        pytest.param((2, 4, 5, 10), (1, 3), (0, 0), "float64", False, marks=thorough),
    ],
    ids=str,
)
def test_threads_walk_down_rows(
    device: ck.Device,
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    padding: Any,
    dtype: str,
    last: bool,
) -> None:
    """Bands of rows, threads beyond the last, and parts whose sums are added up."""
    ahead = {"ahead": 1} if last else {}
    forward = {"across": 3 if last else 1, "threads": 16, "rows": 2, **ahead}
    of_weights = {"threads": 32, "rows": 3, "splits": 2, "ahead": 2 if kernel[0] == 2 else 1}
    if last:
        of_weights = {"threads": 128 if shape[1] == 144 else 16, "rows": 3}
    with (
        DEPTHWISE.only("rows", **forward) as used,
        DEPTHWISE_WEIGHTS.only("rows" if last else "columns", **of_weights) as sums,
    ):
        check(shape, (shape[1], 1, *kernel), dtype, last=last, groups=shape[1], padding=padding)
    assert len(used) == 2 and len(sums) == 1
    whole = not last and kernel[1] > 1 and shape[3] % 2 == 0
    assert used[0].whole == whole and (last or sums[0].whole == whole) and (used[0].width > 1) == last


@pytest.mark.parametrize(
    ("shape", "kernel", "padding", "dtype", "memory"),
    [
        ((2, 72, 9, 70), (3, 2), (1, 0), "float16", 112 * 1024),
        pytest.param((1, 136, 9, 7), (2, 3), (0, 2), "bfloat16", 58 * 1024, marks=thorough),
    ],
    ids=str,
)
def test_rows_are_loaded_ahead(
    device: ck.Device,
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    padding: Any,
    dtype: str,
    memory: int,
) -> None:
    """Tiles of columns and of channels, bands, and rings that go round."""
    require_sm_90(device)
    with (
        DEPTHWISE.only("rows") as used,
        DEPTHWISE_WEIGHTS.only("ring", limits=small(memory)) as sums,
    ):
        check(shape, (shape[1], 1, *kernel), dtype, last=True, groups=shape[1], padding=padding)
    assert len(used) == 2
    (tile,) = sums
    assert 1 < tile.stages < tile.rows < shape[2]


@pytest.mark.parametrize(
    ("shape", "kernel", "padding", "dtype", "fields"),
    [
        ((9, 3, 19, 24), (3, 3), (1, 1), "float16", (8, 8, 10)),
        pytest.param((3, 2, 9, 56), (3, 3), (0, 1), "bfloat16", (8, 16, 7), marks=thorough),
        pytest.param((4, 9, 8, 8), (3, 3), (1, 1), "bfloat16", (4, 4, 8), marks=thorough),
        pytest.param((2, 3, 8, 10), (3, 1), (1, 0), "bfloat16", (2, 4, 8), marks=thorough),
        pytest.param((1, 4, 16, 16), (3, 1), (2, 0), "bfloat16", (4, 4, 9), marks=thorough),
        pytest.param((2, 3, 4, 36), (1, 3), (2, 1), "bfloat16", (4, 12, 8), marks=thorough),
        pytest.param((1, 2, 28, 28), (3, 3), (1, 1), "float16", (4, 8, 14), marks=thorough),
    ],
    ids=str,
)
def test_planes_are_loaded_ahead(
    device: ck.Device,
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    padding: Any,
    dtype: str,
    fields: tuple[int, int, int],
) -> None:
    """Warps that have several planes and some that have none, bands of rows and a last one of fewer, parts."""
    require_sm_90(device)
    with (
        DEPTHWISE.only("planes", "rows", warps=2, stages=2, resident=1) as used,
        DEPTHWISE_WEIGHTS.only("planes", warps=2, stages=2, share=5) as sums,
    ):
        check(shape, (shape[1], 1, *kernel), dtype, ulps=2, groups=shape[1], padding=padding)
    assert len(used) == 2 and isinstance(used[0], depthwise.Planes)
    (own,) = sums
    assert (own.items, own.per, own.each) == fields


@pytest.mark.parametrize(
    ("name", "shape", "kernel", "stride", "dtype", "fields"),
    [
        ("ring", (3, 72, 9, 17), (7, 7), (1, 1), "bfloat16", {"rows": 4, "share": 2, "warps": 3, "items": 2}),
        ("ring", (2, 40, 9, 15), (5, 3), (2, 2), "float16", {"rows": 3, "stages": 3, "line": 32}),
        ("rows", (2, 12, 9, 7), (7, 5), (1, 2), "bfloat16", {"rows": 4, "threads": 16}),
        ("rows", (2, 4, 9, 8), (2, 7), (2, 1), "float32", {"rows": 2, "threads": 32}),
        ("columns", (2, 3, 12, 16), (5, 5), (2, 2), "float16", {"rows": 3, "threads": 32}),
        ("columns", (2, 3, 9, 16), (7, 7), (1, 1), "bfloat16", {"rows": 4, "threads": 32, "splits": 2}),
        ("columns", (2, 3, 9, 7), (7, 4), (2, 2), "float64", {"rows": 3, "threads": 32}),
    ],
    ids=str,
)
def test_gradients_of_larger_windows_and_steps(
    device: ck.Device,
    name: str,
    shape: tuple[int, ...],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dtype: str,
    fields: dict[str, Any],
) -> None:
    """Several rows of the output for a row of the image, bands, parts of the batch, and threads without columns."""
    if name == "ring":
        require_sm_90(device)
    padding = kernel[0] // 2, kernel[1] // 2
    of = Definition(2, stride, padding, groups=shape[1])
    x, dy = random(0, shape, dtype), random(1, (*shape[:2], *of.output(shape[2:], kernel)), dtype)
    a, b = (one.numpy().astype(np.float64) for one in (x, dy))
    last = name != "columns"
    arrays = [innermost(one) if last else one for one in (dy, x)]
    windows = Windows(stride, padding, (1, 1), shape[1])
    with DEPTHWISE_WEIGHTS.only(name, **fields) as used:
        found = weights_gradient(*arrays, windows, kernel, last)
    assert len(used) == 1
    close(found, sized(lambda b, a: of.weights(b, a, kernel), b, a))


def test_planes_that_are_not_loaded() -> None:
    """Sizes in bytes that are no multiple of 16, views, and planes of which not two a warp are in shared memory."""

    def fits(x: ck.Array) -> bool:
        own = forward_of(x, ck.zeros((4, 1, 3, 3), "bfloat16"))
        return not depthwise.Planes.fits(own, STAND_IN) and any(depthwise.Planes.configs(own, STAND_IN))

    whole = ck.zeros((1, 4, 56, 56), "bfloat16")
    assert fits(whole)
    for x in (whole[:, :, :14, :14].copy(), whole[:, :, 1:], ck.zeros((1, 4, 112, 112), "bfloat16")):
        assert not fits(x)


def test_an_output_gradient_in_another_memory_order_than_the_image(device: ck.Device) -> None:
    """Channels lie innermost in the image, and so in its gradient, and not in the output's gradient."""
    require_sm_90(device)
    x, dy = (random(seed, (2, 8, 8, 8), "bfloat16") for seed in range(2))
    w = random(2, (8, 1, 3, 3), "bfloat16")
    a, b, c = (one.numpy().astype(float) for one in (x, dy, w))
    of = Definition(2, padding=1, groups=8)
    with DEPTHWISE.only("planes", "rows", "direct") as used:
        planes = ck.nn.conv2d(x, w, padding=1, groups=8)
        rows, pull = ck.vjp(lambda x: ck.nn.conv2d(x, w, padding=1, groups=8), innermost(x))
        (dx,) = pull(dy)
    assert [one.name for one in used] == ["planes", "rows", "direct"]
    close(planes, of.forward(a, c), 2)
    close(rows, of.forward(a, c), 2)
    close(dx, of.image(b, c, (8, 8)), 2)


@pytest.mark.parametrize(
    ("shape", "w", "dtype", "last", "options"),
    [
        ((2, 24, 7, 10), (24, 1, 3, 2), "bfloat16", True, {"stride": 2, "padding": 1}),
        pytest.param((2, 8, 9), (8, 1, 3), "float16", True, {"dilation": 2}, marks=thorough),
        pytest.param((2, 3, 6, 9), (6, 1, 3, 3), "float32", False, {"padding": 1}, marks=thorough),
        pytest.param(
            (1, 2, 3, 3, 4), (2, 1, 2, 1, 2), "float64", False, {"stride": (1, 1, 3)}, marks=thorough
        ),
    ],
    ids=str,
)
def test_threads_sum_by_themselves(
    device: ck.Device,
    shape: tuple[int, ...],
    w: tuple[int, ...],
    dtype: str,
    last: bool,
    options: dict[str, Any],
) -> None:
    """Packs of channels, windows over one to three axes, and threads that share a gradient of weights."""
    with (
        DEPTHWISE.only("direct") as used,
        DEPTHWISE_WEIGHTS.only("direct", across=2, threads=64, splits=3) as sums,
    ):
        check(shape, w, dtype, last=last, groups=shape[1], **options)
    assert len(used) == 2 and (sums[0].width > 1) == last


@pytest.mark.parametrize(
    ("forward", "of_weights", "shape", "dtype"),
    [
        ("rows", "rows", (1, 8, 5, 4), "float16"),
        ("", "rows", (1, 8, 5, 4), "float32"),
        ("", "columns", (1, 2, 5, 8), "float16"),
        ("rows", "columns", (1, 2, 5, 4), "float64"),
        ("direct", "direct", (1, 8, 5, 4), "float16"),
        ("direct", "direct", (1, 3, 5, 4), "float64"),
    ],
)
def test_other_dtypes(
    device: ck.Device, forward: str, of_weights: str, shape: tuple[int, ...], dtype: str
) -> None:
    """The dtypes of a variant in which no other test runs it."""
    x, dy, w = random(0, shape, dtype), random(1, shape, dtype), random(2, (shape[1], 1, 3, 3), dtype)
    a, b, c = (one.numpy().astype(np.float64) for one in (x, dy, w))
    of, windows = Definition(2, padding=1, groups=shape[1]), windows_of(shape[1])
    last = shape[1] == 8
    if last:
        x, dy = innermost(x), innermost(dy)
    if forward:
        with DEPTHWISE.only(forward) as used:
            close(ck.nn.conv2d(x, w, padding=1, groups=shape[1]), sized(of.forward, a, c))
        assert len(used) == 1
    with DEPTHWISE_WEIGHTS.only(of_weights) as used:
        found = weights_gradient(dy, x, windows, (3, 3), False)
    assert len(used) == 1
    close(found, sized(lambda b, a: of.weights(b, a, (3, 3)), b, a))


@pytest.mark.parametrize("of_image", [True, False])
@pytest.mark.parametrize(
    ("name", "shape", "options"),
    [
        ("planes", (1, 120, 15, 8), {}),
        ("planes", (1, 80, 2, 40), {}),
        ("columns", (1, 56, 7, 8), {"rows": 3, "threads": 32}),
        ("columns", (1, 63, 7, 9), {"rows": 3, "threads": 32}),
        ("rows", (1, 48, 7, 6), {"rows": 3}),
        ("ring", (1, 64, 7, 9), {"limits": small(112 * 1024)}),
        ("ring", (1, 24, 12, 13), {"stride": 2}),
        ("columns", (1, 16, 12, 10), {"stride": 2, "rows": 3, "threads": 32}),
        ("rows", (1, 24, 12, 10), {"stride": 2, "rows": 3}),
        ("direct", (1, 12, 3, 4), {}),
    ],
    ids=lambda one: "" if isinstance(one, dict) else str(one),
)
def test_infinity_is_multiplied_by_what_its_windows_read(
    device: ck.Device, name: str, shape: tuple[int, ...], options: dict[str, Any], of_image: bool
) -> None:
    """By the padding's zeros, which make NaN of it, and not by zeros in place of outputs that are not a thread's."""
    if name in ("planes", "ring"):
        require_sm_90(device)
    options = {"stride": 1, **options}
    channels, stride = shape[1], options.pop("stride")
    of = Definition(2, stride, 1, groups=channels)
    dy = random(0, (*shape[:2], *of.output(shape[2:], (3, 3))), "bfloat16").numpy()
    x = random(1, shape, "bfloat16").numpy()
    own = (x if of_image else dy).reshape(channels, -1)
    own[range(channels), np.arange(channels) % own.shape[1]] = np.inf
    last = name in ("rows", "ring")
    arrays = [innermost(ck.asarray(one)) if last else ck.asarray(one) for one in (dy, x)]
    with DEPTHWISE_WEIGHTS.only(name, **options) as used:
        found = weights_gradient(*arrays, windows_of(channels)._replace(stride=(stride,) * 2), (3, 3), last)
    with np.errstate(invalid="ignore"):
        wanted = of.weights(*(one.astype(np.float64) for one in (dy, x)), (3, 3))
    assert len(used) == 1
    close(found, wanted, 2)


@pytest.mark.parametrize(
    ("last", "dtype", "size", "wanted"),
    [
        (True, "bfloat16", (14, 14), ("rows", "ring")),
        (True, "float32", (14, 14), ("rows", "rows")),
        (False, "bfloat16", (14, 16), ("planes", "planes")),
        (False, "bfloat16", (14, 15), ("rows", "columns")),
        (False, "float64", (14, 16), ("rows", "columns")),
        (True, "bfloat16", (14, 1), ("rows", "ring")),
        (True, "float32", (14, 1), ("rows", "rows")),
    ],
    ids=str,
)
def test_the_order_of_preference_on_sm_90(
    device: ck.Device,
    last: bool,
    dtype: str,
    size: tuple[int, int],
    wanted: tuple[str, str],
) -> None:
    """By the cost models, whatever was measured."""
    x = random(0, (4, 64, *size), dtype)
    x = innermost(x) if last else x
    own = WeightsGradient(x._planned(), x._planned(), windows_of(64), (3, 3), last, x.dtype, "highest")
    problems: Any = (
        (DEPTHWISE, forward_of(x, random(1, (64, 1, 3, 3), dtype), last)),
        (DEPTHWISE_WEIGHTS, own),
    )
    for (family, problem), name in zip(problems, wanted, strict=True):
        costs = {
            one.name: config.cost(problem, STAND_IN)
            for one in family.variants.values()
            if not one.fits(problem, STAND_IN)
            for config in one.configs(problem, STAND_IN)
        }
        assert min(costs, key=costs.__getitem__) == name, costs


def test_parts_of_many_images_are_found_in_few_trials():
    """They are the best of all numbers of parts, of which no more are tried than twice the places."""

    class Image:
        tried = 0

        def __init__(self, batch):
            self._batch = batch

        @property
        def batch(self):
            self.tried += 1
            return self._batch

    def best(batch, groups, warps, places):
        def time(parts):
            planes = -(-batch // parts)
            planes = -(-planes // warps)
            return 2 * -(-groups * parts // places) * (planes + 1) + (parts > 1)

        return min(range(1, -(-batch // warps) + 1), key=time)

    for batch, groups, warps, places in (
        (20_000, 3, 4, 12),
        (5_000, 99, 1, 132),
        (64, 384, 8, 1056),
        (1, 7, 8, 12),
    ):
        image = Image(batch)
        gemm = SimpleNamespace(image=image, groups=groups)
        assert depthwise_gradients.fastest_splits(gemm, warps, places) == best(batch, groups, warps, places)
        assert image.tried <= 2 * places + 1
