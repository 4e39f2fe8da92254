"""What checked launches cost on the host: the times of launches and of compilers, beside unchecked ones.

    python benchmarks/checked_cost.py        # a Markdown table

Each kernel runs on the same arrays both ways, by one thread, checked once in the threads' order, and its results are
compared. The goal is 300 times for elementwise kernels, 50 for those with barriers, and 1.5 times for the compiler.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import cukern as ck
from cukern.testing import checked


class Case(NamedTuple):
    """A kernel, and how to launch it."""

    name: str
    goal: int
    text: str
    block: int
    grid: tuple[int, ...] | int
    arguments: tuple[Any, ...]


def cases(n: int) -> list[Case]:
    """Elementwise kernels of ``n`` elements, and kernels with barriers of about as many operations."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(n, dtype=np.float32)
    side = 192
    a, b = rng.standard_normal((2, side, side), dtype=np.float32)
    rows = n // 512
    head = 'extern "C" __global__ void << name >>'
    return [
        Case("y = 2 x + 1", 300, head + """(const float* x, float* y, int n) {
            const int i = blockIdx.x * << block >> + threadIdx.x;
            if (i < n) y[i] = 2 * x[i] + 1;
        }""", 256, -(-n // 256), (x, np.empty_like(x), n)),
        Case("y = exp(x), grid-stride", 300, head + """(const float* x, float* y, int n) {
            for (int i = blockIdx.x * << block >> + threadIdx.x; i < n; i += << block >> * gridDim.x) y[i] = expf(x[i]);
        }""", 256, 64, (x, np.empty_like(x), n)),
        Case("sums of rows, a tree", 50, head + """(const float* x, float* y) {
            __shared__ float own[<< block >>];
            const int i = threadIdx.x;
            own[i] = x[blockIdx.x * 2 * << block >> + i] + x[(blockIdx.x * 2 + 1) * << block >> + i];
            for (int step = << block >> / 2; step; step /= 2) {
                __syncthreads();
                if (i < step) own[i] += own[i + step];
            }
            if (i == 0) y[blockIdx.x] = own[0];
        }""", 256, rows, (x[: rows * 512], np.empty(rows, np.float32))),
        Case("a transpose by tiles", 50, head + """(const float* x, float* y, int n) {
            __shared__ float tile[16][17];
            const int r = threadIdx.x / 16, c = threadIdx.x % 16;
            tile[r][c] = x[(blockIdx.y * 16 + r) * n + blockIdx.x * 16 + c];
            __syncthreads();
            y[(blockIdx.x * 16 + r) * n + blockIdx.y * 16 + c] = tile[c][r];
        }""", 256, (side // 16, side // 16), (a, np.empty_like(a), side)),
        Case("a product by tiles", 50, head + """(const float* a, const float* b, float* c, int n) {
            __shared__ float left[16][16], right[16][16];
            const int r = threadIdx.x / 16, k = threadIdx.x % 16;
            const int row = blockIdx.y * 16 + r, column = blockIdx.x * 16 + k;
            float sum = 0;
            for (int first = 0; first < n; first += 16) {
                left[r][k] = a[row * n + first + k];
                right[r][k] = b[(first + r) * n + column];
                __syncthreads();
                for (int i = 0; i < 16; ++i) sum += left[r][i] * right[i][k];
                __syncthreads();
            }
            c[row * n + column] = sum;
        }""", 256, (side // 16, side // 16), (a, b, np.empty_like(a), side)),
        Case("sums of rows by warps", 50, head + """(const float* x, float* y) {
            __shared__ float of_warps[<< block >> / 32];
            const float* const row = x + blockIdx.x * 2 * << block >> + threadIdx.x;
            float sum = row[0] + row[<< block >>];
            for (int apart = 16; apart; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
            if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
            __syncthreads();
            if (threadIdx.x) return;
            for (int i = 1; i < << block >> / 32; ++i) sum += of_warps[i];
            y[blockIdx.x] = sum;
        }""", 256, rows, (x[: rows * 512], np.empty(rows, np.float32))),
    ]  # fmt: skip


def seconds(launch: Any, repeats: int) -> float:
    """The least of some times of processors, which other programs disturb less than the clock."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        launch()
        times.append(time.process_time() - began)
    return min(times)


def of_library(n: int) -> list[tuple[str, int, Callable[[], ck.Array]]]:
    """Calls of the library: what they are, the goal, and what makes their results."""
    rng = np.random.default_rng(0)
    rows, x = (
        ck.asarray(rng.standard_normal(shape, dtype=np.float32))
        for shape in ((max(1, n // 1024), 1024), (n,))
    )
    return [
        (f"`ck.nn.softmax` of {rows.shape[0]} x 1024", 50, lambda: ck.nn.softmax(rows)),
        ("`ck.sum` of all", 50, lambda: ck.sum(x)),
        ("`ck.tanh`", 300, lambda: ck.tanh(x)),
    ]


def compared(launch: Callable[[], ck.Array], repeats: int) -> tuple[float, float]:
    """Seconds of unchecked and of checked launches, whose results are the same."""
    want = launch().numpy().copy()
    plain = seconds(launch, 5 * repeats)
    with checked(seeds=1):
        made = launch()
        found = seconds(launch, repeats)
    np.testing.assert_array_equal(made.numpy(), want)
    return plain, found


def measured(case: Case, repeats: int) -> tuple[float, float]:
    """Seconds of an unchecked and of a checked launch of a kernel."""
    kernel = ck.Kernel(case.text, name="cost", block=case.block)
    arguments = [ck.asarray(one) if isinstance(one, np.ndarray) else one for one in case.arguments]
    made = next(one for one in reversed(arguments) if isinstance(one, ck.Array))

    def launch() -> ck.Array:
        kernel(*arguments, grid=case.grid)
        return made

    return compared(launch, repeats)


def child_seconds(case: Case, watched: bool, name: str = "cost") -> float:
    """Seconds of processors that the compiler takes, which is a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    kernel = ck.Kernel(case.text, name=name, block=case.block, checked=watched)
    arguments = [ck.asarray(one) if isinstance(one, np.ndarray) else one for one in case.arguments]
    kernel(*arguments, grid=case.grid)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--elements", type=int, default=1 << 18)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache, ck.device("host"):
        os.environ |= {"CUKERN_CACHE_DIR": cache, "CUKERN_QUICK_BUILDS": "0"}
        warm = Case(
            "",
            0,
            'extern "C" __global__ void << name >>(float* y) { y[0] = 1; }',
            1,
            1,
            (np.zeros(1, np.float32),),
        )
        child_seconds(warm, False), child_seconds(warm, True)  # the runtimes themselves
        print(
            "| kernel | unchecked, ms | checked, ms | times | goal | compiler, unchecked, s | checked, s | times |"
        )
        print("| --- " * 8 + "|")
        for case in cases(options.elements):
            usual, watched = (
                min(child_seconds(case, one, f"cost{i}") for i in range(options.repeats))
                for one in (False, True)
            )
            plain, found = measured(case, options.repeats)
            print(
                f"| {case.name} | {1e3 * plain:.3f} | {1e3 * found:.1f} | {found / plain:.0f} | {case.goal} | "
                f"{usual:.2f} | {watched:.2f} | {watched / usual:.2f} |",
                flush=True,
            )
        for name, goal, call in of_library(options.elements):
            plain, found = compared(call, options.repeats)
            print(
                f"| {name} | {1e3 * plain:.3f} | {1e3 * found:.1f} | {found / plain:.0f} | {goal} | | | |",
                flush=True,
            )


if __name__ == "__main__":
    main()
