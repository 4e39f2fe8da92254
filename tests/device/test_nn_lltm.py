"""The LLTM against its reference, a loop in NumPy and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from nn_support import DTYPE_NAMES, Sized, check_equal, close, random, sized

import cukern as ck
from cukern import nn
from cukern.testing import gradcheck


def cell_arrays(batch: int, features: int, state: int, dtype: str = "float64") -> list[ck.Array]:
    """input, weights, bias, old_h, old_cell"""
    shapes = [(batch, features), (3 * state, state + features), (3 * state,), (batch, state), (batch, state)]
    # Gates that saturate lose their derivative to rounding: 1 - y * y of a y next to 1.
    scales = [0.5, (state + features) ** -0.5, 0.5, 0.5, 0.5]
    return [
        random(i, shape, dtype, scale) for i, (shape, scale) in enumerate(zip(shapes, scales, strict=True))
    ]


def sequence_arrays(
    steps: int, batch: int, features: int, state: int, dtype: str = "float64"
) -> list[ck.Array]:
    _, *others = cell_arrays(batch, features, state, dtype)
    return [random(9, (steps, batch, features), dtype), *others]


def numpy_cell(*arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, weights, bias, old_h, old_cell = (one.astype(np.float64) for one in arrays)
    z_input, z_output, z_candidate = np.split(np.concatenate([old_h, x], 1) @ weights.T + bias, 3, axis=1)
    with np.errstate(over="ignore"):
        sigmoids = [
            np.where(z > 0, 1 / (1 + np.exp(-z)), 1 - 1 / (1 + np.exp(z))) for z in (z_input, z_output)
        ]
        candidate = np.where(z_candidate > 0, z_candidate, np.expm1(z_candidate))
    new_cell = old_cell + candidate * sigmoids[0]
    return np.tanh(new_cell) * sigmoids[1], new_cell


def cell_reference(
    x: ck.Array, weights: ck.Array, bias: ck.Array, h: ck.Array, cell: ck.Array
) -> tuple[ck.Array, ck.Array]:
    """A step as a composition."""
    z_input, z_output, z_candidate = ck.split(ck.concat([h, x], axis=1) @ weights.T + bias, 3, axis=1)
    cell = cell + ck.elu(z_candidate) * ck.sigmoid(z_input)
    return ck.tanh(cell) * ck.sigmoid(z_output), cell


def lltm_reference(x: ck.Array, *others: ck.Array) -> tuple[ck.Array, ck.Array, ck.Array]:
    """The steps along the first axis of ``x``."""
    *parameters, h, cell = others
    outputs = []
    for step in ck.unstack(x):
        h, cell = cell_reference(step, *parameters, h, cell)
        outputs.append(h)
    return ck.stack(outputs), h, cell


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_cell_equals_the_reference(device: ck.Device, dtype: str) -> None:
    check_equal(nn.lltm_cell, cell_reference, cell_arrays(3, 5, 7, dtype))


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_sequence_equals_the_reference(device: ck.Device, dtype: str) -> None:
    check_equal(nn.lltm, lltm_reference, sequence_arrays(4, 5, 3, 7, dtype))


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 3, 1), (1, 2, 300), (33, 1, 17)], ids=str)
def test_cell_is_the_formula(device: ck.Device, sizes: tuple[int, int, int]) -> None:
    arrays = cell_arrays(*sizes)
    for result, expected in zip(nn.lltm_cell(*arrays), sized(numpy_cell, *arrays), strict=True):
        close(result, expected)


def test_other_layouts_and_broadcast_cotangents(device: ck.Device) -> None:
    old_h = random(4, (2, 5))
    views = [
        ck.permute_dims(random(0, (2, 3, 8)), (1, 0, 2))[:, :, ::-2],
        ck.permute_dims(random(1, (9, 15), scale=0.5), (1, 0)),
        random(2, (30,))[::-2],
        ck.broadcast_to(old_h[:1], (2, 5)),
        ck.permute_dims(random(3, (5, 2)), (1, 0)),
    ]
    cotangents = [
        ck.broadcast_to(ck.asarray(np.float64(v)), s) for v, s in ((0.5, (3, 2, 5)), (1, (2, 5)), (2, (2, 5)))
    ]
    check_equal(nn.lltm, lltm_reference, views, cotangents=cotangents)


def test_any_part_of_the_results_may_be_used(device: ck.Device) -> None:
    arrays = sequence_arrays(3, 2, 4, 5)
    for part in range(3):
        check_equal(
            lambda *own, part=part: nn.lltm(*own)[part],
            lambda *own, part=part: lltm_reference(*own)[part],
            arrays,
        )


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_gates_of_large_magnitude(device: ck.Device, dtype: str) -> None:
    largest = {"float16": 6e4, "float32": 1e30, "float64": 1e300}[dtype]
    state = 6
    bias = np.zeros((3, state))
    bias[:2] = [largest, -largest, 100.0, -100.0, 0.0, 20.0]
    bias[2] = [-largest, -100.0, -1.0, 0.0, 1.0, 50.0]
    zero = ck.zeros((2, state), dtype)
    arrays = [
        ck.zeros((2, 1), dtype),
        ck.zeros((3 * state, state + 1), dtype),
        ck.asarray(bias.reshape(-1), dtype),
    ]
    for result, expected in zip(
        nn.lltm_cell(*arrays, zero, zero),
        numpy_cell(*(one.numpy() for one in (*arrays, zero, zero))),
        strict=True,
    ):
        close(result, expected, 8)
    with ck.Tape() as tape:
        tape.watch(arrays[2])
        total = ck.add(*(ck.sum(one) for one in nn.lltm_cell(*arrays, zero, zero)))
    assert np.isfinite(tape.gradient(total, arrays[2]).numpy().astype(np.float64)).all()


def test_nan_spreads_within_its_row(device: ck.Device) -> None:
    arrays = cell_arrays(3, 2, 4)
    values = arrays[0].numpy()
    values[1, 0] = np.nan
    h, cell = nn.lltm_cell(ck.asarray(values), *arrays[1:])
    for result in (h.numpy(), cell.numpy()):
        assert np.isnan(result[1]).all()
        assert np.isfinite(result[[0, 2]]).all()


def test_no_batch(device: ck.Device) -> None:
    outputs, h, cell = nn.lltm(*sequence_arrays(3, 0, 2, 4))
    assert (outputs.shape, h.shape, cell.shape) == ((3, 0, 4), (0, 4), (0, 4))


def test_derivatives_to_second_order(device: ck.Device) -> None:
    assert gradcheck(nn.lltm_cell, cell_arrays(2, 3, 2), order=2)
    assert gradcheck(nn.lltm, sequence_arrays(3, 2, 2, 2), order=2)


def test_gradients_of_one_argument_alone(device: ck.Device) -> None:
    arrays = sequence_arrays(3, 2, 4, 5)
    for i in range(5):

        def chosen(one: ck.Array, i: int = i) -> list[ck.Array]:
            return [one if i == j else own for j, own in enumerate(arrays)]

        check_equal(
            lambda one, chosen=chosen: nn.lltm(*chosen(one)),
            lambda one, chosen=chosen: lltm_reference(*chosen(one)),
            [arrays[i]],
        )


def test_a_write_to_the_outputs_is_noticed(device: ck.Device) -> None:
    x, weights, *others = sequence_arrays(2, 2, 2, 3)
    with ck.Tape() as tape:
        tape.watch(weights)
        outputs, h, _ = nn.lltm(x, weights, *others)
        total = ck.sum(h)
    outputs[...] = 0.0
    with pytest.raises(ck.GradientError, match="_Recurrence"):
        tape.gradient(total, weights)


def test_a_sequence_is_its_steps(device: ck.Device) -> None:
    x, weights, bias, h, cell = sequence_arrays(4, 3, 2, 5)
    outputs, last_h, last_cell = nn.lltm(x, weights, bias, h, cell)
    wanted = sized(lambda *own: lltm_reference(*map(ck.asarray, own)), x, weights, bias, h, cell)
    for one, size in zip((outputs, last_h, last_cell), wanted, strict=True):
        close(one, size)
    for step in range(4):
        h, cell = nn.lltm_cell(x[step], weights, bias, h, cell)
        close(outputs[step], Sized(h.numpy(), wanted[0].size[step]))
    close(last_h, Sized(h.numpy(), wanted[1].size))
    close(last_cell, Sized(cell.numpy(), wanted[2].size))


def test_results_are_separate_memory(device: ck.Device) -> None:
    x, *others = sequence_arrays(2, 2, 2, 3)
    outputs, h, _ = nn.lltm(x, *others)
    before = outputs.numpy()
    h[...] = 0.0
    np.testing.assert_array_equal(outputs.numpy(), before)


def test_the_modules(device: ck.Device) -> None:
    model = nn.LLTM(features=3, state=4, rng=0)
    assert [(name, one.shape) for name, one in model.named_parameters()] == [
        ("weights", (12, 7)),
        ("bias", (12,)),
    ]
    assert abs(model.weights.numpy()).max() <= 0.5
    x = random(0, (5, 2, 3), "float32")
    outputs, state = model(x)
    again, _ = model(x[3:], model(x[:3])[1])
    close(again, outputs[3:], 16)
    cell = nn.LLTMCell(features=3, state=4, rng=0)
    np.testing.assert_array_equal(cell.weights.numpy(), model.weights.numpy())
    close(cell(x[0])[0], outputs[0], 16)
    close(state[0], outputs[4], 0)


def test_what_does_not_fit_is_refused(device: ck.Device) -> None:
    x, weights, bias, h, cell = cell_arrays(2, 3, 4)
    with pytest.raises(ValueError, match=r"weights: expected shape \(12, 7\)"):
        nn.lltm_cell(x, weights[:, :-1], bias, h, cell)
    with pytest.raises(ValueError, match=r"bias: expected shape \(12,\)"):
        nn.lltm_cell(x, weights, bias[:-1], h, cell)
    with pytest.raises(ValueError, match=r"old_cell: expected shape \(2, 4\)"):
        nn.lltm_cell(x, weights, bias, h, cell[:1])
    with pytest.raises(ValueError, match=r"input: expected shape \(batch, features\), got \(1, 2, 3\)"):
        nn.lltm_cell(x[None], weights, bias, h, cell)
    with pytest.raises(
        ValueError,
        match=r"inputs: expected shape \(steps, batch, features\), at least one step, got \(0, 2, 3\)",
    ):
        nn.lltm(ck.zeros((0, 2, 3), "float64"), weights, bias, h, cell)
    with pytest.raises(TypeError, match="old_h: expected a floating dtype, got int64"):
        nn.lltm_cell(x, weights, bias, ck.zeros((2, 4), "int64"), cell)


def test_sequences_that_are_none(device: ck.Device) -> None:
    model, cell = nn.LLTM(3, 4, rng=0), nn.LLTMCell(3, 4, rng=0)
    with pytest.raises(ValueError, match=r"lltm: inputs: .* at least one step, got \(0, 2, 3\)"):
        model(ck.zeros((0, 2, 3)))
    with pytest.raises(ValueError, match=r"lltm: inputs: expected shape .* got \(3,\)"):
        model(ck.zeros(3))
    with pytest.raises(ValueError, match=r"lltm_cell: input: expected shape \(batch, features\), got \(\)"):
        cell(ck.asarray(1.0))
    with pytest.raises(TypeError, match="lltm: inputs: expected numbers that a dtype of cukern holds"):
        model(np.full((1, 2, 3), "a"))


def test_a_state_of_no_elements(device: ck.Device) -> None:
    outputs, (h, cell) = nn.LLTM(3, 0, rng=0)(ck.zeros((5, 2, 3)))
    assert (outputs.shape, h.shape, cell.shape) == ((5, 2, 0), (2, 0), (2, 0))
    with pytest.raises(ValueError, match="LLTM: state: expected at least 0, got -1"):
        nn.LLTM(3, -1)
