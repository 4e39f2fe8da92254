"""Gradient clipping."""

from __future__ import annotations

from typing import Any

from .. import dtypes, pytree
from .. import namespace as ops
from ..array import Array


def clip_by_global_norm(gradients: Any, max_norm: float) -> tuple[Any, Array]:
    """Scale gradients so that the norm of all of them together is at most ``max_norm``.

    Nothing is copied to the host: the norm is computed and used on the gradients' device.

    Args:
        gradients: a pytree of arrays; None stands for no gradient.
        max_norm: the largest norm that is left as it is.

    Returns:
        The gradients, scaled, in the same structure, and their norm before that: 0-d, float32 or wider.

    Raises:
        ValueError: ``max_norm`` is not positive, or there is no gradient.
        TypeError: a gradient is no floating array.

    Source: Pascanu, Mikolov and Bengio, 2013, algorithm 1.

    >>> import cukern as ck
    >>> clipped, norm = ck.optim.clip_by_global_norm([ck.asarray([3.0, 4.0])], max_norm=1.0)
    >>> round(norm.item(), 4), [round(x, 4) for x in clipped[0].tolist()]
    (5.0, [0.6, 0.8])
    """
    if not max_norm > 0:
        raise ValueError(f"max_norm: expected a positive number, got {max_norm!r}")
    arrays = [leaf.value for leaf in pytree.leaves(gradients)]
    if not arrays:
        raise ValueError("gradients: expected at least one array, got none")
    for array in arrays:
        if dtypes.info(array.dtype).kind != "f":
            raise TypeError(f"gradients: expected floating arrays, got one of {array.dtype}")
    total = ops.sum(ops.square(_wide(arrays[0])))
    for array in arrays[1:]:
        total = ops.add(total, ops.sum(ops.square(_wide(array))))
    norm = ops.sqrt(total)
    # In this order neither a norm of 0 nor an infinite max_norm makes a NaN.
    scale = ops.divide(1.0, ops.maximum(ops.divide(norm, max_norm), 1.0))
    scaled = [ops.astype(ops.multiply(_wide(array), scale), array.dtype, copy=False) for array in arrays]
    return pytree.replace(gradients, scaled), norm


def _wide(array: Array) -> Array:
    """The array in its accumulator dtype, where squares do not overflow."""
    return ops.astype(array, dtypes.info(array.dtype).acc, copy=False)
