## unset: reduce padded | grid=2 block=64 | r(100), z(2), 100
__global__ void block_max(const float* x, float* out, int n) {
    __shared__ float s[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    ⟦s[t] = i < n ? x[i] : -INFINITY;|||if (i < n) s[t] = x[i];⟧
    __syncthreads();
    for (int h = 32; h > 0; h /= 2) {
        if (t < h) s[t] = fmaxf(s[t], s[t + h]); //!
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0];
}
## unset: conv pad | grid=(2, 2) block=(8, 8) | r(256), r(9), z(256), 16
__global__ void conv(const float* in, const float* w, float* out, int n) {
    __shared__ float s[10][10];
    int gx = blockIdx.x * 8, gy = blockIdx.y * 8;
    for (int k = threadIdx.y * 8 + threadIdx.x; k < 100; k += 64) {
        int y = gy + k / 10 - 1, x = gx + k % 10 - 1;
        if (x >= 0 && x < n && y >= 0 && y < n) s[k / 10][k % 10] = in[y * n + x];
        ⟦else s[k / 10][k % 10] = 0;|||⟧
    }
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 9; ++i) sum += w[i] * s[threadIdx.y + i / 3][threadIdx.x + i % 3]; //!
    out[(gy + threadIdx.y) * n + gx + threadIdx.x] = sum;
}
## unset: micro tile acc | grid=1 block=16 | r(16*16), r(16*16), z(256), 16
__global__ void mm(const float* A, const float* B, float* C, int n) {
    float acc[4][4]⟦ = {}|||⟧; //!
    int r0 = threadIdx.x / 4 * 4, c0 = threadIdx.x % 4 * 4;
    for (int k = 0; k < n; ++k)
        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < 4; ++j) acc[i][j] += A[(r0 + i) * n + k] * B[k * n + c0 + j]; //!
    for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) C[(r0 + i) * n + c0 + j] = acc[i][j];
}
## unset: empty accumulate | grid=2 block=32 | r(64*5), ck.empty(64), 64, 5
__global__ void colsum(const float* x, float* dbias, int n, int rows) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = 0;
    for (int r = 0; r < rows; ++r) s += x[r * n + i];
    dbias[i] ⟦=|||+=⟧ s; //!
}
## unset: online softmax local | grid=1 block=32 | r(32*10), z(320), 10
__global__ void softmax(const float* x, float* y, int n) {
    const float* row = x + threadIdx.x * n;
    float m = -INFINITY, d⟦= 0|||⟧;
    for (int i = 0; i < n; ++i) {
        float old = m;
        m = fmaxf(m, row[i]);
        d = d * expf(old - m) + expf(row[i] - m); //!
    }
    for (int i = 0; i < n; ++i) y[threadIdx.x * n + i] = expf(row[i] - m) / d;
}
## unset: bins half zeroed | grid=2 block=128 | i(256, 256), z(256, "int32"), 256
__global__ void hist(const int* x, int* out, int n) {
    __shared__ unsigned h[256];
    ⟦for (int b = threadIdx.x; b < 256; b += blockDim.x) h[b] = 0;|||h[threadIdx.x] = 0;⟧
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) atomicAdd(&h[x[i]], 1u); //!
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x) atomicAdd(&out[b], (int)h[b]);
}
## unset: struct field | grid=1 block=32 | r(96), z(32), 3
struct Stats { float sum, sq, count; };
__device__ Stats combine(const Stats& a, float v) { return Stats{a.sum + v, a.sq + v * v, a.count + 1}; }
__global__ void variance(const float* x, float* out, int n) {
    Stats s; //!
    s.sum = 0; s.sq = 0; ⟦s.count = 0;|||⟧
    for (int i = 0; i < n; ++i) s = combine(s, x[threadIdx.x * n + i]);
    out[threadIdx.x] = s.sq / s.count - s.sum / s.count * s.sum / s.count; //!
}
## unset: warp partials 32 | grid=1 block=128 | r(128), z(1)
__global__ void total(const float* x, float* out) {
    __shared__ float part[32];
    float v = x[threadIdx.x];
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x < 32) {
        v = ⟦threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0|||part[threadIdx.x]⟧; //!
        for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
        if (threadIdx.x == 0) out[0] = v;
    }
}
## unset: workspace malloc | grid=2 block=16 | i(320, 10), z(32, "int32"), 10
__global__ void mode(const int* x, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int* count = (int*)malloc(10 * sizeof(int));
    ⟦for (int k = 0; k < 10; ++k) count[k] = 0;|||⟧
    for (int k = 0; k < n; ++k) count[x[i * n + k]]++; //!
    int best = 0;
    for (int k = 1; k < 10; ++k) if (count[k] > count[best]) best = k;
    out[i] = best;
    free(count);
}
## unwritten: rope odd | grid=1 block=16 | r(34), ck.empty(34), 17
__global__ void rope(const float* x, float* y, int pairs) {
    for (int i = threadIdx.x; i < ⟦pairs|||pairs - 1⟧; i += blockDim.x) {
        float c = cosf(i), s = sinf(i), a = x[2 * i], b = x[2 * i + 1];
        y[2 * i] = a * c - b * s; //!
        y[2 * i + 1] = a * s + b * c;
    }
}
## unset: pass by pointer unset | grid=1 block=32 | r(32), z(32)
__device__ bool root(float a, float* r) { if (a > 0.5f) { *r = sqrtf(a); return true; } return false; }
__global__ void roots(const float* x, float* y) {
    float r⟦ = 0|||⟧; //!
    ⟦|||⟧root(x[threadIdx.x], &r);
    y[threadIdx.x] = r; //!
}
## async copy: pipeline last wait | grid=1 block=32 | r(32*4*6), z(32), 6
#include <cuda_pipeline.h>
__global__ void stream(const float4* x, float* y, int n) {
    __shared__ float4 buf[2][32];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&buf[0][t], &x[t], 16);
    __pipeline_commit();
    float s = 0;
    for (int k = 0; k < n; ++k) {
        if (k + 1 < n) {
            __pipeline_memcpy_async(&buf[(k + 1) & 1][t], &x[(k + 1) * 32 + t], 16);
            __pipeline_commit();
        }
        ⟦if (k + 1 == n) __pipeline_wait_prior(0); else |||⟧__pipeline_wait_prior(1);
        float4 v = buf[k & 1][t]; //!
        s += v.x + v.y + v.z + v.w;
    }
    y[t] = s;
}
## async copy: pipeline no barrier | grid=1 block=64 | r(256), z(64)
#include <cuda_pipeline.h>
__global__ void rev(const float4* x, float* y) {
    __shared__ __align__(16) float s[256];
    int t = threadIdx.x;
    __pipeline_memcpy_async(&s[4 * t], &x[t], sizeof(float4));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    ⟦__syncthreads();|||⟧
    y[t] = s[255 - t]; //!
}
## async copy: cp async wrong stage | grid=1 block=32 | r(32*4*5), z(32), 5
__device__ void cp16(void* to, const void* from) {
    unsigned s = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(s), "l"(from) : "memory"); //!
}
__global__ void stream(const float* x, float* y, int n) {
    __shared__ __align__(16) float buf[2][128];
    int t = threadIdx.x, cur = 0;
    cp16(&buf[0][4 * t], x + 4 * t);
    asm volatile("cp.async.commit_group;");
    float s = 0;
    for (int k = 0; k < n; ++k) {
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        if (k + 1 < n) {
            cp16(&buf[⟦cur ^ 1|||cur⟧][4 * t], x + (k + 1) * 128 + 4 * t);
            asm volatile("cp.async.commit_group;");
        }
        for (int j = 0; j < 4; ++j) s += buf[cur][j * 32 + t]; //!
        ⟦cur ^= 1;|||if (k + 1 == n) cur ^= 1;⟧
    }
    y[t] = s;
}
## buffer reuse: double buffer sgemm | grid=(2, 2) block=(8, 8) | r(256), r(256), z(256), 16
__global__ void mm(const float* A, const float* B, float* C, int n) {
    __shared__ float As[2][8][8], Bs[2][8][8];
    int tx = threadIdx.x, ty = threadIdx.y, r = blockIdx.y * 8 + ty, c = blockIdx.x * 8 + tx;
    As[0][ty][tx] = A[r * n + tx]; Bs[0][ty][tx] = B[ty * n + c];
    __syncthreads();
    float acc = 0;
    for (int k = 0; k < n / 8; ++k) {
        int cur = k & 1, nxt = ⟦cur ^ 1|||cur⟧;
        if (k + 1 < n / 8) { As[nxt][ty][tx] = A[r * n + (k + 1) * 8 + tx]; Bs[nxt][ty][tx] = B[((k + 1) * 8 + ty) * n + c]; } //!
        for (int i = 0; i < 8; ++i) acc += As[⟦cur|||0⟧][ty][i] * Bs[⟦cur|||0⟧][i][tx];
        __syncthreads();
    }
    C[r * n + c] = acc;
}
## buffer reuse: double buffer no barrier | grid=2 block=64 | r(2*64*6), z(128), 6
__global__ void jacobi_rows(const float* x, float* y, int n) {
    __shared__ float buf[2][64];
    int t = threadIdx.x;
    float s = 0;
    for (int k = 0; k < n; ++k) {
        buf[⟦k & 1|||0⟧][t] = x[(blockIdx.x * n + k) * 64 + t]; //!
        __syncthreads();
        s += buf[⟦k & 1|||0⟧][(t + 1) % 64];
    }
    y[blockIdx.x * 64 + t] = s;
}
## buffer reuse: ring three stages | grid=1 block=64 | r(64*12), z(64), 12
#include <cuda_pipeline.h>
#define STAGES 3
__global__ void ring(const float* x, float* y, int n) {
    __shared__ float s[STAGES][64];
    int t = threadIdx.x;
    for (int k = 0; k < STAGES - 1; ++k) { __pipeline_memcpy_async(&s[k][t], &x[k * 64 + t], 4); __pipeline_commit(); }
    float sum = 0;
    for (int k = 0; k < n; ++k) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        int next = k + ⟦STAGES - 1|||STAGES⟧;
        if (next < n) __pipeline_memcpy_async(&s[next % STAGES][t], &x[next * 64 + t], 4); //!
        __pipeline_commit();
        ⟦|||if (k % STAGES < STAGES - 1)⟧
        sum += s[k % STAGES][63 - t];
    }
    y[t] = sum;
}
## async copy: barrier no wait | grid=1 block=64 | r(64), z(64)
#include <cuda/barrier>
#include <cooperative_groups.h>
__global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    auto block = cooperative_groups::this_thread_block();
    if (block.thread_rank() == 0) init(&bar, block.size());
    block.sync();
    s[threadIdx.x] = x[threadIdx.x];
    ⟦bar.wait(bar.arrive());|||auto token = bar.arrive(); (void)token;⟧
    y[threadIdx.x] = s[63 - threadIdx.x]; //!
}
## async copy: barrier init no sync | grid=1 block=64 | r(64), z(64)
#include <cuda/barrier>
__global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    if (threadIdx.x == 0) init(&bar, blockDim.x);
    ⟦__syncthreads();|||⟧
    s[threadIdx.x] = x[threadIdx.x];
    bar.arrive_and_wait(); //!
    y[threadIdx.x] = s[63 - threadIdx.x];
}
## async copy: cuda memcpy async no wait | grid=1 block=64 | r(64), z(64)
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
namespace cg = cooperative_groups;
__global__ void k(const float* x, float* y) {
    __shared__ float s[64];
    cg::thread_block g = cg::this_thread_block();
    cg::memcpy_async(g, s, x, sizeof(float) * 64);
    ⟦cg::wait(g);|||g.sync();⟧
    y[threadIdx.x] = s[63 - threadIdx.x]; //!
}
## buffer reuse: pipeline early release | grid=1 block=64 | r(64*8), z(64), 8
#include <cuda/pipeline>
#include <cooperative_groups.h>
__global__ void k(const float* x, float* y, int n) {
    __shared__ float s[2][64];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto block = cooperative_groups::this_thread_block();
    auto pipe = cuda::make_pipeline(block, &state);
    float sum = 0;
    pipe.producer_acquire();
    cuda::memcpy_async(block, s[0], x, sizeof(float) * 64, pipe);
    pipe.producer_commit();
    for (int k = 1; k <= n; ++k) {
        if (k < n) {
            pipe.producer_acquire();
            cuda::memcpy_async(block, s[k & 1], x + k * 64, sizeof(float) * 64, pipe);
            pipe.producer_commit();
        }
        pipe.consumer_wait();
        ⟦|||pipe.consumer_release();⟧
        sum += s[(k - 1) & 1][63 - threadIdx.x]; //!
        ⟦pipe.consumer_release();|||⟧
    }
    y[threadIdx.x] = sum;
}
## async copy: bulk wrong parity | grid=1 block=32 | r(128*4), z(32), 4
#include <cstdint>
__global__ void k(const float* x, float* y, int n) {
    __shared__ __align__(128) float s[128];
    __shared__ __align__(8) uint64_t bar;
    unsigned b = (unsigned)__cvta_generic_to_shared(&bar), to = (unsigned)__cvta_generic_to_shared(s);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(b) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < n; ++k) {
        if (threadIdx.x == 0) {
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" :: "r"(b) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];" :: "r"(to), "l"(x + k * 128), "r"(b) : "memory");
        }
        unsigned done = 0, parity = ⟦k & 1|||(k + 1) & 1⟧;
        while (!done) asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(b), "r"(parity) : "memory");
        for (int j = 0; j < 4; ++j) sum += s[j * 32 + threadIdx.x]; //!
        __syncthreads();
    }
    y[threadIdx.x] = sum;
}
## between blocks: last block no fence | grid=4 block=64 | r(256), z(4), z(1)
__device__ unsigned int retirement = 0;
__global__ void reduce(const float* x, float* part, float* out) {
    __shared__ float s[64];
    __shared__ bool last;
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 64 + t];
    __syncthreads();
    for (int h = 32; h > 0; h >>= 1) { if (t < h) s[t] += s[t + h]; __syncthreads(); }
    if (t == 0) {
        part[blockIdx.x] = s[0];
        ⟦__threadfence();|||⟧
        last = atomicInc(&retirement, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && t == 0) {
        float sum = 0;
        for (int b = 0; b < gridDim.x; ++b) sum += ((volatile float*)part)[b]; //!
        out[0] = sum;
        retirement = 0;
    }
}
## between blocks: init by block zero | grid=3 block=32 | r(96), z(1)
__global__ void norm2(const float* x, float* out) {
    ⟦|||if (blockIdx.x == 0 && threadIdx.x == 0) out[0] = 0.f;⟧
    __syncthreads();
    float v = x[blockIdx.x * 32 + threadIdx.x];
    v *= v;
    for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
    if (threadIdx.x == 0) atomicAdd(out, v); //!
}
## wrong atomics: plain sum blocks | grid=3 block=32 | r(96), z(1)
__global__ void norm2(const float* x, float* out) {
    float v = x[blockIdx.x * 32 + threadIdx.x];
    for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
    if (threadIdx.x == 0) ⟦atomicAdd(out, v);|||out[0] += v;⟧ //!
}
## wrong atomics: reserve split | grid=2 block=32 | r(64), z(64), z(1, "int32")
__global__ void filter(const float* x, float* y, int* count) {
    float v = x[blockIdx.x * 32 + threadIdx.x];
    if (v > 0.5f) {
        ⟦int p = atomicAdd(count, 1);|||int p = *count; atomicAdd(count, 1); //!⟧
        y[p] = v; //!
    }
}
## between blocks: lookback no fence | grid=4 block=32 | r(128), z(128), z(4), z(4, "int32")
__global__ void chained_scan(const float* x, float* y, float* prefix, int* flag) {
    __shared__ float before;
    int t = threadIdx.x, b = blockIdx.x;
    float v = x[b * 32 + t];
    for (int o = 1; o < 32; o <<= 1) { float u = __shfl_up_sync(0xffffffff, v, o); if (t >= o) v += u; }
    if (t == 31) {
        float p = 0;
        if (b > 0) { while (atomicAdd(&flag[b - 1], 0) == 0) {} __threadfence(); p = ((volatile float*)prefix)[b - 1]; } //!
        ((volatile float*)prefix)[b] = p + v;
        ⟦__threadfence();|||⟧
        atomicExch(&flag[b], 1);
        before = p;
    }
    __syncthreads();
    y[b * 32 + t] = before + v;
}
## between blocks: in place stencil | grid=4 block=32 | r(130), z(130), 130
__global__ void smooth(const float* u, float* v, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x + 1;
    ⟦|||u = v;⟧
    if (i < n - 1) v[i] = 0.5f * u[i] + 0.25f * (u[i - 1] + u[i + 1]); //!
}
## between blocks: in place shared tile halo | grid=4 block=32 | r(128), z(128)
__global__ void smooth(float* u, float* w) {
    __shared__ float s[34];
    int t = threadIdx.x, i = blockIdx.x * 32 + t;
    s[t + 1] = u[i]; //!
    if (t == 0) s[0] = i > 0 ? u[i - 1] : 0;
    if (t == 31) s[33] = i < 127 ? u[i + 1] : 0;
    __syncthreads();
    ⟦w|||u⟧[i] = (s[t] + s[t + 1] + s[t + 2]) / 3; //!
}
## between blocks: spin lock no fence | grid=3 block=32 | r(96), z(1), z(1, "int32")
__global__ void locked(const float* x, float* total, int* lock) {
    float v = x[blockIdx.x * 32 + threadIdx.x];
    for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
    if (threadIdx.x == 0) {
        while (atomicCAS(lock, 0, 1) != 0) {}
        __threadfence();
        *(volatile float*)total = *(volatile float*)total + v; //!
        ⟦__threadfence();|||⟧
        atomicExch(lock, 0);
    }
}
## wrong atomics: scatter add plain | grid=2 block=32 | i(64, 10), r(64), z(10)
__global__ void scatter(const int* idx, const float* g, float* dw) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    ⟦atomicAdd(&dw[idx[i]], g[i]);|||dw[idx[i]] += g[i];⟧ //!
}
## wrong atomics: cas once | grid=2 block=32 | r(64), z(1, "int32")
__global__ void fmax_all(const float* x, int* best) {
    float v = x[blockIdx.x * blockDim.x + threadIdx.x];
    int old = *best; //!
    ⟦while (__int_as_float(old) < v) {|||if (__int_as_float(old) < v) {⟧
        int assumed = old;
        old = atomicCAS(best, assumed, __float_as_int(v)); //!
        ⟦if (old == assumed) break;|||⟧
    }
}
## wrong atomics: bfs check then set | grid=2 block=32 | i(64, 20), z(20, "int32") + -1, z(64, "int32"), z(1, "int32")
__global__ void expand(const int* edge, int* dist, int* queue, int* tail) {
    int v = edge[blockIdx.x * blockDim.x + threadIdx.x];
    ⟦if (atomicCAS(&dist[v], -1, 1) == -1)|||if (dist[v] == -1)⟧ { //!
        ⟦|||dist[v] = 1; //!⟧
        queue[atomicAdd(tail, 1)] = v;
    }
}
## between blocks: grid sync missing | grid=4 block=32 | r(128), z(4), z(128)
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void centre(const float* x, float* part, float* y) {
    cg::grid_group grid = cg::this_grid();
    int i = blockIdx.x * 32 + threadIdx.x;
    float v = x[i];
    for (int o = 16; o > 0; o >>= 1) v += __shfl_down_sync(0xffffffff, v, o);
    if (threadIdx.x == 0) part[blockIdx.x] = v; //!
    ⟦grid.sync();|||__threadfence(); __syncthreads();⟧
    float s = 0;
    for (int b = 0; b < gridDim.x; ++b) s += part[b]; //!
    y[i] = x[i] - s / 128;
}
## between blocks: producer flag no fence | grid=2 block=32 | z(32), z(32), z(1, "int32")
__global__ void handshake(volatile float* data, float* out, volatile int* ready) {
    int t = threadIdx.x;
    if (blockIdx.x == 0) {
        data[t] = t * 2.f;
        ⟦__threadfence();|||⟧
        __syncthreads();
        if (t == 0) *ready = 1;
    } else {
        if (t == 0) while (*ready == 0) {}
        __syncthreads();
        ⟦__threadfence();|||⟧
        out[t] = data[t]; //!
    }
}
## wrong atomics: block scope atomic | grid=3 block=32 | i(96, 8), z(8, "int32")
__global__ void count(const int* x, int* bins) {
    int i = blockIdx.x * 32 + threadIdx.x;
    ⟦atomicAdd|||atomicAdd_block⟧(&bins[x[i]], 1); //!
}
## between blocks: mean too early | grid=3 block=32 | r(96), z(1), z(96)
__global__ void rms(const float* x, float* sq, float* y) {
    int i = blockIdx.x * 32 + threadIdx.x;
    atomicAdd(sq, x[i] * x[i]);
    __syncthreads();
    ⟦|||y[i] = x[i] * rsqrtf(*sq / 96 + 1e-5f); //!⟧
}
## overflow: index overflow | grid=1 block=32 | r(32), z(32), 70000, 40000
__global__ void batch(const float* x, float* y, int pitch, int rows) {
    ⟦long long|||int⟧ last = ⟦(long long)|||⟧pitch * rows - 1; //!
    if (threadIdx.x <= last || last < 0) y[threadIdx.x] = x[threadIdx.x];
}
## shift: lane mask shift | grid=1 block=32 | i(32, 2), z(32, "int32")
__global__ void ranks(const int* x, int* r) {
    int lane = threadIdx.x;
    unsigned m = __ballot_sync(0xffffffff, x[lane]);
    r[lane] = __popc(m & ⟦(0xffffffffu >> (31 - lane))|||((1u << (lane + 1)) - 1)⟧); //!
}
## misaligned: float4 pitch | grid=1 block=32 | r(4*33), z(4), 33
__global__ void row_head(const float* x, float* y, int pitch) {
    if (threadIdx.x < 4) {
        float4 v = ⟦make_float4(x[threadIdx.x * pitch], x[threadIdx.x * pitch + 1], x[threadIdx.x * pitch + 2], x[threadIdx.x * pitch + 3])|||*(const float4*)(x + threadIdx.x * pitch)⟧; //!
        y[threadIdx.x] = v.x + v.y + v.z + v.w;
    }
}
## misaligned: shared carve misaligned | grid=1 block=33 shared=1000 | r(33), z(33)
__global__ void carve(const float* x, float* y) {
    extern __shared__ __align__(16) unsigned char raw[];
    float* a = (float*)raw;
    float2* b = (float2*)(a + ⟦34|||33⟧);
    a[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    b[threadIdx.x] = make_float2(a[32 - threadIdx.x], 1); //!
    __syncthreads();
    y[threadIdx.x] = b[threadIdx.x].x;
}
## division: zero warps | grid=1 block=32 | r(32), z(32), 320
__global__ void split(const float* x, float* y, int n) {
    int per = n / (⟦(blockDim.x + 63) / 64|||blockDim.x / 64⟧); //!
    y[threadIdx.x] = x[threadIdx.x] * per;
}
## aliasing: dynamic alias | grid=1 block=64 shared=768 | r(64), z(64, "int32")
__global__ void argsort(const float* x, int* order) {
    extern __shared__ float raw[];
    float* key = raw;
    int* val = (int*)(raw + ⟦64|||32⟧);
    int t = threadIdx.x;
    key[t] = x[t]; //!
    ⟦__syncthreads();|||⟧
    val[t] = t; //!
    __syncthreads();
    int rank = 0;
    for (int j = 0; j < 64; ++j) rank += key[j] < key[t] || (key[j] == key[t] && j < t);
    order[rank & 63] = val[t];
}
## overflow: hash signed | grid=1 block=32 | i(32, 1000), z(32, "int32")
__global__ void hash(const int* x, int* h) {
    ⟦unsigned|||int⟧ v = x[threadIdx.x] + 1000;
    for (int r = 0; r < 4; ++r) v = v * 31 * 131 + 7; //!
    h[threadIdx.x] = v & 0xffff;
}
## memory: use after free | grid=1 block=8 | r(8), z(8)
__global__ void k(const float* x, float* y) {
    float* p = new float[4];
    for (int j = 0; j < 4; ++j) p[j] = x[threadIdx.x] * j;
    ⟦float r = p[3]; delete[] p;|||delete[] p; float r = p[3]; //!⟧
    y[threadIdx.x] = r;
}
## memory: leak return | grid=1 block=8 | r(8), z(8)
__global__ void k(const float* x, float* y) {
    int* p = (int*)malloc(16); //!
    *p = 3;
    if (x[threadIdx.x] > 0.5f) { ⟦free(p); |||⟧return; }
    y[threadIdx.x] = *p;
    free(p);
}
## race: grid y missing | grid=(2, 2) block=32 | r(128), z(128), 64
__global__ void add_pos(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, b = ⟦blockIdx.y|||blockIdx.y / 2⟧;
    y[b * n + i] = x[blockIdx.y * n + i] + i; //!
}
## race: overlap rows stride | grid=2 block=32 | r(64), z(64)
__global__ void rows(const float* x, float* y) {
    int i = blockIdx.x * ⟦32|||31⟧ + threadIdx.x;
    y[i] = x[blockIdx.x * 32 + threadIdx.x]; //!
}
## race: reverse in place | grid=2 block=32 | r(64), 64
__global__ void reverse(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < ⟦n / 2|||n⟧) { float a = x[i], b = x[n - 1 - i]; x[i] = b; x[n - 1 - i] = a; } //!
}
## race: transpose in place | grid=(2, 2) block=(8, 8) | r(256), 16
__global__ void transpose(float* a, int n) {
    int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    if (⟦x > y|||x != y⟧) { float t = a[y * n + x]; a[y * n + x] = a[x * n + y]; a[x * n + y] = t; } //!
}
## const: const write | grid=1 block=32 | r(32), z(32)
__global__ void clip(const float* x, float* y) {
    float* p = ⟦y|||(float*)x⟧;
    p[threadIdx.x] = fminf(x[threadIdx.x], 0.5f); //!
    y[threadIdx.x] = p[threadIdx.x];
}
## unset: shared pointer across call | grid=1 block=64 | r(64), z(1)
template <int N> __device__ float tree(float* s, int t) {
    if constexpr (N > 1) { if (t < N / 2) s[t] += s[t + N / 2]; __syncthreads(); return tree<N / 2>(s, t); } //!
    else return s[0];
}
__global__ void total(const float* x, float* out) {
    __shared__ float s[⟦64|||128⟧];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    float v = tree<⟦64|||128⟧>(s, threadIdx.x);
    if (threadIdx.x == 0) out[0] = v;
}
