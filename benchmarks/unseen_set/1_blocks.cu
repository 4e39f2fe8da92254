## missing barrier: sgemm tile | grid=(2, 2) block=(16, 16) | r(40*40), r(40*40), z(40*40), 40
#define TS 16
__global__ void sgemm_tile(const float* A, const float* B, float* C, int N) {
    __shared__ float As[TS][TS], Bs[TS][TS];
    int row = blockIdx.y * TS + threadIdx.y, col = blockIdx.x * TS + threadIdx.x;
    float acc = 0.f;
    for (int t = 0; t < (N + TS - 1) / TS; ++t) {
        int ac = t * TS + threadIdx.x, br = t * TS + threadIdx.y;
        As[threadIdx.y][threadIdx.x] = row < N && ac < N ? A[row * N + ac] : 0.f; //!
        Bs[threadIdx.y][threadIdx.x] = br < N && col < N ? B[br * N + col] : 0.f;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TS; ++k) acc += As[threadIdx.y][k] * Bs[k][threadIdx.x];
        ⟦__syncthreads();|||⟧
    }
    if (row < N && col < N) C[row * N + col] = acc;
}
## missing barrier: transpose padded | grid=(2, 2) block=(32, 8) | r(50*40), z(50*40), 50, 40
#define TILE 32
__global__ void transpose(const float* in, float* out, int rows, int cols) {
    __shared__ float tile[TILE][TILE + 1];
    int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += 8)
        if (x < cols && y + j < rows) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * cols + x];
    ⟦__syncthreads();|||__syncwarp();⟧
    x = blockIdx.y * TILE + threadIdx.x;
    y = blockIdx.x * TILE + threadIdx.y;
    for (int j = 0; j < TILE; j += 8)
        if (x < rows && y + j < cols) out[(y + j) * rows + x] = tile[threadIdx.x][threadIdx.y + j]; //!
}
## missing barrier: layernorm two pass | grid=3 block=64 | r(3*100), z(300), z(3), z(3), 100
__global__ void layernorm_forward(const float* inp, float* out, float* mean, float* rstd, int C) {
    __shared__ float shared[64];
    const float* x = inp + blockIdx.x * C;
    float sum = 0.f;
    for (int i = threadIdx.x; i < C; i += blockDim.x) sum += x[i];
    shared[threadIdx.x] = sum;
    __syncthreads();
    for (int stride = blockDim.x / 2; stride >= 1; stride /= 2) {
        if (threadIdx.x < stride) shared[threadIdx.x] += shared[threadIdx.x + stride];
        __syncthreads();
    }
    float m = shared[0] / C;
    ⟦__syncthreads();|||⟧
    sum = 0.f;
    for (int i = threadIdx.x; i < C; i += blockDim.x) sum += (x[i] - m) * (x[i] - m);
    shared[threadIdx.x] = sum; //!
    __syncthreads();
    for (int stride = blockDim.x / 2; stride >= 1; stride /= 2) {
        if (threadIdx.x < stride) shared[threadIdx.x] += shared[threadIdx.x + stride];
        __syncthreads();
    }
    float s = rsqrtf(shared[0] / C + 1e-5f);
    if (threadIdx.x == 0) { mean[blockIdx.x] = m; rstd[blockIdx.x] = s; }
    for (int i = threadIdx.x; i < C; i += blockDim.x) out[blockIdx.x * C + i] = (x[i] - m) * s;
}
## missing barrier: scan hillis steele | grid=2 block=64 | r(128), z(128)
__global__ void scan(const float* x, float* y) {
    __shared__ float temp[64];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    temp[t] = x[i];
    __syncthreads();
    for (int off = 1; off < blockDim.x; off <<= 1) {
        float v = t >= off ? temp[t - off] : 0.f;
        ⟦__syncthreads();|||⟧
        temp[t] += v; //!
        __syncthreads();
    }
    y[i] = temp[t];
}
## missing barrier: scan blelloch | grid=1 block=32 shared=256 | r(64), z(64), 64
__global__ void prescan(const float* g_idata, float* g_odata, int n) {
    extern __shared__ float temp[];
    int thid = threadIdx.x, offset = 1;
    temp[2 * thid] = g_idata[2 * thid];
    temp[2 * thid + 1] = g_idata[2 * thid + 1];
    for (int d = n >> 1; d > 0; d >>= 1) {
        __syncthreads();
        if (thid < d) {
            int ai = offset * (2 * thid + 1) - 1, bi = offset * (2 * thid + 2) - 1;
            temp[bi] += temp[ai];
        }
        offset *= 2;
    }
    if (thid == 0) temp[n - 1] = 0;
    for (int d = 1; d < n; d *= 2) {
        offset >>= 1;
        ⟦__syncthreads();|||__threadfence_block();⟧
        int ai = offset * (2 * thid + 1) - 1, bi = offset * (2 * thid + 2) - 1;
        if (thid < d) { float t = temp[ai]; temp[ai] = temp[bi]; temp[bi] += t; } //!
    }
    __syncthreads();
    g_odata[2 * thid] = temp[2 * thid];
    g_odata[2 * thid + 1] = temp[2 * thid + 1];
}
## missing barrier: block reduce warps | grid=2 block=128 | r(300), z(2), 300
__inline__ __device__ float warpReduceSum(float val) {
    for (int offset = 16; offset > 0; offset /= 2) val += __shfl_down_sync(0xffffffff, val, offset);
    return val;
}
__global__ void reduce(const float* in, float* out, int n) {
    static __shared__ float shared[32];
    int lane = threadIdx.x % 32, wid = threadIdx.x / 32;
    float val = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) val += in[i];
    val = warpReduceSum(val);
    if (lane == 0) shared[wid] = val;
    ⟦__syncthreads();|||⟧
    val = threadIdx.x < blockDim.x / 32 ? shared[lane] : 0; //!
    if (wid == 0) val = warpReduceSum(val);
    if (threadIdx.x == 0) out[blockIdx.x] = val;
}
## missing barrier: softmax reuse | grid=3 block=64 shared=16 | r(3*90), z(270), 90
__device__ float warpMax(float v) { for (int o = 16; o > 0; o /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, o)); return v; }
__device__ float warpSum(float v) { for (int o = 16; o > 0; o /= 2) v += __shfl_xor_sync(0xffffffff, v, o); return v; }
__global__ void softmax_forward(const float* inp, float* out, int C) {
    extern __shared__ float shared[];
    int idx = blockIdx.x, tid = threadIdx.x, warpId = tid / 32, laneId = tid % 32, warps = blockDim.x / 32;
    const float* x = inp + idx * C;
    float maxval = -INFINITY;
    for (int i = tid; i < C; i += blockDim.x) maxval = fmaxf(maxval, x[i]);
    maxval = warpMax(maxval);
    if (laneId == 0) shared[warpId] = maxval;
    __syncthreads();
    float offset = shared[0];
    for (int i = 1; i < warps; i++) offset = fmaxf(offset, shared[i]);
    ⟦__syncthreads();|||⟧
    float sum = 0.f;
    for (int i = tid; i < C; i += blockDim.x) { float e = expf(x[i] - offset); out[idx * C + i] = e; sum += e; }
    sum = warpSum(sum);
    if (laneId == 0) shared[warpId] = sum; //!
    __syncthreads();
    sum = 0.f;
    for (int i = 0; i < warps; i++) sum += shared[i];
    for (int i = tid; i < C; i += blockDim.x) out[idx * C + i] /= sum;
}
## missing barrier: bitonic shared | grid=1 block=64 | r(64)
__global__ void bitonic(float* values) {
    __shared__ float s[64];
    unsigned tid = threadIdx.x;
    s[tid] = values[tid];
    __syncthreads();
    for (unsigned k = 2; k <= 64; k *= 2) {
        for (unsigned j = k / 2; j > 0; j /= 2) {
            unsigned ixj = tid ^ j;
            if (ixj > tid) {
                bool up = (tid & k) == 0;
                if ((s[tid] > s[ixj]) == up) { float t = s[tid]; s[tid] = s[ixj]; s[ixj] = t; } //!
            }
            ⟦__syncthreads();|||⟧
        }
        ⟦|||__syncthreads();⟧
    }
    values[tid] = s[tid];
}
## missing barrier: stencil halo | grid=3 block=64 | r(192+6), z(192)
#define RADIUS 3
__global__ void stencil_1d(const float* in, float* out) {
    __shared__ float temp[64 + 2 * RADIUS];
    int g = threadIdx.x + blockIdx.x * blockDim.x + RADIUS, l = threadIdx.x + RADIUS;
    temp[l] = in[g];
    if (threadIdx.x < RADIUS) {
        temp[l - RADIUS] = in[g - RADIUS];
        temp[l + 64] = in[g + 64];
    }
    ⟦__syncthreads();|||⟧
    float r = 0;
    for (int o = -RADIUS; o <= RADIUS; o++) r += temp[l + o]; //!
    out[g - RADIUS] = r;
}
## missing barrier: reduce last warp | grid=2 block=128 shared=512 | r(512), z(2)
__global__ void reduce4(const float* g_idata, float* g_odata) {
    extern __shared__ float sdata[];
    unsigned tid = threadIdx.x, i = blockIdx.x * blockDim.x * 2 + tid;
    sdata[tid] = g_idata[i] + g_idata[i + blockDim.x];
    __syncthreads();
    for (unsigned s = blockDim.x / 2; s > 32; s >>= 1) {
        if (tid < s) sdata[tid] += sdata[tid + s];
        __syncthreads();
    }
    if (tid < 32) {
        float v = sdata[tid] + sdata[tid + 32];
        sdata[tid] = v; ⟦__syncwarp();|||⟧
        for (int s = 16; s > 0; s >>= 1) {
            if (tid < s) v += sdata[tid + s]; //!
            __syncwarp();
            if (tid < s) sdata[tid] = v;
            __syncwarp();
        }
        if (tid == 0) g_odata[blockIdx.x] = v;
    }
}
## missing barrier: histogram zero | grid=2 block=64 | i(200, 100), z(256, "int32"), 200
__global__ void histogram256(const int* data, int* bins, int n) {
    __shared__ int h[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x) h[b] = 0; //!
    ⟦__syncthreads();|||⟧
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&h[data[i]], 1);
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x) if (h[b]) atomicAdd(&bins[b], h[b]);
}
## missing barrier: histogram flush | grid=2 block=256 | i(600, 256), z(256, "int32"), 600
__global__ void histogram256(const int* data, int* bins, int n) {
    __shared__ int h[256];
    h[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&h[data[i]], 1);
    ⟦__syncthreads();|||__threadfence_block();⟧
    atomicAdd(&bins[threadIdx.x], h[threadIdx.x]); //!
}
## missing barrier: odd even global | grid=1 block=32 | r(64), 64
__global__ void oddeven(float* a, int n) {
    for (int phase = 0; phase < n; ++phase) {
        int i = 2 * threadIdx.x + (phase & 1);
        if (i + 1 < n && a[i] > a[i + 1]) { float t = a[i]; a[i] = a[i + 1]; a[i + 1] = t; } //!
        ⟦__syncthreads();|||__threadfence();⟧
    }
}
## missing barrier: nbody tile | grid=2 block=32 shared=512 | r(4*64), z(4*64), 64
__global__ void forces(const float4* pos, float4* acc, int n) {
    extern __shared__ float4 sh[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 p = pos[i], a = make_float4(0, 0, 0, 0);
    for (int tile = 0; tile < gridDim.x; tile++) {
        sh[threadIdx.x] = pos[tile * blockDim.x + threadIdx.x]; //!
        __syncthreads();
        for (int j = 0; j < blockDim.x; j++) {
            float dx = sh[j].x - p.x, dy = sh[j].y - p.y, dz = sh[j].z - p.z;
            float inv = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
            float s = sh[j].w * inv * inv * inv;
            a.x += dx * s; a.y += dy * s; a.z += dz * s;
        }
        ⟦__syncthreads();|||⟧
    }
    acc[i] = a;
}
## missing barrier: cg tile sync | grid=2 block=64 | r(128), z(128)
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void reverse(const float* in, float* out) {
    __shared__ float s[64];
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> tile = cg::tiled_partition<32>(block);
    int t = block.thread_rank(), base = block.group_index().x * block.size();
    s[t] = in[base + t];
    ⟦block.sync();|||tile.sync();⟧
    out[base + t] = s[block.size() - 1 - t]; //!
}
## missing barrier: converge flag | grid=1 block=64 | i(64, 1000), 64
__global__ void relax(int* level, int n) {
    __shared__ bool changed;
    int t = threadIdx.x;
    do {
        __syncthreads();
        if (t == 0) changed = false;
        __syncthreads();
        int v = level[t];
        int w = t > 0 ? level[t - 1] : v;
        ⟦__syncthreads();|||⟧
        if (w < v) { level[t] = w; changed = true; } //!
        __syncthreads();
    } while (changed);
}
## missing barrier: converge flag reset | grid=1 block=64 | i(64, 1000), 64
__global__ void relax(int* level, int n) {
    __shared__ bool changed;
    int t = threadIdx.x;
    bool more;
    do {
        if (t == 0) changed = false; //!
        __syncthreads();
        int v = level[t];
        int w = t > 0 ? level[t - 1] : v;
        __syncthreads();
        if (w < v) { level[t] = w; changed = true; }
        __syncthreads();
        more = changed;
        ⟦__syncthreads();|||⟧
    } while (more);
}
## missing barrier: broadcast broken | grid=2 block=64 | r(128), z(128), 4
__global__ void normalise(const float* x, float* y, int rounds) {
    __shared__ float pivot;
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    float v = x[i];
    for (int r = 0; r < rounds; ++r) {
        if (t == r) pivot = v; //!
        __syncthreads();
        v -= pivot * 0.5f;
        ⟦__syncthreads();|||⟧
    }
    y[i] = v;
}
## missing barrier: lu column | grid=1 block=16 | ck.eye(16) * 5 + 1, 16
__global__ void lu(float* A, int n) {
    int j = threadIdx.x;
    for (int k = 0; k < n; ++k) {
        if (j > k) A[j * n + k] /= A[k * n + k];
        ⟦__syncthreads();|||⟧
        if (j > k) for (int i = k + 1; i < n; ++i) A[i * n + j] -= A[i * n + k] * A[k * n + j]; //!
        __syncthreads();
    }
}
## divergent barrier: sync in guard | grid=2 block=64 | r(100), z(2), 100
__global__ void sums(const float* x, float* out, int n) {
    __shared__ float s[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = 0;
    if (i < n) {
        s[threadIdx.x] = x[i] * x[i];
        ⟦|||__syncthreads(); //!⟧
    }
    ⟦__syncthreads();|||⟧
    if (threadIdx.x == 0) { float a = 0; for (int k = 0; k < 64; ++k) a += s[k]; out[blockIdx.x] = a; }
}
## divergent barrier: sync in stride loop | grid=2 block=64 | r(300), z(300), 300
__global__ void tile_copy(const float* x, float* y, int n) {
    __shared__ float s[64];
    int stride = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; ⟦i - threadIdx.x < n|||i < n⟧; i += stride) {
        s[threadIdx.x] = ⟦i < n ? x[i] : 0|||x[i]⟧;
        __syncthreads(); //!
        int other = threadIdx.x ^ 1;
        if (i < n) y[i] = s[other];
        __syncthreads();
    }
}
## divergent warp function: shfl in guard | grid=2 block=64 | r(100), z(1), 100
__global__ void dot(const float* x, float* sum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    ⟦float v = i < n ? x[i] : 0; {|||if (i < n) { float v = x[i];⟧
        for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o); //!
        if (threadIdx.x % 32 == 0) atomicAdd(sum, v);
    }
}
## divergent warp function: ballot in branch | grid=1 block=64 | i(64, 100), z(64, "int32")
__global__ void compact(const int* x, int* rank) {
    int lane = threadIdx.x & 31;
    ⟦unsigned m = __ballot_sync(0xffffffff, x[threadIdx.x] > 50);|||⟧
    if (x[threadIdx.x] > 50) {
        ⟦|||unsigned m = __ballot_sync(0xffffffff, 1); //!⟧
        rank[threadIdx.x] = __popc(m & ((1u << lane) - 1));
    }
}
## divergent warp function: cg tile in branch | grid=1 block=64 | r(64), z(64)
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void k(const float* x, float* y) {
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    float v = x[threadIdx.x];
    ⟦float s = cg::reduce(tile, v > 0.5f ? v : 0.f, cg::plus<float>()); if (v > 0.5f) {|||if (v > 0.5f) { float s = cg::reduce(tile, v, cg::plus<float>()); //!⟧
        y[threadIdx.x] = v / s;
    }
}
## divergent barrier: sync two branches | grid=1 block=64 | r(64), z(64)
__global__ void roles(const float* x, float* y) {
    __shared__ float a[32], b[32];
    int t = threadIdx.x;
    if (t < 32) {
        a[t] = x[t];
        ⟦|||__syncthreads(); //!⟧
    } else {
        b[t - 32] = x[t];
        ⟦|||__syncthreads();⟧
    }
    ⟦__syncthreads();|||⟧
    y[t] = t < 32 ? b[t] : a[t - 32];
}
## divergent barrier: while sync break | grid=1 block=64 | i(64, 6), z(64, "int32")
__global__ void steps(const int* todo, int* done) {
    __shared__ int s[2][64];
    int t = threadIdx.x, left = todo[t], r = 0;
    s[0][t] = s[1][t] = 0;
    __syncthreads();
    while (⟦r < 6|||left > 0⟧) {
        s[(r + 1) & 1][t] = s[r & 1][(t + 1) % 64] + (left > 0);
        __syncthreads(); //!
        --left;
        ++r;
    }
    __syncthreads(); //!
    done[t] = s[0][t];
}
## wrong lane: shfl half warp block | grid=1 block=48 | r(48), z(2)
__global__ void sum48(const float* x, float* out) {
    float v = x[threadIdx.x];
    int left = blockDim.x - threadIdx.x / 32 * 32;
    unsigned mask = left >= 32 ? 0xffffffffu : (1u << left) - 1;
    for (int o = ⟦left >= 32 ? 16 : left / 2|||16⟧; o > 0; o >>= 1) v += __shfl_xor_sync(⟦mask|||0xffffffff⟧, v, o); //!
    if (threadIdx.x % 32 == 0) out[threadIdx.x / 32] = v;
}
## wrong lane: shfl xor beyond mask | grid=1 block=32 | r(32), z(32), 20
__global__ void part(const float* x, float* y, int n) {
    int lane = threadIdx.x;
    unsigned mask = __ballot_sync(0xffffffff, lane < n);
    if (lane < n) {
        float v = x[lane];
        float w = __shfl_sync(mask, v, ⟦(lane + 1) % n|||lane + 1⟧); //!
        y[lane] = v - w;
    }
}
## wrong mask: shfl mask half | grid=1 block=32 | r(32), z(2)
__global__ void half_sums(const float* x, float* y) {
    int lane = threadIdx.x;
    float v = x[lane];
    for (int o = 8; o > 0; o >>= 1) v += __shfl_down_sync(⟦0xffffffff|||0x0000ffff⟧, v, o, 16); //!
    if (lane % 16 == 0) y[lane / 16] = v;
}
## wrong mask: syncwarp wrong mask | grid=1 block=32 | r(32), z(32)
__global__ void k(const float* x, float* y) {
    __shared__ float s[32];
    int lane = threadIdx.x;
    s[lane] = x[lane];
    __syncwarp(⟦|||lane < 16 ? 0x0000ffffu : 0xffff0000u⟧);
    y[lane] = s[31 - lane]; //!
}
## wrong mask: match stale mask | grid=1 block=32 | i(32, 4), z(4, "int32")
__global__ void aggregate(const int* key, int* count) {
    int lane = threadIdx.x, k = key[lane];
    if (k == 3) return;
    unsigned active = ⟦__activemask()|||0xffffffffu⟧;
    unsigned peers = __match_any_sync(active, k); //!
    if (lane == __ffs(peers) - 1) atomicAdd(&count[k], __popc(peers));
}
## bounds: guard le | grid=4 block=32 | r(100), z(100), 100
__global__ void relu(const float* __restrict__ x, float* __restrict__ y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i ⟦<|||<=⟧ n) y[i] = fmaxf(x[i], 0.f); //!
}
## bounds: sgemm naive guard | grid=(2, 2) block=(16, 16) | r(30*20), r(20*30), z(900), 30, 30, 20
__global__ void sgemm_naive(const float* A, const float* B, float* C, int M, int N, int K) {
    const unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < M ⟦&&|||||⟧ y < N) {
        float tmp = 0.0;
        for (int i = 0; i < K; ++i) tmp += A[x * K + i] * B[i * N + y]; //!
        C[x * N + y] = tmp;
    }
}
## bounds: laplace edges | grid=(2, 2) block=(16, 16) | r(32*32), z(32*32), 32
__global__ void laplace(const float* u, float* v, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x > 0 && x < n - 1 && ⟦y > 0 && |||⟧y < n - 1)
        v[y * n + x] = 0.25f * (u[(y - 1) * n + x] + u[(y + 1) * n + x] + u[y * n + x - 1] + u[y * n + x + 1]); //!
}
## bounds: tile halo size | grid=(2, 2) block=(16, 16) | r(34*34), z(32*32), 32
__global__ void blur(const float* in, float* out, int n) {
    __shared__ float s[⟦18|||16⟧][18];
    int tx = threadIdx.x, ty = threadIdx.y, gx = blockIdx.x * 16, gy = blockIdx.y * 16;
    for (int k = ty * 16 + tx; k < 18 * 18; k += 256) s[k / 18][k % 18] = in[(gy + k / 18) * (n + 2) + gx + k % 18]; //!
    __syncthreads();
    float sum = 0;
    for (int dy = 0; dy < 3; ++dy) for (int dx = 0; dx < 3; ++dx) sum += s[ty + dy][tx + dx];
    out[(gy + ty) * n + gx + tx] = sum / 9;
}
## bounds: dynamic shared small | grid=2 block=64 shared=512 | r(128).astype("float64"), z(2, "float64")
template <typename T> struct SharedMemory { __device__ operator T*() { extern __shared__ char raw[]; return (T*)raw; } };
__global__ void sum_double(const double* x, double* out) {
    double* s = SharedMemory<double>();
    ⟦|||s += 1;⟧
    s[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x]; //!
    __syncthreads();
    for (int h = 32; h > 0; h >>= 1) { if (threadIdx.x < h) s[threadIdx.x] += s[threadIdx.x + h]; __syncthreads(); }
    if (threadIdx.x == 0) out[blockIdx.x] = s[0];
}
## bounds: vec4 tail | grid=1 block=32 | r(102), z(102), 102
__global__ void scale4(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < ⟦n / 4|||(n + 3) / 4⟧) {
        float4 v = reinterpret_cast<const float4*>(x)[i]; //!
        v.x *= 2; v.y *= 2; v.z *= 2; v.w *= 2;
        reinterpret_cast<float4*>(y)[i] = v;
    }
    ⟦if (i < n % 4) y[n / 4 * 4 + i] = 2 * x[n / 4 * 4 + i];|||⟧
}
## bounds: spmv rows | grid=2 block=32 | a(41) * 3, i(120, 40), r(120), r(40), z(41), 40
__global__ void spmv(const int* row_ptr, const int* col, const float* val, const float* x, float* y, int rows) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r ⟦<|||<=⟧ rows) {
        float dot = 0;
        for (int j = row_ptr[r]; j < row_ptr[r + 1]; ++j) dot += val[j] * x[col[j]]; //!
        y[r] = dot;
    }
}
## bounds: histogram top bin | grid=2 block=64 | f(128) - 1, z(16, "int32"), 128
#define BINS 16
__global__ void hist(const float* x, int* out, int n) {
    __shared__ int h[BINS];
    if (threadIdx.x < BINS) h[threadIdx.x] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&h[⟦min((int)(x[i] * BINS), BINS - 1)|||(int)(x[i] * BINS)⟧], 1); //!
    __syncthreads();
    if (threadIdx.x < BINS) atomicAdd(&out[threadIdx.x], h[threadIdx.x]);
}
## bounds: topk insert | grid=1 block=32 | r(32*20), z(32*4), 20
#define K 4
__global__ void topk(const float* x, float* out, int n) {
    float best[K];
    for (int k = 0; k < K; ++k) best[k] = -1e30f;
    for (int i = 0; i < n; ++i) {
        float v = x[threadIdx.x * n + i];
        for (int k = 0; k < K; ++k)
            if (v > best[k]) {
                for (int j = ⟦K - 1|||K⟧; j > k; --j) best[j] = best[j - 1]; //!
                best[k] = v;
                break;
            }
    }
    for (int k = 0; k < K; ++k) out[threadIdx.x * K + k] = best[k];
}
## bounds: unrolled stride | grid=2 block=32 | r(200), z(2), 200
__global__ void sum2(const float* x, float* out, int n) {
    float s = 0;
    int stride = blockDim.x * gridDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += 2 * stride) {
        s += x[i];
        ⟦if (i + stride < n) |||⟧s += x[i + stride]; //!
    }
    for (int o = 16; o > 0; o >>= 1) s += __shfl_down_sync(0xffffffff, s, o);
    if (threadIdx.x == 0) out[blockIdx.x] = s;
}
## bounds: attention stride | grid=(2, 3) block=16 | r(2*16*3*3*8), z(2*3*16*16), 16, 8, 3
__global__ void qk(const float* qkv, float* att, int T, int hs, int NH) {
    int b = blockIdx.x, h = blockIdx.y, t = threadIdx.x, C = NH * hs;
    const float* q = qkv + b * T * 3 * C + t * 3 * C + h * hs;
    for (int t2 = 0; t2 <= t; ++t2) {
        const float* k = qkv + b * T * 3 * C + t2 * 3 * C + h * hs + ⟦C|||3 * C⟧;
        float v = 0;
        for (int i = 0; i < hs; ++i) v += q[i] * k[i]; //!
        att[((b * NH + h) * T + t) * T + t2] = v;
    }
}
## bounds: bilinear clamp | grid=1 block=(16, 16) | r(64), z(256), 8, 16
__global__ void upsample(const float* in, float* out, int n, int m) {
    int x = threadIdx.x, y = threadIdx.y;
    float fx = x * (n - 1.f) / (m - 1), fy = y * (n - 1.f) / (m - 1);
    int x0 = fx, y0 = fy, x1 = min(x0 + 1, n - 1), y1 = ⟦min(y0 + 1, n - 1)|||y0 + 1⟧;
    float a = in[y0 * n + x0] * (1 - fx + x0) + in[y0 * n + x1] * (fx - x0);
    float b = in[y1 * n + x0] * (1 - fx + x0) + in[y1 * n + x1] * (fx - x0); //!
    out[y * m + x] = a * (1 - fy + y0) + b * (fy - y0);
}
## bounds: warp slots | grid=1 block=288 | r(288), z(1)
__global__ void total(const float* x, float* out) {
    __shared__ float part[⟦9|||8⟧];
    float v = x[threadIdx.x];
    for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v; //!
    __syncthreads();
    if (threadIdx.x == 0) { float s = 0; for (int w = 0; w < blockDim.x / 32; ++w) s += part[w]; out[0] = s; }
}
## bounds: embedding padding | grid=2 block=16 | ck.asarray([3, 0, -1, 7], dtype="int32"), r(8*16), z(4*16), 4, 16
__global__ void embed(const int* tokens, const float* wte, float* out, int n, int C) {
    for (int t = blockIdx.x; t < n; t += gridDim.x) {
        int ix = tokens[t];
        for (int c = threadIdx.x; c < C; c += blockDim.x)
            out[t * C + c] = ⟦ix < 0 ? 0.f : |||⟧wte[ix * C + c]; //!
    }
}
## bounds: constant taps | grid=1 block=64 | r(68), z(64)
#define RADIUS 2
__constant__ float taps[2 * RADIUS + 1];
__device__ float mid[64];
__global__ void conv(const float* x, float* y) {
    float s = 0;
    for (int k = -RADIUS; k <= RADIUS; ++k) s += taps[RADIUS + k⟦||| + 1⟧] * x[threadIdx.x + RADIUS + k]; //!
    y[threadIdx.x] = s;
}
## bounds: lower bound end | grid=1 block=32 | a(50), a(32) + 20, z(32, "int32"), 50
__global__ void lookup(const int* keys, const int* q, int* found, int n) {
    int lo = 0, hi = n, v = q[threadIdx.x];
    while (lo < hi) { int mid = (lo + hi) / 2; if (keys[mid] < v) lo = mid + 1; else hi = mid; }
    found[threadIdx.x] = ⟦lo < n && |||⟧keys[lo] == v; //!
}
## bounds: periodic negative | grid=1 block=64 | r(64), z(64), 64
__global__ void shift(const float* x, float* y, int n) {
    int i = threadIdx.x;
    y[i] = x[(i - 3⟦+ n|||⟧) % n] + x[(i + 3) % n]; //!
}
