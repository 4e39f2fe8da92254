"""Interpolation against PyTorch's values, its matrices' transposes, and derivatives."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from nn_support import close, random, sized

import cukern as ck
from cukern import nn
from cukern.nn.resampling import bands, families
from cukern.nn.resampling.families import RESAMPLING, DownRows, Resampling
from cukern.nn.resampling.regular import packs, regular
from cukern.testing import gradcheck


def along(x: np.ndarray, *matrices: np.ndarray) -> np.ndarray:
    """A product with a matrix along each axis after the second."""
    for axis, matrix in enumerate(matrices, start=2):
        x = np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)
    return x


def matrices(n: int, out: int) -> list[bands.Band]:
    corners = [make(n, out, n / out, one) for make in (bands.linear, bands.cubic) for one in (False, True)]
    return [*corners, bands.nearest(n, out, n / out, False), bands.nearest(n, out, n / out, True)]


@pytest.mark.parametrize("n, out", [(1, 5), (5, 1), (4, 8), (7, 11), (11, 4), (6, 6)])
def test_matrices(n: int, out: int) -> None:
    """Rows sum to 1, also of places beyond the ends; a transpose has the entries; starts ascend."""
    first, last = bands.adaptive(n, out)
    average = bands.windows(n, first, last, tuple(b - a for a, b in zip(first, last, strict=True)))
    for band in (*matrices(n, out), average):
        np.testing.assert_allclose(band.dense().sum(1), 1)
        np.testing.assert_array_equal(band.transposed.dense(), band.dense().T)
        assert band.transposed.transposed is band
        for one in (band, band.transposed):
            assert (np.diff(one.starts) >= 0).all() and one.starts.min() >= 0
            assert one.starts.max() + one.taps <= one.n
            for items in (items for items in (1, 2, 4) if one.out % items == 0):
                found = one.grouped(items, 4)
                each = bands.Band(one.n, np.repeat(found.band.starts, items), found.band.weights)
                columns = each.starts[:, None] + np.arange(each.taps)
                inside = (columns >= 0) & (columns < one.n)
                assert found.inside == inside.all() and not each.weights[~inside].any()
                made = np.zeros((one.out, one.n))
                np.add.at(made, (np.nonzero(inside)[0], columns[inside]), each.weights[inside])
                np.testing.assert_array_equal(made, one.dense())
                for used, sure, rows in zip(*found.patterns, range(items), strict=False):
                    bits = 2 ** np.arange(each.taps)
                    present, there = each.weights[rows::items] != 0, inside[rows::items]
                    assert [used & int(bit) > 0 for bit in bits] == present.any(0).tolist()
                    assert all(present[there[:, c], c].all() for c in range(each.taps) if sure & int(bits[c]))


def test_regular_matrices() -> None:
    """Groups with the same weights at equal distances are the matrix; packs hold what they read, and are aligned."""
    made = [make(12, 24, 0.5, False) for make in (bands.linear, bands.cubic, bands.nearest)]
    made += [bands.linear(36, 12, 3, False), bands.linear(12, 36, 1 / 3, False), bands.same(1)]
    for band in (*made, *(one.transposed for one in made)):
        found = [(items, one) for items in (1, 2, 3, 4) if (one := regular(band, items)) is not None]
        assert found or band.out < band.n
        for items, one in found:
            groups = band.out // items
            whole = np.zeros((band.out, band.n))
            for row in range(band.out):
                group = row // items
                own = one.weights[0 if group == 0 else 2 if group == groups - 1 else 1][row % items]
                for place, weight in enumerate(own, one.first + one.apart * group):
                    if 0 <= place < band.n:
                        whole[row, place] = weight
            np.testing.assert_allclose(whole, band.dense(), atol=1e-14)
            read = [place + i for place, wide in packs(one, band.n, 4) for i in range(wide)]
            assert len(read) == len(set(read)) and set(one.used) <= set(read)
            for place, wide in packs(one, band.n, 4):
                assert place % wide == one.apart % wide == band.n % wide == 0 and wide <= 4
    # Places that are not equally far apart, and groups that are not alike.
    for band in (
        bands.linear(12, 24, 0.5, True),
        bands.linear(12, 20, 0.6, False),
        bands.cubic(4, 8, 0.5, False),
    ):
        assert regular(band, 2) is None


def test_values(device: ck.Device) -> None:
    """As of PyTorch: a row, and what a number of each mode stands for."""
    x = ck.asarray([[[1.0, 2.0, 4.0]]])
    for options, expected in (
        ({"size": 5}, [1, 1, 2, 2, 4]),
        ({"size": 5, "mode": "nearest-exact"}, [1, 1, 2, 4, 4]),
        ({"size": 5, "mode": "linear"}, [1.0, 1.4, 2.0, 3.2, 4.0]),
        ({"size": 5, "mode": "linear", "align_corners": True}, [1, 1.5, 2, 3, 4]),
        ({"scale_factor": 1.9, "mode": "linear"}, [1.0, 1.289474, 1.815789, 2.684211, 3.736842]),
        ({"size": 2, "mode": "area"}, [1.5, 3.0]),
        ({"scale_factor": 1.3}, [1, 1, 2]),
        ({"size": 5, "mode": "cubic"}, [0.904, 1.244, 2.0, 3.296, 4.192]),
        ({"size": 2, "mode": "linear", "antialias": True}, [1.375, 3.25]),
        ({"size": 2, "mode": "cubic", "antialias": True}, [1.269663, 3.340289]),
    ):
        np.testing.assert_allclose(nn.interpolate(x, **options).numpy()[0, 0], expected, rtol=1e-5)


def smooth(n: int, out: int, scale: float, cubic: bool) -> np.ndarray:
    """The matrix of weights by the distances of all elements, which few of them are within."""
    wide = max(scale, 1.0)
    apart = np.abs(np.arange(n) + 0.5 - scale * (np.arange(out)[:, None] + 0.5)) / wide
    near = 1.5 * apart**3 - 2.5 * apart**2 + 1
    far = -0.5 * apart**3 + 2.5 * apart**2 - 4 * apart + 2
    keys = np.where(apart <= 1, near, np.where(apart < 2, far, 0))
    weights: np.ndarray = keys if cubic else np.maximum(1 - apart, 0)
    weights /= weights.sum(1, keepdims=True)
    return weights


@pytest.mark.parametrize("cubic", [False, True])
def test_smoothed(device: ck.Device, cubic: bool) -> None:
    """Axes that shrink, grow and stay."""
    mode = "cubic" if cubic else "linear"
    for shape, sizes in (
        ((2, 3, 40), (7,)),
        ((1, 2, 9, 12), (4, 20)),
        ((1, 1, 8, 6), (8, 1)),
        ((1, 1, 5), (2,)),
    ):
        x = random(0, shape)
        matrices = [smooth(n, out, n / out, cubic) for n, out in zip(shape[2:], sizes, strict=True)]
        made = nn.interpolate(x, sizes, mode=mode, antialias=True)
        np.testing.assert_allclose(made.numpy(), along(x.numpy(), *matrices), atol=1e-12)
        half = nn.interpolate(x.astype("bfloat16"), sizes, mode=mode, antialias=True)
        close(half, sized(along, x.astype("bfloat16"), *matrices))
    line = random(1, (1, 1, 30))
    made = nn.interpolate(line, scale_factor=0.3, mode=mode, antialias=True)
    np.testing.assert_allclose(made.numpy(), along(line.numpy(), smooth(30, 9, 1 / 0.3, cubic)), atol=1e-12)
    made = nn.interpolate(line, 4, mode=mode, antialias=True, align_corners=True)
    np.testing.assert_allclose(made.numpy(), along(line.numpy(), smooth(30, 4, 29 / 3, cubic)), atol=1e-12)
    up = nn.Upsample(scale_factor=0.5, mode=mode, antialias=True)
    assert gradcheck(lambda x: up(x * x), [line], order=2)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_each_axis_is_a_product(device: ck.Device, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of even rows and odd ones, bands of several rows, few and many weights; and the transposed product."""
    monkeypatch.setattr(DownRows, "busy", 0)
    for shape, out, make in (
        ((2, 3, 40), (80,), bands.linear),
        ((1, 2, 9, 32), (20, 64), bands.linear),
        ((1, 2, 12, 32), (24, 64), bands.cubic),
        ((2, 1, 3, 5, 6), (4, 3, 7), bands.linear),
        ((1, 1, 70, 3), (2, 5), bands.linear),
    ):
        x, dy = random(0, shape, dtype), random(1, (*shape[:2], *out), dtype)
        y, pull = ck.vjp(lambda x, out=out, make=make: nn.interpolate(x, out, mode=make.__name__), x)
        matrices = [make(n, m, n / m, False).dense() for n, m in zip(shape[2:], out, strict=True)]

        assert y.dtype == dtype
        close(y, sized(along, x, *matrices))
        close(pull(dy)[0], sized(along, dy, *(matrix.T for matrix in matrices)))


def test_a_window_alone_takes_what_is_in_it(device: ck.Device) -> None:
    """Not what a matrix of more weights a row has zeros for; nor where the work is an element a thread."""
    x = np.ones((1, 1, 5), np.float32)
    x[..., 4] = np.nan
    made = nn.interpolate(ck.asarray(x), 3, mode="area").numpy()
    assert np.isfinite(made[..., :2]).all() and np.isnan(made[..., 2:]).all()
    long = np.ones((1, 1, 201), np.float32)
    long[..., 200] = np.inf
    assert np.isfinite(nn.interpolate(ck.asarray(long), 2, mode="area").numpy()[..., 0]).all()


def test_other_layouts(device: ck.Device) -> None:
    x = random(0, (6, 8, 3), "float32")
    view = ck.permute_dims(x, (2, 0, 1))[None]
    axes = [bands.linear(n, 2 * n, 0.5, False).dense() for n in (6, 8)]
    made = nn.interpolate(view, scale_factor=2, mode="bilinear")
    close(made, sized(along, view, *axes))
    assert made.strides[1] == made.itemsize  # channels stay innermost
    misaligned = random(1, (2 * 64 + 1,), "float32")[1:].reshape(1, 2, 64)
    assert nn.interpolate(misaligned, 64).tolist() == misaligned.tolist()
    assert nn.interpolate(ck.zeros((0, 3, 4)), 8).shape == (0, 3, 8)
    y, pull = ck.vjp(lambda x: nn.interpolate(x, 8), ck.ones((1, 1, 4)))
    assert pull(ck.broadcast_to(ck.asarray(1.0), y.shape))[0].tolist() == [[[2.0] * 4]]


def test_derivatives(device: ck.Device) -> None:
    x = random(0, (1, 2, 3, 4))
    assert gradcheck(lambda x: nn.interpolate(x * x, (5, 6), mode="bicubic"), [x], order=2)
    assert gradcheck(lambda x: nn.interpolate(x * x, (2, 3), mode="area"), [x], order=2)


@pytest.mark.thorough
def test_as_pytorch(device: ck.Device) -> None:
    torch = pytest.importorskip("torch")
    options = ({"size": 11}, {"size": 2}, {"scale_factor": 2.0}, {"scale_factor": 1.7}, {"scale_factor": 0.6})
    modes = {1: ("linear",), 2: ("bilinear", "bicubic"), 3: ("trilinear",)}
    for shape in ((2, 3, 7), (2, 3, 5, 6), (1, 2, 3, 4, 5)):
        smooth = modes[len(shape) - 2]
        every: list[tuple[str, dict[str, Any]]] = [
            (mode, {}) for mode in ("nearest", "nearest-exact", "area")
        ]
        every += [(mode, {"align_corners": one}) for mode in smooth for one in (False, True)]
        every += [(mode, {"antialias": True}) for mode in smooth if mode in ("bilinear", "bicubic")]
        for (mode, more), given in itertools.product(every, options):
            x = np.random.default_rng(0).normal(size=shape)
            there = torch.tensor(x, requires_grad=True)
            want = torch.nn.functional.interpolate(there, mode=mode, **given, **more)
            y, pull = ck.vjp(
                lambda x, o={**given, **more}, m=mode: nn.interpolate(x, mode=m, **o), ck.asarray(x)
            )
            dy = np.random.default_rng(1).normal(size=y.shape)
            (dx,) = torch.autograd.grad(want, there, torch.tensor(dy))
            np.testing.assert_allclose(y.numpy(), want.detach().numpy(), atol=1e-6)
            np.testing.assert_allclose(pull(ck.asarray(dy))[0].numpy(), dx.numpy(), atol=1e-6)


def test_refused(device: ck.Device) -> None:
    x = ck.zeros((1, 2, 3, 4))
    for call, error, message in (
        (lambda: nn.interpolate(x), ValueError, "size, scale_factor: expected one of them"),
        (lambda: nn.interpolate(x, 2, 2.0), ValueError, "size, scale_factor: expected one of them"),
        (lambda: nn.interpolate(x, 0), ValueError, "size: expected at least 1, got 0"),
        (
            lambda: nn.interpolate(x, (2, 3, 4)),
            TypeError,
            "size: expected an int or a pair of ints, got (2, 3, 4)",
        ),
        (lambda: nn.interpolate(x, scale_factor=-1.0), ValueError, "scale_factor: expected positive numbers"),
        (
            lambda: nn.interpolate(x, scale_factor="2"),
            TypeError,
            "scale_factor: expected a number or 2 of them",
        ),
        (
            lambda: nn.interpolate(x, scale_factor=0.1),
            ValueError,
            "scale_factor: 0.1 leaves nothing of (3, 4)",
        ),
        (lambda: nn.interpolate(x, 2, mode="trilinear"), ValueError, "mode: expected one of"),
        (
            lambda: nn.interpolate(x, 2, align_corners=True),
            ValueError,
            "align_corners: expected False for mode",
        ),
        (lambda: nn.interpolate(x[0, 0], 2), ValueError, "x: expected shape (N, C, ...) with one to three"),
    ):
        with pytest.raises(error, match=re.escape(message)):
            call()


def test_the_work_of_a_thread(device: ck.Device) -> None:
    """Columns that it keeps the sums of and that divide a row; rows by how many threads there are."""
    x, one, two = ck.zeros((4, 1), "float32")._planned(), bands.same(1), bands.linear(100, 200, 0.5, False)
    uneven, wide = bands.linear(50, 99, 0.5, False), bands.windows(100, (0,), (100,), (100,))
    axes = ((one, two, two), (one, two, uneven), (one, one, wide), (one, wide, one))
    assert [DownRows.columns(Resampling(x, each)) for each in axes] == [4, 1, 0, 0]
    assert [DownRows.rows_of(100, threads, 4) for threads in (10**6, 100, 1)] == [64, 4, 4]
    assert DownRows.rows_of(3, 1, 4) == 4 and DownRows.rows_of(1, 1, 4) == 1


def test_each_variant_is_the_products(device: ck.Device) -> None:
    """Of each problem that it fits, and of its transpose; misaligned arrays are for those that read by weights."""
    seen = set()
    for dtype in ("float16", "float32", "float64"):
        x = random(0, (2, 1, 6, 16), dtype)
        for band in (bands.linear(6, 12, 0.5, False), bands.cubic(6, 9, 2 / 3, False)):
            across = bands.linear(16, 32, 0.5, False)
            problem = Resampling(x._planned(), (bands.same(1), band, across))
            expected = sized(along, x, *(one.dense() for one in problem.axes[1:]))
            close(RESAMPLING.reference(problem)(x), expected)
            for name in RESAMPLING.variants:
                if RESAMPLING.variants[name].fits(problem, device.properties):
                    continue
                with RESAMPLING.only(name) as used:
                    close(families.launch(x, problem.axes), expected)
                assert [one.name for one in used] == [name]
                seen.add(name)
    assert seen == set(RESAMPLING.variants)
    apart = random(1, (2 * 96 + 1,), "float32")[1:].reshape(2, 1, 6, 16)
    with RESAMPLING.only("equal groups"), pytest.raises(ck.LaunchError, match="which begin aligned"):
        families.launch(apart, (bands.same(1), bands.linear(6, 12, 0.5, False), across))
    close(
        families.launch(apart, problem.axes), sized(along, apart, *(one.dense() for one in problem.axes[1:]))
    )
