## reduction: the last warp writes before all lanes have read | grid=1 block=64 | f(64), z(1)
__global__ void planted(const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    if (t < 32) {
        float v = s[t] + s[t + 32];
        s[t] = v;
        __syncwarp();
        for (int d = 16; d > 0; d /= 2) {
            v += s[(t + d) % 32]; //!
            ⟦__syncwarp();|||⟧
            s[t] = v; //!
            __syncwarp();
        }
    }
    if (t == 0) y[0] = s[0];
}
## reduction: a tree over a block that is no power of two | grid=1 block=96 | f(96), z(1)
__global__ void planted(const float* x, float* y) {
    __shared__ float s[96];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (t < half⟦ && t + half < 96|||⟧)
            s[t] += s[t + half]; //!
        __syncthreads();
    }
    if (t == 0) y[0] = s[0];
}
## reduction: more warp sums are read than there are warps | grid=1 block=128 | f(128), z(1)
__inline__ __device__ float warp_sum(float v) {
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);
    return v;
}
__global__ void planted(const float* x, float* y) {
    __shared__ float sums[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float v = warp_sum(x[threadIdx.x]);
    if (lane == 0) sums[warp] = v;
    __syncthreads();
    if (warp == 0) {
        ⟦v = lane < blockDim.x / 32 ? sums[lane] : 0.0f;|||v = sums[lane];⟧ //!
        v = warp_sum(v);
        if (lane == 0) y[0] = v;
    }
}
## reduction: a block's reduction called twice in a row | grid=1 block=64 | f(64), z(2)
__device__ float block_max(float v) {
    __shared__ float best[2];
    for (int d = 16; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, d));
    if (threadIdx.x % 32 == 0) best[threadIdx.x / 32] = v; //!
    __syncthreads();
    v = fmaxf(best[0], best[1]); //!
    ⟦__syncthreads();|||⟧
    return v;
}
__global__ void planted(const float* x, float* y) {
    float a = block_max(x[threadIdx.x]);
    float b = block_max(-x[threadIdx.x] * a);
    if (threadIdx.x == 0) { y[0] = a; y[1] = b; }
}
## reduction: an argmax whose indices come without a barrier | grid=2 block=64 | f(128), z(2, "int32")
__global__ void planted(const float* x, int* where) {
    __shared__ float best[64];
    __shared__ int at[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    best[t] = x[i];
    at[t] = i; //!
    for (int half = 32; half >= 1; half /= 2) {
        ⟦__syncthreads();|||if (half > 1) __syncthreads();⟧
        if (t < half && best[t + half] > best[t]) { //!
            best[t] = best[t + half]; //!
            at[t] = at[t + half]; //!
        }
    }
    if (t == 0) where[blockIdx.x] = at[0];
}
## reduction: four at a time, and a tail of four | grid=1 block=32 | f(125), z(1)
__global__ void planted(const float* x, float* y) {
    float sum = 0;
    int t = threadIdx.x;
    if (4 * t ⟦+ 3 < 125|||< 125⟧) {
        float4 v = reinterpret_cast<const float4*>(x)[t]; //!
        sum = v.x + v.y + v.z + v.w;
    }
    if (t == 0) for (int i = 124; i < 125; ++i) sum += x[i];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffff, sum, d);
    if (t == 0) *y = sum;
}
## reduction: sums of rows of a sparse matrix, one row too many | grid=1 block=32 | a(11) * 3, f(30), z(16), 10
__global__ void planted(const int* row_start, const float* values, float* sums, int rows) {
    for (int row = threadIdx.x / 4; row ⟦<|||<=⟧ rows; row += blockDim.x / 4) {
        float sum = 0;
        for (int k = row_start[row] + threadIdx.x % 4; k < row_start[row + 1]; k += 4) //!
            sum += values[k];
        atomicAdd(&sums[row], sum);
    }
}
## reduction: partial sums of two blocks meet in one element | grid=4 block=32 | f(128), z(2)
__global__ void planted(const float* __restrict__ x, float* __restrict__ y) {
    float v = x[blockIdx.x * 32 + threadIdx.x];
#pragma unroll
    for (int d = 16; d; d /= 2) v += __shfl_xor_sync(~0u, v, d);
    if (threadIdx.x == 0) {
        ⟦atomicAdd(y + (blockIdx.x & 1), v);|||y[blockIdx.x & 1] += v;⟧ //!
    }
}
## reduction: a variance whose mean is read early | grid=1 block=64 | f(64), z(1)
__global__ void planted(const float* x, float* y) {
    __shared__ float mean, var;
    float v = x[threadIdx.x];
    if (threadIdx.x == 0) { mean = 0; var = 0; }
    __syncthreads();
    atomicAdd(&mean, v / 64); //!
    ⟦__syncthreads();|||__threadfence_block();⟧
    float d = v - mean; //!
    atomicAdd(&var, d * d / 64);
    __syncthreads();
    if (threadIdx.x == 0) *y = var;
}
## scan: one buffer for what is read and what is written | grid=1 block=64 | f(64), z(64)
__global__ void planted(const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int d = 1; d < 64; d *= 2) {
        float v = t >= d ? s[t - d] : 0; //!
        ⟦__syncthreads();|||⟧
        s[t] += v; //!
        __syncthreads();
    }
    y[t] = s[t];
}
## scan: two buffers whose turn is changed too late | grid=1 block=64 | f(64), z(64)
__global__ void planted(const float* x, float* y) {
    __shared__ float s[2][64];
    int t = threadIdx.x, in = 0;
    s[0][t] = x[t];
    __syncthreads();
    for (int d = 1; d < 64; d *= 2) {
        int out = ⟦1 - in|||d > 2 ? 1 - in : in⟧;
        s[out][t] = s[in][t] + (t >= d ? s[in][t - d] : 0.0f); //!
        __syncthreads();
        in = out;
    }
    y[t] = s[in][t];
}
## scan: the root is cleared beside the way down | grid=1 block=32 | f(64), z(64)
__global__ void planted(const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x, offset = 1;
    s[2 * t] = x[2 * t];
    s[2 * t + 1] = x[2 * t + 1];
    for (int d = 32; d > 0; d /= 2) {
        __syncthreads();
        if (t < d) s[offset * (2 * t + 2) - 1] += s[offset * (2 * t + 1) - 1];
        offset *= 2;
    }
    if (t == ⟦0|||31⟧) s[63] = 0; //!
    for (int d = 1; d < 64; d *= 2) {
        offset /= 2;
        ⟦__syncthreads();|||if (d > 1) __syncthreads();⟧
        if (t < d) {
            int a = offset * (2 * t + 1) - 1, b = offset * (2 * t + 2) - 1;
            float left = s[a]; //!
            s[a] = s[b]; //!
            s[b] += left; //!
        }
    }
    __syncthreads();
    y[2 * t] = s[2 * t];
    y[2 * t + 1] = s[2 * t + 1];
}
## scan: a tree's index runs over the end | grid=1 block=32 | f(64), z(64)
__global__ void planted(const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    s[t + 32] = x[t + 32];
    for (int stride = 1; stride <= 32; stride *= 2) {
        __syncthreads();
        int at = (t + 1) * stride * 2 - 1;
        if (⟦at < 64|||at < 64 + 2 * stride⟧)
            s[at] += s[at - stride]; //!
    }
    __syncthreads();
    y[t] = s[t];
    y[t + 32] = s[t + 32];
}
## scan: totals of warps before these have written them | grid=1 block=128 | f(128), z(128)
__global__ void planted(const float* x, float* y) {
    __shared__ float totals[4];
    int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    float v = x[threadIdx.x];
    for (int d = 1; d < 32; d *= 2) {
        float up = __shfl_up_sync(0xffffffff, v, d);
        if (lane >= d) v += up;
    }
    if (lane == 31) totals[warp] = v; //!
    ⟦__syncthreads();|||__syncwarp();⟧
    for (int w = 0; w < warp; ++w) v += totals[w]; //!
    y[threadIdx.x] = v;
}
## scan: the sums of blocks before are read in the same launch | grid=3 block=32 | f(96), z(96), z(3)
__global__ void planted(const float* x, float* y, float* sums) {
    int i = blockIdx.x * 32 + threadIdx.x;
    float v = x[i];
    for (int d = 1; d < 32; d *= 2) {
        float up = __shfl_up_sync(0xffffffff, v, d);
        if (threadIdx.x >= d) v += up;
    }
    if (threadIdx.x == 31) sums[blockIdx.x] = v; //!
    __syncthreads();
    float before = 0;
    ⟦|||for (int b = 0; b < blockIdx.x; ++b) before += sums[b];⟧ //!
    y[i] = v + before;
}
## scan: a segmented scan reads flags that one thread has not set | grid=1 block=64 | k(64, 5), z(64)
__global__ void planted(const int* heads, float* y) {
    __shared__ int flag[64];
    __shared__ float sum[64];
    int t = threadIdx.x;
    if (⟦t < 64|||t > 0⟧) flag[t] = heads[t] == 0;
    sum[t] = t;
    __syncthreads();
    for (int d = 1; d < 64; d *= 2) {
        float v = sum[t];
        int f = flag[t]; //!
        if (t >= d && !f) {
            v += sum[t - d];
            f |= flag[t - d]; //!
        }
        __syncthreads();
        sum[t] = v;
        flag[t] = f;
        __syncthreads();
    }
    y[t] = sum[t];
}
## histogram: counts for fewer warps than the block has | grid=1 block=128 | k(1000, 16), z(16, "int32"), 1000
__global__ void planted(const int* x, int* bins, int n) {
    __shared__ int own[⟦4|||3⟧][16];
    int warp = threadIdx.x / 32;
    for (int i = threadIdx.x % 32; i < 16; i += 32)
        own[warp][i] = 0; //!
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        atomicAdd(&own[warp][x[i]], 1); //!
    __syncthreads();
    if (threadIdx.x < 16)
        for (int w = 0; w < 4; ++w) bins[threadIdx.x] += own[w][threadIdx.x]; //!
}
## histogram: only the first bins are cleared | grid=1 block=64 | k(512, 100), z(100, "int32"), 512
__global__ void planted(const int* x, int* bins, int n) {
    __shared__ unsigned int local[100];
    ⟦for (int b = threadIdx.x; b < 100; b += blockDim.x) local[b] = 0;|||local[threadIdx.x] = 0;⟧
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(local + x[i], 1u); //!
    __syncthreads();
    for (int b = threadIdx.x; b < 100; b += blockDim.x) atomicAdd(bins + b, (int)local[b]); //!
}
## histogram: a plain count where two threads meet | grid=1 block=64 | k(512, 5), z(32, "int32"), 512
__global__ void planted(const int* x, int* bins, int n) {
    __shared__ unsigned char sub[64 * 32];
    for (int b = 0; b < 32; ++b) sub[b * 64 + threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += 64)
        sub[x[i] * 64 + ⟦threadIdx.x|||threadIdx.x / 2⟧]++; //!
    __syncthreads();
    if (threadIdx.x < 32) {
        int sum = 0;
        for (int t = 0; t < 64; ++t) sum += sub[threadIdx.x * 64 + t];
        bins[threadIdx.x] = sum;
    }
}
## histogram: a value that has no bin | grid=2 block=32 | f(64), z(8, "int32")
__global__ void planted(const float* x, int* bins) {
    float v = x[blockIdx.x * blockDim.x + threadIdx.x];
    int b = (int)((v - 1.0f) * 8);
    ⟦if (b > 7) b = 7;|||⟧
    atomicAdd(&bins[b], 1); //!
}
## histogram: counting starts before all bins are cleared | grid=2 block=64 | k(512, 64), z(64, "int32"), 512
__global__ void planted(const int* x, int* bins, int n) {
    __shared__ int local[64];
    local[63 - threadIdx.x] = 0; //!
    ⟦__syncthreads();|||⟧
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) atomicAdd(&local[x[i]], 1); //!
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}
## histogram: blocks add theirs to all by plain additions | grid=3 block=32 | k(96, 32), z(32, "int32")
__global__ void planted(const int* x, int* bins) {
    __shared__ int local[32];
    local[threadIdx.x] = 0;
    __syncwarp();
    atomicAdd_block(&local[x[blockIdx.x * 32 + threadIdx.x]], 1);
    __syncwarp();
    if (local[threadIdx.x])
        ⟦atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);|||bins[threadIdx.x] += local[threadIdx.x];⟧ //!
}
## softmax: the largest is read before it is there | grid=2 block=64 | f(128), z(128)
__global__ void planted(const float* x, float* y) {
    __shared__ float buffer[64];
    __shared__ float largest;
    int t = threadIdx.x;
    const float* row = x + blockIdx.x * 64;
    buffer[t] = row[t];
    __syncthreads();
    if (t == 0) {
        float m = buffer[0];
        for (int i = 1; i < 64; ++i) m = max(m, buffer[i]);
        largest = m; //!
    }
    ⟦__syncthreads();|||⟧
    y[blockIdx.x * 64 + t] = expf(row[t] - largest); //!
}
## softmax: the buffer of the largest is filled with sums at once | grid=1 block=64 | f(64), z(64)
__global__ void planted(const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int k = 32; k; k /= 2) { if (t < k) s[t] = max(s[t], s[t + k]); __syncthreads(); }
    float m = s[0]; //!
    ⟦__syncthreads();|||⟧
    s[t] = expf(x[t] - m); //!
    __syncthreads();
    for (int k = 32; k; k /= 2) { if (t < k) s[t] += s[t + k]; __syncthreads(); }
    y[t] = expf(x[t] - m) / s[0];
}
## softmax: rows that are not there leave out the barrier | grid=2 block=(32, 2) | f(96), z(96), 3
__global__ void planted(const float* x, float* y, int rows) {
    __shared__ float s[2][32];
    int row = blockIdx.x * 2 + threadIdx.y, c = threadIdx.x;
    float sum = 0;
    if (row < rows) {
        s[threadIdx.y][c] = expf(x[row * 32 + c]);
        ⟦}
    __syncthreads();
    if (row < rows) {|||__syncthreads();⟧ //!
        for (int k = 0; k < 32; ++k) sum += s[threadIdx.y][k];
        y[row * 32 + c] = s[threadIdx.y][c] / sum;
    ⟦}|||} else { if (threadIdx.y == 1) __syncthreads(); }⟧ //!
}
## softmax: shuffles by all lanes of a row that only some hold | grid=1 block=32 | f(20), z(20), 20
__global__ void planted(const float* x, float* y, int n) {
    int lane = threadIdx.x;
    float m = -INFINITY, s = 0;
    ⟦if (lane < n) { m = x[lane]; s = 1; }
    {|||if (lane < n) {
        m = x[lane]; s = 1;⟧
        for (int d = 16; d > 0; d /= 2) {
            float m2 = __shfl_xor_sync(0xffffffff, m, d); //!
            float s2 = __shfl_xor_sync(0xffffffff, s, d); //!
            float best = fmaxf(m, m2);
            if (best > -INFINITY) s = s * expf(m - best) + s2 * expf(m2 - best);
            m = best;
        }
    }
    if (lane < n) y[lane] = expf(x[lane] - m) / s;
}
## softmax: a row's cache is shorter than the row | grid=2 block=32 shared=320 | f(200), z(200), 100
__global__ void planted(const float* x, float* y, int columns) {
    extern __shared__ float cache[];
    float sum = 0;
    for (int c = threadIdx.x; c < columns; c += 32) {
        float e = expf(x[blockIdx.x * columns + c]);
        ⟦if (c < 80) cache[c] = e;|||cache[c] = e;⟧ //!
        sum += e;
    }
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
    for (int c = threadIdx.x; c < columns; c += 32)
        y[blockIdx.x * columns + c] = ⟦(c < 80 ? cache[c] : expf(x[blockIdx.x * columns + c]))|||cache[c]⟧ / sum; //!
}
## softmax: a largest value that begins as nothing | grid=1 block=32 | f(64) - 4, z(64)
__global__ void planted(const float* x, float* y) {
    float m⟦ = -INFINITY|||⟧; //!
    for (int c = threadIdx.x; c < 64; c += 32) m = m > x[c] ? m : x[c]; //!
    for (int d = 16; d > 0; d /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, d));
    float sum = 0;
    for (int c = threadIdx.x; c < 64; c += 32) sum += expf(x[c] - m);
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffff, sum, d);
    for (int c = threadIdx.x; c < 64; c += 32) y[c] = expf(x[c] - m) / sum;
}
