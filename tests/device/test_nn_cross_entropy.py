"""Cross-entropy as a GPU computes it: launch shapes, alignment, infinities, derivatives."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from elementwise_support import address_counts
from nn_support import DTYPE_NAMES, Sized, close, random, sized

import cukern as ck
from cukern import nn
from cukern.testing import gradcheck

losses = import_module("cukern.nn.losses")


@pytest.fixture
def as_a_gpu(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch, empty: Callable[..., None]
) -> pytest.MonkeyPatch:
    """The host launches as a GPU does."""
    empty(losses._forwards, losses._backwards)
    monkeypatch.setattr(losses, "serial", lambda device: False)
    # Its name in the package is that of the function.
    monkeypatch.setattr(sys.modules["cukern.array.array"], "layout_of", address_counts)
    return monkeypatch


def check(logits: ck.Array, targets: ck.Array, base: float = 0.0) -> None:
    """Loss and gradient against NumPy in double precision; only differences of logits from ``base`` matter."""
    with ck.Tape() as tape:
        tape.watch(logits)
        loss = nn.cross_entropy(logits, targets)
    classes = targets.numpy().astype(int).reshape(-1)
    assert loss.dtype == logits.dtype
    for found, wanted in zip(
        (loss, tape.gradient(loss, logits)), exact(logits, classes, classes >= 0, base), strict=True
    ):
        close(found, wanted)


def exact(logits: ck.Array, classes: np.ndarray, kept: np.ndarray, base: float = 0.0) -> list[Sized]:
    """The mean loss of the rows that are kept, and its gradient."""

    def formula(x: np.ndarray) -> list[np.ndarray]:
        rows = np.where(kept[:, None], x.reshape(len(classes), -1), 0)
        exponentials = np.exp(rows - rows.max(-1, keepdims=True))
        shares = exponentials / exponentials.sum(-1, keepdims=True)
        places = np.where(kept, classes, 0)
        loss = -np.log(shares[np.arange(len(places)), places])[kept].mean()
        gaps = shares - (np.arange(rows.shape[-1]) == places[:, None])
        return [loss, (gaps * kept[:, None] / kept.sum()).reshape(x.shape)]

    found: list[Sized] = sized(formula, np.asarray(logits).astype(np.float64) - base)
    return found


_SHAPES = [
    (5, 1, "int8"),
    (5, 300, "uint8"),
    (70, 13, "int64"),
    (37, 1024, "int32"),
    (3, 4096, "int32"),
    (2, 20_000, "int64"),
]
#: Every shape in float32, and those of packs and of a block in a half type; float64 and the other half type in two.
_USUAL = {("bfloat16", 300), ("bfloat16", 20_000), ("bfloat16", 13), ("float16", 1024), ("float64", 1024)}
_CASES = [
    pytest.param(
        *shape,
        dtype,
        marks=() if dtype == "float32" or (dtype, shape[1]) in _USUAL else pytest.mark.thorough,
    )
    for shape in _SHAPES
    for dtype in DTYPE_NAMES
]


@pytest.mark.parametrize(("rows", "columns", "target", "dtype"), _CASES)
def test_loss_and_gradient(
    as_a_gpu: pytest.MonkeyPatch, dtype: str, rows: int, columns: int, target: str
) -> None:
    """A thread, part of a warp, a warp and a block a row; packs of 16 bytes and less; rows to their end or beyond."""
    targets = np.random.default_rng(0).integers(0, min(columns, 255), rows).astype(target)
    check(random(0, (rows, columns), dtype), ck.asarray(targets))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(("rows", "columns"), [(5, 1), (37, 1024), (70, 13)])
def test_gradient_by_rows(as_a_gpu: pytest.MonkeyPatch, dtype: str, rows: int, columns: int) -> None:
    """Each row's own share of the gradient; none, even of NaN, where a row is ignored."""
    logits = random(0, (rows, columns), dtype)
    targets = np.random.default_rng(0).integers(0, columns, rows)
    targets[1] = -100
    logits[1, 0] = np.nan
    with ck.Tape() as tape:
        tape.watch(logits)
        loss = nn.cross_entropy(logits, ck.asarray(targets), ignore_index=-100)
    wanted = exact(logits, targets, targets != -100)
    for found, one in zip((loss, tape.gradient(loss, logits)), wanted, strict=True):
        close(found, one)


def test_gradient_by_rows_is_one_kernel(device: ck.Device) -> None:
    logits, targets = random(0, (4, 6), "float32"), ck.asarray([0, 5, -1, 2])
    with ck.Tape() as tape:
        tape.watch(logits)
        loss = nn.cross_entropy(logits, targets, ignore_index=-1, reduction="sum")
    seen: list[tuple[int, ...]] = []
    allocate = losses.Array._made

    def made(layout: Any) -> ck.Array:
        seen.append(layout.shape)
        return allocate(layout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(losses.Array, "_made", made)
        tape.gradient(loss, logits)
    assert seen.count((4, 6)) == 1, "one array of the logits' size"


def test_targets_on_the_host_are_fetched(device: ck.Device) -> None:
    check(random(0, (6, 9), "float32"), ck.asarray([0, 8, 3, 3, 1, 2], device="host"))
    with pytest.raises(IndexError, match="cross_entropy: targets: expected each in"):
        nn.cross_entropy(random(0, (1, 3), "float32"), ck.asarray([3], device="host"))


@pytest.mark.parametrize("columns", [40, 1024])
def test_rows_in_turns(as_a_gpu: pytest.MonkeyPatch, columns: int) -> None:
    """Fewer slots than rows, and a number of them that leaves some of a block idle; few blocks of the gradient."""
    as_a_gpu.setattr(losses, "_SLOTS", 7)
    as_a_gpu.setattr(losses, "_MOST_BLOCKS", 2)
    as_a_gpu.setattr(losses, "SHAPE", losses.Shape(threads=64, lanes=32, block=64, turns=1))
    check(random(0, (50, columns), "float32"), ck.asarray(np.arange(50) % columns))


def test_the_gradient_has_no_more_blocks_along_y_than_a_gpu_takes(as_a_gpu: pytest.MonkeyPatch) -> None:
    bind, grids = losses._backward.bind, []

    def bound(*args: Any, **variables: Any) -> Any:
        function = bind(*args, **variables).function

        def prepare(grid: Any, *others: Any) -> Any:
            grids.append(grid)
            return function.prepare(grid, *others)

        return SimpleNamespace(function=SimpleNamespace(prepare=prepare))

    as_a_gpu.setattr(losses, "_backward", SimpleNamespace(bind=bound))
    for most in (2, 65535):
        as_a_gpu.setattr(losses, "_MOST_BLOCKS", most)
        losses._backwards.clear()
        check(random(0, (50, 1024), "float32"), ck.asarray(np.arange(50)))
    few, enough = dict.fromkeys(
        down for _, down, _ in grids
    )  # a thread beside this one may prepare them, too
    assert few == 2 < enough <= 50


def test_a_few_long_rows(as_a_gpu: pytest.MonkeyPatch) -> None:
    as_a_gpu.setattr(losses, "_LONG", 30)
    check(random(0, (5, 40), "float32"), ck.asarray([0, 1, 39, 3, 4]))
    assert not losses._forwards


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_views(as_a_gpu: pytest.MonkeyPatch, dtype: str) -> None:
    """Addresses between those of packs, steps, more axes."""
    memory = random(0, (2000,), dtype)
    targets = ck.asarray(np.arange(24) % 13)
    check(memory[1:513].reshape((16, 32)), targets[:16])
    check(memory[:768].reshape((12, 64))[:, ::2], targets[::2])
    check(memory[:384].reshape((32, 12)).T, targets[:12])
    check(memory[:768].reshape((3, 8, 32)), targets.reshape((3, 8)))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_infinities(as_a_gpu: pytest.MonkeyPatch, dtype: str) -> None:
    inf = np.inf
    a = np.random.default_rng(0).standard_normal((6, 520)).astype(ck.dtypes.as_dtype(dtype))
    a[0, 1:], a[1], a[2, 300], a[3, 7], a[4, 100:] = -inf, -inf, inf, np.nan, -inf
    rows = ck.asarray(a)
    found = [nn.cross_entropy(rows[i : i + 1], ck.asarray([0])).item() for i in range(6)]
    assert found[0] == 0
    assert np.isnan(found[1:4]).all()
    assert np.isfinite(found[4:]).all()
    assert nn.cross_entropy(rows[:1], ck.asarray([5])).item() == inf
    assert np.isnan(nn.cross_entropy(rows, ck.asarray([0] * 6)).item())
    large = ck.asarray(np.array([[1e4, 0.0], [0.0, 1e4]]), dtype)
    assert nn.cross_entropy(large, ck.asarray([0, 0])).item() == pytest.approx(5e3, rel=4e-3)


def test_second_derivative(as_a_gpu: pytest.MonkeyPatch) -> None:
    targets = ck.asarray([2, 0, 4])
    assert gradcheck(lambda x: nn.cross_entropy(x, targets), [random(0, (3, 5))], order=2)


def test_two_launches(as_a_gpu: pytest.MonkeyPatch) -> None:
    """No other kernel is asked for, nor one to round the loss."""
    for room in ("elementwise", "reduction"):
        as_a_gpu.setattr(import_module(f"cukern.{room}.plan").Plan, "run", None)
    logits = random(0, (3, 8), "bfloat16")
    assert nn.cross_entropy(logits, ck.asarray([1, 2, 3])).dtype == ck.bfloat16


@pytest.mark.parametrize(("rows", "columns"), [(70, 13), (37, 1024), (2, 20_000)])
@pytest.mark.parametrize("size", [1e5, -1e5, 2.0**26])
def test_large_logits(as_a_gpu: pytest.MonkeyPatch, size: float, rows: int, columns: int) -> None:
    """The sum of exponentials is not rounded to their digits; the logits, which are not, differ by units of these."""
    rng, unit = np.random.default_rng(0), max(1.0, float(np.spacing(np.float32(abs(size)))))
    logits = size + unit * rng.integers(-2, 3, (rows, columns))
    check(ck.asarray(logits, dtype="float32"), ck.asarray(rng.integers(0, columns, rows)), size)
