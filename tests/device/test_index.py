"""Indexing: values, shapes and exceptions of NumPy; gathers, and sums into shared places; derivatives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import cukern as ck
from cukern.index import combine, subscript
from cukern.index import gather_scatter as rows
from cukern.shape import copy
from cukern.testing import assert_close, gradcheck

A = np.arange(60.0).reshape(3, 4, 5)
PLACES = np.array([0, 2, 2, -1])

BASIC: dict[str, Any] = {
    "integer": 1,
    "negative": -1,
    "integers": (1, 2, 3),
    "slice": slice(1, None),
    "step": (slice(None), slice(None, None, 2)),
    "backwards": (Ellipsis, slice(None, None, -2)),
    "newaxis": (None, 0, None, slice(2), None),
    "ellipsis": (0, ..., 1),
    "all": ...,
    "none": (),
    "empty slice": slice(3, 1),
}
ADVANCED: dict[str, Any] = {
    "one": PLACES,
    "second axis": (slice(None), PLACES),
    "last axis": (..., PLACES),
    "list": (slice(None), [1, 1, 0]),
    "two axes": (PLACES[:3], [0, 1, 3]),
    "broadcast": (PLACES[:, None], [0, 1, 3]),
    "apart": (PLACES, slice(None), PLACES),
    "with an integer": (0, slice(None), PLACES),
    "beside an integer": (slice(None), 1, PLACES),
    "with newaxis": (PLACES, None, PLACES),
    "2-d": np.array([[0, 1], [2, 2]]),
    "empty": np.array([], int),
    "mask": A > 30,
    "mask of the first axis": np.array([True, False, True]),
    "mask of size 0": np.zeros(0, bool),
    "mask of two axes": A[..., 0] > 20,
    "mask of an axis": (slice(None), np.array([True, False, True, True])),
    "mask and integers": (np.array([True, False, True]), np.array([0, 3])),
    "nothing true": np.zeros((3, 4, 5), bool),
    "true": True,
    "false": False,
    "sliced first": (slice(None, None, -1), PLACES, slice(1, 3)),
    "apart by an ellipsis of no axis": (None, PLACES, 1, ..., PLACES),
    "beside an ellipsis of no axis": (..., PLACES, 1, PLACES),
    "a tuple": ((0, 2), slice(None)),
    "a range": (slice(None), range(2)),
}


def ours(key: Any) -> Any:
    """A key with NumPy's arrays in it as ours."""
    parts = key if isinstance(key, tuple) else (key,)
    made = tuple(ck.asarray(part) if isinstance(part, np.ndarray) else part for part in parts)
    return made if isinstance(key, tuple) else made[0]


@pytest.fixture(params=["as chosen", "kernels"])
def chosen(request: pytest.FixtureRequest) -> Iterator[None]:
    """NumPy indexes the host's small arrays, where kernels alone do not have to."""
    with ck.kernels_only() if request.param == "kernels" else nullcontext():
        yield


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize("key", [*BASIC.values(), *ADVANCED.values()], ids=[*BASIC, *ADVANCED])
def test_values(device: ck.Device, key: Any) -> None:
    x = ck.asarray(A)
    for own in (key, ours(key)):
        got = x[own]
        assert got.shape == A[key].shape
        assert_close(got, A[key])
    if got._storage is not x._storage:
        assert got.is_contiguous
    turned = ck.asarray(np.ascontiguousarray(A.T)).T
    assert_close(turned[ours(key)], A[key])


@pytest.mark.parametrize("key", BASIC.values(), ids=BASIC)
def test_basic_indices_make_views(device: ck.Device, key: Any) -> None:
    x = ck.asarray(A.copy())
    part = x[key]
    assert part._storage is x._storage
    x[...] = 7.0
    assert (part.numpy() == 7.0).all()


@pytest.mark.parametrize("key", [*BASIC.values(), *ADVANCED.values()], ids=[*BASIC, *ADVANCED])
def test_gradients(device: ck.Device, key: Any) -> None:
    if not A[key].size:
        x = ck.asarray(A)
        with ck.Tape() as recorder:
            recorder.watch(x)
            y = x[ours(key)]
        assert not recorder.gradient(y, x).numpy().any()
        return
    assert gradcheck(lambda x: ck.square(x[ours(key)]), [ck.asarray(A / 30)], order=2)


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize("key", [*BASIC.values(), *ADVANCED.values()], ids=[*BASIC, *ADVANCED])
def test_assignment(device: ck.Device, key: Any) -> None:
    part = -A[key]  # places that are named twice get one value twice
    for value in (5.0, part, part.astype("float32"), part[..., :1] if part.ndim else part):
        for convert in (lambda one: one, ours):
            a, x = A.copy(), ck.asarray(A.copy())
            version = x._storage.version
            a[key] = value
            x[convert(key)] = convert(value)
            assert_close(x, a)
            assert x._storage.version == version + 1 or not part.size


@pytest.mark.usefixtures("chosen")
def test_assignment_by_and_of_the_array_itself(device: ck.Device) -> None:
    a = np.array([3, 0, 1, 2, 3])
    x, y = ck.asarray(a.copy()), ck.asarray(a.copy())
    assert x[x].tolist() == a[a].tolist()
    x[x] = x[::-1]
    assert x.tolist() == [2, 1, 0, 3, 3]  # the value at each place that was named, the last of two
    y[ck.asarray([0, 1, 2])] = y[2:]
    assert y.tolist() == [1, 2, 3, 2, 3]


@pytest.mark.parametrize(
    "key",
    [(slice(None), -2), (None, slice(1, 3), None, slice(3, 9)), (..., slice(None, None, -2)), slice(3, 1)],
)
def test_parts_are_written_by_kernels(device: ck.Device, monkeypatch: pytest.MonkeyPatch, key: Any) -> None:
    """As on a GPU, and large ones on the host: assignments, and the derivatives of views."""
    for module in (subscript, copy):
        monkeypatch.setattr(module, "LARGE", 0)
    a, x = A.copy(), ck.asarray(A.copy())
    part = np.swapaxes(-A[key], 0, -1).copy()
    a[key] = np.swapaxes(part, 0, -1)
    x[key] = ck.swapaxes(ck.asarray(part), 0, -1)
    assert_close(x, a)
    with ck.Tape() as tape:
        tape.watch(x)
        y = x[key] * ck.swapaxes(ck.asarray(part), 0, -1)
    want = np.zeros_like(A)
    want[key] = np.swapaxes(part, 0, -1)
    assert_close(tape.gradient(y, x), want)


def test_updates_of_arrays_that_are_not_in_c_order(device: ck.Device) -> None:
    x = ck.asarray(A[0].copy()).T + 0
    want = A[0].T.copy()
    np.add.at(want, [1, 1, 3], 5.0)
    assert not x.is_contiguous
    assert_close(x.at[[1, 1, 3]].add(5.0), want)
    assert_close(ck.index_add(x, ck.asarray([1, 1, 3]), ck.full((3, 4), 5.0, x.dtype)), want)


def test_assignment_counts_and_overlaps(device: ck.Device) -> None:
    x = ck.asarray(np.arange(6.0))
    version = x._storage.version
    x[1:] = x[:-1]
    assert x.tolist() == [0.0, 0.0, 1.0, 2.0, 3.0, 4.0]
    assert x._storage.version == version + 1
    with ck.Tape() as recorder:
        recorder.watch(x)
        with pytest.raises(ck.GradientError, match=r"use x.at\[key\].set\(value\)"):
            x[0] = 1.0


REFUSED = {
    "too many": ((0, 0, 0, 0), "too many indices: the array has 3 axes, and 4 were indexed"),
    "two ellipses": ((..., ...), "one ellipsis"),
    "float": (1.0, "expected integers, slices"),
    "float array": (np.array([0.5]), "expected integer indices, got float64"),
    "out of range": (3, "out of bounds"),
    "array out of range": (np.array([0, 3]), "index 3 is out of bounds for an axis of size 3"),
    "negative out of range": (np.array([-4]), "index -4 is out of bounds"),
    "mask size": (np.array([True, False]), "boolean index of size 2 does not match an axis of size 3"),
    "arrays": ((np.array([0, 1]), np.array([0, 1, 2])), "do not broadcast"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refusals(device: ck.Device, case: Any) -> None:
    key, message = case
    if device.kind == "cuda" and isinstance(key, np.ndarray) and "out of bounds" in message:
        pytest.skip("places are clipped on a GPU")
    with pytest.raises(IndexError, match=message):
        ck.asarray(A)[ours(key)]


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize("shape", [(2,), (1, 2, 9), (2, 3, 7, 9)])
def test_values_that_do_not_broadcast_are_refused(device: ck.Device, shape: tuple[int, ...]) -> None:
    x = ck.asarray(A)
    with pytest.raises(ValueError, match=rf"a value of shape {re.escape(str(shape))} does not broadcast to"):
        x[ck.asarray([0, 2])] = ck.ones(shape)


def test_places_are_clipped_on_a_gpu(device: ck.Device) -> None:
    if device.kind != "cuda":
        pytest.skip("the host raises IndexError")
    assert ck.asarray([1.0, 2.0, 3.0])[ck.asarray([7, -9])].tolist() == [3.0, 1.0]


@given(
    st.data(),
    hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4),
)
def test_any_basic_index(data: st.DataObject, shape: tuple[int, ...]) -> None:
    a = np.arange(float(np.prod(shape))).reshape(shape)
    key = data.draw(hnp.basic_indices(shape, allow_newaxis=True, max_dims=6))
    assert_close(ck.asarray(a)[key], np.asarray(a[key]))


@given(st.data(), hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=4))
def test_any_integer_index(data: st.DataObject, shape: tuple[int, ...]) -> None:
    a = np.arange(float(np.prod(shape))).reshape(shape)
    key = data.draw(hnp.integer_array_indices(shape))
    with ck.device("host"):
        assert_close(ck.asarray(a)[ours(key)], a[key])


# ----- take, take_along_axis, index_add -----


@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("dtype", [np.float32, ck.bfloat16, np.int8, np.bool_])
def test_take(device: ck.Device, axis: Any, dtype: Any) -> None:
    a = A.astype(dtype)
    places = np.array([[1, 0], [2, -1]])
    got = ck.take(ck.asarray(a), ck.asarray(places), axis=axis)
    assert_close(got, np.take(a, places, axis), dtype=dtype)


def test_take_along_axis(device: ck.Device) -> None:
    rng = np.random.default_rng(0)
    for axis in (0, 1, 2, -1):
        shape = list(A.shape)
        shape[axis] = 2
        places = rng.integers(-A.shape[axis], A.shape[axis], shape)
        got = ck.take_along_axis(ck.asarray(A), ck.asarray(places), axis=axis)
        assert_close(got, np.take_along_axis(A, places, axis))
    row = ck.take_along_axis(ck.asarray(A), ck.asarray(np.array([[[1, 1]]])), axis=-1)
    assert_close(row, np.take_along_axis(A, np.broadcast_to([1, 1], (3, 4, 2)), -1))
    with pytest.raises(ValueError, match="do not fit shape"):
        ck.take_along_axis(ck.asarray(A), ck.asarray(np.zeros((2, 4, 1), int)))


def test_gradients_add_up_at_shared_places(device: ck.Device) -> None:
    rng = np.random.default_rng(0)
    x = ck.asarray(rng.standard_normal((4, 3)))
    places = ck.asarray(np.array([1, 1, 0, 1]))
    assert gradcheck(lambda x: ck.square(ck.take(x, places, axis=0)), [x], order=2)
    assert gradcheck(lambda x: ck.square(ck.take(x, places)), [x], order=1)
    along = ck.asarray(np.array([[0, 0, 2], [1, 1, 1], [2, 0, 1], [0, 1, 2]]))
    for axis in (0, 1):
        assert gradcheck(
            lambda x, axis=axis: ck.square(ck.take_along_axis(x, along % 3, axis=axis)), [x], order=2
        )


@pytest.mark.parametrize("dtype", [np.float16, ck.bfloat16])
def test_half_precision_sums_round_once(device: ck.Device, dtype: Any) -> None:
    x = ck.zeros(2, dtype=dtype)
    ones = ck.ones(3000, dtype=dtype)
    places = ck.asarray(np.zeros(3000, int))
    assert ck.index_add(x, places, ones).tolist() == [3008.0 if dtype == ck.bfloat16 else 3000.0, 0.0]


def test_index_add(device: ck.Device) -> None:
    rng = np.random.default_rng(0)
    places = np.array([2, 0, 2, -1])
    for axis in (0, 1):
        values = rng.standard_normal((4, 4, 5) if axis == 0 else (3, 4, 5))
        want = A.copy()
        np.add.at(want, (slice(None),) * axis + (places,), values)
        got = ck.index_add(ck.asarray(A), ck.asarray(places), ck.asarray(values), axis=axis)
        assert_close(got, want)
    x, v = ck.asarray(rng.standard_normal((3, 2))), ck.asarray(rng.standard_normal((4, 2)))
    assert gradcheck(lambda x, v: ck.square(ck.index_add(x, places, v)), [x, v], order=2)


def test_sums_are_the_same_every_time(device: ck.Device) -> None:
    rng = np.random.default_rng(0)
    x, values = ck.zeros((50, 8)), ck.asarray(rng.standard_normal((10_000, 8)).astype(np.float32))
    places = ck.asarray(rng.integers(0, 50, 10_000))
    first = ck.index_add(x, places, values).numpy()
    assert all((ck.index_add(x, places, values).numpy() == first).all() for _ in range(3))


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        (rows.Moving(64, 4, 3, 2), np.float32),
        (rows.Moving(256, 256, 1, 4), ck.bfloat16),
        (rows.Moving(256, 1, 4, 1), np.float64),
        (rows.Moving(32, 8, 2, 2), np.int8),
    ],
)
def test_rows_are_moved_in_the_shapes_of_a_gpu(device: ck.Device, shape: Any, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    for outer, inner, skip in ((1, 8, 0), (2, 7, 0), (1, 5000, 0), (3, 68, 1), (1, 1, 3)):
        # A view that starts where the widest words may not.
        x = ck.asarray(rng.integers(-9, 9, outer * 6 * inner + skip)).astype(dtype)[skip:]
        a = x.numpy().reshape(outer, 6, inner)
        places = np.array([5, 0, 5, 2, 3, 3, 1])
        made = rows.gathered(x.reshape((outer, 6, inner)), ck.asarray(places)._data, outer, 6, inner, shape)
        np.testing.assert_array_equal(made.numpy(), a[:, places])


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        (combine.Combining(64, 4, 2, 3, 4), np.float32),
        (combine.Combining(32, 32, 1, 1, 2), ck.bfloat16),
        pytest.param(combine.Combining(256, 1, 1, 4, 64), np.float64, marks=pytest.mark.thorough),
        (combine.Combining(64, 8, 1, 2, 3), np.int8),
        pytest.param(combine.Combining(64, 8, 1, 2, 3), np.bool_, marks=pytest.mark.thorough),
    ],
)
def test_rows_are_added_in_the_shapes_of_a_gpu(device: ck.Device, shape: Any, dtype: Any) -> None:
    rng, size = np.random.default_rng(0), 50
    for outer, inner, count, skip in ((1, 8, 300, 0), (2, 5, 129, 0), (1, 1, 1000, 0), (2, 68, 70, 1)):
        x = ck.asarray(rng.integers(0, 3, outer * size * inner + skip)).astype(dtype)[skip:]
        g = ck.asarray(rng.integers(0, 2, outer * count * inner + skip)).astype(dtype)[skip:]
        x, g = x.reshape((outer, size, inner)), g.reshape((outer, count, inner))
        some = np.where(rng.random(count) < 0.7, 3, rng.integers(0, size, count))
        for places in (rng.integers(0, size, count), np.full(count, 7), some):
            for base in (None, x):
                want = np.zeros(x.shape) if base is None else base.numpy().astype(np.float64)
                np.add.at(want, (slice(None), places), g.numpy().astype(np.float64))
                got = combine.combined(g, ck.asarray(places)._data, outer, size, inner, base, shape)
                np.testing.assert_array_equal(got.numpy(), ck.asarray(want).astype(dtype).numpy())


def test_many_rows_are_written_past_the_cache(device: ck.Device) -> None:
    a = np.random.default_rng(0).standard_normal((7, 64), np.float32)
    places = np.arange(2**18 // 2) * 5 % 7
    shape = rows.moving("simt", 16)
    made = rows.gathered(ck.asarray(a), ck.asarray(places)._data, 1, 7, 64, shape)
    assert made.nbytes >= rows._STREAMED
    np.testing.assert_array_equal(made.numpy()[0], a[places])


@pytest.fixture
def parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels of a GPU, in its launch shapes, on the host too."""
    for module in (rows, combine):
        monkeypatch.setattr(module, "serial", lambda device: False)


@pytest.mark.usefixtures("parallel")
def test_kernels_of_a_gpu_on_the_host(device: ck.Device) -> None:
    rng = np.random.default_rng(0)
    a, v, many = rng.standard_normal((30, 18)), rng.standard_normal((200, 18)), rng.integers(0, 30, 200)
    x, values, places = ck.asarray(a), ck.asarray(v), ck.asarray(many)
    changes = {"set": None, "add": np.add, "multiply": np.multiply, "max": np.maximum, "min": np.minimum}
    for key, numpys, value in (
        (places, many, v),
        (ck.asarray([3, -4]), [3, -4], v[:2]),  # fewer than a number a place would be worth
        ((slice(None), places[:9] % 12), (slice(None), many[:9] % 12), v[:30, :9]),
        (x > 0, a > 0, 0.5),
        ((ck.asarray([3, 3, -1]), places[:3] % 12), ([3, 3, -1], many[:3] % 12), v[0, :3]),
    ):
        for method, ufunc in changes.items():
            want = a.copy()
            if ufunc is None:
                want[numpys] = value
            else:
                ufunc.at(want, numpys, value)
            one = ck.asarray(value) if isinstance(value, np.ndarray) else value
            assert_close(getattr(x.at[key], method)(one), want, rtol=1e-12)
            if ufunc is None:
                written = ck.asarray(a.copy())
                written[key] = one
                assert_close(written, want)
        assert_close(x[key], a[numpys])
    assert ck.index_add(x, places, values).tolist() == ck.index_add(x, places, values).tolist()


@pytest.mark.usefixtures("parallel")
@pytest.mark.parametrize("shape", [(3000,), (2, 300, 4), (300, 2)])
def test_places_along_an_axis_on_a_gpu(device: ck.Device, shape: tuple[int, ...]) -> None:
    """Long columns that are few are sorted; short ones, or many, are added in turn."""
    rng, axis = np.random.default_rng(0), len(shape) // 2
    a = rng.standard_normal(shape)
    for count in (shape[axis], 7):
        wanted = (*shape[:axis], count, *shape[axis + 1 :])
        places, weights = rng.integers(-shape[axis], shape[axis], wanted), rng.standard_normal(wanted)
        x, w = ck.asarray(a), ck.asarray(weights)

        def loss(x: ck.Array, places: Any = places, w: ck.Array = w) -> ck.Array:
            return ck.sum(ck.take_along_axis(x, ck.asarray(places), axis=axis) * w)

        assert_close(loss(x), (np.take_along_axis(a, places, axis) * weights).sum(), rtol=1e-10)
        want = np.zeros(shape)
        at = list(np.ogrid[tuple(slice(n) for n in wanted)])
        at[axis] = places
        np.add.at(want, tuple(at), weights)
        assert_close(ck.grad(loss)(x), want, rtol=1e-10)
        put = a.copy()
        np.put_along_axis(put, places, 2.5, axis)
        ck.put_along_axis(x, ck.asarray(places), 2.5, axis)
        assert_close(x, put)


def test_places_are_settled_by_the_kernels_of_a_gpu(
    device: ck.Device, monkeypatch: pytest.MonkeyPatch, parallel: None
) -> None:
    monkeypatch.setattr(rows, "clips", lambda device: True)
    a = np.arange(12.0).reshape(4, 3)
    places, settled = np.array([-1, 9, -4, -5, 2]), np.array([3, 3, 0, 0, 2])
    for dtype in (np.int32, np.int64):
        x, at = ck.asarray(a.copy()), ck.asarray(places.astype(dtype))._data
        assert_close(rows.gathered(x, at, 1, 4, 3), a[settled][None])
        want = np.zeros((1, 4, 3))
        np.add.at(want, (0, settled), np.ones((5, 3)))
        assert_close(combine.combined(ck.ones((1, 5, 3), "float64"), at, 1, 4, 3, None), want)
        rows.put_rows(ck.asarray(np.arange(15.0)), at, x._data, 1, 4, 3)
        assert x.numpy()[:, 0].tolist() == [9.0, 3.0, 12.0, 3.0]


def test_nothing_is_taken_from_an_empty_axis(device: ck.Device) -> None:
    x = ck.zeros((3, 0))
    for call in (
        lambda: ck.take(x, ck.asarray([0]), axis=1),
        lambda: x[:, ck.asarray([0])],
        lambda: x.at[:, ck.asarray([0])].add(1.0),
    ):
        with pytest.raises(IndexError, match="size 0"):
            call()
    assert ck.take(x, ck.asarray([0, 2, 0]), axis=0).shape == (3, 0)


def test_index_add_refuses_what_is_no_array(device: ck.Device) -> None:
    with pytest.raises(TypeError, match="values: expected an array, a number or nested lists of them"):
        ck.index_add(ck.zeros(2), [0], "1.0")  # type: ignore[arg-type]


def test_numbers_are_written_as_meant_or_refused(device: ck.Device) -> None:
    x = ck.zeros((2, 3), dtype=ck.float32)
    x[0, 1], x[1, ::-2], x[-1, -2:-1] = 1.5, np.inf, 1e300
    x[..., 0] = float("nan")
    want = np.array([[np.nan, 1.5, 0.0], [np.nan, np.inf, np.inf]])
    np.testing.assert_array_equal(x.numpy(), want)
    small, flags = ck.zeros(2, dtype=ck.uint8), ck.zeros(2, dtype=ck.bool)
    small[0], flags[1] = 255, True
    assert small.tolist() == [255, 0] and flags.tolist() == [False, True]
    for number in (-1, 256):
        with pytest.raises(OverflowError, match="uint8"):
            small[0] = number
    with pytest.raises(IndexError):
        small[2] = 1
    with pytest.raises(ValueError, match="repeated view"):
        ck.broadcast_to(x[0], (2, 3))[0, 0] = 1.0
    before = x._storage.version
    x[0, 0] = 2
    assert x._storage.version == before + 1
    with ck.Tape() as tape:
        tape.watch(x)
        with pytest.raises(ck.GradientError, match="a tape tracks"):
            x[0, 0] = 1.0


def test_indices_and_masks_of_few_elements(device: ck.Device) -> None:
    """As of many: what NumPy would refuse, convert or read while it writes."""
    x, values = ck.arange(6, dtype="float32"), np.arange(6.0, dtype="f4")
    for key in ([5, 0, -1], [[1], [2]], [True, False, True, True, False, False], np.zeros(0, "i8")):
        for dtype in (
            ("int64", "uint8") if np.asarray(key).dtype != bool and np.min(key, initial=0) >= 0 else (None,)
        ):
            at = ck.asarray(key) if dtype is None else ck.asarray(key, dtype=dtype)
            np.testing.assert_array_equal(x[at].numpy(), values[np.asarray(key)])
    assert x[ck.asarray(2)].shape == () and x[ck.asarray(True)].shape == (1, 6)
    for key, message in (
        ([True, False], "boolean|mask|match"),
        ([6], "out of bounds|out of range"),
        ([-7], "out of"),
    ):
        if device.kind == "host" or message.startswith("bool"):
            with pytest.raises(IndexError, match=message):
                x[ck.asarray(key)]
            with pytest.raises(IndexError, match=message):
                x[ck.asarray(key)] = 1
    y = ck.asarray([2, 0, 1, 1])
    y[y] = 3
    assert y.tolist() == [3, 3, 3, 1]
    y[ck.asarray([False, True, False, True])] = 7
    y[ck.asarray([0, 0, 2])] = -1
    assert y.tolist() == [-1, 7, -1, 7]
    z = ck.asarray([1.0, 2.0, 3.0])
    gradient = ck.grad(lambda z: (z[ck.asarray([0, 0, 2])] * z[ck.asarray([True, True, False])].sum()).sum())(
        z
    )
    assert gradient.tolist() == [11.0, 5.0, 3.0]
    with ck.Tape() as tape:
        tape.watch(z)
        with pytest.raises(ck.GradientError):
            z[ck.asarray([1])] = 0.0
