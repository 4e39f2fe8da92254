"""How products are put to cuBLAS: in one call each, with addresses and steps that name the right elements."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from gpu_without_one import cublas, cublas_lt, gpu_without_one

import cukern as ck
from cukern.linear import epilogue, measured, tensor_cores
from cukern.linear import plan as products
from cukern.linear import products as operators


def _matrix(address: int, like: Any) -> np.ndarray:
    """The matrix at an address that has the shape, strides and dtype of another."""
    shape, strides = like.shape[-2:], like.strides[-2:]
    size = sum((n - 1) * step for n, step in zip(shape, strides, strict=True)) + like.dtype.itemsize
    return np.ndarray(shape, like.dtype, (ctypes.c_char * size).from_address(address), 0, strides)


@pytest.fixture
def calls() -> Iterator[list[int]]:
    """The sizes of the batches that are multiplied on a GPU that is none, by NumPy from the addresses that it gets."""
    made: list[int] = []

    def prepare(
        xp: Any, a: Any, b: Any, out: Any, batch: int = 1, steps: Sequence[int] = (0, 0, 0)
    ) -> Callable[..., None]:
        def call(*addresses: int) -> None:
            made.append(batch)
            for i in range(batch):
                places = [at + i * step * a.dtype.itemsize for at, step in zip(addresses, steps, strict=True)]
                left, right, to = (_matrix(at, one) for at, one in zip(places, (a, b, out), strict=True))
                to[...] = left @ right

        return call

    def prepare_pointers(xp: Any, a: Any, b: Any, out: Any, batch: int) -> Callable[[int], None]:
        return lambda table: made.append(-batch)

    with gpu_without_one(compiles=False), pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(products, "_prepared", {})
        monkeypatch.setattr(products, "_plans", {})
        # No kernel of this GPU writes anything: copies are NumPy's.
        monkeypatch.setattr(products, "in_order", lambda device, data: data.copy(order="C"))
        monkeypatch.setattr(cublas, "prepare", prepare)
        monkeypatch.setattr(cublas, "prepare_pointers", prepare_pointers)
        monkeypatch.setattr(cublas_lt, "prepare", lambda *args, **options: None)
        yield made


def _random(*shape: int) -> ck.Array:
    return ck.asarray(np.random.default_rng(math.prod(shape)).random(shape, np.float32))


@pytest.mark.parametrize(
    "left, right, batch",
    [
        (lambda: _random(2, 3, 4), lambda: _random(4, 5), 1),
        (lambda: _random(2, 3, 8)[..., :4], lambda: _random(4, 5), 1),
        (lambda: _random(2, 6, 4)[:, ::2], lambda: _random(5, 4).T, 1),
        (lambda: _random(3, 2, 4).transpose(1, 0, 2), lambda: _random(4, 5), 2),
        (lambda: _random(2, 1, 4)[:, :, ::-1], lambda: _random(4, 5), 1),
        (lambda: ck.broadcast_to(_random(1, 1, 4), (3, 1, 4)), lambda: _random(4, 5), 3),
        (lambda: _random(2, 3, 4, 5).transpose(0, 2, 1, 3), lambda: _random(5, 2), 1),
        (lambda: _random(2, 3, 4, 5), lambda: _random(2, 3, 6, 5).mT, 6),
        (lambda: _random(2, 3, 4, 5), lambda: _random(1, 1, 5, 6), 6),
        (lambda: _random(3, 4, 5)[::-1], lambda: _random(3, 5, 2), 3),
    ],
)
def test_a_product_is_one_call(calls: list[int], left: Any, right: Any, batch: int) -> None:
    a, b = left(), right()
    for _ in range(2):  # the second finds the plan of the first
        np.testing.assert_allclose((a @ b).numpy(), a.numpy() @ b.numpy(), rtol=1e-6)
    assert calls == [batch, batch]


@pytest.mark.parametrize("turned", [False, True], ids=["weights", "weights turned"])
@pytest.mark.parametrize("batch", [(), (2,)], ids=["one matrix", "a batch"])
def test_cotangents_of_factors_are_found_by_layouts(
    calls: list[int], monkeypatch: pytest.MonkeyPatch, batch: tuple[int, ...], turned: bool
) -> None:
    """From the second time on without the views that are multiplied."""
    monkeypatch.setattr(operators, "_pulls", {})
    for _ in range(3):
        a, b, g = _random(2, 3, 4), _random(*batch, *((5, 4) if turned else (4, 5))), _random(2, 3, 5)
        with ck.Tape() as tape:
            tape.watch(a, b)
            y = a @ (b.mT if turned else b)
        da, db = (one.numpy() for one in tape.gradient(y, [a, b], g))
        right = b.numpy().mT if turned else b.numpy()
        np.testing.assert_allclose(da, g.numpy() @ right.mT, rtol=1e-5)
        expected = a.numpy().mT @ g.numpy()
        expected = expected if batch else expected.sum(0)
        np.testing.assert_allclose(db, expected.mT if turned else expected, rtol=1e-5)
        monkeypatch.setattr(operators, "matmul", None)


@pytest.mark.parametrize("shape", [(6, 4), (2, 3, 4)], ids=str)
def test_a_linear_layer_multiplies_by_its_weights_as_they_are(
    calls: list[int], monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]
) -> None:
    monkeypatch.setattr(operators, "_pulls", {})
    monkeypatch.setattr(operators, "_turned", {})
    for turn in range(3):
        x, w, bias, g = _random(*shape), _random(5, 4), _random(5), _random(*shape[:-1], 5)
        with ck.Tape() as tape:
            tape.watch(x, w)
            y = ck.nn.linear(x, w, bias)  # the bias is added by a kernel, which does not run here
        dx, dw = (one.numpy() for one in tape.gradient(y, [x, w], g))
        np.testing.assert_allclose(dx, g.numpy() @ w.numpy(), rtol=1e-5)
        rows = (-1, shape[-1]), (-1, 5)
        left, right = (one.numpy().reshape(size) for one, size in zip((x, g), rows, strict=True))
        np.testing.assert_allclose(dw, right.T @ left, rtol=1e-5)
        assert calls[-3:] == [1, 1, 1]
        if turn:  # what is known by its layouts comes without these
            monkeypatch.setattr(operators, "matmul", None)
            monkeypatch.setattr(epilogue, "matmul", None)


def test_a_batch_of_permuted_operands_is_one_call(calls: list[int]) -> None:
    """Attention's products: heads lie within tokens, so no single step leads from matrix to matrix."""
    q, k = (_random(2, 5, 3, 4).transpose(0, 2, 1, 3) for _ in range(2))
    assert (q @ k.mT).shape == (2, 3, 5, 5)
    assert calls == [-6]


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 4)], ids=str)
def test_the_table_of_addresses(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    steps, bases = rng.integers(-(2**40), 2**40, (3, len(shape))), rng.integers(2**61, 2**62, 3)
    count = math.prod(shape)
    with ck.device("host"):
        table = ck.zeros(3 * count, dtype=ck.uint64)
        bound = products._POINTERS.bind(axes=len(shape))
        batch = np.array([*steps.ravel(), *shape], np.int64).tobytes()
        bound((table, *map(int, bases), batch, count), 1)
    want = [
        int(base) + int(np.dot(place, step))
        for base, step in zip(bases, steps, strict=True)
        for place in np.ndindex(shape)
    ]
    assert table.tolist() == want


def test_tf32_is_the_librarys_for_float32_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind of computing that a prepared product asks for follows the setting at its call."""
    asked: list[int] = []

    class Library:
        @staticmethod
        def cublasGemmStridedBatchedEx(*given: Any) -> int:
            asked.append(given[-2].value)
            return 0

        cublasGemmBatchedEx = cublasGemmStridedBatchedEx

    monkeypatch.setattr(cublas, "_ready", lambda cupy, small: (Library, None))
    for dtype, expected in (("float32", 77), ("float16", 68), ("float64", 70)):
        x = np.ones((2, 2), dtype)
        calls = (
            lambda x=x: cublas.prepare(None, x, x, x)(0, 0, 0),
            lambda x=x: cublas.prepare_pointers(None, x, x, x, 1)(0),
        )
        asked.clear()
        for call in calls:
            call()
            with ck.matmul_precision("tf32"):
                call()
        assert asked == [70 if dtype == "float64" else 68, expected] * 2


def test_a_kernel_of_few_rows_takes_the_librarys_place_where_it_is_faster(
    calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the table of times; for what the kernel cannot take, the library stays."""
    ran: list[Any] = []
    run = tensor_cores.Plan.run
    monkeypatch.setattr(
        tensor_cores.Plan,
        "run",
        lambda plan, *given: (ran.append(plan.bound.rendered.template), run(plan, *given))[1],
    )
    x, w = _random(3, 64), _random(64, 40)
    faster = measured.Times("few rows of float32", 1, 8, 4096, 4096, True, 1, 2, 3)
    slower = faster._replace(own=4)
    for row, wanted in ((None, []), (slower, []), (faster, ["linear/few_rows.cu"])):
        monkeypatch.setattr(measured, "TIMES", () if row is None else (row,))
        monkeypatch.setattr(products, "_plans", {})
        for multiply in (ck.matmul, lambda x, w: ck.einsum("ij,jk->ik", x, w)):
            ran.clear()
            calls.clear()
            assert multiply(x, w).shape == (3, 40)
            assert (ran, len(calls)) == (wanted, 1 - len(wanted))
    ran.clear()
    x[:, 1:] @ w[1:]  # rows begin at any address
    x.astype("float64") @ w.astype("float64")
    assert ran == []


def test_a_fused_product_follows_the_precision_of_its_call(
    calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is remembered of one precision is not taken for another."""
    monkeypatch.setattr(epilogue, "_plans", {})
    monkeypatch.setattr(measured, "TIMES", (measured.Times("tf32", 32, 512, 512, 512, False, 1, 2, 3),))
    ran: list[str] = []
    run = tensor_cores.Plan.run
    monkeypatch.setattr(
        tensor_cores.Plan,
        "run",
        lambda plan, *given: (ran.append(plan.bound.rendered.template), run(plan, *given))[1],
    )
    ended = ck.fuse(lambda x, w: ck.relu(x @ w))
    x, w = _random(4, 40, 64), _random(4, 64, 40)
    for precision, wanted in (("highest", []), ("tf32", ["linear/product_mma.cu"]), ("highest", [])):
        ran.clear()
        calls.clear()
        with ck.matmul_precision(precision):
            ended(x, w)
        assert (ran, len(calls)) == (wanted, 1 - len(wanted))
