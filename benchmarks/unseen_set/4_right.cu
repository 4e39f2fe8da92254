## right: floyd warshall | grid=1 block=(16, 16) | r(256), 16
__global__ void fw(float* d, int n) {
    int i = threadIdx.y, j = threadIdx.x;
    for (int k = 0; k < n; ++k) {
        float via = d[i * n + k] + d[k * n + j];
        if (via < d[i * n + j]) d[i * n + j] = via;
        __syncthreads();
    }
}
## right: early return warp | grid=2 block=64 | r(100), z(100), 100
__global__ void k(const float* x, float* y, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (blockIdx.x * 64 + threadIdx.x / 4 * 4 >= n) return;
    float v = x[i];
    v += __shfl_xor_sync(__activemask(), v, 1, 4);
    y[i] = v;
}
## right: swizzled transpose | grid=(2, 2) block=(16, 16) | r(1024), z(1024), 32
__global__ void t(const float* in, float* out, int n) {
    __shared__ float s[16][16];
    int x = threadIdx.x, y = threadIdx.y;
    s[y][x ^ y] = in[(blockIdx.y * 16 + y) * n + blockIdx.x * 16 + x];
    __syncthreads();
    out[(blockIdx.x * 16 + y) * n + blockIdx.y * 16 + x] = s[x][y ^ x];
}
## right: lookback packed | grid=5 block=32 | i(160, 10), z(160, "int32"), z(5, "uint64")
__global__ void scan(const int* x, int* y, unsigned long long* status) {
    __shared__ int before;
    int b = blockIdx.x, t = threadIdx.x, v = x[b * 32 + t];
    for (int o = 1; o < 32; o *= 2) { int u = __shfl_up_sync(0xffffffff, v, o); if (t >= o) v += u; }
    if (t == 31) {
        atomicExch(&status[b], (b ? 1ull : 2ull) << 32 | (unsigned)v);
        int p = 0;
        for (int q = b - 1; q >= 0; --q) {
            unsigned long long s;
            do s = atomicAdd(&status[q], 0ull); while (!(s >> 32));
            p += (int)(unsigned)s;
            if (s >> 32 == 2) break;
        }
        if (b) atomicExch(&status[b], 2ull << 32 | (unsigned)(p + v));
        before = p;
    }
    __syncthreads();
    y[b * 32 + t] = before + v;
}
## right: dynamic ticket | grid=3 block=32 | r(96), z(96), z(1, "int32")
__global__ void k(const float* x, float* y, int* ticket) {
    __shared__ int b;
    if (threadIdx.x == 0) b = atomicAdd(ticket, 1);
    __syncthreads();
    y[b * 32 + threadIdx.x] = x[b * 32 + threadIdx.x] * 2;
}
## right: cas double add | grid=2 block=32 | r(64).astype("float64"), z(1, "float64")
__device__ double add(double* a, double v) {
    unsigned long long* p = (unsigned long long*)a, old = *p, assumed;
    do { assumed = old; old = atomicCAS(p, assumed, __double_as_longlong(v + __longlong_as_double(assumed))); } while (assumed != old);
    return __longlong_as_double(old);
}
__global__ void k(const double* x, double* y) { add(y, x[blockIdx.x * 32 + threadIdx.x]); }
## right: aggregated coalesced | grid=2 block=64 | i(128, 10), z(128, "int32"), z(1, "int32")
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__device__ int inc(int* c) {
    cg::coalesced_group g = cg::coalesced_threads();
    int p;
    if (g.thread_rank() == 0) p = atomicAdd(c, g.size());
    return g.thread_rank() + g.shfl(p, 0);
}
__global__ void filter(const int* x, int* y, int* n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (x[i] > 4) y[inc(n)] = x[i];
}
## right: union find | grid=2 block=32 | i(64, 40), i(64, 40), a(40)
__device__ int find(int* p, int v) { int q = p[v]; while (q != v) { v = q; q = p[v]; } return v; }
__global__ void hook(const int* a, const int* b, int* parent) {
    int i = blockIdx.x * 32 + threadIdx.x;
    int u = find(parent, a[i]), v = find(parent, b[i]);
    while (u != v) {
        if (u < v) { int t = u; u = v; v = t; }
        int old = atomicCAS(&parent[u], u, v);
        if (old == u) break;
        u = find(parent, old);
        v = find(parent, v);
    }
}
## right: relax min | grid=2 block=32 | i(64, 20), i(64, 20), i(64, 50), z(20, "int32") + 1000
__global__ void relax(const int* from, const int* to, const int* w, int* dist) {
    int i = blockIdx.x * 32 + threadIdx.x;
    int d = w[i] + (from[i] % 7);
    if (d < dist[to[i]]) atomicMin(&dist[to[i]], d);
}
## right: hash insert | grid=2 block=32 | i(64, 500), z(128, "int32") + -1, z(128, "int32")
__global__ void insert(const int* key, int* table, int* count) {
    int k = key[blockIdx.x * 32 + threadIdx.x];
    unsigned h = (unsigned)k * 2654435761u;
    for (int s = 0; s < 128; ++s) {
        int at = (h + s) & 127;
        int old = atomicCAS(&table[at], -1, k);
        if (old == -1 || old == k) { atomicAdd(&count[at], 1); break; }
    }
}
## right: last block syncthreads or | grid=4 block=64 | r(256), z(4), z(1), z(1, "uint32")
__global__ void k(const float* x, float* part, float* out, unsigned* done) {
    __shared__ float s[64];
    s[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();
    for (int h = 32; h; h >>= 1) { if (threadIdx.x < h) s[threadIdx.x] += s[threadIdx.x + h]; __syncthreads(); }
    bool mine = false;
    if (threadIdx.x == 0) { part[blockIdx.x] = s[0]; __threadfence(); mine = atomicAdd(done, 1u) == gridDim.x - 1; }
    if (__syncthreads_or(mine)) {
        __threadfence();
        if (threadIdx.x < 32) {
            float v = threadIdx.x < gridDim.x ? __ldcg(&part[threadIdx.x]) : 0;
            for (int o = 16; o; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
            if (threadIdx.x == 0) { *out = v; *done = 0; }
        }
    }
}
## right: syncthreads count | grid=2 block=64 | i(128, 10), z(2, "int32"), z(128, "int32")
__global__ void k(const int* x, int* counts, int* y) {
    int i = blockIdx.x * 64 + threadIdx.x;
    int c = __syncthreads_count(x[i] > 5);
    if (threadIdx.x == 0) counts[blockIdx.x] = c;
    y[i] = c;
}
## right: ticket lock | grid=3 block=32 | r(96), z(1), z(2, "int32")
__global__ void k(const float* x, float* total, int* lock) {
    if (threadIdx.x == 0) {
        float s = 0;
        for (int j = 0; j < 32; ++j) s += x[blockIdx.x * 32 + j];
        int me = atomicAdd(&lock[0], 1);
        while (atomicAdd(&lock[1], 0) != me) {}
        __threadfence();
        *(volatile float*)total = *(volatile float*)total + s;
        __threadfence();
        atomicAdd(&lock[1], 1);
    }
}
## right: cp async zfill | grid=1 block=32 | r(70), z(128), 70
__global__ void k(const float* x, float* y, int n) {
    __shared__ __align__(16) float s[128];
    int t = threadIdx.x;
    unsigned to = (unsigned)__cvta_generic_to_shared(&s[4 * t]);
    int bytes = max(0, min(16, (n - 4 * t) * 4));
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(bytes ? x + 4 * t : x), "r"(bytes) : "memory");
    asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    for (int j = 0; j < 4; ++j) y[j * 32 + t] = s[127 - j * 32 - t];
}
## right: partial local | grid=1 block=32 | i(32*12, 10), z(32, "int32"), 12
__global__ void k(const int* x, int* y, int n) {
    int kept[12], m = 0;
    for (int j = 0; j < n; ++j) { int v = x[threadIdx.x * n + j]; if (v & 1) kept[m++] = v; }
    int s = 0;
    for (int j = m - 1; j >= 0; --j) s = s * 3 + kept[j] & 0xffff;
    y[threadIdx.x] = s;
}
## right: clamped read | grid=2 block=32 | r(50), z(50), 50
__global__ void k(const float* x, float* y, int n) {
    int i = blockIdx.x * 32 + threadIdx.x;
    float a = x[min(i, n - 1)], b = x[max(min(i + 1, n - 1), 0)];
    if (i < n) y[i] = b - a;
}
## right: uniform break | grid=1 block=64 | i(64, 100), z(1, "int32")
__global__ void k(const int* x, int* rounds) {
    __shared__ int stop;
    int v = x[threadIdx.x], r = 0;
    while (true) {
        if (threadIdx.x == 0) stop = 1;
        __syncthreads();
        if (v > 1) { v = v / 2; stop = 0; }
        __syncthreads();
        if (stop) break;
        ++r;
        __syncthreads();
    }
    if (threadIdx.x == 0) *rounds = r;
}
## right: named ring | grid=1 block=64 | r(32*6), z(32), 6
__global__ void k(const float* x, float* y, int n) {
    __shared__ float s[32];
    int t = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int k = 0; k < n; ++k) {
            if (k) asm volatile("bar.sync 2, 64;" ::: "memory");
            s[t] = x[k * 32 + t];
            asm volatile("bar.arrive 1, 64;" ::: "memory");
        }
    } else {
        float sum = 0;
        for (int k = 0; k < n; ++k) {
            asm volatile("bar.sync 1, 64;" ::: "memory");
            sum += s[31 - t];
            if (k + 1 < n) asm volatile("bar.arrive 2, 64;" ::: "memory");
        }
        y[t] = sum;
    }
}
## right: cluster histogram | grid=4 block=32 | i(128, 16), z(16, "int32")
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void __cluster_dims__(2, 1, 1) hist(const int* x, int* bins) {
    __shared__ int h[8];
    cg::cluster_group c = cg::this_cluster();
    if (threadIdx.x < 8) h[threadIdx.x] = 0;
    c.sync();
    int v = x[blockIdx.x * 32 + threadIdx.x];
    atomicAdd(c.map_shared_rank(h, v / 8) + v % 8, 1);
    c.sync();
    if (threadIdx.x < 8) atomicAdd(&bins[c.block_rank() * 8 + threadIdx.x], h[threadIdx.x]);
}
## right: shared reuse types | grid=1 block=64 shared=256 | r(64), z(64, "int32")
__global__ void k(const float* x, int* y) {
    extern __shared__ float f[];
    int* n = reinterpret_cast<int*>(f);
    f[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    float v = f[63 - threadIdx.x];
    __syncthreads();
    n[threadIdx.x] = v * 100;
    __syncthreads();
    y[threadIdx.x] = n[threadIdx.x ^ 1];
}
## right: warp private rows | grid=1 block=128 | r(128), z(4)
__global__ void k(const float* x, float* y) {
    __shared__ float s[4][32];
    int w = threadIdx.x / 32, l = threadIdx.x % 32;
    s[w][l] = x[threadIdx.x];
    __syncwarp();
    for (int h = 16; h; h >>= 1) {
        float v = l < h ? s[w][l + h] : 0;
        __syncwarp();
        if (l < h) s[w][l] += v;
        __syncwarp();
    }
    if (l == 0) y[w] = s[w][0];
}
## right: same value flag | grid=2 block=64 | i(128, 100), z(1, "int32")
__global__ void any_big(const int* x, int* flag) { if (x[blockIdx.x * 64 + threadIdx.x] > 95) *flag = 1; }
## right: inplace own | grid=2 block=32 | r(128)
__global__ void k(float4* x) {
    int i = (blockIdx.x * 32 + threadIdx.x) % 32;
    if (blockIdx.x == 0) { float4 v = x[i]; float t = v.x; v.x = v.w; v.w = t; x[i] = v; }
}
## right: triangular pairs | grid=1 block=32 | r(256), 16
__global__ void sym(float* a, int n) {
    for (int k = threadIdx.x; k < n * (n - 1) / 2; k += 32) {
        int i = (int)((1 + sqrtf(1 + 8.f * k)) / 2);
        while (i * (i - 1) / 2 > k) --i;
        while ((i + 1) * i / 2 <= k) ++i;
        int j = k - i * (i - 1) / 2;
        float m = (a[i * n + j] + a[j * n + i]) / 2;
        a[i * n + j] = a[j * n + i] = m;
    }
}
## right: unsigned wrap | grid=1 block=32 | z(32, "uint32")
__global__ void lcg(unsigned* y) {
    unsigned s = threadIdx.x * 747796405u + 2891336453u;
    unsigned w = ((s >> ((s >> 28) + 4)) ^ s) * 277803737u;
    y[threadIdx.x] = (w >> 22) ^ w;
}
## right: char tail | grid=2 block=32 | a(150).astype("uint8"), z(150, "uint8"), 150
__global__ void copy(const unsigned char* x, unsigned char* y, int n) {
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i < n / 4) ((uchar4*)y)[i] = ((const uchar4*)x)[i];
    if (i >= 32 && i < 32 + n % 4) y[n / 4 * 4 + i - 32] = x[n / 4 * 4 + i - 32];
}
## right: bitonic global pair | grid=2 block=32 | r(64), 64, 8
__global__ void step(float* v, int k, int j) {
    unsigned i = blockIdx.x * 32 + threadIdx.x, p = i ^ j;
    if (p > i) { float a = v[i], b = v[p]; if ((a > b) == ((i & k) == 0)) { v[i] = b; v[p] = a; } }
}
## right: atomic queue bfs | grid=1 block=32 | a(21) * 2, i(40, 20), -ck.minimum(a(20), 1), z(20, "int32")
__global__ void bfs(const int* ptr, const int* adj, int* dist, int* queue) {
    __shared__ int head, tail, end;
    if (threadIdx.x == 0) { head = 0; tail = 1; }
    __syncthreads();
    while (true) {
        if (threadIdx.x == 0) end = tail;
        __syncthreads();
        if (head >= end) break;
        for (int q = head + threadIdx.x; q < end; q += 32) {
            int v = queue[q];
            for (int e = ptr[v]; e < ptr[v + 1]; ++e)
                if (atomicCAS(&dist[adj[e]], -1, dist[v] + 1) == -1) queue[atomicAdd(&tail, 1)] = adj[e];
        }
        __syncthreads();
        if (threadIdx.x == 0) head = end;
        __syncthreads();
    }
}
## right: hogwild distinct | grid=2 block=32 | a(64) * 27 % 64, r(64), z(64)
__global__ void scatter(const int* p, const float* x, float* y) { int i = blockIdx.x * 32 + threadIdx.x; y[p[i]] += x[i]; }
## right: seg width8 | grid=1 block=40 | r(40), z(5)
__global__ void k(const float* x, float* y) {
    float v = x[threadIdx.x];
    unsigned m = 0xffu << (threadIdx.x % 32 / 8 * 8);
    for (int o = 4; o; o >>= 1) v += __shfl_down_sync(m, v, o, 8);
    if (threadIdx.x % 8 == 0) y[threadIdx.x / 8] = v;
}
## right: mbarrier ring | grid=1 block=64 | r(32*8), z(32), 8
#include <cuda/barrier>
__global__ void k(const float* x, float* y, int n) {
    __shared__ float s[2][32];
    __shared__ cuda::barrier<cuda::thread_scope_block> full[2], empty[2];
    if (threadIdx.x == 0) for (int i = 0; i < 2; ++i) { init(&full[i], 64); init(&empty[i], 64); }
    __syncthreads();
    int t = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int k = 0; k < n; ++k) { empty[k & 1].arrive_and_wait(); s[k & 1][t] = x[k * 32 + t]; (void)full[k & 1].arrive(); }
    } else {
        (void)empty[0].arrive(); (void)empty[1].arrive();
        float sum = 0;
        for (int k = 0; k < n; ++k) { full[k & 1].arrive_and_wait(); sum += s[k & 1][31 - t]; (void)empty[k & 1].arrive(); }
        y[t] = sum;
    }
}
## right: shared minmax bits | grid=1 block=64 | r(64), z(1)
__global__ void k(const float* x, float* y) {
    __shared__ unsigned best;
    if (threadIdx.x == 0) best = 0;
    __syncthreads();
    atomicMax(&best, __float_as_uint(x[threadIdx.x]));
    __syncthreads();
    if (threadIdx.x == 63) y[0] = __uint_as_float(best);
}
## right: flash attention row | grid=2 block=32 | r(64*8), r(48*8), r(48*8), z(64*8), 48
__global__ void attn(const float* q, const float* k, const float* v, float* o, int n) {
    __shared__ float ks[16][8], vs[16][8];
    int r = blockIdx.x * 32 + threadIdx.x;
    float acc[8] = {}, m = -INFINITY, l = 0, qr[8];
    for (int d = 0; d < 8; ++d) qr[d] = q[r * 8 + d];
    for (int j = 0; j < n; j += 16) {
        for (int e = threadIdx.x; e < 128; e += 32) { ks[e / 8][e % 8] = k[j * 8 + e]; vs[e / 8][e % 8] = v[j * 8 + e]; }
        __syncthreads();
        for (int c = 0; c < 16; ++c) {
            float s = 0;
            for (int d = 0; d < 8; ++d) s += qr[d] * ks[c][d];
            float mn = fmaxf(m, s), f = __expf(m - mn), p = __expf(s - mn);
            l = l * f + p;
            for (int d = 0; d < 8; ++d) acc[d] = acc[d] * f + p * vs[c][d];
            m = mn;
        }
        __syncthreads();
    }
    for (int d = 0; d < 8; ++d) o[r * 8 + d] = acc[d] / l;
}
## right: empty output 2d | grid=(2, 2) block=(8, 8) | ck.empty(150), 15, 10
__global__ void fill(float* y, int w, int h) {
    int x = blockIdx.x * 8 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
    if (x < w && r < h) y[r * w + x] = x + r;
}
## right: prefetch register | grid=2 block=32 | r(2*32*5), z(64), 5
__global__ void k(const float* x, float* y, int n) {
    __shared__ float s[32];
    const float* p = x + blockIdx.x * n * 32;
    float next = p[threadIdx.x], sum = 0;
    for (int k = 0; k < n; ++k) {
        s[threadIdx.x] = next;
        __syncthreads();
        if (k + 1 < n) next = p[(k + 1) * 32 + threadIdx.x];
        sum += s[31 - threadIdx.x] * (k + 1);
        __syncthreads();
    }
    y[blockIdx.x * 32 + threadIdx.x] = sum;
}
## right: recursion stack | grid=1 block=32 | i(32, 100), z(32, "int32")
__global__ void depth(const int* x, int* y) {
    int stack[16], top = 0, seen = 0;
    stack[top++] = x[threadIdx.x];
    while (top > 0) {
        int v = stack[--top];
        ++seen;
        if (v > 1 && top < 14) { stack[top++] = v / 2; stack[top++] = v / 3; }
    }
    y[threadIdx.x] = seen;
}
## right: inactive garbage shfl | grid=1 block=32 | r(32), z(32), 20
__global__ void k(const float* x, float* y, int n) {
    float v = threadIdx.x < n ? x[threadIdx.x] : 0;
    float right = __shfl_down_sync(0xffffffff, v, 1);
    if (threadIdx.x + 1 < n) y[threadIdx.x] = right - v;
}
