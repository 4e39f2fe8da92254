"""The cross-entropy of a linear layer's logits, which are computed for a part of the rows at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..array.creation import ones
from ..array.layout import Layout, fresh_layout
from ..autodiff import tape
from ..elementwise.fuse import fuse
from ..elementwise.operands import require_array
from ..errors import require_choice, require_int
from ..kernel import Kernel
from ..kernel.plan import Plan, on
from ..kernel.sizes import divide_up
from ..linear.blas import product, readable
from . import losses
from .fused import fused_vjp, in_common_dtype, require_ids, require_shape
from .linear import linear

_replace = Kernel("nn/cross_entropy/replace.cu", name="cross_entropy_replace")
#: Bytes of logits that are computed at a time, by default.
_AT_A_TIME = 2**28
#: Rows of a part are a multiple of this, that of the tiles of products.
_ROWS = 128
#: The fewest threads per row.
_LEAST_BLOCK = 128
#: The most threads per row: no more than two rows a multiprocessor then stay in the L2 until they are read again.
_BLOCK = 1024


def linear_cross_entropy(
    x: Array,
    weight: Array,
    targets: Array,
    bias: Array | None = None,
    *,
    reduction: str = "mean",
    chunks: int | None = None,
) -> Array:
    """``cross_entropy(linear(x, weight, bias), targets)``, without all logits in memory at a time.

    The rows are taken in parts. Where a tape records, each part's logits become the loss's derivative by them at once,
    and are multiplied into the gradients, so that the backward has only to scale these. With many classes that takes
    less memory, by two arrays of the size of the logits, and no more time.

    Args:
        x: shape (..., inputs), a floating dtype.
        weight: shape (classes, inputs).
        targets: a class for each row, shape (...,), an integer dtype, each in [0, classes).
        bias: shape (classes,); none is added when None.
        reduction: ``"mean"`` or ``"sum"`` over the rows.
        chunks: into how many parts the rows are taken apart; when None, into as many as keep the logits of each below
            256 MiB.

    Returns:
        A 0-d array, float32 for half types. The mean of no rows is NaN.

    Raises:
        TypeError: ``x``, ``weight`` or ``bias`` is not floating, ``targets`` not an integer array, or ``chunks`` not an
            int.
        ValueError: the shapes do not fit, there is no such reduction, or ``chunks`` is less than 1.
        IndexError: a target is out of range (on the host; on a GPU it is replaced by some class).

    Source: Hsu et al., Liger Kernel: Efficient Triton Kernels for LLM Training, 2024 (arXiv 2410.10989).

    >>> import cukern as ck
    >>> x, weight = ck.asarray([[1.0, 0.0], [0.0, 2.0]]), ck.asarray([[1.0, 0.0], [0.0, 1.0]])
    >>> round(ck.nn.linear_cross_entropy(x, weight, ck.asarray([0, 1])).item(), 4)
    0.2201
    """
    x, weight, bias, targets = _checked(x, weight, bias, targets, reduction, chunks)
    mean, rows = reduction == "mean", targets.size
    if not rows or not weight.size:
        return _composed(x, weight, bias, targets, mean)
    if chunks is None:
        chunks = divide_up(rows * weight.shape[0] * x.dtype.itemsize, _AT_A_TIME)
    step = divide_up(rows, chunks)
    if step > _ROWS:
        step = divide_up(step, _ROWS) * _ROWS
    return _loss((x, weight, bias), targets, 1 / rows if mean else 1.0, step)


def _checked(
    x: Array, weight: Array, bias: Array | None, targets: Array, reduction: object, chunks: object
) -> tuple[Array, Array, Array | None, Array]:
    """The arrays in their common dtype, the rows of ``x`` and of ``targets`` along one axis.

    Raises:
        TypeError, ValueError, IndexError: as :func:`linear_cross_entropy`.
    """
    name = "linear_cross_entropy"
    x, weight, bias = in_common_dtype(name, {"x": x, "weight": weight}, {"bias": bias})
    require_choice(f"{name}: reduction", reduction, ("mean", "sum"))
    if chunks is not None:
        require_int(f"{name}: chunks", chunks, 1)
    if weight.ndim != 2 or not x.ndim or x.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"{name}: expected x of shape (..., inputs) and weight (classes, inputs), got {x.shape} and "
            f"{weight.shape}"
        )
    classes, inputs = weight.shape
    require_shape(name, "bias", bias, classes)
    targets = require_array(targets, name, "targets", x)
    require_ids(name, "targets", targets, classes)
    require_shape(
        name, "targets", targets, *x.shape[:-1], note=f", that of x {x.shape} without its last axis"
    )
    rows = math.prod(targets.shape)
    return ops.reshape(x, (rows, inputs)), weight, bias, ops.reshape(targets.to_device(x.device), (rows,))


def _composed(x: Array, weight: Array, bias: Array | None, targets: Array, mean: bool) -> Array:
    """The loss as a composition, which has derivatives of any order."""
    terms = losses.composed_terms(linear(x, weight, bias), targets)
    return (ops.mean if mean else ops.sum)(ops.subtract(terms.rest, terms.chosen))


def _loss(operands: Sequence[Array | None], targets: Array, share: float, step: int) -> Array:
    """The sum of the losses of all rows times ``share``, computed for ``step`` rows at a time."""
    present = [one for one in operands if one is not None]
    tracking = tape.tracked(present)
    needs = iter(tracking[0] if tracking is not None else ())
    wanted = [one is not None and next(needs, False) for one in operands]
    with tape.stop_recording():
        sums = _Sums(operands, wanted)
        parts = [sums.add(targets, start, start + step) for start in range(0, targets.size, step)]
        rows = parts[0] if len(parts) == 1 else ops.concat(parts)
        loss: Array = ops.sum(rows) * share

    def pull(cotangents: Sequence[Array], saved: Sequence[Any], needs: Sequence[bool]) -> list[Array | None]:
        primals, targets, unscaled = saved[:3], saved[3], saved[4:]
        still = iter(needs)
        gradients = fused_vjp(
            lambda: [
                None if one is None else _scaled(one, cotangents[0], share, primals[0].dtype)
                for one in unscaled
            ],
            lambda x, weight, bias: _composed(x, weight, bias, targets, False) * share,
            primals,
            cotangents,
            [primal is not None and next(still) for primal in primals],
        )
        return [one for one, primal in zip(gradients, primals, strict=True) if primal is not None]

    if tracking is not None:
        tape.record("linear_cross_entropy", present, (loss,), pull, (*operands, targets, *sums.of))
    return loss


@fuse(static=("dtype",))
def _scaled(gradient: Any, operand: Any, share: float, dtype: dtypes.DType) -> Any:
    return (gradient * (operand * share)).astype(dtype)


class _Sums:
    """The gradients of the sum of losses, added up part by part in the accumulator's dtype; None if not wanted.

    Attributes:
        of: by x, the weight and the bias.
    """

    def __init__(self, operands: Sequence[Array | None], wanted: Sequence[bool]) -> None:
        x, weight, self._bias = operands
        assert x is not None and weight is not None
        self._x, self._weight = readable(x), readable(weight)
        self._wanted, self._acc = wanted, dtypes.info(x.dtype).acc
        self.of: list[Array | None] = [None] * 3

    def add(self, targets: Array, start: int, end: int) -> Array:
        """Add those of some rows, and return the losses of these."""
        x, targets = self._x[start:end], targets[start:end]
        logits = linear(x, self._weight, self._bias)
        if not any(self._wanted):
            terms = losses.composed_terms(logits, targets)
            return ops.subtract(terms.rest, terms.chosen)
        rows, gaps = _losses_and_gaps(logits, targets.contiguous())
        with on(x.device):
            for i, like in enumerate((self._x, self._weight)):
                if self._wanted[i] and self.of[i] is None:
                    self.of[i] = Array._made(fresh_layout(x.device, self._acc, like.shape))
            if (of_x := self.of[0]) is not None:
                _multiply(gaps, self._weight, of_x[start:end])
            if (of_weight := self.of[1]) is not None:
                _multiply(gaps, x, of_weight, transposed=True, add=start > 0)
        if self._wanted[2]:
            bias_d = ops.sum(gaps, axis=0, dtype=self._acc)
            self.of[2] = bias_d if self.of[2] is None else self.of[2] + bias_d
        return rows


def _losses_and_gaps(logits: Array, targets: Array) -> tuple[Array, Array]:
    """The loss of each row, and its derivative by the logits, which they become on a GPU."""
    if losses.is_cut(logits._layout or logits._planned()):
        peak, rest, chosen = (one.contiguous() for one in losses.composed_terms(logits, targets))
        one = ones(rest.shape, rest.dtype, rest.device)
        return ops.subtract(rest, chosen), losses.logits_d(logits, peak, rest, targets, one, -one)
    plan = _plan(logits._planned(), targets._planned())
    assert plan.launch is not None
    with on(logits.device):
        rows = Array._made(plan.layouts[0])
        plan.launch(logits._operand, targets._operand, rows._operand)
    return rows, logits


@lru_cache(maxsize=8192)
def _plan(logits: Layout, targets: Layout) -> Plan:
    device, (rows, columns) = logits.device, logits.shape
    shape = losses.row_shape(logits, _LEAST_BLOCK, _BLOCK)
    function = _replace.bind(device, **losses.row_types(logits, targets), **shape).function
    launch = function.prepare((rows, 1, 1), (shape["block"], 1, 1), 0, (columns,))
    return Plan(device, [fresh_layout(device, dtypes.info(logits.dtype).acc, (rows,))], launch)


def _multiply(gaps: Array, other: Array, out: Array, transposed: bool = False, add: bool = False) -> None:
    """Write ``gaps @ other``, or the product of the transpose of ``gaps``, to ``out``, or add it."""
    layouts = gaps._planned(), other._planned(), out._planned()
    product(*layouts, (transposed, False), add)(gaps, other, out)
