"""Losses of classes and probabilities, with reductions, weights and derivatives of any order."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from .. import dtypes
from .. import namespace as ops
from ..array import Array
from ..array.creation import ones
from ..elementwise.fuse import fuse
from ..elementwise.operands import require_arrays
from ..elementwise.special import _binary_entropy
from ..elementwise.table import _weighted
from ..errors import require_choice
from ..reduction.rows import normalizers
from .fused import common_dtype, is_int, require_broadcast, require_ids, require_shape
from .losses import RowTerms, mean_loss, picked, row_terms
from .regression import REDUCTIONS, by_reduction, reduced, require_same_shape


def require_classes(name: str, logits: Array, targets: Array, ignore_index: Any) -> Array:
    """``targets`` on the device of ``logits``, checked to be classes or ``ignore_index``.

    Raises:
        TypeError: ``targets`` is not an integer array, or ``ignore_index`` not an int.
        ValueError: the shapes do not fit.
        IndexError: a target is out of range (on the host).
    """
    require_ids(name, "targets", targets)
    if not logits.ndim or targets.shape != logits.shape[:-1]:
        raise ValueError(
            f"{name}: targets: expected shape {logits.shape[:-1]}, that of {logits.shape} without its last axis "
            f"of classes, got {targets.shape}"
        )
    classes = logits.shape[-1]
    if ignore_index is None:
        require_ids(name, "targets", targets, classes)
        return targets.to_device(logits.device)
    if not is_int(ignore_index):
        raise TypeError(f"{name}: ignore_index: expected an int or None, got {ignore_index!r}")
    named = ops.astype(targets, dtypes.int64, copy=False)
    if classes and named.device.addressable:
        require_ids(name, "targets", ops.where(ops.equal(named, ignore_index), 0, named), classes)
    return named.to_device(logits.device)


def require_weight(name: str, logits: Array, weight: Array | None) -> None:
    """Raise unless ``weight`` is None or has a weight for each class.

    Raises:
        TypeError: it is not a floating array.
        ValueError: its shape is not (classes,), or it is on another device.
    """
    common_dtype(name, {"logits": logits}, {"weight": weight})
    require_shape(name, "weight", weight, *logits.shape[-1:], note=", one a class")


@fuse(static=("ignore_index",))
def _share(targets: Any, weights: Any, ignore_index: int | None) -> Any:
    """The weight of each row: that of its class, or 0 if it is ignored."""
    if ignore_index is None:
        return weights
    return ops.where(ops.equal(targets, ignore_index), 0, weights)


@fuse
def _of_share(share: Any, loss: Any) -> Any:
    # A row with weight 0 may have any loss, such as infinity.
    return ops.where(ops.equal(share, 0), 0, share * loss)


@fuse
def _smoothed(share: Any, chosen: Any, kept: Any, every: Any, smoothing: float) -> Any:
    ignored = ops.equal(kept, 0)
    return ops.where(ignored, 0, (1 - smoothing) * share * chosen + smoothing * every)


def _of_rows(rows: Array, share: Array | None, reduction: str, dtype: dtypes.DType) -> Array:
    """Reduce the losses of rows, which are already weighted; a mean divides by the sum of weights ``share``."""
    if reduction == "mean" and share is not None:
        loss = ops.divide(ops.sum(rows), ops.sum(share))
    else:
        loss = reduced(rows, reduction)
    return ops.astype(loss, dtype, copy=False)


def _rows_and_share(
    table: Array, targets: Array, weight: Array | None, ignore_index: int | None
) -> tuple[Array, Array | None]:
    """The targets as indices of ``table``, 0 for ignored ones, and the weight of each row, or None if all are 1."""
    acc = dtypes.info(table.dtype).acc
    indices = targets
    if ignore_index is not None:
        indices = ops.where(ops.equal(targets, ignore_index), 0, targets)
    if weight is None and ignore_index is None:
        return indices, None
    if weight is None:
        weights = ones((), acc, table.device)
    else:
        weights = ops.take(ops.astype(weight, acc, copy=False), ops.reshape(indices, (-1,)), axis=0)
        weights = ops.reshape(weights, targets.shape)
    return indices, _share(targets, weights, ignore_index)


def cross_entropy(
    logits: Array,
    targets: Array,
    weight: Array | None = None,
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Array:
    """The mean over all rows of ``-log(softmax(logits)[target])``, in nats.

    With integer targets and no options it is two kernels, and its gradient is one; options need further kernels, most
    of them of one number per row.

    Args:
        logits: shape (..., classes), a floating dtype.
        targets: a class for each row: the shape of ``logits`` without its last axis, an integer dtype, each in
            [0, classes); copied from another device if needed. Or the probability of each class: the shape of
            ``logits``, a floating dtype.
        weight: the factor of the loss of each class, shape (classes,); 1 when None.
        ignore_index: a target of any value whose rows have weight 0; none when None (PyTorch's default is -100).
        label_smoothing: in [0, 1]: this fraction of each target is spread evenly over all classes.
        reduction: ``"mean"``, ``"sum"``, or ``"none"`` for the loss of each row. The mean for integer targets is
            the sum divided by the sum of the rows' weights, which are 0 for ignored rows.

    Returns:
        An array of the dtype of ``logits``: 0-d, or for ``"none"`` of the shape of ``logits`` without its last axis.
        The mean of no rows, or of only ignored rows, is NaN, as in PyTorch.

    Raises:
        TypeError: ``logits`` or ``weight`` is not floating, or ``targets`` is neither integer nor floating.
        ValueError: the shapes do not fit, ``label_smoothing`` is out of range, there is no such reduction, or
            ``ignore_index`` is given with probabilities as targets.
        IndexError: a target is out of range (on the host; on a GPU it is replaced by some class).

    >>> import cukern as ck
    >>> round(ck.nn.cross_entropy(ck.zeros((3, 2)), ck.asarray([0, 1, 1])).item(), 4)
    0.6931
    >>> ck.nn.cross_entropy(ck.zeros((2, 1)), ck.asarray([0, -100]), ignore_index=-100, reduction="none").tolist()
    [0.0, 0.0]
    """
    name = "cross_entropy"
    logits, targets = require_arrays((logits, targets), name, ("logits", "targets"))
    common_dtype(name, {"logits": logits})
    plain = weight is None and ignore_index is None and not label_smoothing and reduction == "mean"
    if not plain:
        require_choice(f"{name}: reduction", reduction, REDUCTIONS)
        require_weight(name, logits, weight)
        if not (isinstance(label_smoothing, Real) and 0 <= label_smoothing <= 1):
            raise ValueError(f"{name}: label_smoothing: expected a number in [0, 1], got {label_smoothing!r}")
    if isinstance(targets, Array) and dtypes.info(targets.dtype).kind == "f":
        if ignore_index is not None:
            raise ValueError(f"{name}: ignore_index: names a class, and targets are probabilities")
        require_same_shape(name, {"logits": logits, "targets": targets})
        return probability_losses(logits, targets, weight, float(label_smoothing), reduction)
    targets = require_classes(name, logits, targets, ignore_index)
    if not (plain and logits.size):
        return class_losses(logits, targets, weight, ignore_index, float(label_smoothing), reduction)
    return mean_loss(logits, targets)


def nll_loss(
    log_probabilities: Array,
    targets: Array,
    weight: Array | None = None,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Array:
    """The negative log-likelihood: the mean over all rows of ``-log_probabilities[target]``.

    Args:
        log_probabilities: shape (..., classes), a floating dtype, as from :func:`cukern.log_softmax`.
        targets: the shape without the last axis, an integer dtype.
        weight: the weight of each class, shape (classes,); 1 when None.
        ignore_index: a target of any value whose rows have weight 0; none when None.
        reduction: ``"mean"``, the sum divided by the sum of the rows' weights, ``"sum"``, or ``"none"``.

    Returns:
        A 0-d array, or for ``"none"`` one of the shape of ``targets``. The mean of no rows, or of only ignored
        rows, is NaN, as in PyTorch.

    Raises:
        TypeError, ValueError, IndexError: as :func:`cross_entropy`.

    >>> import cukern as ck
    >>> ck.nn.nll_loss(ck.asarray([[-1.0, -2.0], [-3.0, -4.0]]), ck.asarray([0, 1]), reduction="none").tolist()
    [1.0, 4.0]
    """
    name = "nll_loss"
    require_choice(f"{name}: reduction", reduction, REDUCTIONS)
    log_probabilities, targets = require_arrays(
        (log_probabilities, targets), name, ("log_probabilities", "targets")
    )
    require_weight(name, log_probabilities, weight)
    targets = require_classes(name, log_probabilities, targets, ignore_index)
    acc = dtypes.info(log_probabilities.dtype).acc
    if not log_probabilities.size:
        return _of_nothing(log_probabilities, targets, reduction)
    indices, share = _rows_and_share(log_probabilities, targets, weight, ignore_index)
    rows = ops.negative(ops.astype(picked(log_probabilities, indices), acc, copy=False))
    if share is not None:
        rows = _of_share(share, rows)
    return _of_rows(rows, share, reduction, log_probabilities.dtype)


def _of_nothing(table: Array, targets: Array, reduction: str) -> Array:
    """The loss of no elements, which depends only on ``table``."""
    rows = ops.reshape(ops.sum(table, axis=-1), targets.shape)
    return reduced(rows, reduction)


def class_losses(
    logits: Array,
    targets: Array,
    weight: Array | None,
    ignore_index: int | None,
    label_smoothing: float,
    reduction: str,
) -> Array:
    """:func:`cross_entropy` of classes, composed of functions with derivatives of any order."""
    acc = dtypes.info(logits.dtype).acc
    if not logits.size:
        return _of_nothing(logits, targets, reduction)
    indices, share = _rows_and_share(logits, targets, weight, ignore_index)
    terms = row_terms(logits, indices)
    rows = ops.subtract(terms.rest, terms.chosen)
    if label_smoothing:
        every = _every_class(logits, terms, weight)
        one = ones((), acc, logits.device)
        kept = one if ignore_index is None else _share(targets, one, ignore_index)
        rows = _smoothed(one if share is None else share, rows, kept, every, label_smoothing)
    elif share is not None:
        rows = _of_share(share, rows)
    return _of_rows(rows, share, reduction, logits.dtype)


def _every_class(logits: Array, terms: RowTerms, weight: Array | None) -> Array:
    """The mean over the classes of their weighted losses."""
    peak, rest = (ops.expand_dims(one, axis=-1) for one in (terms.peak, terms.rest))
    return _mean_gap(logits, peak, rest, weight)


@fuse
def _mean_gap(logits: Any, peak: Any, rest: Any, weight: Any) -> Any:
    gap = peak - logits.astype(peak.dtype) + rest
    return ops.mean(gap if weight is None else gap * weight.astype(peak.dtype), axis=-1)


def probability_losses(
    logits: Array, targets: Array, weight: Array | None, label_smoothing: float, reduction: str
) -> Array:
    """:func:`cross_entropy` of a distribution over the classes for each row."""
    if not logits.size:
        return _of_nothing(
            ops.add(logits, targets), targets[..., 0] if logits.shape[-1] else targets, reduction
        )
    rows = _crossed(
        logits, *normalizers(logits, -1), targets, weight, smoothing=label_smoothing, classes=logits.shape[-1]
    )
    result: Array = reduced(rows, reduction)
    return ops.astype(result, logits.dtype, copy=False)


@fuse(static=("smoothing", "classes"))
def _crossed(
    logits: Any, peak: Any, rest: Any, shares: Any, weight: Any, smoothing: float, classes: int
) -> Any:
    dtype = peak.dtype
    logits, shares = logits.astype(dtype), shares.astype(dtype)
    if smoothing:
        shares = shares * (1 - smoothing) + smoothing / classes
    losses = _weighted(shares, peak - logits + rest)
    return ops.sum(losses if weight is None else losses * weight.astype(dtype), axis=-1)


@by_reduction
def _binary(probabilities: Any, targets: Any, weight: Any) -> Any:
    values = _binary_entropy(probabilities, targets)
    return values if weight is None else values * weight


@by_reduction
def _binary_with_logits(logits: Any, targets: Any, weight: Any, pos_weight: Any) -> Any:
    # Two terms of the same sign, without cancellation.
    positive = _weighted(targets, ops.softplus(-logits))
    if pos_weight is not None:
        positive = positive * pos_weight
    values = positive + _weighted(1 - targets, ops.softplus(logits))
    return values if weight is None else values * weight


def binary_cross_entropy(
    probabilities: Array, targets: Array, weight: Array | None = None, reduction: str = "mean"
) -> Array:
    """The mean of ``-(target * log(p) + (1 - target) * log(1 - p))``, each logarithm at least -100.

    Its derivative by ``p`` is ``(p - target) / max(p * (1 - p), 1e-12)``, as in PyTorch: finite for every ``p``.
    For logits, :func:`binary_cross_entropy_with_logits` is more accurate.

    Args:
        probabilities: in [0, 1], a floating dtype.
        targets: of the same shape, in [0, 1], any real dtype.
        weight: of each element, broadcast; 1 when None.
        reduction: ``"mean"`` or ``"sum"`` over all elements, or ``"none"``.

    Raises:
        TypeError: an argument is not a floating array.
        ValueError: the shapes do not fit, or there is no such reduction.

    >>> import cukern as ck
    >>> round(ck.nn.binary_cross_entropy(ck.asarray([0.5, 1.0]), ck.asarray([1.0, 1.0])).item(), 4)
    0.3466
    """
    name = "binary_cross_entropy"
    require_choice(f"{name}: reduction", reduction, REDUCTIONS)
    probabilities, targets = require_same_shape(name, {"probabilities": probabilities, "targets": targets})
    _require_broadcast(name, probabilities, weight=weight)
    return _binary[reduction](probabilities, targets, weight)


def binary_cross_entropy_with_logits(
    logits: Array,
    targets: Array,
    weight: Array | None = None,
    pos_weight: Array | None = None,
    reduction: str = "mean",
) -> Array:
    """:func:`binary_cross_entropy` of ``sigmoid(logits)``, accurate for logits of any size, infinite ones too.

    Args:
        logits: a floating dtype.
        targets: of the same shape, in [0, 1], any real dtype.
        weight: of each element, broadcast; 1 when None.
        pos_weight: the factor of the loss of the positive class, broadcast; 1 when None.
        reduction: ``"mean"`` or ``"sum"`` over all elements, or ``"none"``.

    Raises:
        TypeError: an argument is not a floating array.
        ValueError: the shapes do not fit, or there is no such reduction.

    >>> import cukern as ck
    >>> loss = ck.nn.binary_cross_entropy_with_logits
    >>> loss(ck.asarray([-10000.0, 10000.0]), ck.asarray([1.0, 1.0]), reduction="none").tolist()
    [10000.0, 0.0]
    """
    name = "binary_cross_entropy_with_logits"
    require_choice(f"{name}: reduction", reduction, REDUCTIONS)
    logits, targets = require_same_shape(name, {"logits": logits, "targets": targets})
    _require_broadcast(name, logits, weight=weight, pos_weight=pos_weight)
    return _binary_with_logits[reduction](logits, targets, weight, pos_weight)


def _require_broadcast(name: str, x: Array, **weights: Array | None) -> None:
    """Raise unless all weights broadcast to ``x``.

    Raises:
        TypeError: one is not a floating array.
        ValueError: one does not broadcast to the shape of ``x``, or is on another device.
    """
    common_dtype(name, {"x": x}, weights)
    for argument, one in weights.items():
        require_broadcast(name, argument, one, x.shape)


@by_reduction
def _divergence(log_probabilities: Any, targets: Any) -> Any:
    return ops.xlogy(targets, targets) - _weighted(targets, log_probabilities)


@by_reduction
def _divergence_of_logs(log_probabilities: Any, targets: Any) -> Any:
    # Of a target of 0 all is 0, and no infinity is in what is not taken.
    nothing = ops.equal(targets, -math.inf)
    wanted, model = (ops.where(nothing, 0, one) for one in (targets, log_probabilities))
    return ops.where(nothing, 0, ops.exp(wanted) * (wanted - model))


def kl_div(
    log_probabilities: Array, targets: Array, log_target: bool = False, reduction: str = "mean"
) -> Array:
    """The Kullback-Leibler divergence, element by element: ``target * (log(target) - log_probability)``.

    Args:
        log_probabilities: logarithms of the model's probabilities, a floating dtype.
        targets: probabilities of the same shape; an element of 0 gives 0, also where the model's is 0.
        log_target: whether ``targets`` are logarithms too.
        reduction: ``"batchmean"``, the sum divided by the size of the first axis, as in the definition of the
            divergence; ``"mean"``, over all elements; ``"sum"``; or ``"none"``.

    Raises:
        TypeError: an argument is not a floating array.
        ValueError: the shapes differ, there is no such reduction, or ``"batchmean"`` has no first axis.

    >>> import cukern as ck
    >>> p = ck.asarray([[0.5, 0.5]])
    >>> round(ck.nn.kl_div(ck.log(p), ck.asarray([[1.0, 0.0]]), reduction="batchmean").item(), 4)
    0.6931
    """
    name = "kl_div"
    require_choice(f"{name}: reduction", reduction, ("batchmean", *REDUCTIONS))
    log_probabilities, targets = require_same_shape(
        name, {"log_probabilities": log_probabilities, "targets": targets}
    )
    batch = reduction == "batchmean"
    if batch and not log_probabilities.ndim:
        raise ValueError("kl_div: reduction: 'batchmean' needs an axis of examples, got 0-d arrays")
    fused = (_divergence_of_logs if log_target else _divergence)["sum" if batch else reduction]
    loss: Array = fused(log_probabilities, targets)
    return ops.divide(loss, float(log_probabilities.shape[0])) if batch else loss
