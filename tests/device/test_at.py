"""``x.at``, and writing to places: NumPy's values, what shares a place, derivatives, the checking mode."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.testing import assert_close, gradcheck

RNG = np.random.default_rng(0)
A = RNG.normal(size=(4, 5))

#: Indices of every kind, of an array of shape (4, 5).
KEYS: dict[str, Any] = {
    "integer": 2,
    "integers": (1, -2),
    "slice": slice(1, 3),
    "column": (slice(None), -1),
    "steps": (Ellipsis, slice(None, None, -2)),
    "new axis": (None, 1),
    "list": [0, 2, 2],
    "pairs": ([0, 2, 2], [1, 1, 1]),
    "mixed": (np.array([[0, 1], [1, 3]]), slice(1, 3)),
    "mask": A > 0,
    "row mask": np.array([True, False, True, False]),
    "mask and slice": (slice(None, None, 2), np.array([True, False, True, False, True])),
    "no element": slice(0, 0),
    "no place": [],
    "everything": Ellipsis,
}

METHODS: dict[str, Any] = {
    "set": lambda a, key, value: a.__setitem__(key, value),
    "add": np.add.at,
    "subtract": np.subtract.at,
    "multiply": np.multiply.at,
    "divide": np.divide.at,
    "min": np.minimum.at,
    "max": np.maximum.at,
}


def ours(key: Any) -> Any:
    """A key with cukern's arrays in place of NumPy's."""
    if isinstance(key, tuple):
        return tuple(map(ours, key))
    return ck.asarray(key) if isinstance(key, np.ndarray) else key


@pytest.mark.parametrize("name", KEYS)
def test_values(device: ck.Device, name: str) -> None:
    key = KEYS[name]
    x = ck.asarray(A.copy())
    value = RNG.normal(size=A[key].shape)
    assert_close(x.at[ours(key)].get(), A[key])
    for (method, change), given in itertools.product(METHODS.items(), (value, 0.5)):
        want = A.copy()
        change(want, key, given)
        got = getattr(x.at[ours(key)], method)(ck.asarray(given) if isinstance(given, np.ndarray) else given)
        assert_close(got, want, rtol=1e-12)
    np.testing.assert_array_equal(x.numpy(), A)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["column", "pairs", "list", "mask"])
def test_derivatives_to_second_order(device: ck.Device, name: str, method: str) -> None:
    key = KEYS[name]
    value = RNG.uniform(0.5, 1.5, size=A[key].shape)
    assert gradcheck(
        lambda x, value: getattr(x.at[ours(key)], method)(value), [ck.asarray(A), ck.asarray(value)], order=2
    )


def test_what_shares_a_place(device: ck.Device) -> None:
    places = ck.asarray([2, 0, 2, 2])
    value = ck.asarray([1.0, 5.0, 0.0, 4.0])
    x = ck.full((3,), 2.0)
    assert x.at[places].set(value).tolist() == [5.0, 2.0, 4.0]
    assert x.at[places].add(value).tolist() == [7.0, 2.0, 7.0]
    assert x.at[places].multiply(value).tolist() == [10.0, 2.0, 0.0]
    assert x.at[places].min(value).tolist() == [2.0, 2.0, 0.0]
    assert x.at[places].max(value).tolist() == [5.0, 2.0, 4.0]
    gradients = {
        method: ck.grad(lambda v, m=method: getattr(x.at[places], m)(v).sum())(value).tolist()
        for method in ("set", "add", "multiply", "max")
    }
    assert gradients == {
        "set": [0.0, 1.0, 0.0, 1.0],
        "add": [1.0, 1.0, 1.0, 1.0],
        "multiply": [0.0, 2.0, 8.0, 0.0],  # a zero among them: its cotangent is the product of the others
        "max": [0.0, 1.0, 0.0, 1.0],
    }


@pytest.mark.parametrize("dtype", ck.dtypes.ALL, ids=lambda d: ck.dtypes.info(d).name)
def test_every_dtype(device: ck.Device, dtype: Any) -> None:
    x = ck.asarray([1, 0, 1]).astype(dtype)
    places, value = ck.asarray([0, 2, 2]), ck.asarray([0, 1, 0]).astype(dtype)
    assert x.at[places].set(value).tolist() == ck.asarray([0, 0, 0]).astype(dtype).tolist()
    assert x.at[places].max(value).tolist() == ck.asarray([1, 0, 1]).astype(dtype).tolist()
    made = x.at[places].add(value)
    assert made.dtype == dtype
    assert made.tolist() == ck.asarray([1, 0, 2]).astype(dtype).tolist()


def test_values_are_broadcast_and_cast(device: ck.Device) -> None:
    x = ck.zeros((2, 3))
    assert x.at[:, 1:].set(ck.asarray([[1], [2]])).tolist() == [[0, 1, 1], [0, 2, 2]]
    assert x.at[0].add(np.array([1, 2, 3])).dtype == ck.float32
    with pytest.raises(ValueError, match=r"at.set: values of shape \(2,\) do not broadcast"):
        x.at[0].set(ck.ones(2))
    with pytest.raises(IndexError, match="too many indices"):
        x.at[0, 0, 0].set(1)
    with pytest.raises(TypeError, match="at.divide: expected a floating array, got int64"):
        ck.asarray([1]).at[0].divide(2)


@pytest.mark.parametrize("name", KEYS)
def test_assignment_in_every_layout(device: ck.Device, name: str) -> None:
    key = KEYS[name]
    value = RNG.normal(size=A[key].shape)
    layouts = {
        "contiguous": lambda: ck.asarray(A.copy()),
        "transposed": lambda: ck.asarray(np.ascontiguousarray(A.T)).T,
        "strided": lambda: ck.asarray(np.repeat(A, 2, 1))[:, ::2],
        "reversed": lambda: ck.asarray(np.ascontiguousarray(A[::-1]))[::-1],
    }
    for layout, make in layouts.items():
        want, x = A.copy(), make()
        for given in (value, 1.5):
            want[key] = given
            x[ours(key)] = ck.asarray(given) if isinstance(given, np.ndarray) else given
            np.testing.assert_array_equal(x.numpy(), want, err_msg=layout)


def test_the_last_value_of_a_place_stays(device: ck.Device) -> None:
    x = ck.zeros(5)
    places = RNG.integers(0, 5, 5000)
    x[ck.asarray(places)] = ck.asarray(np.arange(5000.0))
    want = np.zeros(5)
    want[places] = np.arange(5000.0)
    assert x.tolist() == want.tolist()


def test_put_along_axis(device: ck.Device) -> None:
    places = RNG.integers(0, 5, (4, 3))
    for value in (9.0, RNG.normal(size=(4, 3))):
        want, x = A.copy(), ck.asarray(A.copy())
        np.put_along_axis(want, places, value, 1)
        ck.put_along_axis(
            x, ck.asarray(places), ck.asarray(value) if isinstance(value, np.ndarray) else value, axis=1
        )
        np.testing.assert_array_equal(x.numpy(), want)
    with ck.Tape() as tape:
        tape.watch(x)
        with pytest.raises(
            ck.GradientError, match=r"put_along_axis on an array that a tape tracks: use x.at\[key\]"
        ):
            ck.put_along_axis(x, ck.asarray(places), 0.0, axis=1)
        with pytest.raises(
            ck.GradientError, match=r"x\[key\] = value of a value that a tape tracks: use x.at\[key\]"
        ):
            ck.zeros(2)[0] = x[0, 0]


def test_places_of_flattened_arrays(device: ck.Device) -> None:
    places = RNG.integers(0, 24, (3, 2))
    for got, want in zip(
        ck.unravel_index(ck.asarray(places), (2, 3, 4)), np.unravel_index(places, (2, 3, 4)), strict=True
    ):
        np.testing.assert_array_equal(got.numpy(), want)
    parts = np.unravel_index(places, (2, 3, 4))
    np.testing.assert_array_equal(
        ck.ravel_multi_index(tuple(map(ck.asarray, parts)), (2, 3, 4)).numpy(), places
    )
    with ck.check_indices(), pytest.raises(IndexError, match="unravel_index: index 24 is out of bounds"):
        ck.unravel_index(ck.asarray([24]), (2, 3, 4))
    with pytest.raises(ValueError, match="expected 2 arrays, got 1"):
        ck.ravel_multi_index((ck.asarray([1]),), (2, 3))


@pytest.mark.parametrize("mode", ["clip", "wrap", ("clip", "raise", "wrap", "clip")])
def test_places_of_numbers_have_no_axis(device: ck.Device, mode: Any) -> None:
    outside = (7, 2, -8, 6) if isinstance(mode, tuple) else (7, -2, 30, 6)
    for given in (outside, tuple(map(ck.asarray, outside))):
        made = ck.ravel_multi_index(given, (4, 3, 5, 6), mode=mode)
        assert made.shape == () and made.dtype == ck.int64
        assert int(made) == np.ravel_multi_index(outside, (4, 3, 5, 6), mode=mode)
    x = ck.asarray([[1.0, 2.0], [5.0, 3.0]])
    i, j = ck.unravel_index(ck.argmax(x), x.shape)
    assert i.shape == j.shape == x[i, j].shape == ()
    assert float(x[i, j]) == 5
    assert ck.ravel_multi_index((1, 1), (2, 2)).shape == ()
    flat = ck.arange(3)
    ck.unravel_index(flat, (5,))[0][...] = 4
    assert flat.tolist() == [0, 1, 2]
    assert ck.ravel_multi_index(((), ()), (0, 3), mode="clip").shape == (0,)
    with pytest.raises(
        ValueError, match="ravel_multi_index: mode: expected 'raise', 'wrap' or 'clip', got 'up'"
    ):
        ck.ravel_multi_index((1, 1), (2, 2), mode="up")
    with pytest.raises(ValueError, match="ravel_multi_index: mode: expected one for each of 2 axes, got 1"):
        ck.ravel_multi_index((1, 1), (2, 2), mode=("clip",))


def test_places_of_small_integers_are_brought_into_long_axes(device: ck.Device) -> None:
    places = np.array([200, 3], "uint8")
    for mode in ("clip", "wrap"):
        assert ck.take(ck.arange(300), ck.asarray(places), mode=mode).tolist() == places.tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_stays_at_its_place(device: ck.Device, bad: float) -> None:
    values, places = [bad, 2.0, 3.0], [0, 0, 1]
    assert_close(ck.ones(3).at[places].multiply(values), [2 * bad, 3, 1])
    assert_close(ck.ones(3).at[places].divide(values), [1 / bad, 1 / 3, 1])
    assert_close(ck.ones(3).at[places[::-1]].multiply(values), [6, bad, 1])
    rows = ck.ones((3, 2)).at[places].multiply(ck.asarray([[bad, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    assert_close(rows, [[3 * bad, 8], [5, 6], [1, 1]])
    x = ck.ones(3)
    ck.multiply.at(x, places, ck.asarray(values))
    assert_close(x, [2 * bad, 3, 1])

    def product(v: Any) -> Any:
        return ck.ones(3).at[places].multiply(v)[1:].sum()

    given = ck.asarray(values)
    assert_close(ck.grad(product)(given)[2:], [1])
    second = ck.grad(lambda v: (ck.grad(lambda w: (ck.ones(3).at[places].multiply(w) ** 2)[1:].sum())(v))[2])
    assert_close(second(given)[2:], [2])


def test_take_beyond_the_end(device: ck.Device) -> None:
    x = ck.asarray(A)
    places = np.array([-7, -1, 0, 4, 5, 11])
    for mode in ("wrap", "clip"):
        assert_close(ck.take(x, ck.asarray(places), axis=1, mode=mode), np.take(A, places, 1, mode=mode))
    with pytest.raises(ValueError, match="take: mode: expected 'raise', 'wrap' or 'clip', got 'near'"):
        ck.take(x, ck.asarray([0]), axis=1, mode="near")  # type: ignore[arg-type]


#: What names a place out of range, of an array of shape (4, 5).
OUTSIDE: dict[str, Any] = {
    "take": lambda x: ck.take(x, ck.asarray([0, 5]), axis=1),
    "take_along_axis": lambda x: ck.take_along_axis(x, ck.asarray([[0], [0], [0], [-6]]), axis=1),
    "getitem": lambda x: x[ck.asarray([4])],
    "setitem": lambda x: x.__setitem__(ck.asarray([4]), 1.0),
    "at": lambda x: x.at[ck.asarray([4])].add(1.0),
    "put_along_axis": lambda x: ck.put_along_axis(x, ck.asarray([[5]] * 4), 1.0, axis=1),
    "index_add": lambda x: ck.index_add(x, ck.asarray([4]), ck.ones((1, 5), "float64")),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_places_out_of_range(device: ck.Device, name: str) -> None:
    """An error where checking is asked for, which is always on the host; else they are clipped."""
    call = OUTSIDE[name]
    with (
        ck.check_indices(),
        pytest.raises(IndexError, match=r"index -?\d is out of bounds for an axis of size"),
    ):
        call(ck.asarray(A.copy()))
    if device.kind == "host":
        with ck.check_indices(False), pytest.raises(IndexError):
            call(ck.asarray(A.copy()))
    else:
        call(ck.asarray(A.copy()))


def test_clipped_places_on_a_gpu(device: ck.Device) -> None:
    if device.kind == "host":
        pytest.skip("the host raises")
    x = ck.asarray([1.0, 2.0, 3.0])
    assert ck.take(x, ck.asarray([-9, 9])).tolist() == [1.0, 3.0]


def test_sums_onto_one_array_are_apart_in_a_jitted_function(device: ck.Device) -> None:
    def summed(x: ck.Array, index: ck.Array) -> tuple[ck.Array, ...]:
        x = x * 2
        return x.at[index].add(1.0), x.at[index].add(1.0), x + 0

    jitted = ck.jit(summed)
    for _ in range(3):
        once, again, x = jitted(ck.asarray([1.0, 2.0, 3.0]), ck.asarray([0, 2, 2]))
        assert once.tolist() == again.tolist() == [3.0, 4.0, 8.0]
        assert x.tolist() == [2.0, 4.0, 6.0]
