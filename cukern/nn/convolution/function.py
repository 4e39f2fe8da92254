"""Convolutions and transposed convolutions of images, with derivatives of any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...autodiff import tape
from ...elementwise.function import pulled
from ...elementwise.graph import Expr, input_node
from ...elementwise.operands import require_array, require_arrays
from ...elementwise.program import Program, program
from ...function import Function
from ..fused import common_dtype, is_int
from . import plan as launch
from .geometry import Windows, place_of

Activation = Callable[[Array], Array]
#: Modes of padding, and the name by which :func:`cukern.pad` knows each.
PADDING_MODES = {"zeros": "constant", "reflect": "reflect", "circular": "wrap", "replicate": "edge"}
_AXES = {1: "length", 2: "rows, columns", 3: "planes, rows, columns"}


class _Convolution(Function):
    """A convolution, or if ``turned`` the gradient of one's image, and an elementwise expression of it and a bias.

    Each is bilinear, and the derivative of the other one and of :class:`_Weights`.
    """

    _only_reads = True

    @staticmethod
    def forward(
        ctx: Any,
        x: Array,
        weight: Array,
        bias: Array | None,
        windows: Windows,
        size: tuple[int, ...],
        turned: bool,
        last: bool,
        made: Program | None = None,
    ) -> Array:
        operands = () if bias is None else (bias,)
        y = launch.convolve(x, weight, operands, windows, size, turned, last, made)
        needs = ctx.needs_input_grad
        ctx.windows, ctx.turned, ctx.back = windows, turned, None
        ctx.lasts = _last(x), _last(weight)
        ctx.sizes = x.shape[2:], weight.shape[2:]
        then: tuple[Array, ...] = ()
        if made is not None and any(needs):
            wide = (False,) if bias is None else (False, True)
            ctx.back = made.backward((needs[0] or needs[1], needs[2])[: len(wide)], wide)
            then = tuple([operands[k - 1] for k in ctx.back.saved("input")])
            then += (y,) * len(ctx.back.saved("output"))
        ctx.save_for_backward(x if needs[1] else None, weight if needs[0] else None, *then)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Array) -> tuple[Any, ...]:
        x, weight, *then = ctx.saved_arrays
        windows, turned = ctx.windows, ctx.turned
        parts = [dy, None] if ctx.back is None else [*pulled(ctx.back, (), (dy,), then, None), None]
        g = parts[0]
        dx = dweight = None
        if g is not None and weight is not None:
            dx = _Convolution.apply(g, weight, None, windows, ctx.sizes[0], not turned, ctx.lasts[0])
        if g is not None and x is not None:
            dweight = _Weights.apply(*((x, g) if turned else (g, x)), windows, ctx.sizes[1], ctx.lasts[1])
        return dx, dweight, parts[1], None, None, None, None, None


class _Weights(Function):
    """The gradient of a convolution's weights: bilinear in that of the output, and in the image."""

    _only_reads = True

    @staticmethod
    def forward(
        ctx: Any, output: Array, image: Array, windows: Windows, kernel: tuple[int, ...], last: bool
    ) -> Array:
        ctx.windows = windows
        ctx.lasts, ctx.sizes = (_last(output), _last(image)), (output.shape[2:], image.shape[2:])
        ctx.save_for_backward(output, image)
        return launch.weights_gradient(output, image, windows, kernel, last)

    @staticmethod
    def backward(ctx: Any, second: Array) -> tuple[Any, ...]:
        output, image = ctx.saved_arrays
        windows, needs = ctx.windows, ctx.needs_input_grad
        d_output = d_image = None
        if needs[0]:
            d_output = _Convolution.apply(image, second, None, windows, ctx.sizes[0], False, ctx.lasts[0])
        if needs[1]:
            d_image = _Convolution.apply(output, second, None, windows, ctx.sizes[1], True, ctx.lasts[1])
        return d_output, d_image, None, None, None


def _last(x: Array) -> bool:
    """Whether channels lie innermost in memory."""
    return place_of(x._layout or x._planned()).last


@lru_cache(maxsize=1024)
def _program(activation: Activation | None, dtype: dtypes.DType, biased: bool) -> Program:
    """The program of an element: the activation of the sum of a convolution and a bias."""
    y: Any = Expr(input_node(0, dtype))
    if biased:
        y = y + Expr(input_node(1, dtype))
    if activation is not None:
        y = activation(y)
    if not isinstance(y, Expr) or y.dtype != dtype:
        raise TypeError(f"activation: expected an elementwise function of {dtype} to {dtype}, got {activation}")
    return program("convolution", (y.node,), (dtype, dtype)[: 1 + biased])


def applied(
    x: Array,
    weight: Array,
    bias: Array | None,
    windows: Windows,
    size: tuple[int, ...],
    turned: bool,
    activation: Activation | None,
) -> Array:
    """The activation of a convolution with a bias, where all arrays have one dtype.

    It is one launch, unless a tape needs what the activation was applied to.
    """
    if bias is not None:
        bias = ops.reshape(bias, (bias.shape[0], *(1,) * len(size)))
    args: Sequence[Any] = (windows, size, turned, _last(x))
    if bias is None and activation is None:
        return _Convolution.apply(x, weight, None, *args)  # type: ignore[no-any-return]
    made = _program(activation, x.dtype, bias is not None)
    if activation is not None and tape.tracked((x, weight, *(() if bias is None else (bias,)))) is not None:
        needs = (True, True)[: 1 + (bias is not None)]
        if 0 in made.backward(needs, (False, True)[: len(needs)]).saved("input"):
            return activation(applied(x, weight, bias, windows, size, turned, None))
    return _Convolution.apply(x, weight, bias, *args, made)  # type: ignore[no-any-return]


def several(value: Any, count: int, name: str, argument: str, least: int) -> tuple[int, ...]:
    """An int, or one for each of ``count`` axes, as a tuple.

    Raises:
        TypeError: it is neither.
        ValueError: one is less than ``least``.
    """
    sizes = tuple(value) if isinstance(value, (tuple, list)) else (value,) * count
    if len(sizes) != count or not all(map(is_int, sizes)):
        raise TypeError(f"{name}: {argument}: expected an int or {count} of them, got {value!r}")
    if min(sizes) < least:
        raise ValueError(f"{name}: {argument}: expected at least {least}, got {value!r}")
    return tuple(map(int, sizes))


def _given(
    name: str, x: Any, weight: Any, bias: Any, axes: int, groups: Any, transposed: bool
) -> tuple[Array, Array, Array | None]:
    """The arrays of a call, in their common dtype."""
    x, weight = require_arrays((x, weight), name, ("x", "weight"))
    bias = None if bias is None else require_array(bias, name, "bias", x)
    dtype = common_dtype(name, {"x": x, "weight": weight}, {"bias": bias})
    if not is_int(groups):
        raise TypeError(f"{name}: groups: expected an int, got {groups!r}")
    if groups < 1:
        raise ValueError(f"{name}: groups: expected at least 1, got {groups}")
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
    if bias is not None and bias.shape != (filters,):
        raise ValueError(f"{name}: bias: expected shape ({filters},), got {bias.shape}")
    arrays = (x, weight, bias)
    x, weight, bias = (None if one is None else ops.astype(one, dtype, copy=False) for one in arrays)
    return x, weight, bias


def _convolve(
    name: str,
    axes: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    padding_mode: str,
    activation: Activation | None,
) -> Array:
    x, weight, bias = _given(name, x, weight, bias, axes, groups, transposed=False)
    strides = several(stride, axes, name, "stride", 1)
    dilations = several(dilation, axes, name, "dilation", 1)
    if padding_mode not in PADDING_MODES:
        raise ValueError(f"{name}: padding_mode: expected one of {tuple(PADDING_MODES)}, got {padding_mode!r}")
    spans = [d * (k - 1) for d, k in zip(dilations, weight.shape[2:], strict=True)]
    if padding == "same":
        if max(strides) > 1:
            raise ValueError(f'{name}: padding: "same" is for windows of stride 1, got stride {stride!r}')
        pads = [(span // 2, span - span // 2) for span in spans]
    else:
        sizes = several(0 if padding == "valid" else padding, axes, name, "padding", 0)
        pads = [(n, n) for n in sizes]
    shape = x.shape[-axes:]
    if padding_mode != "zeros":
        x = ops.pad(x, [(0, 0)] * (x.ndim - axes) + pads, PADDING_MODES[padding_mode])
    size = tuple(
        (n + sum(pad) - span - 1) // step + 1
        for n, pad, span, step in zip(shape, pads, spans, strides, strict=True)
    )
    if min(size) < 1:
        raise ValueError(
            f"{name}: weight: no window of shape {weight.shape[2:]}, dilation {dilation!r}, fits x of shape {x.shape} "
            f"with padding {padding!r}"
        )
    before = tuple(pad[0] for pad in pads) if padding_mode == "zeros" else (0,) * axes
    windows = Windows(strides, before, dilations, int(groups))
    y = applied(_batched(x, axes), weight, bias, windows, size, False, activation)
    return y if x.ndim == axes + 2 else ops.squeeze(y, 0)


def _batched(x: Array, axes: int) -> Array:
    return x if x.ndim == axes + 2 else ops.expand_dims(x, 0)


def _transpose(
    name: str,
    axes: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
    activation: Activation | None,
) -> Array:
    x, weight, bias = _given(name, x, weight, bias, axes, groups, transposed=True)
    strides = several(stride, axes, name, "stride", 1)
    dilations = several(dilation, axes, name, "dilation", 1)
    pads = several(padding, axes, name, "padding", 0)
    more = several(output_padding, axes, name, "output_padding", 0)
    if any(n >= max(s, d) for n, s, d in zip(more, strides, dilations, strict=True)):
        raise ValueError(
            f"{name}: output_padding: expected less than stride {stride!r} or dilation {dilation!r}, "
            f"got {output_padding!r}"
        )
    size = tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + o + 1
        for n, s, p, d, k, o in zip(
            x.shape[-axes:], strides, pads, dilations, weight.shape[2:], more, strict=True
        )
    )
    if min(size) < 1 or 0 in x.shape[-axes:]:
        raise ValueError(f"{name}: x: shape {x.shape} gives no output, of size {size}")
    windows = Windows(strides, pads, dilations, int(groups))
    y = applied(_batched(x, axes), weight, bias, windows, size, True, activation)
    return y if x.ndim == axes + 2 else ops.squeeze(y, 0)
