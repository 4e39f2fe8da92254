"""Convolutions of few filters or of windows of one element, and how gradients of weights are rounded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from convolution_support import check
from nn_support import close, random, sized

import cukern as ck
from cukern.nn.convolution import few, few_channels, plan, pointwise
from cukern.nn.convolution.epilogue import added
from cukern.nn.convolution.geometry import Windows


@pytest.mark.parametrize(
    "x, w, dtype, options",
    [
        ((2, 3, 13, 11), (16, 3, 7, 7), "float32", {"stride": 2, "padding": 3}),
        ((1, 16, 9, 10), (4, 16, 3, 3), "bfloat16", {"padding": 2, "dilation": 2, "ulps": 4}),
        ((1, 32, 5, 6, 7), (4, 16, 3, 2, 1), "float64", {"groups": 2, "stride": (2, 1, 3), "padding": 1}),
    ],
)
def test_few_filters(
    device: ck.Device,
    monkeypatch: pytest.MonkeyPatch,
    x: tuple[int, ...],
    w: tuple[int, ...],
    dtype: str,
    options: dict[str, Any],
) -> None:
    """Threads have several rows, more than an image has, and more slices than fit in shared memory."""
    made = []

    def launch(*given: Any) -> Any:
        made.append(given)
        return few_launch(*given)

    few_launch = few.launch_of
    monkeypatch.setattr(few, "launch_of", launch)
    monkeypatch.setattr(few, "_BUSY", 0)
    monkeypatch.setattr(plan, "_plans", {})
    check(x, w, dtype, **options)
    assert made


@pytest.mark.parametrize(
    "x, w, dtype, packs, options",
    [
        ((2, 3, 13, 19), (36, 3, 7, 7), "float32", "none", {"stride": 2, "padding": 3}),
        ((1, 2, 19, 31), (70, 2, 3, 3), "bfloat16", "columns", {"stride": (1, 2), "padding": (1, 1)}),
        ((1, 4, 6, 21), (32, 4, 2, 4), "float16", "filters", {"last": True}),
    ],
)
def test_few_channels(
    device: ck.Device,
    monkeypatch: pytest.MonkeyPatch,
    x: tuple[int, ...],
    w: tuple[int, ...],
    dtype: str,
    packs: str,
    options: dict[str, Any],
) -> None:
    """More filters than a block has, tiles that are cut, and results stored in packs along each axis or along none."""
    takes, found = few_channels.takes, few_channels._packs
    stored = []
    gpu = type("", (), {"style": "simt"})
    monkeypatch.setattr(few_channels, "takes", lambda elem, _, *given: takes(elem, gpu, *given))
    monkeypatch.setattr(few_channels, "_packs", lambda *given: (stored.append(found(*given)), stored[-1])[1])
    monkeypatch.setattr(plan, "_plans", {})
    check(x, w, dtype, **options)
    assert packs in stored


def test_what_are_few_channels() -> None:
    """Channels of a window of two axes without dilation, of which a thread keeps a row in registers."""

    def takes(
        filters: int, channels: int, kernel: tuple[int, ...], elem: str = "float32", **windows: Any
    ) -> bool:
        given = Windows((1,) * len(kernel), (0,) * len(kernel), (1,) * len(kernel))._replace(**windows)
        gpu: Any = type("", (), {"style": "simt"})
        return few_channels.takes(ck.dtypes.as_dtype(elem), gpu, given, filters, channels, kernel)

    assert takes(64, 3, (7, 7), stride=(2, 2)) and takes(32, 4, (3, 3), "bfloat16")
    assert not takes(64, 5, (7, 7)) and not takes(31, 3, (7, 7)) and not takes(64, 3, (7, 7), "float64")
    assert not takes(64, 3, (7, 7), "bfloat16") and not takes(64, 3, (14, 14))
    assert not takes(64, 3, (7, 7), stride=(4, 4))
    assert not takes(64, 3, (7,)) and not takes(64, 3, (3, 3), dilation=(1, 2))
    assert not takes(64, 3, (3, 3), groups=2)


def test_what_is_few() -> None:
    """Filters of a group, of as many channels as make it worth while, with pixels innermost in memory."""
    first, last = ck.zeros((2, 16, 9, 9)), ck.moveaxis(ck.zeros((2, 9, 9, 16)), -1, 1)
    takes = few.takes
    assert takes(first._planned(), 3, 16, (3, 3), (1, 1))
    assert not takes(last._planned(), 3, 16, (3, 3), (1, 1))
    assert not takes(first._planned(), 5, 16, (3, 3), (1, 1)) and not takes(
        first._planned(), 3, 7, (3, 3), (1, 1)
    )
    # Of seven taps four remain at a stride of two.
    assert takes(first._planned(), 3, 16, (7, 7), (2, 2)) and not takes(
        first._planned(), 3, 16, (7, 7), (1, 1)
    )


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_weights_of_windows_of_one_element(device: ck.Device, dtype: str) -> None:
    """The sum of a product of each image, not rounded before; where products are small beside images, on a GPU."""
    x, dy = random(0, (5, 3, 16, 20), dtype), random(1, (5, 4, 16, 20), dtype)
    windows = Windows((1, 1), (0, 0), (1, 1))
    made = plan.weights_gradient(dy, x, windows, (1, 1), False)
    assert made.dtype == dtype
    close(made, sized(lambda a, b: np.einsum("nfyx,ncyx->fc", a, b)[..., None, None], dy, x))
    assert pointwise.has_batches(dy._planned(), x._planned()) == (not device.addressable)


def test_parts_are_rounded_once(device: ck.Device) -> None:
    parts = ck.asarray(np.array([[1 + 2.0**-9], [-1]], np.float32))
    total = added(parts, ck.dtypes.bfloat16)
    assert total.dtype == "bfloat16" and total.tolist() == [2.0**-9]
