"""Right kernels of the kinds that a check of races or of unset memory may take for wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import cukern as ck


@dataclass(frozen=True)
class Idiom:
    """A kernel, its arguments, of which the last array is the result, and what that should be."""

    name: str
    body: str
    args: Callable[[], list[Any]]
    wanted: Callable[[], Any]
    launch: dict[str, Any] = field(default_factory=dict)
    before: str = ""

    def run(self) -> np.ndarray:
        options = dict(self.launch)
        text = f'{self.before}\nextern "C" __global__ void << name >>{self.body}'
        args = self.args()
        ck.Kernel(text, name="idiom", block=options.pop("block", 64))(*args, **options)
        result: np.ndarray = next(arg for arg in reversed(args) if isinstance(arg, ck.Array)).numpy()
        return result


def _x(n: int) -> ck.Array:
    return ck.arange(n, dtype=ck.float32)


IDIOMS = [
    Idiom("compare and swap", """(const float* x, float* y) {
    unsigned* at = (unsigned*)y;
    unsigned old = *at, seen;
    do {
        seen = old;
        old = atomicCAS(at, seen, __float_as_uint(fmaxf(__uint_as_float(seen), x[blockIdx.x * 64 + threadIdx.x])));
    } while (old != seen);
}""", lambda: [_x(256), ck.zeros(1)], lambda: [255], {"grid": 4}),
    Idiom("a volatile flag between blocks", """(volatile int* flag, int* y) {
    if (threadIdx.x) return;
    if (blockIdx.x == 0) { y[0] = 7; __threadfence(); *flag = 1; return; }
    while (*flag == 0) ;
    __threadfence();
    y[1] = y[0] + 1;
}""", lambda: [ck.zeros(1, dtype="int32"), ck.zeros(2, dtype="int32")], lambda: [7, 8], {"grid": 2}),
    Idiom("a volatile flag between warps", """(int* y) {
    __shared__ volatile int flag;
    __shared__ int value;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    if (threadIdx.x == 63) { value = 5; __threadfence_block(); flag = 1; }
    if (threadIdx.x == 0) { while (!flag) ; __threadfence_block(); y[0] = value; }
}""", lambda: [ck.zeros(1, dtype="int32")], lambda: [5], {"grid": 1}),
    Idiom("a chain of flags between warps", """(int* y) {
    __shared__ volatile int first, second;
    __shared__ int value[2];
    if (threadIdx.x == 0) first = second = 0;
    __syncthreads();
    if (threadIdx.x == 64) { value[0] = 5; __threadfence_block(); first = 1; }
    if (threadIdx.x == 32) { while (!first) ; value[1] = 2; __threadfence_block(); second = 1; }
    if (threadIdx.x == 0) { while (!second) ; __threadfence_block(); y[0] = value[0] + value[1]; }
}""", lambda: [ck.zeros(1, dtype="int32")], lambda: [7], {"grid": 1, "block": 96}),
    Idiom("a chain of flags between blocks", """(volatile int* flags, int* y) {
    if (threadIdx.x) return;
    if (blockIdx.x) { while (!flags[blockIdx.x - 1]) ; __threadfence(); }
    y[blockIdx.x] = blockIdx.x ? y[0] + y[blockIdx.x / 2] : 5;
    __threadfence();
    flags[blockIdx.x] = 1;
}""", lambda: [ck.zeros(6, dtype="int32"), ck.zeros(6, dtype="int32")], lambda: [5, 10, 15, 15, 20, 20], {"grid": 6}),
    Idiom("the last block adds up", """(const float* x, volatile float* part, unsigned* count, float* y) {
    __shared__ bool last;
    __shared__ float s[64];
    const int t = threadIdx.x;
    s[t] = x[blockIdx.x * 64 + t];
    __syncthreads();
    for (int half = 32; half; half /= 2) { if (t < half) s[t] += s[t + half]; __syncthreads(); }
    if (t == 0) {
        part[blockIdx.x] = s[0];
        __threadfence();
        last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last) return;
    s[t] = t < gridDim.x ? part[t] : 0;
    __syncthreads();
    for (int half = 32; half; half /= 2) { if (t < half) s[t] += s[t + half]; __syncthreads(); }
    if (t == 0) y[0] = s[0];
}""", lambda: [_x(320), ck.empty(5), ck.zeros(1, dtype="uint32"), ck.empty(1)], lambda: [320 * 319 / 2], {"grid": 5}),
    Idiom("the last block sets its counter back", """(const float* x, volatile float* part, unsigned* count, float* y) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        part[blockIdx.x] = x[blockIdx.x];
        __threadfence();
        last = atomicInc(count, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last || threadIdx.x) return;
    for (int b = 0; b < gridDim.x; ++b) *y += part[b];
    *count = 0;
}""", lambda: [_x(5), ck.zeros(5), ck.zeros(1, dtype="uint32"), ck.zeros(1)], lambda: [10], {"grid": 5}),
    Idiom("a counter that its first user sets", """(const int* x, int* ready, int* sum) {
    if (threadIdx.x) return;
    if (blockIdx.x == 0) { *sum = 0; atomicAdd(sum, x[0]); __threadfence(); atomicExch(ready, 1); return; }
    while (atomicAdd(ready, 0) == 0) ;
    __threadfence();
    atomicAdd(sum, x[blockIdx.x]);
}""", lambda: [ck.arange(6, dtype="int32"), ck.zeros(1, dtype="int32"), ck.ones(1, dtype="int32")], lambda: [15], {"grid": 6}),
    Idiom("all threads' fences before the last block", """(const float* x, float* part, unsigned* count, float* y) {
    __shared__ bool last;
    const int t = threadIdx.x;
    part[blockIdx.x * 64 + t] = x[blockIdx.x * 64 + t];
    __threadfence();
    __syncthreads();
    if (t == 0) last = atomicAdd(count, 1u) == gridDim.x - 1;
    __syncthreads();
    if (last) { float sum = 0; for (int b = 0; b < gridDim.x; ++b) sum += part[b * 64 + t]; y[t] = sum; }
}""", lambda: [_x(256), ck.empty(256), ck.zeros(1, dtype="uint32"), ck.empty(64)],
          lambda: np.arange(256.0).reshape(4, 64).sum(0), {"grid": 4}),
    Idiom("decoupled look-back", """(const int* x, unsigned long long* state, unsigned* ticket, int* y) {
    __shared__ unsigned block;
    __shared__ int s[64], before;
    const int t = threadIdx.x;
    if (t == 0) block = atomicAdd(ticket, 1u);
    __syncthreads();
    s[t] = x[block * 64 + t];
    __syncthreads();
    for (int d = 1; d < 64; d *= 2) {
        int v = t >= d ? s[t - d] : 0;
        __syncthreads();
        s[t] += v;
        __syncthreads();
    }
    if (t == 0) {
        volatile unsigned long long* all = state;
        all[block] = shl((block ? 1ull : 2ull), 32) | (unsigned)s[63];
        int sum = 0;
        for (int b = (int)block - 1; b >= 0; --b) {
            unsigned long long found;
            while (((found = all[b]) >> 32) == 0) ;
            sum += (int)(unsigned)found;
            if (found >> 32 == 2) break;
        }
        all[block] = shl(2ull, 32) | (unsigned)(sum + s[63]);
        before = sum;
    }
    __syncthreads();
    y[block * 64 + t] = before + s[t];
}""", lambda: [ck.arange(320, dtype="int32"), ck.zeros(5, dtype="uint64"), ck.zeros(1, dtype="uint32"), ck.empty(320, "int32")],
          lambda: np.cumsum(np.arange(320)), {"grid": 5}),
    Idiom("blocks add in turn", """(const float* x, int* turn, float* y) {
    if (threadIdx.x == 0) while (atomicAdd(turn, 0) != blockIdx.x) ;
    __syncthreads();
    y[threadIdx.x] += x[blockIdx.x * 64 + threadIdx.x];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) atomicExch(turn, blockIdx.x + 1);
}""", lambda: [_x(256), ck.zeros(1, dtype="int32"), ck.zeros(64)], lambda: np.arange(256.0).reshape(4, 64).sum(0), {"grid": 4}),
    Idiom("a lock", """(int* lock, int* y) {
    if (threadIdx.x % 32) return;
    while (atomicCAS(lock, 0, 1)) ;
    __threadfence();
    y[0] += 1;
    __threadfence();
    atomicExch(lock, 0);
}""", lambda: [ck.zeros(1, dtype="int32"), ck.zeros(1, dtype="int32")], lambda: [6], {"grid": 3}),
    Idiom("a warp in step", """(const float* x, float* y) {
    __shared__ float s[64];
    const int t = threadIdx.x, lane = t % 32;
    s[t] = x[t];
    __syncwarp();
    for (int d = 16; d; d /= 2) {
        float v = lane < d ? s[t + d] : 0;
        __syncwarp();
        if (lane < d) s[t] += v;
        __syncwarp();
    }
    if (lane == 0) y[t / 32] = s[t];
}""", lambda: [_x(64), ck.empty(2)], lambda: [496, 1520], {"grid": 1}),
    Idiom("half a warp in step", """(const float* x, float* y) {
    __shared__ float s[32];
    const int t = threadIdx.x;
    const unsigned mask = t < 16 ? 0xffffu : 0xffff0000u;
    s[t] = x[t];
    __syncwarp(mask);
    y[t] = s[t ^ 5];
}""", lambda: [_x(32), ck.empty(32)], lambda: np.arange(32) ^ 5, {"grid": 1, "block": 32}),
    Idiom("lanes that are missing, of whose values nothing is made", """(const int* x, int* y, int n) {
    const int t = threadIdx.x;
    if (t >= n) return;
    int sum = x[t];
    for (int d = 16; d; d /= 2) {
        const int other = __shfl_down_sync(0xfffffu, sum, d);
        if (t + d < n) sum += other;
    }
    if (t == 0) y[0] = sum;
}""", lambda: [ck.arange(20, dtype="int32"), ck.empty(1, dtype="int32"), 20], lambda: [190], {"grid": 1, "block": 32}),
    Idiom("any active lanes behind a loop", """(const int* x, int n, int* y) {
    int sum = 0;
    for (int k = 0; k < x[threadIdx.x]; ++k) sum += k;
    const unsigned mask = __activemask();
    const int scale = __shfl_sync(mask, n, __ffs(mask) - 1);
    y[threadIdx.x] = scale * sum;
}""", lambda: [ck.arange(32, dtype="int32") % 5, 3, ck.zeros(32, dtype="int32")],
          lambda: [3 * (k % 5) * (k % 5 - 1) // 2 for k in range(32)], {"grid": 1, "block": 32}),
    Idiom("return before nothing", """(const float* x, float* y, int n) {
    __shared__ float s[64];
    const int t = threadIdx.x;
    if (t >= n) return;
    s[t] = x[t];
    __syncthreads();
    y[t] = s[n - 1 - t] + __shfl_down_sync(__activemask(), x[t], 0);
}""", lambda: [_x(50), ck.empty(50), 50], lambda: np.full(50, 49.0), {"grid": 1}),
    Idiom("one value from all", "(const float* x, int* y) {\nif (x[threadIdx.x] >= 0) y[0] = 1;\n}",
          lambda: [_x(64), ck.zeros(1, dtype="int32")], lambda: [1], {"grid": 3}),
    Idiom("bytes of one word", """(const unsigned char* x, unsigned char* y) {
    __shared__ unsigned char s[64];
    const int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    y[t] = s[63 - t];
}""", lambda: [ck.arange(64, dtype="uint8"), ck.empty(64, dtype="uint8")], lambda: np.arange(64)[::-1], {"grid": 1}),
    Idiom("halves of one word", """(const __half* x, __half* y) {
    extern __shared__ __half s[];
    const int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    __half2 two = ((__half2*)s)[31 - t / 2];
    y[t] = t % 2 ? two.x : two.y;
}""", lambda: [ck.arange(64, dtype="float16"), ck.empty(64, dtype="float16")], lambda: np.arange(64)[::-1], {"grid": 1, "shared": 128}),
    Idiom("a lambda that copies", """(const float* x, float* y) {
    __shared__ float s[64];
    const int t = threadIdx.x;
    auto put = [=](float v) { s[t] = v; };
    put(x[t]);
    __syncthreads();
    y[t] = s[63 - t];
}""", lambda: [_x(64), ck.empty(64)], lambda: np.arange(64)[::-1], {"grid": 1}),
    Idiom("a variable of the device", """(int* y) {
    if (threadIdx.x == 0) y[blockIdx.x] = atomicAdd(&calls, 1) * 0 + table[blockIdx.x % 2];
}""", lambda: [ck.empty(4, dtype="int32")], lambda: [3, 4, 3, 4], {"grid": 4},
          "__device__ int calls = 0;\n__constant__ int table[2] = {3, 4};"),
    Idiom("a value set where it is read", """(const float* x, float* y, int n) {
    const int t = threadIdx.x;
    float v;
    if (t < n) v = x[t];
    __syncthreads();
    if (t < n) y[t] = v;
}""", lambda: [_x(50), ck.empty(50), 50], lambda: np.arange(50), {"grid": 1}),
    Idiom("instances of one function", """(const float* x, float* y) {
    y[threadIdx.x] = turned<1>(x[threadIdx.x]) + turned<2>(x[threadIdx.x]);
}""", lambda: [_x(64), ck.empty(64)], lambda: 3 * np.arange(64)[::-1], {"grid": 1}, """
template <int FACTOR>
__device__ float turned(float v) {
    __shared__ float s[64];
    s[threadIdx.x] = FACTOR * v;
    __syncthreads();
    return s[63 - threadIdx.x];
}"""),
    Idiom("a float's maximum in shared memory by compare and swap", """(const float* x, float* y) {
    __shared__ int top;
    if (threadIdx.x == 0) top = 0;
    __syncthreads();
    const float own = x[threadIdx.x];
    for (int seen = top; __int_as_float(seen) < own;) {
        const int old = atomicCAS(&top, seen, __float_as_int(own));
        if (old == seen) break;
        seen = old;
    }
    __syncthreads();
    if (threadIdx.x == 0) y[0] = __int_as_float(top);
}""", lambda: [_x(128), ck.empty(1)], lambda: [127], {"grid": 1, "block": 128}),
    Idiom("a maximum that is looked at first", """(const int* x, int* y) {
    __shared__ int top;
    if (threadIdx.x == 0) top = 0;
    __syncthreads();
    const int own = x[blockIdx.x * 64 + threadIdx.x];
    if (top < own) atomicMax(&top, own);
    __syncthreads();
    if (threadIdx.x == 0 && y[0] < top) atomicMax(y, top);
}""", lambda: [ck.arange(256, dtype="int32") * 37 % 101, ck.zeros(1, dtype="int32")], lambda: [100], {"grid": 4}),
    Idiom("distances that get smaller", """(const int* edges, int* y, int n) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) {
        const int there = y[edges[2 * i]] + 1;
        if (there < y[edges[2 * i + 1]]) atomicMin(&y[edges[2 * i + 1]], there);
    }
}""", lambda: [ck.asarray([[0, k] for k in range(1, 100)] + [[k, (k + 1) % 100] for k in range(1, 100)], dtype="int32"),
               ck.asarray([0] + [1000] * 99, dtype="int32"), 198], lambda: [0] + [1] * 99, {"grid": 4}),
    Idiom("a table of keys", """(const int* x, int* y, int n) {
    __shared__ int keys[64];
    keys[threadIdx.x] = -1;
    __syncthreads();
    const int key = x[threadIdx.x];
    for (int at = key % 64;; at = (at + 1) % 64) {
        int held = keys[at];
        if (held == -1) held = atomicCAS(&keys[at], -1, key);
        if (held == -1 || held == key) break;
    }
    __syncthreads();
    if (keys[threadIdx.x] != -1) atomicAdd(y, keys[threadIdx.x]);
}""", lambda: [ck.arange(64, dtype="int32") % 20, ck.zeros(1, dtype="int32"), 64], lambda: [190], {"grid": 1}),
    Idiom("a search that ends where another has found it", """(const int* x, int* found, int* y, int n) {
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += 64 * gridDim.x) {
        if (*found) return;
        if (x[i] == 77) { y[0] = i; __threadfence(); atomicExch(found, 1); }
    }
}""", lambda: [ck.arange(1000, dtype="int32"), ck.zeros(1, dtype="int32"), ck.zeros(1, dtype="int32"), 1000], lambda: [77], {"grid": 2}),
    Idiom("a list that is not counted further than it is long", """(const int* x, int* count, int* y) {
    __shared__ int kept;
    if (threadIdx.x == 0) kept = 0;
    __syncthreads();
    if (x[threadIdx.x] % 2 == 0 && kept < 8) {
        const int at = atomicAdd(&kept, 1);
        if (at < 8) y[at] = 1;
    }
    __syncthreads();
    if (threadIdx.x == 0) count[0] = kept;
}""", lambda: [ck.arange(128, dtype="int32"), ck.zeros(1, dtype="int32"), ck.zeros(8, dtype="int32")], lambda: [1] * 8,
          {"grid": 1, "block": 128}),
    Idiom("look-back at flag and value in one word", """(const int* x, volatile unsigned long long* state, int* y) {
    if (threadIdx.x) return;
    unsigned long long before = 0;
    if (blockIdx.x > 0)
        while (!((before = state[blockIdx.x - 1]) & 1)) ;
    state[blockIdx.x] = before + 2 * x[blockIdx.x] | 1;
    y[blockIdx.x] = (int)(before / 2) + x[blockIdx.x];
}""", lambda: [ck.arange(8, dtype="int32"), ck.zeros(8, dtype="uint64"), ck.empty(8, dtype="int32")],
          lambda: np.cumsum(np.arange(8)), {"grid": 8}),
    Idiom("a block's fence for the block", """(const float* x, float* y) {
    __shared__ volatile int flag;
    if (threadIdx.x == 0) flag = 0;
    __syncthreads();
    if (threadIdx.x == 0) { y[blockIdx.x] = x[blockIdx.x]; __threadfence_block(); flag = 1; }
    if (threadIdx.x == 32) { while (!flag) ; __threadfence_block(); y[blockIdx.x] *= 2; }
}""", lambda: [_x(4), ck.empty(4)], lambda: 2 * np.arange(4), {"grid": 4}),
    Idiom("one thread's fence after the barrier", """(float* y) {
    __shared__ __align__(16) float made[64];
    made[threadIdx.x] = threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) { fence_to_async(); store_bulk(y, made, sizeof made); commit_stores(); wait_stores<0>(); }
}""", lambda: [ck.zeros(64)], lambda: np.arange(64), {"grid": 1}, '<% include "prelude/bulk_copy.cuh" %>'),
    Idiom("a group's copies in two buffers", """(const float* x, float* y, int tiles) {
    __shared__ float s[2][100];
    const auto block = cooperative_groups::this_thread_block();
    cooperative_groups::memcpy_async(block, s[0], x, sizeof s[0]);
    for (int i = 0; i < tiles; ++i) {
        if (i + 1 < tiles) {
            cooperative_groups::memcpy_async(block, s[(i + 1) % 2], x + 100 * (i + 1), sizeof s[0]);
            cooperative_groups::wait_prior<1>(block);
        } else {
            cooperative_groups::wait(block);
        }
        for (int j = threadIdx.x; j < 100; j += 64) y[100 * i + j] = s[i % 2][99 - j];
        block.sync();
    }
}""", lambda: [_x(300), ck.empty(300), 3], lambda: np.arange(300).reshape(3, 100)[:, ::-1].ravel(), {"grid": 1},
          "#include <cooperative_groups/memcpy_async.h>"),
    Idiom("threads in turn by a volatile number", """(volatile int* turn, volatile int* y) {
    while (turn[0] != threadIdx.x) ;
    __threadfence();
    y[0] = 2 * y[0] % 1000 + 1;
    __threadfence();
    turn[0] = threadIdx.x + 1;
}""", lambda: [ck.zeros(1, dtype="int32"), ck.zeros(1, dtype="int32")], lambda: [255], {"grid": 1, "block": 8}),
    Idiom("a volatile flag at which each thread looks now and then", """(const int* x, volatile int* found, int* y, int n) {
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += 64 * gridDim.x) {
        if (*found) return;
        if (x[i] == 77) { y[0] = i; __threadfence(); *found = 1; }
    }
}""", lambda: [ck.arange(1000, dtype="int32"), ck.zeros(1, dtype="int32"), ck.zeros(1, dtype="int32"), 1000], lambda: [77], {"grid": 2}),
    Idiom("look-back at sums of floats in volatile words", """(const float* x, volatile unsigned long long* state, float* y) {
    if (threadIdx.x) return;
    const float own = x[blockIdx.x];
    state[blockIdx.x] = shl(1ull, 32) | __float_as_uint(own);
    float before = 0;
    for (int b = (int)blockIdx.x - 1; b >= 0;) {
        const unsigned long long found = state[b];
        if (found >> 32 == 0) continue;
        before += __uint_as_float((unsigned)found);
        if (found >> 32 == 2) break;
        --b;
    }
    state[blockIdx.x] = shl(2ull, 32) | __float_as_uint(before + own);
    y[blockIdx.x] = before + own;
}""", lambda: [_x(9) / 7, ck.zeros(9, dtype="uint64"), ck.empty(9)], lambda: np.cumsum(np.arange(9)) / 7, {"grid": 9}),
    Idiom("looks at several blocks before the first is asked for", """(
    const int* x, volatile unsigned long long* state, int* looks, int* y) {
    if (threadIdx.x) return;
    const int b = blockIdx.x;
    unsigned long long seen[3];
    do {
        ++looks[b];
        for (int k = 0; k < 3; ++k) seen[k] = k < b ? state[b - 1 - k] : 1;
    } while (!(seen[0] & seen[1] & seen[2] & 1));
    y[b] = x[b];
    for (unsigned long long word : seen) y[b] += (int)(word >> 32);
    state[b] = shl((unsigned long long)x[b], 32) | 1;
}""", lambda: [ck.arange(9, dtype="int32"), ck.zeros(9, dtype="uint64"), ck.zeros(9, dtype="int32"), ck.empty(9, dtype="int32")],
          lambda: [sum(range(max(0, b - 3), b + 1)) for b in range(9)], {"grid": 9}),
    Idiom("a barrier of all blocks by a volatile look", """(const float* x, float* part, int* count, float* y) {
    if (threadIdx.x == 0) {
        part[blockIdx.x] = x[blockIdx.x];
        __threadfence();
        atomicAdd(count, 1);
        if (blockIdx.x == gridDim.x - 1) while (*(volatile int*)count < gridDim.x) ;
        __threadfence();
    }
    __syncthreads();
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x < gridDim.x) y[threadIdx.x] = part[threadIdx.x];
}""", lambda: [_x(4), ck.empty(4), ck.zeros(1, dtype="int32"), ck.empty(4)], lambda: np.arange(4), {"grid": 4}),
    Idiom("the first to come, by a compare and swap whose result is dropped", """(const int* x, int* owner, int* y) {
    const int key = x[threadIdx.x];
    if (owner[key] == -1) atomicCAS(&owner[key], -1, key);
    __syncthreads();
    y[threadIdx.x] = owner[key];
}""", lambda: [ck.arange(64, dtype="int32") % 9, ck.full(9, -1, dtype="int32"), ck.zeros(64, dtype="int32")],
          lambda: np.arange(64) % 9, {"grid": 1}),
    Idiom("any of some, by an exchange", """(int* found, int* y) {
    if (!*found && threadIdx.x % 7 == 3) atomicExch(found, threadIdx.x + 1);
    y[threadIdx.x] = 1;
}""", lambda: [ck.zeros(1, dtype="int32"), ck.zeros(64, dtype="int32")], lambda: [1] * 64, {"grid": 1}),
    Idiom("a lock at which threads look first", """(int* lock, int* y) {
    if (threadIdx.x % 32) return;
    while (*(volatile int*)lock || atomicCAS(lock, 0, 1)) ;
    __threadfence();
    y[0] += 1;
    __threadfence();
    *(volatile int*)lock = 0;
}""", lambda: [ck.zeros(1, dtype="int32"), ck.zeros(1, dtype="int32")], lambda: [6], {"grid": 3}),
    Idiom("tasks of a queue that another warp fills", """(int* y) {
    __shared__ volatile int tasks[8], filled;
    const int t = threadIdx.x;
    if (t == 0) filled = 0;
    __syncthreads();
    if (t == 32) for (int i = 0; i < 8; ++i) { tasks[i] = 3 * i; __threadfence_block(); filled = i + 1; }
    if (t == 0) for (int i = 0; i < 8; ++i) { while (filled <= i) ; __threadfence_block(); y[i] = tasks[i]; }
}""", lambda: [ck.zeros(8, dtype="int32")], lambda: 3 * np.arange(8), {"grid": 1}),
]  # fmt: skip
