"""Pooling against a loop in NumPy, its reference and finite differences."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from nn_support import DTYPE_NAMES, Sized, check_equal, close, random, sized

import cukern as ck
from cukern import nn
from cukern.array.layout import is_aligned
from cukern.cli.tune import measure
from cukern.device.interface import Properties
from cukern.launch.family import STAND_IN
from cukern.nn.pooling import families, reference, variants
from cukern.nn.pooling.families import GRADIENT, POOLING
from cukern.nn.pooling.problem import Pooling, Windows, channels_last
from cukern.nn.pooling.reference import avg_pool2d_reference, max_pool2d_reference
from cukern.nn.pooling.variants import Tiles
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


def each_window(
    plane: tuple[int, ...], options: dict[str, Any]
) -> Iterator[tuple[tuple[int, int], np.ndarray, np.ndarray, int]]:
    """The windows one by one, as the definition says it, as far as they start on the padded plane.

    Yields:
        The place of a window's result, the rows and columns of its elements on the plane, and how many it counts.
    """

    def pair(name: str, default: Any) -> tuple[int, int]:
        value = options.get(name, default)
        return (value, value) if isinstance(value, int) else value

    kernel = pair("kernel_size", None)
    stride, padding, dilation = pair("stride", kernel), pair("padding", 0), pair("dilation", 1)
    starts = []
    for axis in range(2):
        size, found = plane[axis], []
        for start in itertools.count(-padding[axis], stride[axis]):
            last = start + dilation[axis] * (kernel[axis] - 1)
            fits = last < size + padding[axis]
            # Rounding up admits one window more, if it starts on the plane or the padding before it.
            overhangs = last - stride[axis] < size + padding[axis] - 1 and start < size
            if not (fits or (options.get("ceil_mode", False) and overhangs)):
                break
            found.append(start)
        starts.append(found)
    for (i, top), (j, left) in itertools.product(enumerate(starts[0]), enumerate(starts[1])):
        rows = top + np.arange(kernel[0]) * dilation[0]
        columns = left + np.arange(kernel[1]) * dilation[1]
        inner = rows[(rows >= 0) & (rows < plane[0])], columns[(columns >= 0) & (columns < plane[1])]
        counted = len(inner[0]) * len(inner[1])
        if options.get("count_include_pad", True):
            counted = int((rows < plane[0] + padding[0]).sum() * (columns < plane[1] + padding[1]).sum())
        yield (i, j), *inner, counted


def loop(x: np.ndarray, options: dict[str, Any], maximum: bool) -> np.ndarray:
    """Pooling by its definition."""
    made = {}
    for at, rows, columns, counted in each_window(x.shape[-2:], options):
        inside = x[..., rows, :][..., columns].astype(np.float64)
        if maximum:
            made[at] = inside.max((-2, -1)) if inside.size else np.full(x.shape[:-2], -np.inf)
        else:
            made[at] = inside.sum((-2, -1)) / counted
    last = max(made)
    return np.stack(list(made.values()), -1).reshape(*x.shape[:-2], last[0] + 1, last[1] + 1)


def loop_gradient(x: np.ndarray, dy: np.ndarray, options: dict[str, Any], maximum: bool) -> np.ndarray:
    """That of ``x``: what each window gives to its elements, or to the first of the largest."""
    dx = np.zeros(x.shape)
    for at, rows, columns, counted in each_window(x.shape[-2:], options):
        share = dy[(..., *at)].astype(np.float64)
        if not maximum:
            dx[..., rows[:, None], columns] += share[..., None, None] / counted
            continue
        inside = x[..., rows, :][..., columns].reshape(*x.shape[:-2], -1)
        for plane in np.ndindex(x.shape[:-2]):
            row, column = np.unravel_index(inside[plane].argmax(), (len(rows), len(columns)))
            dx[(*plane, rows[row], columns[column])] += share[plane]
    return dx


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
    name: str,
    limits: Properties | None,
    pick: Callable[..., Tiles],
    x: ck.Array,
    windows: Windows,
    maximum: bool,
    dy: Callable[..., ck.Array] = random,
) -> list[np.ndarray]:
    """What one variant makes of ``x``: y, y without winners, dx of a fixed dy, the winners.

    Tiles are those picked of the constants for a device with these limits, with 32 threads of a block.
    """

    def fields(family: Any, gradient: bool, start: ck.Array) -> dict[str, Any]:
        if name != "tiles":
            return {}
        where, aligned = (x.device, x.dtype, x.shape, False, windows, maximum), is_aligned(start)
        problem = Pooling(*where, keep=False, aligned=aligned, gradient=gradient)
        found = family.variants[name].configs(problem, limits or x.device.properties)
        return {**family.fields(pick(list(found), key=lambda one: one.rows)), "threads": 32}

    with POOLING.only(name, **fields(POOLING, False, x)) as used:
        y, winners = families.pool(x, windows, maximum, keep=maximum)
        untracked, _ = families.pool(x, windows, maximum)
    given = dy(5, y.shape, x.dtype)
    arrays = (given,) if winners is None else (given, winners)
    with GRADIENT.only(name, **fields(GRADIENT, True, given)) as others:
        dx = families.gradient(given, x.shape, windows, winners)
    assert {one.name for one in (*used, *others)} == {name} and all(map(is_aligned, arrays))
    found = [y, untracked, dx, *([] if winners is None else [winners])]
    return [one.numpy().astype(np.float64) for one in found]


#: Windows that overlap, are padded and go over the edge, in aligned memory and not, in all tiles; others, and windows
#: with gaps, in one. The rest is thorough.
_USUAL = (0, 0), (3, 0), (3, 1), (4, 0), (6, 0)
_TILES = (
    ("float32", STAND_IN, max),
    ("bfloat16", STAND_IN, max),
    ("float32", None, min),
    ("bfloat16", None, max),
)
_TILED = [
    pytest.param(
        *TILED[i],
        start,
        *tile,
        marks=()
        if (i, start) in _USUAL and (tile == _TILES[0] or (i, start) == (3, 1))
        else pytest.mark.thorough,
    )
    for i in range(len(TILED))
    for start in (0, 1)
    for tile in _TILES
]


@pytest.mark.parametrize("options, plane, start, dtype, limits, pick", _TILED, ids=str)
def test_tiles_are_the_loop(
    device: ck.Device,
    options: dict[str, Any],
    plane: tuple[int, int],
    start: int,
    dtype: str,
    limits: Properties | None,
    pick: Callable[..., Tiles],
) -> None:
    """With wide accesses and, of memory that is not aligned, with narrow ones; ties, -inf and NaN among the values."""
    rng, shape = np.random.default_rng(3), (2, 2, *plane)
    size = int(np.prod(shape))
    values = rng.choice([-np.inf, -1.0, -0.0, 0.0, 1.0, np.nan], size + 1, p=[0.6, 0.1, 0.1, 0.1, 0.08, 0.02])
    x = ck.reshape(ck.astype(ck.asarray(values), dtype)[start : start + size], shape)
    windows = windows_of(options)
    names = "portable", "tiles"
    for one, other in zip(*(pooled(name, limits, pick, x, windows, True) for name in names), strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(np.signbit(one[one == 0]), np.signbit(other[other == 0]))
    x = ck.reshape(random(4, (size + 1,), dtype)[start : start + size], shape)
    terms = pooled("portable", limits, pick, abs(x), windows, False, lambda *given: abs(random(*given)))
    made = (pooled(name, limits, pick, x, windows, False) for name in names)
    for one, other, size in zip(*made, terms, strict=True):
        close(ck.asarray(other.astype(x.dtype)), Sized(one, size))


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("name", POOLING.variants)
def test_every_variant_is_the_loop(device: ck.Device, name: str, dtype: str) -> None:
    x, last = random(0, (2, 8, 9, 10), dtype), name == "channels last"
    given = channels_last(x) if last else x
    for maximum, options in ((True, MAXIMA[2]), (False, AVERAGES[3])):
        windows = windows_of(options)
        with POOLING.only(name) as used, GRADIENT.only(name) as others:
            y, winners = families.pool(given, windows, maximum, keep=maximum)
            dy = random(1, y.shape, dtype)
            dx = families.gradient(channels_last(dy) if last else dy, x.shape, windows, winners)
        assert [one.name for one in (*used, *others)] == [name, name]
        close(y, sized(lambda x, of=options, kind=maximum: loop(x, of, kind), x))
        close(dx, sized(lambda dy, of=options, kind=maximum: loop_gradient(x.numpy(), dy, of, kind), dy))


def test_variants_are_what_the_reference_says(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every variant that fits, as ``python -m cukern tune pooling`` compares them."""
    shapes = reference.Shape(2, 3, 9, 3, 2, 1, True), reference.Shape(2, 4, 8, 2, 2, 0, False)
    monkeypatch.setattr(reference, "MODELS", shapes)
    for family in (POOLING, GRADIENT):
        entries, refused = measure(family, device, 8, 1, 0, 60)
        assert refused == [] and len(entries) == 8
        for one in entries:
            wanted = {"channels last"} if one.features["channels_last"] else {"portable", "tiles"}
            assert one.variants.keys() == wanted
    x = ck.asarray([[[float("-inf"), float("-inf"), 1.0], [float("nan"), float("nan"), 2.0]]])
    windows = Windows((2, 2), (1, 1), (1, 1), (2, 2))
    problem = Pooling(x.device, x.dtype, x.shape, False, windows, True, True, True)
    for found, want in zip(POOLING(problem)(x), POOLING.reference(problem)(x), strict=True):
        np.testing.assert_array_equal(found.numpy(), want.numpy())


def test_what_a_thread_computes(device: ck.Device) -> None:
    """The widest accesses that the sizes and the memory admit, and fewer rows where a GPU would have idle threads."""

    def tiles(
        dtype: Any, aligned: bool, shape: tuple[int, ...], limits: Properties = STAND_IN, **options: Any
    ) -> list[tuple[int, ...]]:
        made = []
        for family, gradient in ((POOLING, False), (GRADIENT, True)):
            where = device, ck.zeros(0, dtype).dtype, shape, False, windows_of(options), True
            problem = Pooling(*where, keep=not gradient, aligned=aligned, gradient=gradient)
            found = [family._choice(one, problem, limits) for one in family.variants.values()]
            best = min((one for one in found if not one.why), key=lambda one: one.seconds)
            made.append(tuple(family.fields(best.config).values())[:-1])
        return made

    large, pair = (64, 64, 224, 224), {"kernel_size": 2}
    assert tiles("float32", True, large, **pair) == [(4, 2, 4, 2), (4, 4, 2, 4)]
    assert tiles("bfloat16", True, large, **pair) == [(4, 2, 4, 2), (8, 8, 4, 8)]
    assert tiles("float32", False, large, **pair) == [(4, 2, 1, 1), (4, 4, 1, 1)]
    assert tiles("float32", True, large, kernel_size=3, stride=2) == [(4, 2, 4, 1), (4, 4, 1, 4)]
    assert tiles("float32", True, (1, 2, 2), **pair) == [(1, 1, 2, 1), (2, 2, 1, 2)]
    assert tiles("float32", True, (8, 64, 64, 64), **pair) == [(1, 2, 4, 2), (2, 4, 2, 4)]
    assert tiles("float32", True, large, kernel_size=224) == [(1,), (1,)]
    assert tiles("float64", True, large, kernel_size=8, stride=1)[0] == (1, 2, 2, 1)
    host = STAND_IN._replace(compute_capability=(0, 0), multiprocessors=2)
    assert tiles("bfloat16", True, large, host, **pair) == [(2, 8, 8, 8), (2, 16, 8, 8)]
    assert tiles("float32", True, large, host, kernel_size=5) == [(4,), (5, 20, 4, 4)]


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
    monkeypatch.setattr(variants, "index_type", lambda *sizes: "long long")
    x, options = random(0, (2, 7, 6)), MAXIMA[2]
    windows = windows_of(options)
    with POOLING.only("tiles", "portable"), GRADIENT.only("tiles", "portable"):
        check_equal(lambda x: nn.avg_pool2d(x, **options), lambda x: avg_pool2d_reference(x, windows), [x])
        check_equal(lambda x: nn.max_pool2d(x, **options), lambda x: max_pool2d_reference(x, windows), [x])


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
    variables = {
        **windows,
        "keep": False,
        "winner": "int",
        "no_winner": -1,
        "channels_last": False,
        "pack": 1,
    }
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
