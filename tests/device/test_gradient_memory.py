"""A gradient has memory of its own: it can be written in every way, and that changes no other array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukern as ck


class Times(ck.Function):
    """The sum of x * w, whose gradients are the saved arrays themselves."""

    @staticmethod
    def forward(ctx: Any, x: ck.Array, w: ck.Array) -> ck.Array:
        ctx.save_for_backward(x, w)
        return (x * w).sum()

    @staticmethod
    def backward(ctx: Any, g: ck.Array) -> Any:
        x, w = ctx.saved_arrays
        return w, x


class TimesOnce(Times):
    backward = staticmethod(ck.once_differentiable(Times.backward))


LOSSES: dict[str, Callable[[ck.Array, ck.Array], ck.Array]] = {
    "sum": lambda x, w: x.sum() + w.sum(),
    "mean": lambda x, w: (x + w).mean(),
    "views": lambda x, w: x.reshape(3, 1).sum() + ck.flip(w).sum(),
    "joined": lambda x, w: ck.concat([x, w]).sum(),
    "broadcast": lambda x, w: (ck.broadcast_to(x, (4, 3)) + w).sum(),
    "product": lambda x, w: (x * w).sum(),
    "dot": lambda x, w: ck.dot(x, w),
    "one of two": lambda x, w: x.sum(),
    "saved": Times.apply,
    "saved, once": TimesOnce.apply,
}


def doubled(g: ck.Array) -> ck.Array:
    g *= 2
    return g


def assigned(g: ck.Array) -> ck.Array:
    g[...] = 2 * g
    return g


def through_a_view(g: ck.Array) -> ck.Array:
    part = g[:2]
    part *= 2
    g[2] = 2 * g[2]
    return g


def through_out(g: ck.Array) -> ck.Array:
    return ck.add(g, g, out=g)


def by_a_kernel(g: ck.Array) -> ck.Array:
    kernel = ck.Kernel(
        'extern "C" __global__ void << name >>(float* g, int n) { if (threadIdx.x < n) g[threadIdx.x] *= 2; }',
        block=32,
        name="doubles",
    )
    kernel(g, g.size, grid=1)
    return g


WRITES = [doubled, assigned, through_a_view, through_out, by_a_kernel]


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_a_write_to_a_gradient_changes_it_alone(loss: Callable[..., ck.Array], device: ck.Device) -> None:
    x, w = ck.asarray([1.0, 2.0, 3.0]), ck.asarray([0.5, 0.25, -2.0])
    for write in WRITES:
        with ck.Tape() as tape:
            tape.watch(x, w)
            y = loss(x, w)
        gradients = tape.gradient(y, [x, w], unconnected="zero")
        others = [x, w, y, *gradients]
        for i, gradient in enumerate(gradients):
            before = [one.numpy() for one in others]
            found = write(gradient)
            assert found is gradient
            before[3 + i] = 2 * before[3 + i]
            for one, was in zip(others, before, strict=True):
                np.testing.assert_array_equal(one.numpy(), was)


def test_gradients_of_one_source_and_cotangents_given_are_apart(device: ck.Device) -> None:
    x, given = ck.asarray([1.0, 2.0]), ck.asarray([3.0, 5.0])
    spread = ck.broadcast_to(ck.asarray(4.0), (2,))
    with ck.Tape(persistent=True) as tape:
        tape.watch(x)
        y = 2 * x
    for target, cotangent, want in (
        (x, None, [1, 1]),
        (x, given, [3, 5]),
        (y, given, [6, 10]),
        (x, spread, [4, 4]),
        (y, None, [2, 2]),
    ):
        first, second = tape.gradient(target, [x, x], cotangent)
        first -= 100
        assert second.tolist() == want
        assert given.tolist() == [3, 5] and spread.tolist() == [4, 4] and x.tolist() == [1, 2]


def test_gradients_of_transforms_can_be_written(device: ck.Device) -> None:
    x = ck.asarray([1.0, 2.0])
    found = [
        ck.grad(ck.sum)(x),
        ck.value_and_grad(ck.sum)(x)[1],
        ck.vjp(ck.sum, x)[1](ck.asarray(1.0)),
        ck.jacobian(ck.sum)(x),
        ck.grad(lambda x: ck.grad(lambda y: (y * y).sum())(x).sum())(x),
    ]
    for one in found:
        leaf = one[0] if isinstance(one, tuple) else one
        before = leaf.numpy()
        leaf += 1
        np.testing.assert_array_equal(leaf.numpy(), before + 1)


def test_the_gradient_of_a_gradient_that_was_copied(device: ck.Device) -> None:
    """The copies are recorded by an outer tape."""
    x, w = ck.asarray([1.0, 2.0]), ck.asarray([3.0, 5.0])
    for loss, want in ((Times.apply, [1, 10]), (lambda x, w: (x * w.sum()).sum(), [11, 11])):
        with ck.Tape() as outer:
            outer.watch(x, w)
            with ck.Tape() as inner:
                inner.watch(x)
                y = loss(x, w)
            (gradient,) = inner.gradient(y, [x])
            z = (gradient * ck.asarray([1.0, 10.0])).sum()
        assert outer.gradient(z, w).tolist() == want


def test_optimizers_and_clipping_take_gradients_that_are_one_number(device: ck.Device) -> None:
    parameter = ck.nn.Parameter([1.0, 2.0, 3.0])
    optimizer = ck.optim.SGD([parameter], 0.5)
    with ck.Tape() as tape:
        loss = parameter.sum()
    gradient = tape.gradient(loss, [parameter])
    optimizer.step(gradient)
    assert parameter.tolist() == [0.5, 1.5, 2.5] and gradient[0].tolist() == [1, 1, 1]


def test_parts_of_one_gradient_are_not_copied(device: ck.Device) -> None:
    """Parts along an inner axis alternate in memory, and share none."""
    x, w = (ck.ones((3, n), device=device) for n in (2, 3))
    of_x, of_w = ck.grad(lambda x, w: (ck.concat([x, w], axis=1) ** 2).sum(), (0, 1))(x, w)
    assert not device.addressable or (of_x._storage is of_w._storage and not of_w.is_contiguous)
    doubled(of_x)
    assert ck.all(of_x == 4)
    assert ck.all(of_w == 2)
