"""Pytrees: leaves, structures, maps over several, and one vector of all arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.testing import assert_close, gradcheck


@dataclass
class Pair:
    a: Any
    b: Any


def test_leaves_structures_and_back() -> None:
    tree = {"pair": Pair(1, [2]), "rest": (3, None)}
    found, structure = ck.tree.flatten(tree)
    assert found == ck.tree.leaves(tree) == [1, 2, 3]
    assert structure == ck.tree.structure({"pair": Pair(7, [8]), "rest": (9, None)})
    assert hash(structure) == hash(ck.tree.structure(tree))
    assert structure != ck.tree.structure({"pair": Pair(1, (2,)), "rest": (3, None)})
    assert ck.tree.unflatten(structure, [10, 20, 30]) == {"pair": Pair(10, [20]), "rest": (30, None)}
    with pytest.raises(ValueError, match="unflatten: expected 3 leaves, got 2"):
        ck.tree.unflatten(structure, [1, 2])
    with pytest.raises(TypeError, match="unflatten: structure: expected a Structure, got dict"):
        ck.tree.unflatten(tree, [1, 2, 3])  # type: ignore[arg-type]


def test_structure_of_a_module() -> None:
    model = ck.nn.Sequential(ck.nn.Linear(2, 3), ck.nn.Linear(3, 1))
    found, structure = ck.tree.flatten(model)
    again = ck.tree.unflatten(structure, [2 * leaf for leaf in found])
    assert ck.tree.structure(again) == structure
    x = ck.ones((1, 2))
    assert_close(again(x), ck.tree.map(lambda leaf: 2 * leaf, model)(x))


def test_map_of_several_trees() -> None:
    made = ck.tree.map(lambda a, b, c: a + b * c, {"w": 1, "b": [2]}, {"b": [3], "w": 4}, {"w": 5, "b": [6]})
    assert made == {"w": 21, "b": [20]}
    for other, message in (
        ({"w": 1}, r"map: trees\[0\]: expected dict of \['w'\], \['b'\], got dict of \['w'\]"),
        ({"w": 1, "b": (2,)}, r"map: trees\[0\]\['b'\]: expected list of \[0\], got tuple of \[0\]"),
        ({"w": [1], "b": [2]}, r"map: trees\[0\]\['w'\]: expected a leaf \(int\), got list of \[0\]"),
        ({"w": None, "b": [2]}, r"map: trees\[0\]\['w'\]: expected a leaf \(int\), got None"),
    ):
        with pytest.raises(ValueError, match=message):
            ck.tree.map(lambda a, b: a, {"w": 1, "b": [2]}, other)


def test_ravel_and_back(device: ck.Device) -> None:
    w, b = np.arange(6.0).reshape(2, 3), np.array(7.0, np.float32)
    tree = {"w": ck.asarray(w).T, "b": (ck.asarray(b), None), "none": ck.zeros((0, 2)), "number": 2.0}
    vector, unravel = ck.tree.ravel(tree)
    assert vector.dtype == ck.float64
    assert_close(vector, np.array([0.0, 3, 1, 4, 2, 5, 7, 2]))
    again = unravel(vector * 2)
    assert_close(again["w"], 2 * w.T)
    assert again["b"][0].dtype == ck.float32 and again["b"][0].shape == () and again["none"].shape == (0, 2)
    assert again["number"].item() == 4.0
    with pytest.raises(ValueError, match=r"unravel: expected a vector of shape \(8,\), got shape \(3,\)"):
        unravel(vector[:3])
    with pytest.raises(TypeError, match=r"ravel: tree\['w'\]: expected an array or a number, got str"):
        ck.tree.ravel({"w": "x"})
    assert ck.tree.ravel(())[0].shape == (0,)


def test_ravel_is_differentiable(device: ck.Device) -> None:
    tree = {"w": ck.asarray(np.arange(4.0).reshape(2, 2)), "b": ck.asarray([0.5], dtype="float64")}
    vector, unravel = ck.tree.ravel(tree)
    assert gradcheck(lambda t: ck.tree.ravel(t)[0] ** 3, [tree], order=2)
    assert gradcheck(lambda v: (unravel(v)["w"] ** 2).sum() * unravel(v)["b"], [vector], order=2)
