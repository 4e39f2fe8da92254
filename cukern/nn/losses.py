"""The kernels of cross-entropy: the mean loss, the two terms of each row's loss, and their derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import Any, NamedTuple

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..array.batched import level_of, levels
from ..array.creation import zeros
from ..array.layout import Layout, fresh_layout
from ..array.mapping import leading, mapped
from ..autodiff import tape
from ..cache import Cache
from ..device import Device
from ..device.interface import Prepared
from ..elementwise.fuse import fuse
from ..kernel import Kernel
from ..kernel.plan import Plan, on, serial
from ..kernel.sizes import divide_up, index_type, power_of_two
from ..reduction.rows import normalizers
from .fused import fused_vjp

_forward = Kernel("nn/cross_entropy/forward.cu", name="cross_entropy")
_mean = Kernel("nn/cross_entropy/mean.cu", name="cross_entropy_mean")
_backward = Kernel("nn/cross_entropy/backward.cu", name="cross_entropy_backward")


class Shape(NamedTuple):
    """How threads of a GPU share the logits.

    To hide its memory's latency, an H200 needs about 32 KB in flight per multiprocessor: a thousand threads, as many
    as the registers allow, with 32 bytes each. Short rows need more, because their threads start to read less often.

    Attributes:
        flight: for each element size in bytes, the packs of a row that a thread reads before it computes. They are
            kept in registers until the largest element is known, so they have at most 32 elements.
        turns: the fewest times that a thread reads so, if a warp does not suffice for a row: the exchange between
            the threads of a row takes as long as the exponentials of 16 elements.
        threads: the most threads per row.
        unroll: the packs that a thread of the gradient reads before it computes.
        lanes: the most threads that share a row of the gradient; at most ``block``.
        block: threads per block of the gradient.
    """

    flight: Mapping[int, int] = MappingProxyType({2: 4, 4: 8, 8: 8})
    turns: int = 2
    threads: int = 256
    unroll: int = 4
    lanes: int = 256
    block: int = 256


SHAPE = Shape()
#: The fewest threads per block.
_LEAST_BLOCK = 128
#: Threads of the block that adds up partial sums.
_MEAN_BLOCK = 1024
_MOST_BLOCKS = 65535
#: The most partial sums of losses; one block adds them up.
_SLOTS = 32768
#: The most rows on which kernels run to be compiled ahead of need.
_REHEARSED = 4096
#: Columns from which each row is split among blocks, in more launches, if rows are fewer than ``_FEW``.
_LONG = 1 << 15
#: Rows below which multiprocessors would be idle.
_FEW = 264


def mean_loss(logits: Array, targets: Array) -> Array:
    """The mean over all rows of ``-log(softmax(logits)[target])``, for checked arrays that are not empty."""
    if levels and level_of((logits, targets)) is not None:
        terms = row_terms(logits, targets)
        return ops.astype(ops.mean(ops.subtract(terms.rest, terms.chosen)), logits.dtype, copy=False)
    recording = tape.recording((logits,))
    if recording:
        _expect_backward(logits, targets, False)
    with tape.stop_recording():
        peak, rest, loss = _loss(logits.contiguous(), targets.contiguous())
    if recording:
        tape.record("cross_entropy", (logits,), (loss,), _pull, (logits, targets, peak, rest))
    return loss


class RowTerms(NamedTuple):
    """The terms of each row's loss, ``rest - chosen``, in the accumulator's dtype.

    They are apart as the logarithm of all exponentials, ``peak + rest``, is rounded to the digits of large logits.

    Attributes:
        peak: the largest logit, a constant to tapes.
        rest: the logarithm of the sum of exponentials of all logits less ``peak``.
        chosen: the logit at the row's target, less ``peak``.
    """

    peak: Array
    rest: Array
    chosen: Array


@mapped(leading)
def row_terms(logits: Array, targets: Array) -> RowTerms:
    """The terms of each row's loss. One kernel computes their derivative. The arrays are checked and not empty."""
    recording = tape.recording((logits,))
    if recording:
        _expect_backward(logits, targets, True)
    with tape.stop_recording():
        terms = composed_terms(logits, targets)
    if recording:
        saved = (logits, targets, terms.peak, terms.rest)
        tape.record("cross_entropy", (logits,), (terms.rest, terms.chosen), _pull_rows, saved)
    return terms


def picked(table: Array, targets: Array) -> Array:
    """The element of each row at the row's target."""
    indices = ops.expand_dims(targets, axis=-1)
    return ops.squeeze(ops.take_along_axis(table, indices, axis=-1), -1)


def _loss(logits: Array, targets: Array) -> tuple[Array, Array, Array]:
    """``peak`` and ``rest`` of :class:`RowTerms`, and the loss; the arrays are contiguous."""
    key = (logits._layout or logits._planned(), targets._layout or targets._planned())
    with on(logits.device):
        plan = _forwards.get(key)
        if plan is None and not is_cut(key[0]):
            plan = _forwards.keep(key, _make_forward(*key))
        if plan is not None:
            return plan.run(logits, targets)
    _expect_rest(logits.device, logits.dtype, targets.dtype, min(power_of_two(targets.size), _REHEARSED))
    peak, rest = normalizers(logits, -1)
    chosen = ops.take_along_axis(logits, ops.expand_dims(targets, axis=-1), axis=-1)
    return peak, rest, ops.astype(_mean_of_differences(peak, rest, chosen), logits.dtype, copy=False)


@cache
def _expect_rest(device: Device, elem: dtypes.DType, target: dtypes.DType, rows: int) -> None:
    """Compile the kernels that follow the logsumexp of a loss ahead of need, by running them on rows of one element."""

    def rehearse() -> None:
        logits, targets = zeros((rows, 1), elem, device), zeros((rows, 1), target, device)
        chosen = ops.take_along_axis(logits, targets, axis=-1)
        numbers = zeros((rows, 1), dtypes.info(elem).acc, device)
        _mean_of_differences(numbers, numbers, chosen)

    device.backend.ahead(rehearse)


@fuse
def _mean_of_differences(peak: Array, rest: Array, chosen: Array) -> Array:
    return ops.mean(peak - chosen + rest)


def _composed(logits: Array, targets: Array) -> Array:
    """The loss as a composition, which has derivatives of any order."""
    return ops.negative(ops.mean(picked(ops.log_softmax(logits, axis=-1), targets)))


def composed_terms(logits: Array, targets: Array) -> RowTerms:
    """:func:`row_terms`, with derivatives of any order."""
    peak, rest = (ops.squeeze(one, -1) for one in normalizers(logits, -1))
    return RowTerms(peak, rest, ops.subtract(picked(logits, targets), peak))


def _pulled(reference: Callable[[Array, Array], Any]) -> Callable[..., tuple[Array | None, ...]]:
    """The derivative of what ``reference`` composes of logits and targets, by :func:`logits_d`."""

    def pull(cotangents: Sequence[Array], saved: Sequence[Array], needs: object) -> tuple[Array | None, ...]:
        logits, targets = saved[:2]

        def kernels() -> list[Array]:
            peak, rest, *given = (one.contiguous() for one in (*saved[2:], *cotangents))
            return [logits_d(logits.contiguous(), peak, rest, targets.contiguous(), *given)]

        return fused_vjp(kernels, lambda logits: reference(logits, targets), (logits,), cotangents, (True,))

    return pull


_pull = _pulled(_composed)
_pull_rows = _pulled(lambda logits, targets: composed_terms(logits, targets)[1:])


def logits_d(logits: Array, peak: Array, rest: Array, targets: Array, *cotangent: Array) -> Array:
    """The cotangent of the logits, computed in one pass over them.

    Args:
        cotangent: the cotangent of the mean; or those of each row's ``rest`` and ``chosen``.
    """
    by_rows = len(cotangent) == 2
    key = (logits._layout or logits._planned(), targets._layout or targets._planned(), by_rows)
    for one in (peak, rest, *cotangent):
        one._planned()
    return (_backwards.get(key) or _backward_for(*key))(logits, peak, rest, targets, *cotangent)


def _expect_backward(logits: Array, targets: Array, by_rows: bool) -> None:
    """Compile :func:`logits_d` ahead of need, while the loss is computed."""
    key = (logits._layout or logits._planned(), targets._layout or targets._planned(), by_rows)
    if key not in _backwards:
        logits.device.backend.ahead(partial(_backward_for, *key), plans_alone=True)


class _Forward(Plan):
    """The launches of a loss: of the rows, and of their mean.

    Its layouts are those of the rows' ``peak`` and ``rest``, of the parts of the loss, and of the loss.
    """

    __slots__ = ("mean",)

    def __init__(self, device: Device, layouts: Sequence[Layout], rows: Prepared, mean: Prepared) -> None:
        super().__init__(device, layouts, rows)
        self.mean = mean

    def run(self, logits: Array, targets: Array) -> tuple[Array, Array, Array]:
        """``peak`` and ``rest`` of each row, and the loss, on the current device."""
        assert self.launch is not None
        peak, rest, parts, loss = (Array._made(layout) for layout in self.layouts)
        self.launch(logits._operand, targets._operand, peak._operand, rest._operand, parts._operand)
        self.mean(parts._operand, loss._operand)
        return peak, rest, loss


_forwards: Cache[tuple[Layout, Layout], _Forward] = Cache()
_backwards: Cache[tuple[Layout, Layout, bool], Plan] = Cache()


def is_cut(logits: Layout) -> bool:
    """Whether other functions are faster: on the host, and for a few long rows."""
    columns = logits.shape[-1]
    return serial(logits.device) or (columns >= _LONG and logits.size // columns < _FEW)


def row_types(logits: Layout, targets: Layout) -> dict[str, Any]:
    # The last thread's index may pass the end by a grid's threads: 32 bits must hold that too.
    index = index_type(logits.size + _MOST_BLOCKS * SHAPE.block)
    return {"elem": logits.dtype, "target": dtypes.info(targets.dtype).cxx, "index": index}


def _width(logits: Layout) -> int:
    """Elements of an access."""
    return math.gcd(logits.shape[-1], 16 // logits.dtype.itemsize) if logits.aligned else 1


def row_shape(logits: Layout, least: int = 1, most: int | None = None) -> dict[str, int]:
    """The template variables that say how threads share rows: ``least`` to ``most`` a row, or as many as in `SHAPE`."""
    columns, width = logits.shape[-1], _width(logits)
    packs = columns // width
    chunks = min(SHAPE.flight[logits.dtype.itemsize], power_of_two(packs))
    threads = power_of_two(divide_up(packs, chunks))
    threads = max(32, threads // SHAPE.turns) if threads > 32 else threads
    threads = max(least, min(threads, most or SHAPE.threads))
    block = threads if threads > 32 else _LEAST_BLOCK
    exact = columns % (threads * chunks * width) == 0
    return {"block": block, "threads": threads, "chunks": chunks, "width": width, "exact": exact}


def _make_forward(logits: Layout, targets: Layout) -> _Forward:
    device, columns, dtype = logits.device, logits.shape[-1], logits.dtype
    rows, acc = logits.size // columns, dtypes.info(dtype).acc
    slots = min(rows, _SLOTS)
    shape = row_shape(logits)
    block = shape["block"]
    of_rows = _forward.bind(device, **row_types(logits, targets), **shape).function
    of_mean = _mean.bind(device, elem=dtype, block=_MEAN_BLOCK).function
    grid = divide_up(slots, block // shape["threads"])
    return _Forward(
        device,
        (
            fresh_layout(device, acc, logits.shape[:-1]),
            fresh_layout(device, acc, logits.shape[:-1]),
            fresh_layout(device, acc, (slots,)),
            fresh_layout(device, dtype, ()),
        ),
        of_rows.prepare((grid, 1, 1), (block, 1, 1), 0, (rows, columns, slots)),
        of_mean.prepare((1, 1, 1), (_MEAN_BLOCK, 1, 1), 0, (slots, 1 / rows)),
    )


def _backward_for(logits: Layout, targets: Layout, by_rows: bool) -> Plan:
    """Make and remember a launch of the gradient."""
    return _backwards.keep((logits, targets, by_rows), _make_backward(logits, targets, by_rows))


def _make_backward(logits: Layout, targets: Layout, by_rows: bool) -> Plan:
    device, columns = logits.device, logits.shape[-1]
    rows, on_host = logits.size // columns, serial(device)
    block, width = (1, 1) if on_host else (SHAPE.block, _width(logits))
    lanes = min(power_of_two(divide_up(columns, width * SHAPE.unroll)), SHAPE.lanes, block)
    shape = {"block": block, "lanes": lanes, "width": width, "unroll": SHAPE.unroll, "by_rows": by_rows}
    function = _backward.bind(device, **row_types(logits, targets), **shape).function
    along = 1 if on_host else divide_up(columns, lanes * SHAPE.unroll * width)
    down = min(divide_up(rows, block // lanes), _MOST_BLOCKS)
    tail = (rows, columns) if by_rows else (rows, columns, 1 / rows)
    launch = function.prepare((along, down, 1), (block, 1, 1), 0, tail)
    return Plan(device, [fresh_layout(device, logits.dtype, logits.shape)], launch)
