"""The kernels of batch and group normalization: sums over parts of channels, their totals, and the result."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..array.creation import asarray, empty
from ..array.layout import ALIGNMENT, address, memory_order
from ..device import Device
from ..elementwise.fuse import fuse
from ..function import Function
from ..kernel import Kernel
from ..kernel.bound import BoundKernel
from ..kernel.sizes import ACCESS, divide_up, power_of_two
from ..reduction.function import load
from . import channel_clusters as clusters
from .channel_layout import ChannelLayout, Share, packed_sizes
from .channel_layout import bound as bound_kernel
from .fused import fused_vjp
from .layer_norm.families import launch_groups

_sums = Kernel("nn/channel_norm/sums.cu")
_statistics = Kernel("nn/channel_norm/statistics.cu")
_gradients = Kernel("nn/channel_norm/gradients.cu")
_apply = Kernel("nn/channel_norm/apply.cu")

#: Threads per block of a GPU.
_BLOCK = 256
#: The most threads that have neighbouring packs of channels.
_ACROSS = 32
#: Threads that combine partial sums.
_JOINING = 128
#: Blocks per multiprocessor for results of constants, by whether channels lie innermost.
_APPLYING = {False: 1024, True: 32}
#: The same for other results and derivatives.
_DERIVING = {False: 32, True: 4}
#: The most channels of a thread where they lie innermost, which holds numbers of each.
_WIDTH = 4
#: How threads share results of constants, likewise: few numbers each, as of elementwise functions.
_OF_CONSTANTS = {False: Share(128, 1, 1, 4, False, 8), True: Share(128, 1, 1, 4, True, 6)}
#: Packs of each array in flight per thread.
_UNROLL = 4
#: Elements of a part on the host.
_HOST_PART = 4096
#: The most parts on the host.
_HOST_PARTS = 8
#: The most elements of a pack on the host.
_HOST_WIDTH = 16


class Axes(NamedTuple):
    """What is normalized together: the batch's elements of a channel, or an example's of a group of channels.

    Attributes:
        shape: of the array.
        channel: the axis of the channels.
        groups: of channels of an example; None for the whole batch's channels.
    """

    shape: tuple[int, ...]
    channel: int
    groups: int | None = None

    @property
    def channels(self) -> int:
        """The number of channels."""
        return self.shape[self.channel]

    @property
    def size(self) -> int:
        """The number of elements that are normalized together."""
        return math.prod(self.shape) // max(
            1, self.channels if self.groups is None else self.shape[0] * self.groups
        )

    def beside(self, one: Array) -> Array:
        """An array of one number per channel, reshaped to broadcast with the others."""
        return ops.reshape(one, [n if i == self.channel else 1 for i, n in enumerate(self.shape)])


class Running:
    """Statistics that move by ``momentum`` towards those computed; no arguments of a function, as it writes to them."""

    def __init__(self, mean: Array, variance: Array, momentum: float | Array) -> None:
        self.mean, self.variance, self.momentum = mean, variance, momentum

    def arguments(self, acc: dtypes.DType) -> tuple[Array, Array, Array | None, float]:
        """Both contiguous and of one dtype, and the momentum as an array or a number."""
        variance = ops.astype(self.variance, self.mean.dtype, copy=False)
        own = self.mean.contiguous(), variance.contiguous()
        if isinstance(self.momentum, Array):
            return *own, ops.astype(self.momentum, acc, copy=False), 0.0
        return *own, None, float(self.momentum)

    def write(self, *moved: Array | None) -> None:
        """What a kernel has written to :meth:`arguments`, where these were copies."""
        for one, own in zip(moved, (self.mean, self.variance), strict=True):
            if one is not None and one is not own:
                own[...] = one


class Options(NamedTuple):
    """What a normalization needs besides its arrays.

    Attributes:
        axes: what is normalized together.
        eps: added to the variance.
        dtype: of the result.
        constants: mean and variance, if they are constants.
        running: statistics that move towards those computed.
    """

    axes: Axes
    eps: float
    dtype: dtypes.DType
    constants: tuple[Array, Array] | None = None
    running: Running | None = None


def _order(x: Array, axes: Axes) -> tuple[int, ...]:
    """The axes of ``x`` in memory, or those of C order for what has to be copied."""
    order = memory_order(x.shape, x.strides, x.itemsize)
    return tuple(range(x.ndim)) if order is None or (axes.groups and order[0]) else order


def _layout_of(x: Array, axes: Axes) -> ChannelLayout:
    order, channels = _order(x, axes), axes.channels
    at = order.index(axes.channel)
    outer, inner = (math.prod(x.shape[i] for i in part) for part in (order[:at], order[at + 1 :]))
    if axes.groups is None:
        return ChannelLayout(order, 1, outer, channels, inner, 1)
    return ChannelLayout(order, x.shape[0], outer // x.shape[0], channels, inner, channels // axes.groups)


def _laid(x: Array, layout: ChannelLayout) -> Array:
    """``x`` in C order after its axes were taken in an order, copied only if needed."""
    return (ops.permute_dims(x, layout.order) if x.ndim else x).contiguous()


def _back(x: Array, layout: ChannelLayout) -> Array:
    """The inverse of :func:`_laid`."""
    return ops.permute_dims(x, [layout.order.index(i) for i in range(x.ndim)])


def _share(
    layout: ChannelLayout,
    arrays: Sequence[Array],
    derivative: bool,
    constants: Sequence[Array | None] | None = None,
) -> Share:
    last = layout.inner == 1
    neighbours = layout.channels if last else layout.inner
    aligned = all(one is None or address(one._data) % ALIGNMENT == 0 for one in (*arrays, *(constants or ())))
    item, widest = max(one.itemsize for one in arrays), _WIDTH if constants is None else ACCESS
    serial = arrays[0].device.style == "serial"
    most = min(ACCESS // item, widest) if last else ACCESS // item
    width = (_HOST_WIDTH if serial else most) if aligned else 1
    while neighbours % width:
        width //= 2
    if serial:
        return Share(1, 1, width, 1, last)
    across = min(_ACROSS, power_of_two(neighbours // width)) if last else 1
    if constants is not None:
        return _OF_CONSTANTS[last]._replace(across=across, width=width)
    narrow = last and item * width < ACCESS
    unroll = 2 * _UNROLL if narrow and not derivative else _UNROLL
    return Share(_BLOCK, across, width, unroll, last, 3 if last and not narrow else 4)


class _Cut(NamedTuple):
    """Blocks along x, parts along y, the kernels' struct Sizes and the type of its numbers."""

    blocks: int
    parts: int
    sizes: bytes
    integer: str


def _cut(layout: ChannelLayout, share: Share, device: Device, busy: int, least: int, before: int = 1) -> _Cut:
    """How the sequences of channels are cut.

    Args:
        busy: blocks a multiprocessor.
        least: packs of a thread, unless there is one part only.
        before: parts of the kernel before, which this one takes backwards.
    """
    sequence = layout.outer * layout.inner
    own = divide_up(layout.channels, share.across * share.width) if share.last else layout.channels
    if device.style == "serial":
        parts = min(_HOST_PARTS, sequence * layout.channels // _HOST_PART)
    else:
        wanted = busy * device.properties.multiprocessors // (own * layout.instances)
        most = device.properties.max_grid[1]
        parts = min(wanted, divide_up(sequence, share.step * least), most)
    grain, turns = 1 if share.last else share.width, max(1, parts // before)
    each = divide_up(divide_up(divide_up(sequence, before), turns), grain) * grain
    sizes, index = packed_sizes(layout, share.step, each, own, before)
    parts = divide_up(sequence, each) if before == 1 else before * turns
    return _Cut(own * layout.instances, parts, sizes, index)


def _cut_after_sums(layout: ChannelLayout, share: Share, device: Device, busy: int) -> _Cut:
    """How results are cut that take the parts of sums backwards."""
    before = _cut(layout, share, device, share.resident, 2 * share.unroll).parts
    return _cut(layout, share, device, busy, share.unroll, before)


def _bound_apply(
    name: str, device: Device, share: Share, cut: _Cut, variables: dict[str, Any], backwards: bool = True
) -> BoundKernel:
    shared = {"index": cut.integer, "backwards": backwards, **share._asdict()}
    return bound_kernel(_apply, device, name, **variables, **shared)


def _join_block(device: Device) -> dict[str, int]:
    return {"block": 1, "unroll": 1} if device.style == "serial" else {"block": _JOINING, "unroll": _UNROLL}


def _summed(
    x: Array,
    dy: Array | None,
    statistics: Array | None,
    layout: ChannelLayout,
    acc: dtypes.DType,
    weight: Array | None = None,
    dx: Array | None = None,
) -> tuple[Array, int]:
    """Parts of sums over each channel, and their number a channel; writes ``dx`` too, of constant statistics."""
    arrays, derivative = [x, *([] if dy is None else [dy])], dy is not None
    share = _share(layout, [*arrays, *([] if dx is None else [dx])], derivative)
    cut = _cut(layout, share, x.device, share.resident, 2 * share.unroll)
    types = {"elem": x.dtype, "out": arrays[-1].dtype, "acc": acc, "derivative": derivative}
    shared = {"index": cut.integer, "backwards": False, **share._asdict()}
    if dx is not None:
        types["param"] = acc if weight is None else weight.dtype
    bound = bound_kernel(_sums, x.device, "channel_sums", image=dx is not None, **types, **shared)
    parts = empty((layout.instances * layout.channels, cut.parts, 2 if derivative else 4), acc, x.device)
    more = (dy, statistics, *([] if dx is None else [weight, dx])) if derivative else ()
    bound((x, *more, parts, cut.sizes), (cut.blocks, cut.parts))
    return parts, cut.parts


def _statistics_of(x: Array, layout: ChannelLayout, options: Options, acc: dtypes.DType) -> Array:
    """Statistics of each group, of ``x`` as it lies in memory: two terms of the mean, 1 / sqrt(variance + eps)."""
    parts, count = _summed(x, None, None, layout, acc)
    statistics = empty((layout.groups, 3), acc, x.device)
    *moved, by, number = options.running.arguments(acc) if options.running else (None, None, None, 0.0)
    bound = bound_kernel(
        _statistics,
        x.device,
        "channel_statistics",
        elem=acc,
        acc=acc,
        running=acc if moved[0] is None else moved[0].dtype,
        index="long long",
        **_join_block(x.device),
    )
    bound((parts, statistics, *moved, by, count, layout.together, options.eps, number), layout.groups)
    if options.running:
        options.running.write(*moved)
    return statistics


def _both(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    layout: ChannelLayout,
    options: Options,
    acc: dtypes.DType,
) -> tuple[Array, Array]:
    """The result and the statistics of groups, of ``x`` as it lies in memory."""
    item = max(x.itemsize, options.dtype.itemsize)
    form = clusters.form_of(layout, (x,), item, acc, False)
    if form is not None:
        *moved, by, number = options.running.arguments(acc) if options.running else (None, None, None, 0.0)
        operands = (*moved, by)
        result = clusters.normalized(
            x, weight, bias, operands, number, layout, form, options.dtype, acc, options.eps
        )
        if result is not None:
            if options.running:
                options.running.write(*moved)
            return result
    statistics = _statistics_of(x, layout, options, acc)
    return _normalized(x, weight, bias, statistics, layout, options, acc), statistics


def _normalized(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    statistics: Array | None,
    layout: ChannelLayout,
    options: Options,
    acc: dtypes.DType,
) -> Array:
    """The result, of ``x`` as it lies in memory."""
    y = empty(x.shape, options.dtype, x.device)
    constant = options.constants is not None
    share = _share(layout, (x, y), False, (weight, bias, *options.constants) if options.constants else None)
    if constant:
        cut = _cut(layout, share, x.device, _APPLYING[share.last], share.unroll)
    else:
        cut = _cut_after_sums(layout, share, x.device, _DERIVING[share.last])
    constants: tuple[Array | None, ...] = (statistics,) if options.constants is None else options.constants
    variables = {
        "param": next((one.dtype for one in (weight, bias) if one is not None), x.dtype),
        "running": x.dtype if options.constants is None else options.constants[0].dtype,
        "constant": constant,
    }
    variables |= {"elem": x.dtype, "out": y.dtype, "acc": acc, "derivative": False}
    bound = _bound_apply("channel_normalized", x.device, share, cut, variables, not constant)
    bound((x, weight, bias, *constants, y, cut.sizes, options.eps), (cut.blocks, cut.parts))
    return y


def _differentiated(
    x: Array,
    dy: Array,
    weight: Array | None,
    bias: Array | None,
    statistics: Array,
    options: Options,
    wanted: Sequence[bool],
) -> list[Array | None]:
    """The gradients of ``x``, ``weight`` and ``bias``."""
    layout, device, acc = _layout_of(x, options.axes), x.device, statistics.dtype
    x, dy = _laid(x, layout), _laid(dy, layout)
    moving, parts, count = options.constants is None, None, 0
    single, scale = layout.instances == 1, 1 / max(options.axes.size, 1)
    weight = None if weight is None else weight.contiguous()
    types = {one.dtype for one in (weight, bias) if one is not None}
    grad = types.pop() if single and len(types) == 1 else acc
    both = empty((2, layout.instances, layout.channels), grad, device)
    outputs = [both[i] if want else None for i, want in enumerate(wanted[1:])]
    item = max(x.itemsize, dy.itemsize)
    form = clusters.form_of(layout, (x, dy), item, acc, True) if moving else None
    dx = empty(x.shape, x.dtype, device) if wanted[0] else None
    written = (*outputs, dx)
    if form is None or not clusters.differentiated(x, dy, weight, statistics, written, layout, form, scale):
        if moving:
            parts, count = _summed(x, dy, statistics, layout, acc)
        elif any(wanted[1:]):
            parts, count = _summed(x, dy, statistics, layout, acc, weight, dx)
        factors = empty((layout.instances * layout.channels, 4), acc, device)
        bound = bound_kernel(
            _gradients,
            device,
            "channel_gradients",
            elem=acc,
            acc=acc,
            param=acc if weight is None else weight.dtype,
            grad=grad,
            index="long long",
            moving=moving,
            **_join_block(device),
        )
        arrays = (parts, statistics, weight, *outputs, factors)
        bound((*arrays, count, layout.together, layout.channels, scale), layout.groups)
        if dx is not None and (moving or parts is None):
            _write_image(x, dy, factors, dx, layout)
    return [None if dx is None else _back(dx, layout), *_of_parameters(both, (weight, bias), wanted[1:])]


def _of_parameters(
    both: Array, parameters: Sequence[Array | None], wanted: Sequence[bool]
) -> list[Array | None]:
    """The gradients of weight and bias, from those of each instance."""
    chosen = [i for i, want in enumerate(wanted) if want]
    gradients: list[Array | None] = [None, None]
    if not chosen:
        return gradients
    outputs = both[chosen[0] : chosen[-1] + 1]
    types = {one.dtype for i in chosen if (one := parameters[i]) is not None}
    result = types.pop() if len(types) == 1 else outputs.dtype
    if both.shape[1] > 1:  # sums are rounded once, as they are written
        whole = ops.sum.evaluate(load(outputs.dtype, outputs.dtype), (outputs,), (), (1,), False, result)
    else:
        whole = ops.astype(outputs[:, 0], result, copy=False)
    for slot, i in enumerate(chosen):
        one = parameters[i]
        gradients[i] = None if one is None else ops.astype(whole[slot], one.dtype, copy=False)
    return gradients


def _write_image(x: Array, dy: Array, factors: Array, dx: Array, layout: ChannelLayout) -> None:
    """Write the gradient of ``x``, as it lies in memory."""
    share = _share(layout, (x, dy, dx), True)
    cut = _cut_after_sums(layout, share, x.device, _DERIVING[share.last])
    types = {"elem": x.dtype, "out": dy.dtype, "param": x.dtype, "acc": factors.dtype}
    variables = {**types, "derivative": True, "constant": False}
    bound = _bound_apply("channel_derivative", x.device, share, cut, variables)
    bound((x, dy, factors, dx, cut.sizes), (cut.blocks, cut.parts))


def reference(x: Array, weight: Array | None, bias: Array | None, options: Options) -> Array:
    """The normalized ``x`` as a composition, for derivatives of higher order."""
    axes = options.axes
    if options.constants is not None:
        mean, variance = (axes.beside(one) for one in options.constants)
        apart = ops.subtract(x, mean)
    else:
        together = tuple(i for i in range(x.ndim) if i != axes.channel)
        if axes.groups is not None:
            shape, at = axes.shape, axes.channel
            shape = (*shape[:at], axes.groups, shape[at] // axes.groups, *shape[at + 1 :])
            x, together = ops.reshape(x, shape), tuple(i for i in range(1, len(shape)) if i != at)
        apart = ops.subtract(x, ops.mean(x, axis=together, keepdims=True))
        variance = ops.mean(ops.square(apart), axis=together, keepdims=True)
    y = ops.reshape(ops.divide(apart, ops.sqrt(ops.add(variance, options.eps))), axes.shape)
    y = y if weight is None else ops.multiply(y, axes.beside(weight))
    return ops.astype(y if bias is None else ops.add(y, axes.beside(bias)), options.dtype)


@fuse
def _of_constants(mean: Any, variance: Any, which: Any, eps: float) -> Any:
    """Statistics of channels, shape (channels, 3), from arrays of shape (channels, 1) and the array (0, 1, 2)."""
    return ops.where(which < 1, mean, ops.where(which < 2, 0, 1 / ops.sqrt(variance + eps)))


class Normalized(Function):
    """Batch or group normalization, whose statistics are computed, or constants."""

    _only_reads = True

    @staticmethod
    def forward(ctx: Any, x: Array, weight: Array | None, bias: Array | None, options: Options) -> Array:
        tracked = any(ctx.needs_input_grad)
        y, statistics = _forward(x, weight, bias, options, tracked)
        if tracked:
            ctx.save_for_backward(x, weight, bias, statistics)
            ctx.options = options
        return y

    @staticmethod
    def backward(ctx: Any, dy: Array) -> tuple[Array | None, ...]:
        *primals, statistics = ctx.saved_arrays
        options, wanted = ctx.options, ctx.needs_input_grad[:3]

        def kernels() -> list[Array | None]:
            x, weight, bias = primals
            return _differentiated(x, dy, weight, bias, statistics, options, wanted)

        def composed(x: Array, weight: Array | None, bias: Array | None) -> Array:
            return reference(x, weight, bias, options)

        return (*fused_vjp(kernels, composed, primals, [dy], wanted), None)


def _forward(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    options: Options,
    tracked: bool,
) -> tuple[Array, Array | None]:
    """The result and, unless nobody needs them, the statistics of groups."""
    by_rows = _by_rows(x, weight, bias, options, tracked)
    if by_rows is not None:
        return by_rows
    own = (options.running.mean, options.running.variance) if options.running else options.constants or ()
    arrays = [one for one in (x, weight, bias, *own) if one is not None]
    acc = dtypes.info(dtypes.result_type(*arrays)).acc
    layout = _layout_of(x, options.axes)
    dense = _laid(x, layout)
    weight, bias = (None if one is None else one.contiguous() for one in _of_one_dtype(weight, bias, acc))
    statistics: Array | None = None
    if options.constants is None:
        y, statistics = _both(dense, weight, bias, layout, options, acc)
    else:
        alike = len({one.dtype for one in options.constants}) == 1
        mean, variance = ((one if alike else ops.astype(one, acc)).contiguous() for one in options.constants)
        options = options._replace(constants=(mean, variance))
        if tracked:
            which = asarray([0, 1, 2], dtype=acc, device=x.device)
            mean, variance = (ops.astype(one[:, None], acc, copy=False) for one in (mean, variance))
            statistics = _of_constants(mean, variance, which, options.eps)
        y = _normalized(dense, weight, bias, None, layout, options, acc)
    return _back(y, layout), statistics


def _of_one_dtype(
    weight: Array | None, bias: Array | None, acc: dtypes.DType
) -> tuple[Array | None, Array | None]:
    if weight is None or bias is None or weight.dtype == bias.dtype:
        return weight, bias
    return ops.astype(weight, acc), ops.astype(bias, acc)


def _by_rows(
    x: Array, weight: Array | None, bias: Array | None, options: Options, tracked: bool
) -> tuple[Array, Array | None] | None:
    """:func:`_forward` by the kernel that reads a group once; None where it does not apply."""
    axes = options.axes
    arrays = [one for one in (x, weight, bias) if one is not None]
    if axes.groups is None or axes.channel != 1 or not x.is_contiguous:
        return None
    if any(one.dtype != options.dtype for one in arrays):
        return None
    inner = math.prod(x.shape[2:])
    columns = axes.channels // axes.groups * inner
    normalized = launch_groups(x, weight, bias, options.eps, axes.groups, columns, inner)
    if normalized is None or not tracked:
        return normalized and (normalized[0], None)
    y, kept = normalized
    first = ops.reshape(x, (-1, columns))[:, :1]
    # The kernel of rows leaves the mean less the first element.
    return y, ops.concat([ops.astype(first, kept.dtype, copy=False), kept], axis=1)
