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
from cukern.kernel import strides
from cukern.reduction import geometry as reduction_work
from cukern.reduction import plan as reduction
from cukern.reduction.rows import Reduce
from cukern.testing import assert_close

ROWS: dict[str, Reduce] = {name: f for name, f in operators.FUNCTIONS.items() if isinstance(f, Reduce)}


@pytest.fixture(params=[reduction_work.ROW_SHAPE.blocks, 8], ids=["many", "few"])
def like_a_gpu(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, empty: Callable[..., None]
) -> Iterator[list[str]]:
    """The host launches as a GPU does, what is long cut for many blocks or for few; the templates it takes."""
    made: list[str] = []
    real = reduction.on_gpu

    def on_gpu(task: reduction_work.Task) -> reduction_work.Work:
        work = real(task)
        made.append(work.kernel.template + ("" if work.pieces == 1 else ", cut"))
        return work

    empty(reduction._plans)
    monkeypatch.setattr(reduction, "_style", lambda device: "simt")
    monkeypatch.setattr(reduction, "on_gpu", on_gpu)
    # Its name in the package is that of the function.
    monkeypatch.setattr(sys.modules["cukern.array.array"], "layout_of", address_counts)
    for name in ("ROW_SHAPE", "ORDERED_ROW_SHAPE", "COLUMN_SHAPE"):
        shape = getattr(reduction_work, name)._replace(blocks=request.param)
        monkeypatch.setattr(reduction_work, name, shape)
    with ck.device("host"):
        yield made


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
def test_ways_of_a_gpu(like_a_gpu: list[str], layout: str, dtype: str) -> None:
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
    assert "reduction/reduce.cu" not in like_a_gpu


def test_every_way_of_a_gpu_is_taken(like_a_gpu: list[str]) -> None:
    for view, axes in SPREAD.values():
        for axis in axes:
            ROWS["max"](view(ck.zeros(40003)), axis)
    cut = "reduction/columns.cu, cut" if reduction_work.ROW_SHAPE.blocks > 8 else "reduction/rows.cu, cut"
    assert {"reduction/rows.cu", "reduction/columns.cu", cut} <= set(like_a_gpu)


@pytest.mark.parametrize("name", ["argmax", "argmin", "max"])
def test_nan_and_ties_on_a_gpu(like_a_gpu: list[str], name: str) -> None:
    a = np.random.default_rng(2).integers(0, 3, (20, 3000)).astype(np.float32)
    a[3, [70, 2000]] = a[5, 2999] = np.nan
    for axis in (0, 1):
        assert_close(ROWS[name](ck.asarray(a), axis), getattr(np, name)(a, axis=axis))


def test_several_inputs_on_a_gpu(like_a_gpu: list[str]) -> None:
    rng = np.random.default_rng(3)
    x, y, z = (rng.standard_normal(shape).astype(np.float32) for shape in ((60, 700), (700,), (60, 1)))
    for axis in (0, 1, None):
        made = ck.fuse(lambda x, y, z, axis=axis: ck.sum((x - y) ** 2 * z, axis=axis))
        want = np.sum((x.astype(np.float64) - y) ** 2 * z, axis=axis)
        assert_close(made(ck.asarray(x), ck.asarray(y), ck.asarray(z)), want, rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("name", ["sum", "argmax"])
@pytest.mark.parametrize("layout", ["odd rows", "inner axis", "every third", "few columns"])
def test_64_bit_indices_on_a_gpu(
    like_a_gpu: list[str], monkeypatch: pytest.MonkeyPatch, layout: str, name: str
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
def test_states_of_pieces(
    like_a_gpu: list[str], monkeypatch: pytest.MonkeyPatch, dtype: str, name: str
) -> None:
    """The memory for the states of pieces is as large as they are, which the kernel that joins them asserts."""
    for shape in ("ROW_SHAPE", "ORDERED_ROW_SHAPE"):
        monkeypatch.setattr(reduction_work, shape, getattr(reduction_work, shape)._replace(unsplit=0))
    # Positions and counts are as wide as indices.
    for limit in (strides.LARGEST_INDEX, *([1] if name in ("argmax", "var") else [])):
        monkeypatch.setattr(strides, "LARGEST_INDEX", limit)
        reduction._plans.clear()
        made = ROWS[name](ck.ones(40003, dtype)).astype("float64")
        want = {"argmax": 0, "var": 0, "logsumexp": 1 + np.log(40003), "sum": 40003}.get(name, 1)
        assert_close(made, np.float64(want), rtol=5e-3)
    assert set(like_a_gpu) == {"reduction/rows.cu, cut"}


def test_no_value_on_a_gpu(like_a_gpu: list[str]) -> None:
    """No kernel reads an element once for all places where there is no place."""
    x = ck.zeros((0, 3))
    assert ROWS["sum"](x, 0).tolist() == [0.0, 0.0, 0.0]
    assert ROWS["sum"](ck.zeros((3, 0)), 1).tolist() == [0.0, 0.0, 0.0]
    assert ROWS["prod"](x).item() == 1.0
    assert np.isnan(ROWS["mean"](x).item())
    bound = [variables for plan in reduction._plans.values() for _, variables in plan.rendered[:1]]
    assert bound and all(one["step"] != "zero" for variables in bound for one in variables["inputs"])
