"""Right candidates for the judge's tests: texts by task and style, each for some sizes of the block."""

from __future__ import annotations

ONE = """// grid: divide_up(n, BLOCK)
// block: BLOCK
"""
ROWS = """// grid: divide_up(rows, BLOCK)
// block: BLOCK
"""
ROW = """// grid: rows
// block: BLOCK
"""

BLOCK_SUM = """
__device__ float block_sum(float v, float* part) {
    __syncthreads();
    part[threadIdx.x] = v;
    __syncthreads();
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    return part[0];
}
__device__ float block_max(float v, float* part) {
    __syncthreads();
    part[threadIdx.x] = v;
    __syncthreads();
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            const float other = part[threadIdx.x + half];
            if (!(part[threadIdx.x] >= other)) part[threadIdx.x] = isnan(part[threadIdx.x]) ? part[threadIdx.x] : other;
        }
        __syncthreads();
    }
    return part[0];
}
"""
WARP_SUM = """
__device__ float warp_sum(float v) {
    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffff, v, step);
    return v;
}
"""
LARGER = """
__device__ float larger(float a, float b) { return a > b || isnan(a) ? a : b; }
"""
SUM_TREE = """
__global__ void sum_blocks(const float* x, float* parts, int n) {
    __shared__ float part[BLOCK];
    float v = 0;
    for (int i = blockIdx.x * BLOCK + threadIdx.x; i < n; i += gridDim.x * BLOCK) v += x[i];
    part[threadIdx.x] = v;
    __syncthreads();
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) parts[blockIdx.x] = part[0];
}
"""

#: By task and style: the text, with BLOCK for the threads of a block.
TEXTS: dict[str, str] = {
    "scale/one each": ONE
    + """
__global__ void scale(const float* x, float* y, int n, float a, float b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + b;
}""",
    "scale/grid-stride": """// grid: min(divide_up(n, BLOCK), 4)
// block: BLOCK
__global__ void scale(const float* __restrict__ x, float* __restrict__ y, int n, float a, float b) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) y[i] = fmaf(a, x[i], b);
}""",
    "scale/float4": """// grid: divide_up(divide_up(n, 4), BLOCK)
// block: BLOCK
__global__ void scale(const float* x, float* y, int n, float a, float b) {
    int i = 4 * (blockIdx.x * BLOCK + threadIdx.x);
    if (i + 3 < n) {
        float4 v = *reinterpret_cast<const float4*>(x + i);
        v.x = a * v.x + b; v.y = a * v.y + b; v.z = a * v.z + b; v.w = a * v.w + b;
        *reinterpret_cast<float4*>(y + i) = v;
    } else {
        for (; i < n; ++i) y[i] = a * x[i] + b;
    }
}""",
    "scale/two axes": """// grid: divide_up(n, BLOCK * 2)
// block: BLOCK, 2
__global__ void scale(const float* x, float* y, int n, float a, float b) {
    int i = (blockIdx.x * 2 + threadIdx.y) * BLOCK + threadIdx.x;
    if (i < n) y[i] = a * x[i] + b;
}""",
    "gelu/template": ONE
    + """
#include <cuda_fp16.h>
template <typename T> __global__ void gelu(const T* x, T* y, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n) return;
    float v = (float)x[i];
    y[i] = (T)(0.5f * v * (1 + tanhf(0.7978845608f * (v + 0.044715f * v * v * v))));
}""",
    "gelu/grid-stride": """// grid: 2
// block: BLOCK
#include <cuda_fp16.h>
namespace own {
template <typename T> struct Gelu {
    __device__ static T apply(T x) {
        const float v = float(x);
        return T(0.5f * v * (1.0f + tanhf(0.7978845608f * (v + 0.044715f * v * v * v))));
    }
};
}
template <typename T> __global__ void gelu(const T* x, T* y, int n) {
    for (int i = blockIdx.x * BLOCK + threadIdx.x; i < n; i += gridDim.x * BLOCK) y[i] = own::Gelu<T>::apply(x[i]);
}""",
    "add/in place": ONE
    + """
__global__ void add(float* y, const float* x, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) y[i] += x[i];
}""",
    "add/unrolled": """// grid: divide_up(n, 4 * BLOCK)
// block: BLOCK
__global__ void add(float* y, const float* x, int n) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        const int i = (blockIdx.x * 4 + k) * BLOCK + threadIdx.x;
        if (i < n) y[i] = y[i] + x[i];
    }
}""",
    "sum/two launches": """// scratch: float parts[8]
// launch: sum_blocks(x, parts, n)
// grid: 8
// block: BLOCK
// launch: finish(parts, y, 8)
// grid: 1
// block: 32
"""
    + SUM_TREE
    + """
__global__ void finish(const float* parts, float* y, int count) {
    if (threadIdx.x == 0) {
        float v = 0;
        for (int i = 0; i < count; ++i) v += parts[i];
        y[0] = v;
    }
}""",
    "sum/atomics": """// launch: clear(y)
// grid: 1
// block: 1
// launch: sum(x, y, n)
// grid: divide_up(n, BLOCK)
// block: BLOCK
__global__ void clear(float* y) { y[0] = 0; }
__global__ void sum(const float* x, float* y, int n) {
    __shared__ float part;
    if (threadIdx.x == 0) part = 0;
    __syncthreads();
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) atomicAdd(&part, x[i]);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(y, part);
}""",
    "sum/last block": """// scratch: float parts[6]
// scratch: int done[1] = 0
// launch: sum(x, y, n, parts, done)
// grid: 6
// block: BLOCK
__global__ void sum(const float* x, float* y, int n, float* parts, int* done) {
    __shared__ float part[BLOCK];
    __shared__ bool last;
    float v = 0;
    for (int i = blockIdx.x * BLOCK + threadIdx.x; i < n; i += gridDim.x * BLOCK) v += x[i];
    part[threadIdx.x] = v;
    __syncthreads();
    for (int half = BLOCK / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = part[0];
        __threadfence();
        last = atomicAdd(done, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        __threadfence();
        float total = 0;
        for (int i = 0; i < gridDim.x; ++i) total += ((volatile float*)parts)[i];
        y[0] = total;
    }
}""",
    "sum/warps": """// grid: 1
// block: BLOCK
"""
    + WARP_SUM
    + """
__global__ void sum(const float* x, float* y, int n) {
    __shared__ float part[BLOCK / 32];
    float v = 0;
    for (int i = threadIdx.x; i < n; i += BLOCK) v += x[i];
    v = warp_sum(v);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = 0;
        for (int i = 0; i < BLOCK / 32; ++i) total += part[i];
        y[0] = total;
    }
}""",
    "row_sums/thread a row": ROWS
    + """
__global__ void row_sums(const float* x, float* y, int rows, int columns) {
    int r = blockIdx.x * BLOCK + threadIdx.x;
    if (r >= rows) return;
    float v = 0;
    for (int c = 0; c < columns; ++c) v += x[r * columns + c];
    y[r] = v;
}""",
    "row_sums/block a row": ROW
    + BLOCK_SUM
    + """
__global__ void row_sums(const float* x, float* y, int rows, int columns) {
    __shared__ float part[BLOCK];
    float v = 0;
    for (int c = threadIdx.x; c < columns; c += BLOCK) v += x[blockIdx.x * columns + c];
    v = block_sum(v, part);
    if (threadIdx.x == 0) y[blockIdx.x] = v;
}""",
    "row_sums/warp a row": """// grid: divide_up(rows, BLOCK / 32)
// block: 32, BLOCK / 32
"""
    + WARP_SUM
    + """
__global__ void row_sums(const float* x, float* y, int rows, int columns) {
    int r = blockIdx.x * blockDim.y + threadIdx.y;
    if (r >= rows) return;
    float v = 0;
    for (int c = threadIdx.x; c < columns; c += 32) v += x[(long long)r * columns + c];
    v = warp_sum(v);
    if (threadIdx.x == 0) y[r] = v;
}""",
    "row_sums/in double": ROWS
    + """
__global__ void row_sums(const float* x, float* y, int rows, int columns) {
    int r = blockIdx.x * BLOCK + threadIdx.x;
    if (r < rows) {
        double v = 0;
        for (int c = 0; c < columns; ++c) v += x[r * columns + c];
        y[r] = (float)v;
    }
}""",
    "row_sums/compensated": ROWS
    + """
__global__ void row_sums(const float* x, float* y, int rows, int columns) {
    int r = blockIdx.x * BLOCK + threadIdx.x;
    if (r >= rows) return;
    float v = 0, lost = 0;
    for (int c = 0; c < columns; ++c) {
        const float t = x[r * columns + c], s = v + t;
        if (isfinite(s)) lost += fabsf(v) >= fabsf(t) ? (v - s) + t : (t - s) + v;
        v = s;
    }
    y[r] = v + lost;
}""",
    "softmax/thread a row": ROWS
    + LARGER
    + """
__global__ void softmax(const float* x, float* y, int rows, int columns) {
    int r = blockIdx.x * BLOCK + threadIdx.x;
    if (r >= rows) return;
    float m = -INFINITY, s = 0;
    for (int c = 0; c < columns; ++c) m = larger(m, x[r * columns + c]);
    for (int c = 0; c < columns; ++c) s += expf(x[r * columns + c] - m);
    for (int c = 0; c < columns; ++c) y[r * columns + c] = expf(x[r * columns + c] - m) / s;
}""",
    "softmax/online": ROWS
    + LARGER
    + """
__global__ void softmax(const float* x, float* y, int rows, int columns) {
    int r = blockIdx.x * BLOCK + threadIdx.x;
    if (r >= rows) return;
    float m = x[r * columns], s = m == INFINITY ? NAN : 1;
    for (int c = 1; c < columns; ++c) {
        const float v = x[r * columns + c], next = larger(m, v);
        s = s * (m == next ? 1.0f : expf(m - next)) + expf(v - next);
        m = next;
    }
    for (int c = 0; c < columns; ++c) y[r * columns + c] = expf(x[r * columns + c] - m) / s;
}""",
    "softmax/block a row": ROW
    + BLOCK_SUM
    + LARGER
    + """
__global__ void softmax(const float* x, float* y, int rows, int columns) {
    __shared__ float part[BLOCK];
    x += blockIdx.x * columns;
    y += blockIdx.x * columns;
    float m = -INFINITY, s = 0;
    for (int c = threadIdx.x; c < columns; c += BLOCK) m = larger(m, x[c]);
    m = block_max(m, part);
    for (int c = threadIdx.x; c < columns; c += BLOCK) s += expf(x[c] - m);
    s = block_sum(s, part);
    for (int c = threadIdx.x; c < columns; c += BLOCK) y[c] = expf(x[c] - m) / s;
}""",
    "softmax/row in shared memory": ROW
    + "// shared: 4 * columns\n"
    + BLOCK_SUM
    + LARGER
    + """
__global__ void softmax(const float* x, float* y, int rows, int columns) {
    extern __shared__ float row[];
    __shared__ float part[BLOCK];
    const int base = blockIdx.x * columns;
    float m = -INFINITY, s = 0;
    for (int c = threadIdx.x; c < columns; c += BLOCK) m = larger(m, row[c] = x[base + c]);
    m = block_max(m, part);
    for (int c = threadIdx.x; c < columns; c += BLOCK) s += row[c] = expf(row[c] - m);
    s = 1 / block_sum(s, part);
    for (int c = threadIdx.x; c < columns; c += BLOCK) y[base + c] = row[c] * s;
}""",
    "layer_norm/thread a row": ROWS
    + """
__global__ void layer_norm(const float* x, const float* weight, const float* bias, float* y, int rows, int columns,
                           float eps) {
    int r = blockIdx.x * BLOCK + threadIdx.x;
    if (r >= rows) return;
    x += r * columns; y += r * columns;
    float mean = 0, square = 0;
    for (int c = 0; c < columns; ++c) mean += x[c];
    mean /= columns;
    for (int c = 0; c < columns; ++c) square += (x[c] - mean) * (x[c] - mean);
    const float scale = rsqrtf(square / columns + eps);
    for (int c = 0; c < columns; ++c) y[c] = (x[c] - mean) * scale * weight[c] + bias[c];
}""",
    "layer_norm/block a row": ROW
    + BLOCK_SUM
    + """
__global__ void layer_norm(const float* x, const float* weight, const float* bias, float* y, int rows, int columns,
                           float eps) {
    __shared__ float part[BLOCK];
    const int base = blockIdx.x * columns;
    float v = 0;
    for (int c = threadIdx.x; c < columns; c += BLOCK) v += x[base + c];
    const float mean = block_sum(v, part) / columns;
    v = 0;
    for (int c = threadIdx.x; c < columns; c += BLOCK) v += (x[base + c] - mean) * (x[base + c] - mean);
    const float deviation = sqrtf(block_sum(v, part) / columns + eps);
    for (int c = threadIdx.x; c < columns; c += BLOCK)
        y[base + c] = (x[base + c] - mean) / deviation * weight[c] + bias[c];
}""",
    "layer_norm/welford": ROWS
    + """
__global__ void layer_norm(const float* x, const float* weight, const float* bias, float* y, int rows, int columns,
                           float eps) {
    int r = blockIdx.x * BLOCK + threadIdx.x;
    if (r >= rows) return;
    x += r * columns; y += r * columns;
    float mean = 0, square = 0;
    for (int c = 0; c < columns; ++c) {
        const float away = x[c] - mean;
        mean += away / (c + 1);
        square += away * (x[c] - mean);
    }
    for (int c = 0; c < columns; ++c) y[c] = (x[c] - mean) * rsqrtf(square / columns + eps) * weight[c] + bias[c];
}""",
    "matmul/one each": """// grid: divide_up(n, 16), divide_up(m, BLOCK / 16)
// block: 16, BLOCK / 16
__global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n) return;
    float v = 0;
    for (int i = 0; i < k; ++i) v += a[row * k + i] * b[i * n + column];
    c[row * n + column] = v;
}""",
    "matmul/tiles": """// grid: divide_up(n, 16), divide_up(m, 16)
// block: 16, 16
#define TILE 16
__global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float as[TILE][TILE], bs[TILE][TILE];
    const int column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
    float v = 0;
    for (int start = 0; start < k; start += TILE) {
        as[threadIdx.y][threadIdx.x] = row < m && start + threadIdx.x < k ? a[row * k + start + threadIdx.x] : 0;
        const int at = start + threadIdx.y;
        bs[threadIdx.y][threadIdx.x] = column < n && at < k ? b[at * n + column] : 0;
        __syncthreads();
        for (int i = 0; i < TILE; ++i) v += as[threadIdx.y][i] * bs[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = v;
}""",
    "matmul/row a block": """// grid: m
// block: BLOCK
// shared: 4 * k
__global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    extern __shared__ float row[];
    for (int i = threadIdx.x; i < k; i += BLOCK) row[i] = a[blockIdx.x * k + i];
    __syncthreads();
    for (int column = threadIdx.x; column < n; column += BLOCK) {
        float v = 0;
        for (int i = 0; i < k; ++i) v = fmaf(row[i], b[i * n + column], v);
        c[blockIdx.x * n + column] = v;
    }
}""",
    "matmul/registers": """// grid: divide_up(n, BLOCK), divide_up(m, 4)
// block: BLOCK
__global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    const int column = blockIdx.x * BLOCK + threadIdx.x, row = 4 * blockIdx.y;
    if (column >= n) return;
    float v[4] = {0, 0, 0, 0};
    for (int i = 0; i < k; ++i)
        for (int j = 0; j < 4; ++j)
            if (row + j < m) v[j] += a[(row + j) * k + i] * b[i * n + column];
    for (int j = 0; j < 4; ++j)
        if (row + j < m) c[(row + j) * n + column] = v[j];
}""",
    "transpose/one each": """// grid: divide_up(rows * columns, BLOCK)
// block: BLOCK
template <typename T> __global__ void transpose(const T* x, T* y, int rows, int columns) {
    long long i = (long long)blockIdx.x * BLOCK + threadIdx.x;
    if (i < (long long)rows * columns) y[i % columns * rows + i / columns] = x[i];
}""",
    "transpose/tiles": """// grid: divide_up(columns, 32), divide_up(rows, 32)
// block: 32, BLOCK / 32
template <typename T> __global__ void transpose(const T* x, T* y, int rows, int columns) {
    __shared__ T tile[32][33];
    int column = blockIdx.x * 32 + threadIdx.x;
    for (int j = threadIdx.y; j < 32; j += blockDim.y)
        if (column < columns && blockIdx.y * 32 + j < rows)
            tile[j][threadIdx.x] = x[(blockIdx.y * 32ll + j) * columns + column];
    __syncthreads();
    int row = blockIdx.y * 32 + threadIdx.x;
    for (int j = threadIdx.y; j < 32; j += blockDim.y)
        if (row < rows && blockIdx.x * 32 + j < columns)
            y[(blockIdx.x * 32ll + j) * rows + row] = tile[threadIdx.x][j];
}""",
    "scan/thread a row": ROWS
    + """
__global__ void scan(const float* x, float* y, int rows, int columns) {
    int r = blockIdx.x * BLOCK + threadIdx.x;
    if (r >= rows) return;
    float v = 0;
    for (int c = 0; c < columns; ++c) y[r * columns + c] = v += x[r * columns + c];
}""",
    "scan/by doubling": ROW
    + """
__global__ void scan(const float* x, float* y, int rows, int columns) {
    __shared__ float part[2][BLOCK];
    float before = 0;
    for (int start = 0; start < columns; start += BLOCK) {
        const int c = start + threadIdx.x;
        int now = 0;
        part[0][threadIdx.x] = c < columns ? x[blockIdx.x * columns + c] : 0;
        __syncthreads();
        for (int step = 1; step < BLOCK; step *= 2) {
            float v = part[now][threadIdx.x];
            if (threadIdx.x >= step) v += part[now][threadIdx.x - step];
            part[1 - now][threadIdx.x] = v;
            now = 1 - now;
            __syncthreads();
        }
        if (c < columns) y[blockIdx.x * columns + c] = before + part[now][threadIdx.x];
        before += part[now][BLOCK - 1];
        __syncthreads();
    }
}""",
    "scan/warps": """// grid: rows
// block: 32
__global__ void scan(const float* x, float* y, int rows, int columns) {
    float before = 0;
    for (int start = 0; start < columns; start += 32) {
        const int c = start + threadIdx.x;
        float v = c < columns ? x[blockIdx.x * columns + c] : 0.0f;
        for (int step = 1; step < 32; step *= 2) {
            const float left = __shfl_up_sync(0xffffffff, v, step);
            if (threadIdx.x >= step) v += left;
        }
        if (c < columns) y[blockIdx.x * columns + c] = before + v;
        before += __shfl_sync(0xffffffff, v, 31);
    }
}""",
    "histogram/shared": """// launch: clear(counts)
// grid: 1
// block: 16
// launch: histogram(keys, counts, n)
// grid: divide_up(n, BLOCK)
// block: BLOCK
__global__ void clear(int* counts) { counts[threadIdx.x] = 0; }
__global__ void histogram(const int* keys, int* counts, int n) {
    __shared__ int own[16];
    if (threadIdx.x < 16) own[threadIdx.x] = 0;
    __syncthreads();
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) atomicAdd(&own[keys[i]], 1);
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
}""",
    "histogram/one block": """// grid: 1
// block: BLOCK
__global__ void histogram(const int* keys, int* counts, int n) {
    __shared__ int own[16];
    if (threadIdx.x < 16) own[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += BLOCK) atomicAdd(&own[keys[i]], 1);
    __syncthreads();
    if (threadIdx.x < 16) counts[threadIdx.x] = own[threadIdx.x];
}""",
    "gather/one each": """// grid: divide_up(n * columns, BLOCK)
// block: BLOCK
__global__ void gather(const float* x, const int* index, float* y, int rows, int columns, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n * columns) y[i] = x[index[i / columns] * columns + i % columns];
}""",
    "gather/block a row": """// grid: n
// block: BLOCK
__global__ void gather(const float* x, const int* index, float* y, int rows, int columns, int n) {
    const float* from = x + index[blockIdx.x] * columns;
    for (int c = threadIdx.x; c < columns; c += BLOCK) y[blockIdx.x * columns + c] = __ldg(from + c);
}""",
    "swish/one each": ONE
    + """// backward:
// grid: divide_up(n, BLOCK)
// block: BLOCK
__global__ void swish(const float* x, float* y, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) y[i] = x[i] / (1 + exp(-x[i]));
}
__global__ void swish_backward(const float* x, const float* g, float* d_x, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n) return;
    const float s = 1 / (1 + exp(-x[i]));
    d_x[i] = g[i] * s * (1 + x[i] * (1 - s));
}""",
    "softmax_grad/thread a row": ROWS
    + """// backward:
// grid: divide_up(rows, BLOCK)
// block: BLOCK
"""
    + """
__global__ void softmax(const float* x, float* y, int rows, int columns) {
    int r = blockIdx.x * BLOCK + threadIdx.x;
    if (r >= rows) return;
    float m = -INFINITY, s = 0;
    for (int c = 0; c < columns; ++c) m = fmaxf(m, x[r * columns + c]);
    for (int c = 0; c < columns; ++c) s += expf(x[r * columns + c] - m);
    for (int c = 0; c < columns; ++c) y[r * columns + c] = expf(x[r * columns + c] - m) / s;
}
__global__ void softmax_backward(const float* y, const float* g, float* d_x, int rows, int columns) {
    int r = blockIdx.x * BLOCK + threadIdx.x;
    if (r >= rows) return;
    float s = 0;
    for (int c = 0; c < columns; ++c) s += y[r * columns + c] * g[r * columns + c];
    for (int c = 0; c < columns; ++c) d_x[r * columns + c] = y[r * columns + c] * (g[r * columns + c] - s);
}""",
    "softmax/results as scratch": """// A thread a row.
//
// grid: (rows + BLOCK - 1) / BLOCK
// block: BLOCK
extern "C" __global__ void __launch_bounds__(BLOCK)
softmax(const float* __restrict__ x, float* __restrict__ y, int rows, int columns) {
    const int r = blockIdx.x * BLOCK + threadIdx.x;
    if (r >= rows) return;
    const float* from = x + (size_t)r * columns;
    float* to = y + (size_t)r * columns;
    float m = from[0], s = 0;
    for (int c = 1; c < columns; ++c) m = from[c] > m || isnan(from[c]) ? from[c] : m;
    for (int c = 0; c < columns; ++c) s += to[c] = __expf(from[c] - m);
    const float inverse = 1.0f / s;
#pragma unroll 4
    for (int c = 0; c < columns; ++c) to[c] *= inverse;
}""",
    "row_sums/cooperative groups": """// grid: rows
// block: BLOCK
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__global__ void row_sums(const float* x, float* y, int rows, int columns) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> warp = cg::tiled_partition<32>(block);
    __shared__ float part[BLOCK / 32];
    float v = 0;
    for (int c = threadIdx.x; c < columns; c += BLOCK) v += x[blockIdx.x * columns + c];
    v = cg::reduce(warp, v, cg::plus<float>());
    if (warp.thread_rank() == 0) part[threadIdx.x / 32] = v;
    block.sync();
    if (threadIdx.x > 0) return;
    float sum = 0;
    for (int i = 0; i < BLOCK / 32; ++i) sum += part[i];
    y[blockIdx.x] = sum;
}""",
    "row_sums/cub": """// grid: rows
// block: BLOCK
#include <cub/cub.cuh>
__global__ void row_sums(const float* x, float* y, int rows, int columns) {
    typedef cub::BlockReduce<float, BLOCK> Reduce;
    __shared__ typename Reduce::TempStorage temp;
    float v = 0;
    for (int c = threadIdx.x; c < columns; c += BLOCK) v += x[blockIdx.x * columns + c];
    const float sum = Reduce(temp).Sum(v);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}""",
    "sum/sets its counter back": """// scratch: float parts[4]
// launch: sum(x, y, n, parts)
// grid: 4
// block: BLOCK
__device__ unsigned int arrived = 0;
__global__ void sum(const float* x, float* y, int n, float* parts) {
    __shared__ float part[BLOCK];
    __shared__ bool last;
    float v = 0;
    for (int i = blockIdx.x * BLOCK + threadIdx.x; i < n; i += gridDim.x * BLOCK) v += x[i];
    part[threadIdx.x] = v;
    __syncthreads();
    for (int half = BLOCK / 2; half > 0; half >>= 1) {
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = part[0];
        __threadfence();
        last = atomicAdd(&arrived, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        __threadfence();
        float total = 0;
        for (int i = 0; i < gridDim.x; ++i) total += ((volatile float*)parts)[i];
        y[0] = total;
        arrived = 0;
    }
}""",
    "gelu/constants": """// grid: divide_up(n, BLOCK)
// block: BLOCK
#include <cuda_fp16.h>
#define BY_TANH 1
#define CUBE(v) ((v) * (v) * (v))
__constant__ float table[2] = {0.7978845608028654f, 0.044715f};
static constexpr float half_of = 0.5f;
template <typename T, int items = 1> __global__ void gelu(const T* __restrict__ x, T* __restrict__ y, int n) {
    assert(n > 0);
    auto act = [](float v) {
#if BY_TANH
        return half_of * v * (1.f + tanhf(table[0] * (v + table[1] * CUBE(v))));
#else
        return v;
#endif
    };
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = static_cast<T>(act(static_cast<float>(x[i])));
}""",
    "layer_norm/warps": """// grid: divide_up(rows, BLOCK / 32)
// block: BLOCK
#define FULL 0xffffffff
__device__ __forceinline__ float warp_sum(float v) {
    for (int o = 16; o; o >>= 1) v += __shfl_down_sync(FULL, v, o);
    return __shfl_sync(FULL, v, 0);
}
__global__ void layer_norm(const float* x, const float* weight, const float* bias, float* y, int rows, int columns,
                           float eps) {
    const int row = blockIdx.x * (BLOCK / 32) + threadIdx.x / 32, lane = threadIdx.x & 31;
    if (row >= rows) return;
    float s = 0, square = 0;
    for (int c = lane; c < columns; c += 32) s += x[row * columns + c];
    const float mean = warp_sum(s) / columns;
    for (int c = lane; c < columns; c += 32) {
        const float away = x[row * columns + c] - mean;
        square += away * away;
    }
    const float scale = rsqrtf(warp_sum(square) / columns + eps);
    for (int c = lane; c < columns; c += 32)
        y[row * columns + c] = (x[row * columns + c] - mean) * scale * weight[c] + bias[c];
}""",
}


def text(style: str, block: int = 64) -> str:
    """The text of a style for a size of the block."""
    return TEXTS[style].replace("BLOCK", str(block))


#: All candidates: style and block. Texts that do not depend on the block are there once.
RIGHT = [
    (style, block) for style, one in TEXTS.items() for block in ((32, 64, 256) if "BLOCK" in one else (64,))
]
