"""Python numbers, lists, None and text beside arrays: what NumPy makes of them, to the last bit."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukern as ck


def outcome(compute: Callable[[], Any]) -> Any:
    """The elements and dtype of a result, or the kind of error."""
    try:
        made = compute()
    except (TypeError, ValueError) as error:
        return ValueError if isinstance(error, ValueError) else TypeError
    assert not isinstance(made, bool)
    return made.dtype, made.tolist()


def test_comparisons_with_what_is_no_array(device: ck.Device) -> None:
    lists: list[Any] = [[1, 3], (1, 2), range(2), [300, 1], [[1], [2]], [], [1, 2, 3], [1, [2]]]
    others = [None, "a", b"a", ["a", "1"], [1, None], [np.uint64(2**64 - 1), 1]]
    compares: dict[Callable[[Any, Any], Any], list[Any]] = {
        operator.eq: lists + others,
        operator.ne: [[1, 3], *others[:-1]],
        operator.lt: [[1, 3], *others[:-1]],
    }
    for a in (np.array([1, 2], np.uint8), np.array([1.0, 2.5])):
        x = ck.asarray(a)
        for compare, given in compares.items():
            for other in given:
                want = outcome(lambda c=compare, a=a, o=other: c(a, o))
                assert outcome(lambda c=compare, x=x, o=other: c(x, o)) == want, (compare, other)
                # A list's own comparison gives way to the array's.
                want = outcome(lambda c=compare, a=a, o=other: c(o, a))
                assert outcome(lambda c=compare, x=x, o=other: c(o, x)) == want, (compare, other)
    zero = ck.asarray(1)
    assert (zero == None).shape == (zero == "a").shape == ()  # noqa: E711


def test_lists_are_compared_to_their_last_digit(device: ck.Device) -> None:
    values = [0.1, 1 / 3]
    assert (ck.asarray(np.array(values)) == values).all() and (ck.asarray(values) == values).all()
    assert (values == ck.asarray(np.array(values))).tolist() == [True, True]
    assert (ck.asarray([2**60 + 1]) == [2**60]).tolist() == [False]
    x = ck.asarray([1, 2])
    assert (x == object()) is False and (x != object()) is True
    with pytest.warns(UserWarning, match="from elsewhere|not supported"):
        assert ck.fuse(lambda x: x < [1, 3])(x).tolist() == [False, True]


def test_lists_that_hold_numpys_integers(device: ck.Device) -> None:
    big, odd = 2**64 - 1, 2**53 + 1
    assert ck.asarray([0, np.uint64(big)], dtype="u8").tolist() == [0, big]
    assert ck.asarray([np.int64(odd), 1], dtype="u8").tolist() == [odd, 1]
    assert ck.asarray(((np.uint64(odd), 1), (2, 3))).tolist() == [[odd, 1], [2, 3]]
    assert ck.asarray([2**63, 1]).tolist() == [2**63, 1]
    assert ck.asarray([0, np.uint64(big)]).dtype == ck.uint64
    assert ck.asarray([np.uint64(1), -1]).dtype == ck.float32
    kinds: list[tuple[list[Any], Any]] = [
        ([np.float32(1), 2.5], ck.float32),
        ([np.float16(1), 2.5], ck.float16),
        ([np.float32(1), np.int64(2)], ck.float32),
        ([np.float64(1), 2], ck.float64),
        ([np.float32(1), np.float64(2)], ck.float64),
        ([np.int8(1), np.int16(2)], ck.int16),
        ([np.int8(1), 300], ck.int64),
        ([True, np.int8(2)], ck.int8),
    ]
    for values, dtype in kinds:
        assert ck.asarray(values).dtype == dtype, values
    with pytest.raises(OverflowError, match="-1 out of bounds for uint64"):
        ck.asarray([np.uint64(1), -1], dtype="u8")
    with pytest.raises(ValueError, match="copy"):
        ck.asarray([np.int64(1)], copy=False)


def test_integers_that_do_not_fit_are_refused(device: ck.Device) -> None:
    def write(key: Any, value: Any) -> ck.Array:
        made = x.copy()
        made[key] = value
        return made

    x = ck.asarray([1, 2], dtype="uint8")
    place = ck.asarray([0])
    for n in (300, -1):
        calls: dict[str, Callable[[], Any]] = {
            "x[[0, 1]] =": lambda: write([0, 1], [n, 1]),  # noqa: B023 - called in this turn
            "x[:] =": lambda: write(slice(None), (n, 1)),  # noqa: B023
            "x[mask] =": lambda: write(x > 1, [n]),  # noqa: B023
            "x[0] =": lambda: write(0, n),  # noqa: B023
            "insert": lambda: ck.insert(x, 0, n),  # noqa: B023
            "insert a list": lambda: ck.insert(x, 0, [n]),  # noqa: B023
            "pad": lambda: ck.pad(x, 1, constant_values=n),  # noqa: B023
            "pad differently": lambda: ck.pad(x, 1, constant_values=(0, n)),  # noqa: B023
            "full": lambda: ck.full(2, n, "uint8"),  # noqa: B023
            "full_like": lambda: ck.full_like(x, n),  # noqa: B023
            "asarray": lambda: ck.asarray([n], "uint8"),  # noqa: B023
            "where": lambda: ck.where(x > 1, x, n),  # noqa: B023
            "clip": lambda: ck.clip(x, n, None) if n > 0 else ck.clip(x, None, n),  # noqa: B023
            "put_along_axis": lambda: ck.put_along_axis(x.copy(), place, [n], 0),  # noqa: B023
            "at.set": lambda: x.at[0].set(n),  # noqa: B023
            "at.set a list": lambda: x.at[[0, 1]].set([n, 1]),  # noqa: B023
            "at.add": lambda: x.at[:].add([n, 1]),  # noqa: B023
            "at.subtract": lambda: x.at[0].subtract(n),  # noqa: B023
            "at.multiply": lambda: x.at[0].multiply(n),  # noqa: B023
            "at.max": lambda: x.at[0].max(n),  # noqa: B023
            "x += n": lambda: operator.iadd(x.copy(), n),  # noqa: B023
        }
        for name, call in calls.items():
            with pytest.raises(OverflowError, match=f"{n} out of bounds for uint8"):
                pytest.fail(f"{name}: {call()}")
    assert x.tolist() == [1, 2]
    assert x.at[0].subtract(3).tolist() == [254, 2] and x.at[[0, 1]].subtract([1, 1]).tolist() == [0, 1]


def test_numbers_that_do_fit_and_numpys_data_are_cast_as_numpy_does(device: ck.Device) -> None:
    a = np.array([1, 2], np.uint8)
    x = ck.asarray(a)
    wide = np.array([300, 1])
    for value in (wide, [2.7, 1], [True, False], 2.7):
        b, y = a.copy(), x.copy()
        b[[0, 1]] = y[[0, 1]] = value
        assert y.tolist() == b.tolist()
    assert ck.insert(x, 1, wide).tolist() == np.insert(a, 1, wide).tolist()
    assert ck.pad(x, 1, constant_values=2.7).tolist() == [2, 1, 2, 2]
    for bounds in ((-1, None), (None, 300), (-5, 300), (2, 300), (-1, 1)):
        assert ck.clip(x, *bounds).tolist() == np.clip(a, *bounds).tolist()
    wide_floats = ck.zeros(2, "float64")
    wide_floats[[0, 1]] = [0.1, 0.3]
    assert wide_floats.tolist() == wide_floats.at[:].set([0.1, 0.3]).tolist() == [0.1, 0.3]
    assert ck.append(wide_floats, [0.7]).tolist() == [0.1, 0.3, 0.7]


def test_joining_casts_as_numpy_does(device: ck.Device) -> None:
    kinds = (ck.bool_, ck.uint8, ck.int64, ck.float32)
    for join, theirs in ((ck.concat, np.concatenate), (ck.stack, np.stack)):
        for source in kinds:
            for target in kinds:
                for casting in ("same_kind", "safe"):
                    try:
                        want = theirs([np.ones(1, source)], dtype=target, casting=casting)
                    except TypeError:
                        with pytest.raises(TypeError, match=f"{source} is not cast to {target}"):
                            join([ck.ones(1, source)], dtype=target, casting=casting)
                    else:
                        assert join([ck.ones(1, source)], dtype=target, casting=casting).dtype == want.dtype
        x = ck.asarray([1.7])
        with pytest.raises(TypeError, match=f"{join.__name__}: dtype: float32 is not cast to int32"):
            join([x], dtype="int32")
        assert join([x], dtype="int32", casting="unsafe").ravel().tolist() == [1]
        assert join([x], dtype="bfloat16").dtype == ck.bfloat16
        assert join([x.astype("bfloat16")], dtype="float16").dtype == ck.float16
    with pytest.raises(TypeError, match="is not cast"):
        np.concatenate([x, x], dtype="int32")
    assert np.concatenate([x, x], dtype="int32", casting="unsafe").tolist() == [1, 1]


def test_bytes_are_the_memory(device: ck.Device) -> None:
    for x in (ck.asarray([1.5, 2.0]), ck.asarray(3), ck.arange(6).reshape(2, 3).T, ck.zeros((0, 2))):
        assert bytes(x) == x.numpy().tobytes()


def test_ends_of_differences(device: ck.Device) -> None:
    arrays = [
        np.array([1, 2], np.uint8),
        np.array([1, 5], np.int64),
        np.array([True, False]),
        np.array([0.1, 2]),
    ]
    for a in arrays:
        for end in (0, 300, True, 2.5, 0.1, [0], [0.1], np.array([3], np.uint8)):
            with ck.default_dtype(ck.float64):  # in which NumPy's floats are
                for name in ("append", "prepend"):
                    got, want = ck.diff(ck.asarray(a), **{name: end}), np.diff(a, **{name: end})  # type: ignore[arg-type]
                    assert got.dtype == want.dtype and got.tolist() == want.tolist(), (a, name, end)
    half = ck.ones(2, "float16")
    assert ck.diff(half, append=0.5).dtype == ck.append(half, 2).dtype == ck.float16
