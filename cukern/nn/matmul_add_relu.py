"""Matrix product, bias and ReLU as one kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..array.creation import empty
from ..array.layout import address
from ..device import Device
from ..device.precision import allows_tf32
from ..elementwise.fuse import fuse
from ..elementwise.operands import require_arrays
from ..function import Function, checkpoint
from ..kernel import Kernel
from ..kernel.bound import BoundKernel
from ..kernel.plan import serial
from ..kernel.sizes import divide_up, index_type
from ..kernel.strides import broadcast_steps, collapse
from ..reduction.rows import sum_to_shape
from .fused import common_dtype, strided

_kernel = Kernel("nn/matmul_add_relu/matmul_add_relu.cu", name="matmul_add_relu")
_staged = Kernel("nn/matmul_add_relu/staged.cu", name="matmul_add_relu")
#: Elements that a thread of a staged tile moves at a time, if the alignment allows it.
_WIDE = 4


class Tile(NamedTuple):
    """The outputs of a block and of a thread.

    Attributes:
        m, n: rows and columns of a block's outputs.
        k: elements of the inner axis that are in shared memory at a time.
        thread_m, thread_n: rows and columns of a thread's outputs; multiples of 4 in a staged tile.
        lanes_m: threads of a warp along the rows.
        resident: blocks resident per multiprocessor, which limits their registers.
        band: rows of tiles that are computed column by column, so that concurrent blocks share factors.
        rate: the approximate fraction of the device's peak rate that it reaches.
        staged: whether the factors pass through shared memory; if not, a block is one thread.
    """

    m: int
    n: int
    k: int
    thread_m: int
    thread_n: int
    lanes_m: int = 4
    resident: int = 2
    band: int = 16
    rate: float = 1.0
    staged: bool = True


HOST_TILE = Tile(4, 32, 1, 4, 32, staged=False)
#: A multiprocessor issues as many instructions as multiply-adds per cycle, so a tile's rate is the fraction of
#: multiply-adds in its loop. In the large tile six reads of shared memory feed 128 multiply-adds; its 16 x 8 outputs
#: fill the registers, and two blocks of four warps hide each other's barriers. Smaller tiles read more per
#: multiply-add, and serve outputs that would leave multiprocessors idle; their k-blocks are deeper, because fewer warps
#: must hide the same latency.
TILES = (
    Tile(128, 128, 8, 16, 8, rate=0.8),
    Tile(64, 128, 8, 8, 8, resident=3, band=32, rate=0.7),
    Tile(64, 64, 16, 8, 4, resident=4, band=32, rate=0.55),
    Tile(32, 32, 32, 4, 4, resident=6, band=64, rate=0.35),
)
#: The most bytes of a thread's outputs, so that they and their factors fit 255 registers.
_THREAD_BYTES = 512


def _tile(device: Device, elem: dtypes.DType, batches: int, rows: int, columns: int) -> Tile:
    """The tile with the least estimated time, that of the busiest multiprocessor."""
    if serial(device):
        return HOST_TILE
    size, processors = dtypes.info(elem).acc.itemsize, device.properties.multiprocessors

    def cost(tile: Tile) -> float:
        blocks = batches * divide_up(rows, tile.m) * divide_up(columns, tile.n)
        return divide_up(blocks, processors) * tile.m * tile.n / tile.rate

    return min((one for one in TILES if one.thread_m * one.thread_n * size <= _THREAD_BYTES), key=cost)


class _Reading(NamedTuple):
    """How a factor is read into shared memory.

    Attributes:
        transposed: whether neighbouring threads read along the inner axis instead of the factor's own axis.
        width: elements that a thread reads at a time.
        unit: the axis whose stride is known to be 1 at compile time.
    """

    transposed: bool
    width: int
    unit: str


def _is_wide(one: Array, along: int) -> bool:
    """Whether elements along an axis can be read four at a time, from every multiple of four."""
    steps = [stride // one.itemsize for stride in one._data.strides]
    rest = [step for axis, step in enumerate(steps) if axis != along % one.ndim]
    return (
        steps[along] == 1
        and one.shape[along] % _WIDE == 0
        and all(step % _WIDE == 0 for step in rest)
        and address(one._data) % min(_WIDE * one.itemsize, 16) == 0
    )


def _reading(one: Array, own: int, names: tuple[str, str]) -> _Reading:
    """How a factor is read; ``own`` is its axis other than the inner one, ``names`` are those of its last two axes."""
    inner = -3 - own
    own_step, inner_step = one._data.strides[own], one._data.strides[inner]
    by_inner = abs(inner_step) < abs(own_step) if own_step and inner_step else not own_step
    along = inner if by_inner else own
    wide = _is_wide(one, along)
    return _Reading(by_inner, _WIDE if wide else 1, names[along] if wide else "")


@cache
def _bound(
    device: Device,
    elem: dtypes.DType,
    index: str,
    batch_ndim: int,
    tile: Tile,
    lhs: _Reading,
    rhs: _Reading,
    width: int,
    bias_unit: bool,
) -> BoundKernel:
    bound: dict[str, Any] = {
        "elem": elem,
        "index": index,
        "block": (tile.m // tile.thread_m) * (tile.n // tile.thread_n),
        "batch_ndim": batch_ndim,
        "thread_m": tile.thread_m,
        "thread_n": tile.thread_n,
        "rhs_unit": rhs.unit,
    }
    if not tile.staged:
        return _kernel.bind(device, **bound)
    return _staged.bind(
        device,
        **bound,
        tile_m=tile.m,
        tile_n=tile.n,
        tile_k=tile.k,
        lanes_m=tile.lanes_m,
        resident=max(1, tile.resident * 4 // dtypes.info(elem).acc.itemsize),
        band=tile.band,
        lhs_transposed=lhs.transposed,
        lhs_width=lhs.width,
        lhs_unit=lhs.unit,
        rhs_transposed=rhs.transposed,
        rhs_width=rhs.width,
        width=width,
        bias_unit=bias_unit,
    )


def _span(one: Array, places: tuple[int, int]) -> int:
    """The distance in elements between the first and the last element of a block of a size along the last two axes."""
    first, second = one._data.strides[-2:]
    return int(places[0] * abs(first) + places[1] * abs(second)) // one.itemsize


def _variables(
    lhs: Array, rhs: Array, bias: Array, output: Array, staged: bool
) -> tuple[_Reading, _Reading, int, bool]:
    """The template variables that depend on the layouts."""
    if not staged:
        unit = rhs.shape[-1] == 1 or rhs._data.strides[-1] == rhs.itemsize
        return _Reading(False, 1, ""), _Reading(False, 1, "column" if unit else ""), 1, False
    by_fours = _is_wide(bias, -1) or not bias._data.strides[-1]
    wide = by_fours and _is_wide(output, -1)
    return (
        _reading(lhs, -2, ("row", "inner")),
        _reading(rhs, -1, ("inner", "column")),
        _WIDE if wide else 1,
        wide and bias._data.strides[-1] != 0,
    )


@fuse
def _fused(lhs: Array, rhs: Array, bias: Array) -> Array:
    return ops.relu(lhs @ rhs + bias)


#: For half types on a GPU, by strategy.
_FUSED: dict[str, Callable[[Array, Array, Array], Array]] = {"save": _fused, "recompute": checkpoint(_fused)}


def launch(lhs: Array, rhs: Array, bias: Array, shape: tuple[int, ...], tile: Tile | None = None) -> Array:
    """The output (..., rows, columns) of ``shape``, to which ``bias`` and the product broadcast."""
    output = empty(shape, lhs.dtype, lhs.device)
    if not output.size:
        return output
    batch, (rows, columns) = shape[:-2], shape[-2:]
    inner = lhs.shape[-1]
    matrices = ((lhs, (rows, inner)), (rhs, (inner, columns)), (bias, (rows, columns)))
    steps = [broadcast_steps(one._data, (*batch, *matrix)) for one, matrix in matrices]
    axes = collapse(batch, [step[:-2] for step in steps])
    left, right, added = (
        strided(one, (*(axes.shape or (1,)), *matrix), (*(own if axes.shape else (0,)), *step[-2:]))
        for (one, matrix), step, own in zip(matrices, steps, axes.steps, strict=True)
    )
    batches = math.prod(batch)
    tile = tile or _tile(lhs.device, lhs.dtype, batches, rows, columns)
    spans = (_span(left, (tile.m, tile.k)), _span(right, (tile.k, tile.n))) if tile.staged else ()
    index = index_type(output.size, batches * rows * inner, batches * inner * columns, *spans)
    variables = _variables(left, right, added, output, tile.staged)
    bound = _bound(lhs.device, lhs.dtype, index, len(axes.shape) or 1, tile, *variables)
    grid = batches * divide_up(rows, tile.m) * divide_up(columns, tile.n)
    bound((left, right, added, output, inner), grid)
    return output


class _MatmulAddRelu(Function):
    _only_reads = True

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
    """The gradient of the right factor; one product over all rows if it has no batch axes."""
    if rhs_ndim == 2 and lhs.ndim == grad.ndim > 2 and lhs.shape[:-2] == grad.shape[:-2]:
        lhs, grad = (ops.reshape(one, (math.prod(one.shape[:-1]), one.shape[-1])) for one in (lhs, grad))
    return ops.matmul(ops.swapaxes(lhs, -2, -1), grad)


def matmul_add_relu(
    lhs: Array, rhs: Array, bias: Array, *, strategy: Literal["save", "recompute"] = "save"
) -> Array:
    """The larger of ``lhs @ rhs + bias`` and 0, in one kernel.

    On a GPU, that of half types, and of float32 where tf32 is allowed, is as :func:`cukern.fuse` says.

    Args:
        lhs: shape (..., M, K), a floating dtype.
        rhs: shape (..., K, N).
        bias: any shape that broadcasts with the product: a scalar, a row (N,), or full.
            The batch axes of all three broadcast.
        strategy: how the gradient finds the ReLU's mask: ``"save"`` saves the output,
            ``"recompute"`` saves only the arguments and computes the output again.

    Returns:
        Shape (..., M, N), in the promoted dtype of the arguments.

    Raises:
        TypeError: an argument is not a floating array.
        ValueError: the shapes do not fit, or there is no such strategy.

    >>> import cukern as ck
    >>> lhs, rhs = ck.asarray([[1.0, 2.0]]), ck.asarray([[3.0, -3.0], [4.0, -4.0]])
    >>> ck.nn.matmul_add_relu(lhs, rhs, ck.asarray([0.5, 0.5])).tolist()
    [[11.5, 0.0]]
    """
    name = "matmul_add_relu"
    lhs, rhs, bias = require_arrays((lhs, rhs, bias), name, ("lhs", "rhs", "bias"))
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
    rounded = dtypes.info(dtype).narrow or (dtype == dtypes.float32 and allows_tf32())
    if rounded and not serial(lhs.device):
        return _FUSED[strategy](lhs, rhs, bias)
    output: Array = _MatmulAddRelu.apply(lhs, rhs, bias, shape, strategy == "save")
    return output


__all__ = ["matmul_add_relu"]
