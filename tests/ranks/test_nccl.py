"""The calls of NCCL, on one GPU with one rank: needs a GPU, CuPy and NCCL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.distributed import nccl
from cukern.distributed.member import Member

pytestmark = pytest.mark.skipif(all(one.addressable for one in ck.devices()), reason="no GPU")


class Quiet(Member):
    """A rank without a job."""

    def __init__(self) -> None:
        self.rank, self.size, self.failure = 0, 1, ""


@pytest.fixture
def engine() -> Iterator[Any]:
    try:
        library = nccl.library()
    except ck.DistributedError as error:
        pytest.skip(str(error))
    made = nccl.Engine(library, ck.Device("cuda:0"), 1, 0, library.get_unique_id(), Quiet(), 20.0)
    with ck.device("cuda:0"):
        yield made
    made.close(True)


def test_every_dtype(engine: Any) -> None:
    for dtype in ck.dtypes.ALL:
        values = (np.arange(24) % 5).astype(dtype)
        x = ck.asarray(values)
        for call in (engine.all_gather, engine.all_to_all):
            out = ck.zeros_like(x)
            call(x._data, out._data, "a call").wait()
            np.testing.assert_array_equal(np.asarray(out), values)
        engine.broadcast(x._data, 0, "broadcast").wait()
        np.testing.assert_array_equal(np.asarray(x), values)
        if dtype == np.bool_:
            continue
        carried = x.astype(engine.carrier(dtype))
        out = ck.zeros_like(carried)
        engine.reduce_scatter(carried._data, out._data, "sum", "reduce_scatter").wait()
        np.testing.assert_array_equal(np.asarray(out.astype(dtype)), values)
        for op in ("sum",) if dtype.kind == "c" else ("sum", "prod", "max", "min"):
            engine.all_reduce(carried._data, out._data, op, "all_reduce").wait()
            np.testing.assert_array_equal(np.asarray(out.astype(dtype)), values)


def test_in_a_captured_step(engine: Any) -> None:
    @ck.capture
    def step(x: Any) -> Any:
        y = x * 2.0
        engine.all_reduce(y._data, y._data, "sum", "all_reduce").wait()
        return y + 1.0

    for number in range(5):
        np.testing.assert_array_equal(np.asarray(step(ck.full(1000, float(number)))), 2.0 * number + 1.0)
    assert step.graphs == 1
    engine.close(True)  # does not wait for the graph, which would wait for it
    with pytest.raises(ck.CaptureError, match="collectives among 1 ranks have ended"):
        step(ck.zeros(1000))
