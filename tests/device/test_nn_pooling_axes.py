"""Pooling over one and three axes, and to given sizes, against NumPy; and its derivatives."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from nn_support import close, random, sized

import cukern as ck
from cukern import nn
from cukern.testing import gradcheck

POOLS = {
    "avg": (nn.avg_pool1d, nn.avg_pool2d, nn.avg_pool3d),
    "max": (nn.max_pool1d, nn.max_pool2d, nn.max_pool3d),
}
ADAPTIVE = {
    "avg": (nn.adaptive_avg_pool1d, nn.adaptive_avg_pool2d, nn.adaptive_avg_pool3d),
    "max": (nn.adaptive_max_pool1d, nn.adaptive_max_pool2d, nn.adaptive_max_pool3d),
}


def pooled(
    x: np.ndarray, windows: list[list[range]], kind: str, divisors: np.ndarray | None = None
) -> np.ndarray:
    """``x`` (..., sizes), with the places of each window along each axis."""
    made = np.empty((*x.shape[: x.ndim - len(windows)], *map(len, windows)))
    for place in itertools.product(*(range(len(one)) for one in windows)):
        inside = x[..., *np.ix_(*(one[i] for one, i in zip(windows, place, strict=True)))]
        flat = inside.reshape(*inside.shape[: x.ndim - len(windows)], -1)
        made[..., *place] = flat.max(-1) if kind == "max" else flat.sum(-1)
        if kind == "avg":
            made[..., *place] /= flat.shape[-1] if divisors is None else divisors[place]
    return made


def windows_of(n: int, kernel: int, stride: int, padding: int) -> list[range]:
    starts = range(-padding, n + padding - kernel + 1, stride)
    return [range(max(0, start), min(n, start + kernel)) for start in starts]


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize("shape", [(2, 3, 9), (3, 9), (2, 2, 5, 6, 9), (1, 4, 5, 7)], ids=str)
def test_windows(device: ck.Device, shape: tuple[int, ...], kind: str) -> None:
    count = 1 if len(shape) < 4 else 3
    x = random(0, shape, "float32")
    kernel, stride, padding = (3, 2, 3)[-count:], (2, 1, 2)[-count:], (1, 1, 0)[-count:]
    windows = [windows_of(*one) for one in zip(shape[-count:], kernel, stride, padding, strict=True)]
    if kind == "max":
        made = POOLS[kind][count - 1](x, kernel, stride, padding)
        close(made, pooled(x.numpy(), windows, kind), 0)
        return
    whole = np.full([len(one) for one in windows], float(np.prod(kernel)))
    for counted, divisors in ((True, whole), (False, None)):
        made = POOLS[kind][count - 1](x, kernel, stride, padding, count_include_pad=counted)
        close(made, sized(lambda x, of=divisors: pooled(x, windows, kind, of), x))


@pytest.mark.parametrize("kind", ["avg", "max"])
@pytest.mark.parametrize(
    "shape, out", [((2, 3, 9), 4), ((2, 8, 6), (4, None)), ((2, 3, 7, 6), (3, 4)), ((1, 4, 5, 6), 2)], ids=str
)
def test_given_sizes(device: ck.Device, shape: tuple[int, ...], out: Any, kind: str) -> None:
    count = 3 if shape == (1, 4, 5, 6) else 1 if out == 4 else 2
    x = random(0, shape, "bfloat16" if count == 1 else "float32")
    given = out if isinstance(out, tuple) else (out,) * count
    windows = [
        [range(i * n // (m or n), -(-(i + 1) * n // (m or n))) for i in range(m or n)]
        for n, m in zip(shape[-count:], given, strict=True)
    ]
    made = ADAPTIVE[kind][count - 1](x, out)
    assert made.dtype == x.dtype
    close(made, sized(lambda x: pooled(x, windows, kind), x))


def test_the_first_of_equals_and_nan(device: ck.Device) -> None:
    """The gradient of three axes, and where windows of different lengths overlap."""
    x = ck.ones((1, 3, 3, 3))
    for function in (lambda x: nn.max_pool3d(x, 2, 1), lambda x: nn.adaptive_max_pool3d(x, 2)):
        (gradient,) = ck.vjp(function, x)[1](ck.ones((1, 2, 2, 2)))
        expected = np.zeros((1, 3, 3, 3))
        expected[:, :2, :2, :2] = 1
        assert gradient.tolist() == expected.tolist()
    values = np.arange(10.0)
    values[4] = np.nan
    made = nn.adaptive_max_pool1d(ck.asarray(values[None]), 4).numpy()[0]
    assert np.isnan(made[1]) and made[3] == 9
    assert nn.adaptive_avg_pool2d(ck.ones((0, 2, 4, 4)), 1).shape == (0, 2, 1, 1)


def test_derivatives(device: ck.Device) -> None:
    line = random(0, (2, 7))
    for f in POOLS:
        assert gradcheck(lambda x, of=f: POOLS[of][0](x * x, 3, 2, 1), [line], order=2)


@pytest.mark.parametrize("of", ["avg", pytest.param("max", marks=pytest.mark.thorough)])
def test_derivatives_of_volumes(device: ck.Device, of: str) -> None:
    volume = random(1, (1, 4, 3, 5))
    assert gradcheck(lambda x: POOLS[of][2](x * x, 2, 1, 1), [volume], order=2)
    assert gradcheck(lambda x: ADAPTIVE[of][2](x * x, (2, 2, 3)), [volume], order=2)


def test_modules(device: ck.Device) -> None:
    x = random(0, (1, 2, 4, 4, 4), "float32")
    for n in (1, 2, 3):
        one = x[..., 0, 0] if n == 1 else x[..., 0] if n == 2 else x
        for kind in ("Avg", "Max"):
            assert (
                getattr(nn, f"{kind}Pool{n}d")(2)(one).tolist() == POOLS[kind.lower()][n - 1](one, 2).tolist()
            )
            made = getattr(nn, f"Adaptive{kind}Pool{n}d")(2)(one)
            assert made.tolist() == ADAPTIVE[kind.lower()][n - 1](one, 2).tolist()


def test_refused(device: ck.Device) -> None:
    x = ck.zeros((2, 3, 4))
    for call, error, message in (
        (
            lambda: nn.max_pool1d(x, (2, 2)),
            TypeError,
            "kernel_size: expected an int or one in a tuple, got (2, 2)",
        ),
        (
            lambda: nn.avg_pool3d(x, 2),
            ValueError,
            "x: expected shape (N, C, D, H, W) or (C, D, H, W), got (2, 3, 4)",
        ),
        (
            lambda: nn.avg_pool1d(x, 2, padding=2),
            ValueError,
            "padding: expected at most half of the window's span 2",
        ),
        (lambda: nn.max_pool1d(x, 5), ValueError, "kernel_size: no window of span (5,) fits"),
        (lambda: nn.adaptive_avg_pool1d(x, 0), ValueError, "output_size: expected at least 1, got 0"),
        (
            lambda: nn.adaptive_max_pool2d(x, (0, 2)),
            ValueError,
            "output_size: expected at least 1, got (0, 2)",
        ),
        (lambda: nn.adaptive_max_pool2d(x, (2, -1)), ValueError, "expected at least 1, got (2, -1)"),
        (
            lambda: nn.adaptive_max_pool2d(x, (1, 2, 3)),
            TypeError,
            "output_size: expected an int or None, or 2 of",
        ),
        (
            lambda: nn.adaptive_avg_pool2d(x[0], 1),
            ValueError,
            "x: expected shape (N, C, H, W) or (C, H, W), got",
        ),
    ):
        with pytest.raises(error, match=re.escape(message)):
            call()
