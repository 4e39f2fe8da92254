"""Optimizers of many parameters: launches for all of them, groups, names, schedules, frozen ones, masters, state."""

from __future__ import annotations

import copy
import pickle
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.elementwise import many
from cukern.optim import SGD, Adam, AdamW, RMSprop, clip, clip_by_global_norm, step
from cukern.shape.copy import laid_out

RNG = np.random.default_rng(0)


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch, empty: Callable[..., None], device: ck.Device) -> None:
    """Small pieces of several threads and wide accesses, on the host as well."""
    monkeypatch.setitem(many._SPLIT, device.style, many.Geometry(32, 32, 1, 64))
    empty(clip._norm, clip._scaling, many._plans)


def _arrays(sizes: list[int], dtype: Any) -> list[ck.Array]:
    """Arrays of normal numbers; every third one begins where no wide access may."""
    made = []
    for i, size in enumerate(sizes):
        values = ck.asarray(RNG.normal(size=size + i % 3).astype(dtype))
        made.append(values[i % 3 :])
    return made


@pytest.mark.parametrize("dtype", [ck.float32, ck.bfloat16], ids=str)
def test_many_parameters_are_updated_as_each_alone(device: ck.Device, cut: None, dtype: Any) -> None:
    # More than a launch takes, of none to several pieces, some of another dtype and some with gradients of one.
    sizes = [0, 1, 3, 64, 65, 200, *range(7, 107)]
    parameters, gradients = _arrays(sizes, dtype), [_arrays(sizes, dtype) for _ in range(2)]
    parameters[3:5] = _arrays(sizes[3:5], "float32")
    for given in gradients:
        given[5:7] = _arrays(sizes[5:7], "float64")
    alone = [ck.asarray(one, copy=True) for one in parameters]
    optimizer, others = AdamW(parameters, lr=0.1), [AdamW([one], lr=0.1) for one in alone]
    for given in gradients:
        optimizer.step(given)
        for other, gradient in zip(others, given, strict=True):
            other.step([gradient])
    for one, other in zip(parameters, alone, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_a_step_is_a_few_launches(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    launched = []
    run = step._Launch.run
    monkeypatch.setattr(step._Launch, "run", lambda *args: (launched.append(args), run(*args)))
    parameters = [ck.ones(3) for _ in range(148)]
    for optimizer, launches in ((AdamW(parameters), 2), (SGD(parameters, lr=0.1), 2)):
        launched.clear()
        optimizer.step(parameters)
        optimizer.step([ck.ones(3) for _ in parameters])
        assert len(launched) == 2 * launches


def test_gradients_that_are_parameters_are_those_before_the_step(device: ck.Device) -> None:
    one, two = ck.asarray([1.0, 2.0, 3.0]), ck.asarray([10.0, 20.0, 30.0])
    SGD([one, two], lr=1.0).step([two[::-1], one])
    assert (one.tolist(), two.tolist()) == ([-29, -18, -7], [9, 18, 27])


class Net(ck.nn.Module):
    def __init__(self) -> None:
        self.first = ck.nn.Linear(3, 4, rng=0)
        self.scales = [ck.nn.Parameter(np.ones(4, np.float32)), ck.nn.Parameter(np.ones(4, np.float32))]

    def forward(self, x: ck.Array) -> ck.Array:
        return ck.tanh(self.first(x) * self.scales[0]) * self.scales[1]


def _gradients(net: Net) -> Any:
    x = ck.asarray(np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3))
    with ck.Tape() as tape:
        loss = (net(x) ** 2).mean()
    return tape.gradient(loss, net)


def test_groups_have_their_own_options_whatever_the_order(device: ck.Device) -> None:
    net, plain, decayed = Net(), Net(), Net()
    vectors = [one for one in net.parameters() if one.ndim < 2]
    groups = [
        {"params": vectors[::-1], "weight_decay": 0.0, "lr": lambda step: 0.25 / (1 + step)},
        {"params": [net.first.weight], "betas": [0.5, 0.75]},
    ]
    optimizer = AdamW(groups, lr=0.125, weight_decay=0.5)
    same = [
        AdamW(plain, lr=0.25, weight_decay=0.0),
        AdamW(decayed, lr=0.125, weight_decay=0.5, betas=(0.5, 0.75)),
    ]
    for lr in (0.25, 0.125):
        gradients = _gradients(net)
        same[0].lr = lr
        optimizer.step(gradients)
        for other in same:
            other.step(gradients.parameters())
    for mine, one, other in zip(net.parameters(), plain.parameters(), decayed.parameters(), strict=True):
        np.testing.assert_array_equal(mine.numpy(), (other if mine.ndim == 2 else one).numpy())
    assert optimizer.names == ["0", "1", "2", "3"]
    optimizer.groups[0].options["lr"] = 0.0
    optimizer.lr = 0.0
    before = [one.tolist() for one in net.parameters()]
    optimizer.step(_gradients(net))
    assert before == [one.tolist() for one in net.parameters()]


def test_bad_groups_are_refused(device: ck.Device) -> None:
    with pytest.raises(
        TypeError, match=r"parameters\[1\]: 'decay' is not an option of a group, which are: lr, betas, eps"
    ):
        Adam([{"params": [ck.zeros(1)]}, {"params": [ck.zeros(1)], "decay": 0.1}])
    with pytest.raises(ValueError, match="'0' and '1' are one array"):
        Adam(2 * [{"params": [ck.zeros(1)]}])
    with pytest.raises(ValueError, match=r"has shape \(2,\), expected \(1,\); they go in the order of optim"):
        Adam([{"params": [ck.zeros(1)]}, {"params": [ck.zeros(2)]}]).step([ck.zeros(2), ck.zeros(1)])
    with pytest.raises(ValueError, match="nesterov: expected a momentum"):
        SGD([{"params": [ck.zeros(1)]}, {"params": [ck.zeros(1)], "nesterov": True}], lr=1.0)
    with pytest.raises(TypeError, match=r"parameters\[0\]\['params'\]: expected a module or a pytree"):
        SGD([{"params": 3}], lr=1.0)


def test_parameters_by_pytrees_and_names(device: ck.Device) -> None:
    x = [ck.asarray([float(i)]) for i in range(4)]
    net = Net()
    tree = {"a": x[0], "b": {"c": [x[1], None], "d": (x[2],)}, "net": net, "last": x[3]}
    optimizer = SGD(tree, lr=1.0)
    of_net = [f"net.{name}" for name, _ in net.named_parameters()]
    assert optimizer.names == ["a", "b.c.0", "b.d.0", *of_net, "last"]
    with ck.Tape() as tape:
        tape.watch(x)
        loss = (x[0] * 2 + x[2] * 3).sum()
    optimizer.step(tape.gradient(loss, tree))
    optimizer.step({"b.d.0": ck.ones(1), "last": None})
    optimizer.step({"b": {"c": [ck.ones(1), None]}, "last": ck.ones(1)})
    assert [one.item() for one in x] == [-2.0, 0.0, -2.0, 2.0]
    for parameters in (
        net.named_parameters(),
        dict(net.named_parameters()),
        [{"params": net.named_parameters()}],
    ):
        assert SGD(parameters, lr=1.0).names == [name for name, _ in net.named_parameters()]
    assert SGD((one for one in x), lr=1.0).names == ["0", "1", "2", "3"]
    assert SGD([{"params": {"w": x[0]}}, {"params": {"w": x[1]}}], lr=1.0).names == ["0.w", "1.w"]


def test_a_parameter_that_was_replaced_is_missed(device: ck.Device) -> None:
    net = Net()
    whole, part = SGD(net, lr=0.1), SGD(net.first, lr=0.1)
    net.scales[0] = ck.nn.Parameter(np.ones(4, np.float32))
    part.step(_gradients(net))
    with pytest.raises(ValueError, match="lacks the parameter 'scales.0' of this optimizer; was it replaced"):
        whole.step(_gradients(net))


def test_an_optimizer_goes_with_its_last_name(device: ck.Device) -> None:
    x = ck.ones(3)
    optimizer = AdamW([x])
    optimizer.step([x])
    state = weakref.ref(optimizer.state_dict()["0.mean"])
    del optimizer
    assert state() is None


def test_frozen_parameters_stay(device: ck.Device) -> None:
    net = Net()
    optimizer = Adam(net, lr=0.1)
    optimizer.step(_gradients(net))
    weight = net.first.weight.tolist()
    net.first.freeze()
    optimizer.step(_gradients(net))
    optimizer.step([ck.ones_like(one) for one in net.parameters()])
    assert net.first.weight.tolist() == weight
    assert net.scales[0].tolist() != [1, 1, 1, 1]
    assert "4 parameters of 24 elements, 2 frozen, steps=3, lr=0.1" in repr(optimizer)
    net.first.unfreeze()
    optimizer.step(_gradients(net))
    assert net.first.weight.tolist() != weight
    assert [optimizer.state_dict()[f"{name}.updates"].item() for name in optimizer.names] == [2, 2, 4, 4]
    with pytest.raises(ValueError, match="is a parameter not frozen"):
        optimizer.step(_gradients(net.freeze()))


def test_a_schedule_counts_the_steps_before(device: ck.Device) -> None:
    x, asked = ck.asarray([0.0]), []
    optimizer = SGD([x], lr=lambda step: asked.append(step) or [0.5, 0.25, -1.0][step])  # type: ignore
    optimizer.step([ck.ones(1)])
    optimizer.step([ck.ones(1)])
    assert (x.item(), asked) == (-0.75, [0, 1])
    with pytest.raises(ValueError, match=r"lr\(2\): expected a number in \[0, inf\), got -1.0"):
        optimizer.step([ck.ones(1)])
    assert (x.item(), optimizer.steps) == (-0.75, 2)
    again = SGD([x], lr=ck.optim.StepDecay(0.5, every=3))
    again.load_state_dict(optimizer.state_dict())
    for _ in range(2):
        again.step([ck.ones(1)])
    np.testing.assert_allclose(x.item(), -0.75 - 0.5 - 0.05)


def test_momentum_may_change_between_steps(device: ck.Device) -> None:
    x = ck.asarray([0.0])
    optimizer = SGD([x], lr=1.0)
    optimizer.step([ck.ones(1)])
    optimizer.momentum = 0.5
    optimizer.step([ck.ones(1)])
    optimizer.step([ck.ones(1)])
    assert x.item() == -1 - 1 - 1.5


def test_masters_keep_what_half_types_lose(device: ck.Device) -> None:
    gradient = [ck.full(100, 1.0, dtype="bfloat16")]
    start = ck.full(100, 1.0, dtype="bfloat16")
    wide, kept, lost = (
        ck.asarray(start, dtype=dtype, copy=True) for dtype in ("float32", "bfloat16", "bfloat16")
    )
    optimizers = [SGD([wide], lr=1e-3), SGD([kept], lr=1e-3), SGD([lost], lr=1e-3, masters=False)]
    for _ in range(50):
        for optimizer in optimizers:
            optimizer.step(gradient)
    np.testing.assert_allclose(wide.numpy(), 0.95, rtol=1e-5)
    np.testing.assert_array_equal(kept.numpy(), wide.numpy().astype(ck.bfloat16))
    np.testing.assert_array_equal(lost.numpy(), start.numpy())
    np.testing.assert_array_equal(optimizers[1].state_dict()["0.master"].numpy(), wide.numpy())
    assert "0.master" not in optimizers[2].state_dict()


def test_what_else_writes_a_parameter_is_not_undone_by_its_master(device: ck.Device) -> None:
    x = ck.asarray([1.0, 2.0, np.inf, 0.0], dtype="bfloat16")
    optimizer = SGD([x], lr=2.0**-12)
    gradient = [ck.ones(4, dtype="bfloat16")]
    optimizer.step(gradient)
    x[0] = 16.0
    x[2] = 4.0
    optimizer.step(gradient)
    expected = [16 - 2.0**-12, 2 - 2.0**-11, 4 - 2.0**-12, -(2.0**-11)]
    assert optimizer.state_dict()["0.master"].tolist() == expected
    assert x.tolist() == [16, 2, 4, -(2.0**-11)]


def test_a_model_in_bfloat16_learns_as_one_in_float32(device: ck.Device) -> None:
    rng = np.random.default_rng(0)
    x = ck.asarray(rng.normal(size=(64, 3)), dtype="float32")
    y = ck.tanh(x @ ck.asarray(rng.normal(size=(3, 4)), dtype="float32"))
    gained = {}
    for name, dtype, masters in (
        ("wide", "float32", True),
        ("kept", "bfloat16", True),
        ("lost", "bfloat16", False),
    ):
        net = Net().astype(dtype)
        optimizer = SGD(net, lr=1e-3, masters=masters)
        losses = []
        for _ in range(100):
            with ck.Tape() as tape:
                loss = ck.nn.mse_loss(ck.astype(net(ck.astype(x, dtype)), "float32"), y)
            optimizer.step(tape.gradient(loss, net))
            losses.append(loss.item())
        gained[name] = losses[0] - losses[-1]
    assert gained["kept"] == pytest.approx(gained["wide"], rel=0.03)
    assert gained["lost"] < 0.5 * gained["wide"]


def test_a_module_may_be_cast_between_steps(device: ck.Device) -> None:
    net, wide = Net(), Net()
    optimizer, other = AdamW(net, lr=0.01), AdamW(wide, lr=0.01)
    for dtype in ("float32", "bfloat16", "float64"):
        gradients = _gradients(wide)
        net.astype(dtype)
        optimizer.step(gradients.parameters())
        other.step(gradients)
    for mine, theirs in zip(net.parameters(), wide.parameters(), strict=True):
        assert mine.dtype == ck.float64
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), atol=0.01)


@pytest.mark.parametrize("kind", ["safetensors", "npz"])
def test_state_goes_through_a_file(device: ck.Device, tmp_path: Path, kind: str) -> None:
    net = Net().astype("bfloat16")
    optimizer = RMSprop(net, lr=0.01, momentum=0.5)
    optimizer.step(_gradients(net))
    state, path = optimizer.state_dict(), tmp_path / f"state.{kind}"
    assert all(isinstance(value, ck.Array) for value in state.values())
    if kind == "npz":
        ck.savez(path, **state)
    else:
        ck.save_safetensors(path, state)
    other = copy.deepcopy(net)
    again = RMSprop(other, lr=0.01, momentum=0.5)
    again.load_state_dict(ck.load(path))
    for _ in range(2):
        gradients = _gradients(net)
        optimizer.step(gradients)
        again.step(gradients.parameters())
    for one, two in zip(net.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(one.numpy(), two.numpy())
    del state["first.weight.master"]
    again.load_state_dict(state)
    assert again.steps == 1


def test_optimizers_are_copied_and_pickled_with_their_model(device: ck.Device) -> None:
    net = Net()
    optimizer = AdamW(net, lr=ck.optim.WarmUp(2, ck.optim.LinearDecay(0.1, 10)))
    optimizer.step(_gradients(net))
    for made, own in (copy.deepcopy((net, optimizer)), pickle.loads(pickle.dumps((net, optimizer)))):
        own.step(_gradients(made))
        assert own.steps == 2 and made.first.weight.tolist() != net.first.weight.tolist()
    assert optimizer.steps == 1


def test_a_shallow_copy_has_its_own_state_of_the_same_parameters(device: ck.Device) -> None:
    net = Net()
    optimizer = AdamW(net)
    optimizer.step(_gradients(net))
    other = copy.copy(optimizer)
    assert all(one is own for one, own in zip(other.parameters, optimizer.parameters, strict=True))
    before = {name: np.asarray(value) for name, value in optimizer.state_dict().items()}
    other.step(_gradients(net))
    other.lr = 0.5
    assert (optimizer.steps, other.steps) == (1, 2) and optimizer.lr != 0.5
    for name, value in optimizer.state_dict().items():
        np.testing.assert_array_equal(np.asarray(value), before[name])


def test_repr(device: ck.Device) -> None:
    assert repr(SGD([ck.zeros((2, 3))], lr=0.1)) == (
        "SGD(1 parameter of 6 elements, steps=0, lr=0.1, momentum=0.0, nesterov=False, weight_decay=0.0)"
    )
    net = Net()
    groups = [{"params": [net.first.weight]}, {"params": net.scales, "weight_decay": 0.0}]
    assert repr(AdamW(groups, lr=ck.optim.CosineDecay(0.1, steps=9))) == (
        "AdamW(\n"
        "  3 parameters of 20 elements, steps=0, lr=CosineDecay(lr=0.1, steps=9, end=0.0), betas=(0.9, 0.999), "
        "eps=1e-08, weight_decay=0.01\n"
        "  1 parameter of 12 elements\n"
        "  2 parameters of 8 elements, weight_decay=0.0\n)"
    )


def test_the_norm_of_many_gradients(device: ck.Device, cut: None) -> None:
    sizes = [0, 1, 3, 64, 65, 1000, *range(7, 227)]
    gradients = [
        *_arrays(sizes, "float32"),
        *_arrays([5, 70], "bfloat16"),
        *_arrays([5, 70], "float64"),
        None,
    ]
    exact = [one.numpy().astype(np.float64) for one in gradients if one is not None]
    norm = np.sqrt(sum((one**2).sum() for one in exact))
    clipped, found = clip_by_global_norm(gradients, 2.0)
    assert found.dtype == ck.float64 and clipped[-1] is None
    np.testing.assert_allclose(found.item(), norm, rtol=1e-6)
    for one, given, wanted in zip(clipped, gradients, exact, strict=False):
        assert one.dtype == given.dtype
        np.testing.assert_allclose(
            one.numpy().astype(np.float64), wanted * 2 / norm, rtol=4e-3 if one.dtype == ck.bfloat16 else 1e-6
        )
    # 28 bytes of a launch's arguments for an array, of 4096.
    assert all(28 * (one.stop - one.start) <= 4096 for one, _ in many.shared_out(len(gradients), 2, 1))
    strided, _ = clip_by_global_norm([ck.broadcast_to(ck.asarray([3.0]), (4,)), ck.ones((2, 2)).T], 1e9)
    assert strided[0].tolist() == [3.0] * 4


def test_clipping_has_a_derivative(device: ck.Device) -> None:
    def clipped(x: ck.Array, y: ck.Array) -> ck.Array:
        made, norm = clip_by_global_norm([x, y], 1.0)
        return (made[0] * made[0] * norm).sum() + made[1].sum()

    x, y = (ck.asarray(values) for values in ([1.0, -2.0], [0.5]))
    ck.testing.gradcheck(clipped, [ck.astype(x, "float64"), ck.astype(y, "float64")])


@pytest.mark.parametrize("limit", [1.0, 4.0])
def test_clipping_under_a_tape_gives_the_same_values(device: ck.Device, limit: float) -> None:
    """Gradients of norm 2.5, above one limit and below the other."""
    given = [ck.asarray([1.5, 0.0]), ck.asarray([-2.0])]
    with ck.Tape() as active:
        active.watch(given)
        made, norm = clip_by_global_norm(given, limit)
    assert norm.item() == pytest.approx(2.5)
    share = min(1.0, limit / 2.5)
    for one, values in zip(made, ([1.5, 0.0], [-2.0]), strict=True):
        np.testing.assert_allclose(one.numpy(), np.multiply(values, share), rtol=1e-6)


#: Orders in memory of the axes of three-dimensional arrays.
ORDERS = [(0, 1, 2), (0, 2, 1), (2, 0, 1)]


@pytest.mark.parametrize("masters", [False, True])
@pytest.mark.parametrize(
    ("make", "options"),
    [
        (SGD, {"momentum": 0.5, "nesterov": True}),
        (AdamW, {}),
        (RMSprop, {"momentum": 0.5, "centered": True}),
    ],
)
def test_parameters_and_gradients_lie_in_any_dense_order(
    device: ck.Device, make: Any, options: dict[str, Any], masters: bool
) -> None:
    dtype = "bfloat16" if masters else "float32"
    rng = np.random.default_rng(0)
    values, *slopes = (ck.asarray(rng.standard_normal((3, 4, 5)), dtype) for _ in range(4))
    plain = ck.array(values)
    expected = make([plain], lr=0.1, masters=masters, **options)
    for slope in slopes:
        expected.step([slope])
    for own in ORDERS:
        parameter = laid_out(values, own)
        optimizer = make([parameter], lr=0.1, masters=masters, **options)
        for slope, other in zip(slopes, ORDERS, strict=True):
            optimizer.step([laid_out(slope, other)])
        assert parameter._planned().order == own
        np.testing.assert_array_equal(parameter.numpy(), plain.numpy())
        for name, value in optimizer.state_dict().items():
            assert value.ndim == 0 or value._planned().order == own
            np.testing.assert_array_equal(value.numpy(), expected.state_dict()[name].numpy(), err_msg=name)
        # A gradient with gaps, one that is repeated, and one whose memory is the parameter's.
        for gradient in (ck.concat([slope, slope], 2)[..., ::2], ck.broadcast_to(slope[:1], (3, 4, 5))):
            one, two = laid_out(values, own), ck.array(values)
            make([one], lr=0.1, masters=masters, **options).step([gradient])
            make([two], lr=0.1, masters=masters, **options).step([gradient.contiguous()])
            np.testing.assert_array_equal(one.numpy(), two.numpy())
        one, two = laid_out(values, own), ck.array(values)
        make([one], lr=0.1, masters=masters, **options).step([one])
        make([two], lr=0.1, masters=masters, **options).step([two])
        np.testing.assert_array_equal(one.numpy(), two.numpy())


def test_state_in_another_order_is_laid_as_its_parameter(device: ck.Device) -> None:
    values = ck.asarray(np.random.default_rng(0).standard_normal((3, 4, 5)), "float32")
    first, second = ck.array(values), laid_out(values, (2, 0, 1))
    mine, other = Adam([first], lr=0.1), Adam([second], lr=0.1)
    mine.step([ck.sin(values)])
    second[...] = first
    other.load_state_dict(mine.state_dict())
    for optimizer in (mine, other):
        optimizer.step([ck.cos(values)])
    np.testing.assert_array_equal(first.numpy(), second.numpy())
    assert {slot._planned().order for slot in other._state[0].values()} == {(2, 0, 1)}


def test_clipped_gradients_keep_their_orders(device: ck.Device) -> None:
    values = ck.asarray(np.random.default_rng(0).standard_normal((3, 4, 5)), "float32")
    given = [laid_out(values * (i + 1), order) for i, order in enumerate(ORDERS)]
    clipped, norm = clip_by_global_norm([*given, values[:, ::2]], 1.0)
    wanted, same = clip_by_global_norm([*(one.contiguous() for one in given), values[:, ::2]], 1.0)
    assert [one._planned().order for one in clipped] == [*ORDERS, (0, 1, 2)]
    np.testing.assert_allclose(norm.numpy(), same.numpy(), rtol=1e-6)
    for one, two in zip(clipped, wanted, strict=True):
        np.testing.assert_allclose(one.numpy(), two.numpy(), rtol=1e-6)


def test_gradients_may_be_the_state_of_other_parameters(device: ck.Device) -> None:
    parameters = [ck.asarray([1.0, 2.0]), ck.asarray([3.0, 4.0])]
    optimizer = SGD(parameters, lr=1.0, momentum=0.5)
    optimizer.step([ck.asarray([2.0, 4.0]), ck.asarray([8.0, 16.0])])
    state = optimizer.state_dict()
    optimizer.step([state["1.velocity"], state["0.velocity"]])
    assert [state[f"{i}.velocity"].tolist() for i in range(2)] == [[9.0, 18.0], [6.0, 12.0]]
