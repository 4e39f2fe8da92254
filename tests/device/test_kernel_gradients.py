"""Kernels launched under a tape: a gradient through what they wrote is an error, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest
from tape_support import f64, gradient

import cukern as ck

TIMES = ck.Kernel(
    """
extern "C" __global__ void << name >>(const << elem >>* x, << elem >>* y, << elem >> factor, int n) {
    int i = blockIdx.x * << block >> + threadIdx.x;
    if (i < n) y[i] = factor * x[i];
}""",
    name="times",
)
ADD = ck.Kernel(
    """
extern "C" __global__ void << name >>(<< elem >>* x, << elem >>* total, int n) {
    int i = blockIdx.x * << block >> + threadIdx.x;
    if (i < n) total[i] += x[i];
}""",
    name="accumulate",
)
COUNT = ck.Kernel(
    """
extern "C" __global__ void << name >>(const << elem >>* x, int* y, int n) {
    int i = blockIdx.x * << block >> + threadIdx.x;
    if (i < n) y[i] = x[i] > << elem >>(0);
}""",
    name="count",
)
NAMED = r"(?s)times.*argument x .*tape tracks.*Function.*stop_gradient"


def times(x, y, factor=3.0):
    TIMES(x, y, factor, y.size)
    return y


def tripled(x):
    return times(x, ck.empty_like(x))


@pytest.fixture
def x(device):
    return f64([1.0, 2.0, 3.0])


def test_a_gradient_through_what_a_kernel_wrote_is_an_error(x) -> None:
    for through in (
        lambda x: (x * tripled(x)).sum(),
        tripled,
        lambda x: tripled(tripled(x)),
        lambda x: x * ck.sum(tripled(x)),
        lambda x: tripled(x * 2.0),
        lambda x: ck.checkpoint(lambda a: tripled(a) * 2.0)(x),
        lambda x: ck.checkpoint(tripled)(x),
    ):
        with pytest.raises(ck.GradientError, match=NAMED):
            gradient(through, x)
    with pytest.raises(ck.GradientError, match=NAMED):
        ck.grad(lambda x: (x * tripled(x)).sum())(x)
    with pytest.raises(ck.GradientError, match=NAMED):
        ck.jacobian(tripled)(x)


def test_a_number_and_an_array_that_is_read_and_written_count_as_read(x) -> None:
    with pytest.raises(ck.GradientError, match="argument factor"):
        gradient(lambda x: times(f64([1.0, 1.0]), f64([0.0, 0.0]), x[0]), x)

    def added(x):
        total = ck.zeros_like(x)
        ADD(x, total, 3)
        return total

    with pytest.raises(ck.GradientError, match=r"accumulate\w*: its argument x"):
        gradient(added, x * 1.0)


def test_a_parameter_counts_as_tracked(device) -> None:
    layer = ck.nn.Linear(2, 2, rng=0)
    with ck.Tape() as tape:
        loss = ck.sum(times(layer.weight, ck.empty(4)))
    with pytest.raises(ck.GradientError, match=NAMED):
        tape.gradient(loss, layer)


def test_a_bound_kernel_remembers_as_well(x) -> None:
    def bound(x):
        y = ck.empty_like(x)
        TIMES.bind(x.device, elem=x.dtype)((x, y, 3.0, 3), 1)
        return y

    with pytest.raises(ck.GradientError, match=NAMED):
        gradient(bound, x)


def test_values_that_nobody_differentiates_stay_free(x) -> None:
    metrics = ck.zeros_like(x)

    def loss(x):
        seen = []
        for factor in (1.0, 2.0):
            times(x, metrics, factor)
            seen.append(float(ck.sum(metrics)))
            metrics[0] = 0.0
            metrics[ck.asarray([1, 2])] = ck.asarray([5.0, 5.0])
            assert metrics.tolist() == [0.0, 5.0, 5.0]
        assert seen == [6.0, 12.0]
        hits = ck.empty(3, dtype=ck.int32)
        COUNT(x, hits, 3)
        return (x * x * hits).sum()

    (found,) = gradient(loss, x)
    assert found.tolist() == [2.0, 4.0, 6.0]
    other = f64([1.0, 1.0, 1.0])
    # What it wrote depends on x, and the gradient that is asked for is another's.
    with ck.Tape() as tape:
        tape.watch(x, other)
        target = (tripled(x) * other).sum()
    assert tape.gradient(target, other).tolist() == [3.0, 6.0, 9.0]


def test_a_tape_of_later_knows_nothing_of_it(x) -> None:
    y = ck.empty_like(x)
    gradient(lambda x: (x * float(times(x, y).sum())).sum(), x)
    (found,) = gradient(lambda x: (x * y).sum(), x)
    assert found.tolist() == [3.0, 6.0, 9.0]


def test_stop_gradient_and_stop_recording_say_that_it_is_constant(x) -> None:
    def unrecorded(x):
        with ck.stop_recording():
            y = tripled(x)
        return (x * y).sum()

    for constant in (
        lambda x: (x * tripled(ck.stop_gradient(x))).sum(),
        lambda x: (x * ck.stop_gradient(tripled(x))).sum(),
        lambda x: (x * ck.stop_gradient(tripled(x))[:3]).sum(),
        unrecorded,
    ):
        (found,) = gradient(constant, x)
        assert found.tolist() == [3.0, 6.0, 9.0]


def test_a_write_through_a_constant_is_counted(x) -> None:
    with ck.Tape() as tape:
        tape.watch(x)
        y = tripled(x)
        constant = ck.stop_gradient(y)
        z = x * constant
        with ck.stop_recording():
            constant[0] = 5.0
    with pytest.raises(ck.GradientError, match="written since by setitem"):
        tape.gradient(z, x)


def test_all_views_of_what_was_written_are_remembered(x) -> None:
    def part_of(view):
        def loss(x):
            y = f64([0.0, 0.0, 0.0, 0.0])
            before = y[:3]
            times(x, y[1:])
            return (x * view(y, before)).sum()

        return loss

    for view in (lambda y, before: y[1:], lambda y, before: y[:3], lambda y, before: before):
        with pytest.raises(ck.GradientError, match=NAMED):
            gradient(part_of(view), x)


def test_a_tracked_array_that_a_kernel_overwrites(x) -> None:
    def used(x):
        y = x * 2.0
        times(x, y)
        assert y.tolist() == [3.0, 6.0, 9.0]
        return y * x

    with pytest.raises(ck.GradientError, match=NAMED):
        gradient(used, x)

    def returned(x):
        y = x * 2.0
        times(f64([1.0, 1.0, 1.0]), y)
        return y

    with pytest.raises(ck.GradientError, match="times.*its argument y is an array that a tape tracks"):
        gradient(returned, x)

    def used_before(x):
        y = x * 2.0
        z = y * 5.0
        assert ck.sum(times(x, y)).item() == 18.0
        return z

    (found,) = gradient(used_before, x)
    assert found.tolist() == [10.0, 10.0, 10.0]


def test_a_watched_array_that_a_kernel_overwrites(x) -> None:
    for leaf in (f64([1.0, 1.0, 1.0]), ck.nn.Parameter(f64([1.0, 1.0, 1.0]))):
        with ck.Tape() as tape:
            tape.watch(x, leaf)
            times(x, leaf)
            with pytest.raises(ck.GradientError, match="use x.at"):
                leaf[0] = 1.0
            with pytest.raises(
                ck.GradientError, match="was written by times.* after a tape began to track it"
            ):
                _ = leaf * 2.0
            tape.watch(leaf)
            target = (leaf * leaf).sum()
        assert tape.gradient(target, leaf).tolist() == [6.0, 12.0, 18.0]


def test_a_parameter_that_a_kernel_overwrites_after_its_use(x) -> None:
    parameter = ck.nn.Parameter(f64([1.0, 1.0, 1.0]))
    with ck.Tape() as tape:
        tape.watch(x)
        _ = parameter * 2.0
        times(x, parameter)
        with pytest.raises(ck.GradientError, match="was written by times.* after a tape began to track it"):
            _ = parameter * 2.0


def test_what_a_kernel_wrote_and_is_watched_has_a_gradient_itself(x) -> None:
    with ck.Tape(persistent=True) as tape:
        tape.watch(x)
        y = tripled(x)
        tape.watch(y)
        target, first = (y * y).sum(), y
        again = f64([1.0, 1.0, 1.0])
        tape.watch(again)
        y = tripled(x)
        _ = y * 1.0
        times(again, y)
        tape.watch(y)
        other = (y * y).sum()
    with pytest.raises(ck.GradientError, match=NAMED):
        tape.gradient(target, x)
    with pytest.raises(ck.GradientError, match=NAMED):
        tape.gradient(other, again)
    assert tape.gradient(target, first).tolist() == [6.0, 12.0, 18.0]


def test_kernels_in_a_functions_forward_are_not_remembered(x) -> None:
    class Triple(ck.Function):
        @staticmethod
        def forward(ctx, x):
            return tripled(x)

        @staticmethod
        def backward(ctx, grad):
            return 3 * grad

    (found,) = gradient(lambda x: (x * Triple.apply(x)).sum(), x)
    np.testing.assert_allclose(found.numpy(), [6.0, 12.0, 18.0])
    assert ck.testing.gradcheck(Triple.apply, [x], order=2)


def test_an_optimizers_step_inside_a_tape_leaves_parameters_leaves(device) -> None:
    layer = ck.nn.Linear(2, 1, rng=0)
    inputs = ck.ones((1, 2))
    with ck.Tape() as first:
        loss = ck.sum(layer(inputs))
    found = first.gradient(loss, layer)
    optimizer = ck.optim.Adam(layer, lr=0.1)
    with ck.Tape() as second:
        optimizer.step(found)
        loss = ck.sum(layer(inputs))
    assert second.gradient(loss, layer.weight).tolist() == [[1.0, 1.0]]
