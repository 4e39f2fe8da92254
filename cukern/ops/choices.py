"""Values by conditions and by numbers: ``piecewise`` and ``choose``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from .. import dtypes
from ..array import Array
from ..array.creation import asarray, zeros_like
from ..elementwise.function import as_operands, astype
from ..elementwise.logic import logical_not
from ..elementwise.operands import first_array, public, require_array
from ..elementwise.table import clip, remainder, where
from ..elementwise.ufunc import one_out, written
from ..index.take import take_along_axis
from ..reduction.rows import any
from ..shape.joins import stack
from ..shape.views import broadcast_to, expand_dims, squeeze

__all__ = ["choose", "piecewise"]


def _conditions(condlist: Any, x: Array) -> list[Array]:
    """The conditions as bool arrays beside ``x``; one condition may stand without a list."""
    if isinstance(condlist, (list, tuple)):
        listed = not x.ndim or isinstance(condlist[0], (list, Array, np.ndarray))
    else:
        listed = getattr(condlist, "ndim", 0) > min(x.ndim, 1)
    given = list(condlist) if listed else [condlist]
    return [astype(asarray(one, device=x.device), dtypes.bool_, copy=False) for one in given]


@public
def piecewise(
    x: Any, condlist: Any, funclist: Sequence[Any | Callable[..., Any]], *args: Any, **options: Any
) -> Array:
    """Evaluate a function that is defined by cases; differentiable with respect to ``x`` where the cases are.

    Args:
        x: any array.
        condlist: bool arrays that broadcast to the shape of ``x``. Where several hold, the last one counts.
        funclist: for each condition a number, or a function of the elements for which it holds, a vector; one more is
            for the elements for which none holds, 0 without it. Functions wait for the device, to count the elements.
        args: further arguments of the functions.
        options: keywords of the functions.

    Returns:
        An array of the shape and the dtype of ``x``.

    Raises:
        ValueError: the number of functions is neither that of the conditions nor one more.

    >>> import cukern as ck
    >>> x = ck.asarray([-2.0, 3.0])
    >>> ck.piecewise(x, [x < 0, x >= 0], [lambda x: -x, 10.0]).tolist()
    [2.0, 10.0]
    """
    x = require_array(x, "piecewise")
    conditions, cases = _conditions(condlist, x), list(funclist)
    if len(cases) == len(conditions) + 1:
        none = logical_not(any(stack([broadcast_to(condition, x.shape) for condition in conditions]), 0))
        conditions.append(none)
    if len(cases) != len(conditions):
        raise ValueError(
            f"piecewise: funclist: expected {len(conditions)} or {len(conditions) + 1} functions, got {len(cases)}"
        )
    result = zeros_like(x)
    for condition, case in zip(conditions, cases, strict=True):
        holds = broadcast_to(condition, x.shape)
        if not callable(case):
            value = astype(asarray(case, device=x.device), x.dtype, copy=False)
            result = where(holds, value, result)
        elif (chosen := x[holds]).size:
            values = astype(asarray(case(chosen, *args, **options), device=x.device), x.dtype, copy=False)
            result = result.at[holds].set(values)
    return result


@public
def choose(
    a: Any, choices: Any, out: Array | None = None, mode: Literal["raise", "wrap", "clip"] = "raise"
) -> Array:
    """For each element, take it from the array of ``choices`` whose number ``a`` has there; differentiable.

    Args:
        a: integers from 0 to the number of choices less 1.
        choices: arrays that broadcast with each other and with ``a``, or an array of these along its first axis.
        out: the array to write the result to.
        mode: what numbers out of range do: ``"raise"`` an error, on a GPU unspecified; ``"wrap"`` count modulo the
            number of choices; ``"clip"`` count as the nearest one.

    Raises:
        TypeError: ``a`` are not integers.
        ValueError: on the host, a number is out of range; there is no choice, or no such mode.

    >>> import cukern as ck
    >>> ck.choose(ck.asarray([1, 0]), [[1, 2], [3, 4]]).tolist()
    [3, 2]
    """
    a = require_array(
        a, "choose", "a", first_array(choices if isinstance(choices, (list, tuple)) else [choices])
    )
    if dtypes.info(a.dtype).kind not in "iub":
        raise TypeError(f"choose: a: expected integers, got {a.dtype}")
    # Python numbers take the dtype of the arrays beside them.
    given = list(as_operands("choose", choices)) if isinstance(choices, (list, tuple)) else list(choices)
    held = (
        dtypes.result_type(*(one.dtype if isinstance(one, Array) else one for one in given))
        if given
        else None
    )
    rows = [one if isinstance(one, Array) else asarray(one, held, a.device) for one in given]
    if not rows:
        raise ValueError("choose: choices: expected at least one")
    indices = astype(a, dtypes.int64, copy=False)
    if mode == "wrap":
        indices = remainder(indices, len(rows))
    elif mode == "clip":
        indices = clip(indices, 0, len(rows) - 1)
    elif mode != "raise":
        raise ValueError(f"choose: mode: expected 'raise', 'wrap' or 'clip', got {mode!r}")
    elif (
        a.device.addressable and a.size and not 0 <= indices.min().item() <= indices.max().item() < len(rows)
    ):
        raise ValueError(f"choose: a: expected numbers from 0 to {len(rows) - 1}")
    dtype = dtypes.result_type(*(row.dtype for row in rows))
    shape = np.broadcast_shapes(a.shape, *(row.shape for row in rows))
    whole = stack([broadcast_to(astype(row, dtype, copy=False), shape) for row in rows])
    result = squeeze(take_along_axis(whole, expand_dims(broadcast_to(indices, shape), 0), axis=0), 0)
    return written("choose", result, one_out("choose", out))
