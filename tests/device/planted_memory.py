"""Planted mistakes in memory that is no argument's and not shared, and in `volatile` values: see ``planted.py``."""

from __future__ import annotations

from planted import Pair

import cukern as ck


def _ints(n: int = 64) -> ck.Array:
    return ck.zeros(n, "int32")


MEMORY = [
    Pair("variables", "a counter that is not atomic", """(int* y) {
    ⟦atomicAdd(&count, 1)|||count = count + 1⟧;
    y[threadIdx.x] = 1;
}""", lambda: [_ints()], "race", "count", "__device__ int count;", {"grid": 1}),
    Pair("variables", "each thread's own value", """(int* y) {
    last = ⟦7|||threadIdx.x⟧;
    y[threadIdx.x] = 1;
}""", lambda: [_ints()], "race", "last", "__device__ int last;", {"grid": 1}),
    Pair("variables", "an exchange without a barrier", """(float* y) {
    values[threadIdx.x] = threadIdx.x;
    ⟦__syncthreads();|||⟧
    y[threadIdx.x] = values[63 - threadIdx.x];
}""", lambda: [ck.zeros(64)], "race", "values", "__device__ float values[64];", {"grid": 1}),
    Pair("variables", "one thread of each block counts", """(int* y) {
    if (threadIdx.x == 0) ⟦atomicAdd(&own::count, 1)|||own::count += 1⟧;
    y[threadIdx.x] = 1;
}""", lambda: [_ints()], "race", "count", "namespace own { static __device__ int count; }", {"grid": 4}),
    Pair("variables", "partial sums without a fence", """(const float* x, float* y) {
    if (threadIdx.x) return;
    parts[blockIdx.x] = x[blockIdx.x];
    ⟦__threadfence();|||⟧
    if (atomicAdd(&done, 1) < gridDim.x - 1) return;
    float sum = 0;
    for (int b = 0; b < gridDim.x; ++b) sum += parts[b];
    *y = sum;
    done = 0;
}""", lambda: [ck.ones(5), ck.zeros(1)], "race", "parts", 
         "__device__ float parts[5];\n__device__ int done;", {"grid": 5}),
]  # fmt: skip
