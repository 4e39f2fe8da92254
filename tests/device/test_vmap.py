"""vmap: against loops over the examples of a batch, and against NumPy, in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from test_every_gradient import CALLS, Call, function_of, leaves, of_cases, placed
from test_namespace import results

import cukern as ck
from cukern.elementwise import costs

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def on_device(device: ck.Device) -> Any:
    with device.activate():
        yield


def made(*shape: int) -> ck.Array:
    return ck.asarray(RNG.standard_normal(shape))


def same(got: Any, expected: Any, rtol: float = 1e-12) -> None:
    """Check trees of results against NumPy's arrays."""
    for one, wanted in zip(ck.tree.leaves(got), ck.tree.leaves(expected), strict=True):
        assert one.shape == wanted.shape
        assert one.dtype == wanted.dtype
        np.testing.assert_allclose(one.numpy(), wanted, rtol=rtol, atol=1e-13)


def looped(f: Callable[..., Any], *arrays: ck.Array) -> Any:
    """The results of each example, stacked by NumPy."""
    each = [f(*(x[i] for x in arrays)) for i in range(arrays[0].shape[0])]
    return ck.tree.map(lambda *one: np.stack([np.asarray(ck.asarray(x).numpy()) for x in one]), *each)


def agree(f: Callable[..., Any], *arrays: ck.Array, rtol: float = 1e-12) -> None:
    same(ck.vmap(f)(*arrays), looped(f, *arrays), rtol)


FUNCTIONS: dict[str, Callable[[ck.Array, ck.Array], Any]] = {
    "elementwise": lambda x, y: ck.where(x > y, ck.sin(x) * 2, y**2),
    "of other ranks": lambda x, y: x[0] * y + x.sum() + ck.ones((2, 1, 3)) * x,
    "fused": lambda x, y: ck.fuse(lambda a, b: a[1:] * b[:-1] + ck.exp(a[0]))(x, y),
    "fused with a product": lambda x, y: ck.nn.linear(x, ck.ones((2, 3)) + y, ck.ones(2), activation=ck.tanh),
    "reductions": lambda x, y: (x.sum(), y.max(), ck.var(x * y), ck.argmin(x), ck.any(x > y)),
    "reductions along axes": lambda x, y: (x[:, None] * y).mean(0, keepdims=True) + ck.linalg.norm(x),
    "views": lambda x, y: (x.reshape(1, 3, 1).T, ck.flip(y), x[None, ::2], ck.broadcast_to(y, (2, 3)), x.copy()),
    "products": lambda x, y: (x @ y, x[:, None] @ y[None], ck.outer(x, y) @ x, x @ ck.outer(y, y)),
    "products with one": lambda x, y: (x @ ck.ones((3, 2)), ck.ones((2, 3)) @ y, ck.outer(x, y) @ ck.eye(3)),
    "joins": lambda x, y: (ck.concat([x, y * 2]), ck.stack([x, ck.ones(3)], 1), *ck.unstack(x), *ck.split(y, 3)),
    "lists": lambda x, y: ck.asarray([x[0], 2.0, y.sum()]),
    "indices": lambda x, y: (x[[0, 2, 1]], x[ck.argmax(y)], ck.arange(3.0)[ck.argmax(y)], x[-1], x[y.argsort()]),
    "indices apart": lambda x, y: ck.ones((3, 2, 3))[ck.argsort(x), :, ck.argsort(y)] * ck.outer(x, y)[:, :2],
    "takes": lambda x, y: (ck.take(x, ck.argsort(y)), ck.take_along_axis(x, ck.argsort(y))),
    "diagonals": lambda x, y: (ck.diagonal(ck.outer(x, y)), ck.diag(x), ck.trace(ck.outer(x, y))),
    "updates": lambda x, y: (x.at[1].set(y[0]), x.at[ck.asarray([0, 2, 0])].add(y)),
    "along an axis": lambda x, y: (ck.softmax(x), ck.sort(ck.outer(x, y), axis=0), ck.cumsum(x), ck.roll(y, 1)),
    "flattened": lambda x, y: (ck.sort(ck.outer(x, y), axis=None), ck.cumsum(ck.outer(x, y)), ck.pad(x, (1, 2))),
    "einsum": lambda x, y: ck.einsum("i,j,jk->ik", x, y, ck.outer(y, y)),
    "linear algebra": lambda x, y: ck.linalg.solve(ck.outer(x, x) + ck.eye(3), y) * ck.linalg.det(ck.diag(x) + y),
    "transforms": lambda x, y: (ck.fft.fft(x).real, ck.fft.irfft(ck.fft.rfft(ck.outer(x, y), axis=0), 3, axis=0)),
    "losses": lambda x, y: ck.nn.cross_entropy(ck.outer(x, y), ck.argsort(x)),
    "norms": lambda x, y: ck.nn.layer_norm(ck.outer(x, y), 3, y, x) + ck.nn.rms_norm(x, 3, ck.ones(3)),
    "without a rule": lambda x, y: ck.interp(x, ck.arange(3.0), y) * x,
    "control": lambda x, y: ck.cond(x.sum() > 0, lambda: x, lambda: y),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_those_of_a_loop(name: str) -> None:
    agree(FUNCTIONS[name], made(4, 3), made(4, 3))


DIFFERENTIABLE = [name for name in FUNCTIONS if name not in ("indices apart", "control")]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradients_within_and_around_to_second_order(name: str) -> None:
    """The inner gradient of each order is that of a loop; the outer one adds up what it does for each example."""
    x, y = made(2, 3), made(2, 3)

    def loss(x: ck.Array, y: ck.Array) -> ck.Array:
        floats = [one for one in ck.tree.leaves(FUNCTIONS[name](x, y)) if one.dtype == ck.float64]
        return sum((ck.sin(one + 1).sum() for one in floats), ck.zeros((), "float64"))

    agree(ck.grad(loss, (0, 1)), x, y, rtol=1e-8)
    second = ck.grad(lambda x, y: (ck.grad(loss)(x, y) ** 2).sum(), (0, 1))
    agree(second, x, y, rtol=1e-7)
    around = ck.grad(lambda x, y: ck.vmap(loss)(x, y).sum(), (0, 1))(x, y)
    same(around, looped(ck.grad(loss, (0, 1)), x, y), rtol=1e-8)
    between = ck.grad(lambda x, y: (ck.vmap(ck.grad(loss))(x, y) ** 2).sum(), (0, 1))(x, y)
    same(between, looped(second, x, y), rtol=1e-7)


@pytest.mark.parametrize("name", ["elementwise", "products", "along an axis", "indices", "joins", "norms"])
def test_jacobians_and_hessians_are_mapped(name: str) -> None:
    """They are maps of pullbacks themselves, of which a map maps each; they agree with differences of gradients."""
    x, y = made(2, 3), made(2, 3)

    def total(x: ck.Array, y: ck.Array) -> ck.Array:
        floats = [one for one in ck.tree.leaves(FUNCTIONS[name](x, y)) if one.dtype == ck.float64]
        return sum((ck.sin(one + 1).sum() for one in floats), ck.zeros((), "float64"))

    hessians = ck.vmap(ck.hessian(total))(x, y)
    directions = np.eye(3) * 1e-6
    for k, direction in enumerate(directions):
        ahead, behind = (looped(ck.grad(total), x + ck.asarray(sign * direction), y) for sign in (1.0, -1.0))
        np.testing.assert_allclose(hessians.numpy()[:, k], (ahead - behind) / 2e-6, rtol=1e-5, atol=1e-7)
    agree(ck.jacobian(ck.grad(total)), x, y, rtol=1e-8)
    agree(lambda x, y: ck.vmap(lambda k: ck.grad(total)(x * k, y))(ck.asarray([1.0, 2.0])), x, y, rtol=1e-8)
    agree(lambda x, y: ck.hvp(lambda x: total(x, y), [x], [y])[1][0], x, y, rtol=1e-8)
    agree(lambda x, y: ck.jvp(lambda x: ck.grad(total)(x, y), [x], [y])[1], x, y, rtol=1e-8)


def test_against_numpy() -> None:
    a, b = RNG.standard_normal((5, 2, 3)), RNG.standard_normal((5, 3))
    got = ck.vmap(lambda a, b: ck.tanh(a @ b).max())(ck.asarray(a), ck.asarray(b))
    np.testing.assert_allclose(got.numpy(), np.tanh(np.einsum("nij,nj->ni", a, b)).max(1), rtol=1e-14)


@pytest.mark.parametrize(("in_axes", "out_axes"), [(0, 0), (1, -1), (-1, 1), ((1, 0), 0), ((-2, None), 2)])
def test_axes(in_axes: Any, out_axes: int) -> None:
    x, y = RNG.standard_normal((4, 4, 2)), RNG.standard_normal((4, 4, 2))
    one, other = in_axes if isinstance(in_axes, tuple) else (in_axes, in_axes)

    got = ck.vmap(lambda x, y: x[:1] + y.sum(), in_axes, out_axes)(ck.asarray(x), ck.asarray(y))
    each = [
        np.take(x, i, one)[:1] + (y if other is None else np.take(y, i, other)).sum()
        for i in range(x.shape[one])
    ]
    same(got, np.stack(each, out_axes))


def test_trees_of_axes_and_of_results() -> None:
    x, y = made(3, 2), made(2, 3)
    f = ck.vmap(
        lambda tree, k: {"sum": tree["a"][0] + tree["b"] * k, "same": tree["c"], "number": 2.0},
        in_axes=({"a": (0,), "b": 1, "c": None}, None),
        out_axes={"sum": 1, "same": None, "number": 0},
    )
    got = f({"a": (x,), "b": y, "c": "text"}, 3.0)
    np.testing.assert_allclose(got["sum"].numpy(), (x.numpy() + y.numpy().T * 3).T)
    assert got["same"] == "text"
    assert got["number"].tolist() == [2.0] * 3
    assert ck.vmap(lambda x, y: x - y)(x, y=x * 2).tolist() == (-x).tolist()
    assert ck.vmap(lambda x: x)(np.ones((2, 1))).tolist() == [[1.0], [1.0]]


def test_nested() -> None:
    x, y = made(2, 3), made(4, 3)
    pairs = ck.vmap(ck.vmap(ck.vecdot, in_axes=(None, 0)), in_axes=(0, None))
    np.testing.assert_allclose(pairs(x, y).numpy(), x.numpy() @ y.numpy().T, rtol=1e-14)
    both = ck.vmap(lambda row: ck.vmap(lambda k: ck.sort(row)[k] * row)(ck.argsort(row)), in_axes=1)(y)
    rows = y.numpy().T
    expected = [[np.sort(row)[k] * row for k in np.argsort(row)] for row in rows]
    same(both, np.asarray(expected))


@pytest.mark.parametrize("size", [0, 1])
def test_small_batches(size: int) -> None:
    x = made(size, 3)
    for name in ("elementwise", "reductions along axes", "indices", "along an axis", "without a rule"):
        got = ck.tree.leaves(ck.vmap(FUNCTIONS[name])(x, x))
        whole = ck.tree.leaves(ck.vmap(FUNCTIONS[name])(made(2, 3), made(2, 3)))
        assert [(one.shape, one.dtype) for one in got] == [((size, *w.shape[1:]), w.dtype) for w in whole]
    if size:
        agree(FUNCTIONS["products"], x, x)


def test_gradients_of_each_example_of_a_model() -> None:
    model = ck.nn.Sequential(
        ck.nn.Linear(3, 4, rng=0, dtype="float64"), ck.tanh, ck.nn.Linear(4, 2, rng=1, dtype="float64")
    )
    x, y = made(5, 3), ck.asarray([0, 1, 1, 0, 1])
    parameters = [ck.asarray(p.numpy()) for p in model.parameters()]

    def loss(parameters: list[ck.Array], x: ck.Array, y: ck.Array) -> ck.Array:
        w, b, v, c = parameters
        return ck.nn.cross_entropy(ck.nn.linear(ck.tanh(ck.nn.linear(x, w, b)), v, c), y)

    mapped = ck.vmap(ck.grad(loss), in_axes=(None, 0, 0))
    got = mapped(parameters, x, y)
    assert mapped.looped == {}
    same(got, looped(lambda x, y: ck.grad(loss)(parameters, x, y), x, y), rtol=1e-10)


def test_layers_of_images() -> None:
    """Convolutions whose weights differ between examples, and are the same; gradients by both."""
    x, w = made(2, 1, 2, 5, 5), made(2, 3, 2, 3, 3)

    def f(x: ck.Array, w: ck.Array) -> ck.Array:
        y = ck.nn.conv2d(x, w, padding=1)
        return ck.nn.avg_pool2d(ck.nn.max_pool2d(ck.relu(y), 2), 2).sum() + (y**2).sum()

    agree(f, x, w, rtol=1e-10)
    agree(ck.grad(f, (0, 1)), x, w, rtol=1e-10)
    mapped = ck.vmap(ck.grad(f, 1), in_axes=(0, None))
    got = mapped(x, w[0])
    assert mapped.looped == {}
    same(got, looped(lambda x: ck.grad(f, 1)(x, w[0]), x), rtol=1e-10)
    summed = ck.grad(lambda w: ck.vmap(f, in_axes=(0, None))(x, w).sum())(w[0])
    np.testing.assert_allclose(summed.numpy(), got.numpy().sum(0), rtol=1e-10)


def test_attention() -> None:
    q, k, v = made(2, 1, 3, 4), made(2, 1, 3, 4), made(2, 1, 3, 4)
    agree(lambda q, k, v: ck.nn.attention(q, k, v, causal=True), q, k, v, rtol=1e-10)
    agree(ck.grad(lambda q, k, v: (ck.nn.attention(q, k, v) ** 2).sum(), (0, 1, 2)), q, k, v, rtol=1e-9)
    bias = made(2, 3, 3)
    agree(lambda bias: ck.nn.attention(q[0], k[0], v[0], bias=bias), bias, rtol=1e-10)


class Cube(ck.Function):
    @staticmethod
    def forward(ctx: Any, x: ck.Array) -> ck.Array:
        assert x.ndim == 1
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, grad: ck.Array) -> ck.Array:
        (x,) = ctx.saved_arrays
        return 3 * x * x * grad


class Whole(ck.Function):
    @staticmethod
    def forward(ctx: Any, x: ck.Array, k: ck.Array) -> ck.Array:
        ctx.save_for_backward(x, k)
        return x * x * k

    @staticmethod
    def backward(ctx: Any, grad: ck.Array) -> tuple[ck.Array, ck.Array]:
        x, k = ctx.saved_arrays
        return 2 * x * k * grad, ck.sum(x * x * grad, -1)

    @staticmethod
    def vmap(size: int, batched: tuple[bool, ...], x: ck.Array, k: ck.Array) -> ck.Array:
        assert (size, batched) == (2, (True, False))
        return Whole.apply(x, k)


def test_functions() -> None:
    x = made(2, 3)
    mapped = ck.vmap(Cube.apply)
    same(mapped(x), x.numpy() ** 3)
    assert mapped.looped == {"apply": 2}
    agree(ck.grad(lambda x: Cube.apply(x).sum()), x)
    agree(ck.grad(lambda x: (ck.grad(lambda x: Cube.apply(x).sum())(x) ** 2).sum()), x)
    own = ck.vmap(Whole.apply, in_axes=(0, None))
    k = ck.asarray(2.0, dtype="float64")
    same(own(x, k), 2 * x.numpy() ** 2)
    assert own.looped == {}
    same(ck.vmap(ck.hessian(lambda x: Whole.apply(x, k).sum()))(x), np.stack([4 * np.eye(3)] * 2))
    with pytest.raises(TypeError, match=r"Mine.vmap: expected a static method"):
        type("Mine", (ck.Function,), {"vmap": lambda size, batched, x: x})


def test_kernels() -> None:
    """A raw kernel writes the memory of one example: the function runs for each."""
    text = """extern "C" __global__ void twice(const float* x, float* y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] = 2 * x[i];
    }"""
    kernel = ck.Kernel(text, name="twice", plain=True)

    def twice(x: ck.Array) -> ck.Array:
        y = ck.empty_like(x)
        kernel(x, y, x.size, grid=1, block=32)
        return y

    mapped = ck.vmap(twice)
    x = ck.asarray([[1.0, 2.0], [3.0, 4.0]])
    assert mapped(x).tolist() == [[2.0, 4.0], [6.0, 8.0]]
    assert sum(mapped.looped.values()) == 2


def test_jit_within_and_around() -> None:
    def f(x: ck.Array, y: ck.Array) -> ck.Array:
        return (ck.sin(x) * y + x.sum())[1:] @ y[:-1] + ck.softmax(x)[0]

    x, y = made(3, 4), made(3, 4)
    gradient = ck.grad(f)
    for g in (f, gradient):
        expected = looped(g, x, y)
        around, within = ck.jit(ck.vmap(g)), ck.vmap(ck.jit(g))
        for _ in range(3):
            same(around(x, y), expected, 1e-11)
            same(within(x, y), expected, 1e-11)
    same(ck.jit(ck.grad(lambda x: ck.vmap(f)(x, y).sum()))(x), looped(gradient, x, y), 1e-11)


def test_joins_and_derivatives_in_jit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits in a trace of arrays is computed at once of batched ones."""
    monkeypatch.setattr(costs, "MANY_BYTES", {"simt": 0, "serial": 0})

    def f(x: ck.Array, y: ck.Array) -> ck.Array:
        return ck.tanh(ck.concat([x * 2, y]))[1:] + 1

    def tangent(x: ck.Array, y: ck.Array) -> ck.Array:
        return ck.jvp(f, [x, y], [y, x])[1]

    def product(x: ck.Array, y: ck.Array) -> ck.Array:
        return ck.hvp(lambda x: (f(x, y) ** 2).sum(), [x], [y])[1][0]

    x, y = made(3, 4, 3), made(3, 4, 3)
    for g in (f, tangent, product, lambda x, y: ck.pad(ck.roll(x, 1), 1) * 2):
        expected = looped(g, x, y)
        for changed in (ck.jit(ck.vmap(g)), ck.vmap(ck.jit(g))):
            for _ in range(3):
                same(changed(x, y), expected, 1e-11)


def test_each_example_draws_its_own() -> None:
    x = made(3, 4)

    def drawn(rng: ck.random.Generator) -> np.ndarray:
        f = ck.vmap(
            lambda x: (
                rng.normal(size=2),
                rng.gamma(2.0),
                ck.nn.dropout(ck.ones(50), 0.5, rng),
                rng.permutation(8),
            )
        )
        return [one.numpy() for one in f(x)]

    first, again = drawn(ck.random.default_rng(0)), drawn(ck.random.default_rng(0))
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
        assert len({row.tobytes() for row in one}) == 3
    grid = ck.vmap(lambda row: ck.vmap(lambda x: ck.random.random())(row))(x).numpy()
    assert grid.shape == (3, 4)
    assert len(set(grid.ravel())) == 12
    rng = ck.random.default_rng(0)
    moved = ck.vmap(lambda x: rng.normal(x, 0.0))(x)
    np.testing.assert_allclose(moved.numpy(), x.numpy())


def branch(x: ck.Array) -> ck.Array:
    return x if x.sum() > 0 else -x


@pytest.mark.parametrize(
    "read",
    [branch, lambda x: float(x[0]), lambda x: x[0].item(), lambda x: x.numpy(), lambda x: np.asarray(x)],
)
def test_reading_a_value_names_the_line_and_what_to_write(read: Callable[..., Any]) -> None:
    with pytest.raises(
        TypeError, match=r"reads values of an array on .*test_vmap.py:\d+.*ck.where or ck.cond"
    ):
        ck.vmap(read)(made(2, 3))


def writes() -> dict[str, Callable[[ck.Array], Any]]:
    def item(x: ck.Array) -> None:
        x[0] = 1.0

    def to_other(x: ck.Array) -> None:
        ck.zeros(3)[...] = x

    def by_index(x: ck.Array) -> None:
        ck.zeros(3)[ck.argmax(x)] = 1.0

    def in_place(x: ck.Array) -> None:
        x += 1

    def other_in_place(x: ck.Array) -> None:
        y = ck.zeros(3, "float64")
        y += x

    def out(x: ck.Array) -> None:
        ck.add(x, 1.0, out=ck.zeros(3, "float64"))

    def copied(x: ck.Array) -> None:
        ck.copyto(ck.zeros(3, "float64"), x)

    return {one.__name__: one for one in (item, to_other, by_index, in_place, other_in_place, out, copied)}


@pytest.mark.parametrize("name", writes())
def test_writing_is_refused(name: str) -> None:
    x = made(2, 3)
    before = x.tolist()
    with pytest.raises(
        TypeError, match=r"on .*test_vmap.py:\d+: an array of .* is one example of a batch, which is neither"
    ):
        ck.vmap(writes()[name])(x)
    assert x.tolist() == before


X = np.ones((2, 3))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ck.vmap(lambda a, b: a)(X, X[0]), ValueError, r"a has 2 along axis 0, b has 3 along axis 0"),
        (lambda: ck.vmap(lambda t, *rest: t)({"u": X}, X[0]), ValueError, r"t\['u'\] has 2 .*args\[1\] has 3"),
        (lambda: ck.vmap(lambda a: a, in_axes=None)(X), ValueError, "expected an argument with an axis"),
        (lambda: ck.vmap(lambda a: a, in_axes=2)(X), ValueError, r"a: shape \(2, 3\) has no axis 2"),
        (lambda: ck.vmap(lambda a: a)(1.0), ValueError, r"a: shape \(\) has no axis 0"),
        (lambda: ck.vmap(lambda a: a)("text"), TypeError, "a: expected an array .* got str"),
        (lambda: ck.vmap(lambda a: a, in_axes=(0, 0))(X), ValueError, r"in_axes: expected an axis, None, or the cont"),
        (lambda: ck.vmap(lambda a: a, in_axes=[0])(X), TypeError, "in_axes: expected an integer, None or a tuple"),
        (lambda: ck.vmap(lambda a: a, out_axes=3)(X), ValueError, r"out_axes: shape \(3,\) has no place 3"),
        (lambda: ck.vmap(lambda a: a, out_axes=None)(X), ValueError, "examples of the batch differ in it"),
        (lambda: ck.vmap(lambda a: (a, a), out_axes=(0, 0, 0))(X), ValueError, "out_axes: expected an axis"),
        (lambda: ck.vmap(lambda a: "text")(X), TypeError, "result: expected an array or a number, got str"),
        (lambda: ck.vmap(lambda a: a[a > 0])(X), TypeError, "an index is a mask .* use ck.where"),
        (lambda: ck.vmap(ck.unique)(np.eye(2) + [[0, 0], [0, 1]] + [[0, 1], [0, 0]]), ValueError, "arrays of shapes"),
    ],
)  # fmt: skip
def test_refusals(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_an_array_that_outlives_its_call_is_refused() -> None:
    kept = []
    ck.vmap(lambda x: (kept.append(x), x)[1])(made(2, 3))
    with pytest.raises(TypeError, match="used after it returned"):
        kept[0].numpy()


def test_printing_shows_the_shape() -> None:
    shown = []
    ck.vmap(lambda x: (shown.append(f"{x} {x!r}"), x)[1])(made(2, 3))
    assert shown[0].startswith("<one of 2 examples: float64, shape (3,)")


# ----- every public function -----

#: Functions that draw, read values or write, which test_each_example_draws_its_own and the tests of refusals are of.
ASIDE = ("random.", "nn.sample_tokens", "arange", "from_dlpack", "put", "place", "copyto", "fill_diagonal")


def probes() -> list[Any]:
    calls = [*CALLS, *(call for call, _ in of_cases())]
    return [call for call in calls if not call.name.startswith(ASIDE)]


def probe(call: Call) -> None:
    """Each floating argument in turn becomes a batch, of values and of gradients."""
    for path, value in leaves((call.args, call.options)):
        value = np.asarray(value, np.float64)
        batch = ck.asarray(np.stack([value, value * 1.003]))

        def f(x: ck.Array, path: Any = path) -> list[ck.Array]:
            args, options = placed((call.args, call.options), path, x)
            return [
                one for one in results(function_of(call.name)(*args, **options)) if isinstance(one, ck.Array)
            ]

        def total(x: ck.Array, f: Any = f) -> ck.Array:
            floats = [one for one in f(x) if one.dtype in ck.dtypes.FLOATS]
            parts = [
                (one * (ck.arange(one.size, dtype=one.dtype).reshape(one.shape) + 1)).sum() for one in floats
            ]
            return sum((one.astype(ck.float64) for one in parts), ck.zeros((), "float64"))

        for g in (f, ck.grad(total)):
            try:
                expected = looped(g, batch)
            except (TypeError, ValueError, IndexError, ck.GradientError):
                continue  # without a batch, too
            for one, wanted in zip(ck.tree.leaves(ck.vmap(g)(batch)), ck.tree.leaves(expected), strict=True):
                np.testing.assert_allclose(
                    one.numpy(), wanted, rtol=1e-5, atol=1e-8, err_msg=f"{call.id} {path}"
                )


PROBES = probes()


@pytest.mark.parametrize("call", PROBES[::12], ids=lambda one: one.id)
def test_some_public_functions(call: Call) -> None:
    probe(call)


@pytest.mark.thorough
@pytest.mark.parametrize("call", PROBES, ids=lambda one: one.id)
def test_every_public_function(call: Call) -> None:
    probe(call)


# ----- random programs -----


def step(rng: np.random.Generator, x: ck.Array, shared: ck.Array) -> ck.Array:
    """A random operation on a matrix of three rows and three columns, whose result is another."""
    operations: list[Callable[[], ck.Array]] = [
        lambda: ck.sin(x) + x[0] * shared,
        lambda: x.T * 0.7,
        lambda: ck.flip(x, int(rng.integers(2))),
        lambda: (x @ shared + shared.T @ x) / 3,
        lambda: x - x.mean(int(rng.integers(2)), keepdims=True),
        lambda: x * ck.max(x, axis=1)[:, None],
        lambda: ck.concat([x[1:], x[:1] * 2]),
        lambda: ck.stack([x[:, 2], shared[0], x.sum(1)], int(rng.integers(2))),
        lambda: x[[2, 0, 0]] * 0.5,
        lambda: x[:, ck.argmax(x[0])][:, None] + x,
        lambda: ck.softmax(x, int(rng.integers(2))),
        lambda: ck.cumsum(x, int(rng.integers(2))) / 3,
        lambda: ck.sort(x, axis=int(rng.integers(2))),
        lambda: ck.take_along_axis(x, ck.argsort(-x, axis=0), axis=0),
        lambda: x.reshape(9)[::-1].reshape(3, 3),
        lambda: ck.where(x > 0, x, shared) * ck.broadcast_to(x[1:2], (3, 3)),
        lambda: x.at[int(rng.integers(3))].set(shared[0]),
        lambda: ck.einsum("ij,kj->ik", x, x) / 3,
    ]
    return operations[int(rng.integers(len(operations)))]()


def program(seed: int) -> None:
    def f(x: ck.Array) -> ck.Array:
        rng = np.random.default_rng(seed)
        for _ in range(5):
            x = step(rng, x, shared)
        return x

    x = ck.asarray(np.random.default_rng(seed).standard_normal((2, 3, 3)))
    shared = ck.asarray(np.linspace(-0.8, 0.9, 9).reshape(3, 3))
    near(ck.vmap(f)(x), looped(f, x))
    gradient = ck.grad(lambda x: ck.cos(f(x)).sum())
    near(ck.vmap(gradient)(x), looped(gradient, x))
    near(ck.grad(lambda x: ck.cos(ck.vmap(f)(x)).sum())(x), looped(gradient, x))
    pairs = ck.vmap(lambda x: ck.vmap(lambda row: f(x * row))(x))(x)
    near(pairs, np.stack([looped(lambda row, one=one: f(one * row), one) for one in x]))


def near(got: ck.Array, expected: np.ndarray) -> None:
    """Programs lose digits where they subtract: errors are measured by the largest number."""
    assert got.shape == expected.shape
    assert np.abs(got.numpy() - expected).max() <= 1e-9 * np.abs(expected).max()


@pytest.mark.parametrize("seed", range(24))
def test_random_programs(seed: int) -> None:
    program(seed)


@pytest.mark.thorough
@pytest.mark.parametrize("block", range(40))
def test_many_random_programs(block: int) -> None:
    for seed in range(100 + 50 * block, 150 + 50 * block):
        program(seed)
