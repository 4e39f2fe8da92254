"""In-place operators on arrays that a tape tracks: recorded, and refused where a record could not tell."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from test_namespace import DIFFERENTIABLE, drawn, mapped, results

import cukern as ck
from cukern.testing import assert_close, gradcheck

REFUSED = r"in-place add on an array that a tape tracks: write x = cukern.add\(x, y\)"
WRITTEN = "was written since by"
LOST = "after a tape began to track it, and the tape has no record of that"


def f64(value: Any) -> ck.Array:
    return ck.asarray(np.asarray(value, dtype="float64"))


def test_operators_have_the_gradients_of_the_operations(device: ck.Device) -> None:
    def step(h: Any, y: Any) -> Any:
        h -= y  # reads nothing in its backward
        h *= y  # reads what it overwrites
        h /= y  # reads its result
        h *= 1.25
        return h

    x, y = f64([[0.5, 1.0], [1.5, 0.7]]), f64([1.1, 1.7])
    kept = []

    def in_place(x: Any, y: Any) -> Any:
        h = x * 2.0
        kept.append(h)
        assert step(h, y) is h
        return h

    assert gradcheck(in_place, [x, y], order=1)
    assert_close(kept[0], step(x.numpy() * 2.0, y.numpy()))


def test_matrix_products_have_the_gradients_of_products(device: ck.Device) -> None:
    def product(x: Any, w: Any) -> Any:
        h, made = x * 2.0, ck.eye(2, dtype="float64")
        kept = h
        h @= w
        h *= h
        h @= h
        assert h is kept
        made @= w  # what is overwritten is not tracked
        return h + made

    x, w = f64([[0.5, 1.0], [1.5, 0.7]]), f64([[1.1, 1.7], [-0.3, 0.4]])
    squared = (2 * x.numpy() @ w.numpy()) ** 2
    assert_close(product(x, w), squared @ squared + w.numpy())
    assert gradcheck(product, [x, w], order=2)
    with ck.Tape() as tape:
        tape.watch(x)
        with pytest.raises(ck.GradientError, match="in-place matmul on an array that a tape tracks"):
            x @= w
        h = x * 1.0
        y = (h * h).sum()
        h @= w
    with pytest.raises(ck.GradientError, match=WRITTEN):
        tape.gradient(y, x)


def test_sums_in_a_loop(device: ck.Device) -> None:
    def loss(x: Any) -> Any:
        total, rows = 0.0, ck.zeros(2, dtype="float64")
        for row in x:
            total += (row * row).sum()
            rows += row * row  # what is added to is not tracked
        return total + (rows * rows).sum()

    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert_close(ck.grad(loss)(f64(x)), 2 * x + 4 * x * (x * x).sum(axis=0))


def test_square_of_itself_and_dtypes(device: ck.Device) -> None:
    def f(x: Any) -> Any:
        h = x + 1.0
        h *= h
        h /= x
        h += h
        return h

    assert gradcheck(f, [f64([0.5, 2.0])], order=2)

    def mixed(x: Any, y: Any) -> Any:
        h = x * 1.0
        h *= y  # the result is cast to the dtype of h
        assert h.dtype == ck.float32
        return h.sum()

    dx, dy = ck.grad(mixed, (0, 1))(ck.asarray([2.0, 3.0]), f64([5.0, 7.0]))
    assert dx.dtype == ck.float32 and dy.dtype == ck.float64
    assert_close(dx, np.array([5.0, 7.0], dtype="float32"))
    assert_close(dy, [2.0, 3.0])


def test_without_a_derivative_it_is_a_constant(device: ck.Device) -> None:
    def f(x: Any) -> Any:
        h = x * 2.0
        h //= 1.0
        return (h * x).sum()

    assert_close(ck.grad(f)(f64([1.75, 2.5])), [3.0, 5.0])


def test_saved_values_that_are_overwritten_are_an_error() -> None:
    x = f64([1.0, 2.0])
    for save in (lambda h: h * h, ck.exp):
        with ck.Tape() as tape:
            tape.watch(x)
            h = x * 2.0
            y = save(h)
            if save is ck.exp:
                h = y
                y = y * 1.0
            h += 1.0
        with pytest.raises(ck.GradientError, match=WRITTEN):
            tape.gradient(y, x)
    with ck.Tape() as tape:
        tape.watch(x)
        h = x * 2.0
        y = h.sum() + 3.0 * h  # which save nothing of h
        h *= 10.0
        z = y.sum() + h.sum()
    assert_close(tape.gradient(z, x), [30.0, 30.0])


def test_what_stays_refused() -> None:
    x, w = f64([1.0, 2.0]), ck.nn.Parameter([1.0, 2.0])
    part = f64([3.0, 4.0])
    untracked = part[:1]
    with ck.Tape() as tape:
        tape.watch(x)
        h = x * 2.0
        view, other = h[:1], x * 3.0
        turned = other.T
        leaf = x * 4.0
        tape.watch(leaf)
        for one in (x, w, h, view, other, turned, leaf, part, untracked):
            before = one.numpy()
            with pytest.raises(ck.GradientError, match=REFUSED):
                one += x[0]
            assert_close(one, before)
        with pytest.raises(ck.GradientError, match=r"x.at\[key\] for a part of one"):
            part[0] += x[0]
        del view
        h += 1.0  # nothing shares its memory now
    assert_close(tape.gradient(h, x), [2.0, 2.0])


def test_nested_tapes(device: ck.Device) -> None:
    x = f64([1.0, 2.0])
    with ck.Tape() as outer:
        outer.watch(x)
        h = x * x
        with ck.Tape() as inner:
            inner.watch(h)
            g = h * 3.0
            g *= h
            with pytest.raises(ck.GradientError, match=REFUSED):
                h += 1.0
        slope = inner.gradient(g, h)
        slope += x
        z = slope.sum()
    assert_close(outer.gradient(z, x), 12 * x.numpy() + 1)
    with ck.Tape() as outer, ck.Tape() as inner:
        outer.watch(x)
        h = x * x
        y = f64([3.0, 4.0])
        inner.watch(y)
        h *= y  # each tape tracks one of the two
    assert_close(outer.gradient(h, x), 2 * x.numpy() * y.numpy())
    assert_close(inner.gradient(h, y), x.numpy() ** 2)


def test_a_tape_that_missed_the_write_says_so() -> None:
    x, y = f64([1.0, 2.0]), f64([3.0, 4.0])
    with ck.Tape(persistent=True) as tape:
        tape.watch(x)
        h = x * 2.0
        with tape.stop_recording(), ck.Tape() as other:
            other.watch(y)
            h *= y
        with pytest.raises(ck.GradientError, match=LOST):
            h * 2.0
    assert_close(other.gradient(h, y), [2.0, 4.0])
    with pytest.raises(ck.GradientError, match=LOST):
        tape.gradient(h, x)
    with ck.Tape() as tape:
        tape.watch(x)
        h = x * 2.0
        z = h.sum()
    h *= 3.0  # no tape records
    with pytest.raises(ck.GradientError, match=LOST):
        tape.gradient(h, x)
    with ck.Tape(persistent=True) as tape:
        tape.watch(x)
        h = x * 2.0
        z = h.sum()
    with ck.Tape() as other:
        other.watch(y)
        h += y
    assert_close(tape.gradient(z, x), [2.0, 2.0])
    with pytest.raises(ck.GradientError, match=LOST):
        tape.gradient(z, h)


def test_persistent_tapes_checkpoints_and_functions(device: ck.Device) -> None:
    x = f64([1.0, 2.0])
    with ck.Tape(persistent=True) as tape:
        tape.watch(x)
        h = x * x
        h *= x
        for _ in range(2):
            assert_close(tape.gradient(h, x), 3 * x.numpy() ** 2)

    def block(x: Any) -> Any:
        total = ck.zeros(2, dtype="float64")
        for k in range(1, 3):
            total += x**k
        total *= x
        return total

    assert gradcheck(lambda x: ck.checkpoint(block)(x * 1.0), [x], order=1)

    def writes(h: Any) -> Any:
        h += 1.0
        return h * h

    with pytest.raises(ck.GradientError, match=REFUSED):
        ck.grad(lambda x: ck.checkpoint(writes)(x * 1.0).sum())(x)

    class Double(ck.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x * 1.0
            y += x
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (y,) = ctx.saved_arrays
            return 2.0 * grad + 0.0 * y

    def after(x: Any) -> Any:
        y = Double.apply(x)
        y += 1.0
        return (y * x).sum()

    with pytest.raises(ck.GradientError, match=WRITTEN):
        ck.grad(after)(x)


def test_no_operation_loses_what_is_overwritten_without_a_word(device: ck.Device) -> None:
    """A gradient through an array that was overwritten after use is right, or an error, for every function."""
    refused = 0
    some = DIFFERENTIABLE[::8]  # all take long
    for case in some:
        arrays = [ck.asarray(a) for a in results(drawn(case, ck.float64)) if isinstance(a, np.ndarray)]
        sources = [one for one in arrays if one.dtype == ck.float64]
        gradients: list[Any] = []
        for write in (False, True):
            with ck.Tape() as tape:
                tape.watch(sources)
                passed = iter([one * 1.0 if one.dtype == ck.float64 else one for one in arrays])
                used: list[ck.Array] = []

                def change(value: Any, passed: Any = passed, used: Any = used) -> Any:
                    used.append(next(passed))
                    return used[-1]

                outputs = results(case.function()(*mapped(drawn(case, ck.float64), change), **case.options))
                target = [one for one in outputs if isinstance(one, ck.Array) and one.dtype == ck.float64]
                total = sum(one.sum() for one in target)
                del outputs, target
                try:
                    for one in used:
                        if write and one.dtype == ck.float64:
                            one += 1.0
                    gradients.append(tape.gradient(total, sources))
                except ck.GradientError:
                    assert write, case
                    refused += 1
        if len(gradients) == 2:
            for got, want in zip(gradients[1], gradients[0], strict=True):
                assert (got is None) == (want is None), case
                if got is not None:
                    assert_close(got, want.numpy())
    assert 0 < refused < len(some)


def test_a_tape_may_be_made_while_all_are_looked_through(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = []

    def watches(tape: ck.Tape, key: object) -> bool:
        other = threading.Thread(target=ck.Tape, daemon=True)  # as a signal's handler or a finalizer
        other.start()
        other.join(5)
        waiting.append(other.is_alive())
        return key in tape._watched

    x = f64([1.0, 2.0])
    with ck.Tape() as tape:
        tape.watch(x)
        y = x * x
        with monkeypatch.context() as patch:
            patch.setattr(ck.Tape, "_watches", watches)
            y += x
    assert waiting
    assert not any(waiting)
    assert_close(tape.gradient(y, x), [3.0, 5.0])
