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
    Pair("volatile", "an update by each thread", """(volatile int* count, int* y) {
    ⟦atomicAdd((int*)count, 1)|||count[0] += 1⟧;
    y[threadIdx.x] = 1;
}""", lambda: [_ints(1), _ints()], "race", "count", launch={"grid": 1}),
    Pair("volatile", "an update by each block", """(volatile int* count, int* y) {
    if (threadIdx.x == 0) ⟦atomicAdd((int*)count, 1)|||count[0] += 1⟧;
    y[threadIdx.x] = 1;
}""", lambda: [_ints(1), _ints()], "race", "count", launch={"grid": 3}),
    Pair("volatile", "an update of shared memory", """(int* y) {
    __shared__ volatile int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    ⟦atomicAdd((int*)&sum, 1)|||sum = sum + 1⟧;
    __syncthreads();
    y[threadIdx.x] = sum;
}""", lambda: [_ints()], "race", "sum", launch={"grid": 1}),
    Pair("volatile", "the last steps of a tree by a warp", """(const float* x, float* y) {
    __shared__ volatile float s[64];
    const int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    if (t < 32) {
        float own = s[t];
        for (int half = 32; half; half /= 2) {
            own += s[t + half];
            ⟦__syncwarp();|||⟧
            s[t] = own;
            ⟦__syncwarp();|||⟧
        }
    }
    if (t == 0) y[0] = s[0];
}""", lambda: [ck.ones(64), ck.zeros(1)], "race", "s", launch={"grid": 1}),
    Pair("volatile", "what another block writes", """(volatile float* x, float* y) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    ⟦|||x[i] = i + 1;⟧
    y[i] = x[127 - i];
}""", lambda: [ck.zeros(128), ck.zeros(128)], "race", "x", launch={"grid": 2}),
    Pair("volatile", "each thread's own value", """(volatile int* last, int* y) {
    last[0] = ⟦7|||threadIdx.x⟧;
    y[threadIdx.x] = 1;
}""", lambda: [_ints(1), _ints()], "race", "last", launch={"grid": 1}),
    Pair("exchanges", "an update that reads first", """(int* count, int* y) {
    ⟦atomicAdd(count, 1)|||int old = count[0]; atomicExch(count, old + 1)⟧;
    y[threadIdx.x] = 1;
}""", lambda: [_ints(1), _ints()], "race", "count", launch={"grid": 1}),
    Pair("exchanges", "a sum of one thread of each block", """(const float* x, float* y) {
    if (threadIdx.x) return;
    ⟦atomicAdd(y, x[blockIdx.x])|||atomicExch(y, *y + x[blockIdx.x])⟧;
}""", lambda: [ck.ones(3), ck.zeros(1)], "race", "y", launch={"grid": 3}),
    Pair("allocations", "a write beyond", """(const float* x, float* y) {
    float* own = (float*)malloc(4 * sizeof *own);
    for (int i = 0; i < ⟦4|||4000⟧; ++i) own[i] = x[i % 64];
    y[threadIdx.x] = own[threadIdx.x % 4];
    free(own);
}""", lambda: [ck.ones(64), ck.zeros(64)], "out of bounds", launch={"grid": 1}),
    Pair("allocations", "freed twice", """(const float* x, float* y) {
    float* own = (float*)malloc(sizeof *own);
    *own = x[threadIdx.x];
    y[threadIdx.x] = *own;
    free(own);
    ⟦|||free(own);⟧
}""", lambda: [ck.ones(64), ck.zeros(64)], "free", launch={"grid": 2}),
    Pair("allocations", "freed from the middle", """(const float* x, float* y) {
    float* own = new float[4];
    *own = x[threadIdx.x];
    y[threadIdx.x] = *own;
    delete[] (own⟦|||++⟧);
    ⟦|||delete[] own;⟧
}""", lambda: [ck.ones(64), ck.zeros(64)], "free", launch={"grid": 2}),
    Pair("allocations", "an argument is freed", """(const float* x, float* y) {
    float* own = (float*)malloc(sizeof *own);
    *own = x[threadIdx.x];
    y[threadIdx.x] = *own;
    free(own);
    ⟦|||if (threadIdx.x == 0) free(y);⟧
}""", lambda: [ck.ones(64), ck.zeros(64)], "free", "y", launch={"grid": 1}),
    Pair("allocations", "a read after it is freed", """(const float* x, float* y) {
    Own* own = new Own(x[threadIdx.x]);
    ⟦|||delete own;⟧
    y[threadIdx.x] = own->value + own->more[2];
    ⟦delete own;|||⟧
}""", lambda: [ck.ones(64), ck.zeros(64)], "use after free",
         before="struct Own { float value, more[3]; __device__ Own(float value) : value(value), more() {} };",
         launch={"grid": 1}),
    Pair("allocations", "freed while others still read", """(const float* x, float* y) {
    __shared__ float* row;
    if (threadIdx.x == 0) row = (float*)malloc(64 * sizeof(float));
    __syncthreads();
    row[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    ⟦|||if (threadIdx.x == 0) free(row);⟧
    y[threadIdx.x] = row[63 - threadIdx.x];
    __syncthreads();
    ⟦if (threadIdx.x == 0) free(row);|||⟧
}""", lambda: [ck.ones(64), ck.zeros(64)], "use after free", launch={"grid": 2}),
    Pair("allocations", "a race", """(const float* x, float* y) {
    __shared__ float* row;
    if (threadIdx.x == 0) row = (float*)malloc(64 * sizeof(float));
    __syncthreads();
    row[threadIdx.x] = x[threadIdx.x];
    ⟦__syncthreads();|||⟧
    y[threadIdx.x] = row[63 - threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) free(row);
}""", lambda: [ck.ones(64), ck.zeros(64)], "race", launch={"grid": 2}),
    Pair("allocations", "a read of what nothing has set", """(const float* x, float* y) {
    float* own = (float*)malloc(2 * sizeof *own);
    own[0] = x[threadIdx.x];
    y[threadIdx.x] = own[⟦0|||1⟧];
    free(own);
}""", lambda: [ck.ones(64), ck.zeros(64)], "unset", launch={"grid": 1}),
    Pair("allocations", "one that is lost", """(const float* x, float* y) {
    float* own = (float*)malloc(sizeof *own);
    *own = x[threadIdx.x];
    y[threadIdx.x] = *own;
    if (y[threadIdx.x] ⟦>|||<⟧ 0) free(own);
}""", lambda: [ck.ones(64), ck.zeros(64)], "leak", launch={"grid": 1}),
    Pair("arrays of arrays", "a write beyond one", """(float** rows, int n) {
    if (threadIdx.x < ⟦n|||64⟧) rows[0][threadIdx.x] = 1;
}""", lambda: [[ck.zeros(8), ck.zeros(8)], 8], "out of bounds", "rows[0]", launch={"grid": 1}),
    Pair("arrays of arrays", "a race", """(const float* const* x, float** y) {
    y[1][threadIdx.x] = x[0][threadIdx.x];
    ⟦__syncthreads();|||⟧
    y[0][threadIdx.x] = y[1][63 - threadIdx.x];
}""", lambda: [[ck.ones(64)], [ck.zeros(64), ck.zeros(64)]], "race", "y[1]", launch={"grid": 1}),
    Pair("geometry", "blocks that do the same", """(const float* x, float* y) {
    const int i = ⟦64 * blockIdx.x + |||⟧threadIdx.x;
    y[i] = 2 * x[i];
}""", lambda: [ck.ones(256), ck.zeros(256)], "geometry", launch={"grid": 4}),
    Pair("geometry", "threads that do the same", """(const float* x, float* y) {
    for (int i = ⟦threadIdx.x|||0⟧; i < 256; i += ⟦64|||1⟧) y[i] = 2 * x[i];
}""", lambda: [ck.ones(256), ck.zeros(256)], "geometry", launch={"grid": 1}),
    Pair("divergence", "two barriers on one line", """(float* y) {
    ⟦__syncthreads();|||if (threadIdx.x < 32) __syncthreads(); else __syncthreads();⟧
    y[threadIdx.x] = 1;
}""", lambda: [ck.zeros(64)], "divergence", launch={"grid": 1}),
]  # fmt: skip
