"""How products are put to cuBLAS: in one call each, with addresses and steps that name the right elements."""

from __future__ import annotations

import ctypes
import math
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from emptied import emptied
from gpu_without_one import cublas, cublas_lt, gpu_without_one

import cukern as ck
from cukern.array.layout import fresh_layout
from cukern.linear import blas as products
from cukern.linear import epilogue
from cukern.linear import products as operators
from cukern.linear.families import PRODUCT
from cukern.linear.few_rows import FewRows
from cukern.linear.library import Library, LibraryEpilogue
from cukern.linear.problem import Product
from cukern.linear.tma import Tma


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

    with (
        gpu_without_one(compiles=False),
        PRODUCT.only("library"),
        emptied(products._prepared, operators._pulls, operators._transposed_plans),
        pytest.MonkeyPatch.context() as monkeypatch,
    ):
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
        bound, batch = products._pointers(table.device, shape, steps)
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


def test_a_kernel_of_few_rows_takes_the_librarys_place(calls: list[int]) -> None:
    """For what the kernel cannot take, the library stays."""
    x, w = _random(3, 64), _random(64, 40)
    for names, wanted in ((("library",), Library), (("few rows", "library"), FewRows)):
        with PRODUCT.only(*names) as used:
            for multiply in (ck.matmul, lambda x, w: ck.einsum("ij,jk->ik", x, w)):
                calls.clear()
                assert multiply(x, w).shape == (3, 40)
                assert len(calls) == (wanted is Library)
            assert {type(one) for one in used} == {wanted}
            before = len(used)
            x[:, 1:] @ w[1:]  # rows begin at any address
            x.astype("float64") @ w.astype("float64")
            assert {type(one) for one in used[before:]} == {Library}


@pytest.mark.parametrize(
    ("rows", "chosen"), [(1, "few rows"), (4, "few rows"), (5, "library"), (512, "library")]
)
def test_few_rows_are_predicted_to_be_faster_by_their_kernel(
    calls: list[int], rows: int, chosen: str
) -> None:
    x, w = (fresh_layout(ck.zeros(1).device, ck.float32, one) for one in ((rows, 4096), (4096, 4096)))
    found = {one.variant: one.chosen for one in PRODUCT.choices(Product(x, w))}
    assert [name for name, is_chosen in found.items() if is_chosen] == [chosen]


def test_what_cublas_lt_does_in_one_call_is_a_variant(calls: list[int]) -> None:
    """Where it has an algorithm; else two computations."""
    ended = ck.fuse(lambda x, w, b: ck.relu(x @ w + b))
    given = _random(3, 64), _random(64, 40), _random(40)
    names = ("cuBLASLt with epilogue", "library")
    with PRODUCT.only(*names) as used:
        ended(*given)
    assert ([type(one) for one in used], calls) == ([Library, Library], [1])
    with gpu_without_one(compiles=False), PRODUCT.only(*names) as used:
        given = _random(3, 64), _random(64, 40), _random(40)
        assert ended(*given).shape == (3, 40)
        assert ended.source(*given) == "// One call of cuBLASLt: D = relu(A @ B + bias)"
    assert used == [LibraryEpilogue()]


def test_a_fused_product_follows_the_precision_of_its_call(calls: list[int]) -> None:
    """What is remembered of one precision is not taken for another."""
    ended = ck.fuse(lambda x, w: ck.relu(x @ w.mT))
    x, w = _random(4, 40, 64), _random(4, 40, 64)
    with PRODUCT.only("tma", "library") as used:
        for precision, by_library in (("highest", 1), ("tf32", 0), ("highest", 1)):
            calls.clear()
            with ck.matmul_precision(precision):
                ended(x, w)
            assert len(calls) == by_library
    found = [type(one) for one, of in zip(used, used.problems, strict=True) if of.epilogue is not None]
    assert found == [Library, Tma]


class _CublasLt:
    """cuBLASLt of matrices in the host's memory: descriptions are dicts, a product is NumPy's. It fails in threads
    that have not made a device their current one, as the library does."""

    def __init__(self) -> None:
        self.used: set[threading.Thread] = set()
        self.made: dict[int, dict[Any, Any]] = {}
        self.live: set[int] = set()

    def __getitem__(self, name: str) -> Callable[..., int]:
        does = {"Create": self._create, "Destroy": self._destroy, "SetAttribute": self._set}
        return next(found for end, found in does.items() if name.endswith(end))

    def _create(self, at: Any, *given: Any) -> int:
        at._obj.value = len(self.made) + 1
        self.made[at._obj.value] = {"given": [getattr(one, "value", one) for one in given]}
        self.live.add(at._obj.value)
        return 0

    def _destroy(self, at: Any) -> int:
        self.live.remove(at.value)
        return 0

    def _set(self, at: Any, attribute: int, value: Any, size: Any) -> int:
        assert size.value == ctypes.sizeof(value._obj)
        self.made[at.value][attribute] = value._obj.value
        return 0

    def cublasLtMatmulAlgoGetHeuristic(self, *given: Any) -> int:
        self.preferences = self.made[given[6].value]
        given[8]._obj.workspace, given[9]._obj.value = 64, 1
        return 0

    def _matrices(self, at: int, description: int) -> np.ndarray:
        """By columns, as the library's documentation says."""
        made = self.made[description]
        kind, rows, columns, leading = made["given"]
        dtype = np.dtype({0: np.float32, 1: np.float64}[kind])
        batch, step = made.get(5, 1), made.get(6, 0)
        steps = (step * dtype.itemsize, dtype.itemsize, leading * dtype.itemsize)
        size = (batch - 1) * abs(steps[0]) + (rows - 1) * steps[1] + (columns - 1) * steps[2] + dtype.itemsize
        memory = (ctypes.c_char * size).from_address(at)
        return np.ndarray((batch, rows, columns), dtype, memory, 0, steps)

    def cublasLtMatmul(self, handle: Any, product: Any, *given: Any) -> int:
        _, a, of_a, b, of_b, beta, c, of_c, d, of_d, _, memory, size, stream = given
        assert (of_c, memory, size, stream) == (of_d, 1234, 64, 7)
        if threading.current_thread() not in self.used:
            return 13
        form = self.made[product.value]
        left, right, made = (self._matrices(at, of.value) for at, of in ((a, of_a), (b, of_b), (d, of_d)))
        value = (left.mT if form[3] else left) @ (right.mT if form[4] else right)
        if form[7] & 4:
            row = (ctypes.c_char * (made.shape[1] * made.itemsize)).from_address(form[8])
            value = value + np.frombuffer(row, made.dtype)[:, None]
        factor = np.frombuffer((ctypes.c_char * made.itemsize).from_address(beta.value), made.dtype)[0]
        assert factor in (0, 1)
        if factor:
            value = value + self._matrices(c, of_c.value)
        made[...] = np.maximum(value, 0) if form[7] & 2 else value
        return 0


@pytest.fixture
def lt(monkeypatch: pytest.MonkeyPatch) -> _CublasLt:
    made = _CublasLt()
    device = types.SimpleNamespace(use=lambda: made.used.add(threading.current_thread()))
    monkeypatch.setattr(_CUPY.cuda, "Device", lambda index: device, raising=False)
    monkeypatch.setattr(cublas_lt, "_thread", cublas_lt._Thread())
    monkeypatch.setattr(cublas_lt, "_library", lambda cupy: made)
    monkeypatch.setattr(cublas_lt, "_handle", lambda cupy, index: None)
    monkeypatch.setattr(cublas_lt, "workspace", lambda *given: types.SimpleNamespace(ptr=1234))
    return made


_CUPY = types.SimpleNamespace(
    cuda=types.SimpleNamespace(
        runtime=types.SimpleNamespace(getDevice=lambda: 0),
        get_current_stream=lambda: types.SimpleNamespace(ptr=7),
    )
)


@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)], ids=str)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("added", [(), ("row",), ("matrix", "row"), ("row", "matrix")], ids=str)
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_cublas_lt_is_told(
    lt: _CublasLt, turned: tuple[bool, bool], added: tuple[str, ...], relu: bool, batch: int, dtype: str
) -> None:
    """Matrices, their turns, batches and what is added, for products whose rows lie apart."""
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(batch, *s)).astype(dtype) for s in ((7, 8), (8, 9)))
    a, b = (
        np.swapaxes(np.swapaxes(x, 1, 2).copy(), 1, 2) if t else x
        for x, t in zip((a, b), turned, strict=True)
    )
    a, out = a[:, :, :5], np.full((batch, 7, 12), np.nan, dtype)[:, :, :9]
    b, rows = b[:, :5], rng.normal(size=(2, 9)).astype(dtype)
    steps = tuple(x.strides[0] // x.itemsize if batch > 1 else 0 for x in (a, b, out))
    call = cublas_lt.prepare(_CUPY, a[0], b[0], out[0], batch, steps, added, relu)
    assert call is not None
    for row in rows:
        matrix = np.full((batch, 7, 12), np.nan, dtype)[:, :, :9]  # whose rows lie as those of the result
        matrix[...] = rng.normal(size=(batch, 7, 9))
        more = [{"row": row, "matrix": matrix}[one] for one in added]
        call(*(x.ctypes.data for x in (a, b, *more, out)))
        exact = a @ b + sum(more)
        np.testing.assert_allclose(out, np.maximum(exact, 0) if relu else exact, rtol=1e-5, atol=1e-6)
    lines = (b.strides[1] if not turned[1] else b.strides[2], a.strides[1] if not turned[0] else a.strides[2])
    apart = [
        math.gcd(16, line, *([x.strides[0]] if batch > 1 else []))
        for line, x in zip(lines, (b, a), strict=True)
    ]
    of_out = math.gcd(16, out.strides[1], *([out.strides[0]] if batch > 1 else []))
    assert [lt.preferences[i] for i in (5, 6, 7, 8)] == [*apart, of_out, of_out]
    assert lt.preferences[1] == 0  # so small a product needs no workspace
    del call
    assert lt.live == set()


def test_the_first_call_of_a_thread_makes_the_device_its_own(lt: _CublasLt) -> None:
    x, outs = np.eye(4, dtype=np.float32), [np.zeros((4, 4), np.float32) for _ in range(3)]
    call = cublas_lt.prepare(_CUPY, x, x, outs[0], 1, (0, 0, 0))
    assert call is not None
    call(*(one.ctypes.data for one in (x, x, outs[0])))
    for out in outs[1:]:
        thread = threading.Thread(target=call, args=[one.ctypes.data for one in (x, x, out)])
        thread.start()
        thread.join()
    assert all((out == x).all() for out in outs)
    assert len(lt.used) == 3


def test_cublas_lt_is_left_out_where_it_is_missing_or_has_no_algorithm(
    lt: _CublasLt, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.ones((4, 4), np.float32)

    def prepared() -> Any:
        return cublas_lt.prepare(_CUPY, x, x, x, 1, (0, 0, 0))

    assert prepared() is not None
    monkeypatch.setattr(lt, "cublasLtMatmulAlgoGetHeuristic", lambda *given: 15)
    assert prepared() is None
    monkeypatch.setattr(lt, "cublasLtMatmulAlgoGetHeuristic", lambda *given: 7)
    with pytest.raises(ck.DeviceError, match="cublasLtMatmulAlgoGetHeuristic failed with status 7"):
        prepared()
    monkeypatch.setattr(cublas_lt, "_library", lambda cupy: None)
    assert prepared() is None
    monkeypatch.undo()
    monkeypatch.setattr(cublas_lt, "major_version", lambda cupy: 1)
    assert cublas_lt._library.__wrapped__(_CUPY) is None


def test_a_plain_product_is_cublas_lts_where_all_addresses_are_aligned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(cublas, "prepare", lambda *given: lambda *addresses: asked.append("cuBLAS"))

    def prepare(*given: Any, tf32: bool = False) -> Callable[..., None]:
        return lambda *addresses: asked.append("tf32" if tf32 else "exact")

    monkeypatch.setattr(cublas_lt, "prepare", prepare)
    for dtype, fast in (("float32", "tf32"), ("float16", "exact")):
        x = products.Matrix(np.dtype(dtype), (4, 4), (16, 4))
        asked.clear()
        call = products._prepare(None, x, x, x, 1, (0, 0, 0))
        call(16, 32, 48)
        with ck.matmul_precision("tf32"):
            call(16, 32, 48)
        call(16, 36, 48)
        assert asked == ["exact", fast, "cuBLAS"]


@pytest.mark.parametrize(("dtype", "depth"), [("float32", 128), ("complex64", 128), ("bfloat16", 1024)])
def test_products_that_libraries_may_split_have_a_workspace(dtype: str, depth: int) -> None:
    small = partial(cublas.needs_no_workspace, ck.dtypes.as_dtype(dtype), 64, 64)
    assert small(depth, 1) and not small(depth + 1, 1)
    assert small(64, 64) and not small(64, 65)  # 2^24 multiplications
