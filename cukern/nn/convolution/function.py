"""Convolutions and transposed convolutions over one to three axes, with derivatives of any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ... import namespace as ops
from ...array import Array
from ...cache import Cache, options_key
from ...errors import require_choice, require_int
from ...ops.padding import folded
from ..fused import (
    Activation,
    in_common_dtype,
    layouts_of,
    of_axes,
    require_activation,
    require_shape,
    several,
)
from .operation import applied
from .problem import Windows

#: An int, or one for each axis.
Sizes = int | tuple[int, ...]
#: Modes of padding, and the name by which :func:`cukern.pad` knows each.
PADDING_MODES = {"zeros": "constant", "reflect": "reflect", "circular": "wrap", "replicate": "edge"}
_AXES = {1: "length", 2: "rows, columns", 3: "planes, rows, columns"}


def _given(
    name: str, x: Any, weight: Any, bias: Any, axes: int, groups: Any, transposed: bool
) -> tuple[Array, Array, Array | None]:
    """The arrays of a call, in their common dtype."""
    x, weight, bias = in_common_dtype(name, {"x": x, "weight": weight}, {"bias": bias})
    require_int(f"{name}: groups", groups, 1)
    if x.ndim not in (axes + 1, axes + 2):
        raise ValueError(
            f"{name}: x: expected shape (batch, channels, {_AXES[axes]}) or without the batch, got {x.shape}"
        )
    first, second = ("channels", "filters / groups") if transposed else ("filters", "channels / groups")
    if weight.ndim != axes + 2 or 0 in weight.shape[2:]:
        raise ValueError(
            f"{name}: weight: expected shape ({first}, {second}, {_AXES[axes]} of a window), got {weight.shape}"
        )
    channels = weight.shape[0] if transposed else weight.shape[1] * groups
    if weight.shape[0] % groups or x.shape[-axes - 1] != channels:
        raise ValueError(
            f"{name}: x of shape {x.shape} and weight of shape {weight.shape} do not fit for {groups} groups: "
            f"expected weight of shape ({first}, {second}, ...)"
        )
    filters = weight.shape[1] * groups if transposed else weight.shape[0]
    require_shape(name, "bias", bias, filters)
    return x, weight, bias


def _moves(
    name: str, kernel: Sequence[int], stride: Sizes, padding: Any, dilation: Sizes
) -> tuple[tuple[int, ...], tuple[int, ...], list[int], list[tuple[int, int]]]:
    """Strides, dilations, the span of a window, and the numbers of elements before and after, of each axis."""
    count = len(kernel)
    strides = several(stride, count, name, "stride", 1)
    dilations = several(dilation, count, name, "dilation", 1)
    spans = [d * (k - 1) for d, k in zip(dilations, kernel, strict=True)]
    if padding == "same" and max(strides) > 1:
        raise ValueError(f'{name}: padding: "same" is for windows of stride 1, got stride {strides}')
    if padding == "same":
        return strides, dilations, spans, [(span // 2, span - span // 2) for span in spans]
    each = several(0 if padding == "valid" else padding, count, name, "padding", 0)
    return strides, dilations, spans, [(n, n) for n in each]


#: Of layouts and options that passed all checks, where the arrays are what a launch takes: the windows and the size.
_known: Cache[Any, tuple[Windows, tuple[int, ...]]] = Cache()


def _batched(x: Array, axes: int) -> Array:
    return x if x.ndim == axes + 2 else ops.expand_dims(x, 0)


def _convolution(
    count: int,
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    *,
    padding_mode: str = "zeros",
    activation: Activation | None = None,
) -> Array:
    """The sums of products of windows of ``x`` with each filter, plus ``bias``: a cross-correlation.

    Half types are summed in float32, and float32 is not rounded unless :func:`cukern.matmul_precision` allows it.
    An image of several channels that lie innermost in memory, as in a view of shape (N, C, {axes}) of an array
    (N, {axes}, C), gives such a result, and is what tensor cores read without a copy; so are weights that lie
    likewise. Of half types and one group a GPU gives such a result in any case. Gradients are the same in each run.

    Of float32, windows of 3 x 3 that move by one pixel, over enough channels and pixels of one group, are products
    of transformed tiles, for which a pixel takes a quarter of the multiplications (source: Lavin and Gray, "Fast
    Algorithms for Convolutional Neural Networks", 2016). Rounding errors are then about twice as large, of weights'
    gradients up to four times, relative to the largest number of a tile of 6 x 6; and a NaN, an infinity or a
    number near the largest float reaches the outputs of its tile of 4 x 4. ``cukern.matmul_precision("direct")``
    keeps from it. In gradients of weights of one channel to a group a NaN or an infinity may reach all taps of its
    channel.

    Args:
        x: shape (N, C, {axes}), or (C, {axes}) without a batch; a floating dtype.
        weight: shape (filters, C / groups, {result}).
        bias: shape (filters,); none is added when None.
        stride: from one window to the next; an int or one for each axis.
        padding: elements around the image along each axis; ``"valid"`` for none, ``"same"`` for as many as give the
            result the size of the image (of an odd number the larger half comes after it).
        dilation: from one element of a window to the next.
        groups: into how many parts channels and filters are cut; each filter reads the channels of its part.
        padding_mode: what the padding is: ``"zeros"``, ``"reflect"``, ``"circular"`` or ``"replicate"``.
        activation: an elementwise function of the sums, such as :func:`cukern.relu`, in the same launch; see
            :func:`linear`.

    Returns:
        Shape (N, filters, {result}) or (filters, {result}), in the promoted dtype of the arguments; along each axis
        ``(size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1``.

    Raises:
        TypeError: an argument is not a floating array, or a size is not an int or one for each axis.
        ValueError: the shapes do not fit, a size is out of range, or no window fits.
    """
    name = f"conv{count}d"
    layouts = layouts_of(x, weight, bias)
    key = options_key((*(layouts or ()), count, stride, padding, dilation, groups, padding_mode))
    known = None if layouts is None else _known.get(key)
    if known is not None:
        if activation is not None:
            require_activation(name, activation)
        return applied(x, weight, bias, *known, False, activation)
    x, weight, bias = _given(name, x, weight, bias, count, groups, transposed=False)
    require_choice(f"{name}: padding_mode", padding_mode, PADDING_MODES)
    require_activation(name, activation)
    strides, dilations, spans, pads = _moves(name, weight.shape[2:], stride, padding, dilation)
    shape = x.shape[-count:]
    if padding_mode != "zeros":
        x = ops.pad(x, [(0, 0)] * (x.ndim - count) + pads, PADDING_MODES[padding_mode])
    size = tuple(
        (n + sum(pad) - span - 1) // step + 1
        for n, pad, span, step in zip(shape, pads, spans, strides, strict=True)
    )
    if min(size) < 1:
        raise ValueError(
            f"{name}: weight: no window of shape {weight.shape[2:]}, dilation {dilation!r}, fits x of shape {x.shape} "
            f"with padding {padding!r}"
        )
    before = tuple(pad[0] for pad in pads) if padding_mode == "zeros" else (0,) * count
    windows = Windows(strides, before, dilations, int(groups))
    if (
        key is not None
        and x.ndim == count + 2
        and layouts is not None
        and layouts == layouts_of(x, weight, bias)
    ):
        _known.keep(key, (windows, size))
    y = applied(_batched(x, count), weight, bias, windows, size, False, activation)
    return y if x.ndim == count + 2 else ops.squeeze(y, 0)


def _transposed(
    count: int,
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
    *,
    padding_mode: str = "zeros",
    activation: Activation | None = None,
) -> Array:
    """The transpose of :func:`conv{count}d`, as its image's gradient: each element of ``x`` adds a window.

    Args:
        x: shape (N, C, {axes}), or (C, {axes}) without a batch; a floating dtype.
        weight: shape (C, filters / groups, {result}).
        bias: shape (filters,); none is added when None.
        stride: from one window to the next; an int or one for each axis.
        padding: elements cut off around the result along each axis; ``"valid"`` for none, ``"same"`` for as many as
            give the result the size of ``x`` (of an odd number the larger half is cut off after it).
        output_padding: elements of the result after those, of which the convolution with this stride leaves the
            number open; less than ``stride`` or ``dilation``.
        groups: into how many parts channels and filters are cut; each filter reads the channels of its part.
        dilation: from one element of a window to the next.
        padding_mode: what becomes of the elements cut off: with ``"zeros"`` nothing; with ``"reflect"``,
            ``"circular"`` or ``"replicate"`` they are added to those that :func:`conv{count}d` would pad with, so
            that this is the gradient of its image in each mode.
        activation: an elementwise function of the sums, as in :func:`conv{count}d`.

    Returns:
        Shape (N, filters, {result}) or (filters, {result}), in the promoted dtype of the arguments; along each axis
        ``(size - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1``. It lies in memory as
        ``x``, see :func:`conv{count}d`.

    Raises:
        TypeError: an argument is not a floating array, or a size is not an int or one for each axis.
        ValueError: the shapes do not fit, or a size is out of range.
    """
    name = f"conv_transpose{count}d"
    x, weight, bias = _given(name, x, weight, bias, count, groups, transposed=True)
    require_choice(f"{name}: padding_mode", padding_mode, PADDING_MODES)
    require_activation(name, activation)
    strides, dilations, spans, pads = _moves(name, weight.shape[2:], stride, padding, dilation)
    more = several(output_padding, count, name, "output_padding", 0)
    if any(n >= max(s, d) for n, s, d in zip(more, strides, dilations, strict=True)):
        raise ValueError(
            f"{name}: output_padding: expected less than stride {stride!r} or dilation {dilation!r}, "
            f"got {output_padding!r}"
        )
    given = zip(x.shape[-count:], strides, spans, more, strict=True)
    padded = tuple((n - 1) * step + span + extra + 1 for n, step, span, extra in given)
    size = tuple(n - sum(pad) for n, pad in zip(padded, pads, strict=True))
    if min(size) < 1 or 0 in x.shape[-count:]:
        raise ValueError(f"{name}: x: shape {x.shape} gives no output, of size {size}")
    before = tuple(pad[0] for pad in pads)
    batch = _batched(x, count)
    if padding_mode == "zeros" or not any(map(sum, pads)):
        windows = Windows(strides, before, dilations, int(groups))
        y = applied(batch, weight, bias, windows, size, True, activation)
    else:
        windows = Windows(strides, (0,) * count, dilations, int(groups))
        y = applied(batch, weight, None, windows, padded, True, None)
        y = folded(y, (*y.shape[:2], *size), (0, 0, *before), PADDING_MODES[padding_mode])
        y = y if bias is None else y + ops.reshape(bias, (-1, *(1,) * count))
        y = y if activation is None else activation(y)
    return y if x.ndim == count + 2 else ops.squeeze(y, 0)


conv1d = of_axes(
    _convolution,
    "conv1d",
    'ck.asarray([[1.0, 2.0, 4.0]]), ck.asarray([[[-1.0, 1.0]]]), padding="same"',
    "[[1.0, 2.0, -4.0]]",
)
conv2d = of_axes(
    _convolution,
    "conv2d",
    "ck.asarray([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]), ck.ones((1, 1, 2, 2)), ck.asarray([0.5])",
    "[[[12.5, 16.5]]]",
)
conv3d = of_axes(
    _convolution, "conv3d", "ck.ones((1, 2, 2, 3)), ck.ones((1, 1, 2, 2, 2))", "[[[[8.0, 8.0]]]]"
)
conv_transpose1d = of_axes(
    _transposed, "conv_transpose1d", "ck.asarray([[1.0, 2.0]]), ck.ones((1, 1, 2))", "[[1.0, 3.0, 2.0]]"
)
conv_transpose2d = of_axes(
    _transposed,
    "conv_transpose2d",
    "ck.asarray([[[1.0, 2.0]]]), ck.asarray([[[[1.0, 1.0], [0.0, 1.0]]]]), stride=2",
    "[[[1.0, 1.0, 2.0, 2.0], [0.0, 1.0, 0.0, 2.0]]]",
)
conv_transpose3d = of_axes(
    _transposed,
    "conv_transpose3d",
    "ck.ones((1, 1, 1, 2)), ck.ones((1, 1, 1, 1, 2))",
    "[[[[1.0, 2.0, 1.0]]]]",
)
