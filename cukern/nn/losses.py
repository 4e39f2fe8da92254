"""What a model is trained to make small."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .. import dtypes, tape
from .. import namespace as ops
from ..array import Array
from ..device import Device
from ..device.base import Prepared
from ..fuse import fuse
from ..kernel import Kernel
from ..layout import Layout, fresh_layout
from ..ops.launch import divide_up, on, remember
from ..ops.reduce import logsumexp
from .fused import common_dtype, fused_vjp, index_type, require_ids

_backward = Kernel("nn/cross_entropy_backward.cu", name="cross_entropy_backward")
#: Threads of a block, and 16-byte packs that each of them has on the way.
BLOCK, UNROLL = 256, 2
_MOST_BLOCKS = 65535


def cross_entropy(logits: Array, targets: Array) -> Array:
    """The mean over all rows of ``-log(softmax(logits)[target])``, in nats.

    Args:
        logits: shape (..., classes), a floating dtype.
        targets: the shape of ``logits`` without its last axis, an integer dtype, each in [0, classes).

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
    common_dtype("cross_entropy", {"logits": logits})
    require_ids("cross_entropy", "targets", targets)
    if not logits.ndim or targets.shape != logits.shape[:-1]:
        raise ValueError(
            f"cross_entropy: targets: expected shape {logits.shape[:-1]} for logits {logits.shape}, "
            f"got {targets.shape}"
        )
    require_ids("cross_entropy", "targets", targets, logits.shape[-1])
    if not logits.size:
        return _composed(logits, targets)
    with tape.stop_recording():
        logits_ = logits.contiguous()
        total = logsumexp._apply(logits_, -1, True, dtypes.info(logits.dtype).acc)
        chosen = ops.take_along_axis(logits_, ops.expand_dims(targets, axis=-1), axis=-1)
        loss = ops.astype(_mean_of_differences(total, chosen), logits.dtype, copy=False)
    if tape.recording((logits,)):
        tape.record("cross_entropy", (logits,), (loss,), _pull, (logits, targets, total))
    return loss


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


_launches: dict[tuple[Layout, Layout], Prepared] = {}


def _logits_d(logits: Array, total: Array, targets: Array, given: Array) -> Array:
    """The cotangent of the logits: one read and one write of them."""
    key = (logits._planned(), targets._planned())
    given._planned()
    with on(logits.device):
        launch = _launches.get(key)
        if launch is None:
            launch = remember(_launches, key, _prepared(*key))
        made = Array._made(fresh_layout(logits.device, logits.dtype, logits.shape))
        launch(*[one._operand for one in (logits, total, targets, given, made)])
    return made


def _on_host(device: Device) -> bool:
    return device.kind == "host"


def _prepared(logits: Layout, targets: Layout) -> Prepared:
    device, on_host = logits.device, _on_host(logits.device)
    columns = logits.shape[-1]
    rows = math.prod(logits.shape[:-1])
    width = 16 // logits.dtype.itemsize if logits.aligned and not on_host else 1
    width = width if columns % width == 0 else 1
    block = 1 if on_host else BLOCK
    bound = _backward.bind(
        device,
        elem=logits.dtype,
        target=dtypes.info(targets.dtype).cxx,
        index=index_type(logits.size),
        block=block,
        width=width,
        unroll=UNROLL,
    )
    grid = (1 if on_host else divide_up(columns, block * UNROLL * width), min(rows, _MOST_BLOCKS), 1)
    return bound.function.prepare(grid, (block, 1, 1), 0, (rows, columns, 1 / rows))


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
    common_dtype("mse_loss", {"prediction": prediction, "target": target})
    if prediction.shape != target.shape:
        raise ValueError(
            f"mse_loss: target: expected shape {prediction.shape}, as prediction has, got {target.shape}"
        )
    return ops.mean(ops.square(ops.subtract(prediction, target)))


__all__ = ["cross_entropy", "mse_loss"]
