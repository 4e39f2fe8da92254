"""Convolutions and their gradients by their definition, tap by tap, and problems where kernels are compared with it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ... import dtypes
from ... import namespace as ops
from ... import random as numbers
from ...array import Array
from ...array.creation import zeros
from ...device import Device, device
from ...elementwise.function import evaluate
from .problem import Convolution, WeightsGradient, Windows


def _grouped(x: Array, axis: int, groups: int) -> Array:
    return ops.reshape(x, (*x.shape[:axis], groups, x.shape[axis] // groups, *x.shape[axis + 1 :]))


def _taps(windows: Windows, kernel: Sequence[int], output: Sequence[int]) -> Iterator[tuple[Any, Any]]:
    """Each tap, and the elements of the padded image that it reads."""
    for tap in itertools.product(*map(range, kernel)):
        starts = [t * d for t, d in zip(tap, windows.dilation, strict=True)]
        axes = zip(starts, output, windows.stride, strict=True)
        yield (..., *tap), (..., *(slice(a, a + (n - 1) * s + 1, s) for a, n, s in axes))


def _padded(windows: Windows, kernel: Sequence[int], output: Sequence[int]) -> tuple[int, ...]:
    """The size of an image with its padding, as far as windows read it."""
    axes = zip(windows.stride, windows.dilation, kernel, output, strict=True)
    return tuple((n - 1) * s + d * (k - 1) + 1 for s, d, k, n in axes)


def _image(x: Array, windows: Windows, size: Sequence[int]) -> Array:
    """An image with padding, of this size: cut where windows do not read."""
    before = [(0, 0), (0, 0)]
    for n, pad, whole in zip(x.shape[2:], windows.padding, size, strict=True):
        before.append((pad, max(0, whole - pad - n)))
    return ops.pad(x, before)[(..., *(slice(0, n) for n in size))]


def convolution(problem: Convolution) -> Any:
    """What computes a convolution, or the gradient of its image, and its epilogue by single operations."""
    windows, kernel, size, groups = problem.windows, problem.kernel, problem.size, problem.windows.groups
    acc = dtypes.info(problem.elem).acc
    axes = "xyz"[: len(kernel)]

    def forward(x: Array, w: Array) -> Any:
        image = _grouped(_image(x, windows, _padded(windows, kernel, size)), 1, groups)
        y = zeros((x.shape[0], groups, problem.filters, *size), acc, device=x.device)
        for tap, read in _taps(windows, kernel, size):
            y = y + ops.einsum(f"ngc{axes},gfc->ngf{axes}", image[read], _grouped(w[tap], 0, groups))
        return y

    def transposed(dy: Array, w: Array) -> Any:
        whole = _padded(windows, kernel, dy.shape[2:])
        whole = tuple(max(n, p + m) for n, p, m in zip(whole, windows.padding, size, strict=True))
        dx = zeros((dy.shape[0], groups, w.shape[1], *whole), acc, device=dy.device)
        for tap, read in _taps(windows, kernel, dy.shape[2:]):
            dx[read] += ops.einsum(
                f"ngf{axes},gfc->ngc{axes}", _grouped(dy, 1, groups), _grouped(w[tap], 0, groups)
            )
        inner = (slice(p, p + n) for p, n in zip(windows.padding, size, strict=True))
        return dx[(..., *inner)]

    def compute(x: Array, w: Array, *rest: Any) -> Array:
        result = (transposed if problem.transposed else forward)(ops.astype(x, acc), ops.astype(w, acc))
        y = ops.astype(ops.reshape(result, problem.shape), problem.elem)
        if problem.epilogue is None:
            return y
        count = len(problem.epilogue.inputs) - 1
        columns = [
            one if one.ndim == y.ndim else ops.reshape(one, (*one.shape, *(1,) * (y.ndim - 2)))
            for one in rest[:count]
        ]
        return evaluate(problem.epilogue, (y, *columns), rest[count:])[0]

    return compute


def weights_gradient(problem: WeightsGradient) -> Any:
    """What computes the gradient of a convolution's weights by single operations."""
    windows, kernel, groups = problem.windows, problem.kernel, problem.windows.groups
    acc = dtypes.info(problem.elem).acc
    axes = "xyz"[: len(kernel)]

    def compute(dy: Array, x: Array) -> Array:
        size = dy.shape[2:]
        image = _grouped(_image(ops.astype(x, acc), windows, _padded(windows, kernel, size)), 1, groups)
        of_output = _grouped(ops.astype(dy, acc), 1, groups)
        dw = zeros((groups, problem.filters, problem.channels, *kernel), acc, device=x.device)
        for tap, read in _taps(windows, kernel, size):
            dw[tap] = ops.einsum(f"ngf{axes},ngc{axes}->gfc", of_output, image[read])
        return ops.astype(ops.reshape(dw, problem.shape), problem.dtype)

    return compute


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


def convolution_samples(depthwise: bool) -> Any:
    """Problems of convolutions and of the gradients of their images, without end."""

    def samples(where: Device, seed: int) -> Iterator[tuple[Convolution, tuple[Array, ...]]]:
        for of, _, precision, last, arrays in _problems(where, seed, depthwise):
            image, weights, output, windows, size = arrays
            for x, result, transposed in ((image, size, False), (output, of.size, True)):
                layouts = x._planned(), weights._planned()
                own = Convolution(*layouts, windows, result, transposed, last, None, precision)
                yield own, (x, weights)

    return samples


def gradient_samples(depthwise: bool) -> Any:
    """Problems of gradients of weights, without end."""

    def samples(where: Device, seed: int) -> Iterator[tuple[WeightsGradient, tuple[Array, ...]]]:
        for of, dtype, precision, last, arrays in _problems(where, seed, depthwise):
            image, _, output, windows, _ = arrays
            layouts, kernel = (output._planned(), image._planned()), (of.kernel, of.kernel)
            own = WeightsGradient(*layouts, windows, kernel, last, dtype, precision)
            yield own, (output, image)

    return samples
