"""What batch and group normalization share: statistics of channels in one pass, and derivatives in two."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..autodiff import tape
from ..elementwise.complex_rows import from_parts
from ..elementwise.fuse import fuse
from ..function import Function
from ..reduction.function import Reduce, load
from ..reduction.rows import var
from .fused import fused_vjp
from .layer_norm.function import launch_groups

#: Mean and variance, as the parts of a complex number.
_MOMENTS = Reduce(
    replace(var.row, name="moments", finish="complex<A>(a.mean, a.squares / n)", parameter=False),
    "same",
    public=False,
)


@fuse(static=("axes",))
def _sums(dy: Any, x: Any, mean: Any, axes: tuple[int, ...]) -> Any:
    """The sums of ``dy`` and of ``dy * (x - mean)``, as the parts of complex numbers."""
    dy = dy.astype(mean.dtype)
    return ops.sum(from_parts(dy, dy * (x.astype(mean.dtype) - mean)), axis=axes, keepdims=True)


@fuse(static=("dtype",))
def _normalized(
    x: Any, mean: Any, variance: Any, weight: Any, bias: Any, eps: float, dtype: dtypes.DType
) -> Any:
    y = (x.astype(variance.dtype) - mean) * ops.rsqrt(variance + eps)
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias).astype(dtype)


@fuse(static=("of_channel",))
def _derivative(
    dy: Any,
    x: Any,
    mean: Any,
    variance: Any,
    weight: Any,
    total: Any,
    product: Any,
    eps: float,
    scale: float,
    of_channel: bool,
) -> Any:
    """The gradient of ``x``, from the sums over what was normalized together of ``g = dy * weight`` and of
    ``g * (x - mean)``, those of ``dy`` if it is a channel, and one divided by its size. Without sums, mean and
    variance were constants.
    """
    rstd = ops.rsqrt(variance + eps)
    g = dy.astype(mean.dtype)
    g = g if weight is None else g * weight
    if total is not None:
        if of_channel and weight is not None:
            total, product = total * weight, product * weight
        g = g - total * scale - (x.astype(mean.dtype) - mean) * (rstd * rstd * product * scale)
    return (g * rstd).astype(x.dtype)


@fuse
def moved(running: Any, found: Any, momentum: Any, scale: float) -> Any:
    return (running + (found * scale - running) * momentum).astype(running.dtype)


class Axes(NamedTuple):
    """How the axes of an array that is normalized are used, after channels were split into groups.

    Attributes:
        shape: the sizes, those of groups and of the channels of one included.
        channels: the axes of a parameter: that of the channels, or those of groups and their channels.
        together: the axes over which mean and variance are taken.
        apart: those over which a channel's sums are taken first, where groups of neighbours in memory are short.
        fixed: whether mean and variance are constants.
    """

    shape: tuple[int, ...]
    channels: tuple[int, ...]
    together: tuple[int, ...]
    apart: tuple[int, ...]
    fixed: bool = False

    def beside(self, one: Array | None) -> Array | None:
        """An array of one number per channel, reshaped to broadcast with the others."""
        return None if one is None else ops.reshape(one, self.parameter)

    @property
    def parameter(self) -> tuple[int, ...]:
        """The shape of a parameter beside the array."""
        return tuple(n if i in self.channels else 1 for i, n in enumerate(self.shape))

    @property
    def size(self) -> int:
        """The size of what is normalized together."""
        return math.prod(self.shape[i] for i in self.together)


def _moments(x: Array, axes: tuple[int, ...]) -> Array:
    """Mean and variance over the axes, as the parts of complex numbers."""
    result = dtypes.complex_of(dtypes.info(x.dtype).acc)
    return _MOMENTS.evaluate(load(x.dtype, x.dtype), (x,), (), axes, True, result)


def statistics(x: Array, axes: Axes) -> tuple[Array, Array]:
    """Mean and variance over ``axes.together``."""
    if axes.apart == axes.together:
        made = _moments(x, axes.together)
        return ops.real(made), ops.imag(made)
    # Parts of equal sizes: the variance is the mean of theirs, and the variance of their means.
    parts, rest = _moments(x, axes.apart), tuple(i for i in axes.together if i not in axes.apart)
    made = _moments(ops.real(parts), rest)
    return ops.real(made), ops.imag(made) + ops.mean(ops.imag(parts), axis=rest, keepdims=True)


def reference(
    x: Array, weight: Array | None, bias: Array | None, eps: float, axes: Axes, mean: Array, variance: Array
) -> Array:
    """The normalized ``x`` as a composition, for derivatives of higher order."""
    if not axes.fixed:
        mean = ops.mean(x, axis=axes.together, keepdims=True)
        variance = ops.mean(ops.square(ops.subtract(x, mean)), axis=axes.together, keepdims=True)
    y = ops.divide(ops.subtract(x, mean), ops.sqrt(ops.add(variance, eps)))
    y = y if weight is None else ops.multiply(y, weight)
    return y if bias is None else ops.add(y, bias)


class Normalized(Function):
    """What ``compute`` gives. All arguments broadcast with ``x``, whose mean and variance are given, or constants."""

    _only_reads = True

    @staticmethod
    def forward(
        ctx: Any,
        x: Array,
        weight: Array | None,
        bias: Array | None,
        mean: Array,
        variance: Array,
        eps: float,
        axes: Axes,
        compute: Callable[[], Array],
    ) -> Array:
        ctx.save_for_backward(x, weight, bias, mean, variance)
        ctx.eps, ctx.axes = eps, axes
        return compute()

    @staticmethod
    def backward(ctx: Any, dy: Array) -> tuple[Array | None, ...]:
        *primals, mean, variance = ctx.saved_arrays
        x, weight, bias = primals
        wanted = ctx.needs_input_grad[:3]

        def kernels() -> list[Array | None]:
            return _gradients(dy, x, weight, bias, mean, variance, ctx.eps, ctx.axes, wanted)

        def composed(x: Array, weight: Array | None, bias: Array | None) -> Array:
            return ops.astype(reference(x, weight, bias, ctx.eps, ctx.axes, mean, variance), dy.dtype)

        return (*fused_vjp(kernels, composed, primals, [dy], wanted), *(None,) * 5)


def _gradients(
    dy: Array,
    x: Array,
    weight: Array | None,
    bias: Array | None,
    mean: Array,
    variance: Array,
    eps: float,
    axes: Axes,
    wanted: Sequence[bool],
) -> list[Array | None]:
    """The gradients of ``x``, ``weight`` and ``bias``: one pass over ``x`` and ``dy`` for sums, and one for ``dx``."""
    dx = dweight = dbias = total = product = None
    if any(wanted[1:]) or not axes.fixed:
        sums = _sums(dy, x, mean, axes.apart)
        total, product = ops.real(sums), ops.imag(sums)
        over = tuple(i for i in range(x.ndim) if i not in (*axes.channels, *axes.apart))
        if weight is not None and wanted[1]:
            dweight = _weight_gradient(product, variance, eps, over, weight.dtype)
        if bias is not None and wanted[2]:
            dbias = ops.astype(ops.sum(total, axis=over, keepdims=True) if over else total, bias.dtype)
    if wanted[0]:
        if axes.fixed:
            total = product = None
        else:
            assert total is not None and product is not None
            rest = tuple(i for i in axes.together if i not in axes.apart)
            if rest:
                total, product = (_weighted(one, weight, rest) for one in (total, product))
        of_channel = axes.apart == axes.together
        dx = _derivative(
            dy, x, mean, variance, weight, total, product, eps, 1 / max(axes.size, 1), of_channel
        )
    return [dx, dweight, dbias]


@fuse(static=("over", "dtype"))
def _weight_gradient(
    product: Any, variance: Any, eps: float, over: tuple[int, ...], dtype: dtypes.DType
) -> Any:
    made = product * ops.rsqrt(variance + eps)
    return (ops.sum(made, axis=over, keepdims=True, dtype=dtype)) if over else made.astype(dtype)


@fuse(static=("over",))
def _weighted(one: Any, weight: Any, over: tuple[int, ...]) -> Any:
    made = one if weight is None else one * weight.astype(one.dtype)
    return ops.sum(made, axis=over, keepdims=True)


def normalized_of(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    mean: Array,
    variance: Array,
    eps: float,
    axes: Axes,
    dtype: dtypes.DType,
) -> Array:
    made: Array = _normalized(x, mean, variance, weight, bias, eps, dtype)
    return made


@fuse
def of_rows(first: Any, shifted: Any, rstd: Any, eps: float) -> Any:
    """Mean and variance from the statistics that the kernel of rows leaves."""
    return first.astype(shifted.dtype) + shifted, 1 / (rstd * rstd) - eps


def rows_of_groups(
    x: Array, groups: int, weight: Array | None, bias: Array | None, eps: float, dtype: dtypes.DType
) -> tuple[Array, Array] | None:
    """The normalized ``x`` and its statistics by the kernel that reads a group once; None where it does not apply."""
    given = [one for one in (x, weight, bias) if one is not None]
    if any(one.dtype != dtype for one in given) or not x.is_contiguous:
        return None
    inner = math.prod(x.shape[2:])
    with tape.stop_recording():
        return launch_groups(x, weight, bias, eps, groups, x.shape[1] // groups * inner, inner)
