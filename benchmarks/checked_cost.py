"""What checked launches cost on the host: the times of launches and of compilers, beside unchecked ones.

    python benchmarks/checked_cost.py        # a Markdown table

Each kernel runs on the same arrays both ways, by one thread, checked once in the threads' order, and its results are
compared. The goal is 50 times, and 1.5 times for the compiler.
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
    #: Which of them are set to zero before each launch.
    zeroed: tuple[int, ...] = ()


def cases(n: int) -> list[Case]:
    """Elementwise kernels of ``n`` elements, and kernels with barriers of about as many operations."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(n, dtype=np.float32)
    side = 192
    a, b = rng.standard_normal((2, side, side), dtype=np.float32)
    rows = n // 512
    head = 'extern "C" __global__ void << name >>'
    return [
        Case("y = 2 x + 1", 50, head + """(const float* x, float* y, int n) {
            const int i = blockIdx.x * << block >> + threadIdx.x;
            if (i < n) y[i] = 2 * x[i] + 1;
        }""", 256, -(-n // 256), (x, np.empty_like(x), n)),
        Case("y = exp(x), grid-stride", 50, head + """(const float* x, float* y, int n) {
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


def atomic_cases(n: int) -> list[Case]:
    """Kernels whose threads and blocks wait for others, or read what others change by atomic operations."""
    rng = np.random.default_rng(0)
    x = rng.integers(-8, 9, n).astype(np.int32)
    keys = rng.integers(0, 256, n).astype(np.int32)
    blocks, few = n // 512, n // 8
    head = 'extern "C" __global__ void << name >>'
    return [
        Case("a sum of all by the last block", 50, head + """(const int* x, int* part, unsigned* count, int* y) {
            __shared__ int own[<< block >>];
            __shared__ bool last;
            const int i = threadIdx.x;
            own[i] = x[blockIdx.x * 2 * << block >> + i] + x[(blockIdx.x * 2 + 1) * << block >> + i];
            for (int step = << block >> / 2; step; step /= 2) {
                __syncthreads();
                if (i < step) own[i] += own[i + step];
            }
            if (i == 0) {
                part[blockIdx.x] = own[0];
                __threadfence();
                last = atomicAdd(count, 1u) == gridDim.x - 1;
            }
            __syncthreads();
            if (!last) return;
            int sum = 0;
            for (int k = i; k < gridDim.x; k += << block >>) sum += part[k];
            own[i] = sum;
            for (int step = << block >> / 2; step; step /= 2) {
                __syncthreads();
                if (i < step) own[i] += own[i + step];
            }
            if (i == 0) y[0] = own[0];
        }""", 256, blocks, (
            x[: blocks * 512], np.zeros(blocks, np.int32), np.zeros(1, np.uint32), np.zeros(1, np.int32)), (2,)),
        Case("a scan that looks back", 50, head + """(const int* x, volatile unsigned long long* state, int* y) {
            constexpr unsigned long long one = 0x100000000ull;
            __shared__ int own[<< block >>], before;
            const int i = threadIdx.x, at = blockIdx.x * << block >> + i;
            own[i] = x[at];
            for (int step = 1; step < << block >>; step *= 2) {
                __syncthreads();
                const int more = i >= step ? own[i - step] : 0;
                __syncthreads();
                own[i] += more;
            }
            if (i == << block >> - 1) {
                state[blockIdx.x] = one | (unsigned)own[i];
                int sum = 0;
                for (int k = blockIdx.x - 1; k >= 0; --k) {
                    unsigned long long word;
                    while ((word = state[k]) < one) ;
                    sum += (int)word;
                    if (word >= 2 * one) break;
                }
                state[blockIdx.x] = 2 * one | (unsigned)(own[i] + sum);
                before = sum;
            }
            __syncthreads();
            y[at] = own[i] + before;
        }""", 256, n // 256, (x, np.zeros(n // 256, np.uint64), np.zeros(n, np.int32)), (1,)),
        Case("a histogram of each block, then of all", 50, head + """(const int* x, int* y) {
            __shared__ int own[256];
            own[threadIdx.x] = 0;
            __syncthreads();
            for (int k = 0; k < 8; ++k) atomicAdd(&own[x[(blockIdx.x * 8 + k) * << block >> + threadIdx.x]], 1);
            __syncthreads();
            atomicAdd(&y[threadIdx.x], own[threadIdx.x]);
        }""", 256, n // 2048, (keys, np.zeros(256, np.int32)), (1,)),
        Case("largest by keys, looked at first", 50, head + """(const int* x, const int* keys, int* y, int n) {
            const int i = blockIdx.x * << block >> + threadIdx.x;
            if (i < n && y[keys[i]] < x[i]) atomicMax(&y[keys[i]], x[i]);
        }""", 256, -(-n // 256), (x, keys, np.zeros(256, np.int32), n), (2,)),
        Case("float sums by compare and swap", 50, head + """(const int* keys, float* y, int n) {
            const int i = blockIdx.x * << block >> + threadIdx.x;
            if (i >= n) return;
            unsigned* const at = (unsigned*)&y[keys[i]];
            unsigned seen = *at, old;
            do {
                old = seen;
                seen = atomicCAS(at, old, __float_as_uint(__uint_as_float(old) + 1));
            } while (seen != old);
        }""", 256, -(-few // 256), (keys[:few], np.zeros(256, np.float32), few), (1,)),
        Case("a table of keys", 50, head + """(const int* keys, int* table, int* places, int n) {
            const int i = blockIdx.x * << block >> + threadIdx.x;
            if (i >= n) return;
            const int key = keys[i] + 1;
            for (int at = key * 7 % 1024;; at = (at + 1) % 1024) {
                int there = table[at];
                if (there == 0) there = atomicCAS(&table[at], 0, key);
                if (there == 0 || there == key) { places[i] = at; return; }
            }
        }""", 256, -(-few // 256), (keys[:few], np.zeros(1024, np.int32), np.zeros(few, np.int32), few), (1,)),
        Case("a list, whose length is looked at first", 50, head + """(
            const int* x, int* list, int* length, int n, int most) {
            const int i = blockIdx.x * << block >> + threadIdx.x;
            if (i >= n || x[i] < 4 || *length >= most) return;
            const int at = atomicAdd(length, 1);
            if (at < most) list[at] = x[i];
        }""", 256, -(-n // 256), (x, np.zeros(n, np.int32), np.zeros(1, np.int32), n, n // 2), (2,)),
        Case("two warps by turns, mbarriers", 50, '<% include "prelude/mbarrier.cuh" %>' + head + """(
            const int* x, int* y, int turns) {
            __shared__ MBarrier full, empty;
            __shared__ int value[32];
            if (threadIdx.x == 0) mbarrier_init(&full, 32), mbarrier_init(&empty, 32), fence_mbarrier_init();
            __syncthreads();
            int sum = 0;
            for (int i = 0; i < turns; ++i) {
                mbarrier_wait(threadIdx.x < 32 ? &empty : &full, threadIdx.x < 32 ? i % 2 ^ 1 : i % 2);
                if (threadIdx.x < 32) value[threadIdx.x] = x[32 * (turns * blockIdx.x + i) + threadIdx.x];
                else for (int one : value) sum += one;
                mbarrier_arrive(threadIdx.x < 32 ? &full : &empty);
            }
            if (threadIdx.x >= 32) y[32 * blockIdx.x + threadIdx.x - 32] = sum;
        }""", 64, 4, (x[: n // 8], np.zeros(128, np.int32), n // 8 // 128)),
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
    weight, bias = ck.ones(1024), ck.zeros(1024)
    return [
        (f"`ck.nn.softmax` of {rows.shape[0]} x 1024", 50, lambda: ck.nn.softmax(rows)),
        (
            f"`ck.nn.layer_norm` of {rows.shape[0]} x 1024",
            50,
            lambda: ck.nn.layer_norm(rows, 1024, weight, bias),
        ),
        (
            f"`ck.nn.rms_norm` of {rows.shape[0]} x 1024",
            50,
            lambda: ck.nn.rms_norm(rows, 1024, weight),
        ),
        ("`ck.sum` of all", 50, lambda: ck.sum(x)),
        ("`ck.tanh`", 50, lambda: ck.tanh(x)),
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
        for number in case.zeroed:
            arguments[number][...] = 0
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
        for case in (*cases(options.elements), *atomic_cases(options.elements)):
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
