"""The tape on arrays that are not cukern's: what it needs of an array is what stands here."""

from __future__ import annotations

import numpy as np
import pytest

from cukern.array import Storage
from cukern.autodiff import cotangents, tape
from cukern.autodiff.forward import Forward
from cukern.autodiff.tape import Tape


class Plain:
    """A NumPy array with a key and a storage, and nothing of a device."""

    def __init__(self, data, device="nowhere"):
        self.device = device
        self.data = np.asarray(data, dtype=np.float64)
        self._key = None
        self._storage = Storage()

    shape = property(lambda self: self.data.shape)
    dtype = property(lambda self: self.data.dtype)


def add(a, b):
    out = Plain(a.data + b.data)
    if tape.recording((a, b)):
        tape.record("add", (a, b), (out,), lambda g, saved, needs: (g[0], g[0]))
    return out


def multiply(a, b):
    out = Plain(a.data * b.data)
    if tape.recording((a, b)):
        tape.record(
            "multiply",
            (a, b),
            (out,),
            lambda g, s, needs: (
                multiply(g[0], s[1]) if needs[0] else None,
                multiply(g[0], s[0]) if needs[1] else None,
            ),
            saved=(a, b),
        )
    return out


def sum_to_shape(a, shape, dtype, onto=None):
    lead = a.data.ndim - len(shape)
    axes = tuple(range(lead)) + tuple(i + lead for i, n in enumerate(shape) if n == 1 != a.shape[i + lead])
    out = Plain(a.data.sum(axis=axes).reshape(shape))
    if tape.recording((a,)):
        ones = Plain(np.ones(a.shape))
        tape.record("sum_to_shape", (a,), (out,), lambda g, s, needs: (multiply(g[0], ones),))
    return out if onto is None else add(onto, out)


@pytest.fixture(autouse=True)
def plain_algebra(monkeypatch):
    monkeypatch.setattr(cotangents, "_registered", None)
    tape.register_algebra(
        add=add,
        sum_to_shape=sum_to_shape,
        zeros=lambda shape, dtype, device: Plain(np.zeros(shape, dtype)),
        ones=lambda shape, dtype, device: Plain(np.ones(shape, dtype)),
        cast=lambda a, dtype: a,
        reshape=lambda a, shape: Plain(a.data.reshape(shape)),
        broadcast=lambda a, shape: Plain(np.broadcast_to(a.data, shape)),
    )


def test_third_order_and_broadcasting():
    x, scale = Plain([1.0, 2.0, 3.0]), Plain(2.0)
    with Tape() as outermost, Tape() as outer:
        with Tape() as inner:
            for one in (outermost, outer, inner):
                one.watch(x, scale)
            y = multiply(scale, multiply(x, multiply(x, x)))
        first, by_scale = inner.gradient(y, [x, scale])
        second = outer.gradient(first, x)
    third = outermost.gradient(second, x)
    np.testing.assert_array_equal(first.data, 6 * x.data**2)
    np.testing.assert_array_equal(by_scale.data, (x.data**3).sum())
    np.testing.assert_array_equal(second.data, 12 * x.data)
    np.testing.assert_array_equal(third.data, [12.0, 12.0, 12.0])


def test_tangents_follow_from_cotangents():
    x, direction = Plain([1.0, 2.0, 3.0]), Plain([1.0, 0.0, 10.0])
    with Tape() as outer:
        outer.watch(x)
        with Forward([x], [direction]) as inner:
            y = multiply(x, multiply(x, x))
        (tangent,) = inner.tangents_of([y])
    np.testing.assert_array_equal(tangent.data, 3 * x.data**2 * direction.data)
    np.testing.assert_array_equal(outer.gradient(tangent, x).data, 6 * x.data * direction.data)


def test_saved_array_written_since():
    x = Plain([1.0, 2.0])
    with Tape() as active:
        active.watch(x)
        y = multiply(x, x)
    x._storage.version += 1
    x._storage.writer = "fill"
    with pytest.raises(
        tape.GradientError, match=r"multiply: an array of float64, shape \(2,\).*written since by fill"
    ):
        active.gradient(y, x)


def test_gradient_on_another_device():
    x, y = Plain([1.0, 2.0]), Plain([2.0, 4.0])
    with Tape() as active:
        active.watch(x)
        tape.record("move", (x,), (y,), lambda g, saved, needs: (Plain(g[0].data, "elsewhere"),))
    message = "move: the gradient of input 0 is on elsewhere; expected nowhere"
    with pytest.raises(tape.GradientError, match=message):
        active.gradient(y, x)
