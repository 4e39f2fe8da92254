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


@pytest.fixture
def streams() -> Iterator[list[Any]]:
    """Streams that both GPUs work on; unlike default streams they do not wait for each other by themselves."""
    made = []
    with ExitStack() as stack:
        for gpu in GPUS[:2]:
            with gpu.activate():
                before = gpu.xp.cuda.get_current_stream()
                made.append(gpu.xp.cuda.Stream(non_blocking=True))
                made[-1].use()
            stack.callback(_use, gpu, before)
        yield made


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


def test_other_libraries_are_told_the_stream_and_the_gpu(streams: list[Any]) -> None:
    for gpu, stream in zip(GPUS[:2], streams, strict=True):
        x = ck.ones(3, device=gpu)
        assert x.__cuda_array_interface__["stream"] == stream.ptr
        assert x.__dlpack_device__() == (2, gpu.index)


def test_dlpack_to_another_gpu() -> None:
    x = ck.asarray([1.0, 2.0], device=GPUS[1])
    y = ck.from_dlpack(_Wanted(x, (2, 0)))
    assert y.device is GPUS[0] and y.tolist() == [1, 2]
    with pytest.raises(BufferError, match="dl_device: device: 'cuda:99' is not here"):
        x.__dlpack__(dl_device=(2, 99))


class _Wanted:
    """An array that a consumer wants on a device of its choice."""

    def __init__(self, x: ck.Array, device: tuple[int, int]) -> None:
        self.x, self.device = x, device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **options: Any) -> Any:
        return self.x.__dlpack__(**{**options, "dl_device": self.device})


def _adds(x: ck.Array, other: ck.Array) -> ck.Array:
    other += 1
    return x * 2


@pytest.mark.parametrize(
    "step",
    [
        _adds,
        lambda x, other: other * 2,
        lambda x, other: other,
        lambda x, other: x * other.to_device(x.device),
        lambda x, other: x.to_device(other.device),
    ],
    ids=["writes", "works", "returns", "fetches", "sends"],
)
def test_a_captured_step_of_two_gpus_is_refused(step: Callable[[ck.Array, ck.Array], ck.Array]) -> None:
    x, other = ck.ones(3, device=GPUS[0]), ck.ones(3, device=GPUS[1])
    captured = ck.capture(lambda x: step(x, other))
    captured(x)
    with pytest.raises(ck.CaptureError, match="a step on cuda:0 works on cuda:1 as well"):
        captured(x)
    assert (x + 1).tolist() == [2, 2, 2]


def test_a_loss_fetches_its_targets() -> None:
    logits = RNG.standard_normal((4, 5))
    targets = ck.asarray([0, 4, 2, 2], device=GPUS[1])
    loss = ck.nn.cross_entropy(ck.asarray(logits, device=GPUS[0]), targets)
    assert_close(
        loss, ck.nn.cross_entropy(ck.asarray(logits, device="host"), targets.to_device("host")).numpy()
    )


def test_empty_arrays_keep_their_gpu() -> None:
    with GPUS[1].activate():
        theirs = GPUS[1].xp.zeros((0, 3))
    assert ck.asarray(theirs).device is GPUS[1]
    assert ck.zeros(0, device=GPUS[1]).to_device(GPUS[0]).device is GPUS[0]
