"""What a model is trained to make small."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from .. import dtypes, tape
from .. import namespace as ops
from ..array import Array
from ..device import Device
from ..device.base import Prepared
from ..fuse import fuse
from ..kernel import Kernel
from ..layout import Layout, fresh_layout
from ..ops.axes import require_arrays
from ..ops.launch import divide_up, on, power_of_two, remember
from ..ops.reduce import logsumexp
from .fused import common_dtype, fused_vjp, index_type, require_ids

_forward = Kernel("nn/cross_entropy.cu", name="cross_entropy")
_mean = Kernel("nn/cross_entropy_mean.cu", name="cross_entropy_mean")
_backward = Kernel("nn/cross_entropy_backward.cu", name="cross_entropy_backward")


class Shape(NamedTuple):
    """How threads of a GPU share the logits.

    An H200 needs some 32 KB under way in each multiprocessor: a thousand threads, as many as registers leave,
    with 32 bytes each; more where rows are short and threads seldom start to read.

    Attributes:
        flight: packs that a thread reads of a row before it computes, by the bytes of an element: 32 elements
            at most, as they are kept until the largest is known.
        turns: how often a thread does so at least where a row is more than a warp's: what the threads of a
            row tell one another takes as long as the exponentials of 16 elements.
        threads: threads of a row at most.
        unroll: packs that a thread of the gradient reads before it computes.
        lanes: threads at most that share a row of the gradient, in a block of as many or more.
        block: threads of a block of the gradient.
    """

    flight: Mapping[int, int] = MappingProxyType({2: 4, 4: 8, 8: 8})
    turns: int = 2
    threads: int = 256
    unroll: int = 4
    lanes: int = 256
    block: int = 256


SHAPE = Shape()
_LEAST_BLOCK, _MEAN_BLOCK = 128, 1024
_MOST_BLOCKS = 65535
#: Sums of losses at most, which one block adds up.
_SLOTS = 32768
#: Columns from which on rows fewer than blocks that run at a time are cut up, which takes more launches.
_LONG, _FEW = 1 << 15, 264


def cross_entropy(logits: Array, targets: Array) -> Array:
    """The mean over all rows of ``-log(softmax(logits)[target])``, in nats.

    Args:
        logits: shape (..., classes), a floating dtype.
        targets: the shape of ``logits`` without its last axis, an integer dtype, each in [0, classes); fetched from
            another device.

    Returns:
        a 0-d array of the dtype of ``logits``.

    Raises:
        TypeError: ``logits`` is not floating, or ``targets`` not integer.
        ValueError: the shapes do not fit.
        IndexError: a target is out of range (on the host; a GPU takes some class in its place).

    >>> import cukern as ck
    >>> round(ck.nn.cross_entropy(ck.zeros((3, 2)), ck.asarray([0, 1, 1])).item(), 4)
    0.6931
    """
    logits, targets = require_arrays((logits, targets), "cross_entropy", ("logits", "targets"))
    common_dtype("cross_entropy", {"logits": logits})
    require_ids("cross_entropy", "targets", targets)
    if not logits.ndim or targets.shape != logits.shape[:-1]:
        raise ValueError(
            f"cross_entropy: targets: expected shape {logits.shape[:-1]} for logits {logits.shape}, "
            f"got {targets.shape}"
        )
    require_ids("cross_entropy", "targets", targets, logits.shape[-1])
    targets = targets.to_device(logits.device)
    if not logits.size:
        return _composed(logits, targets)
    with tape.stop_recording():
        total, loss = _loss(logits.contiguous(), targets.contiguous())
    if tape.recording((logits,)):
        tape.record("cross_entropy", (logits,), (loss,), _pull, (logits, targets, total))
    return loss


def _loss(logits: Array, targets: Array) -> tuple[Array, Array]:
    """The logarithm of the sum of each row's exponentials, and the loss, of arrays in C order."""
    key = (logits._layout or logits._planned(), targets._layout or targets._planned())
    with on(logits.device):
        plan = _forwards.get(key)
        if plan is None and not _is_cut(key[0]):
            plan = remember(_forwards, key, _make_forward(*key))
        if plan is not None:
            total, parts, loss = (Array._made(layout) for layout in plan.layouts)
            plan.rows(logits._operand, targets._operand, total._operand, parts._operand)
            plan.mean(parts._operand, loss._operand)
            return total, loss
    total = logsumexp._apply(logits, -1, True, dtypes.info(logits.dtype).acc)
    chosen = ops.take_along_axis(logits, ops.expand_dims(targets, axis=-1), axis=-1)
    return total, ops.astype(_mean_of_differences(total, chosen), logits.dtype, copy=False)


@fuse
def _mean_of_differences(total: Array, chosen: Array) -> Array:
    return ops.mean(ops.subtract(total, chosen))


def _composed(logits: Array, targets: Array) -> Array:
    """The loss in functions that have derivatives of any order."""
    chosen = ops.take_along_axis(ops.log_softmax(logits, axis=-1), ops.expand_dims(targets, axis=-1), axis=-1)
    return ops.negative(ops.mean(chosen))


def _pull(cotangents: Sequence[Array], saved: Sequence[Array], needs: object) -> tuple[Array | None, ...]:
    logits, targets, total = saved
    return fused_vjp(
        lambda: [_logits_d(logits.contiguous(), total, targets.contiguous(), cotangents[0])],
        lambda logits: _composed(logits, targets),
        (logits,),
        cotangents,
        (True,),
    )


def _logits_d(logits: Array, total: Array, targets: Array, given: Array) -> Array:
    """The cotangent of the logits: one read and one write of them."""
    key = (logits._layout or logits._planned(), targets._layout or targets._planned())
    given._planned()
    with on(logits.device):
        plan = _backwards.get(key)
        if plan is None:
            plan = remember(_backwards, key, _make_backward(*key))
        launch, layout = plan
        made = Array._made(layout)
        launch(*[one._operand for one in (logits, total, targets, given, made)])
    return made


class _Forward(NamedTuple):
    """The launches of a loss: of the rows, and of their mean.

    Attributes:
        layouts: of the logarithms, of the parts of the loss, and of the loss.
    """

    rows: Prepared
    mean: Prepared
    layouts: tuple[Layout, Layout, Layout]


_forwards: dict[tuple[Layout, Layout], _Forward] = {}
_backwards: dict[tuple[Layout, Layout], tuple[Prepared, Layout]] = {}


def _on_host(device: Device) -> bool:
    return device.kind == "host"


def _is_cut(logits: Layout) -> bool:
    """Whether other functions are faster: on the host, and for a few long rows."""
    columns = logits.shape[-1]
    return _on_host(logits.device) or (columns >= _LONG and logits.size // columns < _FEW)


def _types(logits: Layout, targets: Layout) -> dict[str, Any]:
    # Of 32 bits if there is room for the last turn of the most threads, too.
    index = index_type(logits.size + _MOST_BLOCKS * SHAPE.block)
    return {"elem": logits.dtype, "target": dtypes.info(targets.dtype).cxx, "index": index}


def _width(logits: Layout) -> int:
    """Elements of an access."""
    return math.gcd(logits.shape[-1], 16 // logits.dtype.itemsize) if logits.aligned else 1


def _make_forward(logits: Layout, targets: Layout) -> _Forward:
    device, columns, dtype = logits.device, logits.shape[-1], logits.dtype
    rows, width, acc = logits.size // columns, _width(logits), dtypes.info(dtype).acc
    slots = min(rows, _SLOTS)
    packs = columns // width
    chunks = min(SHAPE.flight[dtype.itemsize], power_of_two(packs))
    threads = power_of_two(divide_up(packs, chunks))
    threads = min(max(32, threads // SHAPE.turns) if threads > 32 else threads, SHAPE.threads)
    block = threads if threads > 32 else _LEAST_BLOCK
    shape = {"block": block, "threads": threads, "chunks": chunks, "width": width}
    exact = columns % (threads * chunks * width) == 0
    of_rows = _forward.bind(device, exact=exact, **_types(logits, targets), **shape).function
    of_mean = _mean.bind(device, elem=dtype, block=_MEAN_BLOCK).function
    grid = divide_up(slots, block // threads)
    return _Forward(
        of_rows.prepare((grid, 1, 1), (block, 1, 1), 0, (rows, columns, slots)),
        of_mean.prepare((1, 1, 1), (_MEAN_BLOCK, 1, 1), 0, (slots, 1 / rows)),
        (
            fresh_layout(device, acc, logits.shape[:-1]),
            fresh_layout(device, acc, (slots,)),
            fresh_layout(device, dtype, ()),
        ),
    )


def _make_backward(logits: Layout, targets: Layout) -> tuple[Prepared, Layout]:
    device, columns = logits.device, logits.shape[-1]
    rows, on_host = logits.size // columns, _on_host(device)
    block, width = (1, 1) if on_host else (SHAPE.block, _width(logits))
    lanes = min(power_of_two(divide_up(columns, width * SHAPE.unroll)), SHAPE.lanes, block)
    shape = {"block": block, "lanes": lanes, "width": width, "unroll": SHAPE.unroll}
    function = _backward.bind(device, **_types(logits, targets), **shape).function
    along = 1 if on_host else divide_up(columns, lanes * SHAPE.unroll * width)
    down = min(divide_up(rows, block // lanes), _MOST_BLOCKS)
    launch = function.prepare((along, down, 1), (block, 1, 1), 0, (rows, columns, 1 / rows))
    return launch, fresh_layout(device, logits.dtype, logits.shape)


def mse_loss(prediction: Array, target: Array) -> Array:
    """The mean of ``(prediction - target) ** 2``.

    Args:
        prediction, target: arrays of one shape, of floating dtypes.

    Returns:
        a 0-d array.

    Raises:
        TypeError: an argument is not a floating array.
        ValueError: the shapes differ, which broadcasting would hide.

    >>> import cukern as ck
    >>> ck.nn.mse_loss(ck.asarray([1.0, 2.0]), ck.asarray([1.0, 4.0])).item()
    2.0
    """
    prediction, target = require_arrays((prediction, target), "mse_loss", ("prediction", "target"))
    common_dtype("mse_loss", {"prediction": prediction, "target": target})
    if prediction.shape != target.shape:
        raise ValueError(
            f"mse_loss: target: expected shape {prediction.shape}, as prediction has, got {target.shape}"
        )
    return ops.mean(ops.square(ops.subtract(prediction, target)))


__all__ = ["cross_entropy", "mse_loss"]
