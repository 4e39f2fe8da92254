"""LSTM and GRU against loops in NumPy, in PyTorch's names and order of gates; derivatives."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from nn_support import close, random, sized

import cukern as ck
from cukern import nn
from cukern.nn.recurrence import reference, stacked
from cukern.nn.recurrent import _gru_step, _lstm_step
from cukern.testing import gradcheck

Weights = dict[str, np.ndarray]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def lstm_step(of_x: np.ndarray, of_h: np.ndarray, h: np.ndarray, cell: np.ndarray) -> tuple[np.ndarray, ...]:
    i, f, g, o = np.split(of_x + of_h, 4, axis=-1)
    cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(cell), cell


def gru_step(of_x: np.ndarray, of_h: np.ndarray, h: np.ndarray, cell: np.ndarray) -> tuple[np.ndarray, ...]:
    r, z, n = np.split(of_x, 3, axis=-1)
    r_h, z_h, n_h = np.split(of_h, 3, axis=-1)
    z = sigmoid(z + z_h)
    return (1 - z) * np.tanh(n + sigmoid(r + r_h) * n_h) + z * h, cell


def along(step: object, weights: Weights, suffix: str, x: np.ndarray, state: tuple[np.ndarray, ...]) -> tuple:
    """The outputs and the last state of one direction of a layer; x is (steps, batch, features)."""
    rows = len(weights["weight_hh" + suffix])
    bias, bias_h = (weights.get(kind + suffix, np.zeros(rows)) for kind in ("bias_ih", "bias_hh"))
    outputs = []
    for one in x[::-1] if suffix.endswith("reverse") else x:
        of_x = one @ weights["weight_ih" + suffix].T + bias
        state = step(of_x, state[0] @ weights["weight_hh" + suffix].T + bias_h, *state)  # type: ignore[operator]
        outputs.append(state[0])
    return np.stack(outputs[::-1] if suffix.endswith("reverse") else outputs), state


def expected(layer: nn.LSTM | nn.GRU, x: np.ndarray, h: np.ndarray, cell: np.ndarray) -> tuple:
    """The outputs, and the last h and cell of all layers and directions."""
    weights = {name: value.numpy().astype(np.float64) for name, value in layer.state_dict().items()}
    ends = []
    for i in range(layer.layers):
        suffixes = [f"_l{i}", f"_l{i}_reverse"][: 1 + layer.bidirectional]
        step = lstm_step if isinstance(layer, nn.LSTM) else gru_step
        made = [
            along(step, weights, one, x, (h[len(ends) + j], cell[len(ends) + j]))
            for j, one in enumerate(suffixes)
        ]
        x = np.concatenate([outputs for outputs, _ in made], -1)
        ends += [end for _, end in made]
    return x, np.stack([end[0] for end in ends]), np.stack([end[1] for end in ends])


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_layers_and_directions(device: ck.Device, kind: type[nn.LSTM | nn.GRU]) -> None:
    x = np.random.default_rng(0).normal(size=(4, 2, 3))
    for dtype, layers, both, bias in (
        ("float32", 1, False, True),
        ("float64", 2, True, True),
        ("float64", 1, True, False),
    ):
        layer = kind(3, 2, layers, bias=bias, bidirectional=both, dtype=dtype, rng=0)
        h, cell = (np.random.default_rng(i).normal(size=(layers * (1 + both), 2, 2)) for i in (1, 2))
        states = [ck.asarray(one, dtype) for one in (h, cell)]
        outputs, *ends = sized(lambda *own, of=layer: expected(of, *own), x, h, cell)
        found, state = layer(ck.asarray(x, dtype), tuple(states) if kind is nn.LSTM else states[0])
        close(found, outputs)
        for one, end in zip(state if kind is nn.LSTM else (state,), ends, strict=False):
            close(one, end)
        layer.batch_first = True
        found, _ = layer(ck.asarray(x.swapaxes(0, 1).copy(), dtype))
        zeros = np.zeros_like(h)
        wanted = sized(lambda x, of=layer, zeros=zeros: expected(of, x, zeros, zeros)[0].swapaxes(0, 1), x)
        close(found, wanted)


def test_names_and_shapes(device: ck.Device) -> None:
    shapes = {name: one.shape for name, one in nn.LSTM(3, 2, 2, bidirectional=True).named_parameters()}
    assert list(shapes)[:8] == [
        f"{kind}_l0{end}"
        for end in ("", "_reverse")
        for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    ]
    assert shapes["weight_ih_l1_reverse"] == (8, 4)
    assert shapes["weight_hh_l0"] == (8, 2) and shapes["bias_hh_l0"] == (8,)
    assert nn.GRU(3, 2).state_dict()["weight_ih_l0"].shape == (6, 3)


def test_derivatives(device: ck.Device) -> None:
    x, h, cell = random(0, (3, 2, 3)), random(1, (1, 2, 2)), random(2, (1, 2, 2))
    lstm, gru = nn.LSTM(3, 2, dtype="float64", rng=0), nn.GRU(3, 2, dtype="float64", rng=0)
    assert gradcheck(lambda x, h, cell: lstm(x, (h, cell))[0], [x, h, cell], order=2)
    assert gradcheck(lambda x, h: gru(x, h)[0], [x, h], order=2)
    for layer in (lstm, gru):
        with ck.Tape() as tape:
            loss = layer(x)[0].sum()
        for parameter, gradient in zip(
            layer.parameters(), tape.gradient(loss, layer.parameters()), strict=True
        ):
            place = (0,) * parameter.ndim
            value, delta = parameter[place].item(), 1e-6
            sums = []
            for moved in (value + delta, value - delta):
                parameter[place] = moved
                sums.append(layer(x)[0].sum().item())
            parameter[place] = value
            assert gradient[place].item() == pytest.approx(
                (sums[0] - sums[1]) / (2 * delta), rel=1e-6, abs=1e-9
            )


@pytest.mark.parametrize(
    ("step", "gates", "states"), [(_lstm_step, 4, 2), (_gru_step, 3, 1)], ids=["lstm", "gru"]
)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 0.05)])
def test_kernels_and_composition(
    device: ck.Device, step: Any, gates: int, states: int, dtype: str, tolerance: float
) -> None:
    # Sizes whose rows begin at multiples of 16 bytes and others, one row, one step, and a gradient of one number.
    for steps, batch, size, backwards, biased in (
        (4, 3, 16, False, True),
        (5, 2, 5, True, True),
        (1, 1, 8, True, False),
        (3, 1, 1, False, False),
    ):
        shapes: list[tuple[int, ...]] = [(steps, batch, gates * size), (gates * size, size)]
        shapes += [(gates * size,)] * biased + [(batch, size)] * states
        given = [random(i, shape, dtype) for i, shape in enumerate(shapes)]

        def grouped(values: Any, biased: bool = biased) -> tuple[Any, ...]:
            of_x, weight, *rest = values
            return of_x, weight, *(rest if biased else [None, *rest])

        found, wanted = [], []
        for results, kernels in ((found, True), (wanted, False)):
            with ck.Tape() as tape:
                tape.watch(*given)
                of_x, weight, bias, *starts = grouped(given)
                if kernels:
                    layer = None, None, weight, bias, starts
                    outputs, (ends,) = stacked(step, backwards, of_x, [layer])
                else:
                    outputs, *ends = reference(step, backwards, of_x, weight, bias, *starts)
                loss = outputs.sum() + sum((2 * one * one).sum() for one in ends)
            results += [outputs, *ends, *tape.gradient(loss, given)]
        for one, other in zip(found, wanted, strict=True):
            assert one.shape == other.shape and one.dtype == other.dtype
            one, other = (x.astype("float32").numpy() for x in (one, other))
            assert np.abs(one - other).max() <= tolerance * max(1, np.abs(other).max())


@pytest.mark.parametrize(
    ("step", "gates", "states", "biased", "dtype", "tolerance"),
    [(_lstm_step, 4, 2, True, "float32", 1e-5), (_gru_step, 3, 1, False, "bfloat16", 0.1)],
    ids=["lstm", "gru"],
)
def test_layers_side_by_side(
    device: ck.Device, step: Any, gates: int, states: int, biased: bool, dtype: str, tolerance: float
) -> None:
    # Three layers of 20 steps, which are run in parts of 8, 8 and 4; a graph replays them from the third time on.
    steps, batch, size = 20, 2, 8
    weight, bias = (gates * size, size), (gates * size,)
    shapes: list[tuple[int, ...]] = [(steps, batch, gates * size)]
    for layer in range(3):
        shapes += [weight] * (layer > 0) + [bias] * (layer > 0 and biased) + [weight] + [bias] * biased
        shapes += [(batch, size)] * states
    given = [0.5 * random(i, shape, dtype) for i, shape in enumerate(shapes)]

    def grouped(values: Any) -> tuple[Any, list[Any]]:
        of_x, *rest = values
        layers, rest = [], iter(rest)
        for layer in range(3):
            of_layer = (next(rest) if layer else None, next(rest) if layer and biased else None)
            own = (next(rest), next(rest) if biased else None, [next(rest) for _ in range(states)])
            layers.append((*of_layer, *own))
        return of_x, layers

    found, wanted = [], []
    for results, together in ((found, True), (found, True), (found, True), (wanted, False)):
        results.clear()
        with ck.Tape() as tape:
            tape.watch(*given)
            of_x, layers = grouped(given)
            if together:
                outputs, ends = stacked(step, False, of_x, layers)
            else:
                outputs, ends = of_x, []
                for of_weight, of_bias, *own, starts in layers:
                    if of_weight is not None:
                        outputs = nn.linear(outputs, of_weight, of_bias)
                    outputs, (end,) = stacked(step, False, outputs, [(None, None, *own, starts)])
                    ends.append(end)
            loss = outputs.sum() + sum((2 * one * one).sum() for end in ends for one in end)
        results += [outputs, *(one for end in ends for one in end), *tape.gradient(loss, given)]
    assert len(found) == len(wanted) == 1 + 3 * states + len(shapes)
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        one, other = (x.astype("float32").numpy() for x in (one, other))
        assert np.abs(other).max() > 0
        assert np.abs(one - other).max() <= tolerance * max(1, np.abs(other).max())


def test_derivatives_of_layers_side_by_side(device: ck.Device) -> None:
    shapes = [(9, 1, 6), (6, 2), (6,), (1, 2), (6, 2), (6,), (6, 2), (6,), (1, 2)]
    given = [random(i, shape) for i, shape in enumerate(shapes)]

    def outputs(of_x: Any, *rest: Any) -> Any:
        layers = [(None, None, *rest[:2], [rest[2]]), (*rest[3:7], [rest[7]])]
        return stacked(_gru_step, False, of_x, layers)[0][-1]

    assert gradcheck(outputs, given)
    assert gradcheck(outputs, given, order=2)


def test_outputs_written_before_the_backward(device: ck.Device) -> None:
    layer = nn.GRU(3, 2, rng=0)
    with ck.Tape() as tape:
        outputs, _ = layer(random(0, (3, 2, 3), "float32"))
        loss = outputs.sum()
    outputs[0] = 0
    with pytest.raises(ck.GradientError, match="written"):
        tape.gradient(loss, layer.parameters())


def test_dropout_between_layers(device: ck.Device) -> None:
    x = random(0, (3, 2, 3), "float32")
    layer = nn.GRU(3, 2, 2, dropout=0.5, rng=0)
    assert layer(x)[0].tolist() != layer(x)[0].tolist()
    layer.eval()
    assert layer(x)[0].tolist() == layer(x)[0].tolist()


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_dropout_leaves_the_input_and_the_outputs_of_the_last_layer(device: ck.Device, kind: Any) -> None:
    x = random(0, (3, 2, 3), "float32")
    layer = kind(3, 2, 1, dropout=0.5, rng=0)
    trained = layer(x)[0].tolist()
    layer.eval()
    assert layer(x)[0].tolist() == trained
    deep = kind(3, 2, 2, dropout=0.9, rng=0)
    below = deep(x)[1][0] if kind is nn.LSTM else deep(x)[1]
    deep.eval()
    same = deep(x)[1][0] if kind is nn.LSTM else deep(x)[1]
    assert below[0].tolist() == same[0].tolist() and below[1].tolist() != same[1].tolist()


def test_refused(device: ck.Device) -> None:
    x, h = ck.zeros((3, 2, 3)), ck.zeros((1, 2, 2))
    for call, error, message in (
        (lambda: nn.GRU(3, 2)(x[0]), ValueError, "GRU: x: expected shape (steps, batch, 3), got (2, 3)"),
        (lambda: nn.LSTM(3, 2)(x[:0]), ValueError, "LSTM: x: expected one step or more"),
        (lambda: nn.LSTM(3, 2)(x, h), TypeError, "LSTM: state: expected (h, cell) or None, got Array"),
        (lambda: nn.LSTM(3, 2)(x, (h, h[:, :1])), ValueError, "LSTM: state[1]: expected shape (1, 2, 2)"),
        (lambda: nn.GRU(3, 2)(x, (h, h)), TypeError, "GRU: state: expected an array or None, got tuple"),
        (lambda: nn.GRU(3, 2, 0), ValueError, "GRU: state, layers: expected at least 1, got 2 and 0"),
    ):
        with pytest.raises(error, match=re.escape(message)):
            call()
