"""Rows of a table by their numbers."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..creation import arange
from ..device import Device
from . import init
from .fused import common_dtype
from .module import Module, Parameter


def embedding(ids: Array, weight: Array) -> Array:
    """The rows of ``weight`` that ``ids`` name.

    Args:
        ids: any shape, an integer dtype, each in [0, rows).
        weight: shape (rows, features).

    Returns:
        shape (*ids.shape, features), the dtype of ``weight``.

    Raises:
        TypeError: ``ids`` is not an integer array, or ``weight`` not a floating one.
        ValueError: ``weight`` has not two axes.
        IndexError: an id is out of range.

    >>> import cukern as ck
    >>> ck.nn.embedding(ck.asarray([2, 0]), ck.asarray([[1.0], [2.0], [3.0]])).tolist()
    [[3.0], [1.0]]
    """
    common_dtype("embedding", {"weight": weight})
    _require_ids("embedding", ids)
    if weight.ndim != 2:
        raise ValueError(f"embedding: weight: expected shape (rows, features), got {weight.shape}")
    rows = ops.take(weight, ops.reshape(ids, (-1,)), axis=0)
    return ops.reshape(rows, (*ids.shape, weight.shape[1]))


def one_hot(ids: Array, classes: int, dtype: Any = None) -> Array:
    """1 in the place that each id names, 0 elsewhere; an id out of range gives zeros alone.

    Args:
        ids: any shape, an integer dtype.
        classes: how many places there are.
        dtype: of the result; float32 when None.

    Returns:
        shape (*ids.shape, classes).

    Raises:
        TypeError: ``ids`` is not an integer array.

    >>> import cukern as ck
    >>> ck.nn.one_hot(ck.asarray([2, 0]), 3).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    _require_ids("one_hot", ids)
    places = arange(classes, dtype=ids.dtype, device=ids.device)
    return ops.astype(ops.equal(ops.expand_dims(ids, axis=-1), places), dtypes.as_dtype(dtype or "float32"))


def _require_ids(name: str, ids: object) -> None:
    if not isinstance(ids, Array) or dtypes.info(ids.dtype).kind not in "iu":
        got = ids.dtype if isinstance(ids, Array) else type(ids).__name__
        raise TypeError(f"{name}: ids: expected an integer array, got {got}")


class Embedding(Module):
    """:func:`embedding` with a table to be trained, drawn from a standard normal.

    Args:
        rows: how many ids there are.
        features: elements of a row.
        dtype: of the table; float32 when None.
        device: of the table; the current one when None.
        rng: what the table is drawn from, see :mod:`cukern.nn.init`.
    """

    def __init__(
        self,
        rows: int,
        features: int,
        dtype: Any = None,
        device: Device | str | None = None,
        rng: init.Rng = None,
    ) -> None:
        self.weight = Parameter(init.normal((rows, features), 0.0, 1.0, dtype, device, rng))

    def forward(self, ids: Array) -> Array:
        """The rows (*ids.shape, features)."""
        return embedding(ids, self.weight)


__all__ = ["Embedding", "embedding", "one_hot"]
