"""Arrays that the host's runtime makes with the launch that fills them."""

from __future__ import annotations

import struct
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import cukern as ck


def _parts(made: ck.Array) -> tuple[Any, ...]:
    return made._layout, made.device, made._key, made._viewed, type(made), made._memory is made._data


@pytest.mark.parametrize("size", [3, 5000])
def test_arrays_that_the_runtime_makes_are_as_those_of_python(size: int) -> None:
    """The host's runtime makes the result with the launch: its parts, their owners and their memory are as Python's."""
    device = ck.Device("host")
    base = ck.asarray(np.arange(2.0 * size, dtype=np.float32), device=device)
    x, view = base[:size].copy(), base[size:]
    ck.negative(x), x + view, x * 2.5
    plan = ck.negative.quick[x._layout][0]
    assert plan.make is not None
    made, again = ck.negative(x), ck.negative(x)
    assert _parts(made) == _parts(plan.single(x)) and made._storage is not again._storage
    assert made._operand == id(made._data) and made.shape == (size,) and made.base is None
    np.testing.assert_array_equal((x + view).numpy(), x.numpy() + view.numpy())
    np.testing.assert_array_equal((x * np.float32(2.5)).numpy(), x.numpy() * np.float32(2.5))
    shared = (made._layout, made.device, x, x._data, type(made._storage), ck.Array, made.dtype)
    before = [sys.getrefcount(one) for one in shared]
    for _ in range(500):
        plan.make(x)
        with pytest.raises(struct.error):  # what is no array and no number
            plan.make("x")
    assert [sys.getrefcount(one) for one in shared] == before
    seen = weakref.ref(again)
    del again
    assert seen() is None


def test_numbers_that_a_launch_does_not_take_make_no_array(device: ck.Device) -> None:
    x = ck.asarray(np.array([1, 2], np.int8), device=device)
    for _ in range(2):
        np.testing.assert_array_equal((x + 1).numpy(), [2, 3])
        with pytest.raises(OverflowError):
            x + 1000
        assert (x < 1000).tolist() == [True, True]
    empty = x[:0]
    for _ in range(2):
        assert (empty + 1).shape == (0,)
