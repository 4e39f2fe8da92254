"""Forward mode: tangents beside values, in any nesting with gradients, and rules of users' Functions.

That the tangents of every public function are right is tested where their gradients are: test_every_gradient.
"""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tape_support import f64

import cukern as ck
from cukern.autodiff import forward
from cukern.autodiff.tape import Tape
from cukern.nn import fused
from cukern.testing import assert_close

pytestmark = pytest.mark.usefixtures("device")

X = np.array([0.5, -1.0, 2.0])


def by_pullback(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> ck.Array:
    """The tangent as the derivative of the pullback with respect to the cotangent."""
    value, pullback = ck.vjp(f, *primals)
    zero = ck.zeros(value.shape, dtype=value.dtype)
    _, again = ck.vjp(lambda g: pullback(g), zero)
    (found,) = again(tuple(tangents))
    return found


def along(f: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda x: ck.jvp(f, [x], [ck.ones(x.shape, dtype=x.dtype)])[1]


def by_linearize(f: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda x: ck.linearize(f, x)[1](ck.ones(x.shape, dtype=x.dtype))


def down(f: Callable[..., Any]) -> Callable[[Any], Any]:
    return ck.elementwise_grad(f)


def by_tape(f: Callable[..., Any]) -> Callable[[Any], Any]:
    def gradient(x: Any) -> Any:
        with ck.Tape(persistent=True) as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    return gradient


MODES = (along, by_linearize, down, by_tape)


@pytest.mark.parametrize("modes", list(itertools.product(MODES, repeat=3)))
def test_third_derivatives_in_any_nesting(modes: Sequence[Callable[..., Any]]) -> None:
    def f(x: Any) -> Any:
        return ck.sin(x) * x**2 / (1 + x.reshape((3, 1))[:, 0] ** 2)

    def expected(x: float) -> float:
        """The third derivative from Taylor coefficients, by the discrete Fourier transform on a circle."""
        turns = np.exp(2j * np.pi * np.arange(32) / 32)
        z = x + 0.2 * turns
        return float(6 * (np.sin(z) * z**2 / (1 + z**2) * turns**-3).mean().real / 0.2**3)

    for mode in modes:
        f = mode(f)
    assert_close(f(f64(X)), [expected(x) for x in X])


def test_levels_do_not_see_one_another() -> None:
    x, one = f64(3.0), f64(1.0)

    def inner(x: Any) -> Any:
        return x * ck.jvp(lambda y: x + y, [x], [one])[1]

    assert ck.jvp(inner, [x], [one])[1].item() == 1.0
    assert ck.grad(inner)(x).item() == 1.0
    assert ck.jvp(lambda x: x * ck.grad(lambda y: x * y)(x), [x], [one])[1].item() == 6.0
    assert ck.jvp(lambda x: x * ck.linearize(lambda y: x * y, x)[1](one), [x], [one])[1].item() == 6.0
    # The tangent given to the inner level depends on the outer variable too.
    assert ck.jvp(lambda x: ck.jvp(lambda y: y * y, [x], [x * x])[1], [x], [one])[1].item() == 54.0
    assert ck.grad(lambda x: ck.jvp(lambda y: y * y, [x], [x * x])[1])(x).item() == 54.0


def test_hvp_is_forward_over_reverse_and_reverse_over_forward() -> None:
    w, v = f64(np.linspace(-1, 1, 6).reshape(3, 2)), f64(np.arange(6.0).reshape(3, 2))
    x = f64(np.linspace(0, 1, 12).reshape(4, 3))

    def loss(w: Any) -> Any:
        h = ck.tanh(x @ w)
        return (ck.softmax(h, axis=-1) * h).mean() + ck.logsumexp(h) + (h.max(axis=0) ** 2).sum()

    value, (product,) = ck.hvp(loss, [w], [v])
    assert_close(value, loss(w))
    turned = ck.grad(lambda w: ck.jvp(loss, [w], [v])[1])(w)
    (twice,) = ck.vjp(lambda w: (ck.grad(loss)(w) * v).sum(), w)[1](f64(1.0))
    step = 1e-6
    found = (ck.grad(loss)(w + step * v) - ck.grad(loss)(w - step * v)).numpy() / (2 * step)
    np.testing.assert_allclose(product.numpy(), found, rtol=1e-6, atol=1e-7)
    assert_close(turned, product)
    assert_close(twice, product)


def test_linearize() -> None:
    calls = []

    def f(p: Any, y: Any) -> Any:
        calls.append(1)
        return {"a": ck.sin(p["x"]) * y, "b": (y, ck.ones(2, dtype="float64"), p["x"])}

    p, y = {"x": f64(X)}, f64(3.0)
    value, f_jvp = ck.linearize(f, p, y)
    for tangents in (({"x": f64([1.0, 0.0, 2.0])}, 10.0), ({"x": f64([0.0, 1.0, 0.0])}, f64(1.0))):
        made = f_jvp(*tangents)
        _, want = ck.jvp(f, (p, y), tangents)
        ck.tree.map(assert_close, made, want)
    assert len(calls) == 3
    made = f_jvp({"x": f64([1.0, 1.0, 1.0])}, y)
    made["b"][0][...] = 7.0  # writes to what was returned change neither tangents nor values
    assert y.item() == value["b"][0].item() == 3.0
    with pytest.raises(ValueError, match=r"linearize: tangents\[0\]\['x'\]: expected shape \(3,\) on "):
        f_jvp({"x": f64([1.0])}, y)
    with pytest.raises(TypeError, match="linearize: result: only floating dtypes have gradients, got int64"):
        ck.linearize(lambda x: ck.asarray([1]), f64(X))


def test_linearize_is_differentiable_itself() -> None:
    def f(x: Any) -> Any:
        return ck.linearize(lambda y: y**3, x)[1](x * x)

    assert_close(ck.elementwise_grad(f)(f64(X)), 12 * X**3)
    assert_close(ck.jvp(f, [f64(X)], [f64([1.0, 1.0, 1.0])])[1], 12 * X**3)


def test_tangents_share_no_memory() -> None:
    x, t = f64(X), f64([1.0, 2.0, 3.0])
    _, (first, second, third) = ck.jvp(lambda x: (x, x, ck.zeros(3, dtype="float64")), [x], [t])
    first[0] = second[1] = third[2] = 9.0
    assert_close(t, [1.0, 2.0, 3.0])
    assert_close(second, [1.0, 9.0, 3.0])
    _, again = ck.jvp(lambda x: ck.zeros(3, dtype="float64"), [x], [t])
    assert_close(again, [0.0, 0.0, 0.0])


@pytest.mark.parametrize(
    "f",
    [
        lambda x, y: x * y + x / y,  # (2, 1) with (1, 3)
        lambda x, y: ck.broadcast_to(x, (4, 2, 3)) * y,
        lambda x, y: (x + y).sum(axis=1, keepdims=True) - y.mean(),
        lambda x, y: ck.fuse(lambda a, b: ck.exp(a) * b + 1)(x, y),
        lambda x, y: ck.fuse(lambda a, b: (ck.exp(a) * b).sum(axis=-1))(x, y),
        lambda x, y: ck.concat([ck.broadcast_to(x, (2, 3)), x @ y, ck.ones((1, 3), dtype="float64")]),
        lambda x, y: ck.where(x > 0, x, y) + ck.maximum(x, y),
        lambda x, y: ck.linalg.norm(x @ y) * ck.cumulative_sum(y, axis=1),
        lambda x, y: x.at[0].set(y[0, 1]).at[1].add(y[0, 2:]),
        lambda x, y: (x.astype("float32") * 2).astype("float64") * y.T[ck.asarray([2, 0]), :],
    ],
)
def test_broadcasting_views_and_parts(f: Callable[..., Any]) -> None:
    x, y = f64([[0.5], [-1.5]]), f64([[1.0, 2.0, -2.5]])
    wide = ck.broadcast_to(f64(0.5), (2, 1)), ck.broadcast_to(f64([[1.0]]), (1, 3))  # strides of 0
    for tangents in ((f64([[1.0], [2.0]]), f64([[3.0, -1.0, 0.5]])), wide):
        assert_close(ck.jvp(f, [x, y], tangents)[1], by_pullback(f, [x, y], tangents))
    for of_one, own, tangent in (
        (lambda x: f(x, y), x, [[1.0], [2.0]]),
        (lambda y: f(x, y), y, [[3.0, -1.0, 0.5]]),
    ):
        given = [own], [f64(tangent)]
        assert_close(ck.jvp(of_one, *given)[1], by_pullback(of_one, *given))


def test_complex_numbers() -> None:
    z, t = ck.asarray(np.array([1 + 2j, -0.5j, 2.0])), ck.asarray(np.array([0.5 - 1j, 2.0, 1j]))
    step = 1e-6
    for f in (
        lambda z: z * z * ck.exp(z),
        ck.conj,
        ck.abs,
        lambda z: ck.real(z) * z + ck.imag(z),
        lambda z: z @ ck.conj(z),
        lambda z: (z / 3).sum() * ck.fft.fft(z),
        lambda z: ck.fft.irfft(z),
        lambda z: ck.stack([z, z.real.astype("complex128")]),
    ):
        want = (f(z + step * t) - f(z - step * t)).numpy() / (2 * step)
        np.testing.assert_allclose(ck.jvp(f, [z], [t])[1].numpy(), want, rtol=1e-7, atol=1e-8)
    # From real to complex numbers and back.
    x = f64(X)
    made = ck.jvp(lambda x: ck.abs(ck.exp(x * (1 + 2j))) + ck.fft.ifft(ck.fft.fft(x)).real, [x], [x])[1]
    assert_close(made, np.exp(X) * X + X)


def test_writes_while_tangents_are_computed() -> None:
    x, ones = f64(X), f64([1.0, 1.0, 1.0])

    def f(x: Any) -> Any:
        y = x * x
        y += x
        y *= y
        return y

    assert_close(ck.jvp(f, [x], [ones])[1], 2 * (X**2 + X) * (2 * X + 1))
    assert_close(ck.linearize(f, x)[1](ones), 2 * (X**2 + X) * (2 * X + 1))
    assert_close(along(along(f))(x), 2 * (2 * X + 1) ** 2 + 4 * (X**2 + X))

    def quotient(x: Any) -> Any:
        y = x * x
        y /= x + 3  # its derivative reads the result
        y *= y
        y -= x
        return y

    (product,) = ck.hvp(lambda x: quotient(x).sum(), [x], [ones])[1]
    step = 1e-5
    found = ck.elementwise_grad(quotient)
    assert_close(product, (found(x + step) - found(x - step)) / (2 * step), rtol=1e-6)
    with pytest.raises(ck.GradientError, match="in-place add on an array that a tape tracks"):
        ck.jvp(lambda x: x.__iadd__(1.0), [x], [ones])


def test_integers_and_constants_have_no_tangent() -> None:
    x, index = f64(X), ck.asarray([2, 0])
    value, tangent = ck.jvp(lambda x: x[index] * ck.argsort(x)[0], [x], [x])
    assert_close(tangent, value)
    assert_close(ck.jvp(lambda x: ck.stop_gradient(x) * x, [x], [x])[1], X * X)
    with pytest.raises(TypeError, match=r"primals\[0\]: only floating dtypes have gradients, got int64"):
        ck.jvp(lambda i: i * 1.0, [index], [index])


def test_parameters_that_are_no_primals_are_constants() -> None:
    model, x = ck.nn.Linear(3, 2), ck.ones((1, 3))
    value, tangent = ck.jvp(model, [x], [x])
    assert_close(tangent, value - model.bias, dtype="float32")


# ---- Functions, kernels, checkpoints


class Product(ck.Function):
    """x * y of a pair, and a constant."""

    own: list[tuple[Any, ...]] = []  # noqa: RUF012 - what its rule got

    @staticmethod
    def forward(ctx: Any, pair: Any, scale: float) -> Any:
        ctx.save_for_backward(*pair)
        ctx.scale = scale
        return pair[0] * pair[1] * scale, ck.asarray([1, 2])

    @staticmethod
    def backward(ctx: Any, grad: Any, other: Any) -> Any:
        x, y = ctx.saved_arrays
        return [grad * y * ctx.scale, grad * x * ctx.scale], None


class WithRule(Product):
    @staticmethod
    def jvp(ctx: Any, pair: Any, scale: None) -> Any:
        Product.own.append((*pair, ctx.needs_input_grad))
        x, y = ctx.saved_arrays
        parts = [one * other for one, other in zip(pair, (y, x), strict=True) if one is not None]
        return sum(parts[1:], parts[0]) * ctx.scale, None


@pytest.mark.parametrize("cls", [Product, WithRule])
def test_functions_with_and_without_a_rule(cls: Any) -> None:
    Product.own.clear()
    x, y, t = f64(X), f64([1.0, 2.0, 3.0]), f64([1.0, -1.0, 0.5])

    def f(x: Any, y: Any) -> Any:
        return cls.apply([x, y], 2.0)[0] ** 2

    assert_close(ck.jvp(f, [x, y], [t, y])[1], by_pullback(f, [x, y], [t, y]))
    alone = lambda x: f(x, y)  # noqa: E731
    assert_close(ck.jvp(alone, [x], [t])[1], by_pullback(alone, [x], [t]))
    assert_close(ck.hvp(lambda x: alone(x).sum(), [x], [t])[1][0], 8 * y.numpy() ** 2 * t.numpy())
    assert_close(along(along(alone))(x), 8 * y.numpy() ** 2)
    assert_close(ck.elementwise_grad(along(alone))(x), 8 * y.numpy() ** 2)
    assert bool(Product.own) == (cls is WithRule)
    if cls is WithRule:
        assert Product.own[1][1:] == (None, (True, False))


def test_what_a_rule_must_return() -> None:
    def of(returned: Any) -> Any:
        class Wrong(ck.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return x * 1.0

            @staticmethod
            def jvp(ctx: Any, tangent: Any) -> Any:
                return returned

        return ck.jvp(Wrong.apply, [f64(X)], [f64(X)])[1]

    assert_close(of(None), [0.0, 0.0, 0.0])
    assert_close(of(f64(2.0)), [2.0, 2.0, 2.0])
    for wrong, message in (
        ((f64(X), None), "jvp must return a tangent or None for each of the 1 outputs, returned 2"),
        (f64([1.0, 2.0]), r"output 0: expected a floating array that broadcasts to \(3,\) on .*shape \(2,\)"),
        (ck.asarray([1, 2, 3]), "got an array of int64"),
        (1.0, "got float"),
    ):
        with pytest.raises(ck.GradientError, match=message):
            of(wrong)
    with pytest.raises(TypeError, match=r"Bad.jvp: expected a static method"):

        class Bad(ck.Function):
            def jvp(self, tangent: Any) -> Any:
                return tangent


def test_an_error_is_raised_only_where_its_tangent_is_read() -> None:
    class Once(ck.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @ck.once_differentiable
        def backward(ctx: Any, grad: Any) -> Any:
            return 2 * ctx.saved_arrays[0] * grad

    x = f64(X)
    assert_close(ck.jvp(lambda x: (Once.apply(x), x * 3)[1], [x], [x])[1], 3 * X)
    with pytest.raises(ck.GradientError, match="Once: its backward is marked once_differentiable"):
        ck.jvp(lambda x: Once.apply(x) * 2, [x], [x])
    with pytest.raises(ck.GradientError, match="Once: its backward is marked once_differentiable"):
        ck.hvp(lambda x: Once.apply(x).sum(), [x], [x])


SCALE = 'extern "C" __global__ void scale(const << elem >>* x, << elem >>* y, << index >> n)\n'
SCALE += "{ << index >> i = blockIdx.x * << block_x >> + threadIdx.x; if (i < n) y[i] = 3 * x[i]; }"


def test_kernels_have_tangents_in_functions_alone() -> None:
    kernel = ck.Kernel(SCALE)

    def launched(x: Any) -> Any:
        y = ck.empty_like(x)
        kernel(x, y, x.size)
        return y

    class Scale(ck.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return launched(x)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return Scale.apply(grad)

    x = f64(X)
    assert_close(ck.jvp(lambda x: Scale.apply(x * x), [x], [x])[1], 6 * X * X)
    assert_close(ck.hvp(lambda x: Scale.apply(x * x).sum(), [x], [x])[1][0], 6 * X)
    assert_close(ck.jvp(lambda x: (launched(x), x)[1], [x], [x])[1], X)
    with pytest.raises(ck.GradientError, match="scale: its argument x is an array that a tape tracks"):
        ck.jvp(lambda x: launched(x) * 2, [x], [x])


def test_checkpoints() -> None:
    x, calls = f64(X), []

    def f(x: Any) -> Any:
        calls.append(1)
        return ck.exp(ck.sin(x) * x)

    want = ck.jvp(f, [x], [x])[1]
    calls.clear()
    assert_close(ck.jvp(ck.checkpoint(f), [x], [x])[1], want)
    assert len(calls) == 1
    assert_close(ck.linearize(ck.checkpoint(f), x)[1](x), want)
    product = ck.hvp(lambda x: f(x).sum(), [x], [x])[1][0]
    assert_close(ck.hvp(lambda x: ck.checkpoint(f)(x).sum(), [x], [x])[1][0], product)
    with ck.Tape(recompute=True) as tape:
        tape.watch(x)
        y = ck.hvp(lambda x: f(x).sum(), [x], [x])[1][0]
    assert_close(
        tape.gradient(y, x),
        ck.vjp(lambda x: ck.hvp(lambda x: f(x).sum(), [x], [x])[1][0], x)[1](y * 0 + 1)[0],
    )


def test_in_and_around_jit() -> None:
    x, t = f64(X), f64([1.0, 2.0, 3.0])

    def f(x: Any) -> Any:
        return ck.softmax(ck.sin(x) * x) @ x.reshape((3, 1))

    value, tangent = ck.jvp(f, [x], [t])
    jitted = ck.jit(lambda x, t: ck.jvp(f, [x], [t]))
    for _ in range(2):
        made = jitted(x, t)
        assert_close(made[0], value)
        assert_close(made[1], tangent)
    assert_close(ck.jvp(ck.jit(f), [x], [t])[1], tangent)
    product = ck.hvp(lambda x: f(x).sum(), [x], [t])[1][0]
    assert_close(ck.jit(lambda x, t: ck.hvp(lambda x: f(x).sum(), [x], [t])[1][0])(x, t), product)


# ---- memory and the general rule


def test_nothing_is_kept() -> None:
    """Tangents go with their arrays, so that a chain of any length holds as many as a short one."""
    alive = []

    def f(x: Any) -> Any:
        for _ in range(6):
            x = ck.sin(x)
            gc.collect()
            found = (one for one in gc.get_objects() if issubclass(type(one), ck.Array))
            alive.append(sum(one.shape == (5, 7) for one in found))
        return x

    ck.jvp(f, [ck.ones((5, 7))], [ck.ones((5, 7))])
    assert alive[1] == alive[2] == alive[5]


def test_the_tangents_of_a_forward_mode_outlive_nothing() -> None:
    kept = []

    def f(x: Any) -> Any:
        kept.append(ck.sin(x))
        return kept[0] * 2

    with forward.Forward([x := f64(X)], [f64(X)]) as active:
        y = f(x)
    assert_close(active.tangents_of([y])[0], 2 * np.cos(X) * X)
    assert_close(active.tangents_of([kept[0]])[0], np.cos(X) * X)
    del active
    own = kept[0]  # a later forward mode takes it for a constant
    assert_close(ck.jvp(lambda x: x * own, [x], [x])[1], X * np.sin(X))


@pytest.mark.parametrize("f", [lambda x: ck.sin(x) * x, lambda x: x @ x, lambda x: x.max() * x])
def test_derived_rules_agree_with_the_others(f: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    x, t = f64(X), f64([1.0, 2.0, 3.0])
    want = ck.jvp(f, [x], [t])[1]
    with Tape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
    for operation, *_ in tape._records:
        monkeypatch.setattr(operation, "jvp", None)
    tangents = forward.seeds([x], [t])
    for record in tape._records:
        forward.push(record, tangents)
    assert_close(forward.results([y], tangents, [t])[0], want)


@pytest.mark.parametrize("centered", [True, False])
def test_tangents_of_norms_are_few_kernels(
    device: ck.Device, centered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The composition runs twice, and on a GPU twice more before its graph is there; later calls repeat its kernels."""
    calls = []

    def noted(*args: Any) -> Any:
        calls.append(1)
        return ck.jvp(*args)

    monkeypatch.setattr(fused, "jvp", noted)
    rng = np.random.default_rng(0)

    def norm(x: Any) -> Any:
        if centered:
            return ck.nn.layer_norm(x, 48, weight, bias, eps=0.25)
        return ck.nn.rms_norm(x, 48, weight, eps=0.25)

    def square(x: Any) -> Any:
        return (norm(x) ** 2).sum()

    weight, bias = (ck.asarray(rng.standard_normal(48)) for _ in range(2))
    for turn in range(6):
        x, t = rng.standard_normal((2, 20, 48))
        apart, moved = (one - one.mean(1, keepdims=True) * centered for one in (x, t))
        variance = (apart**2).mean(1, keepdims=True) + 0.25
        slope = moved - apart * (apart * moved).mean(1, keepdims=True) / variance
        wanted = slope / np.sqrt(variance) * weight.numpy()
        given = [ck.asarray(x)], [ck.asarray(t)]
        _, tangent = ck.jvp(norm, *given)
        np.testing.assert_allclose(tangent.numpy(), wanted, rtol=1e-9, atol=1e-12)
        _, (product,) = ck.hvp(square, *given)
        low, high = (ck.grad(square)(ck.asarray(x + step * t)).numpy() for step in (-1e-5, 1e-5))
        np.testing.assert_allclose(product.numpy(), (high - low) / 2e-5, rtol=1e-6, atol=1e-7)
        if turn == 3:
            calls.clear()
    assert not calls
