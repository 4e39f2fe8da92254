"""Fused functions that end with a reduction: values, launches, derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.testing import assert_close, gradcheck

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(3, 4, 5)), RNG.normal(size=(4, 1))


def square_error(x: Any, y: Any) -> Any:
    return (x - y) ** 2


#: The reductions that a fused function may end with, and NumPy's of the values.
ENDS: dict[str, tuple[Any, Any]] = {
    "mean": (ck.mean, np.mean),
    "sum": (ck.sum, np.sum),
    "max": (ck.max, np.max),
    "min": (ck.min, np.min),
    "prod": (ck.prod, np.prod),
    "var": (ck.var, np.var),
    "std": (ck.std, np.std),
    "logsumexp": (
        ck.logsumexp,
        lambda v, axis, keepdims: np.log(np.sum(np.exp(v), axis=axis, keepdims=keepdims)),
    ),
    "any": (lambda v, **o: ck.any(v > 1, **o), lambda v, **o: np.any(v > 1, **o)),
    "argmax": (ck.argmax, np.argmax),
}


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), ()])
@pytest.mark.parametrize("name", ENDS)
def test_values_in_one_launch(
    device: ck.Device, launches: list[str], name: str, axis: Any, keepdims: bool
) -> None:
    ours, numpys = ENDS[name]
    if name == "argmax" and isinstance(axis, tuple):
        pytest.skip("argmax takes one axis")
    f = ck.fuse(lambda x, y: ours(square_error(x, y), axis=axis, keepdims=keepdims))
    got = f(ck.asarray(A), ck.asarray(B))
    want = numpys(square_error(A, B), axis=axis, keepdims=keepdims)
    assert_close(got, want, rtol=1e-12)
    assert len(launches) == 1


@pytest.mark.parametrize(
    ("name", "axis"),
    [  # each reduction over outer and inner axes, and one of each kind over others
        pytest.param(
            name,
            axis,
            marks=() if axis == (0, 2) or name in ("sum", "max", "logsumexp") else pytest.mark.thorough,
        )
        for name in ("mean", "sum", "max", "min", "prod", "var", "std", "logsumexp")
        for axis in (None, 1, (0, 2))
    ],
)
def test_derivatives_to_second_order(device: ck.Device, name: str, axis: Any) -> None:
    ours, _ = ENDS[name]
    f = ck.fuse(lambda x, y: ours(ck.sin(x) * y, axis=axis))
    assert gradcheck(f, [ck.asarray(A[:2, :, :2]), ck.asarray(B)], order=2)


@pytest.mark.parametrize(
    ("name", "count"), [("mean", 1), ("sum", 1), ("logsumexp", 2), ("var", 2), ("std", 2)]
)
def test_the_backward_is_one_kernel(device: ck.Device, launches: list[str], name: str, count: int) -> None:
    """But for those that reduce the values once more."""
    ours, _ = ENDS[name]
    f = ck.fuse(lambda x, y: ours(square_error(x, y)))
    x, y = ck.asarray(A), ck.asarray(RNG.normal(size=A.shape))
    with ck.Tape() as tape:
        tape.watch(x, y)
        value = f(x, y)
    assert len(launches) == 1
    tape.gradient(value, (x, y))
    assert len(launches) == 1 + count


@pytest.mark.parametrize("name", ["max", "min", "prod"])
def test_what_the_derivative_compares_is_kept(device: ck.Device, launches: list[str], name: str) -> None:
    """The values of an extreme are not computed again: they might not equal it."""
    ours, _ = ENDS[name]
    f = ck.fuse(lambda x, y: ours(square_error(x, y)))
    x, y = ck.asarray(A), ck.asarray(RNG.normal(size=A.shape))
    with ck.Tape() as tape:
        tape.watch(x)
        f(x, y)
    assert len(launches) == 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_an_extreme_of_rounded_values_has_a_gradient(device: ck.Device, dtype: str) -> None:
    a, b = (RNG.normal(size=50) for _ in range(2))
    x, y = ck.asarray(a, dtype=dtype), ck.asarray(b, dtype=dtype)
    gradient = ck.grad(ck.fuse(lambda x, y: ck.max(x * y)))(x, y).numpy().astype(np.float64)
    assert np.count_nonzero(gradient) == 1
    assert gradient[np.argmax(a * b)] == y[int(np.argmax(a * b))].item()


def test_a_mean_of_more_values_than_a_half_counts_has_a_gradient(device: ck.Device) -> None:
    gradient = ck.grad(ck.fuse(lambda x: ck.mean(x * 2)))(ck.ones(100_000, dtype="float16"))
    assert_close(gradient, np.full(100_000, 2e-5), dtype="float16", atol=1e-7)
    assert_close(ck.grad(ck.mean)(ck.ones(100_000, dtype="float16")), np.full(100_000, 1e-5), atol=1e-7)


def test_the_backward_of_the_backward_is_one_kernel(device: ck.Device, launches: list[str]) -> None:
    f = ck.fuse(lambda x, y: ck.mean(square_error(x, y)))
    x, y = ck.asarray(A), ck.asarray(RNG.normal(size=A.shape))
    with ck.Tape() as outer:
        outer.watch(x)
        with ck.Tape() as inner:
            inner.watch(x)
            value = f(x, y)
        g = inner.gradient(value, x)
    del launches[:]
    second = outer.gradient(g, x)
    assert len(launches) == 1
    assert_close(second, np.full(A.shape, 2 / A.size))


def test_several_results(device: ck.Device, launches: list[str]) -> None:
    @ck.fuse
    def f(x: ck.Array, scale: float) -> dict[str, ck.Array]:
        y = ck.exp(x * scale)
        return {"y": y, "sum": ck.sum(y), "rows": y.mean(axis=0), "twice": 2 * y}

    made = f(ck.asarray(A), 0.5)
    want = np.exp(A * 0.5)
    assert_close(made["y"], want)
    assert_close(made["twice"], 2 * want)
    assert_close(made["sum"], want.sum(), rtol=1e-12)
    assert_close(made["rows"], want.mean(0), rtol=1e-12)
    assert len(launches) == 3
    assert gradcheck(lambda x: tuple(f(x, 0.5).values()), [ck.asarray(A[0])], order=2)


def test_dtypes(device: ck.Device) -> None:
    f = ck.fuse(lambda x: ck.sum(x * x))
    assert f(ck.asarray([3, 4])).item() == 25
    assert f(ck.asarray([3, 4], dtype="int8")).dtype == ck.int64
    assert f(ck.asarray([True, False])).item() == 1
    g = ck.fuse(lambda x: ck.sum(x * x, dtype="float64"))
    assert g(ck.asarray([1e-3], dtype="float32")).dtype == ck.float64
    # The squares are no float16 on their way into the sum.
    assert ck.fuse(lambda x: ck.mean(x * x))(ck.full((4,), 300.0, "float16")).item() == np.inf
    assert ck.fuse(lambda x: ck.mean(x * x / 300))(ck.full((4,), 300.0, "float16")).item() == 300.0


def test_empty_and_no_axis(device: ck.Device) -> None:
    f = ck.fuse(lambda x: ck.sum(x + 1))
    assert f(ck.zeros((0, 3))).item() == 0.0
    assert f(ck.asarray(2.0)).item() == 3.0
    with pytest.raises(ValueError, match="max: no value"):
        ck.fuse(lambda x: ck.max(x + 1))(ck.zeros(0))


def test_long_reductions_are_cut_into_pieces(device: ck.Device) -> None:
    a, b = RNG.normal(size=(2, 300_000)).astype(np.float32)
    f = ck.fuse(lambda x, y: ck.mean(square_error(x, y)))
    assert_close(f(ck.asarray(a), ck.asarray(b)), np.mean((a.astype(np.float64) - b) ** 2).astype(np.float32))


def test_the_source(device: ck.Device) -> None:
    f = ck.fuse(lambda x, y: ck.mean(square_error(x, y)))
    text = f.source(ck.asarray(A), ck.asarray(B))
    assert text.count("__global__") == 1
    assert "mean_" in text


def test_control_flow_on_shapes(device: ck.Device) -> None:
    @ck.fuse
    def f(x: ck.Array) -> ck.Array:
        return ck.sum(x, axis=0) if x.ndim > 1 else ck.max(x)

    assert f(ck.asarray([[1.0], [2.0]])).tolist() == [3.0]
    assert f(ck.asarray([1.0, 2.0])).item() == 2.0


@pytest.mark.parametrize(
    ("f", "said"),
    [
        (lambda x: ck.sum(x) / 2, "divide of sum"),
        (lambda x: x.mean() + x, "add of mean"),
        (lambda x: ck.exp(ck.sum(x)), "exp of sum"),
        (lambda x: ck.sum(ck.sum(x, axis=0)), "sum of sum, which is not elementwise"),
        (lambda x: ck.fuse(lambda y: y * 2)(ck.sum(x)), "multiply of sum"),
    ],
    ids=["divide", "add", "exp", "sum", "fused"],
)
def test_what_goes_on_from_a_reduction_is_called(device: ck.Device, f: Any, said: str) -> None:
    fused, x = ck.fuse(f), ck.asarray(np.random.default_rng(0).normal(size=(2, 3)))
    with pytest.warns(UserWarning, match=said):
        made, pull = ck.vjp(fused, x)
    right, pull_right = ck.vjp(f, x)
    assert_close(made, right)
    assert_close(*(one(ck.ones(right.shape, right.dtype))[0] for one in (pull, pull_right)))
    assert_close(fused(x), right)  # and it warns once


def test_the_sources_of_a_reduction_in_two_stages() -> None:
    f = ck.fuse(lambda x: ck.mean(x * x))
    with ck.device("host"):
        assert f.source(ck.zeros(300_000)).count("__global__") == 2
        assert f.source(ck.zeros((0, 3))).count("__global__") == 1


def test_fused_functions_that_end_with_a_reduction_compose(device: ck.Device, launches: list[str]) -> None:
    inner = ck.fuse(lambda x: ck.sum(x * x, axis=1))
    outer = ck.fuse(lambda x, y: (inner(x - y), x + y))
    total, both = outer(ck.asarray(A[0]), ck.asarray(B))
    assert_close(total, ((A[0] - B) ** 2).sum(1), rtol=1e-12)
    assert_close(both, A[0] + B)
    assert len(launches) == 2


def test_options_in_a_fused_function(device: ck.Device) -> None:
    mask = A[0] > 0
    f = ck.fuse(lambda x, m: ck.sum(x * x, axis=0, where=m))
    assert_close(f(ck.asarray(A[0]), ck.asarray(mask)), np.sum(A[0] ** 2, axis=0, where=mask), rtol=1e-12)
    g = ck.fuse(lambda x: ck.mean(x > 0, dtype="float32"))
    assert g(ck.asarray(A)).dtype == ck.float32
    h = ck.fuse(lambda x: (ck.var(x, ddof=1), ck.nansum(x), ck.count_nonzero(x > 0), ck.nanmax(x * 2)))
    wants = (A.var(ddof=1), A.sum(), np.count_nonzero(A > 0), 2 * A.max())
    for got, want in zip(h(ck.asarray(A)), wants, strict=True):
        assert_close(got, np.asarray(want), rtol=1e-12)


def test_broadcast_and_zero_dimensional_arguments(device: ck.Device) -> None:
    row, scalar = RNG.normal(size=(1, 5)), np.asarray(0.5)
    f = ck.fuse(lambda x, row, k: ck.mean(ck.tanh(x * row) * k, axis=(0, 1)))
    want = np.mean(np.tanh(A * row) * 0.5, axis=(0, 1))
    assert_close(f(ck.asarray(A), ck.asarray(row), ck.asarray(scalar)), want, rtol=1e-12)
    assert gradcheck(f, [ck.asarray(v) for v in (A[:, :2, :], row, scalar)], order=2)
