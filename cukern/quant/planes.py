"""Activations that are made in 8 bits, and their products with quantised weights."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import dtypes
from ..array import Array
from ..device import Device
from ..kernel.plan import allocate, on
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


class Normed(NamedTuple):
    """One row of activations that its products normalise: ``x / sqrt(mean square + eps) * weight``.

    Attributes:
        x: float32, contiguous.
        weight: float32, contiguous.
        eps: added to the mean square.
    """

    x: Array
    weight: Array
    eps: float


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


def fuses(w: Any, gated: bool = False) -> bool:
    """Whether a GPU multiplies one row by a matrix, with what comes before and behind, in a launch of :func:`product`.

    Args:
        w: shape (outputs, inputs).
        gated: whether it is two matrices, joined.
    """
    if not isinstance(w, QuantArray) or w._row.dtype is not None or not w.size:
        return False
    shape = few_rows.shape_for(w._row, 1, *_sizes(w), w.device)
    return shape is not None and shape.packs > 0 and (not gated or shape.rows > 1)


def product(x: Planes | Normed | Array, w: QuantArray, added: Array | None = None, gate: str = "") -> Array:
    """``x @ W.T`` in float32 on a GPU, of activations that are in 8 bits or are rounded to them.

    The weights must have been written before the kernel launched last could begin: they are read before it has ended.

    Args:
        x: on the device of ``w``: of its kind (see :func:`common_kind`), or one row in float32 (see :func:`fuses`).
        w: shape (outputs, inputs).
        added: shape (1, outputs), float32, added to the result of one row.
        gate: ``"silu"`` or ``"gelu_tanh"`` for matrices W0 and W1 that are joined to W:
            ``f(x @ W0.T) * (x @ W1.T)``.

    Returns:
        Shape (rows, outputs), of half of the outputs with a gate.
    """
    (outputs, inputs), device, kind = _sizes(w), w.device, w._row
    rows = x.shape[0] if isinstance(x, Planes) else 1
    shape = few_rows.settled_shape_for(kind, rows, outputs, inputs, device)
    assert shape is not None and (not gate or shape.rows > 1)
    norm: tuple[Any, float] = (None, 0.0)
    if isinstance(x, Planes):
        shape, given = shape._replace(packs=0, lead=0), (None, *x[:2])
    elif isinstance(x, Normed):
        given, norm = (x.x._data, None, None), (x.weight._data, x.eps)
    else:
        given = (x._data, None, None)
    result = allocate(device, (rows, outputs // 2 if gate else outputs), dtypes.float32)
    form = few_rows.Form(dtypes.float32, added is not None, True, isinstance(x, Normed), gate)
    with on(device):
        plan = few_rows.planned(device, kind, form, (*result.shape, inputs), shape)
        few_rows.run(plan, w, given, None if added is None else added._data, result, norm)
    return Array._wrap(result, device)


__all__ = ["Normed", "Planes", "common_kind", "fuses", "planes_like", "product", "rounded"]
