"""Norms of numbers whose powers overflow or vanish, and of zeros, with their derivatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.optim import clip_by_global_norm
from cukern.testing import gradcheck

#: A size of which the square, or its inverse, is no number of the dtype in which it is computed.
SIZES: list[tuple[str, float]] = [
    *(("float32", size) for size in (1e30, 1e-30)),
    *(("float64", size) for size in (1e200, 1e-200)),
    *(("bfloat16", size) for size in (1e30, 1e-30)),
    ("float16", 8000.0),
]
VALUES = np.array([[3.0, -4.0, 0.0], [1.0, 2.0, 2.0]])


def given(dtype: str, size: float) -> tuple[ck.Array, np.ndarray, float]:
    """Numbers of a size, their ratios to a power of two near it, and that."""
    unit = 2.0 ** math.floor(math.log2(size))
    x = ck.asarray(VALUES * unit, dtype=getattr(ck, dtype))
    return x, VALUES, unit


def gradient(f: Any, x: ck.Array) -> np.ndarray:
    with ck.Tape() as tape:
        tape.watch(x)
        total = ck.sum(f(x))
    made: np.ndarray = tape.gradient(total, x).astype(ck.float64).numpy()
    return made


@pytest.mark.parametrize(("dtype", "size"), SIZES)
def test_vector_norms(device: ck.Device, dtype: str, size: float) -> None:
    x, values, unit = given(dtype, size)
    rtol = {"bfloat16": 8e-3, "float16": 2e-3, "float32": 2e-6, "float64": 1e-12}[dtype]
    for p in (2, 3, 2.5):
        want = (np.abs(values) ** p).sum(1) ** (1 / p)
        found = ck.linalg.vector_norm(x, axis=1, ord=p).astype(ck.float64).numpy() / unit
        np.testing.assert_allclose(found, want, rtol=rtol)
        slopes = np.sign(values) * (np.abs(values) / want[:, None]) ** (p - 1)
        got = gradient(lambda x, p=p: ck.linalg.vector_norm(x, axis=1, ord=p), x)
        np.testing.assert_allclose(got, slopes, rtol=4 * rtol)
    found = ck.linalg.matrix_norm(x).astype(ck.float64).numpy() / unit
    np.testing.assert_allclose(found, math.sqrt(34), rtol=rtol)


@pytest.mark.parametrize(
    ("dtype", "size"), [("complex64", 1e30), ("complex64", 1e-30), ("complex128", 1e-200)]
)
def test_norms_of_complex_numbers(device: ck.Device, dtype: str, size: float) -> None:
    x = ck.asarray(np.array([3 + 4j, 5 - 12j]) * size, dtype=getattr(ck, dtype))
    np.testing.assert_allclose(ck.linalg.vector_norm(x).item() / size, math.sqrt(194), rtol=1e-6)
    np.testing.assert_allclose(
        ck.linalg.vector_norm(x, ord=3).item() / size, (5**3 + 13**3) ** (1 / 3), rtol=1e-6
    )


def test_norms_of_negative_order(device: ck.Device) -> None:
    x = ck.asarray(np.array([1e-200, 1e200]))
    assert ck.linalg.vector_norm(x, ord=-2).item() == pytest.approx(1e-200)
    assert ck.linalg.vector_norm(ck.asarray(np.array([0.0, 1e200])), ord=-2).item() == 0


def test_norms_of_infinities_and_of_nothing(device: ck.Device) -> None:
    for dtype in (ck.float32, ck.float64):
        norm = lambda x, dtype=dtype, **o: ck.linalg.vector_norm(ck.asarray(x, dtype=dtype), **o).item()  # noqa: E731
        for p in (2, 3):
            assert norm([math.inf, 1.0], ord=p) == math.inf
            assert math.isnan(norm([math.nan, 1.0], ord=p))
            assert norm([0.0, 0.0], ord=p) == 0
            assert norm([], ord=p) == 0


def test_derivatives_of_norms_of_zeros(device: ck.Device) -> None:
    """As in PyTorch; of a sum of squares the second derivative is right."""
    zeros = ck.zeros(3, dtype=ck.float64)
    for p in (2, 3):
        assert gradient(lambda x, p=p: ck.linalg.vector_norm(x, ord=p), zeros).tolist() == [0, 0, 0]
    hessian = ck.jacobian(ck.grad(lambda x: ck.sum(ck.square(x))))(zeros)
    assert hessian.tolist() == (2 * np.eye(3)).tolist()


def test_second_derivatives_of_norms(device: ck.Device) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3)) + 2
    for p, size in ((2, 1.0), (2.5, 1.0), (2, 1e100)):
        scaled = lambda x, p=p, size=size: ck.linalg.vector_norm(x * size, axis=1, ord=p) / size  # noqa: E731
        assert gradcheck(scaled, [ck.asarray(x)], order=2)


@pytest.mark.parametrize(("dtype", "size"), [one for one in SIZES if one[0] != "float16"])
@pytest.mark.parametrize("recorded", [False, True])
def test_gradients_of_any_size_are_clipped(
    device: ck.Device, dtype: str, size: float, recorded: bool
) -> None:
    """A norm that overflows made zeros of them."""
    given = [ck.asarray(one, dtype=getattr(ck, dtype)) * size for one in ([3.0], [4.0, 0.0], [[12.0, 84.0]])]
    with ck.Tape() as tape:
        if recorded:
            tape.watch(*given)
        clipped, norm = clip_by_global_norm(given, 1.0)
    exact = np.concatenate([one.astype(ck.float64).numpy().ravel() for one in given])
    largest = np.abs(exact).max()
    length = np.linalg.norm(exact / largest) * largest
    found = np.concatenate([one.astype(ck.float64).numpy().ravel() for one in clipped])
    rtol = {"bfloat16": 8e-3, "float32": 1e-6, "float64": 1e-12}[dtype]
    np.testing.assert_allclose(norm.astype(ck.float64).item(), length, rtol=rtol)
    np.testing.assert_allclose(found, exact / max(length, 1.0), rtol=rtol)
    assert [one.dtype for one in clipped] == [one.dtype for one in given]


def test_clipping_has_derivatives(device: ck.Device) -> None:
    for size in (1.0, 1e200):
        given = [ck.asarray(np.array([3.0, 4.0])), ck.asarray(np.array([[2.0]]))]

        def clipped(*arrays: ck.Array, size: float = size) -> Any:
            return clip_by_global_norm([one * size for one in arrays], 2.0)[0]

        assert gradcheck(
            lambda *arrays: ck.concat([ck.reshape(one, (-1,)) for one in clipped(*arrays)]), given
        )


def test_spread_of_large_numbers(device: ck.Device) -> None:
    """Its square overflows: that of the mean of a first batch was multiplied by 0 values, which made NaN."""
    x = ck.asarray(np.array([3e200, 4e200]))
    assert ck.var(x).item() == math.inf
    assert ck.std(ck.asarray([3e30, 4e30])).item() == pytest.approx(5e29)


@pytest.mark.parametrize("f", [ck.var, ck.std])
@pytest.mark.parametrize("fused", [False, True])
def test_derivatives_of_spread_about_a_large_mean(device: ck.Device, f: Any, fused: bool) -> None:
    """The mean, from which elements are subtracted, is not rounded to its digits."""
    a = (np.random.default_rng(0).normal(size=(3, 50)) + 1e4).astype(np.float32)
    apart = a.astype(np.float64) - a.astype(np.float64).mean(1, keepdims=True)
    want = 2 * apart / 50 if f is ck.var else apart / 50 / a.astype(np.float64).std(1, keepdims=True)
    spread = lambda x: f(x, axis=1)  # noqa: E731
    got = gradient(ck.fuse(lambda x: spread(x * 1)) if fused else spread, ck.asarray(a))
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-8)
