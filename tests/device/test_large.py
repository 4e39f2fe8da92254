"""More than 2**31 elements, which 32 bits cannot count; on a GPU with the memory for them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import cukern as ck

N = 2**31 + 1000


@pytest.fixture
def large(device: ck.Device) -> Iterator[ck.Array]:
    """Zeros, and 7 at three places that only 64 bits tell apart."""
    if device.kind == "host":
        pytest.skip("takes too long on the host")
    pool = device.xp.get_default_memory_pool()
    if device.xp.cuda.runtime.memGetInfo()[0] < 40 * 2**30:
        pytest.skip("needs 40 GiB of free memory")
    x = ck.zeros(N, "int8")
    for place in (5, 2**31 - 1, N - 1):
        x[place] = 7
    yield x
    del x
    pool.free_all_blocks()


def test_add_sum_and_argmax(large: ck.Array) -> None:
    assert (large + 1).sum().item() == N + 21
    assert large.argmax().item() == 5
    large[5] = 0
    assert large.argmax().item() == 2**31 - 1
    large[2**31 - 1] = 0
    assert large.argmax().item() == N - 1


def test_a_broadcast(large: ck.Array) -> None:
    rows = ck.reshape(large[: 2**31], (2**16, 2**15))
    made = rows + ck.asarray(np.arange(2**15) % 3, dtype="int8")
    assert made.shape == (2**16, 2**15)
    assert made[-1, -1].item() == 7 + (2**15 - 1) % 3
    assert ck.sum(made, axis=1)[7].item() == int((np.arange(2**15) % 3).sum())
    assert ck.max(made, axis=0).shape == (2**15,)


def test_take_and_assignment(large: ck.Array) -> None:
    places = ck.asarray(np.array([N - 1, 0, 2**31 - 1, -1, 5, 2**31]))
    assert ck.take(large, places).tolist() == [7, 0, 7, 7, 7, 0]
    assert large[places].tolist() == [7, 0, 7, 7, 7, 0]
    picked = ck.take(ck.reshape(large[: 2**31], (2, 2**30)), ck.asarray([1, 0, 1]), axis=0)
    assert picked.shape == (3, 2**30)
    assert picked[0, -1].item() == 7 and picked[1, 5].item() == 7


def test_strided_and_compared(large: ck.Array) -> None:
    assert large[::-1][0].item() == 7
    assert ck.count_nonzero(large[1:] != large[:-1]).item() == 5
    assert ck.nonzero(large)[0].tolist() == [5, 2**31 - 1, N - 1]


def test_a_scan(large: ck.Array) -> None:
    sums = ck.cumulative_sum(large, dtype="int8")
    assert sums[2**31 - 2].item() == 7 and sums[-1].item() == 21
