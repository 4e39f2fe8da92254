"""``fuse`` with matrix products: on tensor cores in one launch, elsewhere the library's product and one kernel."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from nn_support import close, sized

import cukern as ck
from cukern import dtypes
from cukern.array.layout import fresh_layout
from cukern.array.operators import FUNCTIONS
from cukern.elementwise.graph import Expr, input_node
from cukern.elementwise.program import program
from cukern.launch.family import STAND_IN
from cukern.linear import epilogue
from cukern.linear.families import PRODUCT
from cukern.linear.few_rows import FewRows
from cukern.linear.library import Library
from cukern.linear.problem import Product
from cukern.linear.tma import Tma
from cukern.linear.variants import OneLaunch, ProductPlan, Simt, TensorCores
from cukern.testing import assert_close, gradcheck

SMALL = TensorCores(*TensorCores.tiles[-1])
#: Roundings of an expression after the library's product, which is rounded to a half type first.
LIBRARY = {"float16": 2, "bfloat16": 2, "float32": None, "float64": None}


@ck.fuse
def hidden(x: ck.Array, w: ck.Array, b: ck.Array, r: ck.Array) -> ck.Array:
    return ck.gelu(x @ w + b) + r


@ck.fuse
def kept(x: ck.Array, w: ck.Array, b: ck.Array, scale: float) -> ck.Array:
    return ck.relu(x @ w * scale + b)


def random(dtype: str, *shape: int) -> ck.Array:
    rng = np.random.default_rng(sum(shape) + len(shape))
    return ck.asarray(rng.standard_normal(shape)).astype(dtype)


def gelu(x: np.ndarray) -> np.ndarray:
    return ck.gelu(ck.asarray(x)).numpy()


@pytest.fixture
def own(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of programs that ran on tensor cores; all that the kernel takes runs there, on the host too."""
    ran: list[str] = []
    run = ProductPlan.run_all

    def counted(plan: ProductPlan, *given: Any) -> list[ck.Array]:
        ran.extend(re.findall(r"__launch_bounds__\(threads\) ([a-z]+)_", plan.source))
        return run(plan, *given)

    monkeypatch.setattr(ProductPlan, "run_all", counted)
    with PRODUCT.only("tensor cores", "library", **dataclasses.asdict(SMALL)):
        yield ran


@pytest.fixture
def apart(device: ck.Device) -> Iterator[None]:
    """Products are the library's, and what follows is a kernel of its own."""
    with PRODUCT.only("library"):
        yield


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_values(apart: None, dtype: str) -> None:
    arrays = [random(dtype, *shape) for shape in ((2, 9, 16), (16, 24), (24,), (9, 24))]
    close(hidden(*arrays), sized(lambda x, w, b, r: gelu(x @ w + b) + r, *arrays), LIBRARY[dtype])


def test_the_product_and_one_kernel(apart: None, launches: list[str]) -> None:
    arrays = [random("float64", *shape) for shape in ((3, 4), (4, 5), (5,), (3, 5))]
    launches.clear()
    with ck.Tape() as tape:
        tape.watch(*arrays)
        y = hidden(*arrays)
    assert launches == ["hidden"]
    tape.gradient(y, arrays)
    assert launches == ["hidden", "hidden_vjp", "sum"]  # and the library's products


@pytest.mark.parametrize(
    "shapes",
    [((3, 4), (4, 2)), ((2, 3, 4), (4, 2)), ((3, 4), (2, 4, 2)), ((2, 1, 3, 4), (3, 4, 2)), ((4,), (4, 2))],
    ids=str,
)
def test_derivatives_to_second_order(device: ck.Device, shapes: tuple[tuple[int, ...], ...]) -> None:
    x, w = (random("float64", *shape) for shape in shapes)
    y = x.numpy() @ w.numpy()
    b, r = random("float64", 2), random("float64", *y.shape[:-1], 1)
    close(hidden(x, w, b, r), sized(lambda x, w, b, r: gelu(x @ w + b) + r, x, w, b, r))
    assert gradcheck(hidden, [x, w, b, r], order=2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_one_launch_on_tensor_cores(device: ck.Device, own: list[str], dtype: str) -> None:
    arrays = [random(dtype, *shape) for shape in ((2, 9, 16), (16, 24), (24,))]
    with ck.Tape() as tape:
        tape.watch(*arrays)
        y = kept(*arrays, 0.5)
    assert own == ["kept"]
    close(y, sized(lambda x, w, b: np.maximum(x @ w * 0.5 + b, 0), *arrays))
    assert "mma<T>" in kept.source(*arrays, 0.5)
    g = random(dtype, *y.shape)
    dx, dw, db = tape.gradient(y, arrays, g)
    down = np.where(y.numpy().astype(float) > 0, g.numpy().astype(float), 0)
    close(db, sized(lambda g: g.sum((0, 1)), down))
    close(dx, sized(lambda g, w: 0.5 * g @ w.T, down, arrays[1]))
    close(dw, sized(lambda x, g: (0.5 * np.swapaxes(x, -1, -2) @ g).sum(0), arrays[0], down), 2)


@pytest.mark.parametrize("recompute", [False, True], ids=["", "recompute"])
def test_what_the_derivative_reads_is_saved_by_the_same_launch(
    device: ck.Device, own: list[str], launches: list[str], recompute: bool
) -> None:
    """GELU's derivative reads the product, which the launch saves under a tape, unless all is recomputed."""
    arrays = [random("bfloat16", *shape) for shape in ((9, 16), (16, 24), (24,), (9, 24))]
    launches.clear()
    alone = hidden(*arrays)
    found = []
    for function in (hidden, ck.checkpoint(hidden)):
        with ck.Tape(recompute=recompute) as tape:
            tape.watch(*arrays)
            y = function(*arrays)
        assert own == ["hidden", "hidden"]
        assert launches == []
        assert y.tolist() == alone.tolist()
        found.append(tape.gradient(y, arrays))
        assert launches.count("hidden_vjp") == 1
        assert "hidden" not in launches
        launches.clear()
        own[:] = ["hidden"]

    def exact(*own: np.ndarray) -> Any:
        return ck.grad(lambda x, w, b, r: (ck.gelu(x @ w + b) + r).sum(), argnums=(0, 1, 2, 3))(
            *map(ck.asarray, own)
        )

    for first, second, wanted in zip(*found, sized(exact, *arrays), strict=True):
        assert first.tolist() == second.tolist()
        close(first, wanted, 2)


def test_the_product_is_not_saved_where_nothing_reads_it(device: ck.Device, own: list[str]) -> None:
    """The derivative for the last operand alone; and that of a constant product for the bias, which reads it."""
    arrays = [random("bfloat16", *shape) for shape in ((9, 16), (16, 24), (24,), (9, 24))]
    with ck.Tape() as tape:
        tape.watch(arrays[3])
        y = hidden(*arrays)
    assert own == ["hidden"]
    assert tape.gradient(y, arrays[3]).tolist() == ck.ones((9, 24)).tolist()
    with ck.Tape() as tape:
        tape.watch(arrays[2])
        y = hidden(*arrays)
    assert own == ["hidden"] * 2

    def exact(*own: np.ndarray) -> Any:
        return ck.grad(lambda x, w, b, r: ck.sum(ck.gelu(x @ w + b) + r), argnums=2)(*map(ck.asarray, own))

    close(tape.gradient(y, arrays[2]), sized(exact, *arrays), 2)


@ck.fuse
def smooth(x: ck.Array, w: ck.Array, b: ck.Array, scale: float) -> ck.Array:
    return ck.tanh(x @ w * scale) * b


@pytest.mark.unchecked_only("checked ones have kernels for products alone, too")
@pytest.mark.parametrize("function", [kept, smooth], ids=["result", "product"])
def test_second_order_from_tensor_cores(
    device: ck.Device, own: list[str], function: Callable[..., ck.Array]
) -> None:
    """Of a derivative that reads the result, and of one that reads the product."""
    arrays = [random("float16", *shape) for shape in ((8, 16), (16, 8), (8,))]

    def penalty(function: Callable[..., ck.Array]) -> list[ck.Array]:
        def squares(*given: ck.Array) -> ck.Array:
            gradients = ck.grad(lambda *own: ck.tanh(function(*own, 0.5)).sum(), argnums=(0, 1, 2))(*given)
            return ck.sum(gradients[0] ** 2) + ck.sum(gradients[1] ** 2)

        return ck.grad(squares, argnums=(0, 1, 2))(*arrays)

    made = penalty(function)
    assert own[0] == function.__name__
    assert set(own[1:]) == {"product"}  # cotangents that are added to others
    plain = function.__wrapped__  # type: ignore[attr-defined]

    def squares(*given: ck.Array) -> ck.Array:
        gradients = ck.grad(lambda *own: ck.tanh(plain(*own, 0.5)).sum(), argnums=(0, 1))(*given)
        return sum(ck.sum(one**2) for one in gradients)

    wanted = sized(lambda *own: ck.grad(squares, argnums=(0, 1, 2))(*map(ck.asarray, own)), *arrays)
    for one, other in zip(made, wanted, strict=True):
        close(one, other)


def test_layouts_that_the_kernel_cannot_take(device: ck.Device, own: list[str]) -> None:
    x, w, b = random("bfloat16", 9, 15), random("bfloat16", 15, 24), random("bfloat16", 24)
    close(kept(x, w, b, 0.5), sized(lambda x, w, b: np.maximum(x @ w * 0.5 + b, 0), x, w, b), 2)
    assert own == []


def test_one_array_as_both_factors_and_as_an_operand(device: ck.Device, own: list[str]) -> None:
    function = ck.fuse(lambda x, y: ck.relu(x @ x.T + y))
    x = random("float16", 16, 16)
    with ck.Tape() as tape:
        tape.watch(x)
        y = function(x, x)
    assert len(own) == 1
    close(y, sized(lambda x, y: np.maximum(x @ x.T + y, 0), x, x), 2)

    def exact(x: np.ndarray) -> ck.Array:
        return ck.grad(lambda x: ck.relu(x @ x.T + x).sum())(ck.asarray(x))

    close(tape.gradient(y, x), sized(exact, x), 2)
    with ck.Tape() as tape:
        tape.watch(x)
        y = function(ck.stop_gradient(x), x)  # the factors are constants
    close(tape.gradient(y, x), (y.numpy() > 0).astype(float))


def test_several_products(apart: None, launches: list[str]) -> None:
    @ck.fuse
    def gated(x: ck.Array, w: ck.Array, v: ck.Array) -> ck.Array:
        return ck.silu(x @ w) * (x @ v)

    @ck.fuse
    def layers(x: ck.Array, w: ck.Array, v: ck.Array, k: float) -> ck.Array:
        return (ck.tanh(2 * x @ w) @ v.T) * k

    x, w, v = random("float64", 3, 4), random("float64", 4, 5), random("float64", 4, 5)
    p, q = x.numpy() @ w.numpy(), x.numpy() @ v.numpy()
    launches.clear()
    assert_close(gated(x, w, v), p / (1 + np.exp(-p)) * q)
    assert launches == ["gated"]
    assert gradcheck(gated, [x, w, v], order=2)
    v = random("float64", 6, 5)
    launches.clear()
    assert_close(layers(x, w, v, 3.0), 3 * np.tanh(2 * p) @ v.numpy().T)
    assert launches == ["layers"] * 3
    assert gradcheck(lambda x, w, v: layers(x, w, v, 3.0), [x, w, v], order=2)


def test_several_results_share_a_product(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    @ck.fuse
    def parts(x: ck.Array, w: ck.Array, b: ck.Array) -> tuple[ck.Array, ...]:
        y = x @ w
        return y, ck.exp(y + b), ck.mean(y * y), b + 1

    count: list[int] = []
    x, w, b = random("float64", 3, 4), random("float64", 4, 5), random("float64", 2, 1, 5)
    product = FUNCTIONS["matmul"]
    monkeypatch.setitem(FUNCTIONS, "matmul", lambda *own: (count.append(1), product(*own))[1])
    made = parts(x, w, b)
    assert sum(count) == 2  # one of symbols
    y = x.numpy() @ w.numpy()
    for one, exact in zip(made, (y, np.exp(y + b.numpy()), (y * y).mean(), b.numpy() + 1), strict=True):
        assert_close(one, exact)
    assert gradcheck(parts, [x, w, b])


def test_a_fused_function_of_a_transpose(device: ck.Device) -> None:
    inner = ck.fuse(lambda x, w: ck.relu(x @ w.mT))
    outer = ck.fuse(lambda x, w: inner(x, w.mT.mT) + 1)
    x, w = random("float64", 2, 3, 4), random("float64", 2, 5, 4)
    assert_close(outer(x, w), np.maximum(x.numpy() @ np.swapaxes(w.numpy(), -1, -2), 0) + 1)
    assert gradcheck(outer, [x, w])


def test_dtypes_promote(device: ck.Device) -> None:
    x, w = random("float32", 3, 4), random("float64", 4, 2)
    made = ck.fuse(lambda x, w: ck.exp(x @ w))(x, w)
    assert made.dtype == ck.float64
    assert_close(made, np.exp(x.numpy().astype(float) @ w.numpy()))
    ints = ck.fuse(lambda x, w: x @ w + 1)(ck.asarray([[1, 2]]), ck.asarray([[3], [4]]))
    assert ints.dtype == ck.int64
    assert ints.tolist() == [[12]]


def test_empty_axes(device: ck.Device, own: list[str]) -> None:
    for dtype in ("float32", "bfloat16"):
        b = ck.asarray([1.0, -1.0], dtype=dtype)
        made = kept(ck.zeros((3, 0), dtype), ck.zeros((0, 2), dtype), b, 2.0)
        assert made.tolist() == [[1.0, 0.0]] * 3
        assert kept(ck.zeros((0, 8), dtype), ck.zeros((8, 2), dtype), b, 2.0).shape == (0, 2)


def test_a_broadcast_cotangent_and_views(device: ck.Device) -> None:
    x, w, b = random("float64", 6, 8)[::2, ::-2], random("float64", 5, 4).T, random("float64", 10)[::2]
    with ck.Tape() as tape:
        tape.watch(x, w, b)
        y = kept(x, w, b, 0.5)
    _, _, db = tape.gradient(y, (x, w, b), ck.broadcast_to(ck.asarray(np.float64(0.3)), y.shape))
    exact = np.maximum(x.numpy() @ w.numpy() * 0.5 + b.numpy(), 0)
    assert_close(y, exact)
    assert_close(db, 0.3 * (exact > 0).sum(0))


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "shapes": (
        lambda x, w: x @ x,
        ValueError,
        r"matmul: shapes \(2, 3\) and \(2, 3\) do not fit: 3 is not 2",
    ),
    "batches": (
        lambda x, w: x @ w,
        ValueError,
        r"matmul: shapes \(2, 2, 3\) and \(3, 3, 4\) do not broadcast",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refusals(device: ck.Device, case: Any) -> None:
    function, kind, message = case
    shapes = ((2, 2, 3), (3, 3, 4)) if "broadcast" in message else ((2, 3), (3, 4))
    with pytest.raises(kind, match=message):
        ck.fuse(function)(*(ck.ones(shape) for shape in shapes))
    with pytest.raises(ValueError, match=r"matmul: expected at least one axis each"):
        ck.fuse(lambda x, w: x @ w)(ck.ones(()), ck.ones(2))


@pytest.mark.parametrize(
    "swapped",
    [
        lambda w: ck.swapaxes(w, -1, -2),
        lambda w: ck.swapaxes(w, 1, 2),
        lambda w: ck.permute_dims(w, (0, 2, 1)),
        ck.matrix_transpose,
        lambda w: ck.swapaxes(w, 0, 0).mT,
    ],
    ids=["swapaxes", "positive axes", "permute_dims", "matrix_transpose", "no swap"],
)
def test_transposed_factors(device: ck.Device, swapped: Any) -> None:
    """However the last two axes are swapped, the product takes the factor as it lies."""
    x, w = (ck.asarray(np.random.default_rng(size[1]).normal(size=size)) for size in ((2, 4, 5), (2, 6, 5)))
    fused = ck.fuse(lambda x, w: ck.tanh(x @ swapped(w)))
    right = np.tanh(x.numpy() @ w.numpy().swapaxes(1, 2))
    np.testing.assert_allclose(fused(x, w).numpy(), right, rtol=1e-10)
    ck.testing.gradcheck(fused, (x, w))


@pytest.mark.parametrize(
    ("f", "said"),
    [
        (lambda x, w: ck.sum(x) * w, "multiply of sum"),
        (lambda x, w: ck.reshape(x.T, (-1, 3)) @ w + 1, "reshape"),
        (lambda x, w: (x @ w)[0] + w[0], "an index of a product"),
    ],
    ids=["reduced", "reshape", "index"],
)
def test_what_no_kernel_has_is_called(device: ck.Device, f: Any, said: str) -> None:
    given = [ck.asarray(np.random.default_rng(5).normal(size=shape)) for shape in ((2, 3), (3, 4))]
    with pytest.warns(UserWarning, match=said):
        made = ck.fuse(f)(*given)
    np.testing.assert_array_equal(made.numpy(), f(*given).numpy())


def problem(*shapes: tuple[int, ...], dtype: str = "bfloat16", follows: Any = ck.add) -> Product:
    """A product of two factors, the second transposed, and what follows of it and the other operands."""
    a, b, *others = (fresh_layout(ck.Device("host"), dtypes.as_dtype(dtype), one) for one in shapes)
    given = [Expr(input_node(k, a.dtype)) for k in range(1 + len(others))]
    made = None if follows is None else program("made", (follows(*given).node,), (a.dtype,) * len(given))
    return Product(a, b, tuple(others), made, transposed=True)


@pytest.mark.unchecked_only("checked ones leave the library out")
def test_the_predicted_choice() -> None:
    """Fed by tensor maps one launch is faster; otherwise if the result is large beside the arithmetic."""

    def is_faster(
        variant: type[OneLaunch], batch: int, m: int, k: int, n: int, dtype: str = "bfloat16"
    ) -> bool:
        """Than two launches."""
        leading = (batch,) if batch > 1 else ()
        asked = problem((*leading, m, k), (*leading, n, k), (n,), dtype=dtype)
        assert variant.fits(asked, STAND_IN) == ""
        cost = min(one.cost(asked, STAND_IN) for one in variant.configs(asked, STAND_IN))
        return cost < Library().cost(asked, STAND_IN)

    assert not is_faster(TensorCores, 1, 8192, 8192, 8192)
    assert is_faster(Tma, 1, 8192, 8192, 8192)
    assert is_faster(TensorCores, 32, 512, 512, 512)
    assert is_faster(Tma, 1, 16384, 768, 3072)
    assert is_faster(TensorCores, 1, 128, 128, 128)
    assert is_faster(FewRows, 1, 8, 4096, 4096)
    assert is_faster(FewRows, 1, 4, 4096, 4096, dtype="float32")
    # Without an expression the library's product has no kernel after it.
    alone = problem((512, 512), (512, 512), follows=None)
    for variant in (TensorCores, Simt):
        assert variant.fits(alone, STAND_IN) == "nothing follows: compiling it takes longer than it saves"


@pytest.mark.parametrize(
    ("kind", "expression"),
    [
        ("bias", lambda y, b, r: ck.relu(0.5 * y + b)),
        ("bias", lambda y, b, r: ck.where(y > b, y, ck.minimum(ck.abs(y), 3.0))),
        ("matrix", lambda y, b, r: y - r),
        ("function", lambda y, b, r: ck.gelu(y + b) + r),
        ("function", lambda y, b, r: y / b),
    ],
)
def test_kinds_of_what_follows(kind: str, expression: Any) -> None:
    asked = problem((64, 64), (64, 64), (64,), (64, 64) if kind != "bias" else (64, 1), follows=expression)
    assert asked._replace(epilogue=epilogue.of_sum(asked.program, 0)).then == kind
    assert problem((64, 64), (64, 64), follows=None).then == "nothing"


def test_only_gpus_with_tensor_cores_take_the_kernel() -> None:
    older = STAND_IN._replace(compute_capability=(8, 0), max_shared_memory_per_block=163 * 1024)
    asked = problem((128, 128), (128, 128), (128,))
    assert TensorCores.needs == (8, 0)
    found = list(TensorCores.configs(asked, older))
    assert found and not any(one.grouped for one in found)
    assert any(one.grouped for one in TensorCores.configs(asked, STAND_IN))
