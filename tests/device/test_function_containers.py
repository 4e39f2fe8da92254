"""Function: arrays in containers among its arguments."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from tape_support import f64, function, gradient

import cukern as ck
from cukern.testing import assert_close, gradcheck

pytestmark = pytest.mark.usefixtures("device")


def test_arrays_inside_of_arguments():
    class Mix(ck.Function):
        @staticmethod
        def forward(ctx, tree, k, pair):
            ctx.save_for_backward(tree["a"], tree["rest"][0], pair[1])
            return tree["a"] * tree["rest"][0] * pair[1] * k

        @staticmethod
        def backward(ctx, g):
            wanted.append(ctx.needs_input_grad)
            a, b, c = ctx.saved_arrays
            tree = {"rest": [2.0 * g * b * c * 0.0 + 2.0 * g * a * c, None], "a": 2.0 * g * b * c}
            return tree, None, (None, 2.0 * g * a * b)

    wanted = []
    a, b, c = f64([1.0, 2.0]), f64([3.0, 4.0]), f64([5.0, 6.0])
    tree = {"a": a, "rest": [b, 7]}
    assert gradcheck(lambda tree, c: Mix.apply(tree, 2.0, ("x", c)), [tree, c], order=2)
    wanted.clear()
    assert_close(ck.grad(lambda c: Mix.apply(tree, 2.0, ("x", c)).sum())(c), [6.0, 16.0])
    assert wanted == [(False, False, True)]
    twice = ck.grad(lambda a: Mix.apply({"a": a, "rest": [a, 7]}, 2.0, ("x", a)).sum())(a)
    assert_close(twice, 6 * a.numpy() ** 2)


def test_gradients_of_containers_are_checked():
    x, y = f64([1.0]), f64([2.0])
    given = {"y": (y, 3)}
    wrong = {
        r"argument 1 \(more\): expected dict of \['y'\], got a leaf": y,
        r"argument 1 \(more\)\['y'\]: expected tuple of \[0\], \[1\], got list": {"y": [y, None]},
        r"argument 1 \(more\): expected None for what is not an array": {"y": (y, y)},
        r"the gradient of argument 1 \(more\) has dtype int64": {"y": (ck.asarray([1]), None)},
    }
    for message, returned in wrong.items():
        f = function(lambda ctx, x, more: x * more["y"][0], lambda ctx, g, returned=returned: (g, returned))
        with pytest.raises(ck.GradientError, match=message):
            gradient(lambda x, y, f=f: f.apply(x, {"y": (y, 3)}), x, y)
    f = function(lambda ctx, x, more: x * more["y"][0], lambda ctx, g: (g, None))
    assert_close(gradient(lambda x: f.apply(x, given), x)[0], [1.0])
    assert ck.grad(lambda y: f.apply(x, {"y": (y, 3)}).sum())(y).tolist() == [0.0]

    def writes(ctx, x, more):
        more["y"][0][0] = 5.0
        return x * 1.0

    with pytest.raises(ck.GradientError, match=r"forward wrote to its argument 1 \(more\)"):
        gradient(lambda x, y: function(writes, None).apply(x, {"y": (y, 3)}), x, y)


def test_tracked_arrays_where_they_get_no_gradient():
    class Holder:
        def __init__(self, y):
            self.y = y

    x, y = f64([1.0]), f64([2.0])
    f = function(lambda ctx, x, more: x * 1.0, lambda ctx, g: (g, None))
    with pytest.raises(
        ck.GradientError,
        match=r"F: argument 1 \(more\) holds a tracked array at \[0\].y, in an object of Holder",
    ):
        gradient(lambda x, y: f.apply(x, [Holder(y)]), x, y)
    gradient(lambda x: f.apply(x, [Holder(y)]), x)


def test_once_differentiable_containers_have_no_second_derivative():
    class Square(ck.Function):
        @staticmethod
        def forward(ctx, pair):
            ctx.save_for_backward(pair[0])
            return pair[0] * pair[0]

        @staticmethod
        @ck.once_differentiable
        def backward(ctx, g):
            return ([2.0 * g * ctx.saved_arrays[0]],)

    x = f64([3.0])
    first = ck.elementwise_grad(lambda x: Square.apply([x]))
    assert_close(first(x), [6.0])
    with pytest.raises(ck.GradientError, match="so it has no second derivative"):
        ck.elementwise_grad(first)(x)


def test_tuples_that_held_numbers_may_hold_arrays():
    class Pair(NamedTuple):
        first: Any
        second: Any

    class Scaled(ck.Function):
        @staticmethod
        def forward(ctx, x, pair):
            ctx.save_for_backward(x, pair.first if isinstance(pair.first, ck.Array) else None)
            ctx.second = pair.second
            return x * pair.first * pair.second

        @staticmethod
        def backward(ctx, g):
            x, first = ctx.saved_arrays
            if first is None:
                return 6.0 * g, None
            return g * first * ctx.second, Pair(g * x * ctx.second, None)

    x, y = f64([1.0, 2.0]), f64([3.0, 4.0])
    for _ in range(2):
        assert_close(ck.grad(lambda x: Scaled.apply(x, Pair(3.0, 2.0)).sum())(x), [6.0, 6.0])
        for f, at in (
            (lambda y: Scaled.apply(x, Pair(y, 2.0)), y),
            (lambda x: Scaled.apply(x, Pair(y, 2.0)), x),
        ):
            assert gradcheck(f, [at], order=2)
    holder = type("Holder", (), {})()
    holder.y = y
    with ck.Tape() as tape:
        tape.watch(y)
        with pytest.raises(ck.GradientError, match=r"argument 1 \(pair\) holds a tracked array at .first.y"):
            Scaled.apply(x, Pair(holder, 2.0))
