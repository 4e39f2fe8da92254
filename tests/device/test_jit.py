"""``jit``: few kernels, the values of operations one by one, and what it repeats without the function's Python."""

from __future__ import annotations

import random
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.array.operators import FUNCTIONS
from cukern.elementwise import trace
from cukern.linear.families import PRODUCT
from cukern.reduction import row_program

Random = np.random.Generator


def heat(u: Any) -> Any:
    """Two steps of the heat equation."""
    for _ in range(2):
        new = u.copy()
        around = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]
        new[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.1 * (around - 4 * u[1:-1, 1:-1])
        u = new
    return u


def made(*shape: int, seed: int = 0) -> ck.Array:
    return ck.asarray(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def agree(actual: Any, desired: Any) -> None:
    for x, y in zip(ck.tree.leaves(actual), ck.tree.leaves(desired), strict=True):
        assert x.dtype == y.dtype and x.shape == y.shape
        np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=2e-5, atol=2e-6)


def count(function: Callable[..., Any], *args: ck.Array) -> int:
    return len(ck.jit(function).launches(*args))


def sobel(x: Any) -> Any:
    across = (x[:-2, 2:] + 2 * x[1:-1, 2:] + x[2:, 2:]) - (x[:-2, :-2] + 2 * x[1:-1, :-2] + x[2:, :-2])
    down = (x[2:, :-2] + 2 * x[2:, 1:-1] + x[2:, 2:]) - (x[:-2, :-2] + 2 * x[:-2, 1:-1] + x[:-2, 2:])
    return ck.sqrt(across * across + down * down)


def loop(x: Any) -> Any:
    z = x * 0
    for _ in range(8):
        z = ck.where(z * z < 4, z * z + x, z)
    return z


def two(x: Any) -> Any:
    return ck.exp(x) + 1, (x * 2).T, x[1:] - x[:-1]


#: Programs, and the launches that each takes.
PROGRAMS: dict[str, tuple[Callable[..., Any], int]] = {
    "a stencil": (sobel, 1),
    "a loop": (loop, 1),
    "steps that write a part": (heat, 4),
    "several results": (two, 2),
    "what a reduction reads": (lambda x: ck.sum(ck.exp(x) * 2, axis=1), 1),
    "rows": (lambda x: (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True), 3),
    "what follows a product": (lambda x: ck.relu(x[:3] @ x.T + 1), 1),
    "a product that is returned, too": (lambda x: (lambda y: (y, ck.relu(y + 1)))(x[:3] @ x.T), 2),
    "what follows a product is returned, too": (lambda x: (lambda y: (y, ck.relu(y)))(x[:3] @ x.T + 1), 2),
    "a product that several read": (lambda x: (lambda y: (ck.exp(y), (y + x).mean()))(x @ x.T), 3),
    "what follows each of several products": (lambda x: ck.tanh(ck.tanh(x[:3] @ x.T) @ x + x[:3]), 2),
    "a rolled array": (lambda x: x + ck.roll(x, 1, 0) * 2, 2),
    "joined arrays": (lambda x: ck.exp(ck.concat([x[:5] * 2, x, x.astype("float64")], axis=0)), 2),
    "stacked arrays": (lambda x: ck.stack([x + 1, x.T], axis=1) * 2, 1),
    "a value that is shared": (lambda x: (lambda y: (y, y @ y.T, y + 1))(ck.tanh(x) * x + 1), 3),
    "broadcast": (lambda x: ck.broadcast_to(x[0], x.shape) + ck.broadcast_to(x[:, :1], x.shape), 1),
    "another shape": (lambda x: (x * 2).reshape(-1)[3:] + 1, 1),
}


#: Of products that an expression ends, which traces hold back for one launch with it.
HELD_BACK = pytest.mark.unchecked_only("checked launches compute products at once")


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=HELD_BACK if one.startswith("what follows") else ()) for one in PROGRAMS]
)
def test_values_and_kernels(device: ck.Device, name: str) -> None:
    function, kernels = PROGRAMS[name]
    x = made(20, 20)
    assert count(function, x) == kernels
    jitted = ck.jit(function)
    for seed in range(4):
        y = made(20, 20, seed=seed)
        agree(jitted(y), function(y))


def test_large_arrays_are_written_by_parts(device: ck.Device) -> None:
    """The border is copied, the rest computed: nothing is written twice."""
    x = made(520, 520)
    kernels = ck.jit(heat).launches(x)
    assert sorted(np.prod(one.outputs[0].shape) for one in kernels)[-2:] == [518 * 518] * 2
    assert sum(np.prod(one.outputs[0].shape) for one in kernels) == 2 * 520 * 520
    agree(ck.jit(heat)(x), heat(x))

    def wave(u: Any) -> Any:
        return 2 * u + sum(ck.roll(u, k, axis) for k in (1, -1) for axis in (0, 1))

    def padded(u: Any) -> Any:
        p = ck.pad(u, 1)
        return p[2:, 1:-1] + p[:-2, 1:-1] - 4 * u

    outputs = [one for launched in ck.jit(padded).launches(x) for one in launched.outputs]
    assert sum(np.prod(one.shape) for one in outputs) == 520 * 520
    agree(ck.jit(padded)(x), padded(x))
    assert count(lambda u: ck.pad(u, 1), x) == 1

    outputs = [one for launched in ck.jit(wave).launches(x) for one in launched.outputs]
    assert sum(np.prod(one.shape) for one in outputs) == 520 * 520
    jitted = ck.jit(wave)
    for seed in range(3):
        agree(jitted(made(520, 520, seed=seed)), wave(made(520, 520, seed=seed)))


def standardised(x: Any) -> Any:
    mean, deviation = x.mean(axis=1), x.std(axis=1, keepdims=True)
    return mean, (x - mean[:, None]) / deviation, x * 2


def correlation(x: Any) -> Any:
    y = x[::-1]
    a, b = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
    return (a * b).sum(axis=1) / ck.sqrt((a * a).sum(axis=1) * (b * b).sum(axis=1))


def softmax_gradient(x: Any) -> Any:
    with ck.Tape() as tape:
        tape.watch(x)
        e = ck.exp(x - x.max(axis=1, keepdims=True))
        y = e / e.sum(axis=1, keepdims=True)
    return tape.gradient(y, x, x * 2)


def means_that_are_written(x: Any) -> Any:
    x = x + 0
    mean = x.mean(axis=1)
    before = x - mean[:, None]
    product = mean @ mean
    mean[0] = 5
    x[1] = 3
    return before, mean, product, x - x.mean(axis=1)[:, None]


#: Programs of the rows of a matrix, and the reductions and other kernels that each takes.
ROWS: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "several results": (standardised, ["Launch"]),
    "reductions of reductions": (correlation, ["Launch"]),
    "a derivative": (softmax_gradient, ["Launch"]),
    "means of rows along columns": (lambda x: x[:, :20] - x.mean(axis=1), ["Single", "Launch"]),
    "a part of the means": (lambda x: x[1:] - x.mean(axis=1, keepdims=True)[1:], ["Single", "Launch"]),
}


@pytest.mark.parametrize("name", ROWS)
def test_reductions_of_rows_are_one_kernel(device: ck.Device, name: str) -> None:
    function, steps = ROWS[name]
    x = made(20, 40)
    with trace.Trace("rows", [x]) as active:
        found = function(x)
        active.settle(ck.tree.leaves(found))
    agree(found, function(x))
    assert [type(one).__name__ for one in active.script.steps] == steps
    jitted = ck.jit(function)
    for seed in range(3):
        agree(jitted(made(20, 40, seed=seed)), function(made(20, 40, seed=seed)))


def numbers_of(function: Callable[..., Any], *args: ck.Array) -> Any:
    """The results of a jitted function by its third call, by its launches."""
    jitted = ck.jit(function)
    return [jitted(*args).numpy() for _ in range(3)][-1]


def test_products_joins_and_gathers_against_numpy(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, w, b = made(3, 20), made(20, 20, seed=1), made(20, seed=2)
    index = rng.integers(-3, 3, 7)
    a, c, d = (one.numpy().astype(np.float64) for one in (x, w, b))

    def layer(x: Any, w: Any, b: Any) -> Any:
        return x + ck.tanh(x @ w.T + b)

    wanted = a + np.tanh(a @ c.T + d)
    np.testing.assert_allclose(numbers_of(layer, x, w, b), wanted, rtol=1e-5, atol=2e-6)
    with monkeypatch.context() as patch:
        patch.setitem(FUNCTIONS, "product_plan", lambda *args: None)
        assert len(ck.jit(layer).launches(x, w, b)) == 2
        np.testing.assert_allclose(numbers_of(layer, x, w, b), wanted, rtol=1e-5, atol=2e-6)
    found = numbers_of(lambda x, b: ck.concat([ck.exp(x), ck.stack([b, b * 2])], axis=0) + b, x, b)
    np.testing.assert_allclose(found, np.concatenate([np.exp(a), [d, d * 2]]) + d, rtol=1e-5)
    found = numbers_of(lambda x, i: ck.take(x, i, axis=0).sum(axis=1) + x[i, 2], x, ck.asarray(index))
    np.testing.assert_allclose(found, a[index].sum(axis=1) + a[index, 2], rtol=1e-5, atol=1e-6)


@HELD_BACK
def test_what_has_been_computed_of_a_product_is_read(device: ck.Device) -> None:
    def both(x: ck.Array, w: ck.Array) -> tuple[ck.Array, ck.Array]:
        y = x @ w + 1
        return y, ck.relu(y)

    first, second = ck.jit(both).launches(made(8, 6), made(6, 4))
    assert [one.shape for one in first.inputs] == [(8, 6), (6, 4)]
    assert [one.shape for one in second.inputs] == [(8, 4)]


def distances(x: Any, c: Any) -> Any:
    return (x * x).sum(axis=1)[:, None] - 2 * (x @ c.T) + (c * c).sum(axis=1)[None]


#: Reductions of what follows a product, and the launches: of two sums of squares, and of what they read.
REDUCED: dict[str, tuple[Callable[..., Any], list[str]]] = {
    "of rows": (lambda xp, d: d().min(axis=1), ["min_multiply_subtract_add"]),
    "with its axis": (lambda xp, d: xp.exp(-d()).sum(axis=1, keepdims=True), ["sum_add_negative_exp"]),
    "read by a function": (lambda xp, d: xp.sqrt(d().max(axis=1)), ["max_multiply_subtract_add", "sqrt"]),
    "reduced again": (lambda xp, d: d().min(axis=1).mean(), ["min_multiply_subtract_add", "mean"]),
    "several": (
        lambda xp, d: (lambda d: (d.min(axis=1), d.max(axis=1)))(d()),
        ["matmul", "multiply_subtract_add"],
    ),
    "read beside it": (
        lambda xp, d: (lambda d: d - d.max(axis=1, keepdims=True))(d()),
        ["matmul", "multiply_subtract_add"],
    ),
    "of columns": (lambda xp, d: d().min(axis=0), ["matmul", "min"]),
    "of all": (lambda xp, d: d().max(), ["matmul", "max"]),
}


@HELD_BACK
@pytest.mark.parametrize("name", REDUCED)
def test_reductions_of_what_follows_a_product(device: ck.Device, name: str) -> None:
    end, launches = REDUCED[name]
    rng = np.random.default_rng(0)
    x, c = (ck.asarray(rng.standard_normal(shape, np.float32)) for shape in ((40, 8), (33, 8)))
    with PRODUCT.only("panels", "library"):
        jitted = ck.jit(lambda x, c: end(ck, lambda: distances(x, c)))
        assert [one.name for one in jitted.launches(x, c)] == ["sum", "sum", *launches]
        for y, wanted in zip(
            ck.tree.leaves([jitted(x, c) for _ in range(3)]),
            ck.tree.leaves(
                [end(np, lambda: distances(*(one.numpy().astype(np.float64) for one in (x, c))))] * 3
            ),
            strict=True,
        ):
            np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-4, atol=1e-5)


@HELD_BACK
def test_memory_of_a_product_is_given_back(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FUNCTIONS, "product_plan", lambda *args: None)
    x = made(20, 20)
    with trace.Trace("products", [x]) as active:
        y = ck.tanh(x @ x + 1)
        z = ck.exp(y)
        assert y._operand and len(active._products) == 2  # z waits, and reads both
        del z
        assert not active._products
        y += 1
    agree(y, ck.tanh(x @ x + 1) + 1)


def test_products_have_the_precision_of_their_place(device: ck.Device) -> None:
    def f(x: ck.Array) -> ck.Array:
        with ck.matmul_precision("tf32"):
            return x @ x + 1

    x = made(20, 20)
    assert "another precision" in ck.jit(f).explain(x)
    agree(ck.jit(f)(x), f(x))


def test_means_are_written(device: ck.Device) -> None:
    jitted = ck.jit(means_that_are_written)
    for seed in range(3):
        x = made(20, 40, seed=seed)
        agree(jitted(x), means_that_are_written(x))


def of_gathered(x: Any, index: Any) -> Any:
    """Rows of a matrix, standardised, and what is computed of them and of other rows."""
    rows = ck.take(x, index, axis=0)
    return standardised(rows)[1], rows * x[index[::-1]] + 1


@pytest.mark.parametrize("n", [40, 1100])
def test_rows_in_registers(device: ck.Device, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As threads of a GPU share rows: several rows a block, or a block a row; the host runs them, checked."""
    plans = []

    def as_on_a_gpu(problem: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(row_program.launches, "_style", lambda device: "simt")
            plans.append(make(problem))
        return plans[-1]

    make = row_program._made
    monkeypatch.setattr(row_program, "_made", as_on_a_gpu)
    x = made(17, n, seed=n)
    wanted = standardised(x)
    with ck.testing.checked() if device.kind == "host" else nullcontext():
        agree(ck.jit(standardised)(x), wanted)
        index = ck.asarray(np.random.default_rng(n).integers(-17, 17, 23))
        agree(ck.jit(of_gathered)(x, index), of_gathered(x, index))
    assert [type(one) for one in plans] == [row_program.RowPlan] * 2


def test_gathered_rows_are_read_where_they_are(device: ck.Device) -> None:
    x, index = made(20, 40), ck.asarray([3, -1, 3, 0, 19, -20] * 5)
    kernels = ck.jit(of_gathered).launches(x, index)
    assert "take" not in [one.name for one in kernels]
    jitted = ck.jit(of_gathered)
    for seed in range(4):
        x, index = made(20, 40, seed=seed), index + seed - 2 * seed * (index >= 0)
        agree(jitted(x, index), of_gathered(x, index))
    if device.kind == "host":
        with pytest.raises(IndexError, match="take: index 39 is out of bounds for an axis of size 20"):
            jitted(x, index * 0 + 39)

    def written(x: ck.Array, index: ck.Array) -> Any:
        before = ck.take(x, index, axis=0) * 2
        index += 1
        x[3] = 7
        return before, x[index]

    pairs = [(made(20, 40), ck.asarray([3, 0, -5])) for _ in range(2)]
    for _ in range(3):
        agree(ck.jit(written)(*pairs[0]), written(*pairs[1]))
    ck.testing.gradcheck(
        ck.jit(lambda x: (ck.sin(x[ck.asarray([2, 0, 2])]) ** 2).sum(axis=1)),
        [ck.asarray(np.random.default_rng(0).standard_normal((3, 32)))],
    )


@pytest.mark.parametrize(
    ("dtype", "digits"),
    [
        ("float16", 2e-3),
        pytest.param("bfloat16", 2e-2, marks=pytest.mark.thorough),
        pytest.param("float64", 1e-12, marks=pytest.mark.thorough),
    ],
)
def test_rows_with_infinities(device: ck.Device, dtype: str, digits: float) -> None:
    x = made(20, 33).numpy()
    x[1, 3], x[2, 4], x[3] = np.nan, np.inf, -np.inf
    given = ck.asarray(x).astype(dtype)
    for found, wanted in zip(ck.jit(standardised)(given), standardised(given), strict=True):
        assert found.dtype == wanted.dtype
        values = (one.astype("float64").numpy() for one in (found, wanted))
        np.testing.assert_allclose(*values, rtol=digits, atol=1e-30)


def in_place(x: Any) -> Any:
    """Writes to arrays that wait, and to those of which views wait."""
    z = x * 2
    first, row = z[1:], z[0]
    z += 1
    before = first * 3
    z[0] = 5
    row *= 2
    other = x.copy()
    other *= 2
    other += z
    x[1] = other[0]
    again = x + 1
    return z, first, before, other, again, row


def test_writes_are_seen_by_views_and_by_what_waits(device: ck.Device) -> None:
    x, y = made(6, 5), made(6, 5)
    jitted = ck.jit(in_place)
    for _ in range(3):
        agree(jitted(x), in_place(y))
        agree(x, y)


def test_views_of_what_waits_share_its_memory_as_it_was(device: ck.Device) -> None:
    def written_before(x: Any) -> Any:
        part = (x * 2)[1:]
        x[:3] = 7
        part[:-1] *= -1
        return part

    def view_of_a_view(x: Any) -> Any:
        doubled = x * 2
        part = doubled[1:][::2]
        doubled[...] = part[0]
        part[1] = 5
        return doubled + part[-1]

    for function in (written_before, view_of_a_view):
        jitted = ck.jit(function)
        for i in range(6):
            given = np.arange(5.0) + i
            x = ck.asarray(given.copy(), device=device)
            np.testing.assert_array_equal(jitted(x).numpy(), function(given))
            np.testing.assert_array_equal(x.numpy(), given)


def test_results_share_memory_as_without_jit(device: ck.Device) -> None:
    jitted = ck.jit(lambda x: (doubled := x * 2, doubled[1:], x[1:][::2]))
    for _ in range(4):
        x = ck.asarray([1.0, 2.0, 3.0, 4.0], device=device)
        doubled, part, of_argument = jitted(x)
        part[0] = 7
        of_argument[1] = 9
        assert (doubled.tolist(), x.tolist()) == ([2, 7, 6, 8], [1, 2, 3, 9])


def test_a_rolled_row_is_added_in_place(device: ck.Device) -> None:
    def add(x: ck.Array, row: ck.Array) -> ck.Array:
        y = x * 2
        y += ck.roll(row, 1)
        return y

    x, row = made(2, 300_000), made(300_000, seed=1)
    agree(ck.jit(add)(x, row), add(x, row))


def test_the_same_array_twice(device: ck.Device) -> None:
    jitted = ck.jit(lambda x, y: x - 2 * y)
    x, y = made(4), made(4, seed=1)
    for _ in range(3):
        agree(jitted(x, x), -x)
        agree(jitted(x, y), x - 2 * y)


def test_the_function_is_not_called_again(device: ck.Device) -> None:
    calls = []

    @ck.jit
    def f(x: ck.Array, by: float) -> dict[str, Any]:
        calls.append(by)
        return {"y": ck.exp(x) * by + scale, "by": by, "same": x}

    scale = made(3, seed=1)
    for _ in range(4):
        x = made(3)
        y = f(x, 2.0)
        agree(y["y"], ck.exp(x) * 2 + scale)
        assert y["by"] == 2.0 and y["same"] is x
        scale += 1  # what the function refers to is read anew
    assert calls == [2.0, 2.0]
    agree(f(x, 3.0)["y"], ck.exp(x) * 3 + scale)
    assert calls == [2.0, 2.0, 3.0]


def test_an_argument_to_which_the_function_refers_too(device: ck.Device) -> None:
    x, calls = made(4), []
    part, other = x[:2], made(2, seed=1)

    @ck.jit
    def linear(z: ck.Array) -> ck.Array:
        calls.append(0)
        return z * 3 + part

    for z in (part, x[2:], other):
        for _ in range(5):
            agree(linear(z), z * 3 + part)
    run = len(calls)
    agree(linear(part), part * 4)
    agree(linear(other + 1), (other + 1) * 3 + part)
    assert len(calls) == run


def test_what_differs_from_call_to_call_is_called(device: ck.Device) -> None:
    numbers = iter(range(10))

    @ck.jit
    def f(x: ck.Array) -> ck.Array:
        return x + next(numbers)

    if device.kind == "host":
        assert [f(ck.zeros(1)).item() for _ in range(5)] == [0, 1, 2, 3, 4]

    @ck.jit
    def noise(x: ck.Array) -> ck.Array:
        return x + ck.random.normal(x.shape)

    values = {noise(ck.zeros(1)).item() for _ in range(5)}
    assert len(values) == 5


def test_gradients_within_and_from_outside(device: ck.Device) -> None:
    w, x = made(5, 4), made(6, 5, seed=1)

    def loss(w: ck.Array, x: ck.Array) -> ck.Array:
        return (ck.tanh(x @ w) ** 2).mean() + ck.logsumexp(x @ w, axis=1).sum()

    def step(w: ck.Array, x: ck.Array) -> Any:
        return ck.value_and_grad(loss)(w, x)

    jitted = ck.jit(step)
    for _ in range(4):
        agree(jitted(w, x), step(w, x))
    ck.testing.gradcheck(
        ck.jit(lambda x: ck.sin(x) * x[::-1]), [ck.asarray([0.3, 0.7, 1.1], dtype=ck.float64)], order=2
    )


def test_gradients_are_repeated_without_python(device: ck.Device) -> None:
    """A tape watches aliases of arguments, which are these arguments again later."""
    calls = []

    def step(w: ck.Array, v: ck.Array) -> Any:
        calls.append(1)
        return ck.value_and_grad(lambda w, v: (ck.tanh(w @ v) * w).sum(), argnums=(0, 1))(w, v)

    w, v = made(4, 4), made(4, 4, seed=1)
    for arguments in ([(w, v), (w, v), (v, w)], [(w, w[:]), (w, w[:]), (w, v)]):
        jitted = ck.jit(step)
        for x, y in arguments:
            agree(jitted(x, y), step(x, y))
    jitted = ck.jit(step)
    for _ in range(3):
        calls.clear()
        jitted(w, v)
    assert not calls or device.kind == "cuda"


def test_a_training_step(device: ck.Device) -> None:
    def trained(decorate: Callable[[Any], Any]) -> list[float]:
        rng = np.random.default_rng(0)
        layers = [ck.nn.Linear(4, 8), ck.nn.Linear(8, 1)]
        for layer in layers:
            layer.load_state_dict(
                {k: rng.standard_normal(v.shape) / 4 for k, v in layer.state_dict().items()}
            )
        model = ck.nn.Sequential(layers[0], ck.nn.GELU(), layers[1])
        optimizer = ck.optim.Adam(model.parameters(), lr=0.05)

        @decorate
        def step(x: ck.Array, y: ck.Array) -> ck.Array:
            with ck.Tape() as tape:
                loss = ((model(x) - y) ** 2).mean()
            optimizer.step(tape.gradient(loss, model.parameters()))
            return loss

        return [step(made(16, 4), made(16, 1, seed=1)).item() for _ in range(5)]

    np.testing.assert_allclose(trained(ck.jit), trained(lambda step: step), rtol=2e-5)


def test_new_arrays_are_not_taken_for_those_of_earlier_calls(device: ck.Device) -> None:
    """What no step makes may have the id of an array of the call before, which is gone."""
    for function in (lambda x: ck.take(x, 1, axis=0) * 2, lambda x: ck.stack([x, x + 1]) * 2):
        jitted = ck.jit(function)
        for seed in range(7):
            x = made(4, 5, seed=seed)
            agree(jitted(x), function(x))


def test_a_function_that_writes_what_waiting_arrays_read(device: ck.Device) -> None:
    class Keeps(ck.Function):
        @staticmethod
        def forward(ctx: Any, x: ck.Array) -> ck.Array:
            kept[...] = x
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: ck.Array) -> ck.Array:
            return g * 2

    kept = ck.zeros(3)
    jitted = ck.jit(lambda x: (kept + 1, Keeps.apply(x), kept + 0))
    for k in range(4):
        before, _, after = jitted(ck.full(3, float(k + 1)))
        assert (before.tolist(), after.tolist()) == ([k + 1.0] * 3, [k + 1.0] * 3)


def test_what_is_repeated_keeps_no_array_alive(device: ck.Device) -> None:
    kept: list[weakref.ref[ck.Array]] = []

    @ck.jit
    def f(x: ck.Array) -> dict[str, ck.Array]:
        y = ck.exp(x)
        z = {"z": y @ y.T}
        kept.extend((weakref.ref(y), weakref.ref(z["z"])))
        return z

    for seed in range(3):
        agree(
            f(made(4, 5, seed=seed)), {"z": ck.exp(made(4, 5, seed=seed)) @ ck.exp(made(4, 5, seed=seed)).T}
        )
    assert len(kept) == 4 and not any(one() is not None for one in kept)


def test_what_waits_reads_memory_before_it_is_replaced(device: ck.Device) -> None:
    x = ck.ones(3)

    def f(y: ck.Array) -> ck.Array:
        z = x + 1
        x._replace(y)
        return z

    assert ck.jit(f)(ck.zeros(3)).tolist() == [2.0] * 3


def test_sizes_that_values_decide(device: ck.Device) -> None:
    """The library may read values, as of a mask: only the user may not."""
    jitted = ck.jit(lambda x: x[x > 0] * 2)
    for seed in (0, 0, 0, 1, 2, 3):
        x = made(4, 5, seed=seed)
        agree(jitted(x), x[x > 0] * 2)


def test_gathers_and_sums_of_segments_are_repeated(device: ck.Device) -> None:
    calls = []

    @ck.jit
    def messages(x: ck.Array, source: ck.Array, target: ck.Array) -> ck.Array:
        calls.append(1)
        return ck.segment_sum(ck.tanh(ck.take(x, source, axis=0) * 2 - x[target]), target, 5) + 1

    for seed in range(4):
        x, rng = made(5, 3, seed=seed), np.random.default_rng(seed)
        source, target = (ck.asarray(rng.integers(0, 5, 9)) for _ in range(2))
        agree(messages(x, source, target), messages.__wrapped__(x, source, target))  # type: ignore[attr-defined]
    assert len(calls) == 2 + 4
    if device.kind == "host":
        with pytest.raises(IndexError, match="out of bounds"):
            messages(x, source + 5, target)


#: Functions with kernels of their own, what is launched in a jitted function that adds 1, and by their gradients.
LAYERS: dict[str, tuple[Callable[..., Any], str]] = {
    "layer norm": (lambda x: ck.nn.layer_norm(x, 32), "layer_norm"),
    "RMS norm": (lambda x: ck.nn.rms_norm(x, 32), "rms_norm"),
    "softmax": (ck.softmax, "softmax"),
    "cumulative sum": (lambda x: ck.cumsum(x, axis=1), "cumsum"),
    "order": (lambda x: ck.argsort(x, axis=1), "sort"),
    "attention": (lambda x: ck.nn.attention(x[None], x[None], x[None], causal=True)[0], "attention"),
    "group norm": (lambda x: ck.nn.group_norm(x, 4), "channel_norm"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_kernels_of_layers_are_repeated(device: ck.Device, name: str) -> None:
    function, launched = LAYERS[name]
    calls = []

    @ck.jit
    def f(x: ck.Array) -> ck.Array:
        calls.append(1)
        return function(x.T) + 1

    kernels = f.launches(made(32, 20))
    assert [one.name for one in kernels] == [launched, "add"]
    for seed in range(4):
        x = made(32, 20, seed=seed)
        agree(f(x), function(x.T) + 1)
    assert len(calls) == 3
    if name in ("layer norm", "softmax", "attention", "group norm"):
        gradient = ck.jit(lambda x: ck.grad(lambda x: (function(x) ** 2).sum())(x))
        assert "more at most" in gradient.explain(made(20, 32))
        for seed in range(3):
            x = made(20, 32, seed=seed)
            agree(gradient(x), gradient.__wrapped__(x))  # type: ignore[attr-defined]


def test_errors_leave_nothing_open(device: ck.Device) -> None:
    @ck.jit
    def f(x: ck.Array) -> ck.Array:
        y = x * 2
        kept.append(y)
        raise RuntimeError(f"{y.shape}")

    kept: list[ck.Array] = []
    x = ck.zeros(3)
    with pytest.raises(RuntimeError, match=r"\(3,\)"):
        f(x)
    x += 1
    assert kept[0].tolist() == [0.0] * 3
    assert not trace.deferred.traced_threads
    with pytest.raises(ValueError, match="do not broadcast"):
        ck.jit(lambda x, y: x + y)(ck.zeros(2), ck.zeros(3))
    with pytest.raises(TypeError, match="jit: expected arrays, modules and hashable constants"):
        ck.jit(lambda x, y: x)(ck.zeros(2), {1})


def test_what_later_calls_would_miss_is_said(device: ck.Device) -> None:
    rng = np.random.default_rng(0)
    for function, name in (
        (lambda x: x + rng.integers(2), "rng.integers"),
        (lambda x: x * random.random(), "random.random"),
        (lambda x: x + time.perf_counter(), "time.perf_counter"),
    ):
        with pytest.warns(UserWarning, match=f"calls {name}: if two calls"):
            ck.jit(function)(ck.zeros(1))
    ck.jit(lambda x: x + ck.random.normal(x.shape) + np.float32(1))(ck.zeros(1))

    def steps(x: ck.Array) -> Any:
        yield x + 1

    async def later(x: ck.Array) -> Any:
        return x + 1

    for function, kind in ((steps, "generator"), (later, "coroutine")):
        with pytest.raises(TypeError, match=f"got the {kind} .*{function.__name__}, whose text runs"):
            ck.jit(function)


def test_the_text_and_the_table_show_each_launch(device: ck.Device) -> None:
    @ck.jit
    def f(x: ck.Array, w: ck.Array) -> Any:
        y = (x - x.mean(axis=1, keepdims=True)) @ w
        return ck.tanh(y) * 2, y.sum(axis=0)

    x, w = made(40, 50), made(50, 30)
    text, table = f.source(x, w), f.explain(x, w)
    for name in ("rows_", "tanh_multiply", "matmul"):
        assert name in text
    assert text.count("__global__") == 3
    lines = table.splitlines()
    assert lines.pop() == "memory: 14,000 bytes of arguments, and 12,800 more at most"
    assert len(lines) == 5 and "float32[40,50] float32[50,30]" in lines[2]
    here = f.__wrapped__.__code__.co_firstlineno  # type: ignore[attr-defined]
    assert [line.rsplit(":", 1)[1] for line in lines[1:]] == [str(here + k) for k in (2, 2, 3, 3)]


def test_methods_nested_calls_and_pytrees(device: ck.Device) -> None:
    class Model:
        scale = 3.0

        @ck.jit
        def __call__(self, x: dict[str, ck.Array]) -> ck.Array:
            return inner(x["a"]) * self.scale

    inner = ck.jit(lambda x: x + 1)
    model = Model()
    for _ in range(3):
        agree(model({"a": made(3)}), (made(3) + 1) * 3)


@pytest.mark.thorough
def test_second_derivatives_of_rows(device: ck.Device) -> None:
    x = ck.asarray(np.random.default_rng(0).standard_normal((16, 32)))
    ck.testing.gradcheck(ck.jit(lambda x: standardised(x)[1] * x), [x], order=2)


def test_many_launches_with_large_results(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches one by one and a graph take turns on a GPU before one is chosen; each call's result is its own."""
    monkeypatch.setattr(sys.modules["cukern.jit"], "_SMALL_BYTES", 0)

    @ck.jit
    def f(x: ck.Array, y: ck.Array) -> list[ck.Array]:
        return [ck.cumsum(x * k) + y for k in range(1, 8)]

    kept = []
    for seed in range(12):
        x, y = made(40, seed=seed), made(40, seed=seed + 1)
        kept.append((f(x, y), [np.cumsum(x.numpy() * k) + y.numpy() for k in range(1, 8)]))
    for results, desired in kept:
        for own, wanted in zip(results, desired, strict=True):
            np.testing.assert_allclose(own.numpy(), wanted, rtol=1e-4, atol=1e-4)
