"""Products of many rows with quantised weights on tensor cores: tiles of weights that are dequantised when loaded."""

from __future__ import annotations

from functools import cache

from .. import dtypes
from ..array import Array
from ..array.layout import Layout, fresh_layout
from ..device.interface import Prepared
from ..elementwise.graph import Expr, cast, input_node
from ..elementwise.program import Program, program
from ..kernel.plan import on
from ..linear.task import Factor, Task
from ..linear.tensor_cores import Tile, tile_for
from .array import QuantArray
from .kinds import Kind


@cache
def _ended(dtype: dtypes.DType, biased: bool) -> Program:
    """The product, with a bias or without."""
    total = input_node(0, dtypes.float32)
    if not biased:
        return program("quantised_product", (cast(total, dtype),), (dtypes.float32,))
    made = Expr(total) + Expr(input_node(1, dtype))
    return program("quantised_product", (cast(made.node, dtype),), (dtypes.float32, dtype))


def task_of(x: Layout, kind: Kind, shape: tuple[int, ...], biased: bool, transposed: bool) -> Task | None:
    """The product of ``x`` (rows, k) with weights of a shape; None if no kernel takes it.

    Args:
        x: contiguous and aligned.
        kind: that of the weights.
        shape: theirs, (outputs, inputs).
        biased: whether a bias is added.
        transposed: whether their rows are summed over, and not their columns.
    """
    m, k = x.shape
    if x.dtype.itemsize != 2 or kind.dtype is not None or k % 8 or not m * k:
        return None
    right = Factor(0, kind.row_bytes(shape[1]), not transposed)
    return Task(1, m, shape[int(transposed)], k, Factor(0, k, True), right, ((0, 0, 1),) if biased else ())


@cache
def _planned(
    x: Layout, kind: Kind, shape: tuple[int, ...], biased: bool, transposed: bool, tile: Tile | None
) -> tuple[Layout, Prepared]:
    task = task_of(x, kind, shape, biased, transposed)
    assert task is not None
    tile = tile or tile_for(task, x.device, (1,))
    made = _ended(x.dtype, biased)
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
    """``x @ W.T + bias``, or ``x @ W`` if ``transposed``, for arguments that :func:`task_of` takes."""
    layout, launch = _planned(x._planned(), w._row, w.shape, bias is not None, transposed, tile)
    arrays = [x, w.blocks, *([] if bias is None else [bias])]
    for one in arrays:
        one._planned()
    with on(x.device):
        made = Array._made(layout)
        launch(*[one._operand for one in arrays], made._operand)
    return made
