"""Convolutions for which variants are measured: those of public models, and others drawn between and beyond them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

from ... import dtypes
from ... import namespace as ops
from ... import random as numbers
from ...array import Array
from ...device import Device, device
from .problem import Convolution, WeightsGradient, Windows

#: Elements of an image and of an output at most, on a GPU and on the host.
_MOST = 2**26
_MOST_ON_HOST = 2**17


class Shape(NamedTuple):
    """A convolution: batch, channels, filters, height and width, kernel, stride, groups."""

    batch: int
    channels: int
    filters: int
    size: tuple[int, int]
    kernel: int
    stride: int = 1
    groups: int = 1


#: ResNet-50 (stem, stages, downsampling), VGG-16, a diffusion UNet, ConvNeXt's and a ViT's patches, MobileNet v2.
MODELS = (
    Shape(64, 3, 64, (224, 224), 7, 2),
    Shape(64, 64, 64, (56, 56), 1),
    Shape(64, 64, 64, (56, 56), 3),
    Shape(64, 128, 128, (56, 56), 3, 2),
    Shape(64, 128, 128, (28, 28), 3),
    Shape(64, 256, 256, (14, 14), 3),
    Shape(64, 512, 512, (7, 7), 3),
    Shape(64, 256, 512, (56, 56), 1, 2),
    Shape(64, 512, 2048, (7, 7), 1),
    Shape(16, 3, 64, (224, 224), 3),
    Shape(16, 256, 256, (56, 56), 3),
    Shape(32, 64, 64, (64, 64), 3),
    Shape(32, 128, 128, (32, 32), 3),
    Shape(32, 256, 128, (32, 32), 3),
    Shape(32, 64, 3, (64, 64), 3),
    Shape(64, 96, 192, (56, 56), 2, 2),
    Shape(64, 3, 768, (224, 224), 16, 16),
)
DEPTHWISE_MODELS = (
    Shape(64, 96, 96, (112, 112), 3, 1, 96),
    Shape(64, 144, 144, (56, 56), 3, 1, 144),
    Shape(64, 144, 144, (56, 56), 3, 2, 144),
    Shape(64, 384, 384, (14, 14), 3, 1, 384),
    Shape(64, 960, 960, (7, 7), 3, 1, 960),
    Shape(64, 96, 96, (56, 56), 7, 1, 96),
)


def shapes(seed: int, depthwise: bool) -> Iterator[Shape]:
    """Those of models, then others without end."""
    draw = random.Random(seed)
    yield from DEPTHWISE_MODELS if depthwise else MODELS
    while True:
        size = draw.choice((7, 14, 28, 32, 48, 56, 64, 96, 112, 128))
        batch = draw.choice((1, 2, 4, 8, 16, 32, 64, 128))
        channels = draw.choice((16, 24, 32, 64, 96, 128, 192, 256, 384, 512, 1024))
        filters = channels if depthwise else draw.choice((3, 16, 32, 64, 96, 128, 256, 512, 1024))
        if not depthwise and draw.random() < 0.15:
            channels = draw.choice((1, 3, 4))
        kernel, stride = draw.choice((1, 3, 3, 3, 3, 5, 7)), draw.choice((1, 1, 1, 2))
        if batch * max(channels, filters) * size * size <= _MOST:
            yield Shape(batch, channels, filters, (size, size), kernel, stride, channels if depthwise else 1)


def _ordered(x: Array, channels_last: bool) -> Array:
    return ops.moveaxis(ops.moveaxis(x, 1, -1).contiguous(), -1, 1) if channels_last else x


def _arrays(
    of: Shape, dtype: dtypes.DType, channels_last: bool, where: Device, seed: int
) -> tuple[Array, Array, Array, Windows, tuple[int, int]]:
    """Image, weights and output, random; the windows; and the size of the output."""
    padding = (of.kernel - 1) // 2 if of.stride < of.kernel else 0
    size = tuple((n + 2 * padding - of.kernel) // of.stride + 1 for n in of.size)
    own = numbers.default_rng(seed)

    def normal(*shape: int) -> Array:
        return _ordered(ops.astype(own.standard_normal(shape, dtype="float32"), dtype), channels_last)

    with device(where):
        image = normal(of.batch, of.channels, *of.size)
        weights = normal(of.filters, of.channels // of.groups, of.kernel, of.kernel)
        output = normal(of.batch, of.filters, *size)
    windows = Windows((of.stride,) * 2, (padding,) * 2, (1, 1), of.groups)
    return image, weights, output, windows, (size[0], size[1])


#: Dtypes and precisions; others than the first forms have 16-bit elements half of the time.
_KINDS = ((dtypes.bfloat16, "highest"), (dtypes.float32, "highest"), (dtypes.float32, "tf32"))


def _problems(
    where: Device, seed: int, depthwise: bool
) -> Iterator[tuple[Shape, dtypes.DType, str, bool, Any]]:
    """Shapes with as much of their batch as the device computes in a short time, dtypes, precisions, whether channels
    lie innermost, and arrays: the first shapes in all forms, others in one of them, without end.
    """
    draw, most = random.Random(seed), _MOST_ON_HOST if where.addressable else _MOST
    for number, of in enumerate(shapes(seed, depthwise)):
        batch = min(of.batch, most // (max(of.channels, of.filters) * of.size[0] * of.size[1]))
        if not batch:
            continue
        forms = [(kind, last) for kind in _KINDS[: 2 if depthwise else 3] for last in (False, True)]
        if number >= 8:
            forms = [(draw.choice((_KINDS[0], *_KINDS)), draw.random() < 0.5)]
        for (dtype, precision), last in forms:
            arrays = _arrays(of._replace(batch=batch), dtype, last, where, number)
            yield of, dtype, "highest" if depthwise else precision, last, arrays


def convolutions(depthwise: bool) -> Any:
    """Problems of convolutions and of the gradients of their images, without end."""

    def samples(where: Device, seed: int) -> Iterator[tuple[Convolution, tuple[Array, ...]]]:
        for of, _, precision, last, arrays in _problems(where, seed, depthwise):
            image, weights, output, windows, size = arrays
            for x, result, transposed in ((image, size, False), (output, of.size, True)):
                layouts = x._planned(), weights._planned()
                own = Convolution(*layouts, windows, result, transposed, last, None, precision)
                yield own, (x, weights)

    return samples


def gradients(depthwise: bool) -> Any:
    """Problems of gradients of weights, without end."""

    def samples(where: Device, seed: int) -> Iterator[tuple[WeightsGradient, tuple[Array, ...]]]:
        for of, dtype, precision, last, arrays in _problems(where, seed, depthwise):
            image, _, output, windows, _ = arrays
            layouts, kernel = (output._planned(), image._planned()), (of.kernel, of.kernel)
            own = WeightsGradient(*layouts, windows, kernel, last, dtype, precision)
            yield own, (output, image)

    return samples
