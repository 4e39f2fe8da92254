"""Activations that are made in 8 bits, and their products with quantised weights."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import dtypes
from ..array import Array
from ..device import Device
from ..device.interface import CompiledFunction
from ..kernel.plan import allocate, launch, on
from ..kernel.sizes import divide_up
from . import few_rows
from .array import QuantArray
from .kinds import Kind


class Planes(NamedTuple):
    """Activations in 8 bits for products with a kind of blocks, as ``activations.cuh`` has them.

    Attributes:
        numbers: an ndarray of int8, shape (rows, inputs).
        factors: an ndarray of uint8, what products take of the scales.
        shape: (rows, inputs).
        kind: that of the weights.
    """

    numbers: Any
    factors: Any
    shape: tuple[int, int]
    kind: Kind


def planes_like(rows: int, inputs: int, kind: Kind, device: Device) -> Planes:
    """Memory for activations in 8 bits."""
    numbers = allocate(device, (rows, inputs), dtypes.int8)
    factors = allocate(device, (rows * inputs // kind.scaled, few_rows._FACTOR), dtypes.uint8)
    return Planes(numbers, factors, (rows, inputs), kind)


def common_kind(matrices: list[Any], rows: int) -> Kind | None:
    """The kind of some matrices if a GPU multiplies so many rows in 8 bits with each of them, else None."""
    kinds = {w._row if isinstance(w, QuantArray) else None for w in matrices}
    kind = kinds.pop()
    if kinds or kind is None or kind.dtype is not None or not 0 < rows <= few_rows.MOST_ROWS:
        return None
    fits = (few_rows.shape_for(kind, rows, *_sizes(w), w.device) is not None for w in matrices)
    return kind if all(fits) else None


def _sizes(w: QuantArray) -> tuple[int, int]:
    outputs, inputs = w.shape
    return outputs, inputs


def rounded(x: Array, kind: Kind) -> Planes:
    """Rows of activations, contiguous, in 8 bits."""
    rows, inputs = x.shape
    return Planes(*few_rows.activations(x, kind), (rows, inputs), kind)


def product(planes: Planes, w: QuantArray) -> Array:
    """``x @ W.T`` in float32 of activations that are in 8 bits, on a GPU.

    The weights must have been written before the kernel launched last could begin: they are read before it has ended.

    Args:
        planes: on the device of ``w``, for its kind.
        w: shape (outputs, inputs), see :func:`common_kind`.
    """
    (rows, inputs), (outputs, _), device = planes.shape, _sizes(w), w.device
    shape = few_rows.shape_for(planes.kind, rows, outputs, inputs, device)
    assert shape is not None
    shape = shape._replace(packs=0)
    block, function = 32 * shape.warps, _bound(planes, shape, device)
    grid = min(device.properties.multiprocessors, divide_up(outputs, shape.rows))
    with on(device):
        made = allocate(device, (rows, outputs), dtypes.float32)
        values = (w.blocks._data, None, *planes[:2], None, made, outputs, inputs)
        launch(device, function, grid, block, values, shape.shared(planes.kind, rows, inputs))
    return Array._wrap(made, device)


def _bound(planes: Planes, shape: few_rows.Shape, device: Device) -> CompiledFunction:
    kind, (rows, inputs) = planes.kind, planes.shape
    return few_rows._bound(
        few_rows._ROWS,
        device,
        name=f"quantised_rows_{kind.header}_planes_{rows}_{shape.rows}_{shape.warps}_{shape.stages}",
        elem=dtypes.float32,
        kind=kind.header,
        columns=rows,
        block=32 * shape.warps,
        **shape._asdict(),
        aligned=few_rows._is_aligned(kind, inputs),
        biased=False,
        settled=True,
    )


__all__ = ["Planes", "common_kind", "planes_like", "product", "rounded"]
