"""Numbers that a program makes of tracked arrays: constants to a tape, and errors in ``strict_tape``."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
from tape_support import f64

import cukern as ck
from cukern.device import capture_hooks
from cukern.testing import strict_tape

LEAVES = {
    "float": float,
    "int": int,
    "complex": complex,
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "pickle": pickle.dumps,
}


@pytest.mark.parametrize("name", LEAVES)
def test_a_number_of_a_tracked_array_is_an_error_in_the_block_alone(device, name: str) -> None:
    leave, x = LEAVES[name], f64(2.0)
    parameter = ck.nn.Parameter(x)
    with strict_tape():
        leave(x)  # no tape
        with ck.Tape() as tape:
            leave(x)
            tape.watch(x)
            for tracked in (x, x * 2.0, parameter):
                with pytest.raises(
                    ck.GradientError, match="that a tape tracks: to the tape that is a constant"
                ):
                    leave(tracked)
            leave(ck.stop_gradient(x * 2.0))
            with ck.stop_recording():
                leave(x)
        leave(x)
    with ck.Tape() as tape:
        tape.watch(x)
        leave(x)


def test_what_shows_compares_or_goes_on_is_allowed(device, tmp_path) -> None:
    x = f64([1.0, 2.0])
    with strict_tape(), ck.Tape() as tape:
        tape.watch(x)
        y = x * 2.0
        assert repr(y) and str(y) and f"{y.sum():.3f}" == "6.000"
        assert y.sum() > 1 and 2.0 in y and bool(y[0])
        assert y.to_device("host").device.kind == "host"
        ck.histogram(y, 2)
        ck.quantile(y, y[0] / 4)
        ck.average(y, weights=y)
        ck.arange(y[0], 5.0)
        ck.unique(y)
        assert ck.full((2,), y[0]).shape == (2,)
        z = ck.array([y[0], 1.0, x[1]])
        assert np.max(z).shape == ()  # a function of cukern's
        with pytest.raises(ck.GradientError, match="strict_tape"):
            ck.save(tmp_path / "x.npy", y)


def test_the_block_is_of_its_thread_and_nests(device) -> None:
    x = f64(1.0)
    seen = []
    before = capture_hooks.refuse  # checked launches have one

    def other() -> None:
        with ck.Tape() as tape:
            tape.watch(x)
            seen.append(float(x * 3.0))

    with strict_tape():
        with strict_tape():
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
        with ck.Tape() as tape:
            tape.watch(x)
            with pytest.raises(ck.GradientError):
                float(x)
    assert seen == [3.0]
    assert capture_hooks.refuse is before


def test_a_training_step_runs_in_it(device) -> None:
    layer = ck.nn.Linear(2, 1, rng=0)
    optimizer = ck.optim.Adam(layer, lr=0.1)
    inputs = ck.ones((4, 2))
    with strict_tape(), ck.Tape() as tape:
        loss = ck.nn.mse_loss(layer(inputs), ck.ones((4, 1)))
        gradients = tape.gradient(loss, layer)
        optimizer.step(gradients)
    assert loss.item() >= 0
