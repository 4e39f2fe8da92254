"""Exponentials of large and infinite numbers: the largest number and the sum of exponentials below it stay apart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern import nn
from cukern.testing import assert_close, gradcheck

INF, NAN = math.inf, math.nan
#: Differences that half types keep at 1e4 are multiples of these.
GRAIN = {"float64": 1.0, "float32": 1.0, "float16": 8.0, "bfloat16": 64.0}
#: Of probabilities, relative to each.
ERROR = {"float64": 1e-10, "float32": 2e-6, "float16": 3e-3, "bfloat16": 2.5e-2}
#: The spacing of the smallest numbers.
TINY = {"float64": 0.0, "float32": 1e-44, "float16": 6e-8, "bfloat16": 1e-40}


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    result: np.ndarray = e / e.sum(-1, keepdims=True)
    return result


def gradient(f: Callable[..., Any], *arrays: ck.Array) -> list[Any]:
    with ck.Tape() as tape:
        tape.watch(*arrays)
        total = ck.sum(f(*arrays))
    return [None if g is None else g.astype(ck.float64).numpy() for g in tape.gradient(total, list(arrays))]


def around(size: float, dtype: str, shape: tuple[int, ...] = (3, 40)) -> tuple[ck.Array, np.ndarray]:
    """Numbers near ``size`` and their differences from it, none of which is rounded."""
    ulp = float(np.spacing(np.float32(size))) if dtype == "float32" else GRAIN[dtype]
    few = dtype in ("float16", "bfloat16")  # further below the largest, an exponential is 0 in them
    below = np.random.default_rng(0).integers(-1 if few else -2, 1 if few else 3, shape) * max(1.0, ulp)
    rounded = ck.asarray(size, dtype=getattr(ck, dtype)).astype(ck.float64).item()
    x = ck.asarray(rounded + below, dtype=getattr(ck, dtype))
    return x, np.asarray(x.astype(ck.float64).numpy() - rounded)


SIZES = [
    *((dtype, 1e4) for dtype in GRAIN),
    *((dtype, size) for dtype in ("float32", "float64") for size in (1e5, 1e8)),
    ("float32", -1e5),
]


@pytest.mark.parametrize(("dtype", "size"), SIZES)
def test_gradients_of_logarithms_of_sums(device: ck.Device, dtype: str, size: float) -> None:
    x, below = around(size, dtype)
    found = [
        gradient(lambda x: ck.logsumexp(x, axis=-1), x)[0],
        gradient(ck.fuse(lambda x: ck.logsumexp(x * 1.0, axis=-1)), x)[0],
        gradient(lambda x: ck.logsumexp(ck.matrix_transpose(x), axis=0), x)[0],
    ]
    for got in found:
        np.testing.assert_allclose(got, softmax(below), rtol=ERROR[dtype], atol=TINY[dtype])


@pytest.mark.parametrize(("dtype", "size"), SIZES)
def test_gradients_of_cumulative_logarithms(device: ck.Device, dtype: str, size: float) -> None:
    x, below = around(size, dtype, (2, 6))
    want = sum(np.pad(softmax(below[:, : n + 1]), ((0, 0), (0, 5 - n))) for n in range(6))
    got = gradient(lambda x: ck.logcumsumexp(x, axis=1), x)[0]
    np.testing.assert_allclose(got, want, rtol=2 * ERROR[dtype], atol=TINY[dtype])


@pytest.mark.parametrize("dtype", [ck.float32, ck.float64])
def test_cumulative_logarithms_of_many(device: ck.Device, dtype: Any) -> None:
    """The sum, not its logarithm, is carried on: of many equal numbers that would stop to grow."""
    for size in (0.0, 1e5, -1e5):
        x = ck.full((2, 3000), size, dtype=dtype)
        want = size + np.log(np.arange(1, 3001))
        found = ck.logcumsumexp(x, axis=1).astype(ck.float64).numpy()
        error = 2 * float(np.finfo(np.dtype(str(dtype))).eps) * max(abs(size), 8.0)
        np.testing.assert_allclose(found, np.stack([want, want]), rtol=0, atol=error)
    values = ck.asarray([-math.inf, 1.0, math.inf, 2.0])
    np.testing.assert_allclose(ck.logcumsumexp(values).numpy(), [-math.inf, 1, math.inf, math.inf])


def test_second_derivatives_of_logarithms_of_sums(device: ck.Device) -> None:
    below = np.array([0.0, -1.0, 0.5])
    p = softmax(below)
    hessian = ck.jacobian(ck.grad(ck.logsumexp))(ck.asarray(1e5 + below, dtype=ck.float32))
    np.testing.assert_allclose(hessian.numpy(), np.diag(p) - np.outer(p, p), atol=1e-6)
    assert gradcheck(
        lambda x: ck.logsumexp(x, axis=1), [ck.asarray(np.random.default_rng(0).normal(size=(3, 4)))], order=2
    )


@pytest.mark.parametrize("f", [ck.logaddexp, ck.logaddexp2])
def test_gradients_of_sums_of_two(device: ck.Device, f: Any) -> None:
    base = math.e if f is ck.logaddexp else 2.0
    for dtype, size in SIZES:
        x, below = around(size, dtype, (9,))
        found = gradient(f, x, ck.full_like(x, size))
        share = 1 / (1 + base**-below)
        for got, want in zip(found, (share, 1 - share), strict=True):
            # In an exponent of -64 the rounding of ln 2 to eight bits is some tenths.
            error = 0.2 if (dtype, f) == ("bfloat16", ck.logaddexp2) else ERROR[dtype]
            np.testing.assert_allclose(got, want, rtol=error, atol=TINY[dtype])


def test_infinities_in_logarithms_of_sums(device: ck.Device) -> None:
    cases: list[tuple[list[float], list[float]]] = [
        ([INF, 0, 5], [NAN, 0, 0]),
        ([0, INF, 200], [0, NAN, 0]),
        ([-INF, 3], [0, 1]),
        ([-INF, -INF], [0, 0]),
        ([NAN, 3], [NAN, NAN]),
    ]
    for values, want in cases:
        for dtype in (ck.float32, ck.bfloat16):
            x = ck.asarray(values, dtype=dtype)
            np.testing.assert_array_equal(gradient(ck.logsumexp, x)[0], want)
            np.testing.assert_array_equal(gradient(ck.fuse(lambda x: ck.logsumexp(x * 1)), x)[0], want)
    x = ck.asarray([0.0, INF, 5.0])
    np.testing.assert_array_equal(gradient(ck.logcumsumexp, x)[0], [1, NAN, 0])
    np.testing.assert_array_equal(gradient(ck.logcumsumexp, ck.asarray([-INF, -INF, 2.0]))[0], [0, 0, 1])
    first, second = ck.asarray([INF, INF, -INF, -INF]), ck.asarray([1.0, INF, -INF, 2.0])
    assert [g.tolist() for g in gradient(ck.logaddexp, first, second)] == [[1, 0.5, 0.5, 0], [0, 0.5, 0.5, 1]]


OPTIONS: list[dict[str, Any]] = [
    {},
    {"reduction": "none"},
    {"weight": np.array([0.5, 2.0, 1.5, 0.0])},
    {"ignore_index": 2, "reduction": "sum"},
    {"label_smoothing": 0.1},
    {"weight": np.array([0.5, 2.0, 1.5, 1.0]), "label_smoothing": 0.2, "reduction": "sum"},
]


def expected(
    below: np.ndarray, shares: np.ndarray, kept: np.ndarray, options: dict[str, Any]
) -> tuple[Any, Any, Any]:
    """The losses, the derivative of their sum by the logits, and the magnitudes that it is the difference of.

    The targets of rows are shares of classes.

    Source: the definition in :func:`cukern.nn.cross_entropy`, in float64.
    """
    smoothing, classes = options.get("label_smoothing", 0.0), below.shape[-1]
    weight = np.asarray(options.get("weight", np.ones(classes)))
    of_rows = kept * (shares @ weight)  # the divisor of a mean
    shares = ((1 - smoothing) * shares + smoothing / classes) * weight * kept[:, None]
    p = softmax(below)
    losses = -(shares * np.log(p)).sum(-1)
    slopes = shares.sum(-1, keepdims=True) * p - shares
    sizes = shares.sum(-1, keepdims=True) * p + shares
    reduction = options.get("reduction", "mean")
    if reduction == "none":
        return losses, slopes, sizes
    by = of_rows.sum() if reduction == "mean" else 1.0
    return losses.sum() / by, slopes / by, sizes / by


@pytest.mark.parametrize(("dtype", "size"), SIZES)
def test_cross_entropy(device: ck.Device, dtype: str, size: float) -> None:
    x, below = around(size, dtype, (5, 4))
    targets = np.array([0, 1, 2, 3, 1])
    shares = np.eye(4)[targets]
    for options, blended in itertools.product(OPTIONS, (False, True)):
        given = {k: ck.asarray(v, dtype=x.dtype) if k == "weight" else v for k, v in options.items()}
        kept = np.ones(5)
        if blended and "ignore_index" in options:
            continue
        if "ignore_index" in options:
            kept = (targets != 2) * 1.0
        if blended:
            mixed = np.array([[0.5, 0.25, 0.25, 0.0]] * 5)
            target = ck.asarray(mixed, dtype=x.dtype)
            losses, slopes, sizes = expected(below, mixed, kept, {**options, "reduction": "none"})
            if options.get("reduction", "mean") != "none":
                by = 5 if options.get("reduction", "mean") == "mean" else 1
                losses, slopes, sizes = losses.sum() / by, slopes / by, sizes / by
        else:
            target = ck.asarray(targets)
            losses, slopes, sizes = expected(below, shares, kept, options)
        loss = lambda x, target=target, given=given: nn.cross_entropy(x, target, **given)  # noqa: E731
        rough = dtype in ("float16", "bfloat16")
        np.testing.assert_allclose(
            loss(x).astype(ck.float64).numpy(), losses, rtol=8e-3 if rough else 1e-6, atol=1e-6
        )
        assert_close(gradient(loss, x)[0], slopes, rtol=0, atol=ERROR[dtype] * sizes + TINY[dtype])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("chunks", [1, 3])
def test_linear_cross_entropy(device: ck.Device, dtype: str, chunks: int) -> None:
    """Logits near 1e5, which are sums of integers and so not rounded."""
    rows = np.random.default_rng(1).integers(-1, 2, (6, 3)).astype(float)
    weight = np.random.default_rng(2).integers(-1, 2, (5, 3)).astype(float)
    bias, targets = np.full(5, 1e5), np.array([0, 1, 2, 3, 4, 0])
    logits = rows @ weight.T
    gaps = (softmax(logits) - np.eye(5)[targets]) / 6
    given = [ck.asarray(one, dtype=getattr(ck, dtype)) for one in (rows, weight, bias)]

    def loss(x: ck.Array, weight: ck.Array, bias: ck.Array) -> ck.Array:
        return nn.linear_cross_entropy(x, weight, ck.asarray(targets), bias, chunks=chunks)

    want = -np.log(softmax(logits)[range(6), targets]).mean()
    np.testing.assert_allclose(loss(*given).numpy(), want, rtol=1e-6)
    found = gradient(loss, *given)
    for got, slopes in zip(found, (gaps @ weight, gaps.T @ rows, gaps.sum(0)), strict=True):
        np.testing.assert_allclose(got, slopes, atol=2e-6)


def test_softmax_of_a_long_row(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows of many elements take several kernels."""
    from cukern.reduction import softmax as room

    monkeypatch.setattr(room, "_LONG", 16)
    x, below = around(1e5, "float32")
    np.testing.assert_allclose(ck.softmax(x).numpy(), softmax(below), rtol=ERROR["float32"])
    np.testing.assert_allclose(ck.log_softmax(x).numpy(), np.log(softmax(below)), rtol=1e-6)
