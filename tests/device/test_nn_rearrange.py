"""Padding, and channels exchanged for neighbours."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from nn_support import random

import cukern as ck
from cukern import nn
from cukern.testing import gradcheck


@pytest.mark.parametrize(
    "mode, theirs",
    [("constant", "constant"), ("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")],
)
def test_padding(device: ck.Device, mode: str, theirs: str) -> None:
    x = random(0, (2, 3, 4, 5), "float32")
    for padding, widths in (
        (2, [(0, 0)] * 2 + [(2, 2)] * 2),
        ([(1, 0), (2, 3)], [(0, 0)] * 2 + [(1, 0), (2, 3)]),
    ):
        expected = np.pad(x.numpy(), widths, theirs)
        assert nn.pad(x, padding, mode).tolist() == expected.tolist()
        assert nn.Pad(padding, mode)(x).tolist() == expected.tolist()
    assert gradcheck(lambda x: nn.pad(x * x, [(1, 2)], mode), [random(1, (2, 4))], order=2)


def test_negative_padding_cuts_off(device: ck.Device) -> None:
    x = random(0, (2, 4, 5))
    expected = np.pad(x.numpy()[:, 1:, :3], [(0, 0), (0, 2), (3, 0)])
    assert nn.pad(x, [(-1, 2), (3, -2)]).tolist() == expected.tolist()
    mirrored = np.pad(x.numpy()[..., 2:], [(0, 0), (0, 0), (0, 1)], "reflect")
    assert nn.pad(x, [(-2, 1)], "reflect").tolist() == mirrored.tolist()
    assert nn.pad(x, [(-2, -3)]).shape == (2, 4, 0)
    assert gradcheck(lambda x: nn.pad(x * x, [(-1, 2)]), [x])
    with pytest.raises(
        ValueError, match=r"pad: padding: \[\(-3, -3\)\] cuts off more than shape \(2, 4, 5\) has"
    ):
        nn.pad(x, [(-3, -3)])


def test_padding_with_a_number(device: ck.Device) -> None:
    assert nn.pad(ck.asarray([1.0]), [(1, 0)], value=7.0).tolist() == [7.0, 1.0]
    assert nn.pad(ck.ones((2, 2)), 3).shape == (2, 2)


def test_pixels(device: ck.Device) -> None:
    x = random(0, (2, 12, 3, 4))
    made = nn.pixel_shuffle(x, 2)
    split = x.numpy().reshape(2, 3, 2, 2, 3, 4).transpose(0, 1, 4, 2, 5, 3)
    assert made.tolist() == split.reshape(2, 3, 6, 8).tolist()
    assert nn.pixel_unshuffle(made, 2).tolist() == x.tolist()
    assert nn.PixelUnshuffle(2)(nn.PixelShuffle(2)(x)).tolist() == x.tolist()
    assert gradcheck(lambda x: nn.pixel_shuffle(x * x, 2), [x[:1, :4]], order=2)
    assert gradcheck(lambda x: nn.pixel_unshuffle(x * x, 2), [made[0]])


def test_refused(device: ck.Device) -> None:
    x = ck.zeros((4, 3, 3))
    flat: Any = (1, 2, 3, 4)
    mixed: Any = [(1, 2), 3]
    for call, error, message in (
        (lambda: nn.pad(x, flat), TypeError, "PyTorch's (1, 2, 3, 4) is [(3, 4), (1, 2)]"),
        (
            lambda: nn.pad(x, mixed),
            TypeError,
            "padding: expected an int, or a pair (before, after) for each of",
        ),
        (
            lambda: nn.pad(x, [(1, 1)] * 4),
            ValueError,
            "padding: expected at most 3 pairs for shape (4, 3, 3)",
        ),
        (
            lambda: nn.pad(x, 1, "edge"),
            ValueError,
            "mode: expected one of 'constant', 'reflect', 'replicate'",
        ),
        (
            lambda: nn.pixel_shuffle(x, 3),
            ValueError,
            "expected a multiple of 9 channels, got shape (4, 3, 3)",
        ),
        (lambda: nn.pixel_shuffle(x, 0), ValueError, "factor: expected an int of at least 1, got 0"),
        (
            lambda: nn.pixel_unshuffle(x, 2),
            ValueError,
            "expected planes of multiples of 2, got shape (4, 3, 3)",
        ),
        (lambda: nn.pixel_unshuffle(x[0], 3), ValueError, "x: expected shape (..., C, H, W), got (3, 3)"),
    ):
        with pytest.raises(error, match=re.escape(message)):
            call()
