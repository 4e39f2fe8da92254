"""Launches that begin while the kernel before them ends still read all that it wrote."""

from __future__ import annotations

import numpy as np
import pytest

import cukern as ck
from cukern import signature
from cukern.device import driver
from cukern.device.base import Unit

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


def test_with_other_work_between(device: ck.Device) -> None:
    """Copies, products and the functions of the library wait for a kernel that lets them begin, and it for them."""
    kernel = ck.Kernel(SLOW, name="slow", block=32)
    turns = 20_000 if device.kind == "cuda" else 3
    x, y = ck.zeros(N, "int32"), ck.zeros(N, "int32")
    for step in range(5):
        x[:] = step
        kernel(x, y, N, turns)
        assert y.tolist() == [step + 1] * N
        kernel(y, x, N, turns)
        product = ck.astype(x, "float32") @ ck.ones((N, 1))
        kernel(x, y, N, turns)
        np.testing.assert_array_equal(ck.cumulative_sum(y).numpy(), np.cumsum(np.full(N, step + 3)))
        assert product.item() == N * (step + 2)


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
    parsed = signature.parse(text)
    made = driver.waiting(Unit(text, parsed.signature, parsed.body, parsed.calls))
    wait = ' asm volatile("griddepcontrol.wait;" ::: "memory");'
    assert made == f"{head}{{{wait}{body}}}"
    assert made.count("\n") == text.count("\n")
