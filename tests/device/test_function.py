"""Function: each convention of its forward and backward, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tape_support import f64, function, gradient

import cukern as ck
from cukern.autodiff import tape
from cukern.testing import assert_close, gradcheck

pytestmark = pytest.mark.usefixtures("device")

SCALE = 'extern "C" __global__ void scale(const << elem >>* x, << elem >>* y, << elem >> by, << index >> n)\n'
SCALE += "{ << index >> i = blockIdx.x * << block_x >> + threadIdx.x; if (i < n) y[i] = by * x[i]; }"


class Cube(ck.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_arrays
        return 3.0 * x * x * grad


class Exp(ck.Function):
    @staticmethod
    def forward(ctx, x):
        y = ck.exp(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_arrays
        return grad * y


class Polar(ck.Function):
    """Several inputs, several outputs, an argument that is no array."""

    @staticmethod
    def forward(ctx, r, angle, turns):
        ctx.save_for_backward(r, angle)
        ctx.turns = turns
        return r * ck.cos(turns * angle), r * ck.sin(turns * angle)

    @staticmethod
    def backward(ctx, gx, gy):
        r, angle = ctx.saved_arrays
        c, s = ck.cos(ctx.turns * angle), ck.sin(ctx.turns * angle)
        return gx * c + gy * s, ctx.turns * r * (gy * c - gx * s), None


@pytest.mark.parametrize("f", [Cube.apply, Exp.apply])
def test_saved_input_or_output_to_second_order(f):
    gradcheck(f, [f64([0.5, -1.0, 2.0])], order=2)


def test_several_inputs_and_outputs_to_second_order():
    gradcheck(lambda r, a: Polar.apply(r, a, 3.0), [f64([[1.0, 2.0]]), f64([0.3, -0.4])], order=2)


def test_unused_output_gets_zeros():
    r, a = f64([1.0, 2.0]), f64([0.3, -0.4])
    got = gradient(lambda r, a: Polar.apply(r, a, 1.0)[1], r, a)
    assert_close(got[0], np.sin(a.numpy()))
    assert_close(got[1], r.numpy() * np.cos(a.numpy()))


@pytest.mark.parametrize("materialize", [True, False])
def test_set_materialize_grads(materialize):
    seen = []

    def forward(ctx, x):
        ctx.set_materialize_grads(materialize)
        return x * 2.0, x * 3.0, ck.argmax(x), "text"

    def backward(ctx, *grads):
        seen.extend(grads)
        return grads[0] * 2.0

    (got,) = gradient(lambda x: function(forward, backward).apply(x)[0], f64([1.0, 2.0]))
    assert_close(got, [2.0, 2.0])
    assert seen[3] is None
    if materialize:
        assert_close(seen[1], [0.0, 0.0], dtype="float64")
        assert_close(seen[2], 0, dtype="int64")
    else:
        assert seen[1] is None
        assert seen[2] is None


def test_needs_input_grad():
    seen = []

    def forward(ctx, x, factor, y, i):
        seen.append(ctx.needs_input_grad)
        return x * y

    def backward(ctx, grad):
        seen.append(ctx.needs_input_grad)
        return None, None, None, None

    f = function(forward, backward)
    x, y, z, i = f64([1.0]), f64([2.0]), f64([3.0]), ck.asarray([1])
    f.apply(x, 2.0, y, i)
    with ck.Tape(persistent=True) as active:
        active.watch(x, y)
        f.apply(z, 2.0, z, i)
        a = f.apply(z, 2.0, y, i)
        b = f.apply(x, 2.0, y, i)
    active.gradient(a, y)
    active.gradient(b, y)
    active.gradient(b, [x, y])
    assert seen == [
        (False, False, False, False),
        (False, False, False, False),
        (False, False, True, False),
        (True, False, True, False),
        (False, False, True, False),
        (False, False, True, False),
        (True, False, True, False),
    ]


def test_untracked_call_records_nothing_and_returns_what_forward_did():
    kept = f64([1.0])
    f = function(lambda ctx, x: kept, lambda ctx, grad: grad)
    with ck.Tape() as active:
        assert f.apply(f64([2.0])) is kept
    assert active._records == []


def test_forward_is_not_recorded():
    x = f64([0.5, 2.0])
    with ck.Tape() as active:
        active.watch(x)
        Cube.apply(x)
    assert [operation.name for operation, *_ in active._records] == ["Cube"]


def test_input_returned_unchanged():
    f = function(lambda ctx, x, y: (x, x * y), lambda ctx, gx, gy: (5.0 * gx, None))
    x, y = f64([1.0, 2.0]), f64([3.0, 4.0])
    with ck.Tape(persistent=True) as active:
        active.watch(x)
        same, _ = f.apply(x, y)
        z = same * same + 10.0 * x
    assert same is not x
    assert_close(active.gradient(same, x), [5.0, 5.0])
    assert_close(active.gradient(z, x), 10.0 * x.numpy() + 10.0)
    with ck.Tape() as active:
        active.watch(y)
        same, _ = f.apply(x, y)
        z = same * same
    x[0] = 5.0
    with pytest.raises(ck.GradientError, match=r"was written since by"):
        active.gradient(z, y)
    # An input that no tape tracks must not become tracked by being returned.
    with ck.Tape() as active:
        active.watch(y)
        same, _ = f.apply(x, y)
        z = same + x * 3.0
    assert same._key is not None
    assert x._key not in active._tracked


def test_outputs_that_are_views_of_an_input_or_of_one_another():
    def backward(ctx, ga, gb, gc):
        return ga.reshape((4,)) + gb.reshape((4,)) + gc.reshape((4,))

    def forward(ctx, x):
        a = x.reshape((2, 2))
        return a, a, x

    gradcheck(function(forward, backward).apply, [f64([1.0, 2.0, 3.0, 4.0])], order=2)


def test_mark_non_differentiable():
    def forward(ctx, x):
        y, mask = x * 2.0, ck.exp(x)
        ctx.mark_non_differentiable(mask)
        return y, mask

    seen = []

    def backward(ctx, gy, gmask):
        seen.append(gmask)
        return gy * 2.0

    x = f64([1.0, 2.0])
    with ck.Tape() as active:
        active.watch(x)
        y, mask = function(forward, backward).apply(x)
        z = y * mask
    assert mask._key is None
    assert_close(active.gradient(z, x), 2.0 * np.exp(x.numpy()))
    assert_close(seen[0], [0.0, 0.0])


def test_gradient_may_have_the_broadcast_shape():
    def forward(ctx, x, bias):
        return x + bias

    gradcheck(
        function(forward, lambda ctx, g: (g, g)).apply, [f64([[1.0, 2.0], [3.0, 4.0]]), f64([[1.0], [2.0]])]
    )


def test_gradient_of_another_dtype_is_cast():
    f = function(lambda ctx, x: x * 2.0, lambda ctx, g: (2.0 * g).astype("float32"))
    (got,) = gradient(f.apply, f64([1.0, 2.0]))
    assert_close(got, [2.0, 2.0], dtype="float64")


def test_gradient_of_an_integer_argument_is_left_out():
    f = function(lambda ctx, x, i: x * 2.0, lambda ctx, g: (g * 2.0, g))
    x, i = f64([1.0, 2.0]), ck.asarray([[1], [2], [3]])
    assert_close(gradient(lambda x: f.apply(x, i), x)[0], [2.0, 2.0])


def test_none_is_no_gradient():
    f = function(lambda ctx, x, y: x * y, lambda ctx, g: (None, None))
    assert gradient(f.apply, f64([1.0]), f64([2.0])) == [None, None]


def test_saved_none_stays_none():
    seen = []

    def forward(ctx, x):
        ctx.save_for_backward(None, x, None)
        return x * 2.0

    def backward(ctx, g):
        seen.extend(ctx.saved_arrays)
        return g

    x = f64([1.0])
    gradient(function(forward, backward).apply, x)
    assert seen[0] is None
    assert seen[1] is x
    assert seen[2] is None


def test_stride_0_cotangent_reaches_a_kernel_safely():
    kernel = ck.Kernel(SCALE)

    def forward(ctx, x):
        y = ck.empty_like(x)
        kernel(x, y, 3.0, x.size)
        return y

    def backward(ctx, grad):
        strides.append(grad.strides)
        out = ck.empty(grad.shape, dtype=grad.dtype)
        kernel(grad, out, 3.0, grad.size)
        return out

    strides = []
    (got,) = gradient(lambda x: function(forward, backward).apply(x).sum(), f64([[1.0, 2.0], [3.0, 4.0]]))
    assert strides == [(0, 0)]
    assert_close(got, np.full((2, 2), 3.0))
    gradcheck(function(forward, backward).apply, [f64([[1.0, 2.0], [3.0, 4.0]])])


# ---- derivatives of higher order that are not to be had


def second(f, x):
    """The second derivative of the sum of ``f``."""
    with ck.Tape() as outer:
        outer.watch(x)
        with ck.Tape() as inner:
            inner.watch(x)
            y = f(x)
        g = inner.gradient(y, x)
    return g, lambda: outer.gradient(g, x)


@pytest.mark.parametrize("attribute", [False, True])
def test_once_differentiable(attribute):
    class Square(ck.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.x = x
            if not attribute:
                ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @ck.once_differentiable
        def backward(ctx, grad):
            assert tape.active() == ()
            return 2.0 * grad * (ctx.x if attribute else ctx.saved_arrays[0])

    x = f64([1.0, 2.0])
    first, again = second(Square.apply, x)
    assert_close(first, 2 * x.numpy())
    with pytest.raises(ck.GradientError, match="Square: its backward is marked once_differentiable"):
        again()
    # The derivative with respect to the cotangent is one of second order too.
    v = f64([1.0, 1.0])
    with ck.Tape() as outer:
        outer.watch(v)
        (first,) = gradient(Square.apply, x, output_gradients=v)
    with pytest.raises(ck.GradientError, match="once_differentiable"):
        outer.gradient(first, v)


def test_once_differentiable_identity_does_not_poison_the_cotangent():
    class Same(ck.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        @ck.once_differentiable
        def backward(ctx, grad):
            return grad

    x, v = f64([1.0]), f64([2.0])
    with ck.Tape() as outer:
        outer.watch(v)
        gradient(Same.apply, x, output_gradients=v)
        y = v * v
    assert_close(outer.gradient(y, v), [4.0])


def test_saved_intermediate_has_no_second_derivative():
    def forward(ctx, x):
        e = ck.exp(x)
        ctx.save_for_backward(e)
        return e * e

    def backward(ctx, grad):
        (e,) = ctx.saved_arrays
        return 2.0 * grad * e * e

    f, x = function(forward, backward), f64([0.1, 0.2])
    first, again = second(f.apply, x)
    assert_close(first, 2 * np.exp(2 * x.numpy()))
    with pytest.raises(
        ck.GradientError, match="F: backward reads a saved array that is neither an argument nor"
    ):
        again()
    # It is a constant to whatever does not depend on the inputs.
    v = f64([1.0, 3.0])
    with ck.Tape() as outer:
        outer.watch(v)
        (first,) = gradient(f.apply, x, output_gradients=v)
    assert_close(outer.gradient(first, v), 2 * np.exp(2 * x.numpy()))


def test_saved_constant_stays_one_elsewhere():
    table = f64([2.0, 3.0])

    def forward(ctx, x):
        ctx.save_for_backward(table)
        return x * table

    f = function(forward, lambda ctx, g: g * ctx.saved_arrays[0])
    (got,) = gradient(lambda x: f.apply(x) * table, f64([1.0, 1.0]))
    assert_close(got, table.numpy() ** 2)
    assert table._key is None


# ---- what is refused


def test_wrong_gradients_name_the_function_and_the_argument():
    x, y = f64([1.0, 2.0]), f64([3.0, 4.0])
    for returned, message in [
        (lambda g: g, "F: backward must return a gradient or None for each of the 3 arguments, returned 1"),
        (lambda g: (g,) * 4, "F: backward must return .* each of the 3 arguments, returned 4"),
        (
            lambda g: (g, g[:1], None),
            r"F: the gradient of argument 1 \(bias\) has shape \(1,\); expected \(2,\)",
        ),
        (
            lambda g: (g, 1.0, None),
            r"F: the gradient of argument 1 \(bias\) must be an array or None, got float",
        ),
        (lambda g: (ck.asarray([1, 2]), g, None), r"F: the gradient of argument 0 \(x\) has dtype int64"),
        (
            lambda g: (g, g, g),
            r"F: backward returned a gradient for argument 2 \(factor\), which is not an array",
        ),
    ]:
        f = function(lambda ctx, x, bias, factor: x + bias, lambda ctx, g, returned=returned: returned(g))
        with pytest.raises(ck.GradientError, match=message):
            gradient(lambda x, y, f=f: f.apply(x, y, 2.0), x, y)


def test_arguments_of_a_variadic_forward_are_named_by_position():
    f = function(lambda ctx, *xs: xs[0] + xs[1], lambda ctx, g: (g, g[:1]))
    with pytest.raises(ck.GradientError, match="F: the gradient of argument 1 has shape"):
        gradient(f.apply, f64([1.0, 2.0]), f64([1.0, 2.0]))


def test_forward_that_writes_to_an_argument():
    def forward(ctx, x, y):
        y[0] = 5.0
        return x * y

    with pytest.raises(ck.GradientError, match=r"F: forward wrote to its argument 1 \(y\)"):
        gradient(function(forward, None).apply, f64([1.0]), f64([2.0]))


def test_forward_that_returns_a_list():
    with pytest.raises(TypeError, match="F: forward returned a list"):
        function(lambda ctx, x: [x], None).apply(f64([1.0]))


def test_saving_what_is_no_array():
    def forward(ctx, x):
        ctx.save_for_backward(x, 2.0)

    with pytest.raises(
        TypeError, match="F: save_for_backward: expected arrays and None, argument 1 is float"
    ):
        function(forward, None).apply(f64([1.0]))


def test_saving_a_tracked_array_that_is_no_argument():
    w = ck.nn.Parameter([1.0])

    def forward(ctx, x):
        ctx.save_for_backward(w)
        return x * w

    with pytest.raises(
        ck.GradientError, match="F: forward saved a tracked array that is not among its arguments"
    ):
        gradient(function(forward, None).apply, f64([1.0]))


def test_saved_array_written_since():
    x = f64([1.0, 2.0])
    with ck.Tape() as active:
        active.watch(x)
        y = Exp.apply(x)
        z = y.sum()
    y[0] = 3.0
    with pytest.raises(ck.GradientError, match=r"Exp: an array of float64.*was written since by"):
        active.gradient(z, x)


def test_a_function_that_is_called_or_has_methods_of_objects():
    called = type("Called", (ck.Function,), {"forward": staticmethod(lambda ctx, x: x)})
    with pytest.raises(TypeError, match=r"Called: write Called\.apply\(\.\.\.\)"):
        called(f64([1.0]))
    with pytest.raises(
        TypeError, match=r"Own\.backward: expected a static method: write @staticmethod above"
    ):
        type("Own", (ck.Function,), {"backward": lambda ctx, grad: grad})


def test_a_function_without_forward_or_backward():
    with pytest.raises(NotImplementedError, match="defines forward"):
        ck.Function.apply(f64([1.0]))
    with pytest.raises(NotImplementedError, match="defines backward"):
        gradient(type("F", (ck.Function,), {"forward": staticmethod(lambda ctx, x: x)}).apply, f64([1.0]))


class Chosen(ck.Function):
    """x times a number, and a mask or a second product."""

    @staticmethod
    def forward(ctx, x, by, masked):
        ctx.by = by
        other = x * (by + 1.0)
        if masked:
            ctx.mark_non_differentiable(other)
        return x * by, other

    @staticmethod
    def backward(ctx, grad, of_other):
        return grad * ctx.by + of_other * (ctx.by + 1.0), None, None


def test_calls_of_the_same_forms_keep_their_own_numbers():
    x = f64([1.0, 2.0])
    for masked, expected in ((False, 2.0 + 3.0 + 5.0 + 6.0), (True, 2.0 + 5.0), (False, 16.0)):
        with ck.Tape() as active:
            active.watch(x)
            outputs = [one for by in (2.0, 5.0) for one in Chosen.apply(x, by, masked)]
        assert_close(active.gradient(outputs, x), np.full(2, expected))


def test_calls_of_the_same_forms_in_which_another_argument_is_tracked():
    product = function(
        lambda ctx, x, y: (ctx.save_for_backward(x, y), x * y)[1],
        lambda ctx, g: tuple(g * one for one in reversed(ctx.saved_arrays)),
    )
    x, y = f64([2.0]), f64([3.0])
    for watched, expected in (((x,), [3.0]), ((y,), [2.0]), ((x, y), [3.0, 2.0]), ((x,), [3.0])):
        with ck.Tape() as active:
            active.watch(*watched)
            z = product.apply(x, y)
        found = active.gradient(z, list(watched))
        assert [one.item() for one in found] == expected


def test_tuples_of_plain_values_hold_no_arrays_and_tuples_of_arrays_do():
    class Total(ck.Function):
        @staticmethod
        def forward(ctx, pair):
            ctx.arrays = [isinstance(one, ck.Array) for one in pair]
            return sum(one if isinstance(one, ck.Array) else f64(one) for one in pair)

        @staticmethod
        def backward(ctx, grad):
            return (tuple(grad if array else None for array in ctx.arrays),)

    x = f64(2.0)
    with ck.Tape() as active:
        active.watch(x)
        constant, mixed = Total.apply((1.0, 2.0)), Total.apply((1.0, x))
    assert active.gradient([constant, mixed], x).item() == 1.0


class Doubling(ck.Function):
    """Writes to the gradient that it gets."""

    @staticmethod
    def forward(ctx: Any, x: ck.Array) -> ck.Array:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: ck.Array) -> ck.Array:
        g *= 2
        return g


def test_a_gradient_that_is_read_once_more_is_not_written(device: ck.Device) -> None:
    x, y, w = (ck.asarray(values, device=device) for values in ([1.0, 2.0], [3.0, 4.0], [1.0, 10.0]))

    def gradients(first: bool, wanted: str = "xy") -> list[list[float]]:
        with ck.Tape() as tape:
            tape.watch(x, y)
            if first:
                z, of_y = Doubling.apply(x), y * 3
            else:
                of_y, z = y * 3, Doubling.apply(x)
            target = ((z + of_y) * w).sum()
        arrays = {"x": x, "y": y, "z": z}
        return [one.tolist() for one in tape.gradient(target, [arrays[name] for name in wanted])]

    assert gradients(first=True) == [[2, 20], [3, 30]]
    for first, wanted in ((False, "xy"), (True, "xz")):
        with pytest.raises(ck.GradientError, match="Doubling: backward wrote to the gradient that it got"):
            gradients(first, wanted)
