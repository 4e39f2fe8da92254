## right: a guard before a barrier that all others reach | grid=2 block=64 | f(100), z(100), 100
__global__ void planted(const float* x, float* y, int n) {
    __shared__ float s[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= n) return;
    s[threadIdx.x] = x[i];
    __syncthreads();
    int last = min(63, n - blockIdx.x * 64 - 1);
    y[i] = s[last - threadIdx.x];
}
## right: warps add their counts by one lane of those here | grid=2 block=64 | k(128, 9), z(1, "int32"), z(128, "int32")
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void planted(const int* x, int* count, int* out) {
    int v = x[blockIdx.x * 64 + threadIdx.x];
    if (v > 2) {
        auto here = cg::coalesced_threads();
        int base = 0;
        if (here.thread_rank() == 0) base = atomicAdd(count, here.size());
        base = here.shfl(base, 0);
        out[base + here.thread_rank()] = 1;
    }
}
## right: a mask of who is here chooses one to count | grid=1 block=64 | k(64, 5), z(1, "int32")
__global__ void planted(const int* x, int* count) {
    if (x[threadIdx.x] > 1) {
        unsigned here = __activemask();
        if ((threadIdx.x & 31) == __ffs(here) - 1) atomicAdd(count, __popc(here));
    }
}
## right: pushes of a warp by whoever is here, in any order | grid=2 block=32 | k(64, 5), z(64, "int32"), z(1, "int32")
__device__ int push(int* count) {
    unsigned here = __activemask();
    int leader = __ffs(here) - 1, lane = threadIdx.x & 31, base;
    if (lane == leader) base = atomicAdd(count, __popc(here));
    base = __shfl_sync(here, base, leader);
    return base + __popc(here & (shl(1u, lane) - 1));
}
__global__ void planted(const int* x, int* out, int* count) {
    int i = blockIdx.x * 32 + threadIdx.x;
    if (x[i] > 1) out[push(count)] = 1;
}
## right: a lock of which threads of a warp take turns | grid=2 block=32 | z(1, "int32"), z(1, "int32")
__global__ void planted(int* lock, volatile int* total) {
    for (bool done = false; !done;) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            *total = *total + 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}
## right: tickets | grid=3 block=1 | z(2, "int32"), z(1), z(3)
__global__ void planted(int* tickets, float* sum, float* y) {
    int mine = atomicAdd(&tickets[0], 1);
    while (atomicAdd(&tickets[1], 0) != mine) {}
    __threadfence();
    *sum += 2;
    y[mine] = *sum;
    __threadfence();
    atomicAdd(&tickets[1], 1);
}
## right: the largest float as an integer | grid=2 block=64 | f(128), z(1, "int32")
__global__ void planted(const float* x, int* best) {
    float v = x[blockIdx.x * 64 + threadIdx.x];
    for (int d = 16; d; d /= 2) v = fmaxf(v, __shfl_xor_sync(~0u, v, d));
    if (threadIdx.x % 32 == 0) atomicMax(best, __float_as_int(v));
}
## right: a key and a value in one word | grid=2 block=64 | f(128), z(1, "uint64")
__global__ void planted(const float* x, unsigned long long* best) {
    int i = blockIdx.x * 64 + threadIdx.x;
    unsigned long long word = (unsigned long long)__float_as_uint(x[i]) * 4294967296ull + (unsigned)i;
    unsigned long long seen = *best;
    while (word > seen) {
        unsigned long long old = atomicCAS(best, seen, word);
        if (old == seen) break;
        seen = old;
    }
}
## right: neighbours write bytes of one word | grid=1 block=64 | f(64), z(64, "uint8")
__global__ void planted(const float* x, unsigned char* y) {
    __shared__ unsigned char s[64];
    s[threadIdx.x] = (unsigned char)(x[threadIdx.x] * 10);
    __syncthreads();
    y[threadIdx.x] = s[63 - threadIdx.x];
}
## right: halves are added as pairs | grid=1 block=32 | f(64).astype("float16"), z(64).astype("float16")
__global__ void planted(const __half* x, __half* y) {
    const __half2* pairs = reinterpret_cast<const __half2*>(x);
    __half2 v = __hadd2(pairs[threadIdx.x], pairs[threadIdx.x]);
    reinterpret_cast<__half2*>(y)[threadIdx.x] = v;
}
## right: one area of shared memory by turns, of two types | grid=1 block=64 | f(64), z(64)
__global__ void planted(const float* x, float* y) {
    __shared__ union { float f[64]; int i[64]; } u;
    int t = threadIdx.x;
    u.i[t] = 63 - t;
    __syncthreads();
    int from = u.i[t];
    __syncthreads();
    u.f[t] = x[from];
    __syncthreads();
    y[t] = u.f[t ^ 1];
}
## right: all threads say that something was found | grid=2 block=64 | k(128, 9), z(1, "int32"), z(128)
__global__ void planted(const int* x, int* found, float* y) {
    __shared__ bool any;
    any = false;
    __syncthreads();
    if (x[blockIdx.x * 64 + threadIdx.x] == 8) any = true;
    __syncthreads();
    if (any) *found = 1;
    y[blockIdx.x * 64 + threadIdx.x] = any;
}
## right: a barrier that counts | grid=1 block=64 | k(64, 9), z(64, "int32")
__global__ void planted(const int* x, int* y) {
    int n = __syncthreads_count(x[threadIdx.x] > 4);
    int any = __syncthreads_or(x[threadIdx.x] == 4);
    while (__syncthreads_and(n < 40)) ++n;
    y[threadIdx.x] = n + any;
}
## right: a barrier in a branch that the block takes as one | grid=4 block=32 | f(128), z(128)
__global__ void planted(const float* x, float* y) {
    __shared__ float s[32];
    int i = blockIdx.x * 32 + threadIdx.x;
    switch (blockIdx.x % 2) {
        case 0: s[threadIdx.x] = x[i]; __syncthreads(); y[i] = s[31 - threadIdx.x]; break;
        default: y[i] = x[i];
    }
}
## right: a bitonic sort | grid=1 block=64 | k(64, 64), z(64, "int32")
__global__ void planted(const int* x, int* y) {
    __shared__ int s[64];
    unsigned t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (unsigned k = 2; k <= 64; k *= 2)
        for (unsigned j = k / 2; j > 0; j /= 2) {
            unsigned other = t ^ j;
            if (other > t) {
                bool up = (t & k) == 0;
                if ((s[t] > s[other]) == up) { int v = s[t]; s[t] = s[other]; s[other] = v; }
            }
            __syncthreads();
        }
    y[t] = s[t];
}
## right: a radix sort by one bit after another | grid=1 block=64 | k(64, 16), z(64, "int32")
__global__ void planted(const int* x, int* y) {
    __shared__ int s[64], zeros[64];
    int t = threadIdx.x, v = x[t];
    for (int bit = 1; bit < 16; bit *= 2) {
        int is = (v & bit) == 0;
        zeros[t] = is;
        __syncthreads();
        for (int d = 1; d < 64; d *= 2) {
            int add = t >= d ? zeros[t - d] : 0;
            __syncthreads();
            zeros[t] += add;
            __syncthreads();
        }
        int at = is ? zeros[t] - 1 : zeros[63] + t - zeros[t];
        s[at] = v;
        __syncthreads();
        v = s[t];
        __syncthreads();
    }
    y[t] = v;
}
## right: a reduction whose last block sets back the counter | grid=5 block=32 | f(160), z(5), z(1, "uint32"), z(1)
__global__ void planted(const float* x, volatile float* part, unsigned* count, float* y) {
    float v = x[blockIdx.x * 32 + threadIdx.x];
    for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d);
    unsigned ticket = 0;
    if (threadIdx.x == 0) {
        part[blockIdx.x] = v;
        __threadfence();
        ticket = atomicInc(count, gridDim.x - 1);
    }
    ticket = __shfl_sync(~0u, ticket, 0);
    __syncwarp();
    if (ticket == gridDim.x - 1) {
        v = threadIdx.x < gridDim.x ? part[threadIdx.x] : 0;
        for (int d = 16; d; d /= 2) v += __shfl_down_sync(~0u, v, d);
        if (threadIdx.x == 0) *y = v;
    }
}
## right: the block with the highest number has its own work | grid=4 block=32 | f(128), z(128)
__global__ void planted(const float* x, float* y) {
    int i = blockIdx.x * 32 + threadIdx.x;
    if (blockIdx.x == gridDim.x - 1) y[i] = i < 127 ? x[i + 1] : x[0];
    else y[i] = x[i + 1];
}
## right: the last block by the counter, and the highest by its number | grid=4 block=32 | f(128), z(4), z(1, "int32"), z(2)
__global__ void planted(const float* x, float* part, int* count, float* y) {
    if (threadIdx.x == 0) {
        part[blockIdx.x] = x[blockIdx.x * 32];
        if (blockIdx.x == gridDim.x - 1) y[1] = part[blockIdx.x];
        __threadfence();
        if (atomicAdd(count, 1) == 3) {
            __threadfence();
            y[0] = part[0] + part[1] + part[2] + part[3];
        }
    }
}
## right: flags of blocks before, for a scan | grid=4 block=32 | f(128), z(128), z(4, "int32"), z(4)
__global__ void planted(const float* x, float* y, volatile int* flag, volatile float* sums) {
    __shared__ float before;
    int t = threadIdx.x, i = blockIdx.x * 32 + t;
    float v = x[i];
    for (int d = 1; d < 32; d *= 2) { float up = __shfl_up_sync(~0u, v, d); if (t >= d) v += up; }
    if (t == 31) {
        float own = 0;
        if (blockIdx.x > 0) {
            while (flag[blockIdx.x - 1] == 0) {}
            __threadfence();
            own = sums[blockIdx.x - 1];
        }
        before = own;
        sums[blockIdx.x] = own + v;
        __threadfence();
        flag[blockIdx.x] = 1;
    }
    __syncthreads();
    y[i] = before + v;
}
## right: two arrays in turn within one argument | grid=1 block=32 | f(128), z(32)
__global__ void planted(float* both, float* y) {
    float *from = both, *to = both + 64;
    int t = threadIdx.x;
    for (int s = 0; s < 4; ++s) {
        to[t] = from[t] + from[63 - t];
        to[t + 32] = from[t + 32] * 0.5f;
        __syncthreads();
        float* other = from;
        from = to;
        to = other;
    }
    y[t] = from[t];
}
## right: odd and even elements belong to two blocks | grid=2 block=32 | f(64)
__global__ void planted(float2* x) {
    float* own = &x[threadIdx.x].x + blockIdx.x;
    *own = *own * 2;
}
## right: a red and a black step between barriers | grid=1 block=66 | f(66), z(66)
__global__ void planted(const float* x, float* y) {
    __shared__ float u[66];
    int t = threadIdx.x;
    u[t] = x[t];
    __syncthreads();
    for (int s = 0; s < 6; ++s) {
        if (t > 0 && t < 65 && t % 2 == s % 2) u[t] = (u[t - 1] + u[t + 1]) / 2;
        __syncthreads();
    }
    y[t] = u[t];
}
## right: a tile with an edge that is read as it is loaded | grid=(2, 2) block=(8, 8) | f(12 * 10), z(12 * 10), 10, 12
__global__ void planted(const float* in, float* out, int rows, int columns) {
    __shared__ float tile[8][9];
    int c = blockIdx.x * 8 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
    if (r < rows && c < columns) tile[threadIdx.y][threadIdx.x] = in[r * columns + c];
    __syncthreads();
    c = blockIdx.y * 8 + threadIdx.x;
    r = blockIdx.x * 8 + threadIdx.y;
    if (c < rows && r < columns) out[r * rows + c] = tile[threadIdx.x][threadIdx.y];
}
## right: unsigned numbers that wrap, as a hash does | grid=1 block=64 | a(64), z(64, "uint32")
__global__ void planted(const int* x, unsigned* y) {
    unsigned h = x[threadIdx.x] * 2654435761u;
    h ^= h >> 16;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    y[threadIdx.x] = h - 0xffffffffu;
}
## right: counts down by an unsigned number | grid=1 block=32 | f(64), z(32)
__global__ void planted(const float* x, float* y) {
    float s = 0;
    for (unsigned i = 64; i-- > threadIdx.x;) s += x[i];
    y[threadIdx.x] = s;
}
## right: a local stack | grid=1 block=32 | a(64), z(32, "int32")
__global__ void planted(const int* tree, int* y) {
    int stack[8], top = 0, sum = 0;
    stack[top++] = 1;
    while (top > 0) {
        int node = stack[--top];
        sum += tree[node] * ((node ^ threadIdx.x) & 3);
        if (2 * node + 1 < 32) { stack[top++] = 2 * node; stack[top++] = 2 * node + 1; }
    }
    y[threadIdx.x] = sum;
}
## right: the smallest of k in registers | grid=1 block=32 | f(320), z(96)
__global__ void planted(const float* x, float* y) {
    float best[3] = {INFINITY, INFINITY, INFINITY};
    for (int i = threadIdx.x; i < 320; i += 32) {
        float v = -x[i];
        for (int k = 0; k < 3; ++k)
            if (v < best[k]) { float w = best[k]; best[k] = v; v = w; }
    }
    for (int k = 0; k < 3; ++k) y[k * 32 + threadIdx.x] = best[k];
}
## right: a variable that is set by a reference | grid=1 block=32 | f(32), z(32)
__device__ void split(float v, float& whole, float* rest) {
    whole = floorf(v);
    *rest = v - whole;
}
__global__ void planted(const float* x, float* y) {
    float a, b;
    split(x[threadIdx.x] * 10, a, &b);
    y[threadIdx.x] = a * 100 + b;
}
## right: a variable that is set if it is used | grid=1 block=32 | k(32, 4), z(32, "int32")
__global__ void planted(const int* x, int* y) {
    int found, is = 0;
    for (int i = 0; i < 4; ++i)
        if (x[i] == x[threadIdx.x]) { found = i; is = 1; }
    y[threadIdx.x] = is ? found : -1;
}
## right: structs with gaps are copied | grid=1 block=32 | f(32), z(32)
struct Entry { char tag; double value; short more; };
__global__ void planted(const float* x, float* y) {
    __shared__ Entry s[32];
    Entry own;
    own.tag = 1;
    own.value = x[threadIdx.x];
    own.more = 2;
    s[threadIdx.x] = own;
    __syncthreads();
    Entry other = s[31 - threadIdx.x];
    y[threadIdx.x] = (float)(other.value + other.more + other.tag);
}
## right: one warp makes, three use, by barriers with numbers | grid=1 block=128 | f(512), z(384)
<% include "prelude/warp_roles.cuh" %>
__global__ void planted(const float* x, float* y) {
    __shared__ float s[2][32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = 0; i < 4; ++i) {
        if (warp == 0) {
            if (i >= 2) barrier_sync(3 + i % 2, 128);
            s[i % 2][lane] = x[i * 32 + lane];
            barrier_arrive(1 + i % 2, 128);
        } else {
            barrier_sync(1 + i % 2, 128);
            y[i * 96 + (warp - 1) * 32 + lane] = s[i % 2][lane] * warp;
            if (i < 2) barrier_arrive(3 + i % 2, 128);
        }
    }
}
## right: copies in three stages | grid=1 block=32 | f(320), z(320)
<% include "prelude/copy_async.cuh" %>
__global__ void planted(const float* x, float* y) {
    __shared__ float s[3][32];
    int t = threadIdx.x;
    for (int i = 0; i < 2; ++i) { copy_async(&s[i][t], x + i * 32 + t); commit_copies(); }
    for (int i = 0; i < 10; ++i) {
        wait_copies<1>();
        __syncthreads();
        if (i + 2 < 10) copy_async(&s[(i + 2) % 3][t], x + (i + 2) * 32 + t);
        commit_copies();
        y[i * 32 + t] = s[i % 3][(t + 1) % 32];
    }
}
## right: a ring of bulk copies, each slot with two mbarriers | grid=2 block=64 | f(512), z(512)
<% include "prelude/bulk_copy.cuh" %>
__global__ void planted(const float* x, float* y) {
    __shared__ __align__(128) float ring[3][32];
    __shared__ MBarrier full[3], empty[3];
    x += blockIdx.x * 256;
    y += blockIdx.x * 256;
    if (threadIdx.x == 0) {
        for (int s = 0; s < 3; ++s) { mbarrier_init(&full[s], 1); mbarrier_init(&empty[s], 1); }
        fence_mbarrier_init();
    }
    __syncthreads();
    int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int i = 0; i < 8 && lane == 0; ++i) {
            int s = i % 3;
            mbarrier_wait(&empty[s], i / 3 % 2 ^ 1);
            mbarrier_arrive_expecting(&full[s], 128);
            copy_bulk(ring[s], x + i * 32, 128, &full[s]);
        }
    } else {
        for (int i = 0; i < 8; ++i) {
            int s = i % 3;
            mbarrier_wait(&full[s], i / 3 % 2);
            float v = ring[s][lane];
            __syncwarp();
            if (lane == 0) mbarrier_arrive(&empty[s]);
            y[i * 32 + lane] = v + 1;
        }
    }
}
## right: bulk stores in two buffers by turns | grid=1 block=64 | f(256), z(256)
<% include "prelude/bulk_copy.cuh" %>
<% include "prelude/async_proxy.cuh" %>
__global__ void planted(const float* x, float* y) {
    __shared__ __align__(128) float s[2][64];
    int t = threadIdx.x;
    for (int i = 0; i < 4; ++i) {
        if (t == 0) wait_stores_read<1>();
        __syncthreads();
        s[i % 2][t] = 2 * x[i * 64 + t];
        fence_to_async();
        __syncthreads();
        if (t == 0) { store_bulk(y + i * 64, s[i % 2], 256); commit_stores(); }
    }
    if (t == 0) wait_stores<0>();
}
## right: shuffles in parts of eight | grid=1 block=32 | f(32), z(32)
__global__ void planted(const float* x, float* y) {
    float v = x[threadIdx.x];
    for (int d = 4; d > 0; d /= 2) v += __shfl_down_sync(0xffffffff, v, d, 8);
    y[threadIdx.x] = __shfl_sync(0xffffffff, v, 0, 8);
}
## right: a shuffle up keeps the value of who has none | grid=1 block=32 | f(32), z(32)
__global__ void planted(const float* x, float* y) {
    float v = x[threadIdx.x];
    for (int d = 1; d < 32; d *= 2) v = fmaxf(v, __shfl_up_sync(~0u, v, d));
    y[threadIdx.x] = v;
}
## right: each of a warp's parts goes on as long as it has work | grid=1 block=32 | k(32, 6), z(32, "int32")
__global__ void planted(const int* x, int* y) {
    int left = x[threadIdx.x], turns = 0;
    while (__any_sync(0xffffffff, left > 0)) {
        if (left > 0) --left;
        turns += __popc(__ballot_sync(0xffffffff, left > 0));
    }
    y[threadIdx.x] = turns;
}
## right: keys that are alike are served by one | grid=1 block=64 | k(64, 6), z(6, "int32")
__global__ void planted(const int* x, int* bins) {
    int key = x[threadIdx.x];
    unsigned same = __match_any_sync(0xffffffff, key);
    if ((threadIdx.x & 31) == __ffs(same) - 1) atomicAdd(&bins[key], __popc(same));
}
## right: a tail whose mask is counted first | grid=2 block=32 | f(50), z(2), 50
__global__ void planted(const float* x, float* y, int n) {
    int i = blockIdx.x * 32 + threadIdx.x;
    unsigned in = __ballot_sync(0xffffffff, i < n);
    if (i < n) {
        int many = __popc(in);
        float v = x[i];
        for (int d = 16; d > 0; d /= 2) {
            float other = __shfl_down_sync(in, v, d);
            if ((int)threadIdx.x + d < many) v += other;
        }
        if (threadIdx.x == 0) y[blockIdx.x] = v;
    }
}
## right: a table of keys with open addresses | grid=2 block=32 | k(64, 40), z(64, "int32") - 1, z(64, "int32")
__global__ void planted(const int* keys, int* table, int* counts) {
    int key = keys[blockIdx.x * 32 + threadIdx.x];
    for (int at = key * 31 % 64;; at = (at + 1) % 64) {
        int old = atomicCAS(&table[at], -1, key);
        if (old == -1 || old == key) { atomicAdd(&counts[at], 1); break; }
    }
}
## right: roots of a forest are joined | grid=2 block=32 | a(64), k(64, 64)
__global__ void planted(int* parent, const int* other) {
    int a = blockIdx.x * 32 + threadIdx.x, b = other[a];
    while (true) {
        while (parent[a] != a) a = parent[a];
        while (parent[b] != b) b = parent[b];
        if (a == b) break;
        if (a < b) { int t = a; a = b; b = t; }
        if (atomicCAS(&parent[a], a, b) == a) break;
    }
}
## right: tiles are taken from a counter | grid=3 block=64 | f(640), z(640), z(1, "int32")
__global__ void planted(const float* x, float* y, int* next) {
    __shared__ int tile;
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) tile = atomicAdd(next, 1);
        __syncthreads();
        if (tile >= 10) return;
        int i = tile * 64 + threadIdx.x;
        y[i] = x[i] * 2;
    }
}
## right: recursion, as deep as a tree | grid=1 block=16 | a(64), z(16, "int32")
__device__ int below(const int* tree, int node, int depth) {
    if (depth == 0 || node >= 64) return 0;
    return tree[node] + below(tree, 2 * node, depth - 1) + below(tree, 2 * node + 1, depth - 1);
}
__global__ void planted(const int* tree, int* y) {
    y[threadIdx.x] = below(tree, threadIdx.x + 1, 3);
}
## right: numbers that stay, and a count of the device | grid=2 block=32 | f(64), z(64)
__constant__ float weights[4] = {0.1f, 0.2f, 0.3f, 0.4f};
__device__ int launched_threads = 0;
__global__ void planted(const float* x, float* y) {
    int i = blockIdx.x * 32 + threadIdx.x;
    atomicAdd(&launched_threads, 1);
    float v = 0;
    for (int k = 0; k < 4; ++k) v += weights[k] * __ldg(&x[(i + k) % 64]);
    y[i] = v;
}
## right: shared arrays of one name in two functions | grid=1 block=64 | f(64), z(64)
__device__ float turned(float v) {
    __shared__ float s[64];
    s[threadIdx.x] = v;
    __syncthreads();
    return s[63 - threadIdx.x];
}
__device__ float moved(float v) {
    __shared__ float s[64];
    s[threadIdx.x] = v;
    __syncthreads();
    return s[(threadIdx.x + 1) % 64];
}
__global__ void planted(const float* x, float* y) { y[threadIdx.x] = moved(turned(x[threadIdx.x])); }
## right: dynamic shared memory of three parts | grid=1 block=32 shared=448 | f(32), z(32)
__global__ void planted(const float* x, float* y) {
    extern __shared__ __align__(16) unsigned char bytes[];
    double* d = (double*)bytes;
    float* f = (float*)(d + 32);
    unsigned short* h = (unsigned short*)(f + 32);
    int t = threadIdx.x;
    d[t] = x[t];
    f[t] = 2 * x[t];
    h[t] = 31 - t;
    __syncthreads();
    y[t] = (float)d[h[t]] + f[h[h[t]]];
}
## right: an LU step in shared memory | grid=1 block=(8, 8) | f(64) * f(64), z(64)
__global__ void planted(const float* x, float* y) {
    __shared__ float a[8][8];
    int c = threadIdx.x, r = threadIdx.y;
    a[r][c] = x[r * 8 + c] + (r == c ? 9 : 0);
    __syncthreads();
    for (int k = 0; k < 7; ++k) {
        if (r > k && c == k) a[r][k] /= a[k][k];
        __syncthreads();
        if (r > k && c > k) a[r][c] -= a[r][k] * a[k][c];
        __syncthreads();
    }
    y[r * 8 + c] = a[r][c];
}
## right: distances are relaxed until none changes | grid=1 block=32 | k(32, 32), z(32, "int32") + 99
__global__ void planted(const int* next, int* far) {
    __shared__ int changed;
    int t = threadIdx.x;
    if (t == 0) far[0] = 0;
    __syncthreads();
    do {
        __syncthreads();
        if (t == 0) changed = 0;
        __syncthreads();
        if (atomicAdd(&far[t], 0) + 1 < atomicMin(&far[next[t]], far[t] + 1)) changed = 1;
        __syncthreads();
    } while (changed);
}
## right: a merge of two sorted halves | grid=1 block=64 | a(64), z(64, "int32")
__global__ void planted(const int* x, int* y) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = t < 32 ? x[t] * 2 : x[t - 32] * 2 + 1;
    __syncthreads();
    int v = s[t], low = t < 32 ? 32 : 0, high = low + 32, base = low;
    while (low < high) {
        int mid = (low + high) / 2;
        if (t < 32 ? s[mid] < v : s[mid] <= v) low = mid + 1; else high = mid;
    }
    y[(t & 31) + low - base] = v;
}
## right: a double sum by compare and swap | grid=2 block=32 | f(64), z(1, "float64")
__device__ double add(double* to, double v) {
    unsigned long long* word = (unsigned long long*)to;
    unsigned long long old = *word, seen;
    do {
        seen = old;
        old = atomicCAS(word, seen, __double_as_longlong(v + __longlong_as_double(seen)));
    } while (old != seen);
    return __longlong_as_double(old);
}
__global__ void planted(const float* x, double* y) { add(y, 0.5 * (int)(x[threadIdx.x] * 8)); }
## right: particles are drawn to each other by tiles | grid=2 block=16 | f(96), z(96)
__global__ void planted(const float* p, float* out) {
    __shared__ float3 s[16];
    int i = blockIdx.x * 16 + threadIdx.x;
    const float3* at = (const float3*)p;
    float3 own = at[i], sum = make_float3(0, 0, 0);
    for (int tile = 0; tile < 2; ++tile) {
        s[threadIdx.x] = at[tile * 16 + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 16; ++j) {
            float dx = s[j].x - own.x, dy = s[j].y - own.y, dz = s[j].z - own.z;
            float r = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            sum.x += dx * r * r * r;
            sum.y += dy * r * r * r;
            sum.z += dz * r * r * r;
        }
        __syncthreads();
    }
    ((float3*)out)[i] = sum;
}
## right: pushes by whoever has come out of a loop by then | grid=2 block=32 | k(64, 9), z(64, "int32"), z(1, "int32")
__global__ void planted(const int* x, int* out, int* count) {
    int i = blockIdx.x * 32 + threadIdx.x, sum = 0;
    for (int k = 0; k < x[i]; ++k) sum += k ^ i;
    if (sum > 3) {
        unsigned here = __activemask();
        int leader = __ffs(here) - 1, lane = threadIdx.x & 31, base;
        if (lane == leader) base = atomicAdd(count, __popc(here));
        base = __shfl_sync(here, base, leader);
        out[base + __popc(here & (shl(1u, lane) - 1))] = sum;
    }
}
