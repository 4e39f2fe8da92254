"""grad, value_and_grad, vjp, jacobian, checkpoint and stop_gradient."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

import cukern as ck
from cukern import pytree
from cukern.testing import assert_close, gradcheck

pytestmark = pytest.mark.usefixtures("device")


def f64(values):
    return ck.asarray(np.asarray(values, np.float64))


def test_grad_to_third_order():
    third = ck.grad(ck.grad(ck.grad(lambda x: ck.sin(x) * x)))
    assert_close(third(f64(0.7)), -3 * np.sin(0.7) - 0.7 * np.cos(0.7))


def test_inner_derivative_does_not_see_the_outer_variable():
    # d/dx (x * d/dy (x + y) at y = x) is 1: the x inside is a constant to the inner derivative.
    x = f64(3.0)
    assert ck.grad(lambda x: x * ck.grad(lambda y: x + y)(x))(x).item() == 1.0
    assert ck.grad(lambda x: x * ck.vjp(lambda y: x * y, x)[1](f64(1.0))[0])(x).item() == 6.0


def test_argnums_and_aux():
    def f(x, p, scale=1.0):
        return (x * p["w"] * p["w"]).sum() * scale, "aux"

    x, p = f64([1.0, 2.0]), {"w": f64([3.0, 4.0])}
    (value, aux), (dx, dp) = ck.value_and_grad(f, argnums=(0, -1), has_aux=True)(x, p, scale=2.0)
    assert value.item() == 2 * (9 + 32)
    assert aux == "aux"
    assert_close(dx, [18.0, 32.0])
    assert_close(dp["w"], [12.0, 32.0])
    dp, aux = ck.grad(f, 1, has_aux=True)(x, p)
    assert_close(dp["w"], [6.0, 16.0])
    assert aux == "aux"


def test_grad_of_python_floats_and_of_what_does_not_matter():
    assert ck.grad(lambda x, y: x * x, 0)(3.0, 4.0).item() == 6.0
    assert_close(ck.grad(lambda x, y: x.sum(), 1)(f64([1.0]), f64([1.0, 2.0])), [0.0, 0.0], dtype="float64")


def test_grad_leaves_its_arguments_alone():
    x = f64([1.0, 2.0])
    ck.grad(lambda x: (x * x).sum())(x)
    assert x._key is None


def test_grad_by_a_module():
    class Scale(ck.nn.Module):
        def __init__(self):
            self.weight = ck.nn.Parameter(np.array([2.0, 3.0]))

        def forward(self, x):
            return x * self.weight * self.weight

    module = Scale()

    def f(m, x):
        assert m is module
        return m(x).sum()

    got = ck.grad(f)(module, f64([1.0, 10.0]))
    assert isinstance(got, Scale)
    assert_close(got.weight, [4.0, 60.0])
    assert isinstance(module.weight, ck.nn.Parameter)


def test_what_grad_refuses():
    x = f64([1.0, 2.0])
    with pytest.raises(ValueError, match=r"grad: the function must return one number, returned shape \(2,\)"):
        ck.grad(lambda x: x)(x)
    for result in (None, "1", (x.sum(), x)):
        with pytest.raises(TypeError, match=f"must return an array, returned {type(result).__name__}"):
            ck.grad(lambda x, result=result: result)(x)
    with pytest.raises(TypeError, match=r"args\[0\]: only floating dtypes have gradients, got int64"):
        ck.grad(lambda x: x)(ck.asarray([1]))
    with pytest.raises(
        TypeError, match=r"args\[0\]\['n'\]: expected an array to .* with respect to, got int"
    ):
        ck.grad(lambda p: p["x"])({"x": x, "n": 3})
    with pytest.raises(ValueError, match="argnums: no argument 2 among 1 positional arguments"):
        ck.grad(lambda x: x, 2)(x)


def test_pytrees_are_rebuilt():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    pytree.register(Pair, lambda pair: ((pair.a, pair.b), "rest"), lambda rest, new: (rest, *new))
    tree = {"pair": Pair(1, [2]), "rest": (3, None)}
    assert list(pytree.leaves_with_path(tree, "t")) == [
        ("t['pair'][0]", 1),
        ("t['pair'][1][0]", 2),
        ("t['rest'][0]", 3),
    ]
    assert pytree.replace(tree, [10, 20, 30]) == {"pair": ("rest", 10, [20]), "rest": (30, None)}
    assert pytree.replace(tree, [1, 2, 3]) is tree
    with pytest.raises(ValueError, match="more new leaves than the tree has"):
        pytree.replace(tree, [1, 2, 3, 4])
    with pytest.raises(ValueError, match="fewer new leaves than the tree has"):
        pytree.replace(tree, [1, 2])


def test_vjp():
    a, b = f64([1.0, 2.0]), f64([3.0, 4.0])
    value, pullback = ck.vjp(lambda a, b: {"product": a * b, "sum": a + b}, a, b)
    assert_close(value["product"], [3.0, 8.0])
    for scale in (1.0, 2.0):
        da, db = pullback({"product": f64([scale, scale]), "sum": f64([10.0, 0.0])})
        assert_close(da, scale * b.numpy() + [10.0, 0.0])
        assert_close(db, scale * a.numpy() + [10.0, 0.0])


def test_vjp_is_differentiable():
    def f(x, v):
        return ck.vjp(lambda x: ck.sin(x) * x, x)[1](v)[0]

    gradcheck(f, [f64([0.5, 1.5]), f64([1.0, -2.0])], order=2)


def test_jacobian_and_hessian():
    x = f64([0.5, 1.5, -1.0])
    got = ck.jacobian(lambda x: ck.sin(x) * x.sum())(x)
    want = np.diag(np.cos(x.numpy())) * x.numpy().sum() + np.sin(x.numpy())[:, None]
    assert_close(got, want, dtype="float64")
    hessian = ck.jacobian(ck.grad(lambda x: (x * x).sum() * x.sum()))(x)
    v = x.numpy()
    assert_close(hessian, 2 * v.sum() * np.eye(3) + 2 * v[:, None] + 2 * v[None, :])


def test_jacobian_of_pytrees_and_shapes():
    p = {"a": f64([[1.0, 2.0]]), "b": f64(3.0)}
    got = ck.jacobian(lambda p: p["a"].reshape((2, 1)) * p["b"])(p)
    assert got["a"].shape == (2, 1, 1, 2)
    assert_close(got["a"].reshape((2, 2)), 3 * np.eye(2))
    assert_close(got["b"], [[1.0], [2.0]])
    dx, dy = ck.jacobian(lambda x, y: x * y, (0, 1))(f64(2.0), f64(5.0))
    assert (dx.item(), dy.item()) == (5.0, 2.0)
    assert ck.jacobian(lambda x: x)(f64(np.zeros((0, 2)))).shape == (0, 2, 0, 2)


def test_jacobian_of_a_result_without_elements():
    x, y = f64([1.0, 2.0]), f64([[3.0]])
    assert ck.jacobian(lambda x: x[:0])(x).shape == (0, 2)
    dx, dy = ck.jacobian(lambda x, y: ck.reshape(x[:0], (3, 0)) * y, (0, 1))(x, y)
    assert (dx.shape, dy.shape) == ((3, 0, 2), (3, 0, 1, 1))
    both = ck.jacobian(lambda x: {"none": x[2:], "one": x[1:]})(x)
    assert both["none"].shape == (0, 2) and both["one"].tolist() == [[0.0, 1.0]]


def test_stop_gradient():
    x = f64([2.0, 3.0])
    with ck.Tape() as active:
        active.watch(x)
        stopped = ck.stop_gradient({"x": x, "n": 1})
        y = x * stopped["x"]
    assert stopped["n"] == 1
    assert_close(active.gradient(y, x), x.numpy())
    with ck.Tape() as active:
        active.watch(x)
        y = x * ck.stop_gradient(x)
    x[0] = 5.0
    with pytest.raises(ck.GradientError, match=r"was written since by"):
        active.gradient(y, x)
    w = ck.nn.Parameter([2.0])
    with ck.Tape() as active:
        y = w * ck.stop_gradient(w)
    assert_close(active.gradient(y, w), [2.0])


# ---- checkpoint


class Counted:
    """A function that counts its calls and watches over an intermediate result."""

    def __init__(self):
        self.calls = 0
        self.intermediate = None

    def __call__(self, x, y):
        self.calls += 1
        a = ck.exp(x * y)
        self.intermediate = weakref.ref(a)
        return ck.sin(a) * a


def test_checkpoint_recomputes_and_keeps_nothing():
    x, y = f64([0.1, 0.5]), f64([1.0, -0.5])
    f = Counted()
    with ck.Tape() as active:
        active.watch(x, y)
        z = ck.checkpoint(f)(x, y)
        assert f.intermediate() is None
    assert f.calls == 1
    got = active.gradient(z, [x, y])
    assert f.calls == 2
    with ck.Tape() as active:
        active.watch(x, y)
        z = f(x, y)
        assert f.intermediate() is not None
    for a, b in zip(got, active.gradient(z, [x, y]), strict=True):
        assert_close(a, b, rtol=0, atol=0)


def test_checkpoint_keeps_nothing_of_its_gradient_either():
    x, y = f64([0.1, 0.5]), f64([1.0, -0.5])
    f = Counted()
    with ck.Tape() as outer:
        outer.watch(x)
        gradient = ck.grad(lambda x: ck.checkpoint(f)(x, y).sum())(x)
        assert f.intermediate() is None
    assert f.calls == 2
    expected = ck.hvp(lambda x: f(x, y).sum(), [x], [ck.ones(2, dtype="float64")])[1][0]
    assert_close(outer.gradient(gradient, x), expected.numpy(), rtol=1e-12)


def test_checkpoint_without_a_tape_or_tracked_arrays_just_calls():
    x, y = f64([0.1]), f64([1.0])
    f = Counted()
    ck.checkpoint(f)(x, y)
    with ck.Tape() as active:
        active.watch(f64([1.0]))
        ck.checkpoint(f)(x, y)
    assert f.calls == 2
    assert active._records == []


def test_checkpoint_to_second_order():
    gradcheck(ck.checkpoint(lambda x, y: ck.sin(x * y) * x), [f64([0.1, 0.5]), f64([1.0, -0.5])], order=2)


def test_checkpoint_to_third_order_by_grad():
    f = ck.checkpoint(lambda x: ck.sin(x) * x)
    assert_close(ck.grad(ck.grad(ck.grad(f)))(f64(0.7)), -3 * np.sin(0.7) - 0.7 * np.cos(0.7))


def test_checkpoint_of_closures_over_parameters_and_tracked_arrays():
    w, x = ck.nn.Parameter(np.array([2.0, 3.0])), f64([0.1, 0.5])
    with ck.Tape() as active:
        active.watch(x)
        inner = ck.exp(x)
        y = ck.checkpoint(lambda v: w * w * inner * v)(x)
    dw, dx = active.gradient(y, [w, x])
    assert_close(dw, 2 * w.numpy() * np.exp(x.numpy()) * x.numpy())
    assert_close(dx, w.numpy() ** 2 * np.exp(x.numpy()) * (1 + x.numpy()))


def test_checkpoints_nest():
    calls = []

    @ck.checkpoint
    def inner(x):
        calls.append("inner")
        return ck.sin(x) * w

    @ck.checkpoint
    def outer(x):
        calls.append("outer")
        return inner(x) * inner(2.0 * x)

    w, x = ck.nn.Parameter(np.array(1.5)), f64(0.4)
    with ck.Tape() as active:
        active.watch(x)
        y = outer(x)
    dx, dw = active.gradient(y, [x, w])
    assert calls == ["outer", "inner", "inner", "outer", "inner", "inner", "inner", "inner"]
    s, t = np.sin(0.4), np.sin(0.8)
    assert_close(dx, 2.25 * (np.cos(0.4) * t + 2 * s * np.cos(0.8)))
    assert_close(dw, 3.0 * s * t)


def test_checkpoint_of_pytrees_and_outputs_that_are_inputs():
    x, n = f64([1.0, 2.0]), ck.asarray([1, 0])
    f = ck.checkpoint(lambda p, k: {"same": p["x"], "square": p["x"] * p["x"], "n": n, "k": k})
    with ck.Tape(persistent=True) as active:
        active.watch(x)
        y = f({"x": x}, k=3)
        z = y["same"] * 10.0 + y["square"]
    assert y["k"] == 3
    assert_close(y["n"], [1, 0], dtype="int64")
    assert_close(active.gradient(z, x), 10.0 + 2 * x.numpy())
    assert_close(active.gradient(y["same"], x), [1.0, 1.0])
    with ck.Tape() as active:
        active.watch(x)
        y = ck.checkpoint(lambda: x)()
    assert_close(active.gradient(y, x), [1.0, 1.0])


@pytest.mark.parametrize("which", ["argument", "closure", "constant argument"])
def test_checkpoint_notices_writes(which):
    x, w, c = f64([1.0]), f64([2.0]), f64([3.0])
    with ck.Tape() as active:
        active.watch(x, w)
        y = ck.checkpoint(lambda x, c: x * w * c)(x, c)
    {"argument": x, "closure": w, "constant argument": c}[which][0] = 5.0
    with pytest.raises(
        ck.GradientError, match=r"checkpoint: an array of float64, shape \(1,\).*was written since"
    ):
        active.gradient(y, x)


def test_checkpoint_of_a_function_that_takes_gradients():
    def penalty(x):
        return (ck.grad(lambda v: ck.sin(v * w).sum())(x) * x).sum()

    w, x = ck.nn.Parameter(np.array([2.0, 3.0])), f64([0.1, 0.5])
    with ck.Tape() as active:
        active.watch(x)
        y = ck.checkpoint(penalty)(x)
    got = active.gradient(y, [x, w])
    with ck.Tape() as active:
        active.watch(x)
        y = penalty(x)
    for a, b in zip(got, active.gradient(y, [x, w]), strict=True):
        assert_close(a, b, rtol=0, atol=0)


def test_checkpoint_does_not_take_what_it_makes_for_what_it_reads():
    class Square(ck.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @ck.once_differentiable
        def backward(ctx, grad):
            return 2.0 * ctx.saved_arrays[0] * grad

    def slope(x):
        with ck.Tape() as inner:
            inner.watch(x)
            y = Square.apply(x)
        return inner.gradient(y, x) * 3.0 + x

    x = f64([1.0, 2.0])
    with ck.Tape() as active:
        active.watch(x)
        y = ck.checkpoint(slope)(x)
    assert [len(inputs) for _, inputs, *_ in active._records] == [1]
    with pytest.raises(ck.GradientError, match="once_differentiable"):
        active.gradient(y, x)
