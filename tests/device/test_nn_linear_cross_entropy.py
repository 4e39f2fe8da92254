"""The cross-entropy of a linear layer's logits, as the host and as a GPU computes it, against NumPy in float64."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import numpy as np
import pytest
from nn_support import Sized, close, random, sized

import cukern as ck
from cukern import nn
from cukern.testing import gradcheck

losses, module = (import_module(f"cukern.nn.{name}") for name in ("losses", "linear_cross_entropy"))


@pytest.fixture
def as_a_gpu(device: ck.Device, monkeypatch: pytest.MonkeyPatch, empty: Callable[..., None]) -> None:
    """The host launches as a GPU does."""
    empty(module._plan)
    monkeypatch.setattr(losses, "serial", lambda device: False)


def check(
    dtype: str, rows: int, classes: int, chunks: int | None = None, reduction: str = "mean", bias: bool = True
) -> None:
    """Loss and gradients; these are ended by a factor, as those of a loss that is a part of another."""
    x, weight = random(0, (rows, 24), dtype), random(1, (classes, 24), dtype, 0.3)
    given = [x, weight, *([random(2, (classes,), dtype)] if bias else [])]
    targets = np.random.default_rng(3).integers(0, classes, rows)
    with ck.Tape() as tape:
        tape.watch(*given)
        loss = nn.linear_cross_entropy(
            *given[:2], ck.asarray(targets), *given[2:], reduction=reduction, chunks=chunks
        )
        whole = 3 * loss
    share = 1 / rows if reduction == "mean" else 1
    assert loss.dtype == (dtype if dtype in ("float32", "float64") else "float32")

    def formula(x: np.ndarray, weight: np.ndarray, *bias: np.ndarray) -> list[np.ndarray]:
        logits = x @ weight.T + (bias[0] if bias else 0)
        totals = np.log(np.exp(logits).sum(-1))
        gaps = 3 * share * (np.exp(logits - totals[:, None]) - np.eye(classes)[targets])
        own = share * (totals - logits[np.arange(rows), targets]).sum()
        return [own, gaps @ weight, gaps.T @ x, *([gaps.sum(0)] if bias else [])]

    for found, one, wanted in zip(
        (loss, *tape.gradient(whole, given)), (loss, *given), sized(formula, *given), strict=True
    ):
        assert found.dtype == one.dtype
        # The logits were rounded to a half type, each by itself.
        half = 2 if found.itemsize == 2 else None
        close(found, wanted, half if found.dtype == dtype else 2**13)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_by_composed_kernels(device: ck.Device, dtype: str) -> None:
    """Parts of the rows, the last of them smaller."""
    check(dtype, 37, 50, chunks=3)


@pytest.mark.parametrize(
    ("dtype", "rows", "classes", "chunks", "reduction", "bias"),
    [
        ("bfloat16", 300, 264, 2, "mean", False),
        ("float32", 5, 4099, 1, "sum", True),
        pytest.param("float16", 37, 5, 4, "mean", True, marks=pytest.mark.thorough),
        pytest.param("float64", 7, 1000, None, "mean", True, marks=pytest.mark.thorough),
    ],
)
@pytest.mark.usefixtures("as_a_gpu")
def test_logits_become_their_gradient(
    dtype: str, rows: int, classes: int, chunks: int | None, reduction: str, bias: bool
) -> None:
    """A block a row: packs of 16 bytes and less, rows that end where packs do and before."""
    check(dtype, rows, classes, chunks, reduction, bias)
    assert module._plan.cache_info().currsize


def test_what_is_not_wanted_is_not_computed(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, ...]] = []
    multiply = module._multiply
    monkeypatch.setattr(
        module, "_multiply", lambda *args, **options: (made.append(args[2].shape), multiply(*args, **options))
    )
    x, weight, targets = random(0, (6, 4)), random(1, (5, 4)), ck.asarray([0, 4, 1, 1, 2, 3])
    with ck.Tape() as tape:
        tape.watch(weight)
        loss = nn.linear_cross_entropy(x, weight, targets, chunks=2)
    tape.gradient(loss, weight)
    assert made == [(5, 4)] * 2
    recorded = loss.item()
    assert nn.linear_cross_entropy(x, weight, targets).item() == pytest.approx(recorded, rel=1e-14)
    assert len(made) == 2


def test_second_derivative(device: ck.Device) -> None:
    targets = ck.asarray([[2, 0], [3, 1]])
    given = [random(0, (2, 2, 3)), random(1, (4, 3)), random(2, (4,))]
    assert gradcheck(lambda x, w, b: nn.linear_cross_entropy(x, w, targets, b, chunks=3), given, order=2)


def test_views(device: ck.Device) -> None:
    """Factors that are read as they lie, and one that is not."""
    x, weight, targets = random(0, (12, 8)), random(1, (4, 5)), ck.asarray([0, 4, 1, 2])
    expected = nn.cross_entropy(nn.linear(x[::3, ::2], weight.T), targets).item()
    assert nn.linear_cross_entropy(x[::3, ::2], weight.T, targets).item() == pytest.approx(expected)


def test_nothing(device: ck.Device) -> None:
    none = ck.zeros((0,), "int32")
    assert np.isnan(nn.linear_cross_entropy(ck.zeros((0, 3)), ck.ones((4, 3)), none).item())
    assert nn.linear_cross_entropy(ck.zeros((0, 3)), ck.ones((4, 3)), none, reduction="sum").item() == 0
    flat = nn.linear_cross_entropy(ck.zeros((2, 0)), ck.zeros((4, 0)), ck.asarray([0, 3]))
    assert flat.item() == pytest.approx(np.log(4), rel=1e-6)


def test_errors(device: ck.Device) -> None:
    x, weight, targets = ck.ones((2, 3)), ck.ones((4, 3)), ck.asarray([0, 1])
    loss = nn.linear_cross_entropy
    with pytest.raises(ValueError, match=r"expected x of shape \(\.\.\., inputs\) and weight"):
        loss(x, weight.T, targets)
    with pytest.raises(ValueError, match=r"targets: expected shape \(2,\)"):
        loss(x, weight, targets[:1])
    with pytest.raises(ValueError, match=r"bias: expected shape \(4,\), got \(3,\)"):
        loss(x, weight, targets, ck.ones(3))
    with pytest.raises(ValueError, match="reduction: expected one of 'mean', 'sum', got 'none'"):
        loss(x, weight, targets, reduction="none")
    with pytest.raises(ValueError, match="chunks: expected at least 1, got 0"):
        loss(x, weight, targets, chunks=0)
    with pytest.raises(TypeError, match=r"chunks: expected an int, got 1\.5"):
        loss(x, weight, targets, chunks=1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="targets: expected an integer array"):
        loss(x, weight, ck.ones(2))
    if device.kind == "host":
        with pytest.raises(IndexError, match=r"targets: expected each in \[0, 4\), got 4"):
            loss(x, weight, ck.asarray([0, 4]))


@pytest.mark.usefixtures("as_a_gpu")
def test_large_logits() -> None:
    """Products and biases are whole numbers, which are not rounded; nor is the sum of exponentials, to their digits."""
    rng = np.random.default_rng(0)
    x, weight = (rng.integers(-1, 2, (rows, 8)).astype(np.float32) for rows in (70, 300))
    targets, bias = rng.integers(0, 300, 70), np.full(300, 1e5, np.float32)
    given = [ck.asarray(one) for one in (x, weight, bias)]
    with ck.Tape() as tape:
        tape.watch(*given)
        loss = nn.linear_cross_entropy(*given[:2], ck.asarray(targets), given[2], reduction="sum")
    logits = x.astype(np.float64) @ weight.T
    totals = np.log(np.exp(logits).sum(-1))
    close(loss, (totals - logits[np.arange(70), targets]).sum(), 16)
    gaps = np.exp(logits - totals[:, None]) - np.eye(300)[targets]
    wanted = [
        Sized(of(gaps, weight, x), of(*map(np.abs, (gaps, weight, x))))
        for of in (lambda g, w, x: g @ w, lambda g, w, x: g.T @ x, lambda g, w, x: g.sum(0))
    ]
    for found, one in zip(tape.gradient(loss, given), wanted, strict=True):
        close(found, one)
