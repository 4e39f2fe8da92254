"""Arrays put together and taken apart, against NumPy: any shapes, axes and places; refusals; derivatives."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cukern as ck
from cukern.testing import assert_close, gradcheck

SHAPE = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple)


def numbers(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(float(np.prod(shape))).reshape(shape)


@given(shape=SHAPE, data=st.data())
def test_reshape_is_a_view_where_numpys_is(device: ck.Device, shape: tuple[int, ...], data: Any) -> None:
    order = data.draw(st.permutations(range(len(shape))))
    every = tuple(slice(None, None, data.draw(st.sampled_from([1, 2, -1]))) for _ in shape)
    a = np.broadcast_to(numbers(shape), (2, *shape)) if data.draw(st.booleans()) else numbers(shape)[None]
    a = a.transpose(0, *(i + 1 for i in order))[(slice(None), *every)]
    x = ck.broadcast_to(ck.asarray(numbers(shape)), a.shape[:1] + shape)
    x = ck.permute_dims(x, (0, *(i + 1 for i in order)))[(slice(None), *every)]
    factors = [p for n in a.shape for p in ((2, 2) if n == 4 else (n,))]
    cuts = sorted(data.draw(st.sets(st.integers(0, len(factors)))))
    ends = [0, *cuts, len(factors)]
    sizes = tuple(int(np.prod(factors[i:j])) for i, j in pairwise(ends))
    made, want = ck.reshape(x, sizes), a.reshape(sizes)
    np.testing.assert_array_equal(made.numpy(), want)
    assert (made._storage is x._storage) == bool(np.may_share_memory(want, a))


@given(shape=SHAPE, data=st.data())
def test_roll(device: ck.Device, shape: tuple[int, ...], data: Any) -> None:
    axes = data.draw(st.lists(st.integers(-len(shape), len(shape) - 1), min_size=1, max_size=3).map(tuple))
    shifts = tuple(data.draw(st.integers(-9, 9)) for _ in axes)
    a = numbers(shape)
    np.testing.assert_array_equal(ck.roll(ck.asarray(a), shifts, axes).numpy(), np.roll(a, shifts, axes))
    np.testing.assert_array_equal(ck.roll(ck.asarray(a).T, shifts[0]).numpy(), np.roll(a.T, shifts[0]))


@given(shape=SHAPE, data=st.data())
def test_concat_of_views(device: ck.Device, shape: tuple[int, ...], data: Any) -> None:
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    parts = []
    kinds = st.sampled_from(["int8", "uint8", "float32", "float64"])
    for dtype in data.draw(st.lists(kinds, min_size=1, max_size=4)):
        sizes = list(shape)
        sizes[axis] = data.draw(st.integers(0, 3))
        turned = numbers(tuple(sizes[::-1])).astype(dtype).T
        parts.append((turned, ck.asarray(np.ascontiguousarray(turned.T)).T))
    want, made = np.concatenate([a for a, _ in parts], axis), ck.concat([x for _, x in parts], axis)
    assert made.dtype == want.dtype
    np.testing.assert_array_equal(made.numpy(), want)


def test_joins_of_forms_that_came_before(device: ck.Device) -> None:
    """Other arrays of the same layouts, axes counted from the end, and arrays of one order of axes in memory."""
    a, b = numbers((2, 3, 4)), numbers((2, 3, 4)) + 100
    for x, y in ((a, b), (b, a), (a, a)):
        own = ck.asarray(x), ck.asarray(y)
        for axis in (1, -1, 0):
            np.testing.assert_array_equal(ck.concat(own, axis).numpy(), np.concatenate((x, y), axis))
            np.testing.assert_array_equal(ck.stack(own, axis).numpy(), np.stack((x, y), axis))
        turned = [ck.moveaxis(one, -1, 1) for one in own]
        made = ck.concat(turned, 1)
        np.testing.assert_array_equal(made.numpy(), np.concatenate([one.numpy() for one in turned], 1))
        assert made.strides == ck.moveaxis(ck.zeros((2, 3, 8), made.dtype), -1, 1).strides
        assert ck.concat([turned[0], turned[1].contiguous()], 1).is_contiguous
    with pytest.raises(ValueError, match="concat: shapes"):
        ck.concat([ck.asarray(a), ck.zeros((2, 4, 4), "int64")], 2)


def test_joined_arrays_are_cast_in_the_same_launch_and_have_derivatives(device: ck.Device) -> None:
    x, y = ck.asarray([1.0, 2.0], dtype="float32"), ck.asarray([3.0], dtype="float64")
    with ck.Tape() as tape:
        tape.watch(x, y)
        z = (ck.concat([x, ck.asarray([7]), y]) ** 2).sum()
    gx, gy = tape.gradient(z, [x, y])
    assert (gx.dtype, gx.tolist(), gy.dtype, gy.tolist()) == (ck.float32, [2, 4], ck.float64, [6])
    assert ck.stack([x, x], -1, dtype="int8", casting="unsafe").tolist() == [[1, 1], [2, 2]]
    assert ck.concat([x, y], dtype="bfloat16").dtype == ck.bfloat16


@given(shape=SHAPE, repetitions=st.lists(st.integers(0, 3), max_size=4))
def test_tile(device: ck.Device, shape: tuple[int, ...], repetitions: list[int]) -> None:
    a = numbers(shape)
    np.testing.assert_array_equal(ck.tile(ck.asarray(a), repetitions).numpy(), np.tile(a, repetitions))


@given(counts=st.lists(st.integers(0, 3), min_size=1, max_size=5), axis=st.sampled_from([0, 1, -1]))
def test_repeat(device: ck.Device, counts: list[int], axis: int) -> None:
    a = numbers((len(counts), len(counts)))
    x = ck.asarray(a)
    np.testing.assert_array_equal(ck.repeat(x, ck.asarray(counts), axis).numpy(), np.repeat(a, counts, axis))
    np.testing.assert_array_equal(x.repeat(counts[0]).numpy(), a.repeat(counts[0]))
    np.testing.assert_array_equal(ck.repeat(x, counts[:1], axis).numpy(), np.repeat(a, counts[:1], axis))


PLACES = st.one_of(
    st.integers(-3, 2),
    st.lists(st.integers(-3, 2), min_size=1, max_size=3),
    st.builds(slice, st.integers(0, 3), st.integers(0, 3), st.sampled_from([1, 2])),
)


@given(places=PLACES, axis=st.sampled_from([None, 0, 1, -1]))
def test_delete_and_insert(device: ck.Device, places: Any, axis: int | None) -> None:
    a = numbers((3, 3))
    x = ck.asarray(a)
    np.testing.assert_array_equal(ck.delete(x, places, axis).numpy(), np.delete(a, places, axis))
    choices: list[Any] = [9.0, np.array([9.0])]
    if isinstance(places, int) and axis is not None:
        choices += [np.arange(3.0), np.arange(3.0)[:, None] if axis else np.arange(3.0)[None]]
    for values in choices:
        want = np.insert(a, places, values, axis)
        np.testing.assert_array_equal(ck.insert(x, places, values, axis).numpy(), want)


@pytest.mark.parametrize("cuts", [3, [1, 3], [0, 9, 2], [-2]])
def test_array_split(device: ck.Device, cuts: Any) -> None:
    a = numbers((7, 2))
    for got, want in zip(ck.array_split(ck.asarray(a), cuts), np.array_split(a, cuts), strict=True):
        np.testing.assert_array_equal(got.numpy(), want)


def test_blocks(device: ck.Device) -> None:
    one, row, cube = ck.ones(()), ck.asarray([1.0, 2.0]), ck.zeros((1, 1, 2))
    for nested in (
        one,
        [one, row],
        [[row], [row]],
        [[row, one], [one, row]],
        [cube, row],
        [[[one]], [[one]]],
    ):
        plain = _plain(nested)
        made = ck.block(nested)
        assert made.shape == np.block(plain).shape
        np.testing.assert_array_equal(made.numpy(), np.block(plain))
    assert ck.block(row)._storage is not row._storage
    for wrong in ([], [[row], row], [[row], []]):
        with pytest.raises(ValueError, match="block: expected lists"):
            ck.block(wrong)
    for wrong in ((row, row), [(1, 2), row]):
        with pytest.raises(TypeError, match="block: expected lists of arrays, got a tuple"):
            ck.block(wrong)


def _plain(nested: Any) -> Any:
    return [_plain(part) for part in nested] if isinstance(nested, list) else nested.numpy()


@given(
    a=st.lists(st.lists(st.sampled_from([0, 0, 1]), min_size=3, max_size=3), min_size=1, max_size=4),
    trim=st.sampled_from(["f", "b", "fb", "BF"]),
    axis=st.sampled_from([None, 0, -1, (0, 1)]),
)
def test_trim_zeros(device: ck.Device, a: Any, trim: str, axis: Any) -> None:
    want = np.trim_zeros(np.asarray(a), trim, axis)
    x = ck.asarray(a)
    made = ck.trim_zeros(x, trim, axis)
    assert made.shape == want.shape and made._storage is x._storage
    np.testing.assert_array_equal(made.numpy(), want)


def test_powers_have_derivatives_at_zero(device: ck.Device) -> None:
    x = ck.asarray([0.0, -2.0, 3.0], dtype="float64")
    assert gradcheck(lambda x: ck.vander(x, 4), [x], order=2)
    for dtype in ("int8", "bool", "uint8"):
        assert ck.vander(ck.asarray([0, 1], dtype=dtype)).dtype == ck.int64
    assert ck.vander(x, 0).shape == (3, 0) and ck.vander(x, 1).tolist() == [[1.0]] * 3


def test_methods(device: ck.Device) -> None:
    a = numbers((2, 3))
    x = ck.asarray(a)
    for name, args in (
        ("copy", ()),
        ("flatten", ()),
        ("flatten", ("F",)),
        ("ravel", ("F",)),
        ("repeat", (2, 1)),
    ):
        made, want = getattr(x.T, name)(*args), getattr(a.T, name)(*args)
        assert_close(made, want)
        assert made.is_contiguous or name == "ravel"
        assert (made._storage is x._storage) == bool(np.may_share_memory(want, a))
    assert x.flatten()._storage is not x._storage
    assert_close(x.reshape(3, 2, order="F"), a.reshape(3, 2, order="F"))


def test_meshgrid(device: ck.Device) -> None:
    lines = [np.arange(n, dtype=np.float64) for n in (2, 3, 4)]
    for count in range(4):
        for indexing in ("xy", "ij"):
            for sparse in (False, True):
                options: dict[str, Any] = {"indexing": indexing, "sparse": sparse}
                made = ck.meshgrid(*map(ck.asarray, lines[:count]), **options)
                for got, want in zip(made, np.meshgrid(*lines[:count], **options), strict=True):
                    assert_close(got, want)
    x = ck.asarray(lines[0])
    assert ck.meshgrid(x, x, copy=False)[0]._storage is x._storage


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "order": (lambda x: ck.reshape(x, 6, "K"), ValueError, "order: expected 'C', 'F' or 'A', got 'K'"),
    "two unknowns": (lambda x: ck.reshape(x, (-1, -1)), ValueError, r"has no shape \(-1, -1\)"),
    "negative size": (lambda x: ck.reshape(x, (-2, -3)), ValueError, r"has no shape \(-2, -3\)"),
    "undefined": (lambda x: ck.reshape(x[:0], (0, -1)), ValueError, r"has no shape \(0, -1\)"),
    "other size": (lambda x: ck.reshape(x.T, (4, 2)), ValueError, r"shape \(3, 2\) has no shape \(4, 2\)"),
    "shape": (lambda x: ck.reshape(x, 2.5), TypeError, "reshape: shape: expected integers, got 2.5"),
    "roll": (lambda x: ck.roll(x, (1, 2, 3), (0, 1)), ValueError, "as many shifts as axes"),
    "roll axis": (lambda x: ck.roll(x, 1, 2), np.exceptions.AxisError, "axis 2 is out of bounds"),
    "roll shift": (lambda x: ck.roll(x, 0.5), TypeError, "roll: shift: expected integers"),
    "repeat": (lambda x: ck.repeat(x, -1), ValueError, "expected at least 0"),
    "repeat each": (lambda x: ck.repeat(x, [1, 2, 3], 0), ValueError, "expected 2 numbers"),
    "tile": (lambda x: ck.tile(x, (2, -1)), ValueError, "numbers of at least 0"),
    "delete": (lambda x: ck.delete(x, 5, 0), IndexError, "out of bounds"),
    "insert": (lambda x: ck.insert(x, 5, 0, 0), IndexError, "out of bounds"),
    "trim": (lambda x: ck.trim_zeros(x, "x"), ValueError, "expected 'f', 'b' or 'fb'"),
    "vander": (lambda x: ck.vander(x), ValueError, "expected one axis"),
    "vander columns": (lambda x: ck.vander(x[0], -1), ValueError, "expected at least 0"),
    "resize": (lambda x: ck.resize(x, -2), ValueError, "resize: new_shape: expected sizes of at least 0"),
    "rot90": (lambda x: ck.rot90(x, 1, (0, -2)), ValueError, "expected two different axes"),
    "meshgrid": (lambda x: ck.meshgrid(x), ValueError, "expected one axis"),
    "array_split": (lambda x: ck.array_split(x, 0), ValueError, "at least one section"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refusals(device: ck.Device, case: Any) -> None:
    function, error, message = case
    with pytest.raises(error, match=message):
        function(ck.ones((2, 3)))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: ck.tile(x, 1),
        lambda x: ck.tile(x, (2, 1)),
        lambda x: ck.repeat(x, 1),
        lambda x: ck.repeat(x[0], 3),
        lambda x: ck.resize(x, 3),
    ],
    ids=["tile once", "tile rows", "repeat once", "repeat one", "resize"],
)
def test_what_is_repeated_is_a_copy(device: ck.Device, call: Any) -> None:
    x = ck.asarray([1.0, 2.0, 3.0])
    made = call(x)
    want = made.numpy() + 1
    made += 1
    np.testing.assert_array_equal(made.numpy(), want)
    assert x.tolist() == [1.0, 2.0, 3.0]


def test_a_list_of_floats_is_appended_in_the_precision_of_the_array(device: ck.Device) -> None:
    assert ck.append(ck.ones(1, "float64"), [0.1]).tolist() == [1.0, 0.1]


def test_integers_and_lists_of_numpy(device: ck.Device) -> None:
    x = ck.ones((2, 3))
    assert [part.shape for part in ck.split(x, np.int64(3), axis=1)] == [(2, 1)] * 3
    assert ck.tile(x, np.asarray([2, 1])).shape == (4, 3)
    assert ck.expand_dims(x, [0, -1]).shape == (1, 2, 3, 1)
    assert ck.reshape(x, np.asarray([3, -1])).shape == (3, 2)
