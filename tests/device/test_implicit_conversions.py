"""Conversions that another library asks for lose no gradient without a word: SciPy's functions, NumPy, DLPack."""

from __future__ import annotations

import array
import cmath
import copy
import ctypes
import functools
import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy_calls import CALLS

import cukern as ck

X = np.sort(np.random.default_rng(0).uniform(0.3, 0.9, 9))
U = np.random.default_rng(9).uniform(0.5, 1, 9)


def weighted(y: Any) -> Any:
    """The sum of the elements of an array or a number, each with a factor of its own."""
    weights = np.random.default_rng(5).uniform(0.5, 1.5, np.shape(y))
    if isinstance(y, ck.Array):
        return (y * ck.asarray(weights)).sum()
    return np.sum(np.asarray(y) * weights)


def loss_of_tracked(loss: Callable[[ck.Array], Any], x: ck.Array) -> None:
    with ck.Tape() as tape:
        tape.watch(x)
        loss(x)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_gradient_through_scipy_is_right_or_an_error(call: Callable[[Any], Any], device: ck.Device) -> None:
    step = 1e-5
    numeric = (weighted(call(X + step * U)) - weighted(call(X - step * U))) / (2 * step)
    assert abs(numeric) > 1e-3

    def loss(x: ck.Array) -> ck.Array:
        made = weighted(call(x))
        return made if isinstance(made, ck.Array) else ck.asarray(made) + 0 * x.sum()

    x = ck.asarray(X, dtype="float64")
    try:
        gradient = ck.grad(loss)(x)
    except (ck.GradientError, TypeError):
        with pytest.raises((ck.GradientError, TypeError), match=r"x.numpy\(\)"):
            loss_of_tracked(loss, x)
    else:
        np.testing.assert_allclose(gradient.numpy() @ U, numeric, rtol=1e-6)


def _assigned(x: ck.Array) -> Any:
    made = np.zeros(3)
    made[:] = x
    return made


def _element(x: ck.Array) -> Any:
    made = np.zeros(3)
    made[0] = x[0]
    return made


exponential = math.exp


class Functions:
    sine = math.sin
    number = float


functions = Functions()


def _appended(x: ck.Array) -> Any:
    made = array.array("d")
    made.append(x[0])
    return made


def _added(x: ck.Array) -> Any:
    made = np.zeros(3)
    made += x
    return made


REFUSED: dict[str, Callable[[ck.Array], Any]] = {
    "asarray": np.asarray,
    "a list": lambda x: np.array([x[0], x[1]]),
    "list(x)": lambda x: np.array(list(x)),
    "a[:] = x": _assigned,
    "a += x": _added,
    "out=": lambda x: np.add(x, 1, out=np.zeros(3)),
    "np.float32": lambda x: np.float32(x[0]),
    "np.full": lambda x: np.full(3, x[0]),
    "np.random": lambda x: np.random.default_rng(0).normal(x),
    "np.ma": np.ma.array,
    "DLPack": lambda x: x.__dlpack__(),
    "np.vectorize": lambda x: np.vectorize(math.sin)(x),
    "math.exp": lambda x: math.exp(x[0]),
    "cmath.exp": lambda x: cmath.exp(x[0]),
    "a name of its own": lambda x: exponential(x[0]),
    "an attribute": lambda x: functions.sine(x[0]),
    "several arguments": lambda x: math.hypot(*x),
    "an argument of several parts": lambda x: math.exp(x[0] if x.ndim else x),
    "statistics.fmean": statistics.fmean,
    "array.array": lambda x: array.array("d", x),
    "np.float64": lambda x: np.float64(x[0]),
    "a method": _appended,
    "ctypes": lambda x: ctypes.c_double(x[0]),
}


@pytest.mark.parametrize("convert", REFUSED.values(), ids=REFUSED)
def test_a_conversion_of_what_a_tape_tracks_is_an_error(
    convert: Callable[[ck.Array], Any], device: ck.Device
) -> None:
    x = ck.asarray([0.5, 0.25, 0.75])
    convert(x)
    with ck.Tape() as tape:
        tape.watch(x)
        y = 2 * x
        with pytest.raises(ck.GradientError, match=r"give x.numpy\(\) or cukern.stop_gradient\(x\)"):
            convert(y)
        convert(ck.stop_gradient(y))
        with ck.stop_recording():
            convert(y)
    convert(y)


def test_the_float_of_an_assigned_element_is_no_call_of_float(device: ck.Device) -> None:
    x = ck.asarray([0.5, 0.25, 0.75])
    with ck.Tape() as tape:
        tape.watch(x)
        with pytest.raises(ValueError, match="sequence") as error:  # NumPy's, for any error of a conversion
            _element(x)
        assert isinstance(error.value.__cause__, ck.GradientError)


def test_the_error_names_what_takes_a_number(device: ck.Device) -> None:
    x = ck.asarray([0.5, 0.25, 0.75])
    with ck.Tape() as tape:
        tape.watch(x)
        for call, name in ((REFUSED["math.exp"], "math.exp"), (statistics.fmean, "math.fsum")):
            with pytest.raises(
                ck.GradientError, match=f"a float, which {name} takes, of an array of float32"
            ):
                call(x)


def test_a_call_that_has_run_often_is_refused_as_the_first(device: ck.Device) -> None:
    """Python exchanges the instructions of what runs often."""
    x, refused, made = ck.asarray([0.5]), 0, array.array("d")
    with ck.Tape() as tape:
        tape.watch(x)
        for _ in range(100):
            assert float(x) == 0.5
            for _ in range(2):
                try:
                    math.exp(x)
                except ck.GradientError:
                    refused += 1
            try:
                made.append(x)
            except ck.GradientError:
                refused += 1
    assert refused == 300


def test_what_asks_for_a_constant_gets_one(device: ck.Device) -> None:
    number = float
    x = ck.asarray([0.5, 0.25, 0.75])
    with ck.Tape() as tape:
        tape.watch(x)
        y = 2 * x
        numbers = [
            float(y[0]),
            y[0].item(),
            y.numpy()[0],
            y.tolist()[0],
            complex(y[0]).real,
            round(y[0], 3).item(),
            y[0].__float__(),
            number(y[0]),
            Functions.number(y[0]),
            functools.partial(float)(y[0]),
            [float][0](y[0]),
            next(map(float, y)),
            sorted(map(float, y))[1],
            sum(map(float, y[:1])),
            sorted([float(v) for v in y])[1],
            float(y[0] if y.ndim else y),
            math.floor(y[0]),
            np.frombuffer(bytes(y), "f4")[0],
        ]
        assert numbers == [1.0] * len(numbers)
        assert not math.isnan(y[0]) and math.isfinite(y[0]) and math.isclose(y[0], 1)
        assert round(y[0]) == int(y[0]) == 1 and bool(y[0] > 0) and 1.0 in y
        assert "0.5" in repr(x) and "1.00" in f"{y[0]:.2f}" and "%.2f" % y[0] == "1.00"  # noqa: UP031
        assert "{:.2f}".format(y[0]) == "1.00"  # noqa: UP032
        np.testing.assert_allclose(y, [1, 0.5, 1.5])
        np.testing.assert_array_equal(y, [1, 0.5, 1.5])
        ck.testing.assert_close(y, [1, 0.5, 1.5])
        assert y[0] == pytest.approx(1.0)
        assert copy.copy(y).tolist() == y.tolist()


def test_the_interface_of_a_gpu_is_refused_too(device: ck.Device) -> None:
    x = ck.asarray([0.5, 0.25])
    with ck.Tape() as tape:
        tape.watch(x)
        if device.kind == "cuda":
            with pytest.raises(ck.GradientError, match="__cuda_array_interface__"):
                _ = x.__cuda_array_interface__
        else:
            assert not hasattr(x, "__cuda_array_interface__")
