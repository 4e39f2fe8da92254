"""Pooling for which variants are measured: that of public models, and others of sizes drawn between and beyond."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ... import dtypes
from ... import random as numbers
from ...array import Array
from ...device import Device, device
from . import reference
from .problem import Pooling, Windows, channels_last

#: Elements of an image at most, on a GPU and on the host.
_MOST = 2**26
_MOST_ON_HOST = 2**17


class Shape(NamedTuple):
    """Images and windows: batch, channels, height and width, kernel, stride, padding, and whether maxima are taken."""

    batch: int
    channels: int
    size: int
    kernel: int
    stride: int
    padding: int
    maximum: bool


#: ResNet's stem, VGG, SqueezeNet, Inception, DenseNet and the whole planes of MobileNet.
MODELS = (
    Shape(64, 64, 112, 3, 2, 1, True),
    Shape(64, 64, 224, 2, 2, 0, True),
    Shape(64, 512, 28, 2, 2, 0, True),
    Shape(64, 96, 111, 3, 2, 0, True),
    Shape(64, 288, 35, 3, 1, 1, False),
    Shape(64, 128, 56, 2, 2, 0, False),
    Shape(64, 1280, 7, 7, 1, 0, False),
)


def shapes(seed: int) -> Iterator[Shape]:
    """Those of models, then others without end."""
    yield from MODELS
    draw = random.Random(seed)
    while True:
        kernel = draw.choice((2, 2, 3, 3, 3, 5, 7))
        yield Shape(
            draw.choice((1, 4, 16, 64, 128)),
            draw.choice((3, 16, 64, 96, 256, 512)),
            draw.choice((14, 28, 35, 56, 64, 112, 224)),
            kernel,
            draw.choice((1, 2, kernel)),
            draw.choice((0, kernel // 2)),
            draw.random() < 0.5,
        )


def forward(where: Device, seed: int) -> Iterator[tuple[Pooling, tuple[Array, ...]]]:
    """Problems of pooling, without end."""
    most = _MOST_ON_HOST if where.addressable else _MOST
    for number, of in enumerate(shapes(seed)):
        windows = Windows((of.kernel,) * 2, (of.stride,) * 2, (of.padding,) * 2)
        shape = min(of.batch, most // (of.channels * of.size**2)), of.channels, of.size, of.size
        forms = itertools.product((dtypes.bfloat16, dtypes.float32), (False, True))
        for dtype, last in forms if shape[0] else ():
            with device(where):
                x = numbers.default_rng(number).standard_normal(shape, dtype="float32").astype(dtype)
                x = channels_last(x) if last else x
            yield Pooling(where, dtype, shape, last, windows, of.maximum, False, True), (x,)


def gradients(where: Device, seed: int) -> Iterator[tuple[Pooling, tuple[Array, ...]]]:
    """Problems of gradients of pooling, without end: of the windows' own results."""
    for problem, (x,) in forward(where, seed):
        with device(where):
            pooled = reference.pooling(replace(problem, keep=problem.maximum))(x)
            arrays = pooled if problem.maximum else [pooled]
            arrays = [channels_last(one) if problem.channels_last else one for one in arrays]
        yield replace(problem, gradient=True), tuple(arrays)
