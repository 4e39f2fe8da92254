"""Optimizers against their closed form in NumPy, several steps of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import cukern as ck
from cukern.optim import SGD, Adam, AdamW, Optimizer, RMSprop, clip_by_global_norm

Steps = Callable[[npt.NDArray[Any], list[npt.NDArray[Any]]], npt.NDArray[Any]]


def _sgd(lr: float, momentum: float, nesterov: bool, weight_decay: float) -> Steps:
    def run(p: npt.NDArray[Any], gradients: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        v = np.zeros_like(p)
        for g in gradients:
            g = g + weight_decay * p
            v = momentum * v + g
            p = p - lr * (g + momentum * v if nesterov else v)
        return p

    return run


def _adam(lr: float, b1: float, b2: float, eps: float, weight_decay: float, decoupled: bool) -> Steps:
    def run(p: npt.NDArray[Any], gradients: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        m, s = np.zeros_like(p), np.zeros_like(p)
        for t, g in enumerate(gradients, 1):
            g = g if decoupled else g + weight_decay * p
            p = p - lr * weight_decay * p if decoupled else p
            m, s = b1 * m + (1 - b1) * g, b2 * s + (1 - b2) * g * g
            p = p - lr * (m / (1 - b1**t)) / (np.sqrt(s / (1 - b2**t)) + eps)
        return p

    return run


def _rmsprop(lr: float, alpha: float, eps: float, decay: float, momentum: float, centered: bool) -> Steps:
    def run(p: npt.NDArray[Any], gradients: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        s, m, v = np.zeros_like(p), np.zeros_like(p), np.zeros_like(p)
        for g in gradients:
            g = g + decay * p
            s, m = alpha * s + (1 - alpha) * g * g, alpha * m + (1 - alpha) * g
            v = momentum * v + g / (np.sqrt(s - m * m if centered else s) + eps)
            p = p - lr * v
        return p

    return run


CASES: dict[str, tuple[Callable[[list[ck.Array]], Optimizer], Steps]] = {
    "sgd": (lambda p: SGD(p, 0.1), _sgd(0.1, 0, False, 0)),
    "sgd decay": (lambda p: SGD(p, 0.1, weight_decay=0.3), _sgd(0.1, 0, False, 0.3)),
    "momentum": (lambda p: SGD(p, 0.1, momentum=0.8, weight_decay=0.1), _sgd(0.1, 0.8, False, 0.1)),
    "nesterov": (lambda p: SGD(p, 0.1, momentum=0.8, nesterov=True), _sgd(0.1, 0.8, True, 0)),
    "adam": (lambda p: Adam(p, 0.1), _adam(0.1, 0.9, 0.999, 1e-8, 0, False)),
    "adam decay": (
        lambda p: Adam(p, 0.1, betas=(0.7, 0.8), eps=1e-3, weight_decay=0.2),
        _adam(0.1, 0.7, 0.8, 1e-3, 0.2, False),
    ),
    "adamw": (lambda p: AdamW(p, 0.1, weight_decay=0.2), _adam(0.1, 0.9, 0.999, 1e-8, 0.2, True)),
    "rmsprop": (lambda p: RMSprop(p, 0.1), _rmsprop(0.1, 0.99, 1e-8, 0, 0, False)),
    "centered": (
        lambda p: RMSprop(p, 0.1, alpha=0.8, eps=1e-3, weight_decay=0.2, momentum=0.5, centered=True),
        _rmsprop(0.1, 0.8, 1e-3, 0.2, 0.5, True),
    ),
}
# Some roundings of each dtype over the steps; of half types one, as their masters have the rest.
TOLERANCES = {
    ck.float64: (0, 1e-13),
    ck.float32: (0, 2e-6),
    ck.float16: (2**-11, 2e-6),
    ck.bfloat16: (2**-8, 2e-6),
}
RUNS = [(case, dtype) for dtype in TOLERANCES for case in CASES]
RUNS = [
    (case, dtype) for case, dtype in RUNS if dtype.itemsize > 2 or case in ("momentum", "adamw", "centered")
]


@pytest.mark.parametrize(("case", "dtype"), RUNS, ids=[f"{case}-{dtype}" for case, dtype in RUNS])
def test_steps_equal_the_closed_form(device: ck.Device, case: str, dtype: Any) -> None:
    make, expected = CASES[case]
    rng = np.random.default_rng(0)
    # More than one block, and not a multiple of its size.
    start = rng.normal(size=(7, 43)).astype(dtype)
    gradients = [rng.normal(size=(7, 43)).astype(dtype) for _ in range(4)]
    parameter = ck.asarray(start.copy())
    optimizer = make([parameter])
    for gradient in gradients:
        optimizer.step([ck.asarray(gradient)])
    wanted = expected(start.astype(np.float64), [g.astype(np.float64) for g in gradients])
    rtol, atol = TOLERANCES[dtype]
    np.testing.assert_allclose(parameter.numpy().astype(np.float64), wanted, rtol=rtol, atol=atol)
    assert optimizer.steps == 4


def test_a_step_is_in_place_and_counted_as_a_write(device: ck.Device) -> None:
    parameter = ck.asarray([1.0, 2.0])
    view = parameter[:1]
    with ck.Tape() as tape:
        tape.watch(parameter)
        loss = (parameter * parameter).sum()
    SGD([parameter], lr=1.0).step([ck.ones(2)])
    assert view.tolist() == [0.0]
    with pytest.raises(ck.GradientError, match="sgd"):
        tape.gradient(loss, parameter)


def test_a_gradient_of_stride_zero_and_a_missing_one(device: ck.Device) -> None:
    one, two = ck.asarray([1.0, 2.0, 3.0]), ck.asarray([5.0])
    with ck.Tape() as tape:
        tape.watch(one, two)
        loss = one.sum()
    SGD([one, two], lr=1.0).step(tape.gradient(loss, [one, two]))
    assert (one.tolist(), two.tolist()) == ([0.0, 1.0, 2.0], [5.0])


def test_gradients_by_name_by_module_and_by_tree(device: ck.Device) -> None:
    class Pair(ck.nn.Module):
        def __init__(self) -> None:
            self.a = ck.nn.Parameter([1.0])
            self.b = [ck.nn.Parameter([2.0])]

    model = Pair()
    optimizer = SGD(model, lr=1.0)
    optimizer.step({"b.0": ck.asarray([0.5])})
    assert [p.tolist() for p in model.parameters()] == [[1.0], [1.5]]
    with ck.Tape() as tape:
        loss = (model.a * 2 + model.b[0] * 3).sum()
    optimizer.step(tape.gradient(loss, model))
    assert [p.tolist() for p in model.parameters()] == [[-1.0], [-1.5]]
    optimizer.step((ck.ones(1), [ck.ones(1)]))
    assert [p.tolist() for p in model.parameters()] == [[-2.0], [-2.5]]


def test_state_continues_a_run(device: ck.Device) -> None:
    gradient = ck.asarray([1.0, -2.0])
    straight, broken = ck.asarray([1.0, 2.0]), ck.asarray([1.0, 2.0])
    one = Adam([straight], lr=0.1)
    for _ in range(4):
        one.step([gradient])
    first = Adam([broken], lr=0.1)
    first.step([gradient])
    first.step([gradient])
    second = Adam([broken], lr=0.1)
    second.load_state_dict(first.state_dict())
    second.step([gradient])
    second.step([gradient])
    assert straight.tolist() == broken.tolist()


def test_bad_state_is_refused_and_changes_nothing(device: ck.Device) -> None:
    optimizer = Adam([ck.zeros(2)])
    with pytest.raises(ValueError, match=r"unexpected '0.velocity'"):
        optimizer.load_state_dict({"steps": 3, "0.velocity": np.zeros(2)})
    with pytest.raises(ValueError, match=r"'0.mean' has shape \(3,\), expected \(2,\)"):
        optimizer.load_state_dict({"steps": 3, "0.mean": np.zeros(3), "0.square": np.zeros(2)})
    with pytest.raises(ValueError, match=r"missing '0.square'"):
        optimizer.load_state_dict({"steps": 3, "0.mean": np.zeros(2)})
    with pytest.raises(ValueError, match="missing 'steps'"):
        optimizer.load_state_dict({})
    with pytest.raises(ValueError, match=r"missing '0.updates'"):
        optimizer.load_state_dict({"steps": 3, "0.mean": np.zeros(2), "0.square": np.zeros(2)})
    with pytest.raises(ValueError, match=r"'steps': expected a number of steps, got -1"):
        optimizer.load_state_dict({"steps": -1})
    with pytest.raises(TypeError, match="state of Adam: '0.mean': "):
        optimizer.load_state_dict({"steps": 3, "0.mean": object()})
    with pytest.raises(TypeError, match="state of Adam: expected values by name, got list"):
        optimizer.load_state_dict([1])  # type: ignore[arg-type]
    assert optimizer.state_dict() == {"steps": 0}


def _halves(size: int, start: int, of: int) -> list[ck.Array]:
    """Two views of one array, the first elements and the elements from ``start`` on."""
    whole = ck.zeros(of)
    return [whole[:size], whole[start : start + size]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SGD([], lr=1.0), "parameters: expected at least one"),
        (
            lambda: SGD([ck.zeros((2, 3))[:, 1:]], lr=1.0),
            "'0' is written in place and must lie in memory without",
        ),
        (lambda: SGD(2 * [ck.zeros(1)], lr=1.0), "'0' and '1' are one array"),
        (lambda: SGD([ck.zeros(1)], lr=-1.0), "lr: expected a number in"),
        (lambda: SGD([ck.zeros(1)], lr=1.0, momentum=1.0), "momentum: expected a number in"),
        (lambda: SGD([ck.zeros(1)], lr=1.0, nesterov=True), "nesterov: expected a momentum"),
        (lambda: Adam([ck.zeros(1)], betas=(0.9, 1.0)), r"betas\[1\]: expected a number in"),
        (lambda: SGD([ck.zeros(2)], lr=1.0).step([ck.zeros(3)]), r"'0' has shape \(3,\), expected \(2,\)"),
        (lambda: SGD([ck.zeros(2)], lr=1.0).step([]), "gradients: expected 1, got 0"),
        (lambda: SGD([ck.zeros(2)], lr=1.0).step({"x": ck.zeros(2)}), "no parameters are named 'x'"),
        (lambda: SGD(_halves(4, 2, 6), lr=1.0).step([ck.zeros(4)] * 2), "'0' and '1' share memory"),
        (
            lambda: SGD([{"params": [ck.zeros(1)], "lr": -1}], lr=1.0),
            r"parameters\[0\]\['lr'\]: expected a num",
        ),
        (lambda: SGD([("w", ck.zeros(1)), ("w", ck.zeros(1))], lr=1.0), "two of them are named 'w'"),
        (lambda: ck.optim.CosineDecay(0.1, steps=0), "steps: expected a number of steps, at least 1, got 0"),
        (lambda: clip_by_global_norm([ck.zeros(1)], 0.0), "max_norm: expected a positive number"),
        (lambda: clip_by_global_norm([None], 1.0), "gradients: expected at least one array"),
    ],
)
def test_bad_arguments_are_named(device: ck.Device, make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_parameters_are_floating_arrays(device: ck.Device) -> None:
    with pytest.raises(TypeError, match="'0' is not a floating array but an array of int64"):
        SGD([ck.asarray([1])], lr=1.0)
    with pytest.raises(TypeError, match="expected a Module or a sequence of arrays, got one array"):
        SGD(ck.zeros((2, 3)), lr=1.0)
    with pytest.raises(TypeError, match="lr: expected a number, got 'fast'"):
        SGD([ck.zeros(1)], lr="fast")  # type: ignore[arg-type]


@pytest.mark.parametrize("gradient", [np.ones(2), ck.asarray([1, 2], device="host")])
def test_gradients_are_floating_arrays(device: ck.Device, gradient: Any) -> None:
    with pytest.raises(TypeError, match="gradients: that of '0' is not a floating array but"):
        SGD([ck.zeros(2)], lr=1.0).step([gradient])


def test_gradients_that_are_integers_are_not_clipped(device: ck.Device) -> None:
    with pytest.raises(TypeError, match="gradients: expected floating arrays, got one of int64"):
        clip_by_global_norm([ck.asarray([3, 4])], 1.0)


def test_a_parameter_without_a_gradient_at_first_starts_with_its_own_first_step(device: ck.Device) -> None:
    one, two = ck.ones(2), ck.ones(2)
    optimizer = Adam([one, two], lr=0.25, eps=0.0)
    for _ in range(3):
        optimizer.step([ck.ones(2), None])
    again = Adam([one, two], lr=0.25, eps=0.0)
    again.load_state_dict(optimizer.state_dict())
    again.step([None, ck.ones(2)])
    np.testing.assert_allclose(two.tolist(), [0.75, 0.75], rtol=1e-6)
    assert again.state_dict()["0.updates"] == 3
    assert again.state_dict()["1.updates"] == 1


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_clip_by_global_norm(device: ck.Device, dtype: Any) -> None:
    # 240 squared is past what float16 holds. The last three of seven floats are no pack.
    own = [128.0, 96.0, 48.0, 36.0, 40.0, 32.0, 24.0]  # of norm 180
    gradients = {
        "a": ck.asarray(np.array(own, dtype)),
        "b": (None, ck.asarray(np.array([240.0], dtype))),
    }
    clipped, norm = clip_by_global_norm(gradients, 3.0)
    assert norm.item() == pytest.approx(300.0)
    assert clipped["b"][0] is None
    assert clipped["a"].dtype == dtype
    np.testing.assert_allclose(clipped["a"].tolist(), np.array(own) / 100, rtol=4e-3)
    np.testing.assert_allclose(clipped["b"][1].tolist(), [2.4], rtol=4e-3)
    same, _ = clip_by_global_norm(gradients, 301.0)
    assert same["a"].tolist() == own
    unlimited, norm = clip_by_global_norm(gradients, np.inf)
    assert (unlimited["a"].tolist(), norm.item()) == (own, pytest.approx(300.0))
    zeros, norm = clip_by_global_norm([ck.zeros(2, dtype)], 1.0)
    assert (zeros[0].tolist(), norm.item()) == ([0.0, 0.0], 0.0)
