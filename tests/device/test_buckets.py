"""Which parameters' gradients are reduced together."""

import numpy as np
import pytest

import cukern as ck
from cukern.distributed.buckets import planned

MIB = 1 << 20
MOST = 64 * MIB


def buckets_of(mebibytes: list[float]) -> list[tuple[int, ...]]:
    """The members of the buckets of parameters of these sizes, whose gradients are finished from the first on."""
    parameters = [ck.nn.Parameter(ck.broadcast_to(ck.zeros(1), int(one * MIB) // 4)) for one in mebibytes]
    optimizer = ck.optim.SGD(parameters, lr=0.1)
    found = planned(optimizer, 2, MOST, order=range(len(mebibytes)))
    for one in found:
        assert one.sizes == [int(mebibytes[i] * MIB) // 4 for i in one.members]
    return [one.members for one in found]


@pytest.mark.parametrize(
    ("mebibytes", "expected"),
    [
        # From the end: 8 MiB, 32 MiB, then 64 MiB each; the first 2 MiB are less than a sixteenth of these.
        ([2, 24, 24, 16, 4, 30, 30, 16, 16, 4, 4], [(0, 1, 2, 3), (4, 5, 6), (7, 8), (9, 10)]),
        ([8, 8], [(0,), (1,)]),
        ([1], [(0,)]),
        # One of half the size travels by itself, here last; the small one is not left behind it.
        ([20, 20, 8, 1, 40], [(0, 1), (2, 3), (4,)]),
        ([1, 40], [(0,), (1,)]),
        ([40, 1, 8], [(0,), (1, 2)]),
        ([2, 40, 1, 1], [(0, 2, 3), (1,)]),
    ],
)
def test_the_last_buckets_are_small(mebibytes: list[float], expected: list[tuple[int, ...]]) -> None:
    assert buckets_of(mebibytes) == expected


def test_every_parameter_is_in_one_bucket() -> None:
    sizes = np.random.default_rng(0).choice([0.001, 0.5, 3.0, 17.0, 33.0], 40).tolist()
    found = buckets_of(sizes)
    assert sorted(i for one in found for i in one) == list(range(40))
    assert all(list(one) == sorted(one) for one in found)
