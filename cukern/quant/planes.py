"""Activations that are made in 8 bits, and their products with quantised weights."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from .. import dtypes
from ..array import Array
from ..array.layout import fresh_layout
from ..device import Device
from ..kernel.plan import new, on, serial
from .array import QuantArray
from .families import SETTLED
from .kinds import Kind
from .problem import Quantised
from .rows import plane_layouts, rounding


class Planes(NamedTuple):
    """Activations in 8 bits for products with a kind of blocks, as ``activations.cuh`` has them.

    Attributes:
        numbers: int8, shape (rows, inputs).
        factors: uint8, what products take of the scales.
        shape: (rows, inputs).
        kind: that of the weights.
    """

    numbers: Array
    factors: Array
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
    with on(device):
        numbers, factors = new(plane_layouts(device, (rows, inputs), kind))
    return Planes(numbers, factors, (rows, inputs), kind)


@lru_cache(maxsize=4096)
def _problem(
    device: Device,
    kind: Kind,
    weights: tuple[int, ...],
    rows: int,
    given: str,
    added: bool = False,
    gate: str = "",
) -> Quantised:
    x = fresh_layout(device, dtypes.float32, (rows, weights[1]))
    return Quantised(x, kind, weights, added, given=given, gate=gate)


def common_kind(matrices: list[Any], rows: int) -> Kind | None:
    """The kind of some matrices if a GPU multiplies so many rows in 8 bits with each of them, else None."""
    kinds = {w._row if isinstance(w, QuantArray) else None for w in matrices}
    kind = kinds.pop()
    if kinds or kind is None:
        return None
    problems = (_problem(w.device, kind, w.shape, rows, "rounded") for w in matrices)
    return kind if all(SETTLED.computes(one) for one in problems) else None


def rounded(x: Array, kind: Kind) -> Planes:
    """Rows of activations, contiguous, in 8 bits."""
    rows, inputs = x.shape
    layouts, run = rounding(x._layout or x._planned(), kind, serial(x.device))
    with on(x.device):
        numbers, factors = new(layouts)
        run((x, numbers, factors))
    return Planes(numbers, factors, (rows, inputs), kind)


def fuses(w: Any, gated: bool = False) -> bool:
    """Whether a GPU multiplies one row by a matrix, with what comes before and behind, in a launch of :func:`product`.

    Args:
        w: shape (outputs, inputs).
        gated: whether it is two matrices, joined.
    """
    if not isinstance(w, QuantArray):
        return False
    return SETTLED.computes(_problem(w.device, w._row, w.shape, 1, "normed", gate="silu" if gated else ""))


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
    rows, given = (x.shape[0], "rounded") if isinstance(x, Planes) else (1, "plain")
    values: tuple[Any, ...] = (x, None, None, added, None, 0.0)
    if isinstance(x, Planes):
        values = (None, x.numbers, x.factors, added, None, 0.0)
    elif isinstance(x, Normed):
        given, values = "normed", (x.x, None, None, added, x.weight, x.eps)
    problem = _problem(w.device, w._row, w.shape, rows, given, added is not None, gate)
    result: Array = SETTLED(problem)(w.blocks, *values)
    return result


__all__ = ["Normed", "Planes", "common_kind", "fuses", "planes_like", "product", "rounded"]
