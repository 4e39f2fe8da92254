## between blocks: fence without barrier in last block | grid=4 block=64 | r(256), z(256), z(1, "uint32"), z(1)
__global__ void last_block(const float* x, float* part, unsigned* done, float* out) {
    __shared__ bool last;
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    part[i] = x[i] * x[i]; //!
    __threadfence();
    ⟦__syncthreads();|||⟧
    if (t == 0) last = atomicInc(done, gridDim.x - 1) == gridDim.x - 1; //!
    __syncthreads();
    if (last && t == 0) {
        __threadfence();
        float s = 0;
        for (int k = 0; k < 256; ++k) s += part[k]; //!
        *out = s;
    }
}
## between blocks: last block counts too early | grid=4 block=32 | r(128), z(4), z(1, "int32"), z(1)
__global__ void arrive_first(const float* x, float* part, int* done, float* out) {
    float v = x[blockIdx.x * 32 + threadIdx.x];
    for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
    if (threadIdx.x != 0) return;
    ⟦part[blockIdx.x] = v;
    __threadfence();
    int before = atomicAdd(done, 1);|||int before = atomicAdd(done, 1); //!
    part[blockIdx.x] = v; //!
    __threadfence();⟧
    if (before == gridDim.x - 1) {
        __threadfence();
        float s = 0;
        for (int b = 0; b < gridDim.x; ++b) s += part[b]; //!
        *out = s;
    }
}
## between blocks: unlock before fence | grid=3 block=32 | r(96), z(2), z(1, "int32")
__global__ void locked_update(const float* x, float* stat, int* lock) {
    float v = x[blockIdx.x * 32 + threadIdx.x];
    for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {}
        __threadfence();
        stat[0] += v; //!
        stat[1] = fmaxf(stat[1], v); //!
        ⟦__threadfence();
        atomicExch(lock, 0);|||atomicExch(lock, 0); //!
        __threadfence();⟧
    }
}
## between blocks: unlock by a plain store | grid=3 block=32 | r(96), z(1), z(1, "int32")
__global__ void plain_unlock(const float* x, float* sum, int* lock) {
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {} //!
        __threadfence();
        *sum += x[blockIdx.x * 32]; //!
        __threadfence();
        ⟦atomicExch(lock, 0)|||*lock = 0⟧; //!
    }
}
## between blocks: no fence after acquiring | grid=3 block=32 | r(96), z(1), z(1, "int32")
__global__ void acquire(const float* x, float* sum, int* lock) {
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {} //!
        ⟦__threadfence();|||⟧
        *sum += x[blockIdx.x * 32]; //!
        __threadfence();
        atomicExch(lock, 0);
    }
}
## between blocks: lock taken by the wrong value | grid=3 block=32 | r(96), z(1), z(1, "int32")
__global__ void trylock(const float* x, float* sum, int* lock) {
    if (threadIdx.x == 0) {
        ⟦while (atomicCAS(lock, 0, 1) != 0) {}|||while (atomicCAS(lock, 1, 1) == 1) {} //!⟧
        __threadfence();
        *sum += x[blockIdx.x * 32]; //!
        __threadfence();
        atomicExch(lock, 0);
    }
}
## between blocks: two locks for one total | grid=4 block=1 | r(4), z(1), z(2, "int32")
__global__ void sharded(const float* x, float* total, int* locks) {
    int* lock = &locks[⟦0|||blockIdx.x & 1⟧];
    while (atomicCAS(lock, 0, 1) != 0) {}
    __threadfence();
    *total += x[blockIdx.x]; //!
    __threadfence();
    atomicExch(lock, 0);
}
## between blocks: missing volatile on the flag | grid=2 block=32 | r(32), z(32), z(1, "int32"), z(32)
__global__ void handoff(const float* x, float* box, int* flag, float* y) {
    if (blockIdx.x == 0) {
        box[threadIdx.x] = x[threadIdx.x];
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) atomicExch(flag, 1); //!
    } else {
        if (threadIdx.x == 0) {
            ⟦while (atomicAdd(flag, 0) == 0) {}|||while (*flag == 0) {} //!⟧
            __threadfence();
        }
        __syncthreads();
        y[threadIdx.x] = box[threadIdx.x]; //!
    }
}
## between blocks: flag set before the data | grid=2 block=32 | r(32), z(32), z(1, "int32"), z(32)
__global__ void early_flag(const float* x, float* box, int* flag, float* y) {
    if (blockIdx.x == 0) {
        ⟦box[threadIdx.x] = x[threadIdx.x]; __threadfence(); __syncthreads(); if (threadIdx.x == 0) atomicExch(flag, 1);|||if (threadIdx.x == 0) atomicExch(flag, 1); __syncthreads(); box[threadIdx.x] = x[threadIdx.x]; __threadfence(); //!⟧
    } else {
        if (threadIdx.x == 0) { while (atomicAdd(flag, 0) == 0) {} __threadfence(); }
        __syncthreads();
        y[threadIdx.x] = box[threadIdx.x]; //!
    }
}
## between blocks: consumer thread looks, others do not wait | grid=2 block=64 | r(64), z(64), z(1, "int32"), z(64)
__global__ void one_waits(const float* x, float* box, int* flag, float* y) {
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        box[t] = x[t]; //!
        __threadfence();
        __syncthreads();
        if (t == 0) atomicExch(flag, 1);
    } else {
        if (t == 0) { while (atomicAdd(flag, 0) == 0) {} __threadfence(); }
        ⟦__syncthreads();|||__syncwarp();⟧
        y[t] = box[63 - t]; //!
    }
}
## between blocks: chained scan with block fence | grid=4 block=32 | i(128, 9), z(128, "int32"), z(4, "int32"), z(4, "int32")
__global__ void chained(const int* x, int* y, int* total, int* ready) {
    __shared__ int base;
    int b = blockIdx.x, t = threadIdx.x, v = x[b * 32 + t];
    for (int o = 1; o < 32; o *= 2) { int u = __shfl_up_sync(~0u, v, o); if (t >= o) v += u; }
    if (t == 31) {
        int p = 0;
        if (b) { while (atomicAdd(&ready[b - 1], 0) == 0) {} __threadfence(); p = total[b - 1]; } //!
        total[b] = p + v; //!
        ⟦__threadfence();|||__threadfence_block();⟧
        atomicExch(&ready[b], 1); //!
        base = p;
    }
    __syncthreads();
    y[b * 32 + t] = base + v;
}
## between blocks: red black with one colour | grid=4 block=32 | r(130), 130
__global__ void gauss_seidel(float* u, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x + 1;
    if (i < n - 1 ⟦&& (i & 1) == 0|||⟧) u[i] = 0.5f * (u[i - 1] + u[i + 1]); //!
}
## between blocks: independent set reads what others decide | grid=2 block=32 | a(64) * 13 % 64, z(64, "int32"), z(64, "int32")
__global__ void mis(const int* weight, const int* old, int* state) {
    int i = blockIdx.x * 32 + threadIdx.x, l = (i + 63) & 63, r = (i + 1) & 63;
    const int* seen = ⟦old|||state⟧;
    if (seen[l] != 1 && seen[r] != 1 && weight[i] > weight[l] && weight[i] > weight[r]) state[i] = 1; //!
}
## between blocks: in place rank update | grid=2 block=32 | i(64, 64), r(64), z(64)
__global__ void pagerank(const int* from, const float* old, float* rank) {
    int i = blockIdx.x * 32 + threadIdx.x;
    ⟦rank[i] = 0.15f + 0.85f * old[from[i]];|||rank[i] = 0.15f + 0.85f * (old[i] + rank[from[i]]); //!⟧
}
## between blocks: tiles overlap by the halo | grid=3 block=34 | r(98), z(98)
__global__ void smooth(const float* x, float* y) {
    __shared__ float s[34];
    int t = threadIdx.x, i = blockIdx.x * 32 + t;
    s[t] = x[i];
    __syncthreads();
    float v = t && t < 33 ? (s[t - 1] + s[t] + s[t + 1]) / 3 : ⟦0.f|||s[t]⟧;
    if (⟦t > 0 && t < 33|||true⟧) y[i] = v; //!
}
## between blocks: cooperative grid phases | grid=4 block=32 | r(128), z(128), z(128)
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void two_phases(const float* x, float* tmp, float* y) {
    cg::grid_group g = cg::this_grid();
    int i = g.thread_rank();
    tmp[i] = 2 * x[i]; //!
    ⟦g.sync();|||cg::this_thread_block().sync();⟧
    y[i] = tmp[127 - i]; //!
}
## between blocks: cooperative loop one sync | grid=4 block=32 | r(128), z(128), 3
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void jacobi(float* a, float* b, int n) {
    cg::grid_group g = cg::this_grid();
    int i = g.thread_rank(), l = max(i - 1, 0), r = min(i + 1, 127);
    for (int k = 0; k < n; ++k) {
        b[i] = 0.5f * (a[l] + a[r]); //!
        g.sync();
        a[i] = 0.5f * (b[l] + b[r]); //!
        ⟦g.sync();|||⟧
    }
}
## wrong atomics: pooling gradient overlaps | grid=1 block=32 | i(32, 3), r(32), z(65)
__global__ void maxpool_backward(const int* arg, const float* dy, float* dx) {
    int i = threadIdx.x, at = 2 * i + arg[i];
    ⟦atomicAdd(&dx[at], dy[i]);|||dx[at] += dy[i]; //!⟧
}
## wrong atomics: packed 16 bit counters | grid=2 block=32 | i(64, 8), z(4, "uint32")
__global__ void packed(const int* x, unsigned* h) {
    int v = x[blockIdx.x * 32 + threadIdx.x];
    ⟦atomicAdd(&h[v >> 1], 1u << (16 * (v & 1)));|||((unsigned short*)h)[v]++; //!⟧
}
## wrong atomics: maximum by volatile | grid=2 block=32 | r(64), z(1)
__global__ void vmax(const float* x, float* m) {
    float v = x[blockIdx.x * 32 + threadIdx.x];
    ⟦atomicMax((int*)m, __float_as_int(v));|||volatile float* p = m; if (v > *p) *p = v; //!⟧
}
## wrong atomics: exchange of read plus one | grid=2 block=32 | z(1, "int32"), z(64, "int32")
__global__ void tickets(int* next, int* mine) {
    int i = blockIdx.x * 32 + threadIdx.x, t;
    ⟦t = atomicAdd(next, 1);|||t = atomicAdd(next, 0); atomicExch(next, t + 1); //!⟧
    mine[i] = t;
}
## wrong atomics: compare and swap of floats without retry | grid=2 block=32 | r(64), z(1)
__global__ void fmin_neg(const float* x, float* m) {
    float v = -x[blockIdx.x * 32 + threadIdx.x];
    int* p = (int*)m;
    int old = atomicAdd(p, 0), assumed;
    ⟦do {
        assumed = old;
        if (__int_as_float(assumed) <= v) break;
        old = atomicCAS(p, assumed, __float_as_int(v));
    } while (old != assumed);|||assumed = old;
    if (v < __int_as_float(assumed)) atomicCAS(p, assumed, __float_as_int(v)); //!⟧
}
## wrong atomics: head of a list by exchange after read | grid=2 block=32 | z(1, "int32") + -1, z(64, "int32")
__global__ void push(int* head, int* next) {
    int i = blockIdx.x * 32 + threadIdx.x;
    ⟦next[i] = atomicExch(head, i);|||next[i] = *(volatile int*)head; //!
    *(volatile int*)head = i; //!⟧
}
## wrong atomics: pop without tag | grid=2 block=4 | ck.asarray([8], dtype="uint64"), a(9) - 1, z(8, "int32")
__global__ void pop_push(unsigned long long* head, int* next, int* got) {
    int me = blockIdx.x * 4 + threadIdx.x;
    unsigned long long h = atomicAdd(head, 0ull), n;
    while (true) {
        int top = (int)(h & 0xffffffffu);
        if (top < 0) break;
        int below = atomicAdd(&next[top], 0);
        n = ⟦((h >> 32) + 1) << 32 | (unsigned)below|||(unsigned long long)(unsigned)below⟧;
        unsigned long long seen = atomicCAS(head, h, n); //!
        if (seen == h) { got[me] = top; break; }
        h = seen;
    }
    if (me & 1) {
        int mine = got[me];
        h = atomicAdd(head, 0ull);
        while (true) {
            atomicExch(&next[mine], (int)(h & 0xffffffffu));
            __threadfence();
            n = ⟦((h >> 32) + 1) << 32 | (unsigned)mine|||(unsigned long long)(unsigned)mine⟧;
            unsigned long long seen = atomicCAS(head, h, n); //!
            if (seen == h) break;
            h = seen;
        }
    }
}
## wrong atomics: value after key in a shared table | grid=1 block=64 | i(64, 20), r(64), z(64)
__global__ void lookup(const int* keys, const float* vals, float* out) {
    __shared__ int k[32];
    __shared__ float v[32];
    int t = threadIdx.x;
    if (t < 32) { k[t] = -1; v[t] = 0; }
    __syncthreads();
    int at = keys[t];
    if (atomicCAS(&k[at], -1, at) == -1) v[at] = at * 0.5f; //!
    ⟦__syncthreads();|||⟧
    out[t] = v[at] + vals[t]; //!
}
## wrong atomics: reset beside adds | grid=2 block=64 | i(128, 4), z(4, "int32"), z(2, "int32")
__global__ void rounds(const int* x, int* count, int* first) {
    __shared__ int c[4];
    int t = threadIdx.x;
    if (t < 4) c[t] = 0; //!
    __syncthreads();
    atomicAdd(&c[x[blockIdx.x * 64 + t]], 1); //!
    __syncthreads();
    if (t == 63) first[blockIdx.x] = c[0]; //!
    ⟦__syncthreads();|||⟧
    if (t < 4) c[t] = 0; //!
    __syncthreads();
    atomicAdd(&c[3 - x[blockIdx.x * 64 + t]], 1);
    __syncthreads();
    if (t < 4) atomicAdd(&count[t], c[t]);
}
## wrong atomics: read own total before the block is done | grid=1 block=64 | r(64), z(64)
__global__ void normalise(const float* x, float* y) {
    __shared__ float sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, x[threadIdx.x]); //!
    ⟦__syncthreads();|||__syncwarp();⟧
    y[threadIdx.x] = x[threadIdx.x] / sum; //!
}
## wrong atomics: embedding gradient by float2 | grid=2 block=16 | i(32, 6), r(64), z(12)
__global__ void embedding_backward(const int* ids, const float2* g, float* dw) {
    int i = blockIdx.x * 16 + threadIdx.x;
    float2 v = g[i];
    ⟦atomicAdd(&dw[2 * ids[i]], v.x); atomicAdd(&dw[2 * ids[i] + 1], v.y);|||float2* p = (float2*)dw + ids[i]; p->x += v.x; atomicAdd(&p->y, v.y); //!⟧
}
## wrong atomics: double checked init | grid=3 block=32 | z(1, "int32"), z(4), r(4), z(96)
__global__ void once(int* state, float* table, const float* x, float* y) {
    if (threadIdx.x == 0) {
        if (⟦atomicCAS(state, 0, 1) == 0|||atomicAdd(state, 0) == 0⟧) { //!
            for (int k = 0; k < 4; ++k) table[k] = x[k] * x[k] + ⟦0|||blockIdx.x⟧; //!
            __threadfence();
            atomicExch(state, 2);
        }
        while (atomicAdd(state, 0) != 2) {}
        __threadfence();
    }
    __syncthreads();
    y[blockIdx.x * 32 + threadIdx.x] = table[threadIdx.x & 3]; //!
}
## wrong atomics: relaxed release of a cell | grid=2 block=32 | r(32), z(32), z(1, "int32"), z(32)
#include <cuda/atomic>
__global__ void ref_flag(const float* x, float* box, int* flag, float* y) {
    cuda::atomic_ref<int, cuda::thread_scope_device> f(*flag);
    if (blockIdx.x == 0) {
        box[threadIdx.x] = x[threadIdx.x]; //!
        __syncthreads();
        if (threadIdx.x == 0) f.store(1, ⟦cuda::std::memory_order_release|||cuda::std::memory_order_relaxed⟧); //!
    } else {
        if (threadIdx.x == 0) while (f.load(cuda::std::memory_order_acquire) == 0) {}
        __syncthreads();
        y[threadIdx.x] = box[threadIdx.x]; //!
    }
}
## wrong atomics: acquire forgotten by the reader | grid=2 block=32 | r(32), z(32), z(1, "int32"), z(32)
#include <cuda/atomic>
__global__ void ref_reader(const float* x, float* box, int* flag, float* y) {
    cuda::atomic_ref<int, cuda::thread_scope_device> f(*flag);
    if (blockIdx.x == 0) {
        box[threadIdx.x] = x[threadIdx.x]; //!
        __syncthreads();
        if (threadIdx.x == 0) f.store(1, cuda::std::memory_order_release);
    } else {
        if (threadIdx.x == 0) while (f.load(⟦cuda::std::memory_order_acquire|||cuda::std::memory_order_relaxed⟧) == 0) {} //!
        __syncthreads();
        y[threadIdx.x] = box[threadIdx.x]; //!
    }
}
## wrong atomics: scope of the flag is a block | grid=2 block=32 | r(32), z(32), z(1, "int32"), z(32)
#include <cuda/atomic>
__global__ void ref_scope(const float* x, float* box, int* flag, float* y) {
    cuda::atomic_ref<int, ⟦cuda::thread_scope_device|||cuda::thread_scope_block⟧> f(*flag);
    if (blockIdx.x == 0) {
        box[threadIdx.x] = x[threadIdx.x]; //!
        __syncthreads();
        if (threadIdx.x == 0) f.store(1, cuda::std::memory_order_release); //!
    } else {
        if (threadIdx.x == 0) while (f.load(cuda::std::memory_order_acquire) == 0) {} //!
        __syncthreads();
        y[threadIdx.x] = box[threadIdx.x]; //!
    }
}
## wrong atomics: ptx store relaxed for release | grid=2 block=1 | z(1), z(1, "int32"), z(1)
__global__ void ptx_flag(float* box, int* flag, float* y) {
    if (blockIdx.x == 0) {
        *box = 7.f; //!
        asm volatile("st.⟦release|||relaxed⟧.gpu.global.s32 [%0], %1;" :: "l"(flag), "r"(1) : "memory"); //!
    } else {
        int v;
        do asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(flag) : "memory"); while (!v);
        *y = *box; //!
    }
}
## logic: float maximum as integers of both signs | grid=1 block=32 | -r(32), z(1) - 100
__global__ void fmax_bits(const float* x, float* m) {
    float v = x[threadIdx.x];
    ⟦if (v >= 0) atomicMax((int*)m, __float_as_int(v));
    else atomicMin((unsigned*)m, __float_as_uint(v));|||atomicMax((int*)m, __float_as_int(v)); //!⟧
}
## logic: order of threads taken for the order of elements | grid=2 block=32 | i(64, 5), z(64, "int32"), z(1, "int32")
__global__ void stable_positions(const int* x, int* y, int* next) {
    int i = blockIdx.x * 32 + threadIdx.x, v = x[i];
    int at = ⟦i|||atomicAdd(next, 1)⟧; //!
    y[at] = v * 100 + at; //!
}
## wrong mask: tail of the guarded shuffle | grid=1 block=32 | r(20), z(1), 20
__global__ void tail_sum(const float* x, float* y, int n) {
    int t = threadIdx.x;
    unsigned mask = __ballot_sync(~0u, t < n);
    if (t < n) {
        float v = x[t];
        for (int o = 16; o; o >>= 1) {
            float u = __shfl_down_sync(mask, v, o); //!
            ⟦if (t + o < n) v += u;|||v += u; //!⟧
        }
        if (t == 0) *y = v; //!
    }
}
## wrong mask: quad leader outside the mask | grid=1 block=32 | i(32, 10), r(32), z(32)
__global__ void from_leader(const int* take, const float* x, float* y) {
    int l = threadIdx.x;
    float v = x[l], r = v;
    if (l % 4) {
        unsigned m = 0xeeeeeeeeu;
        r = __shfl_sync(m, v, ⟦l / 4 * 4 + 1|||l / 4 * 4⟧); //!
    }
    y[l] = r + take[l]; //!
}
## wrong mask: caller not in its own mask | grid=1 block=32 | r(32), z(32)
__global__ void upper(const float* x, float* y) {
    int l = threadIdx.x;
    float v = x[l];
    if (l >= 16) v += __shfl_xor_sync(⟦0xffff0000u|||0x0000ffffu⟧, v, 1); //!
    y[l] = v;
}
## wrong mask: syncwarp of even lanes | grid=1 block=32 | r(32), z(32)
__global__ void evens(const float* x, float* y) {
    __shared__ float s[32];
    int l = threadIdx.x;
    s[l] = x[l]; //!
    ⟦__syncwarp();|||if (l % 2 == 0) __syncwarp(0x55555555u); else __syncwarp(0xaaaaaaaau); //!⟧
    y[l] = s[l ^ 1]; //!
}
## wrong lane: base taken from another lane | grid=1 block=64 | i(64, 10), z(64, "int32"), z(1, "int32"), 40
__global__ void warp_append(const int* x, int* y, int* count, int n) {
    int t = threadIdx.x, lane = t & 31;
    if (t >= n) return;
    unsigned here = t / 32 == n / 32 ? (1u << (n % 32)) - 1 : ~0u;
    unsigned m = __ballot_sync(here, x[t] > 4);
    int base = 0;
    if (lane == 0) base = atomicAdd(count, __popc(m));
    base = __shfl_sync(here, base, ⟦0|||__ffs(here) & 31⟧); //!
    if (x[t] > 4) y[base + __popc(m & ((1u << lane) - 1))] = x[t]; //!
}
## wrong lane: broadcast from an ended lane | grid=1 block=32 | r(32), z(32), 24
__global__ void last_value(const float* x, float* y, int n) {
    int t = threadIdx.x;
    if (t >= n) return;
    unsigned m = (1u << n) - 1;
    float v = __shfl_sync(m, x[t], ⟦n - 1|||31⟧); //!
    y[t] = x[t] / v; //!
}
## wrong lane: partner beyond the last warp | grid=1 block=40 | r(40), z(40)
__global__ void butterflies(const float* x, float* y) {
    int t = threadIdx.x, lane = t & 31;
    unsigned m = t < 32 ? ~0u : 0xffu;
    float v = x[t];
    for (int o = ⟦4|||16⟧; o; o >>= 1) v += __shfl_xor_sync(m, v, o); //!
    y[t] = v + lane; //!
}
## async copy: wait group off by one | grid=1 block=32 | r(32*6), z(32), 6
__global__ void prefetch3(const float* x, float* y, int n) {
    __shared__ float s[3][32];
    int t = threadIdx.x;
    float acc = 0;
    for (int k = 0; k < 2; ++k) {
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"((unsigned)__cvta_generic_to_shared(&s[k][t])), "l"(x + k * 32 + t) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    for (int k = 0; k < n; ++k) {
        asm volatile("cp.async.wait_group ⟦1|||2⟧;" ::: "memory"); //!
        acc += s[k % 3][t]; //!
        if (k + 2 < n) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"((unsigned)__cvta_generic_to_shared(&s[(k + 2) % 3][t])), "l"(x + (k + 2) * 32 + t) : "memory");
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    y[t] = acc;
}
## async copy: commit forgotten | grid=1 block=32 | r(32*2), z(32)
#include <cuda_pipeline.h>
__global__ void two_groups(const float* x, float* y) {
    __shared__ float a[32], b[32];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&a[t], x + t, 4);
    ⟦__pipeline_commit();|||⟧
    __pipeline_memcpy_async(&b[t], x + 32 + t, 4);
    __pipeline_commit();
    __pipeline_wait_prior(1); //!
    float v = a[t]; //!
    __pipeline_wait_prior(0);
    y[t] = v * b[t];
}
## async copy: neighbours without a barrier | grid=1 block=64 | r(64), z(64)
#include <cuda_pipeline.h>
__global__ void rotate(const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[t], x + t, 4); //!
    __pipeline_commit();
    __pipeline_wait_prior(0);
    ⟦__syncthreads();|||⟧
    y[t] = s[(t + 33) & 63]; //!
}
## buffer reuse: prefetch into the stage in use | grid=1 block=64 | r(64*5), z(64), 5
#include <cuda_pipeline.h>
__global__ void two_stages(const float* x, float* y, int n) {
    __shared__ float s[2][64];
    int t = threadIdx.x;
    float acc = 0;
    __pipeline_memcpy_async(&s[0][t], x + t, 4);
    __pipeline_commit();
    for (int k = 0; k < n; ++k) {
        if (k + 1 < n) __pipeline_memcpy_async(&s[(k + 1) & 1][t], x + (k + 1) * 64 + t, 4); //!
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        acc += s[k & 1][63 - t]; //!
        ⟦__syncthreads();|||⟧
    }
    y[t] = acc;
}
## async copy: barrier phase waited twice | grid=1 block=64 | r(64*2), z(64)
#include <cuda/barrier>
__global__ void phases(const float* x, float* y) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t == 0) init(&bar, 64);
    __syncthreads();
    s[t] = x[t]; //!
    ⟦bar.arrive_and_wait();|||auto token = bar.arrive(); (void)token; //!⟧
    float v = s[63 - t]; //!
    bar.arrive_and_wait();
    s[t] = x[64 + t]; //!
    bar.arrive_and_wait();
    y[t] = v + s[63 - t];
}
## async copy: split arrive reads before the wait | grid=1 block=64 | r(64), z(64)
#include <cuda/barrier>
__global__ void split(const float* x, float* y) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t == 0) init(&bar, blockDim.x);
    __syncthreads();
    s[t] = x[t]; //!
    auto token = bar.arrive();
    float own = 2 * s[t];
    ⟦bar.wait(std::move(token));
    own += s[63 - t];|||own += s[63 - t]; //!
    bar.wait(std::move(token));⟧
    y[t] = own;
}
## async copy: store to shared after arriving | grid=1 block=64 | r(64), z(64)
#include <cuda/barrier>
__global__ void late_store(const float* x, float* y) {
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t == 0) init(&bar, blockDim.x);
    __syncthreads();
    ⟦s[t] = x[t];
    auto token = bar.arrive();|||auto token = bar.arrive();
    s[t] = x[t]; //!⟧
    bar.wait(std::move(token));
    y[t] = s[63 - t]; //!
}
## async copy: bulk copy read without waiting | grid=1 block=32 | r(32), z(32)
#include "prelude/mbarrier.cuh"
#include "prelude/bulk_copy.cuh"
__global__ void bulk(const float* x, float* y) {
    __shared__ __align__(128) float s[32];
    __shared__ MBarrier here;
    if (threadIdx.x == 0) {
        mbarrier_init(&here, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expecting(&here, sizeof s);
        copy_bulk(s, x, sizeof s, &here);
    }
    __syncthreads();
    ⟦mbarrier_wait(&here, 0);|||⟧
    y[threadIdx.x] = 2 * s[threadIdx.x]; //!
    ⟦|||mbarrier_wait(&here, 0);⟧
}
## buffer reuse: bulk store source overwritten | grid=1 block=32 | z(64)
#include "prelude/bulk_copy.cuh"
__global__ void bulk_out(float* y) {
    __shared__ __align__(16) float s[32];
    for (int k = 0; k < 2; ++k) {
        s[threadIdx.x] = 32.f * k + threadIdx.x; //!
        fence_to_async();
        __syncthreads();
        if (threadIdx.x == 0) {
            store_bulk(y + 32 * k, s, sizeof s); //!
            commit_stores();
            ⟦wait_stores_read<0>();|||if (k == 1) wait_stores_read<0>();⟧
        }
        __syncthreads();
    }
}
## tensor cores: row stride of a padded tile | grid=1 block=32 | r(256).astype("float16"), r(256).astype("float16"), z(256)
#include <mma.h>
using namespace nvcuda;
__global__ void product(const half* A, const half* B, float* C) {
    __shared__ __align__(32) half a[⟦16 * 24|||16 * 20⟧];
    for (int k = threadIdx.x; k < 256; k += 32) a[k / 16 * ⟦24|||20⟧ + k % 16] = A[k];
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.f);
    wmma::load_matrix_sync(fa, a, 24); //!
    wmma::load_matrix_sync(fb, B, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(C, fc, 16, wmma::mem_row_major);
}
## tensor cores: store beyond the output | grid=2 block=32 | r(512).astype("float16"), r(256).astype("float16"), z(16*24), 24
#include <mma.h>
using namespace nvcuda;
__global__ void edge(const half* A, const half* B, float* C, int rows) {
    __shared__ __align__(32) float c[256];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.f);
    wmma::load_matrix_sync(fa, A + blockIdx.x * 256, 16);
    wmma::load_matrix_sync(fb, B, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    ⟦wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
    __syncwarp();
    for (int k = threadIdx.x; k < 256; k += 32)
        if (blockIdx.x * 16 + k / 16 < rows) C[blockIdx.x * 256 + k] = c[k];|||wmma::store_matrix_sync(C + blockIdx.x * 256, fc, 16, wmma::mem_row_major); //!⟧
}
