"""gradcheck finds what is wrong, and nothing else; assert_close says what differs."""

from __future__ import annotations

import re

import numpy as np
import pytest

import cukern as ck
from cukern.testing import GradcheckError, NondifferentiableError, assert_close, gradcheck

pytestmark = pytest.mark.usefixtures("device")


def f64(values):
    return ck.asarray(np.asarray(values, np.float64))


def op(forward, backward):
    """``forward`` with a backward of our own, whose own derivative is derived."""

    class Planted(ck.Function):
        @staticmethod
        def forward(ctx, *xs):
            ctx.save_for_backward(*xs)
            return forward(*xs)

        @staticmethod
        def backward(ctx, *grads):
            return backward(*ctx.saved_arrays, *grads)

    return Planted.apply


X = np.random.default_rng(3).normal(size=(3, 4))
Y = np.random.default_rng(4).normal(size=4)


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (lambda x: ck.exp(x) * x, [X]),
        (lambda x, y: x * y, [X, Y]),
        (lambda x, y: (x + y, ck.sin(x), x.sum()), [X, Y]),
        (lambda x: x * x, [1.5]),
        (lambda x: x * x, [np.zeros((0, 3))]),
        (lambda x: 3.0 * x, [X]),
        (lambda x: {"a": ck.sin(x), "index": ck.argmax(x)}, [X]),
    ],
)
def test_right_gradients_pass_to_third_order(f, args):
    assert gradcheck(f, [f64(arg) for arg in args], order=3) is True


def test_large_offset_and_scale():
    gradcheck(lambda x: (x - 1e6) * (x - 1e6), [f64(1e6 + X)], order=2)
    gradcheck(lambda x: ck.sin(x) * 1e6, [f64(X)], order=2)


def test_rounding_of_the_differences_is_allowed_for():
    gradcheck(ck.sin, [f64(X)], rtol=0, atol=0)


def test_pytree_arguments_and_constants():
    gradcheck(lambda p, n, i: p["x"] * p["y"] * n, [{"x": f64(X), "y": f64(Y)}, 3, ck.asarray([1])], order=2)
    with pytest.raises(GradcheckError, match=re.escape("with respect to args[0]['y'] is wrong")):
        gradcheck(
            lambda p: op(lambda x, y: x * y, lambda x, y, g: (g * y, g * y))(*p.values()),
            [{"x": f64(X), "y": f64(Y)}],
        )


# ---- planted errors


@pytest.mark.parametrize(
    ("forward", "backward", "order"),
    [
        (lambda x: x * x * x, lambda x, g: 3.001 * x * x * g, 1),
        (lambda x: x * x * x, lambda x, g: -3.0 * x * x * g, 1),
        (lambda x: x * x + ck.sin(x), lambda x, g: 2.0 * x * g, 1),
        (lambda x: x * x * x, lambda x, g: 3.0 * x * ck.stop_gradient(x) * g, 2),
        (lambda x: ck.sin(x), lambda x, g: ck.cos(ck.stop_gradient(x)) * g, 2),
        (lambda x: x * x, lambda x, g: 2.0 * x * ck.stop_gradient(g), 2),
    ],
    ids=["scale", "sign", "missing term", "second derivative", "no second derivative", "constant cotangent"],
)
def test_planted_errors_are_found(forward, backward, order):
    f = op(forward, backward)
    if order == 2:
        assert gradcheck(f, [f64(X)])
    with pytest.raises(GradcheckError, match="is wrong"):
        gradcheck(f, [f64(X)], order=2)


def test_one_wrong_element_among_many_is_found():
    wrong = np.ones(5000)
    wrong[1234] = 1.01
    with pytest.raises(GradcheckError):
        gradcheck(op(lambda x: x * 2.0, lambda x, g: 2.0 * g * f64(wrong)), [f64(np.linspace(1, 2, 5000))])


def test_the_message_names_the_failing_pair():
    f = op(lambda x, y: (x * y, x + y), lambda x, y, g, h: (g * y + h, 2.0 * g * x + h))
    with pytest.raises(GradcheckError) as caught:
        gradcheck(f, [f64(X[0]), f64(Y)])
    message = str(caught.value)
    assert message.startswith(
        "gradcheck: the gradient of output[0] with respect to args[1] is wrong; along ["
    )
    numeric, analytic = (float(re.search(f"{word} (\\S+?),", message)[1]) for word in ("numeric", "analytic"))
    assert analytic == pytest.approx(2 * numeric, rel=1e-6)
    assert "relative error 0.5 " in message


def test_the_message_names_second_order():
    f = op(lambda x: ck.sin(x), lambda x, g: ck.cos(ck.stop_gradient(x)) * g)
    with pytest.raises(
        GradcheckError, match=re.escape("the gradient by args[0] with respect to args[0] is wrong")
    ):
        gradcheck(f, [f64(X)], order=2)


def test_dependence_that_one_side_does_not_see():
    with pytest.raises(GradcheckError, match=r"respect to args\[1\].*the function does not depend on it"):
        gradcheck(op(lambda x, y: x * 2.0, lambda x, y, g: (2.0 * g, g)), [f64(Y), f64(Y)])
    with pytest.raises(GradcheckError, match=r"respect to args\[0\].*the tape knows of no dependence on it"):
        gradcheck(lambda x: ck.asarray(x.numpy()) * 2.0, [f64(Y)])


def test_wrong_only_when_not_contiguous():
    def forward(x):
        return x * 1.0

    def backward(x, g):
        return g if g.is_contiguous else g * 2.0

    with pytest.raises(GradcheckError, match="is different when arrays are not contiguous"):
        gradcheck(op(forward, backward), [f64(X)])
    with pytest.raises(GradcheckError, match="output is different when args are not contiguous"):
        gradcheck(op(lambda x: x if x.is_contiguous else x * 2.0, backward), [f64(X)])
    with pytest.raises(GradcheckError, match="is different when cotangents have strides of 0"):
        gradcheck(op(forward, lambda x, g: g * 2.0 if 0 in g.strides else g), [f64(X)])


def test_gradients_that_mix_the_cotangents_of_several_outputs():
    # Right for each output alone.
    f = op(lambda x: (x * 1.0, x * 1.0), lambda x, g, h: g + h + g * h)
    with pytest.raises(GradcheckError, match="all outputs"):
        gradcheck(f, [f64(X)])


# ---- what it leaves alone, and what it asks for


def test_nothing_is_mutated():
    x, n = f64(X), ck.asarray([1, 2])
    before = x.numpy()
    gradcheck(lambda x, n: x * x, [x, n], order=2)
    assert (x._storage.version, n._storage.version) == (0, 0)
    np.testing.assert_array_equal(x.numpy(), before)


def test_writes_are_reported():
    def write_input(x):
        with ck.stop_recording():
            y = x * 1.0
            x[0] = 3.0
        return y

    with pytest.raises(GradcheckError, match=re.escape("args[0] was written to")):
        gradcheck(write_input, [f64(Y)])

    def write_cotangent(x, g):
        out = g * 1.0
        g[0] = 0.0
        return out

    with pytest.raises(GradcheckError, match="the cotangent of output was written to"):
        gradcheck(op(lambda x: x * 1.0, write_cotangent), [f64(Y)])


def test_float64_is_required():
    with pytest.raises(TypeError, match=re.escape("args[1]: gradcheck needs float64, got float32")):
        gradcheck(lambda x, y: x, [f64(X), ck.asarray([1.0])])
    with pytest.raises(TypeError, match="output: gradcheck needs float64, f returned float32"):
        gradcheck(lambda x: x.astype("float32"), [f64(X)])
    with pytest.raises(TypeError, match="args: there is no floating array"):
        gradcheck(lambda n: n, [ck.asarray([1])])
    with pytest.raises(TypeError, match="f: expected it to return a floating array"):
        gradcheck(lambda x: ck.argmax(x), [f64(X)])
    with pytest.raises(ValueError, match="order: expected at least 1, got 0"):
        gradcheck(lambda x: x, [f64(X)], order=0)


def test_results_that_are_not_finite():
    with pytest.raises(GradcheckError, match=re.escape("output[1] is not finite at args")):
        gradcheck(lambda x: (x, x / (x - x)), [f64(Y)])


# ---- kinks


@pytest.mark.parametrize("at", [0.0, 5e-7, 1e-6, 1.9e-6, -0.7e-6])
def test_kinks_are_stepped_away_from(at):
    assert gradcheck(lambda x: ck.relu(x) * x + ck.relu(x), [f64([1.0, at, -2.0])], order=2)
    assert gradcheck(lambda x: ck.relu(x), [f64(np.full(50, at))])


def test_a_wrong_gradient_at_a_kink_is_still_found():
    f = op(lambda x: ck.relu(x), lambda x, g: ck.where(x > 0.0, g, 0.5 * g))
    with pytest.raises(GradcheckError, match="is wrong"):
        gradcheck(f, [f64([0.0] * 10 + [-1.0] * 10)])


def test_nowhere_differentiable():
    def sawtooth(y):
        return ck.abs(y * 1e9 - ck.round(y * 1e9)) * 1e3

    with pytest.raises(NondifferentiableError, match=re.escape("no gradient with respect to args[1]")):
        gradcheck(lambda x, y: (x * x, sawtooth(y)), [f64(X), f64(Y)])


@pytest.mark.parametrize("factor", [0.0, -1.0, 0.99])
def test_small_gradients_are_compared_by_their_size(factor: float) -> None:
    class Small(ck.Function):
        @staticmethod
        def forward(ctx: object, x: ck.Array) -> ck.Array:
            return ck.sin(x) * 1e-9

        @staticmethod
        def backward(ctx: object, g: ck.Array) -> ck.Array:
            return factor * 1e-9 * g

    with pytest.raises(GradcheckError, match="is wrong"):
        gradcheck(Small.apply, [f64([0.1, -0.2])])


# ---- assert_close


def test_assert_close_bounds_each_element_by_itself() -> None:
    terms = np.array([1.0, 1e-6])
    with pytest.raises(AssertionError, match=r"1 of 2 .* worst is at \(1,\)"):
        assert_close(ck.asarray([1.0, 0.0], dtype="bfloat16"), terms)
    assert_close(ck.asarray([1.0, 5e-7], dtype="bfloat16"), terms, atol=[0, 9e-7])
    smallest = np.array([30.0, 50.0]) * 2.0**-24  # of float16, which has no numbers between
    assert_close(ck.asarray(smallest * 1.01, dtype="float16"), smallest * 1.01)


def test_assert_close_accepts():
    assert_close(f64([1.0, np.nan, np.inf]), [1.0, np.nan, np.inf])
    assert_close(ck.asarray([1.0, 1.0]), 1.0)
    assert_close(ck.asarray([1.0], dtype="bfloat16"), [1.01])
    assert_close(ck.asarray([1, 2]), [1, 2])
    assert_close(f64(np.zeros((0, 2))), np.zeros((0, 2)))


@pytest.mark.parametrize(
    ("actual", "desired", "message"),
    [
        ([1.0, 2.0], [[1.0, 2.0]], r"shape: expected \(1, 2\), got \(2,\)"),
        (
            [[1.0, 2.0], [3.0, 5.0]],
            [[1.0, 2.1], [3.0, 4.0]],
            r"2 of 4 .* the worst is at \(1, 1\): actual 5.0, desired 4.0",
        ),
        ([1.0, np.nan], [1.0, 2.0], r"1 of 2 .* worst is at \(1,\): actual nan, desired 2.0"),
        ([np.inf], [-np.inf], "actual inf, desired -inf"),
        ([1.0], [np.inf], "actual 1.0, desired inf"),
        ([1.0 + 1e-11], [1.0], r"allowed: rtol=1e-12\)"),
    ],
)
def test_assert_close_says_what_differs(actual, desired, message):
    with pytest.raises(AssertionError, match=message):
        assert_close(f64(actual), desired)


def test_assert_close_compares_dtypes_and_integers():
    with pytest.raises(AssertionError, match="dtype: expected float32, got float64"):
        assert_close(f64([1.0]), ck.asarray([1.0]))
    with pytest.raises(AssertionError, match="dtype: expected float32, got float64"):
        assert_close(f64([1.0]), [1.0], dtype="float32")
    with pytest.raises(
        AssertionError, match=r"1 of 2 elements differ \(must be equal\); the worst is at \(1,\)"
    ):
        assert_close(ck.asarray([1, 2**62 + 1]), [1, 2**62])
