"""A wrong result planted in each family, in every dtype: its own comparison refuses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import comparisons
import convolution_support
import elementwise_support
import numpy as np
import pytest
import test_nn_attention_kernels as attention_tests
import test_nn_cross_entropy as cross_entropy_tests
import test_nn_layer_norm as layer_norm_tests
import test_nn_linear as linear_tests
import test_nn_lltm as lltm_tests
import test_nn_matmul_add_relu as matmul_add_relu_tests
from nn_support import DTYPE_NAMES, Sized, check_equal, close, random, sized

import cukern as ck
from cukern import nn
from cukern.nn.layer_norm.reference import layer_norm_reference
from cukern.testing import assert_close

WIDE = ["float32", "float64"]


def elementwise(dtype: str) -> None:
    row = elementwise_support.ROWS["tanh"]
    values = elementwise_support.operands(row, ck.dtypes.as_dtype(dtype))
    got = row.apply(tuple(map(ck.asarray, values)))
    elementwise_support.check(got, elementwise_support.expected(row, values))


def attention(dtype: str) -> None:
    arrays, _ = attention_tests.given(dtype, (2, 4, 37, 8), (2, 2, 45, 8), (2, 2, 45, 16))
    attention_tests.check_gradients(nn.attention, arrays, ck.arange(16, dtype=dtype) / 8 - 1)


def layer_norm(dtype: str) -> None:
    arrays = [random(i, shape, dtype) for i, shape in enumerate([(5, 3, 37), (37,), (37,)])]
    check_equal(
        lambda x, *own: nn.layer_norm(x, 37, *own),
        lambda x, *own: layer_norm_tests.reference(x, 1, *own),
        arrays,
    )


def rms_norm(dtype: str) -> None:
    arrays = [random(0, (6, 10), dtype), random(1, (10,), dtype)]
    check_equal(
        lambda x, w: nn.rms_norm(x, 10, w, 1e-3),
        lambda x, w: layer_norm_reference(x, 1, w, None, 1e-3, centered=False),
        arrays,
    )


def lltm(dtype: str) -> None:
    check_equal(nn.lltm_cell, lltm_tests.cell_reference, lltm_tests.cell_arrays(3, 5, 7, dtype))


def matmul_add_relu(dtype: str) -> None:
    arrays = [random(0, (2, 9, 13), dtype), random(1, (2, 13, 21), dtype), random(2, (21,), dtype)]
    check_equal(nn.matmul_add_relu, matmul_add_relu_tests.composed, arrays)


def linear(dtype: str) -> None:
    arrays = [random(0, (4, 7), dtype), random(1, (5, 7), dtype), random(2, (5,), dtype)]
    check_equal(nn.linear, linear_tests.composed, arrays)


def embedding(dtype: str) -> None:
    table, places = random(0, (9, 5), dtype), ck.asarray([3, 0, 3, 8])
    check_equal(lambda t: nn.embedding(places, t), lambda t: ck.take(t, places, axis=0), [table])


def dropout(dtype: str) -> None:
    x = random(0, (40, 30), dtype)
    made = nn.dropout(x, 0.25, rng=ck.random.default_rng(0))
    close(made, np.where(made.numpy() != 0, x.numpy().astype(float) / 0.75, 0))


def optimizer(dtype: str) -> None:
    parameter, gradient = nn.Parameter(random(0, (7, 5), dtype)), random(1, (7, 5), dtype)
    wanted = sized(lambda p, g: p - 0.1 * g, parameter, gradient)
    ck.optim.SGD([parameter], lr=0.1).step([gradient])
    close(parameter, wanted)


def draws(dtype: str) -> None:
    made = ck.random.default_rng(0).normal(size=20_000, dtype=dtype).numpy()
    counts = np.histogram(made, [-3, -1, 0, 1, 3])[0] / 20_000
    np.testing.assert_allclose(counts, [0.1573, 0.3413, 0.3413, 0.1573], atol=0.02)


def of(
    function: Callable[..., Any], reference: Callable[..., Any], *shapes: tuple[int, ...]
) -> Callable[[str], None]:
    """Compare a function of random arrays with NumPy's of the same."""

    def compare(dtype: str) -> None:
        arrays = [random(i, shape, dtype) for i, shape in enumerate(shapes)]
        close(function(*arrays), sized(reference, *arrays), 2 if arrays[0].itemsize == 2 else None)

    return compare


def transform(dtype: str) -> None:
    x = random(0, (3, 16), dtype)
    assert_close(ck.fft.fft(x), np.fft.fft(x.numpy().astype(float)), atol=4 * np.finfo(dtype).eps * 4)


def product_of_sparse(dtype: str) -> None:
    dense, other = random(0, (6, 5), dtype), random(1, (5, 3), dtype)
    made = ck.sparse.csr_array(ck.where(dense > 0, dense, 0)) @ other
    close(made, sized(lambda a, b: np.maximum(a, 0) @ b, dense, other))


def convolution(dtype: str) -> None:
    convolution_support.check((2, 3, 7, 6), (4, 3, 3, 3), dtype, padding=1)


def cross_entropy(dtype: str) -> None:
    cross_entropy_tests.check(random(0, (70, 13), dtype), ck.asarray(np.arange(70) % 13))


def squared_solve(library: Any) -> Callable[..., Any]:
    return lambda a, b: library.linalg.solve(a @ a.T, b)


FAMILIES: dict[str, tuple[Callable[[str], None], list[str]]] = {
    "elementwise": (elementwise, DTYPE_NAMES),
    "sum": (of(lambda x: ck.sum(x, 1), lambda x: x.sum(1), (40, 40)), DTYPE_NAMES),
    "variance": (of(lambda x: ck.var(x, 1), lambda x: x.var(1), (40, 40)), DTYPE_NAMES),
    "scan": (of(lambda x: ck.cumsum(x, 1), lambda x: x.cumsum(1), (3, 20)), WIDE),
    "gather": (of(lambda x: ck.take(x, ck.asarray([2, 0]), 1), lambda x: x[:, [2, 0]], (4, 3)), DTYPE_NAMES),
    "sort": (of(lambda x: ck.sort(x, 1), lambda x: np.sort(x, 1), (3, 20)), DTYPE_NAMES),
    "product": (of(ck.matmul, np.matmul, (9, 16), (16, 24)), DTYPE_NAMES),
    "softmax": (
        of(ck.softmax, lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True), (37, 24)),
        DTYPE_NAMES,
    ),
    "matmul_add_relu": (matmul_add_relu, DTYPE_NAMES),
    "linear": (linear, DTYPE_NAMES),
    "lltm": (lltm, DTYPE_NAMES),
    "layer norm": (layer_norm, DTYPE_NAMES),
    "rms norm": (rms_norm, DTYPE_NAMES),
    "attention": (attention, DTYPE_NAMES),
    "convolution": (convolution, DTYPE_NAMES),
    "pooling": (
        of(lambda x: nn.avg_pool2d(x, 2), lambda x: x.reshape(2, 3, 3, 2, 3, 2).mean((3, 5)), (2, 3, 6, 6)),
        DTYPE_NAMES,
    ),
    "cross-entropy": (cross_entropy, DTYPE_NAMES),
    "embedding": (embedding, DTYPE_NAMES),
    "dropout": (dropout, DTYPE_NAMES),
    "optimizer": (optimizer, DTYPE_NAMES),
    "random": (draws, WIDE),
    "fft": (transform, WIDE),
    "linear algebra": (of(squared_solve(ck), squared_solve(np), (3, 3), (3, 2)), WIDE),
    "sparse": (product_of_sparse, WIDE),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_refuses_a_wrong_result(device: ck.Device, family: str) -> None:
    compare, dtypes = FAMILIES[family]
    for dtype in dtypes:
        comparisons.refused.clear()
        compare(dtype)
        assert {what for _, what in comparisons.refused} == set(comparisons.PLANTS)
        for what in comparisons.PLANTS:
            with (
                comparisons.planting(what),
                pytest.raises(AssertionError, match=r"elements differ|Not equal"),
            ):
                compare(dtype)


@pytest.mark.parametrize("ulps", [64, 128])
def test_a_tolerance_of_the_largest_number_is_no_bound(ulps: int) -> None:
    """In bfloat16 64 units of it accept zeros."""
    right = random(0, (9, 13), "bfloat16")
    atol = ulps * 2.0**-7 * float(abs(right).max())
    for compare in (assert_close, np.testing.assert_allclose):
        with pytest.raises(AssertionError, match="the tolerance is no bound"):
            compare(right.numpy(), right.numpy().astype(float), atol=atol)


def test_a_tolerance_that_loses_elements_is_no_bound() -> None:
    right = np.linspace(-1, 1, 101)
    assert_close(right, right, rtol=0, atol=0.09)
    with pytest.raises(AssertionError, match="accept the loss of 20 of 100 elements"):
        assert_close(right, right, rtol=0, atol=0.2)
    with pytest.raises(AssertionError, match="accept zeros"):
        assert_close(right, Sized(right, right).exact, rtol=1, atol=0)
