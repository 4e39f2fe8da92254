## right: warp specialised ring of mbarriers | grid=1 block=64 | r(32*7), z(32), 7
#include "prelude/mbarrier.cuh"
__global__ void ring(const float* x, float* y, int n) {
    __shared__ float s[2][32];
    __shared__ MBarrier full[2], empty[2];
    int w = threadIdx.x / 32, l = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int k = 0; k < 2; ++k) { mbarrier_init(&full[k], 32); mbarrier_init(&empty[k], 32); }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (w == 0) {
        for (int k = 0; k < n; ++k) {
            if (k >= 2) mbarrier_wait(&empty[k % 2], (k / 2 - 1) & 1);
            s[k % 2][l] = x[k * 32 + l];
            mbarrier_arrive(&full[k % 2]);
        }
    } else {
        float acc = 0;
        for (int k = 0; k < n; ++k) {
            mbarrier_wait(&full[k % 2], (k / 2) & 1);
            acc += s[k % 2][31 - l];
            mbarrier_arrive(&empty[k % 2]);
        }
        y[l] = acc;
    }
}
## right: early exit then barriers of the rest | grid=1 block=96 | r(64), z(64), 64
__global__ void exits(const float* x, float* y, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t >= n) return;
    s[t] = x[t];
    __syncthreads();
    y[t] = s[n - 1 - t];
}
## right: uniform barrier in a branch of the block | grid=4 block=32 | r(128), z(128)
__global__ void even_blocks(const float* x, float* y) {
    __shared__ float s[32];
    int t = threadIdx.x, i = blockIdx.x * 32 + t;
    float v = x[i];
    if (blockIdx.x % 2 == 0) {
        s[t] = v;
        __syncthreads();
        v = s[31 - t];
    }
    y[i] = v;
}
## right: leader election by match | grid=2 block=32 | i(64, 6), z(6, "int32"), z(64, "int32")
__global__ void aggregated(const int* key, int* count, int* slot) {
    int i = blockIdx.x * 32 + threadIdx.x, lane = threadIdx.x, k = key[i];
    unsigned peers = __match_any_sync(~0u, k);
    int leader = __ffs(peers) - 1, base = 0;
    if (lane == leader) base = atomicAdd(&count[k], __popc(peers));
    base = __shfl_sync(~0u, base, leader);
    slot[i] = base + __popc(peers & ((1u << lane) - 1));
}
## right: shuffle within a divergent but named subset | grid=1 block=32 | r(32), z(32)
__global__ void subset(const float* x, float* y) {
    int l = threadIdx.x;
    float v = x[l];
    if (l & 4) {
        v += __shfl_xor_sync(0xf0f0f0f0u, v, 1);
        v += __shfl_xor_sync(0xf0f0f0f0u, v, 2);
    }
    y[l] = v;
}
## right: lock by exchange | grid=3 block=32 | r(96), z(1), z(1, "int32")
__global__ void exchange_lock(const float* x, float* top, int* lock) {
    float v = x[blockIdx.x * 32 + threadIdx.x];
    for (int o = 16; o; o >>= 1) v = fmaxf(v, __shfl_down_sync(~0u, v, o));
    if (threadIdx.x == 0) {
        while (atomicExch(lock, 1)) __nanosleep(20);
        __threadfence();
        if (v > *top) *top = v;
        __threadfence();
        atomicExch(lock, 0);
    }
}
## right: acquire release lock of cuda atomic | grid=3 block=1 | r(3), z(1), z(1, "int32")
#include <cuda/atomic>
__global__ void ref_lock(const float* x, float* sum, int* lock) {
    cuda::atomic_ref<int, cuda::thread_scope_device> l(*lock);
    while (l.exchange(1, cuda::std::memory_order_acquire)) {}
    *sum += x[blockIdx.x];
    l.store(0, cuda::std::memory_order_release);
}
## right: lock free list then a walk by the last block | grid=3 block=8 | i(24, 50), z(24, "int32"), z(1, "int32") + -1, z(1, "int32"), z(1, "int32")
__global__ void list_sum(const int* x, int* next, int* head, int* done, int* sum) {
    int i = blockIdx.x * 8 + threadIdx.x;
    int old = atomicAdd(head, 0), seen;
    while (true) {
        next[i] = old;
        __threadfence();
        seen = atomicCAS(head, old, i);
        if (seen == old) break;
        old = seen;
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && atomicAdd(done, 1) == gridDim.x - 1) {
        __threadfence();
        int s = 0;
        for (int k = atomicAdd(head, 0); k >= 0; k = next[k]) s += x[k];
        *sum = s;
    }
}
## right: ordered blocks by a turn | grid=4 block=32 | i(128, 10), z(4, "int32"), z(1, "int32"), z(1, "int32")
__global__ void in_order(const int* x, int* out, int* turn, int* carry) {
    int v = __reduce_add_sync(~0u, x[blockIdx.x * 32 + threadIdx.x]);
    if (threadIdx.x == 0) {
        while (atomicAdd(turn, 0) != blockIdx.x) {}
        __threadfence();
        int c = *carry * 3 + v;
        *carry = c;
        out[blockIdx.x] = c;
        __threadfence();
        atomicExch(turn, blockIdx.x + 1);
    }
}
## right: producer and consumer of one block by atomics | grid=1 block=64 | r(32*5), z(32), 5
__global__ void shared_flags(const float* x, float* y, int n) {
    __shared__ float s[2][32];
    __shared__ int made, taken;
    int w = threadIdx.x / 32, l = threadIdx.x % 32;
    if (threadIdx.x == 0) { made = 0; taken = 0; }
    __syncthreads();
    float acc = 0;
    for (int k = 0; k < n; ++k) {
        if (w == 0) {
            if (l == 0) { while (k - atomicAdd(&taken, 0) >= 2) __nanosleep(20); __threadfence_block(); }
            __syncwarp();
            s[k & 1][l] = x[k * 32 + l];
            __syncwarp();
            if (l == 0) { __threadfence_block(); atomicAdd(&made, 1); }
        } else {
            if (l == 0) { while (atomicAdd(&made, 0) <= k) __nanosleep(20); __threadfence_block(); }
            __syncwarp();
            acc += s[k & 1][31 - l];
            __syncwarp();
            if (l == 0) { __threadfence_block(); atomicAdd(&taken, 1); }
        }
    }
    if (w) y[l] = acc;
}
## right: histogram by private copies in a workspace | grid=4 block=32 | i(256, 10), z(40, "int32"), z(1, "uint32"), z(10, "int32"), 256
__global__ void private_hist(const int* x, int* work, unsigned* done, int* out, int n) {
    __shared__ unsigned rank;
    int* mine = work + blockIdx.x * 10;
    for (int i = blockIdx.x * 32 + threadIdx.x; i < n; i += gridDim.x * 32) atomicAdd(&mine[x[i]], 1);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) { rank = atomicInc(done, gridDim.x - 1); __threadfence(); }
    __syncthreads();
    if (rank == gridDim.x - 1 && threadIdx.x < 10) {
        int s = 0;
        for (unsigned b = 0; b < gridDim.x; ++b) s += __ldcg(&work[b * 10 + threadIdx.x]);
        out[threadIdx.x] = s;
    }
}
## right: pairs of blocks in one array, disjoint halves | grid=2 block=32 | r(64)
__global__ void halves(float* x) {
    __shared__ float s[32];
    int t = threadIdx.x;
    float* p = x + 32 * blockIdx.x;
    s[t] = p[t];
    __syncthreads();
    p[31 - t] = s[t];
}
## right: bytes of one word by four threads | grid=1 block=32 | a(32), z(32, "uint8")
__global__ void bytes(const int* x, unsigned char* y) {
    __shared__ unsigned char s[32];
    s[threadIdx.x] = (unsigned char)(x[threadIdx.x] * 3);
    __syncthreads();
    y[threadIdx.x] = s[31 - threadIdx.x];
}
## right: bit fields claimed by or | grid=2 block=32 | i(64, 96), z(3, "uint32"), z(64, "int32")
__global__ void claim(const int* x, unsigned* used, int* won) {
    int i = blockIdx.x * 32 + threadIdx.x, b = x[i];
    unsigned bit = 1u << (b & 31);
    won[i] = !(atomicOr(&used[b >> 5], bit) & bit);
}
## right: sorted network by shuffles | grid=2 block=32 | i(64, 100), z(64, "int32")
__global__ void warp_sort(const int* x, int* y) {
    int l = threadIdx.x, v = x[blockIdx.x * 32 + l];
    for (int k = 2; k <= 32; k <<= 1)
        for (int j = k >> 1; j; j >>= 1) {
            int u = __shfl_xor_sync(~0u, v, j);
            bool up = (l & k) == 0, low = (l & j) == 0;
            v = up == low ? min(v, u) : max(v, u);
        }
    y[blockIdx.x * 32 + l] = v;
}
## right: block radix split stable | grid=1 block=64 | i(64, 256), z(64, "int32")
__global__ void radix8(const int* x, int* y) {
    __shared__ int s[64], zeros[2];
    int t = threadIdx.x, w = t / 32, l = t % 32;
    s[t] = x[t];
    __syncthreads();
    for (int b = 0; b < 8; ++b) {
        int v = s[t], bit = v >> b & 1;
        unsigned m = __ballot_sync(~0u, !bit);
        if (l == 0) zeros[w] = __popc(m);
        __syncthreads();
        int before = __popc(m & ((1u << l) - 1)) + (w ? zeros[0] : 0);
        int at = bit ? zeros[0] + zeros[1] + t - before : before;
        s[at] = v;
        __syncthreads();
    }
    y[t] = s[t];
}
## right: unsigned hash wraps | grid=1 block=32 | a(32), z(32, "uint32")
__global__ void murmur(const int* x, unsigned* y) {
    unsigned h = x[threadIdx.x] * 0xcc9e2d51u;
    h = (h << 15 | h >> 17) * 0x1b873593u;
    h ^= h >> 16; h *= 0x85ebca6bu; h ^= h >> 13;
    y[threadIdx.x] = h;
}
## right: wide index of a small array | grid=2 block=32 | r(50), z(50), 50
__global__ void wide(const float* x, float* y, long long n) {
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x) y[i] = -x[i];
}
## right: shared memory carved for three types | grid=1 block=20 shared=320 | r(20), z(20)
__global__ void carved(const float* x, float* y) {
    extern __shared__ __align__(16) char mem[];
    double* d = (double*)mem;
    int* k = (int*)(d + 20);
    short* h = (short*)(k + 20);
    int t = threadIdx.x;
    d[t] = x[t]; k[t] = 19 - t; h[t] = (short)(t * 2);
    __syncthreads();
    y[t] = (float)d[k[t]] + h[(t + 1) % 20];
}
## right: cp async four stages with barriers | grid=1 block=64 | r(64*9), z(64), 9
#include <cuda_pipeline.h>
__global__ void four_stages(const float* x, float* y, int n) {
    __shared__ float s[4][64];
    int t = threadIdx.x;
    float acc = 0;
    for (int k = 0; k < 3; ++k) { if (k < n) __pipeline_memcpy_async(&s[k][t], x + k * 64 + t, 4); __pipeline_commit(); }
    for (int k = 0; k < n; ++k) {
        __pipeline_wait_prior(2);
        __syncthreads();
        if (k + 3 < n) __pipeline_memcpy_async(&s[(k + 3) & 3][t], x + (k + 3) * 64 + t, 4);
        __pipeline_commit();
        acc += s[k & 3][63 - t];
    }
    y[t] = acc;
}
## right: split barrier with work between | grid=1 block=64 | r(64*3), z(64), 3
#include <cuda/barrier>
__global__ void split_work(const float* x, float* y, int n) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ float s[2][64];
    int t = threadIdx.x;
    if (t == 0) init(&bar, blockDim.x);
    __syncthreads();
    float acc = 0;
    for (int k = 0; k < n; ++k) {
        s[k & 1][t] = x[k * 64 + t];
        auto token = bar.arrive();
        acc *= 0.5f;
        bar.wait(std::move(token));
        acc += s[k & 1][63 - t];
    }
    y[t] = acc;
}
## right: cluster free neighbour exchange through global by grid sync | grid=4 block=32 | r(128), z(128)
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void neighbours(float* x, float* y) {
    cg::grid_group g = cg::this_grid();
    int i = g.thread_rank();
    float v = x[(i + 32) % 128];
    g.sync();
    x[i] = v;
    g.sync();
    y[i] = x[(i + 32) % 128];
}
## right: partially written local struct, read where set | grid=1 block=16 | i(16, 3), z(16)
struct Shape { int kind; float r, w, h; };
__global__ void areas(const int* kind, float* y) {
    Shape s;
    s.kind = kind[threadIdx.x];
    if (s.kind == 0) s.r = 2; else { s.w = 3; s.h = 4; }
    y[threadIdx.x] = s.kind == 0 ? s.r * s.r : s.w * s.h;
}
## right: attention by tiles with a running maximum | grid=2 block=16 | r(32*8), r(24*8), r(24*8), z(32*8), 24
__global__ void flash(const float* q, const float* k, const float* v, float* o, int n) {
    __shared__ float ks[8][8], vs[8][8];
    int t = threadIdx.x, row = blockIdx.x * 16 + t;
    float acc[8] = {}, m = -INFINITY, l = 0;
    for (int base = 0; base < n; base += 8) {
        for (int e = t; e < 64; e += 16) { ks[e / 8][e % 8] = k[base * 8 + e]; vs[e / 8][e % 8] = v[base * 8 + e]; }
        __syncthreads();
        for (int j = 0; j < 8; ++j) {
            float s = 0;
            for (int d = 0; d < 8; ++d) s += q[row * 8 + d] * ks[j][d];
            float old = m;
            m = fmaxf(m, s);
            float a = __expf(old - m), p = __expf(s - m);
            l = l * a + p;
            for (int d = 0; d < 8; ++d) acc[d] = acc[d] * a + p * vs[j][d];
        }
        __syncthreads();
    }
    for (int d = 0; d < 8; ++d) o[row * 8 + d] = acc[d] / l;
}
## right: half2 with an odd tail | grid=1 block=16 | r(31).astype("float16"), z(31).astype("float16"), 31
#include <cuda_fp16.h>
__global__ void double_half(const half* x, half* y, int n) {
    int t = threadIdx.x;
    if (2 * t + 1 < n) ((half2*)y)[t] = __hadd2(((const half2*)x)[t], ((const half2*)x)[t]);
    else if (2 * t < n) y[2 * t] = __hadd(x[2 * t], x[2 * t]);
}
## right: heap memory handed between threads | grid=1 block=32 | r(32), z(32)
__global__ void handed(const float* x, float* y) {
    __shared__ float* p[32];
    int t = threadIdx.x;
    p[t] = (float*)malloc(sizeof(float));
    *p[t] = x[t];
    __syncthreads();
    float* mine = p[31 - t];
    y[t] = *mine;
    free(mine);
}
## right: atomics of two widths on two arrays | grid=2 block=32 | i(64, 9), z(9, "uint64"), z(9, "int32") + 1000
__global__ void extremes(const int* x, unsigned long long* best, int* least) {
    int i = blockIdx.x * 32 + threadIdx.x;
    atomicMax(&best[x[i]], (unsigned long long)(i * 7 % 64) << 32 | (unsigned)i);
    atomicMin(&least[x[i]], i);
}
## right: disjoint by parity, no barrier | grid=1 block=64 | r(64), z(64)
__global__ void parity(const float* x, float* y) {
    int t = threadIdx.x;
    if (t % 2 == 0) { y[t] = x[t]; y[t + 1] = x[t + 1] * 2; }
}
## right: last element looked at under the guard | grid=2 block=32 | r(33), z(33), 33
__global__ void guarded(const float* x, float* y, int n) {
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i < n) y[i] = i == n - 1 ? x[0] : x[i + 1];
}
## right: syncthreads and as the only barrier | grid=1 block=64 | r(64), z(64)
__global__ void all_small(const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    int small = __syncthreads_and(x[t] < 2.f);
    y[t] = small ? s[63 - t] : 0.f;
}
## right: compare and swap of a pair | grid=2 block=32 | r(64), z(1, "uint64")
__global__ void pair(const float* x, unsigned long long* sum) {
    unsigned long long old = atomicAdd(sum, 0ull), seen;
    while (true) {
        unsigned n = (unsigned)(old >> 32) + 1;
        float s = __uint_as_float((unsigned)old) + x[blockIdx.x * 32 + threadIdx.x];
        seen = atomicCAS(sum, old, (unsigned long long)n << 32 | __float_as_uint(s));
        if (seen == old) break;
        old = seen;
    }
}
