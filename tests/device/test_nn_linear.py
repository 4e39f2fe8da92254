"""The linear layer and its fused template, the losses, embeddings and how parameters start."""

from __future__ import annotations

import numpy as np
import pytest
from nn_support import DTYPE_NAMES, check_equal, close, random, sized

import cukern as ck
from cukern import nn
from cukern.testing import gradcheck


def composed(x: ck.Array, weight: ck.Array, bias: ck.Array | None = None) -> ck.Array:
    y = x @ weight.T
    return y if bias is None else y + bias


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
@pytest.mark.parametrize("lead", [(), (4,), (2, 3)], ids=str)
def test_linear_equals_the_reference(device: ck.Device, dtype: str, lead: tuple[int, ...]) -> None:
    arrays = [random(0, (*lead, 9), dtype), random(1, (6, 9), dtype), random(2, (6,), dtype)]
    check_equal(nn.linear, composed, arrays)


def test_linear_of_other_layouts(device: ck.Device) -> None:
    x = ck.permute_dims(random(0, (7, 2, 3)), (2, 1, 0))
    weight = ck.permute_dims(random(1, (7, 5)), (1, 0))
    cotangents = [ck.broadcast_to(ck.asarray(np.float64(0.5)), (3, 2, 5))]
    check_equal(nn.linear, composed, [x, weight, random(2, (10,))[::-2]], cotangents=cotangents)
    check_equal(nn.linear, composed, [x, weight], cotangents=cotangents)


def test_linear_with_an_activation(device: ck.Device) -> None:
    arrays = [random(0, (2, 3, 7)), random(1, (5, 7)), random(2, (5,))]
    check_equal(
        lambda *own: nn.linear(*own, activation=ck.gelu),
        lambda *own: ck.gelu(composed(*own)),
        arrays,
    )
    assert gradcheck(lambda x, w: nn.linear(x, w, activation=ck.tanh), arrays[:2], order=2)
    layer = nn.Linear(7, 5, rng=0, dtype="float64", activation=ck.silu)
    close(layer(arrays[0]), ck.silu(nn.linear(arrays[0], layer.weight, layer.bias)).numpy(), 64)
    with pytest.warns(UserWarning, match="linear is not fused, .*: softmax, which is not elementwise"):
        made = nn.linear(*arrays, activation=ck.softmax)
    close(made, ck.softmax(nn.linear(*arrays)).numpy(), 64)


def test_linear_of_nothing(device: ck.Device) -> None:
    assert nn.linear(ck.zeros((0, 3)), ck.zeros((2, 3)), ck.ones(2)).shape == (0, 2)
    assert nn.linear(ck.zeros((2, 0)), ck.zeros((2, 0)), ck.ones(2)).tolist() == [[1.0, 1.0]] * 2


def test_linear_to_second_order(device: ck.Device) -> None:
    assert gradcheck(nn.linear, (random(0, (2, 3)), random(1, (4, 3)), random(2, (4,))), order=2)


def test_linear_refuses_what_does_not_fit(device: ck.Device) -> None:
    weight = ck.zeros((2, 3))
    with pytest.raises(ValueError, match=r"x: expected shape \(..., 3\) for weight \(2, 3\), got \(4, 2\)"):
        nn.linear(ck.zeros((4, 2)), weight)
    with pytest.raises(ValueError, match=r"bias: expected shape \(2,\), got \(1, 2\)"):
        nn.linear(ck.zeros((4, 3)), weight, ck.zeros((1, 2)))
    with pytest.raises(ValueError, match=r"weight: expected shape \(outputs, inputs\)"):
        nn.linear(ck.zeros((4, 3)), ck.zeros(3))


@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_the_fused_template(device: ck.Device, dtype: str) -> None:
    fused = ck.Kernel("nn/linear_fused.cu", block=(16, 4))
    x, weight, bias = random(0, (9, 6), dtype), random(1, (35, 6), dtype), random(2, (35,), dtype)
    y = ck.empty((9, 35), dtype)
    fused(x, ck.permute_dims(weight, (1, 0)), bias, y, grid=(3, 3))
    close(y, sized(lambda x, w, b: x @ w.T + b, x, weight, bias))
    dweight = ck.empty((35, 6), dtype)
    fused(ck.permute_dims(y, (1, 0)), x, None, dweight, grid=(9, 1))
    close(dweight, sized(lambda y, x: y.T @ x, y, x))


def test_the_linear_module(device: ck.Device) -> None:
    layer = nn.Linear(3, 2, rng=0)
    x = random(0, (4, 3), "float32")
    close(layer(x), x.numpy() @ layer.weight.numpy().T + layer.bias.numpy(), 16)
    assert abs(layer.weight.numpy()).max() <= 3**-0.5
    assert nn.Linear(3, 2, bias=False, dtype="float64").parameters()[0].dtype == ck.float64


def test_cross_entropy(device: ck.Device) -> None:
    logits, targets = random(0, (2, 3, 5)), ck.asarray([[0, 4, 2], [1, 1, 3]])
    values = logits.numpy()
    exponents = np.exp(values - values.max(-1, keepdims=True))
    probabilities = exponents / exponents.sum(-1, keepdims=True)
    one_hot = np.eye(5)[targets.numpy()]
    with ck.Tape() as tape:
        tape.watch(logits)
        loss = nn.cross_entropy(logits, targets)
    close(loss, -np.log((probabilities * one_hot).sum(-1)).mean(), 16)
    close(tape.gradient(loss, logits), (probabilities - one_hot) / 6, 16)
    assert gradcheck(lambda logits: nn.cross_entropy(logits, targets), (logits,), order=2)
    large = ck.asarray([[1e4, 0.0], [0.0, 1e4]])
    assert nn.cross_entropy(large, ck.asarray([0, 0])).item() == 5e3


def test_mean_squared_error(device: ck.Device) -> None:
    a, b = random(0, (3, 4)), random(1, (3, 4))
    close(nn.mse_loss(a, b), ((a.numpy() - b.numpy()) ** 2).mean(), 8)
    assert gradcheck(nn.mse_loss, (a, b), order=2)


def test_losses_refuse_what_does_not_fit(device: ck.Device) -> None:
    with pytest.raises(
        ValueError, match=r"targets: expected shape \(2,\), that of \(2, 3\) without .* got \(3,\)"
    ):
        nn.cross_entropy(ck.zeros((2, 3)), ck.asarray([0, 1, 2]))
    with pytest.raises(ValueError, match=r"targets: expected shape \(2, 3\), as logits has, got \(2,\)"):
        nn.cross_entropy(ck.zeros((2, 3)), ck.zeros(2))
    with pytest.raises(ValueError, match=r"target: expected shape \(2, 3\), as prediction has, got \(3,\)"):
        nn.mse_loss(ck.zeros((2, 3)), ck.zeros(3))


def test_embedding(device: ck.Device) -> None:
    ids, weight = ck.asarray([[2, 0, 2], [1, 2, 0]]), random(0, (4, 3))
    np.testing.assert_array_equal(nn.embedding(ids, weight).numpy(), weight.numpy()[ids.numpy()])
    with ck.Tape() as tape:
        tape.watch(weight)
        y = ck.sum(nn.embedding(ids, weight))
    assert tape.gradient(y, weight).tolist() == [[2.0] * 3, [1.0] * 3, [3.0] * 3, [0.0] * 3]
    assert gradcheck(lambda weight: ck.square(nn.embedding(ids, weight)), (weight,), order=2)
    assert nn.Embedding(4, 3, rng=0)(ids).shape == (2, 3, 3)
    with pytest.raises(TypeError, match="ids: expected an integer array, got float32"):
        nn.embedding(ck.zeros(2), weight)


def test_sequential_and_its_parameters(device: ck.Device) -> None:
    model = nn.Sequential(nn.Linear(3, 4, rng=0), ck.tanh, nn.Linear(4, 1, rng=1))
    assert [name for name, _ in model.named_parameters()] == [
        "layers.0.weight",
        "layers.0.bias",
        "layers.2.weight",
        "layers.2.bias",
    ]
    x = random(0, (2, 3), "float32")
    with ck.Tape() as tape:
        loss = ck.mean(ck.square(model(x)))
    gradients = tape.gradient(loss, model.parameters())
    assert [one.shape for one in gradients] == [(4, 3), (4,), (1, 4), (1,)]


def test_a_penalty_on_the_gradient_of_parameters(device: ck.Device) -> None:
    """The second derivative reaches parameters that the layers hold, and not only arguments."""
    norm, cell = nn.LayerNorm(3, dtype="float64"), nn.LLTMCell(3, 2, dtype="float64", rng=0)
    parameters = [*norm.parameters(), *cell.parameters()]
    x = random(0, (4, 3))

    def penalty() -> ck.Array:
        with ck.Tape() as tape:
            loss = ck.sum(ck.square(cell(norm(x))[0]))
        return ck.sum(ck.stack([ck.sum(ck.square(one)) for one in tape.gradient(loss, parameters)]))

    with ck.Tape() as outer:
        value = penalty()
    gradients = outer.gradient(value, parameters)
    step = 1e-6
    for parameter, gradient in zip(parameters, gradients, strict=True):
        direction = random(7, parameter.shape).numpy()
        values = []
        for sign in (1, -2):
            parameter[...] = ck.asarray(parameter.numpy() + sign * step * direction)
            values.append(penalty().item())
        parameter[...] = ck.asarray(parameter.numpy() + step * direction)
        slope = (values[0] - values[1]) / (2 * step)
        assert slope == pytest.approx((gradient.numpy() * direction).sum(), rel=1e-5, abs=1e-6)


def test_parameters_start_the_same_from_a_seed(device: ck.Device) -> None:
    init = nn.init
    assert (
        init.uniform((3,), -1, 1, rng=3).tolist()
        == init.uniform((3,), -1, 1, rng=np.random.default_rng(3)).tolist()
    )
    init.seed(7)
    first = init.normal((4,), std=2.0, dtype="float64").tolist()
    init.seed(7)
    assert init.normal((4,), std=2.0, dtype="float64").tolist() == first
    assert init.fans((8, 4, 3, 3)) == (36, 72)
    xavier, kaiming = (
        init.xavier_uniform((500, 100), rng=0).numpy(),
        init.kaiming_uniform((500, 100), rng=0).numpy(),
    )
    assert 0.09 < abs(xavier).max() <= 0.1
    assert 0.24 < abs(kaiming).max() <= 6**0.5 / 10
    assert init.xavier_normal((500, 100), rng=0).numpy().std() == pytest.approx((2 / 600) ** 0.5, rel=0.02)
    assert init.kaiming_normal((500, 100), rng=0).numpy().std() == pytest.approx(0.02**0.5, rel=0.02)
    assert init.kaiming_normal((500, 100), outputs=True, rng=0).numpy().std() == pytest.approx(
        0.004**0.5, rel=0.02
    )
    with pytest.raises(ValueError, match="at least 2 axes"):
        init.xavier_uniform((3,))
    with pytest.raises(TypeError, match="rng: expected a numpy Generator, an int or None, got str"):
        init.generator("seed")  # type: ignore[arg-type]


def test_truncated_normal_parameters(device: ck.Device) -> None:
    init = nn.init
    values = init.truncated_normal((20000,), 1.0, 2.0, 0.0, 4.0, dtype="float64", rng=0).numpy()
    assert values.min() >= 0 and values.max() <= 4
    # Of the density: its mean and standard deviation between -0.5 and 1.5 standard deviations.
    z = np.linspace(-0.5, 1.5, 20001)
    density = np.exp(-z * z / 2)
    mean = (z * density).sum() / density.sum()
    std = ((z - mean) ** 2 * density).sum() / density.sum()
    assert values.mean() == pytest.approx(1 + 2 * mean, abs=0.03)
    assert values.std() == pytest.approx(2 * std**0.5, rel=0.02)
    assert init.truncated_normal((), rng=0).shape == ()
    assert init.truncated_normal((3, 0)).shape == (3, 0)
    for low, high, std in ((5.0, 6.0, 1.0), (1.0, -1.0, 1.0), (-1.0, 1.0, 0.0)):
        with pytest.raises(ValueError, match="low, high: expected a range in which normal numbers lie"):
            init.truncated_normal((2,), 0.0, std, low, high)


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (5, 5), (3, 2, 2, 2)])
def test_orthogonal_parameters(device: ck.Device, shape: tuple[int, ...]) -> None:
    values = nn.init.orthogonal(shape, 2.0, dtype="float64", rng=0).numpy()
    assert values.shape == shape
    matrix = values.reshape(shape[0], -1)
    small = matrix @ matrix.T if shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-12)
    assert nn.init.orthogonal(shape, 2.0, dtype="float64", rng=0).numpy().tolist() == values.tolist()
    assert nn.init.orthogonal(shape, rng=1).tolist() != nn.init.orthogonal(shape, rng=2).tolist()


@pytest.mark.parametrize("bad", [-1, 4])
def test_ids_and_targets_out_of_range(device: ck.Device, bad: int) -> None:
    if device.kind != "host":
        pytest.skip("a GPU takes others in their place, since looking at them would wait for it")
    with pytest.raises(IndexError, match=rf"embedding: ids: expected each in \[0, 4\), got {bad}"):
        nn.embedding(ck.asarray([0, bad]), ck.zeros((4, 2)))
    with pytest.raises(IndexError, match=rf"cross_entropy: targets: expected each in \[0, 4\), got {bad}"):
        nn.cross_entropy(ck.zeros((2, 4)), ck.asarray([0, bad]))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int64"])
def test_one_hot_of_more_classes_than_the_ids_can_count(device: ck.Device, dtype: str) -> None:
    ids = np.array([1, 100], dtype)
    np.testing.assert_array_equal(nn.one_hot(ck.asarray(ids), 300).numpy(), np.eye(300)[ids])
    with pytest.raises(ValueError, match="one_hot: classes: expected at least 0, got -1"):
        nn.one_hot(ck.asarray(ids), -1)


def test_sizes_of_layers_are_checked(device: ck.Device) -> None:
    with pytest.raises(ValueError, match="Linear: inputs: expected at least 0, got -1"):
        nn.Linear(-1, 2)
    with pytest.raises(TypeError, match=r"Linear: outputs: expected an int, got 2\.0"):
        nn.Linear(1, 2.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Embedding: rows: expected at least 0, got -1"):
        nn.Embedding(-1, 2)


def test_an_argument_that_is_none_is_named(device: ck.Device) -> None:
    x = ck.zeros((2, 2))
    for call, name in (
        (lambda: nn.linear(x, None), "linear: weight"),  # type: ignore[arg-type]
        (lambda: nn.layer_norm(None, 2), "layer_norm: x"),  # type: ignore[arg-type]
        (lambda: nn.matmul_add_relu(x, x, None), "matmul_add_relu: bias"),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match=f"{name}: expected an array, .* got NoneType"):
            call()
