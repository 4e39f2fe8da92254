"""Pooling against a loop in NumPy, its reference and finite differences."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from nn_support import DTYPE_NAMES, Sized, check_equal, close, random, sized

import cukern as ck
from cukern import nn
from cukern.nn.pooling import plan as pool_launch
from cukern.nn.pooling.function import avg_pool2d_reference, max_pool2d_reference
from cukern.nn.pooling.geometry import Windows
from cukern.nn.pooling.plan import Shape
from cukern.testing import gradcheck

AVERAGES: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0)},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False},
    {"kernel_size": 2, "stride": 3, "ceil_mode": True},
    {"kernel_size": (1, 4), "stride": 1, "padding": (0, 2), "count_include_pad": False},
]
MAXIMA: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 1)},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 2, "stride": 1, "padding": 1, "dilation": (2, 3)},
    {"kernel_size": 3, "stride": 2, "dilation": 2, "padding": 2, "ceil_mode": True},
]


def loop(x: np.ndarray, options: dict[str, Any], maximum: bool) -> np.ndarray:
    """Pooling as the definition says it: the windows one by one, as far as they start on the padded plane."""

    def pair(name: str, default: Any) -> tuple[int, int]:
        value = options.get(name, default)
        return (value, value) if isinstance(value, int) else value

    kernel = pair("kernel_size", None)
    stride, padding, dilation = pair("stride", kernel), pair("padding", 0), pair("dilation", 1)
    starts = []
    for axis in range(2):
        size, found = x.shape[axis - 2], []
        for start in itertools.count(-padding[axis], stride[axis]):
            last = start + dilation[axis] * (kernel[axis] - 1)
            fits = last < size + padding[axis]
            # Rounding up admits one window more, if it starts on the plane or the padding before it.
            overhangs = last - stride[axis] < size + padding[axis] - 1 and start < size
            if not (fits or (options.get("ceil_mode", False) and overhangs)):
                break
            found.append(start)
        starts.append(found)
    y = np.empty((*x.shape[:-2], len(starts[0]), len(starts[1])))
    for (i, top), (j, left) in itertools.product(enumerate(starts[0]), enumerate(starts[1])):
        rows = top + np.arange(kernel[0]) * dilation[0]
        columns = left + np.arange(kernel[1]) * dilation[1]
        inside = x[..., rows[(rows >= 0) & (rows < x.shape[-2])], :]
        inside = inside[..., columns[(columns >= 0) & (columns < x.shape[-1])]].astype(np.float64)
        if maximum:
            y[..., i, j] = inside.max((-2, -1)) if inside.size else -np.inf
            continue
        counted = inside.shape[-2] * inside.shape[-1]
        if options.get("count_include_pad", True):
            counted = int(
                (rows < x.shape[-2] + padding[0]).sum() * (columns < x.shape[-1] + padding[1]).sum()
            )
        y[..., i, j] = inside.sum((-2, -1)) / counted
    return y


@pytest.mark.parametrize("options", AVERAGES, ids=str)
def test_average_is_the_loop(device: ck.Device, options: dict[str, Any]) -> None:
    for shape in ((2, 3, 7, 6), (2, 5, 9)):
        x = random(0, shape)
        close(nn.avg_pool2d(x, **options), sized(lambda x: loop(x, options, maximum=False), x))


@pytest.mark.parametrize("options", MAXIMA, ids=str)
def test_maximum_is_the_loop(device: ck.Device, options: dict[str, Any]) -> None:
    for shape in ((2, 3, 7, 6), (2, 5, 9)):
        x = random(0, shape)
        close(nn.max_pool2d(x, **options), loop(x.numpy(), options, maximum=True), 0)


def windows_of(options: dict[str, Any]) -> Windows:
    names = {"kernel_size": "kernel", "count_include_pad": "count_padding"}
    given = {names.get(key, key): value for key, value in options.items()}
    pairs = ("kernel", "stride", "padding", "dilation")
    given = {k: (v, v) if k in pairs and isinstance(v, int) else v for k, v in given.items()}
    return Windows(**{"stride": given["kernel"], "padding": (0, 0), **given})


@pytest.mark.parametrize("options", AVERAGES, ids=str)
def test_average_equals_the_reference(device: ck.Device, options: dict[str, Any]) -> None:
    x = ck.permute_dims(random(0, (6, 7, 2)), (2, 1, 0))
    check_equal(
        lambda x: nn.avg_pool2d(x, **options), lambda x: avg_pool2d_reference(x, windows_of(options)), [x]
    )


@pytest.mark.parametrize("options", MAXIMA, ids=str)
def test_maximum_equals_the_reference(device: ck.Device, options: dict[str, Any]) -> None:
    x = ck.permute_dims(random(0, (6, 7, 2)), (2, 1, 0))
    check_equal(
        lambda x: nn.max_pool2d(x, **options), lambda x: max_pool2d_reference(x, windows_of(options)), [x]
    )


TILED: list[tuple[dict[str, Any], tuple[int, int]]] = [
    ({"kernel_size": 2}, (9, 16)),
    ({"kernel_size": 3, "stride": 2}, (12, 24)),
    ({"kernel_size": 3, "stride": 2, "padding": 1}, (16, 16)),
    ({"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}, (10, 20)),
    ({"kernel_size": (3, 2), "stride": (1, 3), "padding": (1, 0)}, (7, 36)),
    ({"kernel_size": (1, 4), "stride": (2, 1), "padding": (0, 2)}, (6, 12)),
    ({"kernel_size": 2, "stride": 3, "ceil_mode": True}, (8, 7)),
]


def pooled(
    monkeypatch: pytest.MonkeyPatch,
    shape: Shape | None,
    x: ck.Array,
    windows: Windows,
    maximum: bool,
    dy: Callable[..., ck.Array] = random,
) -> list[np.ndarray]:
    """What the kernels of one shape make of ``x``, y, y without winners, dx of a fixed dy, the winners."""
    monkeypatch.setitem(pool_launch.SHAPES, pool_launch._kind(x.device, x.dtype), (shape, shape))
    monkeypatch.setattr(pool_launch, "_BUSY", 0)
    pool_launch._plan.cache_clear()
    y, winners = pool_launch.forward(x, windows, maximum, keep=maximum)
    untracked, _ = pool_launch.forward(x, windows, maximum)
    dx = pool_launch.backward(dy(5, y.shape, x.dtype), x.shape, windows, winners)
    pool_launch._plan.cache_clear()
    found = [y, untracked, dx, *([] if winners is None else [winners])]
    return [one.numpy().astype(np.float64) for one in found]


#: Windows that overlap, are padded and go over the edge, in aligned memory and not, in all tiles; others, and windows
#: with gaps, in one. The rest is thorough.
_USUAL = (0, 0), (3, 0), (3, 1), (4, 0), (6, 0)
_TILES = ("float32", Shape(16, 4, 32)), ("bfloat16", Shape(16, 2, 32)), ("float32", Shape(32, 1, 32))
_TILED = [
    pytest.param(
        *TILED[i],
        start,
        *tile,
        marks=() if (i, start) in _USUAL and (i == 3 or tile == _TILES[0]) else pytest.mark.thorough,
    )
    for i in range(len(TILED))
    for start in (0, 1)
    for tile in _TILES
]


@pytest.mark.parametrize("options, plane, start, dtype, tile", _TILED, ids=str)
def test_tiles_are_the_loop(
    device: ck.Device,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    plane: tuple[int, int],
    start: int,
    dtype: str,
    tile: Shape,
) -> None:
    """With wide accesses and, of memory that is not aligned, with narrow ones; ties, -inf and NaN among the values."""
    rng, shape = np.random.default_rng(3), (2, 2, *plane)
    size = int(np.prod(shape))
    values = rng.choice([-np.inf, -1.0, -0.0, 0.0, 1.0, np.nan], size + 1, p=[0.6, 0.1, 0.1, 0.1, 0.08, 0.02])
    x = ck.reshape(ck.astype(ck.asarray(values), dtype)[start : start + size], shape)
    windows = windows_of(options)
    for one, other in zip(*(pooled(monkeypatch, s, x, windows, True) for s in (None, tile)), strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(np.signbit(one[one == 0]), np.signbit(other[other == 0]))
    x = ck.reshape(random(4, (size + 1,), dtype)[start : start + size], shape)
    terms = pooled(monkeypatch, None, abs(x), windows, False, lambda *given: abs(random(*given)))
    made = (pooled(monkeypatch, s, x, windows, False) for s in (None, tile))
    for one, other, size in zip(*made, terms, strict=True):
        close(ck.asarray(other.astype(x.dtype)), Sized(one, size))


def test_what_a_thread_computes(monkeypatch: pytest.MonkeyPatch, device: ck.Device) -> None:
    """The widest accesses that the sizes and the memory admit, and fewer rows where a GPU would have idle threads."""
    monkeypatch.setattr(pool_launch, "_BUSY", 4)

    def tiles(dtype: Any, aligned: bool, shape: tuple[int, ...], **options: Any) -> list[tuple[int, ...]]:
        call = pool_launch._Call(
            device, ck.zeros(0, dtype).dtype, shape, windows_of(options), True, True, aligned
        )
        found = (make(call, Shape(16, 4)) for make in (pool_launch._forward_tile, pool_launch._backward_tile))
        return [(one.rows, one.items, one.pack, one.store) for one in found]

    large, pair = (64, 64, 224, 224), {"kernel_size": 2}
    assert tiles("float32", True, large, **pair) == [(4, 2, 4, 2), (4, 4, 2, 4)]
    assert tiles("bfloat16", True, large, **pair) == [(4, 4, 8, 4), (4, 8, 4, 8)]
    assert tiles("float32", False, large, **pair) == [(4, 2, 1, 1), (4, 4, 1, 1)]
    assert tiles("float32", True, large, kernel_size=3, stride=2) == [(4, 2, 4, 1), (4, 4, 1, 4)]
    assert tiles("float32", True, (1, 2, 2), **pair) == [(1, 1, 2, 1), (2, 2, 1, 2)]
    assert tiles("float32", True, large, kernel_size=224) == [(1, 1, 0, 1), (1, 1, 0, 1)]
    assert tiles("float64", True, large, kernel_size=8, stride=1)[0] == (1, 2, 2, 1)


@pytest.mark.parametrize("dtype", DTYPE_NAMES[:3])
def test_other_dtypes(device: ck.Device, dtype: str) -> None:
    x, options = random(0, (2, 2, 6, 5), dtype), AVERAGES[2]
    windows = windows_of(options)
    check_equal(lambda x: nn.avg_pool2d(x, **options), lambda x: avg_pool2d_reference(x, windows), [x])
    check_equal(lambda x: nn.max_pool2d(x, **options), lambda x: max_pool2d_reference(x, windows), [x])


def test_cotangents_that_are_broadcast(device: ck.Device) -> None:
    x, options = random(0, (2, 2, 6, 5)), AVERAGES[2]
    windows = windows_of(options)
    ones = [ck.broadcast_to(ck.asarray(np.float64(0.5)), (2, 2, 4, 3))]
    check_equal(
        lambda x: nn.avg_pool2d(x, **options),
        lambda x: avg_pool2d_reference(x, windows),
        [x],
        cotangents=ones,
    )
    check_equal(
        lambda x: nn.max_pool2d(x, **options),
        lambda x: max_pool2d_reference(x, windows),
        [x],
        cotangents=ones,
    )


def test_the_first_of_equals_gets_the_gradient(device: ck.Device) -> None:
    x = ck.asarray([[[1.0, 1.0, 0.0], [1.0, 1.0, 0.0]]])
    with ck.Tape() as tape:
        tape.watch(x)
        y = ck.sum(nn.max_pool2d(x, 2, stride=1))
    assert tape.gradient(y, x).tolist() == [[[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]]


def test_nan_wins_and_gets_the_gradient(device: ck.Device) -> None:
    nan, low = float("nan"), float("-inf")
    x = ck.asarray([[[1.0, nan, 3.0, 4.0], [nan, 2.0, low, low]], [[low] * 4] * 2])
    with ck.Tape() as tape:
        tape.watch(x)
        y = nn.max_pool2d(x, 2)
        total = ck.sum(y)
    np.testing.assert_array_equal(y.numpy(), [[[nan, 4.0]], [[low, low]]])
    expected = [[[0.0, 1.0, 0.0, 1.0], [0.0] * 4], [[1.0, 0.0, 1.0, 0.0], [0.0] * 4]]
    assert tape.gradient(total, x).tolist() == expected


def test_a_window_that_lies_in_the_padding(device: ck.Device) -> None:
    x = ck.asarray([[[2.0], [3.0]]])

    def pool(x: ck.Array) -> ck.Array:
        return nn.max_pool2d(x, (2, 1), stride=1, padding=(2, 0), dilation=(3, 1))

    y, pullback = ck.vjp(pool, x)
    assert y.tolist() == [[[3.0], [float("-inf")], [2.0]]]
    assert pullback(ck.asarray([[[5.0], [7.0], [9.0]]]))[0].tolist() == [[[9.0], [5.0]]]
    _, again = ck.vjp(lambda dy: ck.vjp(pool, x)[1](dy)[0], y)
    assert again(x)[0].tolist() == [[[3.0], [0.0], [2.0]]]


def test_a_window_of_many_places_numbers_its_winner(device: ck.Device) -> None:
    values = np.zeros((1, 17, 17))
    values[0, 16, 15] = 1.0
    x = ck.asarray(values)
    with ck.Tape() as tape:
        tape.watch(x)
        y = ck.sum(nn.max_pool2d(x, 17))
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), values)


def test_derivatives_to_second_order(device: ck.Device) -> None:
    x = random(0, (2, 5, 4))
    for options in (AVERAGES[2], AVERAGES[5]):
        assert gradcheck(lambda x, options=options: ck.square(nn.avg_pool2d(x, **options)), (x,), order=2)
    for options in (MAXIMA[2], MAXIMA[3]):
        assert gradcheck(lambda x, options=options: ck.square(nn.max_pool2d(x, **options)), (x,), order=2)


def test_64_bit_indices(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_launch, "index_type", lambda *sizes: "long long")
    pool_launch._plan.cache_clear()
    x, options = random(0, (2, 7, 6)), MAXIMA[2]
    windows = windows_of(options)
    check_equal(lambda x: nn.avg_pool2d(x, **options), lambda x: avg_pool2d_reference(x, windows), [x])
    check_equal(lambda x: nn.max_pool2d(x, **options), lambda x: max_pool2d_reference(x, windows), [x])
    pool_launch._plan.cache_clear()


def test_no_images(device: ck.Device) -> None:
    assert nn.avg_pool2d(ck.zeros((0, 3, 4, 4)), 2).shape == (0, 3, 2, 2)
    assert nn.max_pool2d(ck.zeros((0, 3, 4, 4)), 2).shape == (0, 3, 2, 2)


def test_a_gradient_that_is_not_wanted_saves_nothing(device: ck.Device) -> None:
    x, other = random(0, (1, 4, 4)), random(1, (1, 2, 2))
    with ck.Tape() as tape:
        tape.watch(other)
        y = ck.multiply(nn.max_pool2d(x, 2), other)
    assert len(tape._records) == 1
    assert y.shape == (1, 2, 2)


def test_the_modules(device: ck.Device) -> None:
    x = random(0, (1, 2, 6, 6), "float32")
    np.testing.assert_array_equal(
        nn.MaxPool2d(2, padding=1)(x).numpy(), nn.max_pool2d(x, 2, padding=1).numpy()
    )
    np.testing.assert_array_equal(nn.AvgPool2d(3, stride=2)(x).numpy(), nn.avg_pool2d(x, 3, stride=2).numpy())


def test_what_does_not_fit_is_refused(device: ck.Device) -> None:
    x = ck.zeros((1, 4, 4))
    with pytest.raises(
        ValueError, match=r"padding: expected at most half of the window's span 3, got \(2, 2\)"
    ):
        nn.max_pool2d(x, 3, padding=2)
    with pytest.raises(ValueError, match="stride: expected at least 1, got 0"):
        nn.avg_pool2d(x, 2, stride=0)
    with pytest.raises(ValueError, match="kernel_size: no window of span"):
        nn.avg_pool2d(x, 5)
    with pytest.raises(ValueError, match="kernel_size: no window of span"):
        nn.max_pool2d(x, 3, dilation=2)
    with pytest.raises(ValueError, match=r"x: expected shape \(N, C, H, W\) or \(C, H, W\), got \(4, 4\)"):
        nn.avg_pool2d(ck.zeros((4, 4)), 2)
    with pytest.raises(ValueError, match="only N may be 0"):
        nn.avg_pool2d(ck.zeros((1, 0, 4, 4)), 2)
    with pytest.raises(TypeError, match=r"kernel_size: expected an int or a pair of ints, got 2\.5"):
        nn.avg_pool2d(x, 2.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"padding: expected an int or a pair of ints, got \(1, 1, 1\)"):
        nn.max_pool2d(x, 2, padding=(1, 1, 1))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="x: expected a floating dtype, got int64"):
        nn.avg_pool2d(ck.zeros((1, 4, 4), "int64"), 2)


def test_a_window_of_many_places_is_a_loop(device: ck.Device) -> None:
    """Written out place by place, a window of a whole plane takes NVRTC seconds to compile."""
    x = random(0, (2, 32, 40))
    close(nn.avg_pool2d(x, (32, 40)), sized(lambda x: x.mean((1, 2), keepdims=True), x))
    np.testing.assert_array_equal(nn.max_pool2d(x, (32, 40)).numpy(), x.numpy().max((1, 2), keepdims=True))
    windows = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "count_padding": True}
    variables = {**windows, "keep": False, "winner": "int", "no_winner": -1}
    for kernel, loops in (((3, 3), False), ((32, 40), True)):
        text = ck.Kernel("nn/pooling/forward.cu").source(
            elem="float32", index="int", kind="average", items=4, kernel=kernel, **variables
        )
        assert ("constexpr int unroll = 1;" in text) == loops


def test_sizes_may_be_integers_of_numpy(device: ck.Device) -> None:
    x = random(0, (1, 4, 4))
    np.testing.assert_array_equal(nn.max_pool2d(x, np.int64(2)).numpy(), nn.max_pool2d(x, 2).numpy())
    with pytest.raises(TypeError, match="kernel_size: expected an int or a pair of ints, got True"):
        nn.max_pool2d(x, True)


@pytest.mark.parametrize("dtype", ["float32", pytest.param("bfloat16", marks=pytest.mark.thorough)])
def test_channels_that_lie_innermost(device: ck.Device, dtype: str) -> None:
    """Results, gradients and NaN are those of planes, and lie as the images do."""
    rng = np.random.default_rng(0)
    last = rng.integers(-9, 9, (2, 7, 6, 16)).astype(np.float32)
    last[0, 2, 3, 1] = np.nan
    x = ck.permute_dims(ck.asarray(last).astype(dtype), (0, 3, 1, 2))
    for function in (
        lambda x: nn.max_pool2d(x, 3, 2, padding=1),
        lambda x: nn.max_pool2d(x, (2, 1), 1, dilation=(2, 1), ceil_mode=True),
        lambda x: nn.avg_pool2d(x, 3, 2, padding=1, count_include_pad=False),
    ):
        y, pull = ck.vjp(function, x)
        want, pull_want = ck.vjp(function, x.contiguous())
        assert ck.permute_dims(y, (0, 2, 3, 1)).is_contiguous and want.is_contiguous
        np.testing.assert_array_equal(y.astype("float32").numpy(), want.astype("float32").numpy())
        dy = ck.asarray(rng.integers(-9, 9, y.shape).astype(np.float32)).astype(dtype)
        for given in (dy, ck.moveaxis(ck.moveaxis(dy, 1, -1).contiguous(), -1, 1)):
            (dx,), (dx_want,) = pull(given), pull_want(dy)
            np.testing.assert_allclose(
                dx.astype("float32").numpy(), dx_want.astype("float32").numpy(), rtol=2**-7
            )


@pytest.mark.parametrize("kind", ["AvgPool", "MaxPool", "AdaptiveAvgPool", "AdaptiveMaxPool"])
def test_modules_have_the_defaults_of_the_functions(kind: str) -> None:
    for axes in (1, 2, 3):
        module = getattr(nn, f"{kind}{axes}d")
        _, *wanted = inspect.signature(module._function).parameters.values()
        made = inspect.signature(module).parameters.values()
        assert [(one.name, one.default) for one in made] == [(one.name, one.default) for one in wanted]
