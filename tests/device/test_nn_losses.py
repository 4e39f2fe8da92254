"""Losses against NumPy's formulas: every option, infinities, nothing to count, refusals, derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from nn_support import close, random

import cukern as ck
from cukern import nn
from cukern.testing import gradcheck

A, B = (np.random.default_rng(seed).normal(size=(4, 3)) for seed in (0, 1))
SHARES = np.array([[0.2, 0.5, 0.3], [1, 0, 0], [0, 0.5, 0.5], [0.6, 0.4, 0]])
WEIGHT = np.array([0.5, 2.0, 1.5])
TARGETS = np.array([2, 0, -1, 1])


def log_softmax(x: np.ndarray) -> np.ndarray:
    shifted = x - x.max(-1, keepdims=True)
    result: np.ndarray = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return result


def put_together(values: np.ndarray, reduction: str, count: Any = None) -> Any:
    if reduction == "none":
        return values
    with np.errstate(all="ignore"):
        return (
            values.sum() if reduction == "sum" else values.sum() / (values.size if count is None else count)
        )


def huber(x: np.ndarray, y: np.ndarray, delta: float) -> np.ndarray:
    error = np.abs(x - y)
    return np.where(error < delta, error**2 / 2, delta * (error - delta / 2))


#: The loss, its formula, and the arguments.
ELEMENTWISE: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "mse": (nn.mse_loss, lambda x, y: (x - y) ** 2, (A, B)),
    "l1": (nn.l1_loss, lambda x, y: np.abs(x - y), (A, B)),
    "huber": (
        lambda x, y, **o: nn.huber_loss(x, y, delta=0.7, **o),
        lambda x, y: huber(x, y, 0.7),
        (A, B),
    ),
    "smooth l1": (
        lambda x, y, **o: nn.smooth_l1_loss(x, y, beta=0.7, **o),
        lambda x, y: huber(x, y, 0.7) / 0.7,
        (A, B),
    ),
    "bce": (
        lambda x, y, w, **o: nn.binary_cross_entropy(ck.sigmoid(x), y, w, **o),
        lambda x, y, w: w * (y * np.log1p(np.exp(-x)) + (1 - y) * np.log1p(np.exp(x))),
        (A, SHARES, WEIGHT),
    ),
    "bce with logits": (
        lambda x, y, w, p, **o: nn.binary_cross_entropy_with_logits(x, y, w, p, **o),
        lambda x, y, w, p: w * (p * y * np.log1p(np.exp(-x)) + (1 - y) * np.log1p(np.exp(x))),
        (A, SHARES, WEIGHT, WEIGHT[::-1].copy()),
    ),
    "kl": (nn.kl_div, lambda x, y: y * np.log(np.where(y > 0, y, 1)) - y * x, (A, SHARES)),
    "kl of logs": (
        lambda x, y, **o: nn.kl_div(x, y, log_target=True, **o),
        lambda x, y: np.exp(y) * (y - x),
        (A, B),
    ),
}


@pytest.mark.parametrize("case", ELEMENTWISE.values(), ids=ELEMENTWISE)
def test_elementwise_losses(
    device: ck.Device, case: tuple[Callable[..., Any], Callable[..., Any], tuple[np.ndarray, ...]]
) -> None:
    loss, formula, arrays = case
    for dtype in ("float32", "float64"):
        given = [ck.asarray(one, dtype) for one in arrays]
        for reduction in ("mean", "sum", "none"):
            made = loss(*given, reduction=reduction)
            assert made.dtype == dtype
            close(made, put_together(formula(*arrays), reduction), 8)
    assert gradcheck(lambda x: loss(x, *given[1:], reduction="none"), given[:1], order=2)


def test_both_arguments_have_a_gradient(device: ck.Device) -> None:
    """Where a probability is 0 too: what its loss would be."""
    x, y = ck.asarray(A), ck.asarray(SHARES)
    gradient = ck.grad(lambda y: nn.cross_entropy(x, y, reduction="sum"))(y)
    close(gradient, -log_softmax(A), 8)
    assert gradcheck(lambda x, y: nn.binary_cross_entropy_with_logits(x, y), [x, y])


def of_classes(weight: Any, ignore: Any, smoothing: float, reduction: str) -> Any:
    targets = TARGETS if ignore is not None else np.abs(TARGETS)
    kept = targets != ignore
    weights = np.ones(3) if weight is None else weight
    logs, places = -log_softmax(A), np.where(kept, targets, 0)
    counted = weights[places] * kept
    rows = (1 - smoothing) * counted * logs[np.arange(4), places]
    rows = rows + kept * smoothing / 3 * (logs * weights).sum(-1)
    return put_together(rows, reduction, counted.sum())


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_of_classes(device: ck.Device, reduction: str) -> None:
    for dtype, weight, ignore, smoothing in product(
        ("float32", "float64"), (None, WEIGHT), (None, -1), (0.0, 0.1)
    ):
        x = ck.asarray(A, dtype)
        targets = ck.asarray(TARGETS if ignore is not None else np.abs(TARGETS))
        w = None if weight is None else ck.asarray(weight, dtype)
        expected = of_classes(weight, ignore, smoothing, reduction)
        close(nn.cross_entropy(x, targets, w, ignore, smoothing, reduction), expected, 8)
        if not smoothing:
            logs = ck.asarray(log_softmax(A), dtype)
            close(nn.nll_loss(logs, targets, w, ignore, reduction), expected, 8)
    options = {"label_smoothing": 0.1, "ignore_index": -1, "reduction": reduction}
    targets, w = ck.asarray(TARGETS), ck.asarray(WEIGHT)
    assert gradcheck(lambda x, w: nn.cross_entropy(x, targets, w, **options), [ck.asarray(A), w], order=2)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_of_probabilities(device: ck.Device, reduction: str) -> None:
    for dtype, weight, smoothing in product(("float32", "float64"), (None, WEIGHT), (0.0, 0.1)):
        w = None if weight is None else ck.asarray(weight, dtype)
        shares = SHARES * (1 - smoothing) + smoothing / 3
        rows = (-log_softmax(A) * shares * (1 if weight is None else weight)).sum(-1)
        x, y = ck.asarray(A, dtype), ck.asarray(SHARES, dtype)
        made = nn.cross_entropy(x, y, w, label_smoothing=smoothing, reduction=reduction)
        close(made, put_together(rows, reduction), 8)


def test_half_precision_is_computed_in_float32(device: ck.Device) -> None:
    logits = random(0, (3, 4000), "bfloat16")
    rows = -log_softmax(logits.numpy().astype(np.float64))
    made = nn.cross_entropy(logits, ck.asarray([1, 2, 3]), reduction="none", label_smoothing=0.1)
    assert made.dtype == ck.bfloat16
    close(made, 0.9 * rows[np.arange(3), [1, 2, 3]] + 0.1 * rows.mean(-1), 1)


def test_large_logits(device: ck.Device) -> None:
    x = ck.asarray([[1e4, -1e4], [-1e4, 1e4]])
    targets = ck.asarray([0, 0])
    options: dict[str, Any] = {"ignore_index": -1, "reduction": "none"}
    assert nn.cross_entropy(x, targets, **options).tolist() == [0, 2e4]
    assert ck.grad(lambda x: nn.cross_entropy(x, targets, ignore_index=-1, reduction="sum"))(x).tolist() == [
        [0, 0],
        [-1, 1],
    ]
    ones = ck.ones((2, 2))
    assert nn.binary_cross_entropy_with_logits(x, ones, reduction="none").tolist() == [[0, 1e4], [1e4, 0]]
    close(
        nn.binary_cross_entropy_with_logits(ck.asarray([20.0]), ck.asarray([1.0])), np.log1p(np.exp(-20)), 2
    )
    assert nn.binary_cross_entropy(
        ck.asarray([0.0, 1.0]), ck.asarray([1.0, 1.0]), reduction="none"
    ).tolist() == [
        100,
        0,
    ]


def test_masked_classes(device: ck.Device) -> None:
    """A class at -inf costs nothing where no share of the target is its, and has no gradient."""
    x = ck.asarray([[0.0, -math.inf, 0.0]])
    for targets in (ck.asarray([0]), ck.asarray([[1.0, 0.0, 0.0]])):
        value, gradient = ck.value_and_grad(lambda x, t=targets: nn.cross_entropy(x, t, reduction="sum"))(x)
        close(value, math.log(2), 2)
        close(gradient, [[-0.5, 0, 0.5]], 2)


def test_nothing_to_count(device: ck.Device) -> None:
    """Sums are 0 and means NaN, as PyTorch's."""
    ignored, x = ck.asarray([-1, -1]), ck.asarray([[1.0, math.nan], [math.nan, 2.0]])
    loss = nn.cross_entropy(x, ignored, ignore_index=-1, reduction="none")
    assert loss.tolist() == [0, 0]
    assert nn.cross_entropy(x, ignored, ignore_index=-1, reduction="sum").item() == 0
    assert math.isnan(nn.cross_entropy(x, ignored, ignore_index=-1).item())
    gradient = ck.grad(lambda x: nn.cross_entropy(x, ignored, ignore_index=-1, reduction="sum"))(
        ck.ones((2, 2))
    )
    assert gradient.tolist() == [[0, 0], [0, 0]]
    none, no = ck.zeros((0, 3)), ck.zeros((0,), "int32")
    for loss in (nn.cross_entropy, nn.nll_loss):
        assert math.isnan(loss(none, no).item())
        assert loss(none, no, reduction="sum").item() == 0
        assert loss(none, no, ignore_index=-1, reduction="none").shape == (0,)
    assert math.isnan(nn.cross_entropy(none, none).item())
    assert nn.huber_loss(none, none, reduction="sum").item() == 0
    assert math.isnan(nn.mse_loss(none, none).item())


def test_targets_of_integers_and_bools(device: ck.Device) -> None:
    """They take the dtype of the predictions."""
    x = ck.asarray(A, "float32")
    counts = ck.asarray(np.arange(12).reshape(4, 3))
    for loss in (nn.mse_loss, nn.l1_loss, nn.huber_loss, nn.smooth_l1_loss):
        made = loss(x, counts)
        assert made.dtype == "float32"
        assert made.item() == loss(x, counts.astype("float32")).item()
    made = nn.binary_cross_entropy_with_logits(x, counts > 4)
    assert made.item() == nn.binary_cross_entropy_with_logits(x, (counts > 4).astype("float32")).item()


def test_kl_div_of_a_batch(device: ck.Device) -> None:
    x, y = ck.asarray(A), ck.asarray(SHARES)
    total = nn.kl_div(x, y, reduction="sum").item()
    assert nn.kl_div(x, y, reduction="batchmean").item() == pytest.approx(total / 4)
    assert nn.smooth_l1_loss(x, y, beta=0).item() == nn.l1_loss(x, y).item()


X, INTS = ck.zeros((2, 3), device="host"), ck.zeros(2, "int32", device="host")
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "reduction": (
        lambda: nn.l1_loss(X, X, reduction="avg"),
        ValueError,
        "l1_loss: reduction: expected one of 'mean', 'sum', 'none', got 'avg'",
    ),
    "reductions": (
        lambda: nn.l1_loss(X, X, reduction=np.array(["mean", "sum"])),  # type: ignore[arg-type]
        ValueError,
        "l1_loss: reduction: expected one of 'mean', 'sum', 'none', got array",
    ),
    "shape": (lambda: nn.huber_loss(X, X[0]), ValueError, "huber_loss: target: expected shape (2, 3)"),
    "delta": (lambda: nn.huber_loss(X, X, delta=0), ValueError, "delta: expected a number above 0"),
    "beta": (lambda: nn.smooth_l1_loss(X, X, beta=-1), ValueError, "beta: expected a number of at least 0"),
    "integers": (
        lambda: nn.binary_cross_entropy(INTS, X[:, 0]),
        TypeError,
        "binary_cross_entropy: probabilities: expected a floating dtype, got int32",
    ),
    "complex": (
        lambda: nn.mse_loss(X, X.astype("complex64")),
        TypeError,
        "mse_loss: target: expected a floating dtype, got complex64",
    ),
    "pos_weight": (
        lambda: nn.binary_cross_entropy_with_logits(X, X, pos_weight=ck.ones(2, device="host")),
        ValueError,
        "pos_weight: expected a shape that broadcasts to (2, 3), got (2,)",
    ),
    "weight": (
        lambda: nn.cross_entropy(X, INTS, ck.ones(2, device="host")),
        ValueError,
        "weight: expected shape (3,), one a class, got (2,)",
    ),
    "label_smoothing": (
        lambda: nn.cross_entropy(X, INTS, label_smoothing=2),
        ValueError,
        "label_smoothing: expected a number in [0, 1], got 2",
    ),
    "ignored probabilities": (
        lambda: nn.cross_entropy(X, X, ignore_index=0),
        ValueError,
        "ignore_index: names a class, and targets are probabilities",
    ),
    "ignore_index": (
        lambda: nn.nll_loss(X, INTS, ignore_index="pad"),  # type: ignore[arg-type]
        TypeError,
        "nll_loss: ignore_index: expected an int or None, got 'pad'",
    ),
    "out of range": (
        lambda: nn.nll_loss(X, INTS + 3, ignore_index=-100),
        IndexError,
        "nll_loss: targets: expected each in [0, 3), got 3",
    ),
    "target shape": (
        lambda: nn.cross_entropy(X, INTS[:1], ignore_index=-100),
        ValueError,
        "cross_entropy: targets: expected shape (2,)",
    ),
    "batchmean": (lambda: nn.mse_loss(X, X, "batchmean"), ValueError, "got 'batchmean'"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refused(case: tuple[Callable[[], Any], type[Exception], str]) -> None:
    call, error, message = case
    with pytest.raises(error) as raised:
        call()
    assert message in str(raised.value)


def _gradients(loss: Callable[..., Any], *values: Any, dtype: Any = None) -> list[list[float]]:
    """The values of a loss, and its derivatives by its arguments."""
    given = [ck.asarray(one, dtype=dtype or ck.float32) for one in values]
    with ck.Tape() as tape:
        tape.watch(*given)
        made = loss(*given)
        total = ck.sum(made)
    return [one.astype(ck.float64).tolist() for one in (made, *tape.gradient(total, given))]


@pytest.mark.parametrize("dtype", [ck.float32, ck.float64, ck.bfloat16, ck.float16])
def test_binary_cross_entropy_of_certain_probabilities(device: ck.Device, dtype: Any) -> None:
    """The derivative is (p - t) / max(p (1 - p), 1e-12), as in PyTorch, and a right one is 0."""
    p, t = np.array([0, 0, 1, 1, 0, 0.5]), np.array([0, 1, 0, 1, 0.5, 1])
    loss = lambda p, t: nn.binary_cross_entropy(p, t, reduction="none")  # noqa: E731
    found, by_p, by_t = _gradients(loss, p, t, dtype=dtype)
    rtol = 1e-2 if dtype == ck.bfloat16 else 1e-3 if dtype == ck.float16 else 1e-6
    np.testing.assert_allclose(found, [0, 100, 100, 0, 50, math.log(2)], rtol=rtol)
    slopes = (p - t) / np.maximum(p * (1 - p), 1e-12)
    if dtype == ck.float16:  # whose largest number is 65504
        slopes = np.where(np.abs(slopes) > 65504, np.copysign(math.inf, slopes), slopes)
    np.testing.assert_allclose(by_p, slopes, rtol=rtol)
    np.testing.assert_allclose(by_t, [100, 100, -100, -100, 100, 0], rtol=rtol)


def test_second_derivatives_of_binary_cross_entropy(device: ck.Device) -> None:
    p, t = (ck.asarray(np.array(one)) for one in ([0.0, 0.0, 1.0, 1.0], [0.0, 1.0, 0.0, 1.0]))
    loss = lambda p: nn.binary_cross_entropy(p, t, reduction="sum")  # noqa: E731
    np.testing.assert_allclose(ck.jacobian(ck.grad(loss))(p).numpy(), np.diag([1e12] * 4))
    inner = [ck.asarray(np.array([0.2, 0.7])), ck.asarray(np.array([0.3, 1.0]))]
    assert gradcheck(nn.binary_cross_entropy, inner, order=2)


def test_a_saturated_sigmoid_leaves_the_weights(device: ck.Device) -> None:
    weight = ck.asarray([100.0, -1.0])
    loss = lambda w: nn.binary_cross_entropy(ck.sigmoid(w), ck.asarray([1.0, 0.0]))  # noqa: E731
    got = ck.grad(loss)(weight).numpy()
    np.testing.assert_allclose(got, [0, 0.5 / (1 + math.e)], rtol=1e-5)


def test_binary_cross_entropy_of_infinite_logits(device: ck.Device) -> None:
    x, t = [math.inf, -math.inf, math.inf, -math.inf, -math.inf], [1, 0, 0, 1, 0.5]
    loss = lambda x, t: nn.binary_cross_entropy_with_logits(x, t, reduction="none")  # noqa: E731
    found, by_x, by_t = _gradients(loss, x, t)
    assert found == [0, 0, math.inf, math.inf, math.inf]
    assert by_x == [0, 0, 1, -1, -0.5]
    assert by_t == [-math.inf, math.inf, -math.inf, math.inf, math.inf]


def test_divergence_where_a_target_is_0(device: ck.Device) -> None:
    x = [-math.inf, 0.0, -2.0, -math.inf, -1.0]
    found, by_x, _ = _gradients(lambda x, t: nn.kl_div(x, t, reduction="none"), x, [0, 0, 0, 1, 1])
    assert found == [0, 0, 0, math.inf, 1]
    assert by_x == [0, 0, 0, -1, -1]
    logs = lambda x, t: nn.kl_div(x, t, log_target=True, reduction="none")  # noqa: E731
    found, by_x, by_t = _gradients(logs, x, [-math.inf] * 3 + [0, 0])
    assert (found, by_x, by_t) == ([0, 0, 0, math.inf, 1], [0, 0, 0, -1, -1], [0, 0, 0, math.inf, 2])


def test_a_class_without_probability_may_have_any_logit(device: ck.Device) -> None:
    loss = lambda x, t: nn.cross_entropy(x, t, reduction="none")  # noqa: E731
    found, by_x, by_t = _gradients(loss, [[-math.inf, 0, 0]], [[0, 0.5, 0.5]])
    np.testing.assert_allclose(found, [math.log(2)], rtol=1e-6)
    np.testing.assert_allclose(by_x, [[0, 0, 0]], atol=1e-7)
    np.testing.assert_allclose(by_t, [[math.inf, math.log(2), math.log(2)]], rtol=1e-6)


@pytest.mark.parametrize("loss", [nn.huber_loss, nn.smooth_l1_loss])
def test_derivatives_of_infinite_and_exact_errors(device: ck.Device, loss: Callable[..., Any]) -> None:
    x, y = [math.inf, -math.inf, 1e30, 3.0, 1.0, 2.0], [0, 1, 0, 3, 0, 1.5]
    found, by_x, by_y = _gradients(lambda x, y: loss(x, y, reduction="none"), x, y)
    np.testing.assert_allclose(found, [math.inf, math.inf, 1e30, 0, 0.5, 0.125])
    assert by_x == [1, -1, 1, 0, 1, 0.5]
    assert by_y == [-1, 1, -1, 0, -1, -0.5]


@pytest.mark.parametrize("loss", [nn.huber_loss, nn.smooth_l1_loss])
def test_second_derivatives_of_exact_errors(device: ck.Device, loss: Callable[..., Any]) -> None:
    x, y = (ck.asarray(np.array(one)) for one in ([3.0, 0.25, 3.0, -3.0], [3.0, 0.0, 0.0, 0.0]))
    second = ck.jacobian(ck.grad(lambda x: loss(x, y, reduction="sum")))(x)
    np.testing.assert_array_equal(second.numpy(), np.diag([1.0, 1.0, 0.0, 0.0]))
