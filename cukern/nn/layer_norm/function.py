"""Layer normalization: the forward pass, its gradients and the module."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

from ... import dtypes
from ... import namespace as ops
from ...array import Array
from ...array.creation import empty, ones, zeros
from ...device import Device
from ...elementwise.operands import first_array, require_array
from ...function import Function
from ...kernel import BoundKernel, Kernel
from ...kernel.plan import launch
from ...kernel.sizes import divide_up, index_type
from ...reduction.function import load
from ..fused import common_dtype, fused_vjp, is_int, require_eps
from ..module import Module, Parameter
from .geometry import Limits, Rows, Shape, backward_rows, forward_shape, gpu_shape, host_shape

_forward = Kernel("nn/layer_norm/forward.cu", name="layer_norm")
_forward_rows = Kernel("nn/layer_norm/forward_rows.cu", name="layer_norm")
_backward = Kernel("nn/layer_norm/backward.cu", name="layer_norm_backward")
_backward_registers = Kernel("nn/layer_norm/backward_registers.cu", name="layer_norm_backward")
_backward_rows = Kernel("nn/layer_norm/backward_rows.cu", name="layer_norm_backward")
_backward_sums = Kernel("nn/layer_norm/backward_sums.cu", name="layer_norm_backward")

#: Rows of partial sums for the gradients of weight and bias on the host.
HOST_SLOTS = 32
#: The most elements on which the host's derivative is run to compile it ahead of need.
_REHEARSED = 1 << 17
#: The fewest turns of a group that sums gradients of weight and bias, if all multiprocessors work.
_ROWS_EACH = 8


def _shape(arrays: Sequence[Array | None], columns: int, registers: int) -> Shape:
    x = arrays[0]
    assert x is not None
    if x.device.style == "serial":
        return host_shape()
    width = 16 // x.itemsize if _packed(arrays, columns) else 1
    return gpu_shape(columns, width, registers, x.device.properties.max_blocks_per_cluster)


def _packed(arrays: Sequence[Array | None], columns: int) -> bool:
    """Whether all rows consist of aligned packs of 16 bytes."""
    aligned = all(one is None or one._planned().aligned for one in arrays)
    return aligned and all(one is None or columns * one.itemsize % 16 == 0 for one in arrays)


def _limits(device: Device) -> Limits:
    limits = device.properties
    return Limits(limits.max_blocks_per_cluster, limits.max_shared_memory_per_block)


@cache
def _bound(
    kernel: Kernel,
    device: Device,
    elem: dtypes.DType,
    index: str,
    columns: int,
    shape: Shape | Rows,
    **variables: bool,
) -> BoundKernel:
    return kernel.bind(
        device,
        elem=elem,
        index=index,
        half=dtypes.info(elem).narrow,
        exact=shape.threads * shape.chunks * shape.width == columns,
        **shape._asdict(),
        **variables,
    )


@cache
def expect_backward(
    device: Device, elem: dtypes.DType, rows: int, columns: int, weighted: bool, centered: bool = True
) -> None:
    """Compile the host's derivative ahead of need, by running its kernels on a few short rows."""

    def rehearse() -> None:
        x = zeros((rows, columns), elem, device)
        weight = zeros((columns,), elem, device) if weighted else None
        statistics = zeros((rows, 2), dtypes.info(elem).acc, device)
        launch_backward(
            x, x, weight, statistics, columns, (True, weighted, weighted and centered), centered=centered
        )

    if device.style == "serial" and rows * columns <= _REHEARSED:
        device.backend.ahead(rehearse)


def _launch(bound: BoundKernel, grid: int, values: Sequence[Any], shared: int = 0) -> None:
    """Launch on arrays that are contiguous and aligned as the kernel's shape needs, of which it writes new ones."""
    launch(bound.device, bound.function, grid, bound.block[0], values, shared)


def _dense(x: Array | None) -> Array | None:
    return None if x is None else x.contiguous()


def launch_forward(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    eps: float,
    columns: int,
    shape: Shape | None = None,
    centered: bool = True,
) -> tuple[Array, Array]:
    """The normalized ``x`` and its statistics (rows, 2); all arrays have one dtype.

    Rows that are not ``centered`` are divided by the root of their mean square.
    """
    x, weight, bias = x.contiguous(), _dense(weight), _dense(bias)
    rows = x.size // columns
    acc = dtypes.info(x.dtype).acc
    y = empty(x.shape, x.dtype, x.device)
    statistics = empty((rows, 2), acc, x.device)
    if shape is None and x.device.style != "serial" and _packed((x, weight, bias), columns):
        shape = forward_shape(columns, x.itemsize, x.device.properties.max_blocks_per_cluster)
    shape = shape or _shape((x, weight, bias), columns, registers=32)
    variables = {"weighted": weight is not None, "biased": bias is not None, "centered": centered}
    elements = index_type(x.size, 2 * rows)
    if shape.chunks:
        bound = _bound(_forward_rows, x.device, x.dtype, elements, columns, shape, grouped=False, **variables)
    else:
        bound = _bound(_forward, x.device, x.dtype, elements, columns, shape, **variables)
    grid = divide_up(rows, shape.groups) * shape.cluster
    _launch(bound, grid, (x, weight, bias, y, statistics, rows, columns, eps))
    return y, statistics


def launch_groups(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    eps: float,
    groups: int,
    columns: int,
    inner: int,
    shape: Shape | None = None,
) -> tuple[Array, Array] | None:
    """:func:`launch_forward` of rows that are groups of channels; None where no registers hold a row.

    Args:
        x: contiguous, rows of ``columns`` elements, which take the groups in turn.
        weight, bias: one number per channel of all groups.
        inner: neighbouring elements of a channel.
    """
    if shape is None:
        if x.device.style == "serial" or not _packed((x,), columns):
            return None
        shape = forward_shape(columns, x.itemsize, x.device.properties.max_blocks_per_cluster)
    if not shape.chunks:
        return None
    rows = x.size // columns
    y = empty(x.shape, x.dtype, x.device)
    statistics = empty((rows, 2), dtypes.info(x.dtype).acc, x.device)
    bound = _bound(
        _forward_rows,
        x.device,
        x.dtype,
        index_type(x.size, 2 * rows),
        columns,
        shape._replace(ahead=False),
        weighted=weight is not None,
        biased=bias is not None,
        centered=True,
        grouped=True,
        even=inner % shape.width == 0,
    )
    arrays = (x, _dense(weight), _dense(bias), y, statistics)
    grid = divide_up(rows, shape.groups) * shape.cluster
    _launch(bound, grid, (*arrays, rows, columns, eps, groups, inner))
    return y, statistics


def launch_backward(
    x: Array,
    dy: Array,
    weight: Array | None,
    statistics: Array,
    columns: int,
    wanted: tuple[bool, bool, bool] = (True, True, True),
    shape: Shape | Rows | None = None,
    centered: bool = True,
) -> tuple[Array, Array | None, Array | None]:
    """The gradients of x, weight and bias; the last two have shape (columns,), or are None if not needed."""
    x, dy, weight = x.contiguous(), dy.contiguous(), _dense(weight)
    rows = x.size // columns
    if shape is None and x.device.style != "serial" and _packed((x, dy, weight), columns):
        shape = backward_rows(columns, x.itemsize, _limits(x.device), any(wanted[1:]), weight is not None)
    if isinstance(shape, Rows):
        return _launch_rows(x, dy, weight, statistics, columns, wanted, shape, centered)
    acc = dtypes.info(x.dtype).acc
    dx = empty(x.shape, x.dtype, x.device)
    shape = shape or _shape((x, dy, weight), columns, registers=64 // acc.itemsize)
    most = (
        HOST_SLOTS if x.device.style == "serial" else 4 * x.device.properties.multiprocessors // shape.cluster
    )
    teams = min(divide_up(rows, shape.groups), most)
    sizes = (teams * shape.groups, columns)
    if shape.chunks:
        sums = [empty(sizes, acc, x.device) if want else None for want in wanted[1:]]
    else:
        sums = [zeros(sizes, acc, x.device) for _ in wanted[1:]]
    elements = index_type(x.size, 2 * rows)
    kernel, variables = _backward_registers, {"centered": centered}
    if not shape.chunks:
        kernel, variables = _backward, {**variables, "weighted": weight is not None}
    bound = _bound(kernel, x.device, x.dtype, elements, columns, shape, **variables)
    _launch(bound, teams * shape.cluster, (x, dy, weight, statistics, dx, *sums, rows, columns))
    dweight, dbias = (
        ops.astype(ops.sum(one, axis=0), x.dtype, copy=False) if want and one is not None else None
        for want, one in zip(wanted[1:], sums, strict=True)
    )
    return dx, dweight, dbias


def _launch_rows(
    x: Array,
    dy: Array,
    weight: Array | None,
    statistics: Array,
    columns: int,
    wanted: tuple[bool, bool, bool],
    shape: Rows,
    centered: bool,
) -> tuple[Array, Array | None, Array | None]:
    """:func:`launch_backward` with rows in registers or in shared memory."""
    rows, acc = x.size // columns, dtypes.info(x.dtype).acc
    dx = empty(x.shape, x.dtype, x.device)
    bound = _bound(
        _backward_sums if shape.stages else _backward_rows,
        x.device,
        x.dtype,
        index_type(x.size, 2 * rows),
        columns,
        shape,
        groups=shape.groups,
        keeps_row=shape.keeps_row,
        weighted=weight is not None,
        centered=centered,
    )
    if not shape.stages:
        grid = divide_up(rows, shape.groups) * shape.cluster
        _launch(bound, grid, (x, dy, weight, statistics, dx, rows, columns))
        return dx, None, None
    groups = shape.groups * shape.turn
    busy = max(1, x.device.properties.multiprocessors // shape.cluster)
    teams = divide_up(rows, groups)
    teams = min(teams, shape.resident * busy, max(busy, divide_up(teams, _ROWS_EACH)))
    # The partial sums of both gradients are contiguous, so that one launch adds them.
    parts = empty((sum(wanted[1:]), teams, columns), acc, x.device)
    places = iter(range(sum(wanted[1:])))
    sums = [parts[next(places)] if want else None for want in wanted[1:]]
    values = (x, dy, weight, statistics, dx, *sums, rows, columns)
    _launch(bound, teams * shape.cluster, values, shape.shared)
    found = ops.sum.evaluate(load(acc, acc), (parts,), (), (1,), False, x.dtype)
    made = iter(range(found.shape[0]))
    dweight, dbias = (found[next(made)] if want else None for want in wanted[1:])
    return dx, dweight, dbias


def layer_norm_reference(
    x: Array, normalized_ndim: int, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5
) -> Array:
    """:func:`layer_norm` of checked arguments as a composition: for derivatives of higher order, and for tests."""
    axes = tuple(range(-normalized_ndim, 0))
    centered = ops.subtract(x, ops.mean(x, axis=axes, keepdims=True))
    variance = ops.mean(ops.square(centered), axis=axes, keepdims=True)
    y = ops.divide(centered, ops.sqrt(ops.add(variance, eps)))
    y = y if weight is None else ops.multiply(y, weight)
    return y if bias is None else ops.add(y, bias)


class _LayerNorm(Function):
    _only_reads = True

    @staticmethod
    def forward(
        ctx: Any, x: Array, weight: Array | None, bias: Array | None, normalized_ndim: int, eps: float
    ) -> Array:
        columns = math.prod(x.shape[x.ndim - normalized_ndim :])
        if any(ctx.needs_input_grad):
            rows = min(x.size // columns, HOST_SLOTS)
            expect_backward(x.device, x.dtype, rows, columns, weight is not None)
        y, statistics = launch_forward(x, weight, bias, eps, columns)
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(x, weight, bias, statistics)
            ctx.normalized_ndim, ctx.eps, ctx.columns = normalized_ndim, eps, columns
        return y

    @staticmethod
    def backward(ctx: Any, dy: Array) -> tuple[Array | None, ...]:
        *primals, statistics = ctx.saved_arrays
        x, weight, _ = primals
        wanted = ctx.needs_input_grad[:3]

        def kernels() -> list[Array | None]:
            found = launch_backward(x, dy, weight, statistics, ctx.columns, wanted)
            return [
                None if gradient is None else ops.reshape(gradient, one.shape)
                for one, gradient in zip(primals, found, strict=True)
            ]

        def composed(x: Array, weight: Array | None, bias: Array | None) -> Array:
            return layer_norm_reference(x, ctx.normalized_ndim, weight, bias, ctx.eps)

        return (*fused_vjp(kernels, composed, primals, [dy], wanted), None, None)


def layer_norm(
    x: Array,
    normalized_shape: int | Sequence[int],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> Array:
    """``(x - mean) / sqrt(variance + eps) * weight + bias``, with mean and variance over the trailing axes.

    A GPU reads ``x`` once if a block can hold a row (up to 32,768 elements), or from compute capability 9 on a
    cluster of eight blocks (262,144 elements). The gradient reads ``x`` and the result's gradient once for up to half
    as many elements, a quarter in float64. Longer rows, and all rows on the host, are read twice: once for the mean
    and variance, or the gradient's sums, and once for the result. The mean is subtracted before squaring, so a large
    mean costs no accuracy. The gradient subtracts the row's first element instead: if that is k standard deviations
    from the mean, rounding errors are k times as large.

    Args:
        x: shape (..., *normalized_shape), a floating dtype.
        normalized_shape: the sizes of the trailing axes; an int for one axis.
        weight: shape ``normalized_shape``; ones when None.
        bias: shape ``normalized_shape``; zeros when None.
        eps: added to the variance, whose divisor is the number of elements.

    Returns:
        The shape of ``x``, in the promoted dtype of the arguments.

    Raises:
        TypeError: an argument is not a floating array.
        ValueError: the shapes do not fit, or ``eps`` is negative.

    Source: Ba, Kiros and Hinton, "Layer Normalization", 2016.

    >>> import cukern as ck
    >>> ck.nn.layer_norm(ck.asarray([[1.0, 3.0]]), 2, eps=0.0).tolist()
    [[-1.0, 1.0]]
    """
    x = require_array(x, "layer_norm", "x", first_array((weight, bias)))
    weight = None if weight is None else require_array(weight, "layer_norm", "weight", x)
    bias = None if bias is None else require_array(bias, "layer_norm", "bias", x)
    dtype = common_dtype("layer_norm", {"x": x}, {"weight": weight, "bias": bias})
    sizes = require_normalized_shape(normalized_shape)
    if x.shape[max(x.ndim - len(sizes), 0) :] != sizes:
        raise ValueError(f"layer_norm: x: expected trailing axes of sizes {sizes}, got shape {x.shape}")
    for name, one in (("weight", weight), ("bias", bias)):
        if one is not None and one.shape != sizes:
            raise ValueError(f"layer_norm: {name}: expected shape {sizes}, got {one.shape}")
    eps = require_eps("layer_norm", eps)
    x = ops.astype(x, dtype, copy=False)
    weight, bias = (None if one is None else ops.astype(one, dtype, copy=False) for one in (weight, bias))
    if not x.size:
        return layer_norm_reference(x, len(sizes), weight, bias, eps) if all(sizes) else x
    y: Array = _LayerNorm.apply(x, weight, bias, len(sizes), eps)
    return y


def require_normalized_shape(
    normalized_shape: int | Sequence[int], name: str = "layer_norm"
) -> tuple[int, ...]:
    """The sizes of the trailing axes.

    Raises:
        ValueError: there is none, or one is not a size.
    """
    given = normalized_shape if isinstance(normalized_shape, Sequence) else (normalized_shape,)
    if not given or not all(is_int(n) and n >= 0 for n in given):
        raise ValueError(f"{name}: normalized_shape: expected one size or more, got {normalized_shape!r}")
    return tuple(map(int, given))


class LayerNorm(Module):
    """:func:`layer_norm` with trained weight, initially ones, and bias, initially zeros.

    Args:
        normalized_shape: the sizes of the trailing axes; an int for one axis.
        eps: added to the variance.
        affine: whether there are a weight and a bias.
        bias: whether there is a bias besides the weight.
        dtype: that of the parameters; the default floating dtype when None.
        device: that of the parameters; the current one when None.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        affine: bool = True,
        bias: bool = True,
        dtype: Any = None,
        device: Device | str | None = None,
    ) -> None:
        self.normalized_shape = require_normalized_shape(normalized_shape)
        self.eps = eps
        sizes = self.normalized_shape
        self.weight = Parameter(ones(sizes, dtype, device)) if affine else None
        self.bias = Parameter(zeros(sizes, dtype, device)) if affine and bias else None

    def forward(self, x: Array) -> Array:
        """The normalized ``x``, of its shape."""
        return layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The options that the parameters' shapes do not show."""
        return f"{self.normalized_shape}, eps={self.eps}"


__all__ = ["LayerNorm", "layer_norm"]
