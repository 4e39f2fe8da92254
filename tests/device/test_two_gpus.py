"""Arrays of two GPUs: copies between them, and what takes arrays of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.testing import assert_close

GPUS = [device for device in ck.devices() if device.kind == "cuda"]

pytestmark = pytest.mark.skipif(len(GPUS) < 2, reason="takes two GPUs")

RNG = np.random.default_rng(0)


@pytest.fixture(params=["default streams", "streams of their own"])
def streams(request: pytest.FixtureRequest) -> Iterator[None]:
    """The streams that both GPUs work on; those of their own wait for nothing by themselves."""
    with ExitStack() as stack:
        if request.param != "default streams":
            for gpu in GPUS[:2]:
                with gpu.activate():
                    stream = gpu.xp.cuda.Stream(non_blocking=True)
                    before = gpu.xp.cuda.get_current_stream()
                    stream.use()
                stack.callback(_use, gpu, before)
        yield


def _use(gpu: ck.Device, stream: Any) -> None:
    with gpu.activate():
        stream.use()


def _long(x: ck.Array, turns: int = 60) -> ck.Array:
    """Work that takes a GPU longer than the host takes to ask for it."""
    for _ in range(turns):
        x = ck.tanh(x) * 1.25
    return x


@pytest.mark.usefixtures("streams")
def test_copies_come_after_what_they_read_and_before_what_takes_its_memory() -> None:
    first, second = GPUS[:2]
    given = [ck.asarray(RNG.standard_normal(1 << 24, dtype=np.float32), device=first) for _ in range(2)]
    wanted = [_long(x).numpy() for x in given]
    for turn in range(6):
        there = _long(given[turn % 2]).to_device(second)
        _long(given[1 - turn % 2])
        assert np.array_equal(there.numpy(), wanted[turn % 2])
        back = _long(there, 30).to_device(first)
        assert np.array_equal(back.numpy(), _long(there, 30).numpy())


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x,
        lambda x: x.T,
        lambda x: x[::2, ::-1],
        lambda x: x[0, 0],
        lambda x: x[:0],
        lambda x: ck.broadcast_to(x[0], (7, 6)),
    ],
    ids=["contiguous", "transposed", "reversed", "0-d", "empty", "stride 0"],
)
def test_copies_of_every_dtype_and_layout(view: Callable[[ck.Array], ck.Array]) -> None:
    first, second = GPUS[:2]
    for dtype in ck.dtypes.ALL:
        x = view(ck.asarray(RNG.integers(0, 2, (5, 6)), dtype=dtype, device=first))
        y = x.to_device(second)
        assert y.device is second and y._data.device.id == second.index and y.dtype == dtype
        assert np.array_equal(y.numpy(), x.numpy())


def test_derivatives_come_back() -> None:
    first, second = GPUS[:2]
    a = RNG.standard_normal((16, 8))
    x, w = ck.asarray(a, device=first), ck.ones((8, 3), dtype="float64", device=second)
    with ck.Tape() as tape:
        tape.watch(x, w)
        y = ck.sum(ck.tanh(x.to_device(second) @ w))
    of_x, of_w = tape.gradient(y, (x, w))
    assert of_x.device is first and of_w.device is second
    slope = 1 - np.tanh(a.sum(1, keepdims=True)) ** 2
    assert_close(of_x, np.repeat(3 * slope, 8, 1), rtol=1e-11)
    assert_close(of_w, np.repeat((a * slope).sum(0)[:, None], 3, 1), rtol=1e-11)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, y: x + y,
        lambda x, y: x @ y,
        lambda x, y: ck.where(x > 0, x, y),
        lambda x, y: ck.concat([x, y]),
        lambda x, y: ck.nn.layer_norm(x, 3, y),
        lambda x, y: ck.fuse(lambda p, q: p + q)(x, y),
        lambda x, y: ck.index_add(x, [0], y[:1]),
    ],
    ids=["add", "matmul", "where", "concat", "layer_norm", "fuse", "index_add"],
)
def test_arrays_of_two_gpus_are_refused(call: Callable[[ck.Array, ck.Array], Any]) -> None:
    with pytest.raises((ck.DeviceError, ValueError), match=r"cuda:(0.*cuda:1|1.*cuda:0)"):
        call(ck.ones(3, device=GPUS[0]), ck.ones(3, device=GPUS[1]))


def test_indices_and_values_are_fetched() -> None:
    x = ck.arange(5, device=GPUS[0])
    places, flags = (
        ck.asarray([3, 1], device=GPUS[1]),
        ck.asarray([0, 1, 0, 0, 1], dtype="bool", device=GPUS[1]),
    )
    assert x[places].tolist() == ck.take(x, places).tolist() == [3, 1]
    assert x[flags].tolist() == [1, 4]
    x[flags] = ck.asarray([7, 8], device=GPUS[1])
    x[:1] = ck.asarray([9], device=GPUS[1])
    assert x.tolist() == [9, 7, 2, 3, 8] and x[flags].device is GPUS[0]


def test_other_libraries_memory_stays_where_it_is() -> None:
    for gpu in GPUS[:2]:
        with gpu.activate():
            theirs = gpu.xp.arange(6.0)
        interface = SimpleNamespace(__cuda_array_interface__=theirs.__cuda_array_interface__)
        for made in (ck.asarray(theirs), ck.asarray(interface), ck.from_dlpack(theirs)):
            assert made.device is gpu and made._data.data.ptr == theirs.data.ptr
            assert made.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_step_captured_on_the_second_gpu() -> None:
    w = ck.ones(128, dtype="float64", device=GPUS[1])
    step = ck.capture(lambda x: ck.sum(ck.tanh(x * w)))
    for k in range(4):
        x = ck.full(128, 0.1 * k, dtype="float64", device=GPUS[1])
        assert_close(step(x), 128 * np.tanh(0.1 * k), rtol=1e-11)


def test_random_numbers_are_the_same_on_every_device() -> None:
    drawn = [
        ck.random.default_rng(7, device=gpu).standard_normal(1000).numpy() for gpu in (*GPUS[:2], "host")
    ]
    assert np.array_equal(drawn[0], drawn[1])
    assert_close(drawn[0], drawn[2], rtol=1e-5, atol=1e-6)
