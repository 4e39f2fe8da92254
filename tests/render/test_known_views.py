"""Views of a GPU's arrays, which the second call takes from the layout alone."""

import itertools
from typing import Any

import numpy as np
import pytest
from gpu_without_one import gpu_without_one

import cukern as ck
from cukern.autodiff.cotangents import Handed
from cukern.shape import joins

CALLS = {
    "reshape": lambda x: ck.reshape(x, (6, -1)),
    "reshape of a view": lambda x: ck.reshape(ck.swapaxes(x, 0, 1), (3, 2, 2, 2)),
    "permute_dims": lambda x: ck.permute_dims(x, (2, 0, -2)),
    "swapaxes": lambda x: ck.swapaxes(x, -1, 0),
    "matrix_transpose": lambda x: x.mT,
}


@pytest.fixture
def handed_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel of this GPU runs that would copy a gradient which shares the memory of the user's cotangent."""
    monkeypatch.setattr(Handed, "own", lambda self, found, pending=(): found)


@pytest.mark.usefixtures("handed_as_they_are")
@pytest.mark.parametrize("name", CALLS)
def test_a_known_view_is_that_of_numpy(name: str) -> None:
    values = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    expected = {
        "reshape": values.reshape(6, 4),
        "reshape of a view": values.swapaxes(0, 1).reshape(3, 2, 2, 2),
        "permute_dims": values.transpose(2, 0, 1),
        "swapaxes": values.swapaxes(-1, 0),
        "matrix_transpose": values.mT,
    }[name]
    with gpu_without_one(compiles=False):
        for _ in range(3):
            x = ck.asarray(values)
            with ck.Tape() as tape:
                tape.watch(x)
                y = CALLS[name](x)
            assert y._storage is x._storage and y._operand == x._operand
            assert (y.shape, y.strides) == (expected.shape, expected.strides)
            assert (y._fetched() == expected).all()
            # The cotangent takes the way back.
            back = tape.gradient(y, x, ck.asarray(np.ascontiguousarray(expected)))
            assert (back.shape, back.dtype) == (x.shape, x.dtype) and (back._fetched() == values).all()


@pytest.mark.parametrize(
    "key",
    [
        1,
        -1,
        (1, 2, 3),
        (slice(None), 2),
        (..., 3),
        (..., slice(3, None)),
        (slice(1, 2), None, slice(None, None, 2)),
        (slice(None, None, -1), 0),
        slice(5, 9),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_known_part_is_that_of_numpy(key: Any, dtype: str) -> None:
    """With its address, and an alignment that a kernel's widest loads may rely on."""
    values = np.arange(24.0).astype(dtype).reshape(2, 3, 4)
    expected = values[key]
    with gpu_without_one(compiles=False):
        for start in (0, 1):  # the memory of the second array is not aligned
            whole = ck.asarray(np.append(np.zeros(start, dtype), values))
            for _ in range(3):
                x = ck.reshape(whole[start:], (2, 3, 4))
                with ck.Tape() as tape:
                    tape.watch(x)
                    y = x[key]
                assert y._storage is x._storage and y.shape == expected.shape
                assert y._planned().strides == expected.strides or not y.size
                assert not y._planned().aligned or y._operand % 16 == 0
                assert (y._fetched() == expected).all()
                assert tape.gradient(y, x).shape == x.shape


@pytest.mark.usefixtures("handed_as_they_are")
def test_parts_that_lie_side_by_side_are_joined_without_a_copy() -> None:
    values = np.arange(48.0, dtype=np.float32).reshape(2, 3, 8)
    with gpu_without_one(compiles=False):
        x, g = ck.asarray(values), ck.asarray(values + 1)
        with ck.Tape(persistent=True) as tape:
            tape.watch(x)
            rows, halves = ck.unstack(x, axis=1), ck.split(x, 2, axis=2)
        back = tape.gradient(rows, x, [ck.swapaxes(ck.swapaxes(g[:, i], 0, 1), 0, 1) for i in range(3)])
        assert back._storage is g._storage and (back._fetched() == values + 1).all()
        back = tape.gradient(halves, x, [g[..., :4], g[..., 4:]])
        assert back._storage is g._storage and (back._fetched() == values + 1).all()
        pairs = ck.reshape(g, (3, 2, 8))
        back = tape.gradient(rows, x, [pairs[i] for i in range(3)])
        assert back._storage is g._storage
        assert (back._fetched() == (values + 1).reshape(3, 2, 8).swapaxes(0, 1)).all()


def test_items_along_any_axis_are_views() -> None:
    values = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    with gpu_without_one(compiles=False):
        whole = ck.asarray(values)
        for x, expected in (
            (whole, values),
            (whole[:, ::-1], values[:, ::-1]),
            (whole[:, :0], values[:, :0]),
        ):
            for axis, _ in itertools.product(range(3), range(2)):
                parts = ck.unstack(x, axis=axis)
                assert len(parts) == x.shape[axis]
                for part, wanted in zip(parts, np.moveaxis(expected, axis, 0), strict=True):
                    assert part._storage is whole._storage and (part._fetched() == wanted).all()


@pytest.mark.parametrize(
    "parts",
    [
        lambda g: [g[:, 0], g[:, 2], g[:, 1]],
        lambda g: [g[:, 1], g[:, 2], g[:, 2]],
        lambda g: [g[:, 0], g[:, 1], ck.asarray(g._fetched()[:, 2])],
        lambda g: [g[:, 0], ck.asarray(g._fetched()[:, 1]), g[:, 2]],
        lambda g: [g[:, 0, ::2], g[:, 1, ::2], g[:, 2, ::2]],
        lambda g: [g[:, 0], ck.swapaxes(ck.reshape(g, (24, 2))[4:12], 0, 1), g[:, 2]],
    ],
    ids=["another order", "one twice", "two memories", "two memories at once", "gaps", "other strides"],
)
def test_parts_that_lie_in_another_way_are_not(parts: Any) -> None:
    with gpu_without_one(compiles=False):
        made = parts(ck.asarray(np.zeros((2, 3, 8), np.float32)))
        assert joins._lying_so(made, (2, 3, made[0].shape[-1]), 1) is None


def test_a_view_of_a_written_parameter_has_its_version() -> None:
    with gpu_without_one(compiles=False):
        weight = ck.nn.Parameter(ck.asarray(np.ones((2, 3), np.float32)))
        weight[...] = 2.0
        for _ in range(2):
            with ck.Tape() as tape:
                y = ck.swapaxes(weight.T, 0, 1)
            assert tape.gradient(y, weight).shape == (2, 3)


def test_arguments_that_equal_known_ones_are_still_checked() -> None:
    with gpu_without_one(compiles=False):
        x = ck.asarray(np.ones((2, 3), np.float32))
        for _ in range(2):
            ck.swapaxes(x, 0, 1)
            ck.permute_dims(x, (1, 0))
        with pytest.raises(TypeError):
            ck.swapaxes(x, 0.0, 1)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            ck.permute_dims(x, (1.0, 0))  # type: ignore[arg-type]
