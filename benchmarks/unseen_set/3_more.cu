## divergent barrier: guard barrier then more | grid=2 block=64 | r(100), z(2), 100
__global__ void sums(const float* x, float* out, int n) {
    __shared__ float s[64];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    s[t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int h = 32; h > 0; h /= 2) {
        if (t < h) {
            s[t] += s[t + h];
            ⟦|||__syncthreads(); //!⟧
        }
        ⟦__syncthreads();|||⟧
    }
    ⟦|||__syncthreads(); //!⟧
    if (t == 0) out[blockIdx.x] = s[0];
}
## divergent warp function: ballot mixed | grid=1 block=64 | i(64, 100), z(64, "int32")
__global__ void k(const int* x, int* rank) {
    int lane = threadIdx.x & 31, v = x[threadIdx.x], r = 0;
    if (v > 50) {
        unsigned m = __ballot_sync(⟦__activemask()|||0xffffffff⟧, v > 70); //!
        r = __popc(m & ((1u << lane) - 1));
    }
    __syncwarp();
    rank[threadIdx.x] = __shfl_sync(0xffffffff, r, 31 - lane); //!
}
## wrong lane: stale value lane | grid=1 block=32 | r(32), z(32)
__global__ void upscan(const float* x, float* y) {
    int lane = threadIdx.x;
    float v = x[lane];
    for (int o = 1; o < 32; o *= 2) {
        ⟦float u = __shfl_up_sync(0xffffffff, v, o); if (lane >= o) v += u;|||if (lane >= o) v += __shfl_up_sync(0xffffffff, v, o); //!⟧
    }
    y[lane] = v;
}
## wrong lane: coalesced after branch | grid=1 block=32 | i(32, 100), z(32, "int32")
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void k(const int* x, int* y) {
    int v = x[threadIdx.x];
    if (v % 3 == 0) {
        cg::coalesced_group g = cg::coalesced_threads();
        y[threadIdx.x] = g.shfl(v, ⟦0|||g.size()⟧); //!
    }
}
## bounds: inner row overrun | grid=1 block=(16, 16) | r(256), z(256)
__global__ void k(const float* x, float* y) {
    __shared__ float s[16][16];
    s[threadIdx.y][threadIdx.x] = x[threadIdx.y * 16 + threadIdx.x];
    __syncthreads();
    float r = s[threadIdx.y][threadIdx.x];
    if (⟦threadIdx.x < 15 && |||⟧threadIdx.y < 15) r += s[threadIdx.y][threadIdx.x + 1]; //!
    y[threadIdx.y * 16 + threadIdx.x] = r;
}
## missing barrier: cub reuse | grid=2 block=64 | r(128), z(2), z(128)
#include <cub/cub.cuh>
__global__ void k(const float* x, float* total, float* y) {
    typedef cub::BlockScan<float, 64> Scan;
    typedef cub::BlockReduce<float, 64> Reduce;
    __shared__ union { typename Scan::TempStorage scan; typename Reduce::TempStorage reduce; } temp;
    int i = blockIdx.x * 64 + threadIdx.x;
    float v = x[i], s;
    float sum = Reduce(temp.reduce).Sum(v);
    if (threadIdx.x == 0) total[blockIdx.x] = sum;
    ⟦__syncthreads();|||⟧
    Scan(temp.scan).InclusiveSum(v, s); //!
    y[i] = s;
}
## missing barrier: wmma no sync | grid=1 block=32 | r(256).astype("float16"), r(256).astype("float16"), z(256)
#include <mma.h>
#include <cuda_fp16.h>
using namespace nvcuda;
__global__ void k(const half* a, const half* b, float* c) {
    __shared__ __align__(32) half sa[256];
    for (int i = threadIdx.x; i < 256; i += 32) sa[i] = __hmul(a[i], __float2half(2.f));
    ⟦__syncwarp();|||⟧
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.f);
    wmma::load_matrix_sync(fa, sa, 16); //!
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
## unset: wmma unfilled | grid=1 block=32 | r(256).astype("float16"), r(256).astype("float16"), z(256)
#include <mma.h>
using namespace nvcuda;
__global__ void k(const half* a, const half* b, float* c) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc; //!
    ⟦wmma::fill_fragment(fc, 0.f);|||⟧
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(fc, fa, fb, fc); //!
    wmma::store_matrix_sync(c, fc, 16, wmma::mem_row_major);
}
## missing barrier: named barrier count | grid=1 block=96 | r(64), z(64)
__global__ void roles(const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    if (t < 32) {
        s[t] = x[t]; s[t + 32] = x[t + 32];
        asm volatile("bar.arrive 1, 96;" ::: "memory");
    } else {
        ⟦asm volatile("bar.sync 1, 96;" ::: "memory");|||asm volatile("bar.sync 2, 64;" ::: "memory");⟧
        y[t - 32] = s[95 - t]; //!
    }
}
## missing barrier: cluster read no sync | grid=4 block=32 | r(128), z(128)
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void __cluster_dims__(2, 1, 1) swap(const float* x, float* y) {
    __shared__ float s[32];
    cg::cluster_group c = cg::this_cluster();
    int i = blockIdx.x * 32 + threadIdx.x;
    s[threadIdx.x] = x[i];
    ⟦c.sync();|||__syncthreads();⟧
    y[i] = c.map_shared_rank(s, c.block_rank() ^ 1)[threadIdx.x]; //!
    c.sync();
}
## missing barrier: cluster exit early | grid=4 block=32 | r(128), z(128)
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void __cluster_dims__(2, 1, 1) swap(const float* x, float* y) {
    __shared__ float s[32];
    cg::cluster_group c = cg::this_cluster();
    int i = blockIdx.x * 32 + threadIdx.x;
    s[threadIdx.x] = x[i];
    c.sync();
    y[i] = c.map_shared_rank(s, c.block_rank() ^ 1)[threadIdx.x]; //!
    ⟦c.sync();|||⟧
}
## missing barrier: radix pass | grid=1 block=64 | i(64, 16), z(64, "int32")
__global__ void pass(const int* in, int* out) {
    __shared__ int a[64], zeros[65];
    int t = threadIdx.x;
    a[t] = in[t];
    for (int bit = 0; bit < 4; ++bit) {
        __syncthreads();
        int v = a[t], z = !(v >> bit & 1);
        zeros[t + 1] = z;
        if (t == 0) zeros[0] = 0;
        __syncthreads();
        if (t == 0) for (int k = 1; k <= 64; ++k) zeros[k] += zeros[k - 1];
        ⟦__syncthreads();|||⟧
        int at = z ? zeros[t] : zeros[64] + t - zeros[t]; //!
        a[at & 63] = v;
    }
    __syncthreads();
    out[t] = a[t];
}
## bounds: merge path diag | grid=1 block=40 | f(20) + 0.5, f(20), z(40), 20, 20
__global__ void merge(const float* a, const float* b, float* c, int na, int nb) {
    int d = threadIdx.x, lo = max(0, d - nb), hi = min(d, na);
    while (lo < hi) { int m = (lo + hi) / 2; if (a[m] <= b[d - m - 1]) lo = m + 1; else hi = m; }
    int j = d - lo;
    c[d] = ⟦j >= nb || (lo < na && a[lo] <= b[j])|||lo < na && a[lo] <= b[j]⟧ ? a[lo] : b[j]; //!
}
## wrong atomics: coo boundary | grid=2 block=32 | ck.sort(i(64, 20)), i(64, 10), r(64), r(10), z(20)
__global__ void coo(const int* row, const int* col, const float* val, const float* x, float* y) {
    int i = blockIdx.x * 32 + threadIdx.x, lane = threadIdx.x, r = row[i];
    float v = val[i] * x[col[i]];
    for (int o = 1; o < 32; o *= 2) {
        float u = __shfl_up_sync(0xffffffff, v, o);
        int q = __shfl_up_sync(0xffffffff, r, o);
        if (lane >= o && q == r) v += u;
    }
    int next = __shfl_down_sync(0xffffffff, r, 1);
    if (lane == 31 || next != r) ⟦atomicAdd(&y[r], v);|||y[r] += v; //!⟧
}
## wrong atomics: volatile counter | grid=2 block=32 | i(64, 2), z(1, "int32")
__global__ void count(const int* x, volatile int* total) {
    int v = __popc(__ballot_sync(0xffffffff, x[blockIdx.x * 32 + threadIdx.x]));
    if (threadIdx.x == 0) ⟦atomicAdd((int*)total, v);|||*total += v; //!⟧
}
## wrong atomics: shared counter plain | grid=1 block=64 | i(64, 2), z(64, "int32"), z(1, "int32")
__global__ void compact(const int* x, int* y, int* total) {
    __shared__ int n;
    if (threadIdx.x == 0) n = 0;
    __syncthreads();
    if (x[threadIdx.x]) y[⟦atomicAdd(&n, 1)|||n++⟧] = threadIdx.x; //!
    __syncthreads();
    if (threadIdx.x == 0) *total = n;
}
## wrong atomics: two level lock shared | grid=1 block=64 | r(64), z(1)
__global__ void k(const float* x, float* y) {
    __shared__ float best;
    if (threadIdx.x == 0) best = 0;
    __syncthreads();
    float v = x[threadIdx.x];
    ⟦atomicMax((int*)&best, __float_as_int(v));|||if (v > best) best = v; //!⟧
    __syncthreads();
    if (threadIdx.x == 0) y[0] = best;
}
## missing barrier: wavefront lcs | grid=1 block=32 | i(32, 4), i(32, 4), z(33*33, "int32"), 32
__global__ void lcs(const int* a, const int* b, int* d, int n) {
    int j = threadIdx.x + 1;
    for (int s = 0; s < 2 * n - 1; ++s) {
        int i = s - threadIdx.x + 1;
        if (i >= 1 && i <= n) {
            int w = n + 1;
            d[i * w + j] = a[i - 1] == b[j - 1] ? d[(i - 1) * w + j - 1] + 1 : max(d[(i - 1) * w + j], d[i * w + j - 1]); //!
        }
        ⟦__syncthreads();|||⟧
    }
}
## missing barrier: life swap | grid=1 block=64 | i(64, 2), z(64, "int32"), 4
__global__ void life(int* a, int* b, int steps) {
    int t = threadIdx.x, x = t % 8, y = t / 8;
    for (int s = 0; s < steps; ++s) {
        int n = 0;
        for (int dy = -1; dy <= 1; ++dy) for (int dx = -1; dx <= 1; ++dx)
            if (dx || dy) n += a[(y + dy + 8) % 8 * 8 + (x + dx + 8) % 8]; //!
        b[t] = n == 3 || (n == 2 && a[t]);
        int* c = a; a = b; b = c;
        ⟦__syncthreads();|||⟧
    }
}
## bounds: softmax warp row | grid=2 block=(32, 4) | r(7*40), z(7*40), 7, 40
__global__ void softmax(const float* x, float* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    ⟦if (row >= rows) return;|||⟧
    const float* r = x + row * cols;
    float v[2], m = -INFINITY, s = 0;
    for (int k = 0; k < 2; ++k) { int c = k * 32 + threadIdx.x; v[k] = c < cols ? r[c] : -INFINITY; m = fmaxf(m, v[k]); } //!
    for (int o = 16; o > 0; o >>= 1) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, o));
    for (int k = 0; k < 2; ++k) s += expf(v[k] - m);
    for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffff, s, o);
    for (int k = 0; k < 2; ++k) if (k * 32 + threadIdx.x < cols) y[row * cols + k * 32 + threadIdx.x] = expf(v[k] - m) / s;
}
## misaligned: vec shared row | grid=1 block=32 | r(32*33), z(32)
__global__ void k(const float* x, float* y) {
    __shared__ __align__(16) float s[32][⟦36|||33⟧];
    for (int r = 0; r < 32; ++r) s[r][threadIdx.x] = x[r * 32 + threadIdx.x];
    __syncwarp();
    float4 v = *reinterpret_cast<float4*>(&s[threadIdx.x][4]); //!
    y[threadIdx.x] = v.x + v.w;
}
## misaligned: half2 odd | grid=1 block=16 | r(33).astype("float16"), z(32).astype("float16")
#include <cuda_fp16.h>
__global__ void k(const half* x, half* y) {
    const half2* p = (const half2*)(x⟦||| + 1⟧);
    half2 v = p[threadIdx.x]; //!
    ((half2*)y)[threadIdx.x] = __hadd2(v, v);
}
## wrong atomics: bit set plain | grid=2 block=32 | i(64, 90), z(4, "uint32")
__global__ void mark(const int* x, unsigned* bits) {
    int v = x[blockIdx.x * 32 + threadIdx.x];
    ⟦atomicOr(&bits[v / 32], 1u << (v % 32));|||bits[v / 32] |= 1u << (v % 32); //!⟧
}
## missing barrier: work queue broadcast | grid=2 block=32 | r(320), z(320), z(1, "int32"), 10
__global__ void persistent(const float* x, float* y, int* next, int tiles) {
    __shared__ int tile;
    while (true) {
        if (threadIdx.x == 0) tile = atomicAdd(next, 1); //!
        __syncthreads();
        int mine = tile;
        ⟦__syncthreads();|||⟧
        if (mine >= tiles) break;
        y[mine * 32 + threadIdx.x] = x[mine * 32 + threadIdx.x] + 1;
    }
}
## bounds: size t wrap | grid=1 block=32 | r(32), z(32), 32
__global__ void diff(const float* x, float* y, unsigned n) {
    unsigned i = threadIdx.x;
    if (i ⟦+ 1 < n && i > 0|||- 1 < n - 1 || i == 0⟧) y[i] = x[i] - x[i - 1]; //!
}
## bounds: mip chain | grid=1 block=32 | r(32), z(63), 32
__global__ void mips(const float* x, float* y, int n) {
    y[threadIdx.x] = x[threadIdx.x];
    int from = 0, to = n;
    for (int m = n / 2; m ⟦>= 1|||>= 0⟧; m /= 2) {
        __syncthreads();
        if (threadIdx.x < ⟦m|||m || (m == 0 && threadIdx.x == 0)⟧) y[to + threadIdx.x] = (y[from + 2 * threadIdx.x] + y[from + 2 * threadIdx.x + 1]) / 2; //!
        from = to; to += m;
        ⟦|||if (m == 0) break;⟧
    }
}
## between blocks: device scope flag block fence | grid=2 block=32 | z(32), z(32), z(1, "int32")
__global__ void handshake(volatile float* data, float* out, volatile int* ready) {
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        data[t] = t;
        __threadfence⟦|||_block⟧();
        __syncthreads();
        if (t == 0) atomicExch((int*)ready, 1);
    } else {
        if (t == 0) while (*ready == 0) {}
        __syncthreads();
        __threadfence⟦|||_block⟧();
        out[t] = data[t]; //!
    }
}
## between blocks: cuda atomic relaxed | grid=2 block=32 | z(32), z(32), z(1, "int32")
#include <cuda/atomic>
__global__ void handshake(float* data, float* out, int* ready) {
    cuda::atomic_ref<int, cuda::thread_scope_device> flag(*ready);
    if (blockIdx.x == 0) {
        if (threadIdx.x == 0) { data[0] = 5; flag.store(1, cuda::memory_order_⟦release|||relaxed⟧); } //!
    } else if (threadIdx.x == 0) {
        while (flag.load(cuda::memory_order_⟦acquire|||relaxed⟧) == 0) {}
        out[0] = data[0]; //!
    }
}
## wrong atomics: cuda atomic block scope | grid=3 block=32 | i(96, 8), z(8, "int32")
#include <cuda/atomic>
__global__ void count(const int* x, int* bins) {
    cuda::atomic_ref<int, cuda::thread_scope_⟦device|||block⟧> bin(bins[x[blockIdx.x * 32 + threadIdx.x]]);
    bin.fetch_add(1, cuda::memory_order_relaxed); //!
}
## unset: welford merge unset | grid=1 block=64 | r(64), z(2)
struct Welford { float n, mean, m2; };
__global__ void k(const float* x, float* out) {
    __shared__ Welford s[2];
    Welford w = {1, x[threadIdx.x], 0};
    for (int o = 16; o > 0; o >>= 1) {
        Welford u;
        u.n = __shfl_down_sync(0xffffffff, w.n, o); u.mean = __shfl_down_sync(0xffffffff, w.mean, o); u.m2 = __shfl_down_sync(0xffffffff, w.m2, o);
        float d = u.mean - w.mean, n = w.n + u.n;
        w.mean += d * u.n / n; w.m2 += u.m2 + d * d * w.n * u.n / n; w.n = n;
    }
    if (threadIdx.x % 32 == 0) { s[threadIdx.x / 32].mean = w.mean; s[threadIdx.x / 32].m2 = w.m2; ⟦s[threadIdx.x / 32].n = w.n;|||⟧ }
    __syncthreads();
    if (threadIdx.x == 0) {
        float n = s[0].n + s[1].n, d = s[1].mean - s[0].mean; //!
        out[0] = s[0].mean + d * s[1].n / n;
        out[1] = s[0].m2 + s[1].m2 + d * d * s[0].n * s[1].n / n;
    }
}
## bounds: shared index from float | grid=1 block=64 | f(64) - 1.5, z(8, "int32")
__global__ void bucket(const float* x, int* out) {
    __shared__ int c[8];
    if (threadIdx.x < 8) c[threadIdx.x] = 0;
    __syncthreads();
    int b = ⟦min(max(|||min(⟧(int)floorf(x[threadIdx.x] * 8)⟦, 0)|||⟧, 7);
    atomicAdd(&c[b], 1); //!
    __syncthreads();
    if (threadIdx.x < 8) out[threadIdx.x] = c[threadIdx.x];
}
## missing barrier: ldmatrix stale | grid=1 block=32 | r(128).astype("float16"), z(64, "uint32")
#include <cuda_fp16.h>
__global__ void k(const half* x, unsigned* y) {
    __shared__ __align__(16) half s[128];
    int l = threadIdx.x;
    for (int j = 0; j < 4; ++j) s[4 * l + j] = x[4 * l + j];
    ⟦__syncwarp();|||⟧
    unsigned a, b, at = (unsigned)__cvta_generic_to_shared(&s[(l % 16) * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(at)); //!
    y[l] = a; y[l + 32] = b;
}
## wrong atomics: cas dropped | grid=2 block=32 | r(64), z(1, "int32")
__global__ void fmax_all(const float* x, int* best) {
    float v = x[blockIdx.x * blockDim.x + threadIdx.x];
    int old = *best; //!
    ⟦while (__int_as_float(old) < v) {|||if (__int_as_float(old) < v) {⟧
        ⟦int seen = |||⟧atomicCAS(best, old, __float_as_int(v)); //!
        ⟦if (seen == old) break;|||⟧
        ⟦old = seen;|||⟧
    }
}
## wrong atomics: cas dropped sum | grid=2 block=32 | i(64, 10), z(1, "int32")
__global__ void k(const int* x, int* sum) {
    int v = x[blockIdx.x * blockDim.x + threadIdx.x];
    int old = *sum; //!
    ⟦for (int seen; (seen = atomicCAS(sum, old, old + v)) != old;) old = seen;|||old = atomicCAS(sum, old, old + v);⟧ //!
}
## wrong lane: coalesced rank random | grid=1 block=32 | a(32), z(32, "int32")
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void k(const int* x, int* y) {
    int v = x[threadIdx.x];
    if (v % 2 == 0) {
        cg::coalesced_group g = cg::coalesced_threads();
        y[threadIdx.x] = g.shfl(v, ⟦(g.thread_rank() + 1) % g.size()|||g.thread_rank() + 1⟧); //!
    }
}
