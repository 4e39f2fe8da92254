## bounds: central difference right edge | grid=2 block=32 | r(64), z(64), 64
__global__ void gradient(const float* x, float* g, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float l = i > 0 ? x[i - 1] : x[i];
        float r = ⟦i + 1 < n|||i < n⟧ ? x[i + 1] : x[i]; //!
        g[i] = 0.5f * (r - l);
    }
}
## bounds: grid stride unroll by two | grid=1 block=32 | r(101), z(101), 101
__global__ void scale2(const float* x, float* y, int n) {
    for (int i = 2 * threadIdx.x; i < n; i += 64) {
        y[i] = 2 * x[i];
        ⟦if (i + 1 < n) |||⟧y[i + 1] = 2 * x[i + 1]; //!
    }
}
## bounds: vector of bytes tail | grid=1 block=16 | a(250).astype("uint8"), z(250, "uint8"), 250
__global__ void invert(const uchar4* in, uchar4* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (; i < ⟦n / 4|||(n + 3) / 4⟧; i += gridDim.x * blockDim.x) {
        uchar4 p = in[i]; //!
        out[i] = make_uchar4(255 - p.x, 255 - p.y, 255 - p.z, p.w); //!
    }
    ⟦if (blockIdx.x == 0 && threadIdx.x < n % 4) {
        const unsigned char* a = (const unsigned char*)in; unsigned char* b = (unsigned char*)out;
        int k = n / 4 * 4 + threadIdx.x;
        b[k] = 255 - a[k];
    }|||⟧
}
## bounds: neighbouring shared array | grid=1 block=32 | r(32), r(34), z(32)
__global__ void two_arrays(const float* x, const float* w, float* y) {
    struct Mem { float a[32]; float b[34]; };
    __shared__ Mem m;
    int t = threadIdx.x;
    m.a[t] = x[t];
    for (int k = t; k < 34; k += 32) m.b[k] = w[k];
    __syncthreads();
    float l = m.a[t], r = ⟦t < 31 ? m.a[t + 1] : 0.f|||m.a[t + 1]⟧; //!
    y[t] = l * m.b[t] + r * m.b[t + 1] + m.b[t + 2];
}
## bounds: shared overrun into another variable | grid=1 block=64 | r(65), z(64)
__global__ void overrun(const float* x, float* y) {
    __shared__ float window[⟦65|||64⟧];
    __shared__ float weights[4];
    int t = threadIdx.x;
    if (t < 4) weights[t] = 0.25f * t;
    window[t] = x[t];
    __syncthreads();
    if (t == 0) window[64] = x[64]; //!
    __syncthreads();
    y[t] = weights[t & 3] * (window[t] + window[t + 1]); //!
}
## bounds: carve up in elements and bytes | grid=1 block=32 shared=384 | r(32), z(32)
__global__ void carve(const float* x, float* y) {
    extern __shared__ char raw[];
    float* a = (float*)raw;
    double* b = ⟦(double*)(raw + 32 * sizeof(float))|||(double*)(a + 32 * sizeof(float))⟧;
    int t = threadIdx.x;
    a[t] = x[t];
    b[t] = 2.0 * x[t]; //!
    __syncthreads();
    y[t] = a[31 - t] + (float)b[31 - t]; //!
}
## bounds: traversal stack depth | grid=1 block=4 | z(4, "int32")
__global__ void walk(int* visited) {
    int stack[⟦8|||4⟧]; //!
    int top = 0, count = 0;
    stack[top++] = 1; //!
    while (top) {
        int node = stack[--top];
        ++count;
        if (node < 32) { stack[top++] = 2 * node; stack[top++] = 2 * node + 1; } //!
    }
    visited[threadIdx.x] = count;
}
## bounds: local histogram top bin | grid=1 block=8 | f(80), z(8*4, "int32"), 10
__global__ void quartiles(const float* x, int* out, int n) {
    int bins[4] = {0, 0, 0, 0};
    for (int k = 0; k < n; ++k) {
        int b = (int)((x[threadIdx.x * n + k] - 1.f) * 4.f);
        ⟦b = min(b, 3);|||⟧
        bins[b]++; //!
    }
    for (int k = 0; k < 4; ++k) out[threadIdx.x * 4 + k] = bins[k];
}
## bounds: max pool window not clipped | grid=1 block=(5, 5) | r(9*9), z(25), 9, 9
__global__ void maxpool(const float* in, float* out, int H, int W) {
    int ox = threadIdx.x, oy = threadIdx.y;
    int y0 = oy * 2 - 1, x0 = ox * 2 - 1;
    int y1 = ⟦min(y0 + 3, H)|||y0 + 3⟧, x1 = min(x0 + 3, W);
    y0 = max(y0, 0); x0 = max(x0, 0);
    float m = -INFINITY;
    for (int y = y0; y < y1; ++y)
        for (int x = x0; x < x1; ++x) m = fmaxf(m, in[y * W + x]); //!
    out[oy * 5 + ox] = m;
}
## bounds: im2col padding | grid=2 block=32 | r(36), z(9*36), 6, 6
__global__ void im2col(const float* img, float* col, int H, int W) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= H * W) return;
    int oy = idx / W, ox = idx % W;
    for (int ky = 0; ky < 3; ++ky)
        for (int kx = 0; kx < 3; ++kx) {
            int y = oy + ky - 1, x = ox + kx - 1;
            bool inside = ⟦y >= 0 && x >= 0 && y < H && x < W|||y < H && x < W⟧;
            col[(ky * 3 + kx) * H * W + idx] = inside ? img[y * W + x] : 0.f; //!
        }
}
## bounds: bilinear upsample far corner | grid=1 block=(16, 16) | r(64), z(256), 8, 16
__global__ void upsample(const float* src, float* dst, int n, int m) {
    float fx = threadIdx.x * (float)(n - 1) / (m - 1), fy = threadIdx.y * (float)(n - 1) / (m - 1);
    int x0 = (int)fx, y0 = (int)fy;
    int x1 = x0 + (x0 < n - 1), y1 = ⟦y0 + (y0 < n - 1)|||y0 + 1⟧;
    float ax = fx - x0, ay = fy - y0;
    float top = src[y0 * n + x0] * (1 - ax) + src[y0 * n + x1] * ax;
    float bot = src[y1 * n + x0] * (1 - ax) + src[y1 * n + x1] * ax; //!
    dst[threadIdx.y * m + threadIdx.x] = top * (1 - ay) + bot * ay;
}
## bounds: packed triangle row | grid=1 block=16 | r(136), r(16), z(16), 16
__global__ void symv(const float* ap, const float* x, float* y, int n) {
    int i = threadIdx.x;
    float s = 0;
    for (int j = 0; j < n; ++j) {
        int hi = max(i, j), lo = min(i, j);
        s += ap[⟦hi * (hi + 1) / 2 + lo|||hi * (hi + 3) / 2 + lo⟧] * x[j]; //!
    }
    y[i] = s;
}
## bounds: exclusive offsets without end | grid=1 block=16 | a(16) * 3, r(48), z(16), 16, 48
__global__ void segment_sums(const int* offsets, const float* x, float* out, int segments, int total) {
    int s = threadIdx.x;
    int begin = offsets[s], end = ⟦s + 1 < segments ? offsets[s + 1] : total|||offsets[s + 1]⟧; //!
    float sum = 0;
    for (int k = begin; k < end; ++k) sum += x[k]; //!
    out[s] = sum;
}
## bounds: probing without wrap | grid=1 block=32 | a(32) * 16 + 40, z(48, "int32") + -1
__global__ void insert(const int* keys, int* table) {
    const int cap = 48;
    int key = keys[threadIdx.x], slot = key % cap;
    while (true) {
        int old = atomicCAS(&table[slot], -1, key); //!
        if (old == -1 || old == key) break;
        slot = ⟦(slot + 1) % cap|||slot + 1⟧;
    }
}
## bounds: heap child | grid=1 block=4 | r(4*10), 10
__global__ void sift_down(float* heaps, int n) {
    float* h = heaps + threadIdx.x * n;
    for (int start = n / 2 - 1; start >= 0; --start) {
        int i = start;
        while (2 * i + 1 < n) {
            int c = 2 * i + 1;
            if (⟦c + 1 < n && |||⟧h[c + 1] > h[c]) ++c; //!
            if (h[i] >= h[c]) break;
            float u = h[i]; h[i] = h[c]; h[c] = u; //!
            i = c;
        }
    }
}
## bounds: merge of two runs | grid=1 block=2 | ck.asarray([1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3], dtype="float32"), z(12), 3
__global__ void merge_runs(const float* x, float* y, int n) {
    const float* a = x + threadIdx.x * 2 * n;
    const float* b = a + n;
    float* o = y + threadIdx.x * 2 * n;
    int i = 0, j = 0;
    for (int k = 0; k < 2 * n; ++k) {
        bool left = ⟦j >= n || (i < n && a[i] <= b[j])|||a[i] <= b[j]⟧; //!
        o[k] = left ? a[i++] : b[j++]; //!
    }
}
## bounds: pattern match at end | grid=2 block=32 | (a(64) % 2).astype("uint8"), (a(4) % 2).astype("uint8"), z(64, "int32"), 64, 4
__global__ void search(const unsigned char* text, const unsigned char* pat, int* found, int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (⟦i + m <= n|||i < n⟧) {
        int k = 0;
        while (k < m && text[i + k] == pat[k]) ++k; //!
        found[i] = k == m;
    }
}
## bounds: ignored label | grid=1 block=4 | r(4*8), ck.asarray([2, -100, 5, 0], dtype="int32"), z(4), 8
__global__ void nll(const float* logp, const int* target, float* loss, int classes) {
    int i = threadIdx.x, t = target[i];
    ⟦if (t == -100) { loss[i] = 0; return; }|||⟧
    loss[i] = -logp[i * classes + t]; //!
}
## bounds: leading dimension swapped | grid=1 block=(4, 6) | r(4*9), r(9*6), z(24), 4, 6, 9
__global__ void gemm_nt(const float* A, const float* B, float* C, int m, int n, int k) {
    int i = threadIdx.x, j = threadIdx.y;
    float s = 0;
    for (int q = 0; q < k; ++q) s += A[i * k + q] * B[q * ⟦n|||k⟧ + j]; //!
    C[i * n + j] = s;
}
## bounds: rectangular tile swapped | grid=1 block=(16, 8) | r(128), z(128)
__global__ void tile(const float* x, float* y) {
    __shared__ float s[8][16];
    int tx = threadIdx.x, ty = threadIdx.y;
    s[ty][tx] = x[ty * 16 + tx];
    __syncthreads();
    y[tx * 8 + ty] = ⟦s[ty][tx]|||s[tx][ty]⟧; //!
}
## bounds: null bias | grid=1 block=32 | r(32), None, z(32)
__global__ void add_bias(const float* x, const float* bias, float* y) {
    int i = threadIdx.x;
    y[i] = x[i] + ⟦(bias ? bias[i] : 0.f)|||bias[i]⟧; //!
}
## bounds: words of packed bits | grid=1 block=64 | i(80, 2), z(3, "uint32"), 80
__global__ void pack_bits(const int* flag, unsigned* words, int n) {
    for (int base = threadIdx.x & ~31; base < n⟦|||+ 32⟧; base += 64) {
        int i = base + (threadIdx.x & 31);
        unsigned b = __ballot_sync(~0u, i < n && flag[i]);
        if ((threadIdx.x & 31) == 0) words[base / 32] = b; //!
    }
}
## bounds: half2 view counts elements | grid=1 block=32 | r(64).astype("float16"), z(64).astype("float16"), 64
#include <cuda_fp16.h>
__global__ void relu_half(const half* x, half* y, int n) {
    const half2* x2 = (const half2*)x;
    half2* y2 = (half2*)y;
    for (int i = threadIdx.x; i < ⟦n / 2|||n⟧; i += blockDim.x)
        y2[i] = __hmax2(x2[i], __float2half2_rn(0.f)); //!
}
## bounds: guard uses or | grid=(2, 2) block=(8, 8) | r(12*12), z(144), 12
__global__ void negate(const float* x, float* y, int n) {
    int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n ⟦&&|||||⟧ j < n) y[i * n + j] = -x[i * n + j]; //!
}
## bounds: guard rows and columns swapped | grid=(2, 2) block=(16, 8) | r(10*25), z(250), 10, 25
__global__ void copy2d(const float* x, float* y, int rows, int cols) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (⟦r < rows && c < cols|||r < cols && c < cols⟧) y[r * cols + c] = x[r * cols + c]; //!
}
## bounds: append without capacity | grid=2 block=32 | i(64, 4), z(8, "int32"), z(1, "int32"), 8
__global__ void collect(const int* x, int* list, int* count, int cap) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (x[i] == 1) {
        int at = atomicAdd(count, 1);
        ⟦if (at < cap) |||⟧list[at] = i; //!
    }
}
## bounds: unsigned countdown | grid=1 block=8 | r(8*6), z(48), 6
__global__ void suffix(const float* x, float* y, unsigned n) {
    unsigned base = threadIdx.x * n;
    float s = 0;
    ⟦for (unsigned k = n; k-- > 0;) {|||for (int k = n; k >= 0; --k) {⟧
        s += x[base + k]; //!
        y[base + k] = s; //!
    }
}
## bounds: ring buffer tail index | grid=1 block=8 | r(8*20), z(8), 20
__global__ void moving(const float* x, float* y, int n) {
    float ring[5] = {0, 0, 0, 0, 0};
    int head = 0;
    float sum = 0;
    for (int k = 0; k < n; ++k) {
        float v = x[threadIdx.x * n + k];
        sum += v - ring[head]; //!
        ring[head] = v; //!
        ⟦if (++head == 5) head = 0;|||if (head++ == 5) head = 0;⟧
    }
    y[threadIdx.x] = sum;
}
## bounds: embedding vocabulary offset | grid=4 block=8 | ck.asarray([1, 6, 10, 4], dtype="int32"), r(10*8), z(32), 8, 1
__global__ void embed(const int* ids, const float* table, float* out, int dim, int first) {
    int id = ids[blockIdx.x]⟦ - first|||⟧;
    out[blockIdx.x * dim + threadIdx.x] = table[id * dim + threadIdx.x]; //!
}
## bounds: column scan stride | grid=1 block=12 | r(7*12), z(84), 7, 12
__global__ void cumsum_columns(const float* x, float* y, int rows, int cols) {
    int c = threadIdx.x;
    float s = 0;
    for (int r = 0; r < rows; ++r) {
        s += x[r * ⟦cols|||blockDim.x + cols⟧ + c]; //!
        y[r * cols + c] = s;
    }
}
## bounds: pointer advanced past rows | grid=1 block=8 | r(8*16), z(8), 16
__global__ void dots(const float* x, float* y, int n) {
    const float* p = x + threadIdx.x * n;
    float s = 0;
    for (int k = 0; k < n; k += 4) {
        float4 v = *(const float4*)p; //!
        s += v.x + v.y + v.z + v.w;
        p += ⟦4|||sizeof(float4)⟧;
    }
    y[threadIdx.x] = s;
}
## bounds: halving a block of 48 | grid=1 block=48 | r(48), z(1)
__global__ void sum48(const float* x, float* y) {
    __shared__ float s[48];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    for (int h = 32; h > 0; h >>= 1) {
        if (t < h⟦ && t + h < 48|||⟧) s[t] += s[t + h]; //!
        __syncthreads();
    }
    if (t == 0) y[0] = s[0];
}
## bounds: radix digit of negative key | grid=1 block=32 | i(32, 100) - 50, z(16, "int32")
__global__ void digits(const int* keys, int* hist) {
    int k = keys[threadIdx.x];
    int d = ⟦(k >> 2) & 15|||(k / 4) % 16⟧;
    atomicAdd(&hist[d], 1); //!
}
## bounds: char subscript | grid=1 block=32 | a(32).astype("uint8") * 8, r(256), z(32)
__global__ void lut(const unsigned char* in, const float* table, float* out) {
    ⟦unsigned char|||signed char⟧ c = in[threadIdx.x];
    out[threadIdx.x] = table[c]; //!
}
## bounds: convolution transposed output size | grid=1 block=8 | r(8), r(4), z(18), 8
__global__ void deconv1d(const float* x, const float* w, float* y, int n) {
    int i = threadIdx.x;
    for (int k = 0; k < 4; ++k) {
        int at = 2 * i + k⟦||| + 1⟧;
        atomicAdd(&y[at], x[i] * w[k]); //!
    }
}
## unset: candidates none matched | grid=1 block=8 | i(8*4, 3), z(8, "int32"), 4
__global__ void last_match(const int* x, int* out, int n) {
    int best⟦ = -1|||⟧; //!
    for (int k = 0; k < n; ++k) if (x[threadIdx.x * n + k] == 7) best = k;
    out[threadIdx.x] = best; //!
}
## unset: switch without default | grid=1 block=8 | a(8), r(8), z(8)
__global__ void activate(const int* kind, const float* x, float* y) {
    float v = x[threadIdx.x], r; //!
    switch (kind[threadIdx.x]) {
        case 0: r = v; break;
        case 1: r = fmaxf(v, 0); break;
        case 2: r = tanhf(v); break;
        ⟦default: r = 0;|||case 3: r = 1;⟧
    }
    y[threadIdx.x] = r; //!
}
## unset: vector component | grid=1 block=8 | r(24), z(32)
__global__ void pad3to4(const float* xyz, float4* out) {
    float4 v; //!
    v.x = xyz[3 * threadIdx.x];
    v.y = xyz[3 * threadIdx.x + 1];
    v.z = xyz[3 * threadIdx.x + 2];
    ⟦v.w = 0.f;|||⟧
    out[threadIdx.x] = v; //!
}
## unwritten: unrolled tail | grid=1 block=8 | r(70), ck.empty(70), 70
__global__ void copy4(const float* x, float* y, int n) {
    int i = threadIdx.x * 4;
    for (; i + 3 < n; i += 32)
        for (int k = 0; k < 4; ++k) y[i + k] = x[i + k]; //!
    ⟦for (int k = i; k < n && k < i + 4; ++k) y[k] = x[k];|||⟧
}
## unwritten: chunks rounded down | grid=2 block=32 | r(100), ck.empty(100), 100
__global__ void chunks(const float* x, float* y, int n) {
    int chunks = ⟦(n + 31) / 32|||n / 32⟧; //!
    for (int c = blockIdx.x; c < chunks; c += gridDim.x) {
        int i = c * 32 + threadIdx.x;
        if (i < n) y[i] = sqrtf(x[i]); //!
    }
}
## unwritten: interior only | grid=1 block=(8, 8) | r(64), ck.empty(64), 8
__global__ void blur(const float* in, float* out, int n) {
    int x = threadIdx.x, y = threadIdx.y;
    if (x == 0 || y == 0 || x == n - 1 || y == n - 1) {
        ⟦out[y * n + x] = in[y * n + x];|||⟧
        return;
    }
    out[y * n + x] = 0.25f * (in[y * n + x - 1] + in[y * n + x + 1] + in[(y - 1) * n + x] + in[(y + 1) * n + x]); //!
}
## unwritten: warp per row last rows | grid=1 block=64 | r(5*32), ck.empty(5), 5
__global__ void row_sums(const float* x, float* y, int rows) {
    int lane = threadIdx.x % 32;
    for (int r = threadIdx.x / 32; r < ⟦rows|||rows / 2 * 2⟧; r += 2) {
        float v = x[r * 32 + lane];
        for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
        if (lane == 0) y[r] = v; //!
    }
}
## unwritten: causal mask above diagonal | grid=1 block=(8, 8) | r(64), ck.empty(64), 8
__global__ void masked(const float* s, float* p, int n) {
    int j = threadIdx.x, i = threadIdx.y;
    if (j <= i) p[i * n + j] = s[i * n + j]; //!
    ⟦else p[i * n + j] = -INFINITY;|||⟧
}
## unset: last column of a padded tile | grid=1 block=(8, 8) | r(49), z(81), 7
__global__ void pad_tile(const float* x, float* y, int n) {
    __shared__ float s[9][9];
    int tx = threadIdx.x, ty = threadIdx.y, t = ty * 8 + tx;
    ⟦for (int k = t; k < 81; k += 64) s[k / 9][k % 9] = 0.f;|||if (tx == 0) { s[ty][0] = 0.f; s[0][ty] = 0.f; if (ty == 0) s[8][0] = s[0][8] = 0.f; }⟧
    __syncthreads();
    if (tx < n && ty < n) s[ty + 1][tx + 1] = x[ty * n + tx];
    __syncthreads();
    for (int k = t; k < 81; k += 64) y[k] = s[k / 9][k % 9]; //!
}
## unset: shared best never initialised | grid=2 block=32 | i(64, 1000), z(2, "int32")
__global__ void block_min(const int* x, int* out) {
    __shared__ int best;
    ⟦if (threadIdx.x == 0) best = 0x7fffffff;
    __syncthreads();|||⟧
    atomicMin(&best, x[blockIdx.x * 32 + threadIdx.x]); //!
    __syncthreads();
    if (threadIdx.x == 0) out[blockIdx.x] = best; //!
}
## unset: new without parentheses | grid=1 block=4 | i(4*12, 5), z(4*5, "int32"), 12
__global__ void counts(const int* x, int* out, int n) {
    int* c = new int[5]⟦()|||⟧;
    for (int k = 0; k < n; ++k) c[x[threadIdx.x * n + k]]++; //!
    for (int k = 0; k < 5; ++k) out[threadIdx.x * 5 + k] = c[k]; //!
    delete[] c;
}
## unset: not set on failure | grid=1 block=8 | f(8) - 1.5, z(8)
__device__ bool root(float v, float& r) {
    ⟦r = 0.f;|||⟧
    if (v < 0) return false; //!
    r = sqrtf(v);
    return true;
}
__global__ void roots(const float* x, float* y) {
    float r; //!
    root(x[threadIdx.x], r);
    y[threadIdx.x] = r; //!
}
## unset: scatter with collisions | grid=1 block=32 | r(32), z(32)
__global__ void shuffle(const float* x, float* y) {
    __shared__ float s[32];
    int t = threadIdx.x;
    int to = ⟦(t * 5) & 31|||(t * 6) & 31⟧; //!
    s[to] = x[t]; //!
    __syncthreads();
    y[t] = s[t]; //!
}
## unset: accumulators half cleared | grid=1 block=8 | r(8*4), r(4*8), z(64)
__global__ void outer(const float* a, const float* b, float* c) {
    float acc[8]; //!
#pragma unroll
    for (int j = 0; j < ⟦8|||4⟧; ++j) acc[j] = 0.f;
    for (int k = 0; k < 4; ++k)
        for (int j = 0; j < 8; ++j) acc[j] += a[threadIdx.x * 4 + k] * b[k * 8 + j]; //!
    for (int j = 0; j < 8; ++j) c[threadIdx.x * 8 + j] = acc[j]; //!
}
## unset: stale rows of the last tile | grid=1 block=32 | r(20), z(32), 20
__global__ void tail_tile(const float* x, float* y, int n) {
    __shared__ float s[32];
    float acc = 0;
    for (int base = 0; base < n; base += 32) {
        int m = min(32, n - base);
        if (threadIdx.x < m) s[threadIdx.x] = x[base + threadIdx.x];
        ⟦else s[threadIdx.x] = 0.f;|||⟧
        __syncwarp();
        for (int k = 0; k < 32; ++k) acc += s[k]; //!
        __syncwarp();
    }
    y[threadIdx.x] = acc;
}
## unset: predecessor flags | grid=1 block=64 | i(64, 20), z(64, "int32")
__global__ void uniq(const int* x, int* y) {
    __shared__ int s[65];
    int t = threadIdx.x;
    s[t + 1] = x[t];
    ⟦if (t == 0) s[0] = x[0] - 1;|||⟧
    __syncthreads();
    y[t] = s[t] != s[t + 1]; //!
}
## unset: workspace row not cleared | grid=2 block=16 | r(32), i(32, 4), ck.empty(8), z(2)
__global__ void bins(const float* x, const int* label, float* work, float* out) {
    float* w = work + blockIdx.x * 4;
    int t = threadIdx.x, i = blockIdx.x * 16 + t;
    if (t < ⟦4|||3⟧) w[t] = 0.f;
    __syncthreads();
    atomicAdd(&w[label[i]], x[i]); //!
    __syncthreads();
    if (t == 0) out[blockIdx.x] = fmaxf(fmaxf(w[0], w[1]), fmaxf(w[2], w[3])); //!
}
## misaligned: float4 of a shifted row | grid=1 block=8 | r(36), z(32), 1
__global__ void shifted(const float* x, float* y, int first) {
    const float* p = x + first + 4 * threadIdx.x;
    ⟦float4 v = make_float4(p[0], p[1], p[2], p[3]);|||float4 v = *reinterpret_cast<const float4*>(p); //!⟧
    reinterpret_cast<float4*>(y)[threadIdx.x] = v;
}
## misaligned: doubles after odd ints in shared | grid=1 block=16 shared=256 | r(16), z(16), 13
__global__ void carve(const float* x, float* y, int n) {
    extern __shared__ __align__(16) unsigned char mem[];
    int* index = (int*)mem;
    double* value = (double*)(mem + ⟦(n * sizeof(int) + 7) / 8 * 8|||n * sizeof(int)⟧);
    int t = threadIdx.x;
    if (t < n) { index[t] = n - 1 - t; value[t] = x[t]; } //!
    __syncthreads();
    if (t < n) y[t] = (float)value[index[t]]; //!
}
## misaligned: word read in a byte stream | grid=1 block=8 | a(64).astype("uint8"), z(8, "uint32")
__global__ void decode(const unsigned char* s, unsigned* out) {
    const unsigned char* p = s + 5 * threadIdx.x;
    unsigned v;
    ⟦v = p[0] | p[1] << 8 | p[2] << 16 | (unsigned)p[3] << 24;|||v = *(const unsigned*)p; //!⟧
    out[threadIdx.x] = v;
}
## misaligned: int4 of rows with pitch 6 | grid=1 block=8 | a(8*6), z(8, "int32"), 6
__global__ void row_heads(const int* x, int* y, int pitch) {
    const int* row = x + threadIdx.x * pitch;
    ⟦int2 a = *(const int2*)row, b = *(const int2*)(row + 2);
    y[threadIdx.x] = a.x + a.y + b.x + b.y;|||int4 a = *(const int4*)row; //!
    y[threadIdx.x] = a.x + a.y + a.z + a.w;⟧
}
## misaligned: float2 store of odd width | grid=1 block=8 | r(8*2), z(8*3)
__global__ void pad(const float2* in, float* out) {
    float* row = out + threadIdx.x * 3;
    float2 v = in[threadIdx.x];
    ⟦row[0] = v.x; row[1] = v.y;|||*(float2*)row = v; //!⟧
    row[2] = 1.f;
}
## misaligned: 16 byte async copy of a row of 6 | grid=1 block=8 | r(48), z(8)
__global__ void rows6(const float* x, float* y) {
    __shared__ __align__(16) float s[8][8];
    int t = threadIdx.x;
    ⟦for (int k = 0; k < 6; k += 2) {
        unsigned to = (unsigned)__cvta_generic_to_shared(&s[t][k]);
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" :: "r"(to), "l"(x + t * 6 + k) : "memory");
    }|||unsigned to = (unsigned)__cvta_generic_to_shared(&s[t][0]);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(x + t * 6) : "memory"); //!⟧
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    y[t] = s[t][0] + s[t][3];
}
## overflow: product of sizes in int | grid=1 block=4 | r(4), z(4), 1 << 17, 1 << 15
__global__ void volume(const float* x, float* y, int a, int b) {
    long long total = ⟦(long long)a * b|||a * b⟧; //!
    y[threadIdx.x] = x[threadIdx.x] / (float)total;
}
## overflow: linear congruence in int | grid=1 block=8 | z(8, "int32")
__global__ void lcg(int* y) {
    ⟦unsigned|||int⟧ s = threadIdx.x + 12345;
    for (int k = 0; k < 4; ++k) s = s * 1103515245 + 12345; //!
    y[threadIdx.x] = (int)((unsigned)s >> 16);
}
## overflow: midpoint of large bounds | grid=1 block=4 | z(4, "int32"), 2000000000
__global__ void bisect(int* y, int n) {
    int lo = 0, hi = n, want = n - 10 * (int)threadIdx.x - 5;
    for (int k = 0; k < 40 && lo < hi; ++k) {
        int mid = ⟦lo + (hi - lo) / 2|||(lo + hi) / 2⟧; //!
        if (mid < want) lo = mid + 1; else hi = mid;
    }
    y[threadIdx.x] = lo;
}
## overflow: global index of a large grid | grid=1 block=4 | z(4, "int64"), 100000, 40000
__global__ void offsets(long long* out, int row, int pitch) {
    int col = threadIdx.x;
    out[col] = ⟦(long long)row * pitch + col|||row * pitch + col⟧; //!
}
## overflow: negated least value | grid=1 block=4 | ck.asarray([-2147483648, 5, -7, 0], dtype="int32"), z(4, "uint32")
__global__ void magnitude(const int* x, unsigned* y) {
    int v = x[threadIdx.x];
    y[threadIdx.x] = v < 0 ? ⟦0u - (unsigned)v|||(unsigned)-v⟧ : v; //!
}
## overflow: fixed point product | grid=1 block=4 | i(4, 1000) + 100000, z(4, "int32")
__global__ void q16(const int* x, int* y) {
    int a = x[threadIdx.x];
    y[threadIdx.x] = ⟦(int)((long long)a * a >> 16)|||a * a >> 16⟧; //!
}
## overflow: sum of squares in int | grid=1 block=32 | i(32, 100) + 20000, z(1, "uint64")
__global__ void energy(const int* x, unsigned long long* out) {
    ⟦long long|||int⟧ v = x[threadIdx.x] * x[threadIdx.x];
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o); //!
    if (threadIdx.x == 0) *out = (unsigned long long)v;
}
## shift: field of 32 bits | grid=1 block=8 | ck.asarray([1, 8, 31, 32, 4, 16, 2, 32], dtype="int32"), z(8, "uint32")
__global__ void mask_of(const int* width, unsigned* m) {
    int w = width[threadIdx.x];
    m[threadIdx.x] = ⟦w == 32 ? ~0u : |||⟧(1u << w) - 1; //!
}
## shift: 64 bit set in int | grid=1 block=64 | z(1, "uint64")
__global__ void all_bits(unsigned long long* set) { atomicOr(set, ⟦1ull|||1⟧ << threadIdx.x); } //!
## shift: negative amount | grid=1 block=8 | a(8), z(8, "uint32")
__global__ void scale_bits(const int* e, unsigned* y) {
    int s = e[threadIdx.x] - 4;
    y[threadIdx.x] = ⟦s >= 0 ? 256u << s : 256u >> -s|||256u << s⟧; //!
}
## division: groups of a small block | grid=1 block=32 | r(32), z(32), 48
__global__ void spread(const float* x, float* y, int group) {
    int groups = ⟦max(1, (int)blockDim.x / group)|||(int)blockDim.x / group⟧;
    y[threadIdx.x] = x[threadIdx.x % groups]; //!
}
## division: mean of an empty segment | grid=1 block=4 | ck.asarray([0, 3, 3, 7, 9], dtype="int32"), a(9), z(4, "int32")
__global__ void mean(const int* offset, const int* x, int* y) {
    int s = threadIdx.x, sum = 0, n = offset[s + 1] - offset[s];
    for (int k = offset[s]; k < offset[s + 1]; ++k) sum += x[k];
    y[s] = ⟦n ? sum / n : 0|||sum / n⟧; //!
}
## division: remainder by a zero stride | grid=1 block=8 | a(8), z(8, "int32"), 4
__global__ void levels(const int* x, int* y, int depth) {
    int r = 0, v = x[threadIdx.x];
    for (int k = 0; k < depth; ++k) {
        int stride = ⟦1 << (depth - 1 - k)|||(1 << (depth - 1)) >> (2 * k)⟧;
        r = 2 * r + v % stride; //!
    }
    y[threadIdx.x] = r;
}
## memory: pointer to a local in shared | grid=1 block=32 | r(32), z(32)
__global__ void mailbox(const float* x, float* y) {
    __shared__ ⟦float box[32];|||float* box[32];⟧
    int t = threadIdx.x;
    float mine = 2 * x[t];
    box[t] = ⟦mine|||&mine⟧; //!
    __syncthreads();
    y[t] = ⟦box[31 - t]|||*box[31 - t]⟧; //!
    __syncthreads();
}
## memory: pointer into a loop body | grid=1 block=8 | i(8*6, 100), z(8, "int32"), 6
__global__ void largest(const int* x, int* y, int n) {
    ⟦int best = -1;|||const int* best = nullptr;⟧
    for (int k = 0; k < n; ++k) {
        int v[2] = {x[threadIdx.x * n + k], k}; //!
        ⟦best = max(best, v[0]);|||if (!best || v[0] > *best) best = v; //!⟧
    }
    y[threadIdx.x] = ⟦best|||*best⟧; //!
}
## memory: returned address of a local | grid=1 block=8 | r(8*3), z(8)
struct V3 { float x, y, z; };
__device__ __noinline__ ⟦V3|||V3*⟧ load(const float* p) {
    V3 v = {p[0], p[1], p[2]};
    ⟦return v;|||return &v; //!⟧
}
__global__ void norms(const float* p, float* n) {
    ⟦V3 v = load(p + 3 * threadIdx.x);|||V3 v = *load(p + 3 * threadIdx.x); //!⟧
    n[threadIdx.x] = v.x * v.x + v.y * v.y + v.z * v.z;
}
## memory: list node freed then followed | grid=1 block=4 | z(4, "int32"), 5
struct Node { int value; Node* next; };
__global__ void lists(int* sum, int n) {
    Node* head = nullptr;
    for (int k = 0; k < n; ++k) { Node* p = new Node; p->value = k; p->next = head; head = p; }
    int s = 0;
    while (head) {
        s += head->value;
        ⟦Node* next = head->next; delete head; head = next;|||delete head; head = head->next; //!⟧
    }
    sum[threadIdx.x] = s;
}
## memory: freed by every thread | grid=1 block=32 | r(32), z(32)
__global__ void shared_heap(const float* x, float* y) {
    __shared__ float* p;
    if (threadIdx.x == 0) p = (float*)malloc(32 * sizeof(float));
    __syncthreads();
    p[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = p[31 - threadIdx.x];
    __syncthreads();
    ⟦if (threadIdx.x == 0) free(p);|||free(p); //!⟧
}
## memory: freed before the others have read | grid=1 block=64 | r(64), z(64)
__global__ void scratch(const float* x, float* y) {
    __shared__ float* p;
    int t = threadIdx.x;
    if (t == 0) p = new float[64];
    __syncthreads();
    p[t] = x[t];
    __syncthreads();
    y[t] = p[63 - t]; //!
    ⟦__syncthreads();|||⟧
    if (t == 0) delete[] p; //!
}
## memory: leak of a grown buffer | grid=1 block=4 | i(4*9, 50), z(4, "int32"), 9
__global__ void grow(const int* x, int* y, int n) {
    int cap = 2, len = 0;
    int* v = (int*)malloc(cap * sizeof(int));
    for (int k = 0; k < n; ++k) {
        if (len == cap) {
            int* w = (int*)malloc(2 * cap * sizeof(int)); //!
            for (int q = 0; q < len; ++q) w[q] = v[q];
            ⟦free(v);|||⟧
            v = w; cap *= 2; //!
        }
        v[len++] = x[threadIdx.x * n + k];
    }
    y[threadIdx.x] = v[len - 1] + len;
    free(v);
}
## memory: allocated too small | grid=1 block=4 | z(4, "int64"), 6
__global__ void fib(long long* y, int n) {
    long long* f = (long long*)malloc(n * sizeof(⟦long long|||int⟧));
    f[0] = 0; f[1] = 1;
    for (int k = 2; k < n; ++k) f[k] = f[k - 1] + f[k - 2]; //!
    y[threadIdx.x] = f[n - 1];
    free(f);
}
## const: sorts its input | grid=1 block=1 | r(9), z(1), 9
__global__ void median(const float* x, float* y, int n) {
    ⟦float held[9];
    for (int k = 0; k < n; ++k) held[k] = x[k];
    float* v = held;|||float* v = (float*)x;⟧
    for (int i = 1; i < n; ++i)
        for (int j = i; j > 0 && v[j - 1] > v[j]; --j) { float u = v[j]; v[j] = v[j - 1]; v[j - 1] = u; } //!
    y[0] = v[n / 2];
}
## aliasing: prefix in place of a neighbour | grid=1 block=32 | r(32), 32
__global__ void shift_left(float* x, int n) {
    int t = threadIdx.x;
    ⟦float v = t + 1 < n ? x[t + 1] : 0.f;
    __syncthreads();
    x[t] = v;|||x[t] = t + 1 < n ? x[t + 1] : 0.f; //!⟧
}
## aliasing: shared union of two phases | grid=1 block=32 | r(32), z(32)
__global__ void phases(const float* x, float* y) {
    __shared__ union { float f[32]; int i[32]; } u;
    int t = threadIdx.x;
    u.f[t] = x[t];
    __syncthreads();
    float v = u.f[(t + 1) & 31]; //!
    ⟦__syncthreads();|||⟧
    u.i[t] = v > 0.5f; //!
    __syncthreads();
    y[t] = v + u.i[(t + 3) & 31];
}
## aliasing: dynamic regions overlap | grid=1 block=32 shared=512 | r(32), z(32), 32
__global__ void regions(const float* x, float* y, int n) {
    extern __shared__ float mem[];
    float* a = mem;
    float* b = mem + ⟦2 * n|||n⟧;
    int t = threadIdx.x;
    a[t] = x[t];
    a[t + n] = -x[t]; //!
    b[31 - t] = 3 * x[t]; //!
    __syncthreads();
    y[t] = a[31 - t] + a[63 - t] + b[t]; //!
}
