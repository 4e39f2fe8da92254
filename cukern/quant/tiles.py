"""Products of many rows with quantised weights on tensor cores: tiles of weights that are dequantised when loaded."""

from __future__ import annotations

from functools import cache
from typing import Any

from .. import dtypes
from ..array import Array
from ..array.layout import Layout, fresh_layout
from ..device.interface import Prepared
from ..elementwise.graph import Expr, cast, input_node
from ..elementwise.program import Program, program
from ..kernel.plan import on, remember
from ..linear.task import Factor, Task
from ..linear.tensor_cores import Tile, tile_for
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
    made = Expr(total) + Expr(input_node(1, dtype))
    return program("quantised_product", (cast(made.node, dtype),), (dtypes.float32, dtype))


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


def _task(m: int, k: int, kind: Kind, shape: tuple[int, ...], biased: bool, transposed: bool) -> Task:
    """The product of rows with weights of a kind and a shape, whose rows have bytes in place of elements."""
    right = Factor(0, kind.row_bytes(shape[1]), not transposed)
    return Task(1, m, shape[int(transposed)], k, Factor(0, k, True), right, ((0, 0, 1),) if biased else ())


_Plan = tuple[Layout, Prepared]
_plans: dict[Any, _Plan] = {}


def _planned(
    x: Layout, kind: Kind, shape: tuple[int, ...], biased: bool, transposed: bool, tile: Tile | None
) -> _Plan:
    key = (x, kind, shape, biased, transposed, tile)
    found = _plans.get(key)
    return remember(_plans, key, _plan(*key)) if found is None else found


def _plan(
    x: Layout, kind: Kind, shape: tuple[int, ...], biased: bool, transposed: bool, tile: Tile | None
) -> _Plan:
    assert _takes(x.shape, x.dtype, kind, shape[0] * shape[1])
    m, k = x.shape
    task = _task(m, k, kind, shape, biased, transposed)
    tile = tile or tile_for(task, x.device, (1,))
    made = ended(x.dtype, biased)
    variables = tile.variables(made, x.dtype, task)
    variables["name"] = f"{variables['name']}_{kind.header}{'_transposed' if transposed else ''}"
    with on(x.device):
        bound = tile.kernel.bind(x.device, **variables, kind=kind.header)
        launch = bound.function.prepare(
            tile.grid(task), (tile.threads, 1, 1), tile.shared, tile.tail(task), ()
        )
    return fresh_layout(x.device, x.dtype, (task.m, task.n)), launch


def product(
    x: Array, w: QuantArray, bias: Array | None = None, transposed: bool = False, tile: Tile | None = None
) -> Array:
    """``x @ W.T + bias``, or ``x @ W`` if ``transposed``, of weights rounded to the dtype of ``x``.

    Args:
        x: shape (rows, k), float16 or bfloat16, contiguous and aligned; k is a multiple of 8.
        w: its kind is one of blocks.
        bias: contiguous, of the dtype of ``x``.
        transposed: whether the rows of W are summed over.
        tile: the form; the quickest by its measure when None.
    """
    layout, launch = _planned(x._planned(), w._row, w.shape, bias is not None, transposed, tile)
    arrays = [x, w.blocks, *([] if bias is None else [bias])]
    for one in arrays:
        one._planned()
    with on(x.device):
        made = Array._made(layout)
        launch(*[one._operand for one in arrays], made._operand)
    return made
