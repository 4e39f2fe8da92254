"""Convolutions of few filters, of few channels or of windows of one element, and how partial sums are rounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from convolution_support import check
from nn_support import close, random, sized

import cukern as ck
from cukern.launch.family import STAND_IN
from cukern.nn.convolution.arrangement import added
from cukern.nn.convolution.families import CONVOLUTION, weights_gradient
from cukern.nn.convolution.problem import Convolution, Windows
from cukern.nn.convolution.variants import FewChannels, FewFilters


@pytest.mark.parametrize(
    "x, w, dtype, rows, options",
    [
        ((2, 3, 13, 11), (16, 3, 7, 7), "float32", 8, {"stride": 2, "padding": 3}),
        ((1, 16, 9, 10), (4, 16, 3, 3), "bfloat16", 4, {"padding": 2, "dilation": 2, "ulps": 4}),
        ((1, 32, 5, 6, 7), (4, 16, 3, 2, 1), "float64", 8, {"groups": 2, "stride": (2, 1, 3), "padding": 1}),
        ((1, 16, 5, 6), (4, 16, 3, 3), "float16", 2, {}),
    ],
)
def test_few_filters(
    device: ck.Device, x: tuple[int, ...], w: tuple[int, ...], dtype: str, rows: int, options: dict[str, Any]
) -> None:
    """Threads have several rows, more than an image has, and more slices than fit in shared memory."""
    with CONVOLUTION.only("few filters", "portable", rows=rows) as used:
        check(x, w, dtype, **options)
    assert FewFilters(rows) in used


@pytest.mark.parametrize(
    "x, w, dtype, packs, options",
    [
        ((2, 3, 13, 19), (36, 3, 7, 7), "float32", "none", {"stride": 2, "padding": 3}),
        ((1, 2, 19, 31), (70, 2, 3, 3), "float32", "columns", {"stride": (1, 2), "padding": (1, 1)}),
        ((1, 4, 6, 21), (32, 4, 2, 4), "float16", "filters", {"last": True}),
    ],
)
def test_few_channels(
    device: ck.Device, x: tuple[int, ...], w: tuple[int, ...], dtype: str, packs: str, options: dict[str, Any]
) -> None:
    """More filters than a block has, tiles that are cut, and results stored in packs along each axis or along none."""
    with CONVOLUTION.only("few channels", "portable") as used:
        check(x, w, dtype, **options)
    assert isinstance(used[0], FewChannels)
    (gemm,) = FewChannels.gemms(used.problems[0])
    assert FewChannels._packs(gemm.output, gemm.axes[2].pixels, gemm.filters) == packs


def problem_of(
    x: tuple[int, ...], w: tuple[int, ...], dtype: str = "float32", last: bool = False, **windows: Any
) -> Convolution:
    image, weights = ck.zeros(x, dtype), ck.zeros(w, dtype)
    if last:
        image = ck.moveaxis(ck.moveaxis(image, 1, -1).contiguous(), -1, 1)
    axes = len(w) - 2
    given = Windows((1,) * axes, (0,) * axes, (1,) * axes)._replace(**windows)
    size = tuple((n - k) // s + 1 for n, k, s in zip(x[2:], w[2:], given.stride, strict=True))
    return Convolution(image._planned(), weights._planned(), given, size, False, last, None, "highest")


def test_what_are_few_channels() -> None:
    """Channels of a window of two axes without dilation, of which a thread keeps a row in registers."""

    def fits(
        filters: int, channels: int, kernel: tuple[int, ...], dtype: str = "float32", **windows: Any
    ) -> bool:
        x, w = (1, channels, *(16,) * len(kernel)), (filters, channels, *kernel)
        return not FewChannels.fits(problem_of(x, w, dtype, **windows), STAND_IN)

    assert fits(64, 3, (7, 7), stride=(2, 2)) and fits(32, 4, (3, 3), "bfloat16")
    assert not fits(64, 5, (7, 7)) and not fits(31, 3, (7, 7)) and not fits(64, 3, (7, 7), "float64")
    assert not fits(64, 3, (7, 7), "bfloat16") and not fits(64, 3, (14, 14))
    assert not fits(64, 3, (7, 7), stride=(4, 4))
    assert not fits(64, 3, (7,)) and not fits(64, 3, (3, 3), dilation=(1, 2))
    assert not fits(64, 3, (3, 3), groups=2)


def test_what_are_few_filters() -> None:
    """Filters of a group, of as many channels as make it worth while, with pixels innermost in memory."""

    def fits(filters: int, channels: int, kernel: int, last: bool = False) -> bool:
        given = problem_of((2, channels, 9, 9), (filters, channels, kernel, kernel), last=last)
        return not FewFilters.fits(given, STAND_IN)

    assert fits(3, 16, 3) and not fits(3, 16, 3, last=True)
    assert not fits(5, 16, 3) and not fits(3, 7, 3) and not fits(3, 16, 7)
    dy, w = ck.zeros((2, 16, 4, 4)), ck.zeros((16, 3, 7, 7))
    for stride, taken in ((2, True), (1, False)):  # of seven taps four remain at a stride of two
        windows = Windows((stride, stride), (0, 0), (1, 1))
        size = (13, 13) if stride == 2 else (10, 10)
        given = Convolution(dy._planned(), w._planned(), windows, size, True, False, None, "highest")
        assert (not FewFilters.fits(given, STAND_IN)) == taken


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_weights_of_windows_of_one_element(device: ck.Device, dtype: str) -> None:
    """The sum of a product of each image, not rounded before."""
    x, dy = random(0, (5, 3, 16, 20), dtype), random(1, (5, 4, 16, 20), dtype)
    windows = Windows((1, 1), (0, 0), (1, 1))
    made = weights_gradient(dy, x, windows, (1, 1), False)
    assert made.dtype == dtype
    close(made, sized(lambda a, b: np.einsum("nfyx,ncyx->fc", a, b)[..., None, None], dy, x))


def test_partial_sums_are_rounded_once(device: ck.Device) -> None:
    partials = ck.asarray(np.array([[1 + 2.0**-9], [-1]], np.float32))
    total = added(partials, ck.dtypes.bfloat16)
    assert total.dtype == "bfloat16" and total.tolist() == [2.0**-9]
