"""Matrix product, bias and ReLU as one kernel."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..creation import empty
from ..device import Device
from ..function import Function
from ..kernel import BoundKernel, Kernel
from ..ops.launch import broadcast_steps, collapse, divide_up
from ..ops.reduce import sum_to_shape
from .fused import common_dtype, index_type, strided

_kernel = Kernel("nn/matmul_add_relu.cu", name="matmul_add_relu")


class Tile(NamedTuple):
    """What a block makes of the output, and what a thread makes of that.

    ``staged``: whether slabs of the factors, ``k`` deep, pass through shared memory; if not, a block is one
    thread.
    """

    m: int
    n: int
    k: int
    thread_m: int
    thread_n: int
    staged: bool = True


HOST_TILE = Tile(4, 32, 1, 4, 32, staged=False)
SMALL_TILE = Tile(64, 64, 16, 4, 4)
LARGE_TILE = Tile(128, 128, 8, 8, 8)


def _tile(device: Device, batches: int, rows: int, columns: int) -> Tile:
    if device.kind == "host":
        return HOST_TILE
    blocks = batches * divide_up(rows, LARGE_TILE.m) * divide_up(columns, LARGE_TILE.n)
    return LARGE_TILE if blocks >= 2 * device.properties.multiprocessors else SMALL_TILE


@cache
def _bound(
    device: Device, elem: dtypes.DType, index: str, batch_ndim: int, rhs_unit: bool, tile: Tile
) -> BoundKernel:
    return _kernel.bind(
        device,
        elem=elem,
        index=index,
        block=(tile.m // tile.thread_m) * (tile.n // tile.thread_n),
        batch_ndim=batch_ndim,
        rhs_unit=rhs_unit,
        tile_m=tile.m,
        tile_n=tile.n,
        tile_k=tile.k,
        thread_m=tile.thread_m,
        thread_n=tile.thread_n,
        staged=tile.staged,
    )


def launch(lhs: Array, rhs: Array, bias: Array, shape: tuple[int, ...], tile: Tile | None = None) -> Array:
    """The output (..., rows, columns) of ``shape``, which ``bias`` and the product broadcast to."""
    output = empty(shape, lhs.dtype, lhs.device)
    if not output.size:
        return output
    batch, (rows, columns) = shape[:-2], shape[-2:]
    inner = lhs.shape[-1]
    matrices = ((lhs, (rows, inner)), (rhs, (inner, columns)), (bias, (rows, columns)))
    steps = [broadcast_steps(one._data, (*batch, *matrix)) for one, matrix in matrices]
    axes = collapse(batch, [step[:-2] for step in steps])
    rhs_unit = columns == 1 or steps[1][-1] == 1
    operands = []
    for i, (one, matrix) in enumerate(matrices):
        last = (steps[i][-2], 1) if i == 1 and rhs_unit else steps[i][-2:]
        own = (*axes.steps[i], *last) if axes.shape else (0, *last)
        operands.append(strided(one, (*(axes.shape or (1,)), *matrix), own))
    batches = math.prod(batch)
    tile = tile or _tile(lhs.device, batches, rows, columns)
    index = index_type(output.size, batches * rows * inner, batches * inner * columns)
    bound = _bound(lhs.device, lhs.dtype, index, len(axes.shape) or 1, rhs_unit, tile)
    grid = batches * divide_up(rows, tile.m) * divide_up(columns, tile.n)
    bound((*operands, output, inner), grid)
    return output


class _MatmulAddRelu(Function):
    @staticmethod
    def forward(ctx: Any, lhs: Array, rhs: Array, bias: Array, shape: tuple[int, ...], keep: bool) -> Array:
        output = launch(lhs, rhs, bias, shape)
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(lhs, rhs, *((output,) if keep else (bias,)))
            ctx.shape, ctx.keep = shape, keep
        return output

    @staticmethod
    def backward(ctx: Any, grad: Array) -> tuple[Array | None, ...]:
        lhs, rhs, last = ctx.saved_arrays
        output = last if ctx.keep else launch(lhs, rhs, last, ctx.shape)
        grad = ops.where(ops.greater(output, 0), grad, 0)
        need_lhs, need_rhs, need_bias = ctx.needs_input_grad[:3]
        product = sum_to_shape(grad, _product_shape(lhs, rhs, grad.shape[:-2]))
        dlhs = ops.matmul(product, ops.swapaxes(rhs, -2, -1)) if need_lhs else None
        drhs = _rhs_gradient(lhs, product, rhs.ndim) if need_rhs else None
        return dlhs, drhs, grad if need_bias else None, None, None


def _product_shape(lhs: Array, rhs: Array, batch: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of ``lhs @ rhs`` with the batch axes ``batch``."""
    return (*batch, lhs.shape[-2], rhs.shape[-1])


def _rhs_gradient(lhs: Array, grad: Array, rhs_ndim: int) -> Array:
    """The gradient of the right factor; where that has no batch axes, as one product over all rows."""
    if rhs_ndim == 2 and lhs.ndim == grad.ndim > 2 and lhs.shape[:-2] == grad.shape[:-2]:
        lhs, grad = (ops.reshape(one, (math.prod(one.shape[:-1]), one.shape[-1])) for one in (lhs, grad))
    return ops.matmul(ops.swapaxes(lhs, -2, -1), grad)


def matmul_add_relu(
    lhs: Array, rhs: Array, bias: Array, *, strategy: Literal["save", "recompute"] = "save"
) -> Array:
    """The larger of ``lhs @ rhs + bias`` and 0, in one kernel.

    Args:
        lhs: shape (..., M, K), a floating dtype.
        rhs: shape (..., K, N).
        bias: any shape that broadcasts with the product: a scalar, a row (N,), or full.
            The batch axes of all three broadcast.
        strategy: what the gradient finds the ReLU's mask from: ``"save"`` keeps the output,
            ``"recompute"`` keeps only the arguments and computes the output again.

    Returns:
        shape (..., M, N), in the dtype that the arguments promote to.

    Raises:
        TypeError: an argument is not a floating array.
        ValueError: the shapes do not fit, or there is no such strategy.

    >>> import cukern as ck
    >>> lhs, rhs = ck.asarray([[1.0, 2.0]]), ck.asarray([[3.0, -3.0], [4.0, -4.0]])
    >>> ck.nn.matmul_add_relu(lhs, rhs, ck.asarray([0.5, 0.5])).tolist()
    [[11.5, 0.0]]
    """
    name = "matmul_add_relu"
    dtype = common_dtype(name, {"lhs": lhs, "rhs": rhs, "bias": bias})
    if strategy not in ("save", "recompute"):
        raise ValueError(f"{name}: strategy: expected 'save' or 'recompute', got {strategy!r}")
    for argument, one in (("lhs", lhs), ("rhs", rhs)):
        if one.ndim < 2:
            raise ValueError(f"{name}: {argument}: expected at least 2 axes, got shape {one.shape}")
    if lhs.shape[-1] != rhs.shape[-2]:
        raise ValueError(
            f"{name}: rhs: expected {lhs.shape[-1]} rows, as many as lhs {lhs.shape} has columns, "
            f"got {rhs.shape}"
        )
    try:
        batch = np.broadcast_shapes(lhs.shape[:-2], rhs.shape[:-2])
        shape = np.broadcast_shapes((*batch, lhs.shape[-2], rhs.shape[-1]), bias.shape)
    except ValueError:
        raise ValueError(
            f"{name}: shapes do not broadcast: lhs {lhs.shape}, rhs {rhs.shape}, bias {bias.shape}"
        ) from None
    lhs, rhs, bias = (ops.astype(one, dtype, copy=False) for one in (lhs, rhs, bias))
    output: Array = _MatmulAddRelu.apply(lhs, rhs, bias, shape, strategy == "save")
    return output


__all__ = ["matmul_add_relu"]
