"""Launches of a kernel for arguments of a form that came before: they skip checks, and none that could fail."""

from __future__ import annotations

import sys
import types
from types import FrameType
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.cache import Cache
from cukern.device import capture_hooks
from cukern.device.recording import library
from cukern.launch import replayed

SCALE = """
extern "C" __global__ void << name >>(const << elem >>* x, << elem >>* y, << elem >> a, int n) {
    const int i = blockIdx.x * << block >> + threadIdx.x;
    if (i < n) y[i] = a * x[i];
}
"""


@pytest.fixture
def scale(device: ck.Device) -> ck.Kernel:
    """A kernel that has run for float32 arrays of four elements."""
    kernel = ck.Kernel(SCALE, name="scale")
    x, y = ck.asarray([1.0, 2.0, 3.0, 4.0], device=device), ck.zeros(4, device=device)
    kernel(x, y, 2.0, 4)
    kernel(x, y, 2.0, 4)
    assert y.tolist() == [2, 4, 6, 8]
    return kernel


def test_arrays_and_numbers_change_from_launch_to_launch(device: ck.Device, scale: ck.Kernel) -> None:
    for factor in (3.0, -1.0, 0.5):
        x, y = ck.asarray([1.0, 5.0, 0.0, factor], device=device), ck.zeros(4, device=device)
        scale(x, y, factor, 4)
        assert y.tolist() == [factor, 5 * factor, 0, factor * factor]
    scale(x, y, 9.0, 1)  # fewer elements
    assert y.tolist() == [9, 2.5, 0, 0.25]


@pytest.mark.unchecked_only("threads along y do the same, which is reported")
def test_a_form_has_dtypes_shapes_grid_block_and_types_of_variables(device: ck.Device) -> None:
    text = """extern "C" __global__ void << name >>(float* y) {
        if (threadIdx.x == 0) y[blockIdx.x] = << half >> / 2 + 10 * << block >>; }"""
    kernel = ck.Kernel(text, block=1, name="forms")
    y = ck.zeros(2, device=device)
    for half, block, grid, expected in (
        (1, 1, 1, [10.0, 0.0]), (1.0, 1, 1, [10.5, 0.0]), (1, 4, 2, [40.0, 40.0]), (1, (4, 2), (1,), [80.0, 0.0]),
        (1, 1, 2, [10.0, 10.0]), (1.0, 1, (2, 1), [10.5, 10.5]),
    ):  # fmt: skip
        for _ in range(2):
            y[:] = 0.0
            kernel(y, half=half, block=block, grid=grid)
            assert y.tolist() == expected, (half, block, grid)


def test_what_a_form_does_not_say_is_still_refused(device: ck.Device, scale: ck.Kernel) -> None:
    x, y = ck.asarray([1.0, 2.0, 3.0, 4.0], device=device), ck.zeros(4, device=device)
    whole = ck.zeros(9, device=device)
    with pytest.raises(
        ck.LaunchError, match="argument y is written, and its memory overlaps that of argument x"
    ):
        scale(x, x, 2.0, 4)
    for first, second in ((whole[:4], whole[3:7]), (whole[3:7], whole[:4])):
        scale(first, y, 2.0, 4)
        scale(x, second, 2.0, 4)
        with pytest.raises(ck.LaunchError, match="argument y is written"):
            scale(first, second, 2.0, 4)
    with pytest.raises(ck.LaunchError, match="argument n: 2147483648 is out of range for int"):
        scale(x, y, 2.0, 2**31)
    with pytest.raises(ck.LaunchError, match="argument n: expected a number"):
        scale(x, y, 2.0, x)
    with pytest.raises(ck.LaunchError, match="y: expected dtype float32"):
        scale(x, ck.zeros(4, "float64", device), 2.0, 4)
    with pytest.raises(ck.LaunchError, match="must be contiguous"):
        scale(x, ck.zeros(8, device=device)[::2], 2.0, 4)
    with pytest.raises(ck.LaunchError, match="expected 4 arguments"):
        scale(x, y, 2.0)
    with pytest.raises(ck.LaunchError, match="grid"):
        scale(x, y, 2.0, 4, grid=1.0)
    with pytest.raises(ck.LaunchError, match="shared"):
        scale(x, y, 2.0, 4, shared=-1)
    assert x.tolist() == [1, 2, 3, 4]


def test_a_shared_constant_is_not_written(device: ck.Device, scale: ck.Kernel) -> None:
    x = ck.asarray([1.0, 2.0, 3.0, 4.0], device=device)
    y = ck.zeros(4, device=device)
    y._storage.constant = True
    with pytest.raises(ck.LaunchError, match="is a constant that others share"):
        scale(x, y, 2.0, 4)
    assert y.tolist() == [0, 0, 0, 0]


def test_tapes_hear_of_each_launch(device: ck.Device, scale: ck.Kernel) -> None:
    x, y = ck.asarray([1.0, 2.0, 3.0, 4.0], device=device), ck.zeros(4, device=device)
    with ck.Tape() as tape:
        tape.watch(x)
        scale(x, y, 2.0, 4)
        total = y.sum()
    with pytest.raises(ck.GradientError, match="scale"):
        tape.gradient(total, x)
    with ck.Tape() as tape:
        tape.watch(x)
        total = (x * y).sum()
        scale(ck.ones(4, device=device), y, 7.0, 4)
    with pytest.raises(ck.GradientError, match="scale"):
        tape.gradient(total, x)


def test_null_pointers_and_contiguous_copies(device: ck.Device) -> None:
    text = """extern "C" __global__ void << name >>(const float* x, float* y) {
        y[threadIdx.x] = x ? x[threadIdx.x] : -1.0f; }"""
    kernel, y = ck.Kernel(text, block=3, name="or_null"), ck.zeros(3, device=device)
    x = ck.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], device=device)
    for given, expected in (
        (None, [-1.0] * 3),
        (x[0], [1.0, 2.0, 3.0]),
        (x.reshape(6)[::2], [1.0, 3.0, 5.0]),
    ) * 2:
        kernel(given, y, grid=1)
        assert y.tolist() == expected


def test_each_kernel_of_a_text_has_forms_of_its_own(device: ck.Device) -> None:
    text = """__global__ void one(float* x) { x[threadIdx.x] = 1; }
    __global__ void two(float* x) { x[threadIdx.x] = 2; }"""
    both, x = ck.Kernel(text, block=2, plain=True), ck.zeros(2, device=device)
    for _ in range(2):
        for name, value in (("one", 1.0), ("two", 2.0)):
            both[name](x, grid=1)
            assert x.tolist() == [value, value]


@pytest.mark.unchecked_only("checked launches take more of them")
def test_a_repeated_launch_is_few_calls_of_python(device: ck.Device, scale: ck.Kernel) -> None:
    x, y = ck.ones(4, device=device), ck.zeros(4, device=device)
    scale(x, y, 2.0, 4)
    calls = []

    def seen(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        scale(x, y, 3.0, 4)
    finally:
        sys.setprofile(before)
    np.testing.assert_array_equal(y.numpy(), [3, 3, 3, 3])
    assert len(calls) <= 20, calls


class _Recorder:
    """A capture in progress."""


class _Gpu:
    """A device with streams and graphs."""

    addressable, index = False, 0
    xp = types.SimpleNamespace(
        products=None,
        cuda=types.SimpleNamespace(Stream=library._Stream, get_current_stream=library._Stream),
    )


@pytest.mark.unchecked_only("checked launches are not replayed")
def test_launches_at_addresses_that_came_before_are_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replayed, "_graphs", Cache(8))
    gpu: Any = _Gpu()
    made: list[str] = []
    ran: list[str] = []

    def run(key: str) -> tuple[list[str], list[str]]:
        made.clear()
        ran.clear()

        def launches() -> None:
            made.append(key)
            library.do(lambda: ran.append(key))

        replayed.replayed(gpu, key, launches)
        return list(made), list(ran)

    # Made, then recorded and replayed, then replayed.
    for key in ("a", "b"):
        assert [run(key) for _ in range(4)] == [([key], [key]), ([key], [key]), ([], [key]), ([], [key])]
    # The host, kernels only and a capture are told of every launch.
    for _ in range(3):
        gpu.addressable = True
        assert run("a") == (["a"], ["a"])
        gpu.addressable = False
        with ck.kernels_only():
            assert run("a") == (["a"], ["a"])
        capture_hooks.begin(_Recorder())  # type: ignore[arg-type]
        try:
            assert run("a") == (["a"], ["a"])
        finally:
            capture_hooks.begin(None)
    with ck.matmul_precision("tf32"):
        assert run("a") == (["a"], ["a"])
    assert run("a") == ([], ["a"])
    # What a graph cannot record is launched each time.

    def refuse(self: object) -> None:
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(library._Stream, "begin_capture", refuse)
    assert [run("d") for _ in range(3)] == [(["d"], ["d"])] * 3
    assert capture_hooks.recorder() is None
