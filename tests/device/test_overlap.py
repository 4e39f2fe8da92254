"""Launches that begin while the kernel before them ends still read all that it wrote."""

from __future__ import annotations

import ctypes
import struct
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cukern as ck
from cukern.device.cuda import driver
from cukern.text import signature

# It lets the next launch begin at once, takes its time, and writes last what the next one's first blocks read.
SLOW = """extern "C" __global__ void << name >>(const int* x, int* y, int n, int turns) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
    int i = blockIdx.x * << block >> + threadIdx.x;
    if (i >= n) return;
    unsigned busy = x[i];
    for (int turn = 0; turn < turns; ++turn) busy = busy * 1664525u + 1013904223u;
    y[n - 1 - i] = x[i] + (busy != 12345u ? 1 : 2);
}
"""
N, LAUNCHES = 1000, 40


def steps(kernel: ck.Kernel, x: ck.Array, y: ck.Array) -> ck.Array:
    for _ in range(LAUNCHES // 2):
        kernel(x, y, N, 20_000 if x.device.kind == "cuda" else 3)
        kernel(y, x, N, 0)
    return x


@pytest.mark.parametrize("captured", [False, True])
def test_each_launch_sees_the_last_ones_writes(device: ck.Device, captured: bool) -> None:
    kernel = ck.Kernel(SLOW, name="slow", block=32)
    y = ck.zeros(N, "int32")
    run = ck.capture(lambda x: steps(kernel, x * 1, y)) if captured else lambda x: steps(kernel, x * 1, y)
    for first in (0, 7, 5):
        x = ck.arange(first, first + N, dtype="int32")
        np.testing.assert_array_equal(run(x).numpy(), np.arange(first, first + N) + LAUNCHES)


def mixed(kernel: ck.Kernel, turns: int) -> list[tuple[ck.Array, ck.Array, ck.Array]]:
    """The kernel with fills, products, copies and scans between its launches."""
    found = []
    for step in range(5):
        x, y = ck.full((N,), step, dtype="int32"), ck.zeros(N, "int32")
        kernel(x, y, N, turns)
        kernel(y, x, N, turns)
        product = ck.astype(x, "float32") @ ck.ones((N, 1))
        kernel(x, y, N, turns)
        found.append((product, y.copy(), ck.cumulative_sum(y)))
    return found


@pytest.mark.parametrize("captured", [False, True])
def test_with_other_work_between(device: ck.Device, captured: bool) -> None:
    """What waits for a whole kernel is right beside what does not."""
    kernel = ck.Kernel(SLOW, name="slow", block=32)
    turns = 20_000 if device.kind == "cuda" else 3
    run = ck.capture(lambda: mixed(kernel, turns)) if captured else lambda: mixed(kernel, turns)
    for _ in range(2):
        for step, (product, y, sums) in enumerate(run()):
            assert product.item() == N * (step + 2)
            np.testing.assert_array_equal(y.numpy(), np.full(N, step + 3))
            np.testing.assert_array_equal(sums.numpy(), np.cumsum(np.full(N, step + 3)))


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ('extern "C" __global__ void k(int* x)', " x[0] = 1; "),
        ('#line 7 "é.cu"\nextern "C" __global__ void __launch_bounds__(256, 2)\nk(int* x = nullptr)\n', "\n"),
        ('struct S { int a; };\nextern "C" { __global__ void __cluster_dims__(2, 1, 1) k(const S s) ', "} "),
    ],
)
def test_the_wait_is_the_first_statement(head: str, body: str) -> None:
    text = f"{head}{{{body}}}"
    made = driver.waiting(signature.parse(text))
    assert made == f"{head}{{{driver.WAIT}{body}}}"
    assert made.count("\n") == text.count("\n")


def test_a_kernel_with_its_own_wait_gets_no_other() -> None:
    kernel = ck.Kernel(
        """<% include "prelude/overlap.cuh" %>
extern "C" __global__ void << name >>(int* x) { wait_for_earlier_kernels(); x[0] = 1; }""",
        name="waits",
    )
    text = kernel.source(ck.zeros(1, "int32"))
    assert driver.waiting(signature.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("const float* x) { x[0]; }", True),
        ("const float* __restrict__ x) { x[0]; }", False),
        ("const float* __restrict x) { x[0]; }", False),
        ("const float* x) { __ldg(x); }", False),
        ('const float* x) { asm("ld.global.cs.nc.f32 %0, [%1];"); }', False),
        ('const float* x) { asm("ld.global.cs.f32 %0, [%1];"); }', True),
        ("const float* x__restrict) { x__restrict[0]; }", True),
    ],
)
def test_a_kernel_that_may_read_before_the_wait_does_not_overlap(text: str, expected: bool) -> None:
    assert driver.may_overlap(signature.parse(f'extern "C" __global__ void k({text}')) is expected


class Driver:
    """Keeps what a launch was given; its calls give ``statuses``, then success."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.seen: list[Any] = []
        self.used: list[int] = []
        self.cupy = SimpleNamespace(
            cuda=SimpleNamespace(
                get_current_stream=lambda index=-1: SimpleNamespace(ptr=0x5EED),
                Device=lambda index: SimpleNamespace(use=lambda: self.used.append(index)),
            )
        )

    def cuLaunchKernelEx(self, config: Any, kernel: Any, parameters: Any, extra: Any) -> int:
        attributes = ctypes.c_void_p.from_address(config.value + 40).value
        (count,) = struct.unpack("I", ctypes.string_at(config.value + 48, 4))
        first = struct.unpack("I4xi", ctypes.string_at(attributes, 12))
        sizes, stream = ctypes.string_at(config.value, 28), ctypes.string_at(config.value + 32, 8)
        value = ctypes.string_at(parameters.value, 8)
        self.seen.append((struct.unpack("7I", sizes), struct.unpack("Q", stream)[0], first[:count] and first))
        assert (kernel.value, extra.value, value) == (77, None, struct.pack("q", 42))
        return self.statuses.pop(0) if self.statuses else 0


class Failure(RuntimeError):
    """Stands for CuPy's error of the driver."""


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("statuses", [(), (201,), (3,), (1,), (201, 700)])
def test_what_the_driver_is_given(
    monkeypatch: pytest.MonkeyPatch, overlap: bool, statuses: tuple[int, ...]
) -> None:
    """CUDA's layout of a launch; a thread without a context tries again; other statuses are errors."""
    fake = Driver(*statuses)
    monkeypatch.setattr(driver, "library", lambda: fake)
    monkeypatch.setitem(
        sys.modules, "cupy_backends.cuda.api.driver", SimpleNamespace(CUDADriverError=Failure)
    )
    memory, sizes = bytearray(8), (5, 6, 7, 32, 2, 1, 4096)
    pack = struct.Struct("q").pack_into
    launch = driver.launcher(fake.cupy, 3, 77, sizes, memory, lambda x: pack(memory, 0, x), (), overlap)
    if statuses and statuses[-1] not in (201, 3):
        with pytest.raises(Failure, match=str(statuses[-1])):
            launch(42)
    else:
        launch(42)
    again = statuses[:1] in ((201,), (3,))
    assert fake.seen == [(sizes, 0x5EED, (6, 1) if overlap else ())] * (1 + again)
    assert fake.used == [3] * again
