"""Rotary position embedding against NumPy in float64, and its derivatives."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from nn_support import check_equal, close, random, sized

import cukern as ck
from cukern import nn
from cukern.nn.rotary import rotary_reference
from cukern.testing import gradcheck


def turned(x: np.ndarray, positions: Any, size: int, interleaved: bool, base: float = 10000.0) -> np.ndarray:
    """By complex numbers."""
    half = size // 2
    angle = np.asarray(positions, np.float64)[..., None] * base ** (-2 * np.arange(half) / size)
    first, second = (
        (slice(0, size, 2), slice(1, size, 2)) if interleaved else (slice(half), slice(half, size))
    )
    made = x.astype(np.float64).copy()
    pairs = (x[..., first] + 1j * x[..., second]) * np.exp(1j * angle)
    made[..., first], made[..., second] = pairs.real, pairs.imag
    return made


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_positions(device: ck.Device, dtype: str) -> None:
    """Counted, of each row, of each example, along another axis; far from 0; more rows than a thread has."""
    x = random(0, (3, 5, 4, 32), dtype)
    far = np.array([0, 1, 131_071, 7])
    each = np.array([[[3, 1, 4, 1]], [[5, 9, 2, 6]], [[0, 0, 1, 0]]])
    along = np.array([4, 3, 2, 1, 0])[:, None]
    for interleaved, size in ((False, None), (True, 16)):
        options: dict[str, Any] = {"interleaved": interleaved, "size": size}
        width = size or 32
        for positions, given in (
            (np.arange(4), 0),
            (np.arange(4) + 7, 7),
            (far, far),
            (each, each),
            (along, along),
        ):
            made = nn.rotary_embedding(x, given if isinstance(given, int) else ck.asarray(given), **options)
            assert made.dtype == dtype
            wanted = sized(lambda x, p=positions, w=width, i=interleaved: turned(x, p, w, i), x)
            close(made, wanted)


def test_other_sizes_and_layouts(device: ck.Device) -> None:
    x = random(0, (3, 7), "float32")
    close(
        nn.rotary_embedding(x, size=6, base=100.0),
        sized(lambda x: turned(x, np.arange(3), 6, False, 100.0), x),
    )
    close(
        nn.rotary_embedding(x[:, 1:], 0.5), sized(lambda x: turned(x, np.arange(3) + 0.5, 6, False), x[:, 1:])
    )
    view = random(1, (8, 3), "float32").T
    close(nn.rotary_embedding(view), sized(lambda x: turned(x, np.arange(3), 8, False), view))
    assert nn.rotary_embedding(ck.zeros((0, 4))).shape == (0, 4)
    assert nn.rotary_embedding(ck.zeros((2, 0, 4)), ck.zeros((0,), "int64")).shape == (2, 0, 4)


#: Of packs of 16 bytes.
_WIDTHS = {"float32": [(10, 8), (12, 12), (20, 4)], "bfloat16": [(18, 16), (24, 24), (16, 8)]}


@pytest.mark.parametrize(
    ("dtype", "features", "size"),
    [
        pytest.param(dtype, *width, marks=() if width in _WIDTHS[dtype] else pytest.mark.thorough)
        for dtype in _WIDTHS
        for width in (*_WIDTHS["float32"], *_WIDTHS["bfloat16"])
    ],
)
def test_widths_that_packs_do_not_divide(device: ck.Device, dtype: str, features: int, size: int) -> None:
    """Halves of some packs beside a rest of none and the other way round; also from an address within a pack."""
    values = random(0, (3 * features + 1,), dtype)
    for first in (0, 1):
        x = values[first : first + 3 * features].reshape((3, features))
        want = sized(lambda x: turned(x, np.arange(3), size, False), x)
        with ck.testing.checked():
            close(nn.rotary_embedding(x, size=size), want)


def test_tables(device: ck.Device) -> None:
    """Of cosines and sines, whose derivatives a composition gives."""
    x, cos, sin = random(0, (2, 3, 6)), random(1, (3, 2)), random(2, (2, 1, 2))
    for interleaved in (False, True):
        check_equal(
            lambda x, i=interleaved: nn.rotary_embedding(x, cos=cos, sin=sin, size=4, interleaved=i),
            lambda x, i=interleaved: rotary_reference(x, cos, sin, i),
            [x],
            cotangents=[ck.broadcast_to(ck.asarray(np.float64(0.7)), x.shape)],
        )
    assert gradcheck(lambda *own: nn.rotary_embedding(own[0], cos=own[1], sin=own[2], size=4), [x, cos, sin])


def test_derivatives(device: ck.Device) -> None:
    x, positions = random(0, (2, 3, 6)), ck.asarray([2, 0, 9])
    assert gradcheck(lambda x: nn.rotary_embedding(x * x, positions, size=4), [x], order=2)


def test_refused(device: ck.Device) -> None:
    x = ck.zeros((2, 3, 6))
    for call, error, message in (
        (lambda: nn.rotary_embedding(x, size=5), ValueError, "size: expected an even number up to 6, got 5"),
        (
            lambda: nn.rotary_embedding(x, base=0),
            ValueError,
            "base: expected a positive, finite number, got 0",
        ),
        (
            lambda: nn.rotary_embedding(x, base=float("inf")),
            ValueError,
            "base: expected a positive, finite number",
        ),
        (
            lambda: nn.rotary_embedding(x, ck.zeros(4)),
            ValueError,
            "positions: expected a shape that broadcasts to the rows' (2, 3), got (4,)",
        ),
        (
            lambda: nn.rotary_embedding(x, ck.zeros(3, "bool")),
            TypeError,
            "positions: expected real numbers, got bool",
        ),
        (lambda: nn.rotary_embedding(x, cos=x), ValueError, "cos: expected 3 numbers along the last axis"),
        (lambda: nn.rotary_embedding(x, cos=x[..., :3]), ValueError, "cos, sin: expected both or neither"),
        (
            lambda: nn.rotary_embedding(x[0, 0]),
            ValueError,
            "x: expected shape (..., length, features), got (6,)",
        ),
    ):
        with pytest.raises(error, match=re.escape(message)):
            call()
