"""What a tape records, what it frees, and what it refuses."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import numpy as np
import pytest
from tape_support import f64, gradient

import cukern as ck
from cukern.autodiff import tape
from cukern.testing import assert_close

pytestmark = pytest.mark.usefixtures("device")


@pytest.fixture
def records(monkeypatch):
    """The names of the operations that any tape records."""
    names = []

    class Records(list):
        def append(self, recorded):
            names.append(recorded[0].name)
            super().append(recorded)

    made = ck.Tape.__init__

    def init(self, *args, **options):
        made(self, *args, **options)
        self._records = Records()

    monkeypatch.setattr(ck.Tape, "__init__", init)
    return names


# ---- what is recorded


def test_untracked_calls_save_nothing(records):
    x, y = f64([1.0, 2.0]), f64([3.0, 4.0])
    with ck.Tape() as active:
        active.watch(y)
        a = ck.exp(x)
        held = weakref.ref(a)
        b = ck.sin(a * x) + a
        del a
        assert held() is None
        assert records == []
        assert b._key is None
        ck.sin(y)
        assert records == ["sin"]
    ck.sin(y)
    assert records == ["sin"]


def test_a_consumed_tape_frees_what_it_held():
    x = f64([1.0, 2.0])
    with ck.Tape() as active:
        active.watch(x)
        a = ck.exp(x)
        held = weakref.ref(a)
        y = a * a
        del a
    assert held() is not None
    active.gradient(y, x)
    assert held() is None


def test_records_are_freed_as_they_are_consumed():
    x = f64([1.0, 2.0])
    alive = []

    class Probe(ck.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, grad):
            alive.append(held() is not None)
            return grad

    with ck.Tape() as active:
        active.watch(x)
        a = Probe.apply(x)
        b = ck.exp(a)
        held = weakref.ref(b)
        y = b * b
        del b
    active.gradient(y, x)
    assert alive == [False]


def test_keys_and_versions_are_no_lists():
    """The garbage collector visits every list that lives, but not the tuples of integers that a record holds."""
    x, weight = ck.ones((4, 4)), ck.ones(4)
    with ck.Tape() as recording:
        recording.watch(x, weight)
        y = ck.nn.layer_norm(ck.concat([x @ x, ck.nn.gelu(x)]), (4,), weight)
        ck.sum(y.T[1:] * 2.0)
    kept = [(record[1], record[2], record[4]) for record in recording._records]
    assert len(kept) >= 7
    assert all(type(one) is tuple for each in kept for one in each)


def test_only_what_the_sources_need_is_computed(records):
    x, y = f64([1.0, 2.0]), f64([3.0, 4.0])
    with ck.Tape() as outer, ck.Tape() as inner:
        outer.watch(x, y)
        inner.watch(x, y)
        z = ck.sin(x) * y
        del records[:]
        inner.gradient(z, y)
    assert "cos" not in records


def test_integer_results_are_not_tracked():
    x = f64([1.0, 5.0, 2.0])
    with ck.Tape() as active:
        active.watch(x)
        i = ck.argmax(x)
        assert i._key is None
        tape.record("argmax", (x,), (i,), lambda cotangents, saved, needs: (None,))
        assert i._key is None
    assert active._records == []


def test_persistent_tape_gives_several_gradients():
    x = f64([1.0, 2.0])
    with ck.Tape(persistent=True) as active:
        active.watch(x)
        y = x * x
        z = y * x
    for _ in range(2):
        assert_close(active.gradient(y, x), 2 * x.numpy())
        assert_close(active.gradient(z, x), 3 * x.numpy() ** 2)


def test_persistent_tape_inside_its_block_records_its_own_gradient():
    x = f64([1.0, 2.0])
    with ck.Tape(persistent=True) as active:
        active.watch(x)
        y = x * x * x
        dy = active.gradient(y, x)
        ddy = active.gradient(dy, x)
    assert_close(ddy, 6 * x.numpy())


def test_tape_that_is_not_persistent_is_used_once():
    x = f64([1.0, 2.0])
    with ck.Tape() as active:
        active.watch(x)
        y = x * x
        active.gradient(y, x)
        assert tape.active() == ()
    for again in (lambda: active.gradient(y, x), lambda: active.watch(x), active.__enter__):
        with pytest.raises(ck.GradientError, match=r"has given its gradient.*Tape\(persistent=True\)"):
            again()


def test_stop_recording():
    x = f64([1.0, 2.0])
    with ck.Tape() as outer, ck.Tape() as inner:
        outer.watch(x)
        inner.watch(x)
        with inner.stop_recording():
            a = x * x
        with ck.stop_recording():
            b = x * x
            with ck.Tape() as innermost:
                innermost.watch(x)
                c = x * x
        y = a + b + c + x
    assert_close(inner.gradient(y, x), np.ones(2))
    assert_close(outer.gradient(y, x), 2 * x.numpy() + 1)
    assert_close(innermost.gradient(c, x), 2 * x.numpy())


def test_stop_recording_does_not_revive_a_consumed_tape():
    x = f64([1.0, 2.0])
    with ck.Tape() as active:
        active.watch(x)
        y = x * x
        with ck.stop_recording():
            active.gradient(y, x)
        assert tape.active() == ()


def test_a_tape_may_be_entered_again_but_not_twice_at_once():
    x = f64([1.0, 2.0])
    active = ck.Tape()
    active.watch(x)
    with active:
        y = x * x
    z = y * x
    with active, pytest.raises(ck.GradientError, match="already recording"), active:
        pass
    with active:
        w = y * x
    assert_close(active.gradient([w, z], x), 3 * x.numpy() ** 2)


def test_exceptions_leave_the_stack_as_it_was():
    outer = ck.Tape()
    with outer:
        for enter in (ck.Tape, ck.stop_recording, outer.stop_recording):
            with pytest.raises(KeyError), enter():
                raise KeyError
            assert tape.active() == (outer,)
    assert tape.active() == ()


def test_threads_have_tapes_of_their_own():
    w = ck.nn.Parameter(np.array([2.0, 3.0]))
    results, ready = {}, threading.Barrier(2)

    def work(power):
        ready.wait()
        for _ in range(20):
            with ck.Tape() as active:
                y = w
                for _ in range(power - 1):
                    y = y * w
            assert tape.active() == ()
            results.setdefault(power, []).append(active.gradient(y, w).numpy())

    threads = [threading.Thread(target=work, args=(power,)) for power in (2, 3)]
    with ck.Tape() as here:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert here._records == []
    for power in (2, 3):
        assert len(results[power]) == 20
        for got in results[power]:
            assert_close(got, power * w.numpy() ** (power - 1))


def test_threads_agree_on_the_key_of_a_parameter(monkeypatch):
    class Slow:
        def __init__(self, keys):
            self.keys = keys

        def __next__(self):
            time.sleep(0.01)
            return next(self.keys)

    monkeypatch.setattr(tape, "_keys", Slow(tape._keys))
    w, ready, results = ck.nn.Parameter([2.0, 3.0]), threading.Barrier(4), []

    def work():
        ready.wait()
        with ck.Tape() as active:
            y = w * w
        results.append(active.gradient(y, w))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for got in results:
        assert_close(got, [4.0, 6.0])


# ---- unconnected


def test_unconnected_sources():
    x, y = f64([1.0, 2.0]), f64([[3.0]])
    assert gradient(lambda x, y: x * x, x, y)[1] is None
    zero = gradient(lambda x, y: x * x, x, y, unconnected="zero")[1]
    assert_close(zero, [[0.0]], dtype="float64")
    with ck.Tape() as active:
        active.watch(x)
    assert active.gradient(y * y, {"x": x, "y": y}) == {"x": None, "y": None}
    with ck.Tape() as active:
        active.watch(x)
    assert active.gradient(y, y) is None
    with pytest.raises(ValueError, match="unconnected: expected 'none' or 'zero', got 'zeros'"):
        gradient(lambda x: x, x, unconnected="zeros")


def test_a_source_that_is_the_target():
    x = f64([1.0, 2.0])
    (got,) = gradient(lambda x: x, x)
    assert_close(got, np.ones(2))


# ---- what is refused


def test_integer_and_foreign_sources_are_refused():
    i, x = ck.asarray([1, 2]), f64([1.0])
    with ck.Tape() as active:
        with pytest.raises(
            TypeError, match=r"watch\[0\]\['a'\]: only floating dtypes have gradients, got int64"
        ):
            active.watch({"a": i})
        active.watch(x)
        y = x * x
    with pytest.raises(TypeError, match=r"sources\[1\]: only floating dtypes have gradients, got int64"):
        active.gradient(y, [x, i])
    with pytest.raises(TypeError, match=r"sources\[0\]: expected an array, got float"):
        active.gradient(y, [1.0])
    with pytest.raises(TypeError, match="target: only floating dtypes have gradients, got int64"):
        active.gradient(i, x)
    assert_close(active.gradient(y, x), [2.0])  # a refusal does not use the tape up


def test_saved_array_written_in_place():
    x = f64([1.0, 2.0])
    with ck.Tape() as active:
        active.watch(x)
        y = ck.sin(x)
    x[0] = 5.0
    with pytest.raises(
        ck.GradientError, match=r"sin: an array of float64, shape \(2,\).*was written since by"
    ):
        active.gradient(y, x)


def test_saved_array_written_through_a_view():
    x = f64([1.0, 2.0, 3.0])
    with ck.Tape() as active:
        active.watch(x)
        y = ck.exp(x)
        z = y.sum()
    y[1:][0] = 5.0
    with pytest.raises(ck.GradientError, match="exp: an array of float64"):
        active.gradient(z, x)


def test_saved_array_written_by_a_kernel():
    source = 'extern "C" __global__ void wipe(<< elem >>* x, << index >> n)\n'
    source += "{ << index >> i = blockIdx.x * << block_x >> + threadIdx.x; if (i < n) x[i] = 0; }"
    x = f64([1.0, 2.0])
    with ck.Tape() as active:
        active.watch(x)
        y = ck.sin(x)
    ck.Kernel(source)(x, x.size)
    with pytest.raises(ck.GradientError, match=r"sin: an array of float64.*was written since by wipe"):
        active.gradient(y, x)


def test_an_array_written_without_a_record_is_not_used_as_if_it_were_the_old_one():
    x = f64([1.0, 2.0])
    with ck.Tape() as active:
        active.watch(x)
        y = x * 2.0
        with ck.stop_recording():
            y[0] = 5.0
        with pytest.raises(ck.GradientError, match=r"was written by .* after a tape began to track it"):
            y * y
        active.watch(y)
        z = y * y
    assert_close(active.gradient(z, y), 2 * y.numpy())


def test_an_output_that_a_tape_knows_already():
    x = f64([1.0, 2.0])
    with ck.Tape() as active:
        active.watch(x)
        with pytest.raises(
            ck.GradientError, match=r"fill: its output is an array of float64, shape \(2,\) that a tape"
        ):
            tape.record("fill", (x,), (x,), lambda cotangents, saved, needs: cotangents)


def test_an_error_in_a_rule_says_where_it_was():
    x = f64([1.0, 2.0])

    class Broken(ck.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2.0

        @staticmethod
        def backward(ctx, grad):
            raise KeyError("oops")

    with pytest.raises(KeyError) as caught:
        gradient(Broken.apply, x)
    assert caught.value.__notes__ == ["while computing the gradient of Broken"]


def test_rules_that_return_nonsense_are_refused():
    x = f64([1.0, 2.0])

    def with_rule(rule):
        def f(x):
            y = ck.asarray(x.numpy())
            tape.record("custom", (x,), (y,), lambda cotangents, saved, needs: rule(cotangents[0]))
            return y

        return f

    for rule, message in [
        (lambda g: (g, g), "custom: expected 1 gradients, got 2"),
        (lambda g: (1.0,), "custom: the gradient of input 0 must be an array or None, got float"),
        (lambda g: (g[:1],), r"custom: the gradient of input 0 has shape \(1,\); expected \(2,\)"),
        (lambda g: (g.sum(),), r"custom: the gradient of input 0 has shape \(\); expected \(2,\)"),
        (
            lambda g: (ck.asarray([1, 2]),),
            "custom: the gradient of input 0 has dtype int64; expected float64",
        ),
    ]:
        with pytest.raises(ck.GradientError, match=message):
            gradient(with_rule(rule), x)


# ---- other threads


def _in_thread(call) -> None:
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


def test_a_tape_that_another_thread_leaves_records_no_more():
    """Whether or not other tapes are open."""
    x = ck.asarray([1.0, 2.0])
    stopped = ck.Tape(persistent=True)
    stopped.__enter__()
    stopped.watch(x)
    _in_thread(lambda: stopped.__exit__(None, None, None))
    with ck.Tape() as other:
        other.watch(x)
        y = x * x
    assert stopped.gradient(y, x) is None
    with stopped, stopped.stop_recording():
        _in_thread(lambda: stopped.__exit__(None, None, None))
    assert not tape.state.active


def test_a_tape_of_a_thread_that_ended_is_forgotten():
    before = set(tape.opened)
    _in_thread(lambda: ck.Tape().__enter__())
    gc.collect()
    assert tape.opened == before


def test_one_of_two_threads_enters_a_tape():
    """The second comes while the first looks whether the tape may be used."""
    made, entered, refused = ck.Tape(), [], []

    def enter():
        try:
            entered.append(made.__enter__())
        except ck.GradientError:
            refused.append(made)

    usable = made._check_usable
    made._check_usable = lambda: (setattr(made, "_check_usable", usable), _in_thread(enter))
    enter()
    assert (len(entered), len(refused)) == (1, 1)
    made.__exit__(None, None, None)
    assert id(made) not in tape.opened
