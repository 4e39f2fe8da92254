"""A convolution, its transpose and the gradient of its weights, each the derivative of the others."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.batched import levels
from ...array.deferred import trace, traced_threads
from ...array.layout import Layout
from ...autodiff import tape
from ...elementwise.function import pulled, pushed
from ...elementwise.graph import Expr, input_node
from ...elementwise.program import Derivative, Program, program
from ...function import Function
from ..fused import Activation
from .families import convolution, weights_gradient
from .problem import Form, Windows, is_channels_last


class _Convolution(Function):
    """A convolution, or if ``transposed`` the gradient of one's image, and an elementwise expression of it and a bias.

    Each is bilinear, and the derivative of the other one and of :class:`_Weights`.
    """

    _only_reads = True
    _waits = True

    @staticmethod
    def forward(
        ctx: Any,
        x: Array,
        weight: Array,
        bias: Array | None,
        form: Form,
        made: Program | None,
    ) -> Array:
        operands = () if bias is None else (bias,)
        y = convolution(x, weight, operands, form, made)
        needs = ctx.needs_input_grad
        ctx.form, ctx.made, ctx.back = form, made, None
        ctx.layouts = x._planned(), weight._planned()
        then: tuple[Array, ...] = ()
        if made is not None and True in needs:
            ctx.needs = (needs[0] or needs[1], needs[2])[: 1 + len(operands)]
            ctx.back, read, results = _derived(made, ctx.needs)
            then = (*(operands[k - 1] for k in read), *[y] * results) if read else (y,) * results
        ctx.save_for_backward(x if needs[1] else None, weight if needs[0] else None, *then)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Array) -> tuple[Any, ...]:
        x, weight, *then = ctx.saved_arrays
        (windows, _, transposed, _), (image, filters) = ctx.form, ctx.layouts
        g: Array | None = dy
        dbias = None
        if ctx.back is not None:
            shape = dy.shape
            column = (shape[1], *(1,) * (len(shape) - 2))
            read = [ops.reshape(one, column) if one.ndim == 1 else one for one in then] if then else ()
            g, *of_bias = pulled(ctx.back, None, (dy,), read, None)
            if of_bias and of_bias[0] is not None:
                dbias = ops.sum(of_bias[0], (0, *range(2, len(shape))))
        dx = dweight = None
        recorded = tape.opened or levels
        if g is not None and weight is not None:
            own = Form(windows, image.shape[2:], not transposed, is_channels_last(image))
            dx = (
                _Convolution.apply(g, weight, None, own, None)
                if recorded
                else convolution(g, weight, (), own)
            )
        if g is not None and x is not None:
            compute: Callable[..., Array] = _Weights.apply if recorded else weights_gradient
            pair = (x, g) if transposed else (g, x)
            dweight = compute(*pair, windows, filters.shape[2:], is_channels_last(filters))
        return dx, dweight, dbias, None, None

    @staticmethod
    def jvp(ctx: Any, dx: Array | None, dweight: Array | None, dbias: Array | None, *static: None) -> Any:
        x, weight, *then = ctx.saved_arrays
        parts = [] if dx is None else [_Convolution.apply(dx, weight, None, ctx.form, None)]
        if dweight is not None:
            parts.append(_Convolution.apply(x, dweight, None, ctx.form, None))
        dy = functools.reduce(ops.add, parts) if parts else None
        if ctx.made is None:
            return dy
        column = (-1, *(1,) * (ctx.layouts[0].ndim - 2))
        read = [ops.reshape(one, column) if one.ndim == 1 else one for one in then]
        tangents = [dy, None if dbias is None else ops.reshape(dbias, column)][: len(ctx.made.inputs)]
        return pushed(ctx.made, ctx.needs, ctx.back, tangents, read)[0]

    @staticmethod
    def vmap(
        size: int,
        batched: tuple[bool, ...],
        x: Array,
        weight: Array,
        bias: Array | None,
        form: Form,
        made: Program | None,
    ) -> Array:
        """The images of all examples as those of one; where weights differ, as groups of channels of one."""
        y: Array
        if not (batched[1] or batched[2]):
            y = _Convolution.apply(_folded(x), weight, bias, form, made)
            return ops.reshape(y, (*x.shape[:2], *y.shape[1:]))
        x, weight = _of_each(x, size, batched[0]), _of_each(weight, size, batched[1])
        if bias is not None:
            bias = ops.reshape(_of_each(bias, size, batched[2]), (-1,))
        grouped = form._replace(windows=_grouped(form.windows, size))
        y = _Convolution.apply(_in_groups(x), _folded(weight), bias, grouped, made)
        return _apart(y, size)


def _folded(x: Array) -> Array:
    """The images of all examples of a batch as those of one."""
    return ops.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))


def _in_groups(x: Array) -> Array:
    """Arrays of all examples (batch, a, b, ...) as one of (a, batch * b, ...)."""
    moved = ops.moveaxis(x, 0, 1)
    return ops.reshape(moved, (moved.shape[0], -1, *moved.shape[3:]))


def _grouped(windows: Windows, size: int) -> Windows:
    """The windows of as many groups for each of so many examples."""
    return windows._replace(groups=windows.groups * size)


def _of_each(x: Array, size: int, batched: bool) -> Array:
    """The array of all examples, of which each has ``x`` if it is not ``batched``."""
    return x if batched else ops.broadcast_to(x, (size, *x.shape))


def _apart(x: Array, size: int) -> Array:
    """The inverse of :func:`_in_groups`."""
    return ops.moveaxis(ops.reshape(x, (x.shape[0], size, -1, *x.shape[2:])), 1, 0)


class _Weights(Function):
    """The gradient of a convolution's weights: bilinear in that of the output, and in the image."""

    _only_reads = True

    @staticmethod
    def forward(
        ctx: Any, output: Array, image: Array, windows: Windows, kernel: tuple[int, ...], last: bool
    ) -> Array:
        ctx.windows, ctx.own = windows, (windows, kernel, last)
        ctx.save_for_backward(output, image)
        return weights_gradient(output, image, windows, kernel, last)

    @staticmethod
    def backward(ctx: Any, second: Array) -> tuple[Any, ...]:
        output, image = ctx.saved_arrays
        windows, needs = ctx.windows, ctx.needs_input_grad
        d_output = d_image = None
        if needs[0]:
            own = Form(windows, output.shape[2:], False, _last(output))
            d_output = _Convolution.apply(image, second, None, own, None)
        if needs[1]:
            own = Form(windows, image.shape[2:], True, _last(image))
            d_image = _Convolution.apply(output, second, None, own, None)
        return d_output, d_image, None, None, None

    @staticmethod
    def jvp(ctx: Any, d_output: Array | None, d_image: Array | None, *static: None) -> Array:
        output, image = ctx.saved_arrays
        parts = [] if d_output is None else [_Weights.apply(d_output, image, *ctx.own)]
        if d_image is not None:
            parts.append(_Weights.apply(output, d_image, *ctx.own))
        return functools.reduce(ops.add, parts)

    @staticmethod
    def vmap(
        size: int, batched: tuple[bool, ...], output: Array, image: Array, windows: Windows, *options: Any
    ) -> Array:
        """The channels of all examples as groups of those of one."""
        output, image = (
            _in_groups(_of_each(one, size, own))
            for one, own in zip((output, image), batched[:2], strict=True)
        )
        made: Array = _Weights.apply(output, image, _grouped(windows, size), *options)
        return ops.reshape(made, (size, -1, *made.shape[1:]))


@lru_cache(maxsize=1024)
def _derived(made: Program, needs: tuple[bool, ...]) -> tuple[Derivative, tuple[int, ...], int]:
    """The derivative of an epilogue, which of its operands it reads, and how often the result."""
    back = made.backward(needs, (False, True)[: len(needs)])
    return back, back.saved("input"), len(back.saved("output"))


def _last(x: Array) -> bool:
    """Whether channels lie innermost in memory."""
    return is_channels_last(x._layout or x._planned())


@lru_cache(maxsize=4096)
def _gives_last(own: Layout, windows: Windows) -> bool:
    """Whether channels of the result lie innermost: as in x, and on tensor cores of half types, which write it so."""
    if is_channels_last(own):
        return True
    if own.on_host or windows.groups > 1 or own.dtype not in dtypes.NARROW:
        return False
    return own.device.properties.compute_capability >= (8, 0)


@lru_cache(maxsize=1024)
def _program(activation: Activation | None, dtype: dtypes.DType, biased: bool) -> Program:
    """The program of an element: the activation of the sum of a convolution and a bias."""
    y: Any = Expr(input_node(0, dtype))
    if biased:
        y = y + Expr(input_node(1, dtype))
    if activation is not None:
        y = activation(y)
    if not isinstance(y, Expr) or y.dtype != dtype:
        raise TypeError(
            f"activation: expected an elementwise function of {dtype} to {dtype}, got {activation}"
        )
    return program("convolution", (y.node,), (dtype, dtype)[: 1 + biased])


def applied(
    x: Array,
    weight: Array,
    bias: Array | None,
    windows: Windows,
    size: tuple[int, ...],
    transposed: bool,
    activation: Activation | None,
) -> Array:
    """The activation of a convolution with a bias, where all arrays have one dtype.

    It is one launch, unless a tape needs what the activation was applied to. In a trace bias and activation follow it
    as anything else does.
    """
    form = Form(windows, size, transposed, _gives_last(x._layout or x._planned(), windows))
    made = None if bias is None and activation is None else _program(activation, x.dtype, bias is not None)
    if made is None or (traced_threads and trace() is not None):
        y = _Convolution.apply(x, weight, None, form, None)
        y = y if bias is None else y + ops.reshape(bias, (-1, *(1,) * len(size)))
        return y if activation is None else activation(y)
    if activation is not None and tape.tracked((x, weight, *(() if bias is None else (bias,)))) is not None:
        needs = (True, True)[: 1 + (bias is not None)]
        if 0 in made.backward(needs, (False, True)[: len(needs)]).saved("input"):
            return activation(applied(x, weight, bias, windows, size, transposed, None))
    return _Convolution.apply(x, weight, bias, form, made)
