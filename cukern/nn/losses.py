"""What a model is trained to make small."""

from __future__ import annotations

from .. import namespace as ops
from ..array import Array
from .fused import common_dtype, require_ids


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
    chosen = ops.take_along_axis(ops.log_softmax(logits, axis=-1), ops.expand_dims(targets, axis=-1), axis=-1)
    return ops.negative(ops.mean(chosen))


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
