"""Products of many rows with quantised weights on tensor cores: tiles of weights that are dequantised when loaded."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from .. import dtypes
from ..array import Array
from ..array.layout import Layout, fresh_layout
from ..device.interface import Properties
from ..elementwise.graph import Expr, cast, input_node
from ..elementwise.program import Program, program
from ..kernel.plan import on, remember
from ..launch.variant import Run, prepared
from ..linear.problem import Factor, Gemm
from ..linear.variants import TensorCores
from .array import QuantArray
from .kinds import Kind

#: Rows of the left factor at most: for more, cuBLAS and a copy of the weights in 16 bits should be quicker. Estimated.
_MOST_ROWS = 256


@cache
def ended(dtype: dtypes.DType, biased: bool) -> Program:
    """The product, with a bias or without."""
    total = input_node(0, dtypes.float32)
    if not biased:
        return program("quantised_product", (cast(total, dtype),), (dtypes.float32,))
    result = Expr(total) + Expr(input_node(1, dtype))
    return program("quantised_product", (cast(result.node, dtype),), (dtypes.float32, dtype))


def are_quicker(x: Array, w: QuantArray, transposed: bool) -> bool:
    """Whether tiles multiply ``x`` (rows, k) by weights, or rows of these, sooner than a copy of all weights is made.

    Args:
        x: has the depth of the product.
        w: of two axes.
        transposed: whether its rows are summed over, and not its columns.
    """
    if (
        x.device.style == "serial"
        or x.device.properties.compute_capability < (8, 0)
        or x.shape[0] > _MOST_ROWS
    ):
        return False
    return _takes(x.shape, x.dtype, w._row, w.size)


def _takes(shape: tuple[int, ...], dtype: dtypes.DType, kind: Kind, weights: int) -> bool:
    m, k = shape
    return bool(dtype.itemsize == 2 and kind.dtype is None and k % 8 == 0 and m * k * weights)


def _gemm(m: int, k: int, kind: Kind, shape: tuple[int, ...], biased: bool, transposed: bool) -> Gemm:
    """The product of rows with weights of a kind and a shape, whose rows have bytes in place of elements."""
    right = Factor(0, kind.row_bytes(shape[1]), not transposed)
    return Gemm(1, m, shape[int(transposed)], k, Factor(0, k, True), right, ((0, 0, 1),) if biased else ())


_Plan = tuple[Layout, Run]
_plans: dict[Any, _Plan] = {}


def _planned(
    x: Layout, kind: Kind, shape: tuple[int, ...], biased: bool, transposed: bool, tile: TensorCores | None
) -> _Plan:
    key = (x, kind, shape, biased, transposed, tile)
    plan = _plans.get(key)
    return remember(_plans, key, _plan(*key)) if plan is None else plan


def tile_for(gemm: Gemm, limits: Properties) -> TensorCores:
    """The tile of the least time."""
    tiles = [one for one in (TensorCores(*given) for given in TensorCores.tiles) if one.runs_on(limits)]
    return min(tiles, key=lambda one: one.seconds(gemm, limits))


def _plan(
    x: Layout, kind: Kind, shape: tuple[int, ...], biased: bool, transposed: bool, tile: TensorCores | None
) -> _Plan:
    assert _takes(x.shape, x.dtype, kind, shape[0] * shape[1])
    m, k = x.shape
    gemm, limits = _gemm(m, k, kind, shape, biased, transposed), x.device.properties
    tile = tile or tile_for(gemm, limits)
    launch = tile.launch_of(gemm, ended(x.dtype, biased), x.dtype, limits)
    name = f"{launch.constants['name']}_{kind.header}{'_transposed' if transposed else ''}"
    launch = replace(launch, constants={**launch.constants, "name": name, "kind": kind.header})
    with on(x.device):
        run = prepared(tile, launch, x.device)
    return fresh_layout(x.device, x.dtype, (gemm.m, gemm.n)), run


def product(
    x: Array,
    w: QuantArray,
    bias: Array | None = None,
    transposed: bool = False,
    tile: TensorCores | None = None,
) -> Array:
    """``x @ W.T + bias``, or ``x @ W`` if ``transposed``, of weights rounded to the dtype of ``x``.

    Args:
        x: shape (rows, k), float16 or bfloat16, contiguous and aligned; k is a multiple of 8.
        w: its kind is one of blocks.
        bias: contiguous, of the dtype of ``x``.
        transposed: whether the rows of W are summed over.
        tile: the constants; those of the least time when None.
    """
    layout, run = _planned(x._planned(), w._row, w.shape, bias is not None, transposed, tile)
    arrays = [x, w.blocks, *([] if bias is None else [bias])]
    with on(x.device):
        result = Array._made(layout)
        run([*arrays, result])
    return result
