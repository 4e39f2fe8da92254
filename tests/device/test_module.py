"""Modules and parameters: walking, saving, loading, moving."""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import cukern as ck
from cukern import pytree
from cukern.device import capture_hooks
from cukern.nn import Module, Parameter, structure
from cukern.nn.module import read_safetensors


class Layer(Module):
    def __init__(self, size: int, dtype: Any = None) -> None:
        self.weight = Parameter(np.arange(size * size, dtype=np.float32).reshape(size, size), dtype)
        self.scale = ck.asarray(np.float64(0.5))
        self._scratch = ck.zeros(3)

    def forward(self, x: ck.Array) -> ck.Array:
        return x @ self.weight


class Model(Module):
    def __init__(self) -> None:
        self.first = Layer(2)
        self.blocks = [Layer(3), {"inner": Layer(1, ck.bfloat16)}]
        self.tied = self.first.weight
        self.note = "no array"


NAMES = ["first.weight", "blocks.0.weight", "blocks.1.inner.weight"]


def test_parameters_are_found_in_attributes_lists_and_dicts_each_once(device: ck.Device) -> None:
    model = Model()
    assert [name for name, _ in model.named_parameters()] == NAMES
    assert all(type(parameter) is Parameter for parameter in model.parameters())
    assert [name for name, _ in model.named_buffers()] == [name.replace("weight", "scale") for name in NAMES]
    assert [name for name, _ in model.named_modules()] == ["", "first", "blocks.0", "blocks.1.inner"]


def test_a_module_that_holds_itself_is_walked_once(device: ck.Device) -> None:
    model = Model()
    model.first.parent = model  # type: ignore[attr-defined]
    assert len(model.parameters()) == 3


def test_parameter_copies_and_refuses_integers(device: ck.Device) -> None:
    values = np.ones(2, np.float32)
    parameter = Parameter(values)
    values[0] = 7
    assert parameter.tolist() == [1, 1]
    assert parameter.device is device
    assert type(parameter + 1) is ck.Array
    with pytest.raises(TypeError, match="floating dtype, got int64"):
        Parameter([1, 2])


def test_parameters_are_watched_by_themselves(device: ck.Device) -> None:
    layer = Layer(2)
    x = ck.ones((1, 2))
    with ck.Tape() as tape:
        loss = layer(x).sum()
    gradients = tape.gradient(loss, layer)
    assert isinstance(gradients, Layer)
    np.testing.assert_array_equal(gradients.weight.numpy(), [[1, 1], [1, 1]])
    assert gradients.leaves()[0] is gradients.weight
    assert len(list(pytree.leaves_with_path(gradients))) == 1


def test_pytree_of_a_module_keeps_structure_and_shared_parameters(device: ck.Device) -> None:
    model = Model()
    doubled = pytree.map(lambda x: x * 2, model)
    again = pytree.map(lambda x: x * 2, doubled)
    assert isinstance(again, Model)
    assert again.tied is again.first.weight
    np.testing.assert_array_equal(again.blocks[0].weight.numpy(), 4 * model.blocks[0].weight.numpy())  # type: ignore
    np.testing.assert_array_equal(model.first.weight.numpy(), [[0, 1], [2, 3]])


def test_a_replaced_parameter_is_named_when_a_module_is_made_of_an_older_structure(device: ck.Device) -> None:
    module = ck.nn.Linear(3, 2, rng=0)
    leaves, replaced = pytree.taken_apart(module)
    module.weight = ck.nn.Parameter(ck.zeros((2, 3), device=device))
    with pytest.raises(ValueError, match="Linear: a parameter was replaced"):
        replaced([2 * leaf for leaf in leaves])


def test_train_and_eval_reach_every_submodule(device: ck.Device) -> None:
    model = Model()
    assert model.training
    model.eval()
    assert not any(module.training for _, module in model.named_modules())
    assert model.train().first.training


def test_steps_that_were_captured_learn_of_another_mode(device: ck.Device) -> None:
    model, counts = Model(), [capture_hooks.replaced]
    for change in (model.train, model.eval, model.eval, lambda: setattr(model, "training", True)):
        change()
        counts.append(capture_hooks.replaced)
    steps = np.diff(counts)
    assert steps[1] > 0
    assert steps[3] > 0
    assert steps[0] == steps[2] == 0


def test_state_dict_round_trip_through_safetensors(device: ck.Device, tmp_path: Path) -> None:
    model, other = Model(), Model()
    for parameter in other.parameters():
        ck.optim.SGD([parameter], lr=1.0).step([parameter])
    assert other.parameters()[1].numpy().max() == 0
    path = tmp_path / "model.safetensors"
    model.save(path)
    assert other.load(path) is other
    for (name, one), (_, two) in zip(model.state_dict().items(), other.state_dict().items(), strict=True):
        np.testing.assert_array_equal(one.numpy(), two.numpy(), err_msg=name)
        assert one.dtype == two.dtype
    read = read_safetensors(path)
    assert read["blocks.1.inner.weight"].dtype == ck.bfloat16
    assert read["first.scale"].shape == ()
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.safetensors"]


def test_load_state_dict_names_every_problem_and_changes_nothing(device: ck.Device) -> None:
    model = Model()
    state = {name: value.numpy() + 1 for name, value in model.state_dict().items()}
    state["blocks.0.weight"] = np.zeros((2, 3), np.float32)
    state["extra"] = np.zeros(1, np.float32)
    del state["first.scale"]
    with pytest.raises(ValueError, match="Model") as error:
        model.load_state_dict(state)
    for part in (
        "missing 'first.scale'",
        "unexpected 'extra'",
        r"'blocks.0.weight' has shape (2, 3), expected (3, 3)",
    ):
        assert part in str(error.value)
    np.testing.assert_array_equal(model.first.weight.numpy(), [[0, 1], [2, 3]])
    state["blocks.0.weight"] = np.zeros((3, 3), np.int64)
    with pytest.raises(TypeError, match=r"'blocks.0.weight' has dtype int64, expected float32"):
        model.load_state_dict(state, strict=False)
    with pytest.raises(TypeError, match="state of Model: expected arrays by name, got list"):
        model.load_state_dict([1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="state of Model: 'blocks.0.weight': "):
        model.load_state_dict({"blocks.0.weight": object()}, strict=False)


def test_a_file_that_does_not_fit_is_named(tmp_path: Path) -> None:
    path = tmp_path / "other.safetensors"
    layer = Layer(2)
    for state, error, message in (
        ({"weight": ck.ones((2, 3))}, ValueError, r"'weight' has shape \(2, 3\), expected \(2, 2\)"),
        ({}, ValueError, "missing 'weight'"),
        ({"weight": ck.ones((2, 2), dtype="int64")}, TypeError, "'weight' has dtype int64, expected float32"),
    ):
        rest = {name: value for name, value in layer.state_dict().items() if name != "weight"}
        ck.save_safetensors(path, rest | state)
        with pytest.raises(error, match=rf"other\.safetensors: state of Layer: {message}"):
            layer.load(path)


def test_loading_counts_as_a_write(device: ck.Device) -> None:
    layer = Layer(2)
    with ck.Tape() as tape:
        loss = (layer.weight * layer.weight).sum()
    layer.load_state_dict(layer.state_dict())
    with pytest.raises(ck.GradientError, match="load_state_dict"):
        tape.gradient(loss, layer.weight)


def test_to_device_keeps_the_parameters_themselves(device: ck.Device) -> None:
    model = Model()
    weight = model.first.weight
    assert model.to_device("host") is model
    assert model.first.weight is weight
    assert weight.device is ck.Device("host")
    model.to_device(device)
    assert weight.device is device
    np.testing.assert_array_equal(weight.numpy(), [[0, 1], [2, 3]])


def test_repr_shows_the_tree(device: ck.Device) -> None:
    class Outer(Module):
        def __init__(self) -> None:
            self.gain = Parameter(ck.ones(4))
            self.layer = Layer(2)

        def extra_repr(self) -> str:
            return "kind=outer"

    assert repr(Outer()) == (
        "Outer(\n  gain: float32[4]\n  kind=outer\n  layer: Layer(weight: float32[2, 2], scale: float64[] buffer)\n)"
    )
    assert repr(Layer(2).freeze()) == "Layer(weight: float32[2, 2] frozen, scale: float64[] buffer)"


def test_forward_is_to_be_defined(device: ck.Device) -> None:
    with pytest.raises(NotImplementedError, match="Module defines no forward"):
        Module()(1)


def test_two_arrays_of_one_name_are_refused(device: ck.Device, tmp_path: Path) -> None:
    class Dotted(Module):
        def __init__(self) -> None:
            self.parts = {"a.b": Parameter([1.0]), "a": {"b": Parameter([2.0])}}

    with pytest.raises(ValueError, match=r"Dotted: two arrays are named 'parts\.a\.b'"):
        Dotted().save(tmp_path / "model")
    with pytest.raises(ValueError, match=r"parameters: two of them are named 'parts\.a\.b'"):
        ck.optim.SGD(Dotted(), lr=1.0)


def test_a_state_of_the_modules_own_arrays_under_other_names(device: ck.Device) -> None:
    class Pair(Module):
        def __init__(self) -> None:
            self.a, self.b = Parameter([1.0]), Parameter([2.0])

    pair = Pair()
    pair.load_state_dict({"a": pair.b, "b": pair.a})
    assert (pair.a.tolist(), pair.b.tolist()) == ([2.0], [1.0])


def test_arrays_that_are_not_saved_are_moved_too(device: ck.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Layer(2)
    moved: list[ck.Array] = []
    to_device = ck.Array.to_device

    def note(array: ck.Array, where: ck.Device | str) -> ck.Array:
        moved.append(array)
        return to_device(array, where)

    monkeypatch.setattr(ck.Array, "to_device", note)
    layer.to_device("host")
    assert [id(array) for array in moved] == [id(layer.weight), id(layer.scale), id(layer._scratch)]


def test_a_file_that_is_no_state_is_named(device: ck.Device, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"no state")
    with pytest.raises(ValueError, match=r"model\.safetensors: expected a safetensors file"):
        Layer(2).load(path)


def test_empty_and_0d_arrays_are_saved(device: ck.Device, tmp_path: Path) -> None:
    class Odd(Module):
        def __init__(self, value: float) -> None:
            self.scale = Parameter(value, "bfloat16")
            self.none = ck.zeros((0, 3), "int32")

    Odd(2.5).save(tmp_path / "odd")
    assert Odd(1.0).load(tmp_path / "odd").scale.item() == 2.5
    assert read_safetensors(tmp_path / "odd")["none"].shape == (0, 3)


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda model: setattr(model.first, "weight", model.first.weight * 0.5), "Layer.weight"),
        (lambda model: setattr(model.first, "weight", 0.5), "Layer.weight"),
        (lambda model: setattr(model.first, "weight", Layer(2)), "Layer.weight"),
        (lambda model: setattr(model, "pair", [model.pair[0], model.pair[1] * 2]), r"Model\.pair\[1\]"),
        (lambda model: setattr(model, "pair", tuple(one * 2 for one in model.pair)), r"Model\.pair\[0\]"),
    ],
)
def test_what_is_not_trained_does_not_take_a_parameters_place(
    device: ck.Device, change: Any, name: str
) -> None:
    model = Model()
    model.pair = [Parameter([1.0]), Parameter([2.0])]  # type: ignore[attr-defined]
    with pytest.raises(
        TypeError, match=rf"{name} is a parameter, .*\[\.\.\.\] = values .*nn\.Parameter\(values\)"
    ):
        change(model)
    assert len(model.parameters()) == 5


def test_an_array_does_not_take_the_place_of_a_module_with_parameters(device: ck.Device) -> None:
    model = Model()
    with pytest.raises(
        TypeError, match=r"Model\.first is the module Layer, .* first = nn\.Parameter\(values\)"
    ):
        model.first = ck.ones(2)  # type: ignore[assignment]
    assert len(model.parameters()) == 3
    model.first = Parameter([1.0])  # type: ignore[assignment]
    model.last = Module()  # type: ignore[attr-defined]
    model.last = ck.ones(2)  # type: ignore[attr-defined]
    assert "first" in dict(model.named_parameters()) and "last" in dict(model.named_buffers())


def test_what_may_take_a_parameters_place(device: ck.Device) -> None:
    layer = Layer(2)
    weight = layer.weight
    layer.weight *= 2
    layer.weight[...] = layer.weight * 0.5
    assert layer.weight is weight and weight.tolist() == [[0, 1], [2, 3]]
    layer.weight = Parameter([1.0])
    layer.scale = layer.scale * 2
    layer.parts = [Parameter([1.0])]  # type: ignore[attr-defined]
    layer.parts = [Parameter([2.0]), ck.zeros(1)]  # type: ignore[attr-defined]
    assert len(layer.parameters()) == 2 and len(list(layer.named_buffers())) == 2
    layer.weight = None  # type: ignore[assignment]
    assert [name for name, _ in layer.named_parameters()] == ["parts.0"]


def test_gradients_of_a_module_are_its_parameters_in_the_same_order(device: ck.Device) -> None:
    model = Model()
    with ck.Tape() as tape:
        loss = (model.blocks[0].weight * 3).sum() + model.tied.sum()  # type: ignore[attr-defined]
    gradients = tape.gradient(loss, model)
    assert [name for name, _ in gradients.named_parameters()] == NAMES
    assert [name for name, _ in gradients.named_buffers()] == [name for name, _ in model.named_buffers()]
    for parameter, gradient in zip(model.parameters()[:2], gradients.parameters()[:2], strict=True):
        parameter[...] = parameter - gradient
    assert gradients.parameters()[2] is None
    assert model.first.weight.tolist() == [[-1, 0], [1, 2]]
    assert gradients.first.parameters()[0] is gradients.parameters()[0]
    gradients.first.weight = gradients.first.weight * 2
    assert gradients.parameters()[0].tolist() == [[2, 2], [2, 2]]
    assert repr(gradients.blocks[1]["inner"]) == "values for Layer(weight: None, scale: float64[] buffer)"
    assert repr(gradients).startswith(
        "values for Model(\n  tied: float32[2, 2]\n  first: Layer(weight: float32[2, 2], "
    )
    assert len(copy.deepcopy(gradients).parameters()) == 3


def test_frozen_parameters_are_not_watched(device: ck.Device) -> None:
    model = Model()
    model.first.freeze()
    assert not model.tied.trainable and model.blocks[0].weight.trainable  # type: ignore[attr-defined]
    with ck.Tape() as tape:
        loss = (model.first.weight @ model.first.weight).sum() + model.blocks[0].weight.sum()  # type: ignore
    gradients = tape.gradient(loss, model)
    assert [one is None for one in gradients.parameters()] == [True, False, True]
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), copy.copy(model)):
        assert [one.trainable for one in other.parameters()] == [False, True, True]
    assert all(one.trainable for one in model.unfreeze().parameters())
    one = Parameter([[1.0], [2.0]])
    shown = f"Parameter([[1.],\n           [2.]], dtype=float32, device={str(device)!r}"
    assert repr(one) == f"{shown})"
    one.trainable = False
    assert repr(one) == f"{shown}, trainable=False)"
    with pytest.raises(TypeError, match="trainable: expected True or False, got 'no'"):
        model.tied.trainable = "no"  # type: ignore[assignment]


def test_astype_casts_what_is_floating_in_place(device: ck.Device) -> None:
    model = Model()
    model.places = ck.asarray([1, 2])  # type: ignore[attr-defined]
    weight, values = model.first.weight, model.first.weight.numpy()
    with ck.Tape() as tape:
        loss = (weight * weight).sum()
    assert model.astype("bfloat16") is model
    assert model.first.weight is weight is model.tied
    assert {one.dtype for one in model.state_dict().values()} == {ck.bfloat16, ck.int64}
    assert model.first._scratch.dtype == ck.bfloat16
    np.testing.assert_array_equal(weight.numpy().astype(np.float32), values)
    with pytest.raises(ck.GradientError, match="written since by astype"):
        tape.gradient(loss, weight)
    with pytest.raises(TypeError, match="dtype: expected a floating dtype, got int32"):
        model.astype("int32")


def test_gradients_are_freed_when_they_are_dropped() -> None:
    """They are in no cycle, which would keep their memory until the garbage collector runs."""
    model = ck.nn.Linear(3, 2, rng=0)
    gc.disable()
    try:
        with ck.Tape() as tape:
            y = model(ck.ones((4, 3))).sum()
        gradients = tape.gradient(y, model)
        clipped, _ = ck.optim.clip_by_global_norm(gradients, 1.0)
        kept = [weakref.ref(one._storage) for one in (gradients.weight, clipped.weight)]
        del gradients, clipped
        assert [one() for one in kept] == [None, None]
    finally:
        gc.enable()


class Held(NamedTuple):
    """A tuple with names, in which a module has parts."""

    inner: Any
    other: Any


def _append(model: Any) -> None:
    model.blocks.append(Layer(2))


def _insert(model: Any) -> None:
    model.blocks.insert(0, Layer(2))


def _take_out(model: Any) -> None:
    del model.blocks[0]


def _exchange(model: Any) -> None:
    model.blocks[0] = Layer(3)


def _in_a_dict(model: Any) -> None:
    model.blocks[1]["more"] = Parameter([5.0])


def _attribute(model: Any) -> None:
    model.extra = Parameter([2.0, 3.0])


def _instead_of_none(model: Any) -> None:
    model.nothing = Parameter([2.0, 3.0])


def _renamed(model: Any) -> None:
    model.last = vars(model).pop("first")


def _moved_to_the_end(model: Any) -> None:
    model.__dict__["first"] = model.__dict__.pop("first")


def _replaced(model: Any) -> None:
    model.blocks[0].weight = Parameter(ck.full((3, 3), 7.0))


def _untied(model: Any) -> None:
    model.tied = Parameter([4.0])


def _shared_twice(model: Any) -> None:
    model.blocks[0].again = model.blocks[1]["inner"]


def _in_a_tuple(model: Any) -> None:
    model.held = Held([Parameter([1.0])], (Layer(2), "text"))


def _in_another_order(model: Any) -> None:
    model.blocks.reverse()


def _other_attributes(model: Any) -> None:
    vars(model.blocks[0]).update({"__dict": None})
    model.blocks[0].__dict__ = dict(vars(model.blocks[0]), weight=Parameter([[1.0]]))


CHANGES = (
    *(_append, _insert, _take_out, _exchange, _in_a_dict, _attribute, _instead_of_none, _renamed),
    *(
        _moved_to_the_end,
        _replaced,
        _untied,
        _shared_twice,
        _in_a_tuple,
        _in_another_order,
        _other_attributes,
    ),
)


def _by_walking(value: Any, found: dict[int, Parameter], seen: set[int]) -> dict[int, Parameter]:
    """The parameters in the order in which a plain walk meets them."""
    if isinstance(value, Parameter):
        found.setdefault(id(value), value)
    elif isinstance(value, Module):
        if id(value) not in seen:
            seen.add(id(value))
            _by_walking(vars(value), found, seen)
    elif isinstance(value, (dict, list, tuple)):
        for one in value.values() if isinstance(value, dict) else value:
            _by_walking(one, found, seen)
    return found


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.strip("_"))
def test_a_model_may_be_changed_between_steps(change: Callable[[Any], None], device: ck.Device) -> None:
    model: Any = Model()
    model.nothing = None

    def step() -> Any:
        own = list(_by_walking(model, {}, set()).values())
        with ck.Tape() as tape:
            loss = sum((one.astype("float32") * (i + 1)).sum() for i, one in enumerate(own))
        gradients = tape.gradient(loss, model)
        for i, (mine, one) in enumerate(zip(gradients.parameters(), own, strict=True)):
            np.testing.assert_array_equal(mine.numpy().astype(float), np.full(one.shape, i + 1.0))
        before = [one.numpy().astype(float) for one in own]
        ck.optim.SGD(model, lr=0.5).step(gradients)
        for i, (one, old) in enumerate(zip(own, before, strict=True)):
            np.testing.assert_array_equal(one.numpy().astype(float), old - 0.5 * (i + 1))
        return gradients

    step()
    earlier = step()
    change(model)
    gradients = step()
    # What was found anew is right the next time too, and gradients from before belong to the parameters of then.
    assert [one.shape for one in step().parameters()] == [one.shape for one in gradients.parameters()]
    assert [one.shape for one in earlier.parameters()] == [(2, 2), (3, 3), (1, 1)]


def test_a_model_is_walked_again_only_where_its_structure_changed(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: Any = Model()
    optimizer = ck.optim.SGD([model.first.weight], lr=0.5)
    walks: list[Any] = []
    made = structure._Plan._visit

    def visit(self: Any, part: int, *more: Any) -> None:
        walks.append(part)
        made(self, part, *more)

    monkeypatch.setattr(structure._Plan, "_visit", visit)

    def step() -> None:
        for tree in (model, model.first):
            with ck.Tape() as tape:
                loss = model.first.weight.sum()
            gradients, _ = ck.optim.clip_by_global_norm(tape.gradient(loss, tree), 1.0)
            optimizer.step(pytree.map(lambda one: one, gradients))

    step()
    known = len(walks)
    model.note, model.count = "another text", 1
    step()
    walks.clear()
    for model.count in range(2, 4):
        model.first._scratch = ck.ones(3)
        step()
    assert known and not walks


def test_gradients_in_tuples_lists_and_dicts_have_their_types(device: ck.Device) -> None:
    model: Any = Model()
    _in_a_tuple(model)
    model.first.parent = model
    model.again = [model.blocks[0]]
    doubled = pytree.map(lambda one: one * 2, model)
    assert type(doubled.held) is Held and type(doubled.held.other) is tuple
    assert doubled.held.inner[0].tolist() == [2.0] and doubled.held.other[1] == "text"
    assert doubled.held.other[0].weight.tolist() == [[0, 2], [4, 6]]
    assert doubled.first.parent is doubled and doubled.again[0] is doubled.blocks[0]
    doubled.blocks.pop()
    with pytest.raises(
        ValueError, match="values for Model lack the attribute or item 1, which its module has"
    ):
        doubled.parameters()


def test_copies_of_a_model_are_walked_by_themselves(device: ck.Device) -> None:
    model: Any = Model()
    assert len(pytree.leaves(model)) == 3
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), copy.copy(model)):
        assert vars(other).keys() == vars(model).keys()
        other.blocks = [Layer(2)]
        assert len(pytree.leaves(other)) == 2 and len(pytree.leaves(model)) == 3


def test_state_of_a_subclass_is_what_it_was_before_a_walk(device: ck.Device) -> None:
    """A slot that holds the plan does not show in the state that subclasses take and give."""

    class Own(Module):
        def __init__(self) -> None:
            self.w = Parameter(ck.ones(2))

        def __getstate__(self) -> Any:
            return super().__getstate__() | {"seen": True}

        def __setstate__(self, state: Any) -> None:
            vars(self).update(state)

    model: Any = Own()
    for _ in range(2):
        made: Any = copy.deepcopy(model)
        assert made.seen and made.w.tolist() == [1, 1]
        model.parameters()


def test_values_are_of_the_parameters_that_a_model_had(device: ck.Device) -> None:
    """Of a layer that has been replaced since."""
    model: Any = ck.nn.Sequential(ck.nn.Linear(2, 3, rng=0), ck.nn.Linear(3, 2, rng=1))
    values = pytree.map(lambda x: x * 1, model)
    before = [one.tolist() for one in pytree.leaves(values)]
    model.layers = (model.layers[0], ck.nn.Linear(3, 5, rng=2))
    doubled = pytree.map(lambda x: x * 2, values)
    assert [(one / 2).tolist() for one in pytree.leaves(doubled)] == before
    assert [one.shape for one in pytree.leaves(model)][-1] == (5,)
    clipped, _ = ck.optim.clip_by_global_norm(values, 1e9)
    assert [one.tolist() for one in pytree.leaves(clipped)] == before


def test_modules_of_functions_are_made_with_options_and_called_with_arrays(device: ck.Device) -> None:
    """What reads signatures finds a class's options, but not on its modules, nor on a class with an ``__init__``."""

    class Halves(ck.nn.AvgPool1d):
        def __init__(self, name: str) -> None:
            super().__init__(2)

    class Same(ck.nn.AvgPool1d):
        pass

    of_pooling = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]
    for made, names in ((ck.nn.AvgPool1d, of_pooling), (Same, of_pooling), (Halves, ["name"])):
        assert [*inspect.signature(made).parameters] == names
    assert [*inspect.signature(ck.nn.Softmax).parameters] == ["axis"]
    for module in (ck.nn.AvgPool1d(2), Halves("a"), ck.nn.Softmax()):
        assert [*inspect.signature(module).parameters] == ["args", "kwargs"]
        with pytest.raises(IndexError, match=r"args\[0\]: shape \(\) has no axis 0"):
            ck.vmap(module)(ck.zeros(()))
    assert Halves("a")(ck.asarray([[1.0, 3.0]])).tolist() == [[2.0]]
    for copied in (copy.deepcopy(ck.nn.AvgPool1d(2)), pickle.loads(pickle.dumps(ck.nn.AvgPool1d(2)))):
        assert copied(ck.asarray([[1.0, 3.0]])).tolist() == [[2.0]]
