"""More kernels with a planted mistake each, of kinds that earlier checks missed: see ``planted.py``."""

from __future__ import annotations

from planted import Pair

import cukern as ck


def _f(n: int, dtype: str = "float32") -> ck.Array:
    return ck.linspace(1, 2, n).astype(dtype)


def _keys(n: int, below: int) -> ck.Array:
    return (ck.arange(n, dtype="int32") * 7) % below


MORE = [
    Pair("shared race", "a histogram read before all have counted", """(const int* x, int* y, int n) {
    __shared__ int bins[16];
    const int t = threadIdx.x;
    if (t < 16) bins[t] = 0;
    __syncthreads();
    for (int i = t; i < n; i += 64) atomicAdd(&bins[x[i]], 1);
    ⟦__syncthreads();|||⟧
    if (t < 16) atomicAdd(&y[t], bins[t]);
}""", lambda: [_keys(500, 16), ck.zeros(16, "int32"), 500], "race", "bins", launch={"grid": 1}),
    Pair("shared race", "a sum by atomics read by the first to add", """(const float* x, float* y) {
    __shared__ float sum;
    float own = x[threadIdx.x];
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    for (int d = 16; d > 0; d /= 2) own += __shfl_down_sync(0xffffffffu, own, d);
    if (threadIdx.x % 32 == 0) atomicAdd(&sum, own);
    ⟦__syncthreads();|||__syncwarp();⟧
    if (threadIdx.x == 0) y[0] = sum;
}""", lambda: [_f(128), ck.zeros(1)], "race", "sum", launch={"grid": 1, "block": 128}),
    Pair("global race", "the first block sets what all add to", """(const float* x, float* sum) {
    if (blockIdx.x == 0 && threadIdx.x == 0) ⟦sum[1] = 0|||*sum = 0⟧;
    __syncthreads();
    atomicAdd(sum, x[blockIdx.x * 64 + threadIdx.x]);
}""", lambda: [_f(256), ck.zeros(2)], "race", "sum", launch={"grid": 4}),
    Pair("global race", "a counter that each block sets back", """(
    const float* x, float* part, unsigned* count, float* y) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        part[blockIdx.x] = x[blockIdx.x];
        __threadfence();
        last = atomicInc(count, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) for (int b = 0; b < gridDim.x; ++b) *y += part[b];
    if (⟦last && |||⟧threadIdx.x == 0) *count = 0;
}""", lambda: [_f(5), ck.zeros(5), ck.zeros(1, "uint32"), ck.zeros(1)], "race", "count", launch={"grid": 5}),
    Pair("global race", "a compare and swap whose failure is dropped", """(const int* x, int* sum) {
    const int own = x[blockIdx.x * 64 + threadIdx.x];
    int old = *sum;
    ⟦for (int seen; (seen = atomicCAS(sum, old, old + own)) != old;) old = seen;|||atomicCAS(sum, old, old + own);⟧
}""", lambda: [_keys(128, 16), ck.zeros(1, "int32")], "race", "sum", launch={"grid": 2}),
    Pair("global race", "a fence for the block where one for all is meant", """(
    const float* x, float* part, unsigned* count, float* y) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        part[blockIdx.x] = x[blockIdx.x];
        ⟦__threadfence();|||__threadfence_block();⟧
        last = atomicInc(count, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) { float sum = 0; for (int b = 0; b < gridDim.x; ++b) sum += part[b]; *y = sum; }
}""", lambda: [_f(5), ck.zeros(5), ck.zeros(1, "uint32"), ck.zeros(1)], "race", "part", launch={"grid": 5}),
    Pair("global race", "volatile partial sums without a fence", """(const float* x, volatile float* part, float* y) {
    __shared__ bool last;
    if (threadIdx.x == 0) {
        part[blockIdx.x] = x[blockIdx.x];
        ⟦__threadfence();|||⟧
        last = atomicInc(&done, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) { float sum = 0; for (int b = 0; b < gridDim.x; ++b) sum += part[b]; *y = sum; }
}""", lambda: [_f(5), ck.zeros(5), ck.zeros(1)], "race", "part", "__device__ unsigned done = 0;", launch={"grid": 5}),
    Pair("lanes", "active lanes behind a loop of several lengths", """(const int* x, int* y) {
    int sum = 0;
    for (int k = 0; k < x[threadIdx.x]; ++k) sum += k;
    ⟦__syncwarp();|||⟧
    const unsigned mask = __activemask();
    for (int d = 16; d; d /= 2) sum += __shfl_xor_sync(mask, sum, d);
    y[threadIdx.x] = sum;
}""", lambda: [_keys(32, 5), ck.zeros(32, "int32")], "lane", launch={"grid": 1, "block": 32}),
    Pair("beside the threads", "a stage given back before it is read", """(const float* x, float* y, int tiles) {
    __shared__ __align__(16) float ring[2][32];
    __shared__ MBarrier full[2], empty[2];
    if (threadIdx.x == 0) {
        for (int s = 0; s < 2; ++s) { mbarrier_init(&full[s], 1); mbarrier_init(&empty[s], 32); }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 32)
        for (int i = 0; i < tiles; ++i) {
            mbarrier_wait(&empty[i % 2], i / 2 % 2 ^ 1);
            mbarrier_arrive_expecting(&full[i % 2], sizeof ring[0]);
            copy_bulk(ring[i % 2], x + 32 * i, sizeof ring[0], &full[i % 2]);
        }
    if (threadIdx.x >= 32) return;
    float sum = 0;
    for (int i = 0; i < tiles; ++i) {
        mbarrier_wait(&full[i % 2], i / 2 % 2);
        ⟦|||mbarrier_arrive(&empty[i % 2]);⟧
        sum += ring[i % 2][31 - threadIdx.x];
        ⟦mbarrier_arrive(&empty[i % 2]);|||⟧
    }
    y[threadIdx.x] = sum;
}""", lambda: [_f(256), ck.zeros(32), 8], "race", "ring", '<% include "prelude/bulk_copy.cuh" %>', launch={"grid": 1}),
    Pair("beside the threads", "a fence that half of the writers leave out", """(float* y) {
    __shared__ __align__(16) float made[64];
    made[threadIdx.x] = threadIdx.x;
    ⟦|||if (threadIdx.x >= 32)⟧ fence_to_async();
    __syncthreads();
    if (threadIdx.x == 0) { store_bulk(y, made, sizeof made); commit_stores(); wait_stores<0>(); }
}""", lambda: [ck.zeros(64)], "fault", "", '<% include "prelude/bulk_copy.cuh" %>', launch={"grid": 1}),
    Pair("beside the threads", "a buffer that is filled again when one thread alone has waited", """(float* y, int n) {
    __shared__ __align__(16) float made[64];
    for (int i = 0; i < n; ++i) {
        made[threadIdx.x] = threadIdx.x + i;
        fence_to_async();
        __syncthreads();
        if (threadIdx.x == 0) { store_bulk(y + 64 * i, made, sizeof made); commit_stores(); wait_stores_read<0>(); }
        ⟦__syncthreads();|||⟧
    }
    if (threadIdx.x == 0) wait_stores<0>();
}""", lambda: [ck.zeros(128), 2], "race", "made", '<% include "prelude/bulk_copy.cuh" %>', launch={"grid": 1}),
    Pair("beside the threads", "an mbarrier without a barrier after its init", """(const float* x, float* y) {
    __shared__ __align__(16) float tile[64];
    __shared__ MBarrier full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expecting(&full, sizeof tile);
        copy_bulk(tile, x, sizeof tile, &full);
    }
    ⟦__syncthreads();|||⟧
    mbarrier_wait(&full, 0);
    y[threadIdx.x] = tile[63 - threadIdx.x];
}""", lambda: [_f(64), ck.zeros(64)], "race", "full", '<% include "prelude/bulk_copy.cuh" %>', launch={"grid": 1}),
    Pair("beside the threads", "a tile that a product still reads", """(
    const __grid_constant__ TensorMap a, float* d, int k) {
    __shared__ __align__(1024) __half tile[64 * 64];
    __shared__ MBarrier here;
    if (threadIdx.x == 0) { mbarrier_init(&here, 1); fence_mbarrier_init(); }
    __syncthreads();
    float sums[32];
    for (int i = 0; 64 * i < k; ++i) {
        if (threadIdx.x == 0) {
            mbarrier_arrive_expecting(&here, sizeof tile);
            copy_tile(tile, a, {0, i * 64}, &here);
        }
        mbarrier_wait(&here, i % 2);
        wgmma_fence();
        wgmma<__half, 64, true, true>(sums, SharedMatrix(tile, 16, 1024), SharedMatrix(tile, 16, 1024), i > 0);
        wgmma_commit();
        ⟦wgmma_wait<0>(sums);|||⟧
        __syncthreads();
    }
    wgmma_wait<0>(sums);
    d[threadIdx.x] = sums[0];
}""", lambda: [ck.TensorMap(_f(64 * 128, "float16").reshape(64, 128), (64, 64), swizzle=128), ck.zeros(128), 128],
         "race", "tile", '''<% set wgmma_columns = [64] %>
<% include "prelude/wgmma.cuh" %>
<% include "prelude/tensor_map.cuh" %>''', launch={"grid": 1, "block": 128}),
    Pair("beside the threads", "a group's copy with one wait too few", """(const float* x, float* y, int tiles) {
    __shared__ float s[2][64];
    const auto block = cooperative_groups::this_thread_block();
    cooperative_groups::memcpy_async(block, s[0], x, sizeof s[0]);
    float sum = 0;
    for (int i = 0; i < tiles; ++i) {
        if (i + 1 < tiles) cooperative_groups::memcpy_async(block, s[(i + 1) % 2], x + 64 * (i + 1), sizeof s[0]);
        if (⟦i + 1 < tiles|||true⟧) cooperative_groups::wait_prior<1>(block);
        else cooperative_groups::wait(block);
        sum += s[i % 2][63 - threadIdx.x];
        block.sync();
    }
    y[threadIdx.x] = sum;
}""", lambda: [_f(256), ck.zeros(64), 4], "unset", "s",
         "#include <cooperative_groups/memcpy_async.h>", launch={"grid": 1}),
    Pair("unset register", "zero times what nothing has set", """(const float* x, float* y, int n) {
    float sums[2];
    for (int k = 0; k < n; ++k) sums[1] = ⟦(k ? sums[1] : 0)|||(k > 0) * sums[1]⟧ + x[k];
    y[threadIdx.x] = sums[1];
}""", lambda: [_f(8), ck.zeros(64), 8], "unset", "", launch={"grid": 1}),
    Pair("unset register", "what a function is to set by reference", """(const float* x, float* y) {
    float root;
    const bool is_ahead = find_root(x[threadIdx.x], 0.3f, root);
    y[threadIdx.x] = is_ahead ? root : fminf(root, 9);
}""", lambda: [_f(64) - 1.5, ck.zeros(64)], "unset", "", """
__device__ bool find_root(float x, float slope, float& root) {
    const float b = x * slope, d = b * b - (x * x - 0.1f);
    if (d < 0) { ⟦root = 0;|||⟧ return false; }
    root = -b - sqrtf(d);
    return root > 0;
}""", launch={"grid": 1}),
    Pair("fault", "a recursion without an end", """(const int* parent, int* y) {
    y[threadIdx.x] = depth(parent, threadIdx.x);
}""", lambda: [ck.arange(64, dtype="int32") // 2, ck.zeros(64, "int32")], "fault", "", """
__device__ int depth(const int* parent, int i) {
    return ⟦i == parent[i]|||i < 0⟧ ? 0 : 1 + depth(parent, parent[i]);
}""", launch={"grid": 1}),
]  # fmt: skip
