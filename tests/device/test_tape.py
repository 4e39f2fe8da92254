"""The tape against closed forms."""

from __future__ import annotations

import collections
import dataclasses
import re

import numpy as np
import pytest
from tape_support import f64, gradient

import cukern as ck
from cukern.autodiff import tape
from cukern.autodiff.tape import record
from cukern.testing import assert_close

pytestmark = pytest.mark.usefixtures("device")
RNG_VALUES = np.random.default_rng(5).uniform(0.5, 2.0, (3, 4))


# ---- values


def test_gradient_of_an_array_is_that_of_its_sum():
    x = f64([1.0, 2.0, 3.0])
    (got,) = gradient(lambda x: x * x * x, x)
    assert_close(got, 3 * x.numpy() ** 2, dtype="float64")


def test_nested_tapes_to_third_order():
    x = f64([0.3, -1.2, 2.0])
    with ck.Tape() as third, ck.Tape() as second, ck.Tape() as first:
        for one in (third, second, first):
            one.watch(x)
        y = ck.sin(x) * ck.exp(x)
        dy = first.gradient(y, x)
        ddy = second.gradient(dy, x)
        dddy = third.gradient(ddy, x)
    s, c, e = np.sin(x.numpy()), np.cos(x.numpy()), np.exp(x.numpy())
    assert_close(dy, (s + c) * e)
    assert_close(ddy, 2 * c * e)
    assert_close(dddy, 2 * (c - s) * e)


def test_mixed_second_derivative_by_two_tapes_that_watch_different_arrays():
    x, y = f64(0.7), f64(-0.4)
    with ck.Tape() as outer:
        outer.watch(y)
        with ck.Tape() as inner:
            inner.watch(x)
            z = ck.sin(x * y)
        dx = inner.gradient(z, x)
    a = 0.7 * -0.4
    assert_close(outer.gradient(dx, y), np.cos(a) - a * np.sin(a))


def test_diamond_and_an_array_used_twice():
    x = f64([1.5, -0.5])

    def f(x):
        a = x * x
        return ck.sin(a) * a + a + x

    (got,) = gradient(f, x)
    a = x.numpy() ** 2
    assert_close(got, (np.cos(a) * a + np.sin(a) + 1) * 2 * x.numpy() + 1)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((2, 3), (3,)),
        ((2, 3), ()),
        ((2, 1), (1, 3)),
        ((1,), (4, 2, 1)),
        ((0, 3), (3,)),
        ((), ()),
        ((1, 1), ()),
    ],
)
def test_broadcasting_is_undone(a, b):
    rng = np.random.default_rng(0)
    x, y = f64(rng.normal(size=a)), f64(rng.normal(size=b))
    dx, dy = gradient(lambda x, y: x * y, x, y)
    full_x, full_y = np.broadcast_arrays(x.numpy(), y.numpy())
    lead = full_x.ndim

    def reduced(values, shape):
        padded = (1,) * (lead - len(shape)) + shape
        axes = tuple(i for i in range(lead) if padded[i] == 1)
        return values.sum(axis=axes, keepdims=True).reshape(shape)

    assert_close(dx, reduced(full_y, a))
    assert_close(dy, reduced(full_x, b))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("shape", "to"),
    [((40,), (300, 40)), ((40,), (4000, 40)), ((1, 7), (5, 3, 7)), ((3, 1), (3, 900)), ((), (50,))],
)
def test_sums_of_gradients_are_added_where_they_are_made(dtype, shape, to):
    rng = np.random.default_rng(1)
    row = ck.asarray(rng.standard_normal(shape), dtype=dtype)
    factors = [ck.asarray(rng.standard_normal(to), dtype=dtype) for _ in range(3)]

    def of_row(row):
        with ck.Tape() as tape:
            tape.watch(row)
            parts = [(row + one) * one for one in factors]
        return tape.gradient(parts, row)

    explained = str(ck.explain(of_row, row))
    axes = tuple(i for i in range(len(to)) if ([1] * (len(to) - len(shape)) + list(shape))[i] == 1)
    wide = [one.numpy().astype("float64") for one in factors]
    sums = [one.sum(axes).reshape(shape) for one in wide]
    # Each of the three sums is rounded once more to the dtype, at a partial sum of these.
    limit = 1.5 * float(ck.finfo(dtype).eps) * sum(map(np.abs, sums))
    limit = limit + 2e-7 * sum(np.abs(one).sum(axes).reshape(shape) for one in wide)
    assert (np.abs(of_row(row).numpy().astype("float64") - sum(sums)) <= limit).all()
    assert re.search("^2 x reduction: .*, added to another array", explained, re.MULTILINE)


def test_second_derivatives_through_sums_that_are_added():
    row, x = f64([0.5, -1.0, 2.0]), f64(RNG_VALUES[:, :3])
    with ck.Tape() as outer:
        outer.watch(row)
        with ck.Tape() as inner:
            inner.watch(row)
            y = [ck.sin(row + x), ck.sin(row * x)]
        first = inner.gradient(y, row)
    second = outer.gradient(first, row)
    r, v = row.numpy(), x.numpy()
    assert_close(first, (np.cos(r + v) + v * np.cos(r * v)).sum(0))
    assert_close(second, -(np.sin(r + v) + v * v * np.sin(r * v)).sum(0))


def test_zero_d_and_empty_arrays():
    (got,) = gradient(lambda x: x * x, f64(3.0))
    assert got.shape == ()
    assert got.item() == 6.0
    (got,) = gradient(lambda x: (x * x).sum(), f64(np.zeros((0, 2))))
    assert got.shape == (0, 2)


def test_gradient_has_the_dtype_of_its_source():
    x = ck.asarray(np.array([1.0, 2.0], np.float32))
    y = f64([3.0, 4.0])
    dx, dy = gradient(lambda x, y: x * y, x, y)
    assert_close(dx, [3.0, 4.0], dtype="float32")
    assert_close(dy, [1.0, 2.0], dtype="float64")


def test_intermediate_sources_and_several_targets():
    x = f64([2.0, 3.0])
    with ck.Tape() as active:
        active.watch(x)
        y = x * x
        z = y * y
    dx, dy, dz = active.gradient([z, y], [x, y, z])
    assert_close(dx, 4 * x.numpy() ** 3 + 2 * x.numpy())
    assert_close(dy, 2 * y.numpy() + 1)
    assert_close(dz, np.ones(2))


def test_output_gradients():
    x = f64([2.0, 3.0])
    (got,) = gradient(lambda x: x * x, x, output_gradients=ck.asarray(np.array([1.0, 10.0], np.float32)))
    assert_close(got, [4.0, 60.0], dtype="float64")
    with pytest.raises(
        ValueError, match=r"output_gradients: expected shape \(2,\) for target, got shape \(\)"
    ):
        gradient(lambda x: x * x, x, output_gradients=f64(1.0))
    with pytest.raises(ValueError, match="output_gradients: expected 1 arrays, got 2"):
        gradient(lambda x: x * x, x, output_gradients=[x, x])


def test_derivative_with_respect_to_the_cotangent():
    x, v = f64([2.0, 3.0]), f64([5.0, 7.0])
    with ck.Tape() as outer:
        outer.watch(v)
        (dx,) = gradient(lambda x: x * x, x, output_gradients=v)
    assert_close(outer.gradient(dx, v), 2 * x.numpy())


def test_ten_thousand_operations_without_recursion():
    x = f64(1.0)
    with ck.Tape() as active:
        active.watch(x)
        y = x
        for _ in range(10_000):
            y = y + x
    assert active.gradient(y, x).item() == 10_001.0


def test_cotangents_of_unused_outputs_are_zeros_unless_declined():
    x, constant = f64([1.0, 2.0, 3.0]), f64([5.0])
    seen = []

    def split(x, materialize):
        with ck.stop_recording():
            outputs = (ck.exp(x), ck.sin(x), ck.argmax(x))

        def vjp(cotangents, saved, needs):
            seen.append(cotangents)
            return (cotangents[0],)

        tape.record("split", (x,), outputs, vjp, materialize=materialize)
        return outputs

    for materialize in (True, False):
        with ck.Tape() as active:
            active.watch(x)
            y = split(x, materialize)[0]
        active.gradient([y, constant], x)
    assert_close(seen[0][1], np.zeros(3), dtype="float64")
    assert_close(seen[0][2], 0, dtype="int64")
    assert seen[1][1] is None
    assert seen[1][2] is None


# ---- pytrees


def test_sources_may_be_any_pytree():
    pair = collections.namedtuple("pair", "scale shift")

    @dataclasses.dataclass
    class Layer:
        weight: object
        bias: object

    a, b, c, d = (f64(float(i + 1)) for i in range(4))
    sources = {"pair": pair(a, [b]), "layer": Layer(c, None), "rest": (d,)}
    with ck.Tape() as active:
        active.watch(sources)
        y = a * b * c * d
    got = active.gradient(y, sources)
    assert type(got["pair"]) is pair
    assert got["pair"].scale.item() == 24.0
    assert [one.item() for one in got["pair"].shift] == [12.0]
    assert isinstance(got["layer"], Layer)
    assert got["layer"].weight.item() == 8.0
    assert got["layer"].bias is None
    assert got["rest"][0].item() == 6.0
    assert sources["layer"].weight is c


def test_parameters_are_watched_by_themselves():
    w = ck.nn.Parameter([1.0, 2.0])
    with ck.Tape() as outer, ck.Tape() as inner:
        y = (w * w * w).sum()
        g = inner.gradient(y, w)
        s = g.sum()
    assert_close(g, [3.0, 12.0], dtype="float32")
    assert_close(outer.gradient(s, w), [6.0, 12.0])


class Halving(ck.Function):
    """A backward that writes to what it is given."""

    @staticmethod
    def forward(ctx, x):
        return x * 0.5

    @staticmethod
    def backward(ctx, grad):
        grad *= 0.5
        return grad


def test_what_derivatives_begin_with_stays_as_it_is(device):
    x = ck.asarray(3.0)

    def gradient(function, x):
        with ck.Tape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x, unconnected="zero")

    for _ in range(2):
        assert gradient(Halving.apply, x).item() == 0.5
        for function, value in ((lambda x: x, 1.0), (lambda x: ck.asarray(1.0), 0.0), (ck.sum, 1.0)):
            given = gradient(function, x)
            assert given.item() == value
            given *= 7.0
            part = gradient(function, ck.asarray([1.0, 2.0]))[:1]
            assert part.item() == value
            part += 7.0


def test_an_array_that_is_both_operands(device):
    x = ck.asarray(RNG_VALUES)
    for function, first, second in (
        (lambda x: x * x, 2 * RNG_VALUES, 2 + 0 * RNG_VALUES),
        (lambda x: x - x, 0 * RNG_VALUES, 0 * RNG_VALUES),
        (lambda x: x / x, 0 * RNG_VALUES, 0 * RNG_VALUES),
        (lambda x: ck.hypot(x, x) ** 2, 4 * RNG_VALUES, 4 + 0 * RNG_VALUES),
    ):
        with ck.Tape() as outer:
            outer.watch(x)
            with ck.Tape() as inner:
                inner.watch(x)
                y = function(x)
            by_x = inner.gradient(y, x)
        assert_close(by_x, first, atol=1e-6)
        assert_close(outer.gradient(by_x, x, unconnected="zero"), second, atol=1e-6)


def test_what_derivatives_begin_with_is_not_written_to():
    x = f64([1.0, 2.0])

    def vjp(cotangents, saved, needs):
        with pytest.raises(ValueError, match="repeated view"):
            cotangents[0][...] = 5.0
        with pytest.raises(ValueError, match="repeated view"):
            cotangents[0].__iadd__(1.0)
        return [ck.ones(2, dtype="float64") * cotangents[0]]

    with ck.Tape() as tape:
        tape.watch(x)
        y = ck.asarray(np.float64(3.0))
        record("mine", (x,), (y,), vjp)
    assert tape.gradient(y, x).tolist() == [1.0, 1.0]


def test_gradients_are_handed_over_as_they_are_finished():
    """Before the gradients of earlier layers, and whole where an array is used twice."""
    x, y, z, unused = (ck.nn.Parameter([1.0, 2.0]) for _ in range(4))
    order = []

    class Seen(ck.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, grad):
            order.append("backward")
            return grad

    with ck.Tape() as tape:
        loss = (Seen.apply(x * x) * y * z + y).sum()
    sources = [x, unused, y, z, y]
    given = {}
    found = tape.gradient(
        loss, sources, finished=lambda i, one: (order.append(str(i)), given.update({i: one}))
    )
    assert sorted(order[: order.index("backward")]) == ["2", "3", "4"]
    assert order[order.index("backward") + 1 :] == ["0", "1"]
    assert all(given[i] is found[i] for i in range(5)) and found[1] is None
    np.testing.assert_array_equal(np.asarray(found[2]), [2.0, 9.0])
    np.testing.assert_array_equal(np.asarray(found[4]), [2.0, 9.0])


@pytest.mark.parametrize("view", [True, False])
def test_a_gradient_that_is_finished_may_be_written(view):
    """It changes no other, not that of what its own array was computed from either."""
    rows, bias, weights = (
        ck.asarray(np.arange(20.0).reshape(5, 4)),
        ck.ones((3, 4)),
        ck.asarray(np.ones((3, 4))),
    )

    def gradient(write):
        with ck.Tape() as tape:
            tape.watch(rows, bias)
            total = ((bias + (rows[:3] if view else ck.exp(rows[:3]))) * weights).sum()

        def finished(i, one):
            if write and i == 0:
                one[...] = 7.0

        return tape.gradient(total, [bias, rows], finished=finished)[1].tolist()

    assert gradient(True) == gradient(False)

    x = ck.asarray([1.0, 2.0])
    with ck.Tape() as tape:
        tape.watch(x)
        tripled = x * 3
        total = (tripled * tripled).sum()

    def clear(i, one):
        if i == 0:
            one[...] = 0.0

    assert tape.gradient(total, [tripled, x], finished=clear)[1].tolist() == [18.0, 36.0]


def test_gradients_share_no_memory_with_one_another_or_with_the_cotangents_given():
    x, y, g = f64([2.0, 3.0]), f64([5.0, 7.0]), f64([1.0, 10.0])
    with ck.Tape() as active:
        active.watch(x, y)
        z = ck.reshape(x, (2, 1))[:, 0] + y
    first, second = active.gradient(z, [x, y], output_gradients=g)
    ck.copyto(first, f64([-1.0, -1.0]))
    assert_close(second, [1.0, 10.0])
    ck.copyto(second, f64([-2.0, -2.0]))
    assert_close(g, [1.0, 10.0])


def test_gradients_of_one_cotangent_share_no_memory():
    """Three arrays get the same cotangent, which is no constant and not given by the user."""
    x, y, z = (f64([2.0, 3.0]) for _ in range(3))
    with ck.Tape() as active:
        active.watch(x, y, z)
        total = ck.reshape(ck.reshape(x, (2, 1)) + ck.reshape(y, (2, 1)), (2,)) + z
        square = (total * total).sum()
    made = active.gradient(square, [x, y, z])
    for i, one in enumerate(made):
        ck.copyto(one, f64([i, i]))
    assert [one.tolist() for one in made] == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]


def test_gradients_that_are_parts_of_one_array_are_not_copied():
    x, y = f64([2.0, 3.0]), f64([5.0])
    with ck.Tape() as active:
        active.watch(x, y)
        z = ck.exp(ck.concat([x, y]))
    first, second = active.gradient(z, [x, y])
    assert first._storage is second._storage
    assert not ck.may_share_memory(first, second)
