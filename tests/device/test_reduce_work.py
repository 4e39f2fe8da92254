"""Reductions in the launch shapes of a GPU, run on the host."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from elementwise_support import address_counts

import cukern as ck
from cukern import dtypes
from cukern.array import operators
from cukern.cli.tune import measure
from cukern.kernel import strides
from cukern.launch.family import STAND_IN, Family, Used
from cukern.reduction import families
from cukern.reduction.families import REDUCTION, SOFTMAX
from cukern.reduction.rows import Reduce
from cukern.reduction.variants import Columns, Rows
from cukern.testing import assert_close

ROWS: dict[str, Reduce] = {name: f for name, f in operators.FUNCTIONS.items() if isinstance(f, Reduce)}


@pytest.fixture(params=[Rows.blocks, 8], ids=["many", "few"])
def like_a_gpu(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Used]:
    """The host launches as a GPU does, what is long cut for many blocks or for few; the variants it takes."""
    # Its name in the package is that of the function.
    monkeypatch.setattr(sys.modules["cukern.array.array"], "layout_of", address_counts)
    for variant in (Rows, Columns):
        monkeypatch.setattr(variant, "blocks", request.param)
    with ck.device("host"), ck.kernels_only(), REDUCTION.only("columns", "rows") as used:
        yield used


def ways(used: Used) -> set[str]:
    """The names of variants, and whether they cut results into pieces."""
    return {
        one.name + (", cut" if one.launch(problem, STAND_IN).grid[1] > 1 else "")
        for one, problem in zip(used, used.problems, strict=True)
    }


#: Arrays whose reduction takes each way of the kernels: short rows by a part of a warp, several at once, long ones by a
#: block, their ends between packs, over several axes; columns in packs, few and many; steps of 0, beyond 1 and below 0.
SPREAD: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "short rows": (lambda x: x[: 5000 * 8].reshape(5000, 8), (1, 0)),
    "odd rows": (lambda x: x[: 40 * 999].reshape(40, 999), (1, 0)),
    "rows between packs": (lambda x: x[1 : 1 + 4 * 9001].reshape(4, 9001), (1,)),
    "one row": (lambda x: x[3:], (0,)),
    "a block a row": (lambda x: x[:40000].reshape(10, 4000), (1, 0)),
    "inner axis": (lambda x: x[:39936].reshape(6, 52, 128), (1, 2, 0)),
    "every third": (lambda x: x[:39999].reshape(3, -1)[:, ::3], (1, 0)),
    "backwards": (lambda x: x[:40000].reshape(10, 4000)[:, ::-1], (1, 0)),
    "repeated": (lambda x: ck.broadcast_to(x[:3000], (7, 3000)), (0, 1)),
    "few columns": (lambda x: x[:39999].reshape(-1, 3), (0,)),
}


#: The kinds of states, all of one dtype; one with elements of each other size.
KINDS = {
    "float32": ("sum", "max", "argmax", "var"),
    "bfloat16": ("sum",),
    "int8": ("argmax",),
    "float64": ("var",),
}


#: The layouts in which states other than those of float32 are tried; in the rest they are thorough.
_USUAL = ("short rows", "rows between packs", "inner axis", "few columns")
_WAYS = [
    pytest.param(layout, dtype, marks=() if dtype == "float32" or layout in _USUAL else pytest.mark.thorough)
    for layout in SPREAD
    for dtype in KINDS
]


@pytest.mark.parametrize("layout, dtype", _WAYS)
def test_ways_of_a_gpu(like_a_gpu: Used, layout: str, dtype: str) -> None:
    flat = np.random.default_rng(1).integers(-50, 50, 40003).astype(dtypes.as_dtype(dtype))
    view, axes = SPREAD[layout]
    x = view(ck.asarray(flat))
    values = x.numpy().astype(np.float64)
    for axis in axes:
        for name in KINDS[dtype]:
            made, want = ROWS[name](x, axis), getattr(np, name)(values, axis=axis)
            assert_close(made.astype("float64"), want, rtol=5e-3 if dtype == "bfloat16" else 1e-6, atol=1e-3)
    if "sum" in KINDS[dtype]:
        assert_close(ROWS["sum"](x).astype("float64"), values.sum(), rtol=5e-3, atol=1e-3)
    assert ways(like_a_gpu) <= {"rows", "columns", "rows, cut", "columns, cut"}


def test_every_way_of_a_gpu_is_taken(like_a_gpu: Used) -> None:
    for view, axes in SPREAD.values():
        for axis in axes:
            ROWS["max"](view(ck.zeros(40003)), axis)
    cut = "columns, cut" if Rows.blocks > 8 else "rows, cut"
    assert {"rows", "columns", cut} <= ways(like_a_gpu)


@pytest.mark.parametrize("name", ["argmax", "argmin", "max"])
def test_nan_and_ties_on_a_gpu(like_a_gpu: Used, name: str) -> None:
    a = np.random.default_rng(2).integers(0, 3, (20, 3000)).astype(np.float32)
    a[3, [70, 2000]] = a[5, 2999] = np.nan
    for axis in (0, 1):
        assert_close(ROWS[name](ck.asarray(a), axis), getattr(np, name)(a, axis=axis))


def test_several_inputs_on_a_gpu(like_a_gpu: Used) -> None:
    rng = np.random.default_rng(3)
    x, y, z = (rng.standard_normal(shape).astype(np.float32) for shape in ((60, 700), (700,), (60, 1)))
    for axis in (0, 1, None):
        made = ck.fuse(lambda x, y, z, axis=axis: ck.sum((x - y) ** 2 * z, axis=axis))
        want = np.sum((x.astype(np.float64) - y) ** 2 * z, axis=axis)
        assert_close(made(ck.asarray(x), ck.asarray(y), ck.asarray(z)), want, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("name", ["sum", "argmax"])
@pytest.mark.parametrize("layout", ["odd rows", "inner axis", "every third", "few columns"])
def test_64_bit_indices_on_a_gpu(
    like_a_gpu: Used, monkeypatch: pytest.MonkeyPatch, layout: str, name: str
) -> None:
    monkeypatch.setattr(strides, "LARGEST_INDEX", 1)
    view, axes = SPREAD[layout]
    x = view(ck.asarray(np.random.default_rng(4).integers(-50, 50, 40003).astype(np.float32)))
    for axis in axes:
        assert_close(ROWS[name](x, axis), getattr(np, name)(x.numpy(), axis=axis))


#: States of a value and a place in every dtype; the others in float32 and, with numbers of 8 bytes, float64.
_STATES = [
    pytest.param(
        name,
        dtype,
        marks=() if name in ("sum", "argmax") or dtype in ("float32", "float64") else pytest.mark.thorough,
    )
    for name in ("sum", "prod", "any", "argmax", "var", "logsumexp")
    for dtype in ("bool", "uint8", "float16", "bfloat16", "float32", "int64", "float64")
]


@pytest.mark.parametrize("name, dtype", _STATES)
def test_states_of_pieces(like_a_gpu: Used, monkeypatch: pytest.MonkeyPatch, dtype: str, name: str) -> None:
    """The memory for the states of pieces is as large as they are, which the kernel that joins them asserts."""
    monkeypatch.setattr(Rows, "unsplit", 0)
    # Positions and counts are as wide as indices.
    for limit in (strides.LARGEST_INDEX, *([1] if name in ("argmax", "var") else [])):
        monkeypatch.setattr(strides, "LARGEST_INDEX", limit)
        with REDUCTION.only("columns", "rows") as used:
            made = ROWS[name](ck.ones(40003, dtype)).astype("float64")
            assert ways(used) == {"rows, cut"}
        want = {"argmax": 0, "var": 0, "logsumexp": 1 + np.log(40003), "sum": 40003}.get(name, 1)
        assert_close(made, np.float64(want), rtol=5e-3)


def test_no_value_on_a_gpu(like_a_gpu: Used) -> None:
    """No kernel reads an element once for all places where there is no place."""
    x = ck.zeros((0, 3))
    assert ROWS["sum"](x, 0).tolist() == [0.0, 0.0, 0.0]
    assert ROWS["sum"](ck.zeros((3, 0)), 1).tolist() == [0.0, 0.0, 0.0]
    assert ROWS["prod"](x).item() == 1.0
    assert np.isnan(ROWS["mean"](x).item())
    assert like_a_gpu.problems
    assert all(source.step for problem in like_a_gpu.problems for source in problem.sources)


@pytest.mark.parametrize("family", [REDUCTION, SOFTMAX], ids=lambda one: one.name)
def test_every_variant_is_what_the_reference_says(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch, family: Family[Any]
) -> None:
    """As `python -m cukern tune` compares them."""
    models = (
        ((4000,), (0,)),
        ((300, 40), (0,)),
        ((9, 6, 5, 4), (0, 2, 3)),
        ((40, 128), (1,)),
        ((3, 3000), (1,)),
    )
    monkeypatch.setattr(families, "_MODELS", models)
    monkeypatch.setattr(families, "_MOST_ON_HOST", 1 << 16)
    entries, refused = measure(family, device, 10, 1, 1, 60)
    assert refused == []
    assert len(entries) == 10 and all(one.variants for one in entries)


def test_explain_tells_of_a_reduction_and_a_softmax(device: ck.Device) -> None:
    x = ck.ones((40, 64))
    for function, family in ((ck.sum, "reduction"), (ck.softmax, "softmax")):
        function(x)  # what is known already is told, too
        found = ck.explain(function, x)
        assert [(one.name, found.counts[one.name, problem]) for one, problem in found.problems] == [
            (family, 1)
        ]
        assert found.result.shape == function(x).shape
        lines = repr(found).splitlines()
        assert lines[0].startswith(f"1 x {family}: {function.__name__} of float32 (40, 64) along ax")
        assert sum(line.startswith(">") for line in lines) == 1


@pytest.mark.unchecked_only("checked launches leave the library out")
def test_explain_tells_of_numpy_once() -> None:
    with ck.device("host"):
        x = ck.ones((300, 1000))
        for _ in range(2):
            (named,) = repr(ck.explain(ck.max, x)).split("\n\n")
            assert "> NumPy" in named
            with ck.kernels_only():
                named, family = repr(ck.explain(ck.max, x)).split("\n\n")
                assert "> kernels" in named and "> loops" in family and "NumPy" not in family
                assert ck.max(x).item() == 1
