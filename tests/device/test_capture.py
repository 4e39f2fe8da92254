"""``capture``: a replay gives what the step gives and goes on where it was; what a graph cannot record is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.device import capture_hooks
from cukern.testing import assert_close

RNG = np.random.default_rng(0)
BATCHES = RNG.normal(size=(6, 5, 3)).astype(np.float32)

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda parameters: ck.optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: ck.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "adam": lambda parameters: ck.optim.Adam(parameters, lr=0.05),
    "adamw": lambda parameters: ck.optim.AdamW(parameters, lr=0.05),
    "rmsprop": lambda parameters: ck.optim.RMSprop(parameters, lr=0.05, momentum=0.5),
    "scheduled": lambda parameters: ck.optim.SGD(
        parameters, lr=ck.optim.WarmUp(2, ck.optim.CosineDecay(0.1, steps=5))
    ),
}


def training(kind: str, device: ck.Device) -> tuple[Any, Any, Callable[[Any], Any]]:
    """A model, its optimizer, and a step on noisy input."""
    model = ck.nn.Linear(3, 2, rng=1)
    optimizer = OPTIMIZERS[kind](model)
    noise = ck.random.default_rng(3)

    def step(x: Any) -> Any:
        with ck.Tape() as tape:
            y = model(x + noise.normal(size=x.shape, dtype=x.dtype) * 0.1)
            loss = (ck.tanh(y) ** 2).mean()
        optimizer.step(tape.gradient(loss, model))
        return loss

    return model, optimizer, step


def losses(step: Callable[[Any], Any]) -> list[float]:
    return [step(ck.asarray(batch)).item() for batch in BATCHES]


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_losses_are_those_of_the_step(device: ck.Device, kind: str) -> None:
    model, optimizer, step = training(kind, device)
    expected = losses(step)
    other, same, again = training(kind, device)
    captured = ck.capture(again)
    assert losses(captured) == expected
    assert captured.graphs == (device.kind == "cuda")
    assert len(set(expected)) == len(expected)
    assert same.steps == optimizer.steps == len(BATCHES)
    for mine, theirs in zip(other.leaves(), model.leaves(), strict=True):
        assert mine.tolist() == theirs.tolist()


def test_a_learning_rate_may_change_between_calls(device: ck.Device) -> None:
    results = []
    for wrap in (lambda step: step, ck.capture):
        _, optimizer, step = training("adam", device)
        call, found = wrap(step), []
        for i, batch in enumerate(BATCHES):
            optimizer.lr = 0.1 / (1 + i)
            found.append(call(ck.asarray(batch)).item())
        results.append(found)
    assert results[0] == results[1]


def test_other_options_may_change_between_calls(device: ck.Device) -> None:
    """Of the optimizer and of a group; to set what is there already records nothing anew."""
    results = []
    for wrap in (lambda step: step, ck.capture):
        _, optimizer, step = training("adamw", device)
        call, found = wrap(step), []
        for i, batch in enumerate(BATCHES):
            optimizer.betas = (0.5, 0.9) if i > 1 else (0.9, 0.999)
            optimizer.groups[0].options["weight_decay"] = 0.25 if i > 3 else 0.01
            before = capture_hooks.replaced
            optimizer.betas, optimizer.groups[0].options["weight_decay"] = (
                optimizer.betas,
                0.25 if i > 3 else 0.01,
            )
            assert capture_hooks.replaced == before
            found.append(call(ck.asarray(batch)).item())
        results.append(found)
    assert results[0] == results[1]
    optimizer.weight_decay = 0.5
    assert capture_hooks.replaced > before
    (group,) = optimizer.groups
    for change in (
        lambda: group.options.__ior__({"eps": 0.5}),
        lambda: setattr(group, "options", {"eps": 0.25}),
    ):
        before = capture_hooks.replaced
        change()
        assert capture_hooks.replaced > before
    with pytest.raises(
        ValueError, match=r"parameters\[0\]\['eps'\]: expected a number in \[0, inf\), got -1"
    ):
        group.options["eps"] = -1
    with pytest.raises(TypeError, match="'epsilon' is not an option of a group, which are: lr, betas"):
        group.options |= {"epsilon": 1.0}
    with pytest.raises(ValueError, match=r"betas\[0\]: expected a number in \[0, 1.0\), got 2"):
        optimizer.betas = (2, 0.5)


def test_what_is_loaded_and_what_is_frozen_counts_from_the_next_call_on(device: ck.Device) -> None:
    results = []
    for wrap in (lambda step: step, ck.capture):
        model, optimizer, step = training("adam", device)
        fresh, call, found = optimizer.state_dict(), wrap(step), []
        for i, batch in enumerate(BATCHES):
            if i == 3:
                optimizer.load_state_dict(fresh)
            if i == 5:
                model.weight.trainable = False
            found.append(call(ck.asarray(batch)).item())
        results.append([found, *[one.tolist() for one in model.parameters()], optimizer.steps])
    assert results[0] == results[1]


def test_a_module_may_turn_to_evaluation_between_calls(device: ck.Device) -> None:
    layer, x = ck.nn.Dropout(0.5, rng=0), ck.ones(64)
    call = ck.capture(lambda module, x: module(x))
    for training in (True, False, True):
        layer.train(training)
        for _ in range(4):
            assert (0.0 in call(layer, x).tolist()) == training


def test_other_shapes_and_constants_are_other_graphs(device: ck.Device) -> None:
    captured = ck.capture(lambda xs, power: {"sum": sum((x**power).sum() for x in xs)})
    for _ in range(3):
        for n, power in ((4, 2), (4, 3), (7, 2)):
            a, b = RNG.normal(size=(2, n))
            found = captured([ck.asarray(a), ck.asarray(b[::-1])], power=power)["sum"]
            assert_close(found, (a**power).sum() + (b**power).sum())
    assert captured.graphs == (3 if device.kind == "cuda" else 0)


def test_inputs_of_any_strides_are_read(device: ck.Device) -> None:
    captured = ck.capture(lambda x: x * 2)
    for dtype in (ck.float32, ck.bfloat16):
        base = ck.asarray(RNG.normal(size=(4, 6)), dtype=dtype)
        for view in (
            base,
            base.T.reshape(4, 6),
            ck.flip(base, axis=1),
            base[:, ::2],
            base[:, 1::2],
            base[:, ::2],
        ):
            assert captured(view).tolist() == (view * 2).tolist()


def test_results_stay_as_they_are(device: ck.Device) -> None:
    captured = ck.capture(lambda x: (x + 1, x.sum()))
    kept = [captured(ck.full((1000,), float(i))) for i in range(6)]
    others = [ck.full((1000,), -1.0) for _ in range(20)]
    for i, (moved, total) in enumerate(kept):
        assert moved.tolist() == [i + 1.0] * 1000
        assert total.item() == 1000 * i
    assert all(other.tolist() == [-1.0] * 1000 for other in others)


def test_intermediate_memory_is_the_graphs_own(device: ck.Device) -> None:
    """What is allocated between two replays must not be what the graph works in."""
    weight = ck.asarray(RNG.normal(size=(64, 64)))
    captured = ck.capture(lambda x: (ck.tanh(x @ weight) @ weight).sum())
    x = ck.asarray(RNG.normal(size=(64, 64)))
    expected = (ck.tanh(x @ weight) @ weight).sum().item()
    for _ in range(5):
        held = [ck.full((64, 64), float("nan")) for _ in range(10)]
        assert captured(x).item() == pytest.approx(expected, rel=1e-12)
        assert all(np.isnan(one.numpy()).all() for one in held)


def test_recording_frees_what_the_call_before_kept(device: ck.Device) -> None:
    if device.kind != "cuda":
        pytest.skip("the host has no pool of memory")
    x = ck.ones((1 << 22,))
    captured = ck.capture(lambda x: ck.sum(ck.tanh(x)))
    pool = device.xp.get_default_memory_pool()
    pool.free_all_blocks()
    captured(x)
    kept = pool.total_bytes()
    captured(x)
    assert captured.graphs == 1
    assert pool.total_bytes() <= kept - x.nbytes


def test_a_write_by_a_replay_is_seen_by_a_tape(device: ck.Device) -> None:
    model, _, step = training("sgd", device)
    captured = ck.capture(step)
    for batch in BATCHES[:3]:
        captured(ck.asarray(batch))
    x = ck.asarray(BATCHES[0])
    with ck.Tape() as tape:
        tape.watch(x)
        y = model(x).sum()
    captured(ck.asarray(BATCHES[3]))
    with pytest.raises(ck.GradientError, match="was written since"):
        tape.gradient(y, x)


def test_a_step_under_a_tape_is_called(device: ck.Device) -> None:
    captured = ck.capture(lambda x: (x * x).sum())
    x = ck.asarray([1.0, 2.0])
    for _ in range(3):
        captured(x)
    with ck.Tape() as tape:
        tape.watch(x)
        y = captured(x)
    assert tape.gradient(y, x).tolist() == [2.0, 4.0]


def left(device: ck.Device) -> Any:
    """Expects the warning of a step that is not recorded, which names a line of this file."""
    return pytest.warns(UserWarning, match="it is not recorded") if device.kind == "cuda" else nullcontext()


@pytest.mark.parametrize(
    "step",
    [
        lambda x: x * float(x.sum()),
        lambda x: x + ck.ones(3, device="host").to_device(x.device),
        lambda x: x * 2 if x[0] > 1.5 else x,
        lambda x: ck.sum(x[x > 1.5]) + x,
        lambda x: ck.bincount(x.astype("int32"), minlength=9) * 2,
        lambda x: ck.unique_values(x)[:1],
    ],
    ids=["value", "an array of the host", "truth", "mask", "bincount", "unique"],
)
def test_a_step_that_reads_values_is_called(device: ck.Device, step: Any) -> None:
    captured = ck.capture(step)
    for k in range(5):
        x = ck.asarray([1.0 + k % 2, 2.0, 3.0 + k])
        with left(device) if k == 1 else nullcontext() as seen:
            made = captured(x)
        assert made.tolist() == step(x).tolist()
        if k == 1 and device.kind == "cuda":
            assert {Path(one.filename).name for one in seen} == {Path(__file__).name}
    assert captured.graphs == 0


def test_what_was_recorded_before_a_value_is_read_runs_once(device: ck.Device) -> None:
    """An optimizer's steps, random numbers and buffers, before the value and behind it."""

    def trained(wrap: Callable[[Any], Any]) -> tuple[list[float], list[Any]]:
        model, _, step = training("adam", device)
        count = ck.zeros(1)

        def reading(x: Any) -> Any:
            count[...] = count + 1
            loss = step(x)
            scaled = loss * float(loss)
            return scaled + step(x) * 0

        reading = wrap(reading)
        found = []
        for k, batch in enumerate(BATCHES):
            with left(device) if wrap is ck.capture and k == 1 else nullcontext():
                found.append(reading(ck.asarray(batch)).item())
        return found, [*model.parameters(), count]

    expected, arrays = trained(lambda step: step)
    found, same = trained(ck.capture)
    assert found == expected and len(set(expected)) == len(expected)
    for one, other in zip(arrays, same, strict=True):
        assert one.tolist() == other.tolist()
    assert same[-1].tolist() == [6]


def test_decompositions_run_between_graphs(device: ck.Device) -> None:
    """Their results and gradients follow the arguments, also where a step has several, and nothing behind the last."""

    def step(x: ck.Array) -> tuple[ck.Array, ...]:
        with ck.Tape() as tape:
            tape.watch(x)
            lower = ck.linalg.cholesky(x @ x.mT + ck.eye(3))
            loss = ck.sum(ck.log(ck.diagonal(lower)))
        return loss, tape.gradient(loss, x), ck.linalg.eigvalsh(x + x.mT)

    captured = ck.capture(step)
    for k in range(4):
        x = ck.asarray(BATCHES[k][:3]).astype("float64")
        for made, right in zip(captured(x), step(x), strict=True):
            np.testing.assert_allclose(made.numpy(), right.numpy(), rtol=1e-12)
    assert captured.graphs == (device.kind == "cuda")


def test_an_error_between_graphs_is_the_error_of_the_call(device: ck.Device) -> None:
    def step(x: ck.Array) -> ck.Array:
        return ck.linalg.eigvalsh(ck.exp(x[0]))

    captured = ck.capture(step)
    for _ in range(3):
        with pytest.raises(ValueError, match="eigvalsh"):
            captured(ck.ones((2, 3, 4)))
    assert (ck.ones(3) + 1).tolist() == [2, 2, 2]


def test_modules_of_one_type_have_graphs_of_their_own(device: ck.Device) -> None:
    """Attributes that are no parameters are constants of a graph; a tree of values has those of its module."""

    class Scaled(ck.nn.Module):
        def __init__(self, k: float) -> None:
            self.factor = ck.ones(3) * k

        @ck.capture
        def times(self, x: ck.Array) -> ck.Array:
            return x * self.factor

        def __call__(self, x: ck.Array) -> ck.Array:
            return x * self.factor

    class Named:
        """Equal to all of its kind."""

        def __init__(self, k: float) -> None:
            self.k = k

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Named)

        def __hash__(self) -> int:
            return 1

        @ck.capture
        def times(self, x: ck.Array) -> ck.Array:
            return x * self.k

        @ck.capture
        @staticmethod
        def twice(x: ck.Array) -> ck.Array:
            return x * 2

    called = ck.capture(lambda module, x: module(x))
    two, three, x = Scaled(2.0), Scaled(3.0), ck.ones(3)
    for _ in range(3):
        assert two.times(x).tolist() == called(two, x).tolist() == [2, 2, 2]
        assert three.times(x).tolist() == called([three][0], x).tolist() == [3, 3, 3]
        assert [Named(k).times(x).tolist()[0] for k in (2.0, 3.0)] == [2, 3]
        assert Named(1.0).twice(x).tolist() == Named.twice(x).tolist() == [2, 2, 2]
    model = ck.nn.Linear(3, 2, rng=0)
    norm = ck.capture(lambda gradients: ck.optim.clip_by_global_norm(gradients, 1.0)[1])
    for _ in range(4):
        norm(ck.grad(lambda m: m(x).sum())(model))
    assert norm.graphs == (device.kind == "cuda")


def test_writes_to_arguments_of_a_step_that_is_left(device: ck.Device) -> None:
    @ck.capture
    def step(x: ck.Array) -> ck.Array:
        x[...] = x + 1
        return x * float(x.sum())

    x = ck.zeros(3)
    for k in range(4):
        with left(device) if k == 1 else nullcontext():
            step(x)
        assert x.tolist() == [k + 1] * 3


def test_a_warning_that_is_an_error_leaves_nothing_half_done(device: ck.Device) -> None:
    weight = ck.nn.Parameter(ck.ones(3))
    optimizer = ck.optim.Adam([weight], lr=0.1)

    @ck.capture
    def step() -> float:
        optimizer.step([ck.ones(3)])
        return float(weight.sum())

    step()
    if device.kind == "cuda":
        for _ in range(2):
            with pytest.raises(UserWarning, match="it is not recorded"), ck.device(device):
                step()
    else:
        step()
        step()
    other = ck.nn.Parameter(ck.ones(3))
    again = ck.optim.Adam([other], lr=0.1)
    for _ in range(3):
        again.step([ck.ones(3)])
    assert weight.tolist() == other.tolist()


def test_an_error_between_graphs_may_be_caught(device: ck.Device) -> None:
    """The step goes on without a graph."""

    def failing() -> list[Any]:
        raise ValueError("nothing to decompose")

    def step(x: ck.Array) -> ck.Array:
        y = x + 1
        try:
            capture_hooks.between(failing)
        except ValueError:
            y = y * 2
        return y + x

    captured = ck.capture(step)
    for k in range(3):
        with left(device) if k == 1 else nullcontext():
            assert captured(ck.ones(2) * k).tolist() == [3 * k + 2] * 2


def test_a_method_is_captured(device: ck.Device) -> None:
    class Scaled:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        @ck.capture
        def times(self, x: ck.Array, *, shift: float = 0.0) -> ck.Array:
            """Scale."""
            return x * self.factor + shift

    two, three = Scaled(2.0), Scaled(3.0)
    for k in range(4):
        x = ck.asarray([1.0, k])
        assert two.times(x).tolist() == [2, 2 * k] and three.times(x, shift=1.0).tolist() == [4, 3 * k + 1]
    assert Scaled.times.graphs == 2 * (device.kind == "cuda")
    assert Scaled.times.__doc__ == "Scale."


def test_arrays_of_host_data_keep_their_values(device: ck.Device) -> None:
    """Lists, indices, and tables that functions make; a NumPy array with a warning, as its values may change."""

    def step(x: ck.Array) -> ck.Array:
        y = x[[2, 0, 1]] + ck.asarray([1.0, 2.0, 3.0]) * ck.linspace(0.0, 1.0, 3)
        return y + ck.take(x, [1, 1, 0]) + ck.pad(x, 1, "edge")[:3] + ck.percentile(x, [5, 50, 95])

    captured = ck.capture(step)
    for k in range(5):
        x = ck.asarray([1.0 + k, 2.0, 5.0 * k])
        assert captured(x).tolist() == step(x).tolist()
    assert captured.graphs == (device.kind == "cuda")

    table = np.arange(3.0, dtype=np.float32)
    of_numpy = ck.capture(lambda x: x + ck.asarray(table))
    x = ck.ones(3)
    assert of_numpy(x).tolist() == [1, 2, 3]
    if device.kind == "cuda":
        with pytest.warns(UserWarning, match="keeps, in all replays, the values that it had"):
            assert of_numpy(x).tolist() == [1, 2, 3]
    for operand in (
        lambda x: x * table,
        lambda x: x[table.astype(int) % 3],
        lambda x: ck.take(x, table.astype(int)),
    ):
        of_operand = ck.capture(operand)
        of_operand(x)
        with (
            pytest.warns(UserWarning, match="keeps, in all")
            if device.kind == "cuda"
            else nullcontext() as seen
        ):
            assert of_operand(x).tolist() == operand(x).tolist()
        assert seen is None or {Path(one.filename).name for one in seen} == {Path(__file__).name}
    table += 1
    assert of_numpy(x).tolist() == ([1, 2, 3] if device.kind == "cuda" else [2, 3, 4])


@pytest.mark.parametrize("first", [0, 1])
def test_arguments_of_two_devices_are_refused(device: ck.Device, first: int) -> None:
    captured = ck.capture(lambda x, y: (x * 2, y * 2))
    arguments = [ck.ones(3), ck.ones(3, device="host")]
    arguments = arguments[first:] + arguments[:first]
    if device.kind == "host":
        assert captured(*arguments)[0].tolist() == [2, 2, 2]
        return
    with pytest.raises(ck.CaptureError, match=r"expected arrays on one device, got cuda:\d and host"):
        captured(*arguments)


def test_a_module_that_moves_is_recorded_anew(device: ck.Device) -> None:
    model = ck.nn.Linear(3, 2, rng=1)
    captured = ck.capture(lambda x: model(x))
    x = ck.asarray(BATCHES[0])
    for _ in range(2):
        expected = model(x).tolist()
        for _ in range(3):
            assert captured(x).tolist() == expected
        model.to_device(device)
        assert captured(x).tolist() == expected and captured.graphs == (device.kind == "cuda")
        before = [one[...] for one in model.parameters()]
        model.to_device("host").to_device(device)
        for one in model.parameters():
            one += 1
        assert captured(x).tolist() == model(x).tolist() != expected
        assert device.kind == "host" or before[0].tolist() != model.parameters()[0].tolist()


def test_an_error_of_the_step_is_the_error_of_the_call(device: ck.Device) -> None:
    calls = []

    def step(x: Any) -> Any:
        calls.append(x)
        if len(calls) == 2:
            raise RuntimeError("second call")
        return x + 1

    captured, x = ck.capture(step), ck.asarray([1.0])
    captured(x)
    with pytest.raises(RuntimeError, match="second call"):
        captured(x)
    assert captured(x).tolist() == [2.0] == captured(x).tolist()


def test_arguments_that_are_no_arrays_must_be_constants(device: ck.Device) -> None:
    captured = ck.capture(lambda x, y: x)
    if device.kind == "host":
        assert captured(ck.zeros(1), {1, 2}).tolist() == [0.0]
        return
    with pytest.raises(TypeError, match="hashable constants"):
        captured(ck.zeros(1), {1, 2})


class Memory:
    """A capture that only hands out memory, to run what reads numbers from it on any device."""

    def __init__(self) -> None:
        self.asked = 0

    def numbers(self, dtype: Any, values: Callable[[], Any]) -> Any:
        self.asked += 1
        return ck.asarray(np.asarray(values(), dtype).tolist(), dtype)

    def constant(self, make: Callable[[], Any]) -> Any:
        return make()

    def repeat(self, action: Callable[[], None]) -> None:
        pass

    def workspace(self, nbytes: int) -> Any:
        return ck.zeros(1).device.xp.cuda.alloc(nbytes)

    def written(self, array: Any, writer: str) -> None:
        pass

    def enter(self, device: ck.Device) -> None:
        pass

    def leave(self, why: str) -> None:
        pass


@pytest.fixture
def memory() -> Iterator[Memory]:
    made = Memory()
    yield made
    capture_hooks.begin(None)


@pytest.mark.filterwarnings("ignore:capture. an array made of a NumPy array")
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_numbers_from_memory_are_those_of_arguments(device: ck.Device, memory: Memory, kind: str) -> None:
    expected = losses(training(kind, device)[2])
    step = training(kind, device)[2]
    capture_hooks.begin(memory)
    found = losses(step)
    capture_hooks.begin(None)
    assert found == expected
    assert memory.asked == len(BATCHES) * 2  # one launch of the optimizer, one of the noise


def test_what_a_step_writes_to_its_arguments_is_there(device: ck.Device) -> None:
    def step(x: ck.Array, y: ck.Array) -> ck.Array:
        x[:2] += y
        return x * 2

    captured = ck.capture(step)
    for i in range(4):
        whole = ck.asarray(np.arange(8.0) + i, device=device)
        x, y = (whole[:4], whole[::2])[i % 2], ck.asarray([1.0, 2.0], device=device)
        want = x.numpy() + [1, 2, 0, 0]
        np.testing.assert_array_equal(captured(x, y).numpy(), 2 * want)
        np.testing.assert_array_equal(x.numpy(), want)


def test_arguments_that_share_memory_are_not_written(device: ck.Device) -> None:
    def step(x: ck.Array, y: ck.Array) -> ck.Array:
        x += 1
        return x * y

    captured = ck.capture(step)
    for _ in range(3):
        one = ck.asarray([1.0, 2.0], device=device)
        assert captured(one, ck.asarray([3.0, 4.0], device=device)).tolist() == [6, 12]
    if device.addressable:
        assert captured(one, one).tolist() == [9, 16]
        return
    whole = ck.asarray([1.0, 2.0, 3.0, 4.0], device=device)
    assert captured(whole[:2], whole[2:]).tolist() == [6, 12]  # beside one another
    with pytest.raises(ck.CaptureError, match="step writes to an array argument of shape .* give it a copy"):
        captured(one, one)
    assert captured(whole[:2], whole[2:]).tolist() == [9, 16]
