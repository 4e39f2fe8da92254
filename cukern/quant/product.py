"""Products of arrays with quantised weights, and rows of quantised tables."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..elementwise.operands import require_array
from ..errors import DeviceError
from ..function import Function
from ..index.take import integers, kernel_indices
from .array import QuantArray, require_weights
from .blocks import dequantized
from .families import QUANTISED
from .problem import Quantised

#: Problems by what they consist of, so that a call makes none that was made before.
_problem = lru_cache(maxsize=4096)(Quantised)


class _Linear(Function):
    _only_reads = True

    @staticmethod
    def forward(ctx: Any, x: Array, w: QuantArray, bias: Array | None, exact: bool) -> Array:
        ctx.w = w
        problem = _problem(x._layout or x._planned(), w._row, w.shape, bias is not None, exact)
        y: Array = QUANTISED(problem)(x, w.blocks, *(() if bias is None else (bias.contiguous(),)))
        return y

    @staticmethod
    def backward(ctx: Any, dy: Array) -> tuple[Array | None, ...]:
        x, _, bias, _ = ctx.needs_input_grad
        return transposed(dy, ctx.w) if x else None, None, ops.sum(dy, axis=0) if bias else None, None


class _Transposed(Function):
    _only_reads = True

    @staticmethod
    def forward(ctx: Any, dy: Array, w: QuantArray) -> Array:
        ctx.w = w
        problem = _problem(dy._layout or dy._planned(), w._row, w.shape, transposed=True)
        result: Array = QUANTISED(problem)(dy, w.blocks)
        return result

    @staticmethod
    def backward(ctx: Any, g: Array) -> tuple[Array, None]:
        result: Array = _Linear.apply(g, ctx.w, None, True)
        return result, None


def transposed(dy: Array, w: QuantArray) -> Array:
    """``dy @ W`` for cotangents (rows, outputs): the cotangents (rows, inputs) of the activations."""
    result: Array = _Transposed.apply(dy, w)
    return result


def linear(x: Any, w: QuantArray, bias: Any = None, *, exact: bool = False) -> Array:
    """``x @ W.T + bias`` for quantised weights, which are constants.

    Up to eight rows of ``x`` in float32, float16 or bfloat16 are rounded to 8 bits, 32 neighbours to multiples of
    1/127 of the largest of them, and multiplied as integers; W is read once, in its blocks. The rounding adds an
    error of about 0.5 % of the result's typical size. More rows, rows in float64 and those of an ``exact`` product
    are multiplied with the dequantised weights, rounded to the dtype of ``x``. The gradient of ``x`` is always that
    of the exact product.

    Args:
        x: shape (..., inputs), a floating dtype.
        w: shape (outputs, inputs).
        bias: shape (outputs,), a floating dtype; none is added when None.
        exact: whether ``x`` is not rounded to 8 bits.

    Returns:
        Shape (..., outputs), the dtype of ``x``.

    Raises:
        TypeError: ``x`` or ``bias`` is not a real floating array, or ``w`` no quantised one.
        ValueError: the shapes do not fit.
        DeviceError: they are on different devices.

    >>> import cukern as ck
    >>> w = ck.quant.quantize(ck.ones((3, 32)), "Q8_0")
    >>> ck.round(ck.quant.linear(ck.ones((2, 32)), w), 1).tolist()
    [[32.0, 32.0, 32.0], [32.0, 32.0, 32.0]]
    """
    w = require_weights(w, "linear")
    x = _require_floats(x, "x")
    outputs, inputs = w.shape
    if not x.ndim or x.shape[-1] != inputs:
        raise ValueError(f"linear: x: expected shape (..., {inputs}) for w {w.shape}, got {x.shape}")
    _require_device("linear", "x", x, w)
    if bias is not None:
        bias = _require_floats(bias, "bias")
        if bias.shape != (outputs,):
            raise ValueError(f"linear: bias: expected shape ({outputs},), got {bias.shape}")
        _require_device("linear", "bias", bias, w)
        bias = ops.astype(bias, x.dtype, copy=False)
    rows = x if x.ndim == 2 else ops.reshape(x, (math.prod(x.shape[:-1]), inputs))
    y: Array = _Linear.apply(rows, w, bias, bool(exact))
    return y if x.ndim == 2 else ops.reshape(y, (*x.shape[:-1], outputs))


def take(w: QuantArray, rows: Any, dtype: Any = None) -> Array:
    """The weights of some rows, of which only those are dequantised.

    Args:
        w: shape (count, n).
        rows: integers of any shape, such as the ids of tokens; negative ones count from the end.
        dtype: of the result, a floating dtype; float32 when None.

    Returns:
        Shape (*rows.shape, n).

    Raises:
        TypeError: ``w`` is no quantised array, or ``dtype`` not a real floating one.
        ValueError: ``w`` does not have two axes.
        IndexError: ``rows`` are not integers; one is out of range (on the host; on a GPU it is clipped).

    >>> import cukern as ck
    >>> w = ck.quant.quantize(ck.arange(64.0).reshape(2, 32), "Q8_0")
    >>> ck.quant.take(w, [1, 0]).shape
    (2, 32)
    """
    w = require_weights(w, "take")
    wanted = dtypes.float32 if dtype is None else dtypes.as_dtype(dtype)
    if wanted not in dtypes.FLOATS:
        raise TypeError(f"take: dtype: expected a real floating dtype, got {wanted}")
    if w._row.dtype is not None:
        result: Array = ops.astype(ops.take(w._numbers(), rows, axis=0), wanted)
        return result
    with w.device.activate():
        data = integers(rows, w.blocks, "take")
        indices = kernel_indices(data.reshape(-1), w.shape[0], w.blocks, "take")
        return dequantized(w.blocks, w._row, (*data.shape, w.shape[1]), wanted, indices)


def _require_floats(x: Any, argument: str) -> Array:
    given = require_array(x, "linear", argument)
    if given.dtype not in dtypes.FLOATS:
        raise TypeError(f"linear: {argument}: expected a real floating array, got {given.dtype}")
    return given


def _require_device(name: str, argument: str, x: Array, w: QuantArray) -> None:
    if x.device is not w.device:
        raise DeviceError(f"{name}: {argument}: expected an array on {w.device} beside w, got {x.device}")
