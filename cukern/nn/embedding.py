"""Embeddings: rows of a table selected by index, and one-hot vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..array.creation import arange
from ..device import Device
from ..elementwise.fuse import fuse
from ..elementwise.operands import require_array, require_arrays
from ..function import stop_gradient
from . import init
from .fused import common_dtype, is_int, require_ids, require_shape, require_sizes
from .module import Module, Parameter


@fuse(static=("padding_idx",))
def _held(rows: Any, constant: Any, ids: Any, padding_idx: int) -> Any:
    """``rows``, without a derivative where the id is ``padding_idx``."""
    return ops.where(ops.equal(ids, padding_idx), constant, rows)


def _require_row(name: str, padding_idx: object, rows: int) -> int:
    """``padding_idx`` as a row number from 0 to ``rows - 1``.

    Raises:
        TypeError: ``padding_idx`` is not an int.
        ValueError: there is no such row.
    """
    if not is_int(padding_idx):
        raise TypeError(f"{name}: padding_idx: expected an int or None, got {padding_idx!r}")
    if not -rows <= padding_idx < rows:  # type: ignore[operator]
        raise ValueError(f"{name}: padding_idx: expected a row in [{-rows}, {rows}), got {padding_idx!r}")
    return int(padding_idx) % rows  # type: ignore[call-overload]


def embedding(ids: Array, weight: Array, padding_idx: int | None = None) -> Array:
    """The rows of ``weight`` whose indices are ``ids``.

    Args:
        ids: any shape, an integer dtype, each in [0, rows).
        weight: shape (rows, features).
        padding_idx: the row that gets no gradient, counted from the end if negative; every row gets one when None.

    Returns:
        shape (*ids.shape, features), the dtype of ``weight``.

    Raises:
        TypeError: ``ids`` is not an integer array, or ``weight`` not a floating one.
        ValueError: ``weight`` does not have two axes, or has no row ``padding_idx``.
        IndexError: an id is out of range; checked only on the host, a GPU reads another row.

    >>> import cukern as ck
    >>> ck.nn.embedding(ck.asarray([2, 0]), ck.asarray([[1.0], [2.0], [3.0]])).tolist()
    [[3.0], [1.0]]
    """
    ids, weight = require_arrays((ids, weight), "embedding", ("ids", "weight"))
    common_dtype("embedding", {"weight": weight})
    require_ids("embedding", "ids", ids)
    require_shape("embedding", "weight", weight, "rows", "features")
    require_ids("embedding", "ids", ids, weight.shape[0])
    rows = ops.take(weight, ids, axis=0)
    if padding_idx is not None:
        padding_idx = _require_row("embedding", padding_idx, weight.shape[0])
        indices = ops.expand_dims(ids.to_device(rows.device), axis=-1)
        rows = _held(rows, stop_gradient(rows), indices, padding_idx)
    return rows


def one_hot(ids: Array, classes: int, dtype: Any = None) -> Array:
    """Vectors with a 1 at the index given by each id, and 0 elsewhere; all zeros for an id out of range.

    Args:
        ids: any shape, an integer dtype.
        classes: the length of a vector.
        dtype: that of the result; the default floating dtype when None.

    Returns:
        shape (*ids.shape, classes).

    Raises:
        TypeError: ``ids`` is not an integer array, or ``classes`` is not an int.
        ValueError: ``classes`` is negative.

    >>> import cukern as ck
    >>> ck.nn.one_hot(ck.asarray([2, 0]), 3).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    ids = require_array(ids, "one_hot", "ids")
    require_ids("one_hot", "ids", ids)
    require_sizes("one_hot", classes=classes)
    if classes > np.iinfo(ids.dtype).max:
        ids = ops.astype(ids, dtypes.int64)
    indices = arange(classes, dtype=ids.dtype, device=ids.device)
    result = dtypes.as_dtype(float if dtype is None else dtype)
    return ops.astype(ops.equal(ops.expand_dims(ids, axis=-1), indices), result)


class Embedding(Module):
    """:func:`embedding` with a table to be trained, drawn from a standard normal.

    Args:
        rows: how many ids there are.
        features: elements of a row.
        dtype: of the table; the default floating dtype when None.
        device: of the table; the current one when None.
        rng: what the table is drawn from, see :mod:`cukern.nn.init`.
        padding_idx: a row that starts as zeros and gets no gradient; none when None.
    """

    def __init__(
        self,
        rows: int,
        features: int,
        dtype: Any = None,
        device: Device | str | None = None,
        rng: init.Rng = None,
        padding_idx: int | None = None,
    ) -> None:
        require_sizes("Embedding", rows=rows, features=features)
        self.padding_idx = None if padding_idx is None else _require_row("Embedding", padding_idx, rows)
        self.weight = Parameter(init.normal((rows, features), 0.0, 1.0, dtype, device, rng))
        if self.padding_idx is not None:
            self.weight[self.padding_idx] = 0.0

    def forward(self, ids: Array) -> Array:
        """The rows (*ids.shape, features)."""
        return embedding(ids, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        """The row that gets no gradient."""
        return "" if self.padding_idx is None else f"padding_idx={self.padding_idx}"
