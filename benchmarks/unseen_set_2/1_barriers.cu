## missing barrier: rmsnorm broadcast | grid=3 block=64 | r(3*70), r(70), z(210), 70
__global__ void rmsnorm(const float* x, const float* w, float* o, int size) {
    __shared__ float partial[2];
    __shared__ float s_scale;
    const float* row = x + blockIdx.x * size;
    float ss = 0.f;
    for (int j = threadIdx.x; j < size; j += blockDim.x) ss += row[j] * row[j];
    for (int off = 16; off > 0; off >>= 1) ss += __shfl_down_sync(0xffffffffu, ss, off);
    if ((threadIdx.x & 31) == 0) partial[threadIdx.x >> 5] = ss;
    __syncthreads();
    if (threadIdx.x == 0) s_scale = 1.f / sqrtf((partial[0] + partial[1]) / size + 1e-5f); //!
    ⟦__syncthreads();|||⟧
    for (int j = threadIdx.x; j < size; j += blockDim.x) o[blockIdx.x * size + j] = w[j] * (row[j] * s_scale); //!
}
## missing barrier: welford tree | grid=2 block=32 | r(128), z(2), z(2), 64
struct W { float mean, m2, n; };
__global__ void batchnorm_stats(const float* x, float* mean, float* var, int n) {
    __shared__ W s[32];
    int t = threadIdx.x;
    W a = {0, 0, 0};
    for (int i = t; i < n; i += 32) {
        float v = x[blockIdx.x * n + i], d = v - a.mean;
        a.n += 1; a.mean += d / a.n; a.m2 += d * (v - a.mean);
    }
    s[t] = a; //!
    __syncthreads();
    for (int h = 16; h; h >>= 1) {
        if (t < h) {
            W p = s[t], q = s[t + h]; //!
            float d = q.mean - p.mean, c = p.n + q.n;
            s[t] = {p.mean + d * q.n / c, p.m2 + q.m2 + d * d * p.n * q.n / c, c}; //!
        }
        ⟦__syncthreads();|||⟧
    }
    if (t == 0) { mean[blockIdx.x] = s[0].mean; var[blockIdx.x] = s[0].m2 / n; } //!
}
## misplaced barrier: conv1d halo after barrier | grid=3 block=32 | r(96), r(5), z(96), 96
#define R 2
__global__ void conv1d(const float* x, const float* w, float* y, int n) {
    __shared__ float s[32 + 2 * R];
    int t = threadIdx.x, g = blockIdx.x * 32 + t;
    s[t + R] = x[g];
    ⟦|||__syncthreads();⟧
    if (t < R) {
        s[t] = g >= R ? x[g - R] : 0.f; //!
        s[t + 32 + R] = g + 32 < n ? x[g + 32] : 0.f; //!
    }
    ⟦__syncthreads();|||⟧
    float a = 0;
    for (int k = -R; k <= R; ++k) a += w[k + R] * s[t + R + k]; //!
    y[g] = a;
}
## missing barrier: weights by first threads | grid=2 block=64 | r(128+8), r(9), z(128)
__global__ void fir(const float* x, const float* taps, float* y) {
    __shared__ float w[9];
    if (threadIdx.x < 9) w[threadIdx.x] = taps[threadIdx.x]; //!
    ⟦__syncthreads();|||__threadfence_block();⟧
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float acc = 0.f;
#pragma unroll
    for (int k = 0; k < 9; ++k) acc = fmaf(w[k], x[i + k], acc); //!
    y[i] = acc;
}
## missing barrier: rank sort in place | grid=1 block=64 | r(64)
__global__ void rank_sort(float* x) {
    __shared__ float s[64];
    int t = threadIdx.x, rank = 0;
    s[t] = x[t];
    __syncthreads();
    float v = s[t];
    for (int j = 0; j < 64; ++j) rank += s[j] < v || (s[j] == v && j < t); //!
    ⟦__syncthreads();|||⟧
    s[rank] = v; //!
    __syncthreads();
    x[t] = s[t];
}
## missing barrier: argmax pair | grid=2 block=64 | r(128), z(2, "int32")
__global__ void argmax(const float* x, int* out) {
    __shared__ float val[64];
    __shared__ int idx[64];
    int t = threadIdx.x;
    val[t] = x[blockIdx.x * 64 + t]; //!
    idx[t] = t; //!
    __syncthreads();
    for (int s = 32; s > 0; s >>= 1) {
        if (t < s && val[t + s] > val[t]) { //!
            val[t] = val[t + s]; //!
            idx[t] = idx[t + s]; //!
        }
        ⟦__syncthreads();|||if (s > 32) __syncthreads();⟧
    }
    if (t == 0) out[blockIdx.x] = idx[0]; //!
}
## missing barrier: topk mask winner | grid=1 block=64 | r(64), z(4), z(4, "int32")
__global__ void topk(const float* x, float* v, int* id) {
    __shared__ float s[64];
    __shared__ float m[64];
    __shared__ int w[64];
    int t = threadIdx.x;
    s[t] = x[t];
    for (int k = 0; k < 4; ++k) {
        m[t] = s[t]; //!
        w[t] = t;
        __syncthreads();
        for (int h = 32; h; h /= 2) {
            if (t < h && m[t + h] > m[t]) { m[t] = m[t + h]; w[t] = w[t + h]; }
            __syncthreads();
        }
        if (t == 0) { v[k] = m[0]; id[k] = w[0]; s[w[0]] = -INFINITY; } //!
        ⟦__syncthreads();|||⟧
    }
}
## missing barrier: pivot swap | grid=1 block=16 | r(16*17), z(16), 16
__global__ void gauss(const float* A, float* out, int n) {
    __shared__ float a[16][17];
    __shared__ int piv;
    int t = threadIdx.x;
    for (int j = 0; j <= n; ++j) a[t][j] = A[t * (n + 1) + j];
    __syncthreads();
    for (int k = 0; k < n; ++k) {
        if (t == 0) {
            piv = k;
            for (int i = k + 1; i < n; ++i) if (fabsf(a[i][k]) > fabsf(a[piv][k])) piv = i; //!
        }
        __syncthreads();
        int p = piv;
        if (p != k) for (int j = t; j <= n; j += n) { float u = a[k][j]; a[k][j] = a[p][j]; a[p][j] = u; } //!
        ⟦__syncthreads();|||⟧
        if (t > k) {
            float f = a[t][k] / a[k][k]; //!
            for (int j = k; j <= n; ++j) a[t][j] -= f * a[k][j]; //!
        }
        __syncthreads();
    }
    out[t] = a[t][n];
}
## missing barrier: fft stockham single buffer | grid=1 block=16 | r(64), z(64)
__global__ void fft(const float2* x, float2* y) {
    __shared__ float2 s[32];
    int t = threadIdx.x;
    s[t] = x[t]; s[t + 16] = x[t + 16]; //!
    __syncthreads();
    for (int p = 1; p < 32; p *= 2) {
        int k = t & (p - 1);
        float2 u = s[t], v = s[t + 16]; //!
        float c = cospif((float)k / p), d = -sinpif((float)k / p);
        float2 w = make_float2(v.x * c - v.y * d, v.x * d + v.y * c);
        ⟦__syncthreads();|||⟧
        int j = ((t - k) << 1) + k;
        s[j] = make_float2(u.x + w.x, u.y + w.y); //!
        s[j + p] = make_float2(u.x - w.x, u.y - w.y); //!
        __syncthreads();
    }
    y[t] = s[t]; y[t + 16] = s[t + 16];
}
## missing barrier: bit reversal | grid=1 block=32 | r(32), z(32)
__global__ void fwht_bitrev(const float* x, float* y) {
    __shared__ float s[32];
    int t = threadIdx.x, rev = __brev(t) >> 27;
    s[t] = x[t];
    __syncthreads();
    if (t < rev) { float a = s[t]; s[t] = s[rev]; s[rev] = a; } //!
    ⟦__syncthreads();|||⟧
    for (int h = 1; h < 32; h *= 2) {
        float a = s[t], b = s[t ^ h]; //!
        __syncthreads();
        s[t] = t & h ? b - a : a + b;
        __syncthreads();
    }
    y[t] = s[t];
}
## missing barrier: parallel cyclic reduction | grid=1 block=32 | r(32) + 4, r(32), r(32), r(32), z(32)
__global__ void pcr(const float* diag, const float* lo, const float* up, const float* rhs, float* out) {
    __shared__ float a[32], b[32], c[32], d[32];
    int t = threadIdx.x;
    b[t] = diag[t]; a[t] = t ? lo[t] : 0; c[t] = t < 31 ? up[t] : 0; d[t] = rhs[t];
    __syncthreads();
    for (int s = 1; s < 32; s *= 2) {
        int l = t - s, r = t + s;
        float ka = l >= 0 ? -a[t] / b[l] : 0, kc = r < 32 ? -c[t] / b[r] : 0; //!
        float nb = b[t], nd = d[t], na = 0, nc = 0;
        if (l >= 0) { nb += ka * c[l]; nd += ka * d[l]; na = ka * a[l]; } //!
        if (r < 32) { nb += kc * a[r]; nd += kc * d[r]; nc = kc * c[r]; } //!
        ⟦__syncthreads();|||⟧
        a[t] = na; b[t] = nb; c[t] = nc; d[t] = nd; //!
        __syncthreads();
    }
    out[t] = d[t] / b[t];
}
## missing barrier: warp sums rescanned | grid=2 block=128 | i(256, 10), z(256, "int32")
__global__ void block_scan(const int* x, int* y) {
    __shared__ int sums[4];
    int i = blockIdx.x * 128 + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5, v = x[i];
    for (int o = 1; o < 32; o <<= 1) { int u = __shfl_up_sync(~0u, v, o); if (lane >= o) v += u; }
    if (lane == 31) sums[warp] = v;
    __syncthreads();
    if (threadIdx.x == 0) for (int w = 1; w < 4; ++w) sums[w] += sums[w - 1]; //!
    ⟦__syncthreads();|||⟧
    y[i] = v + (warp ? sums[warp - 1] : 0); //!
}
## missing barrier: shared queue reset | grid=2 block=64 | i(128, 10), z(128, "int32"), z(2, "int32")
__global__ void filter(const int* x, int* kept, int* counts) {
    __shared__ int q[64];
    __shared__ int tail;
    int t = threadIdx.x;
    if (t == 0) tail = 0; //!
    ⟦__syncthreads();|||⟧
    int v = x[blockIdx.x * 64 + t];
    if (v > 5) q[atomicAdd(&tail, 1)] = v; //!
    __syncthreads();
    for (int j = t; j < tail; j += 64) kept[blockIdx.x * 64 + j] = q[j];
    if (t == 0) counts[blockIdx.x] = tail;
}
## missing barrier: convergence by warp vote | grid=1 block=64 | r(66), z(66), 66
__global__ void relax(const float* in, float* out, int n) {
    __shared__ float s[66];
    int t = threadIdx.x + 1;
    s[t] = in[t];
    if (t == 1) { s[0] = in[0]; s[65] = in[65]; }
    __syncthreads();
    for (int it = 0; it < 50; ++it) {
        float v = 0.5f * (s[t - 1] + s[t + 1]); //!
        int more = fabsf(v - s[t]) > 1e-2f;
        ⟦if (!__syncthreads_or(more)) break;|||if (!__any_sync(0xffffffff, more)) break;⟧
        s[t] = v; //!
        ⟦__syncthreads();|||__syncwarp();⟧
    }
    out[t] = s[t];
}
## missing barrier: gemv chunk reuse | grid=2 block=32 | r(64*70), r(70), z(64), 64, 70
__global__ void gemv(const float* A, const float* x, float* y, int m, int n) {
    __shared__ float xs[32];
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float acc = 0;
    for (int c = 0; c < n; c += 32) {
        ⟦__syncthreads();|||⟧
        xs[threadIdx.x] = c + threadIdx.x < n ? x[c + threadIdx.x] : 0.f; //!
        __syncthreads();
        int lim = min(32, n - c);
        for (int k = 0; k < lim; ++k) acc += A[row * n + c + k] * xs[k]; //!
    }
    y[row] = acc;
}
## missing barrier: compaction base | grid=2 block=64 | i(128, 10), z(128, "int32"), z(1, "int32")
__global__ void compact(const int* x, int* out, int* count) {
    __shared__ int n, base;
    if (threadIdx.x == 0) n = 0;
    __syncthreads();
    int v = x[blockIdx.x * 64 + threadIdx.x], mine = -1;
    if (v & 1) mine = atomicAdd(&n, 1);
    __syncthreads();
    if (threadIdx.x == 0) base = atomicAdd(count, n); //!
    ⟦__syncthreads();|||⟧
    if (mine >= 0) out[base + mine] = v; //!
}
## missing barrier: attention row max | grid=2 block=64 | r(2*16), r(64*16), z(128), 16
__global__ void scores(const float* q, const float* k, float* p, int d) {
    __shared__ float s[64];
    __shared__ float mx, sm;
    int t = threadIdx.x;
    float dot = 0;
    for (int i = 0; i < d; ++i) dot += q[blockIdx.x * d + i] * k[t * d + i];
    s[t] = dot;
    __syncthreads();
    if (t < 32) {
        float m = fmaxf(s[t], s[t + 32]); //!
        for (int o = 16; o; o >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, o));
        float e = __expf(s[t] - m) + __expf(s[t + 32] - m); //!
        for (int o = 16; o; o >>= 1) e += __shfl_xor_sync(~0u, e, o);
        if (t == 0) { mx = m; sm = e; } //!
    }
    ⟦__syncthreads();|||__syncwarp();⟧
    p[blockIdx.x * 64 + t] = __expf(s[t] - mx) / sm; //!
}
## missing barrier: run heads | grid=1 block=64 | ck.sort(i(64, 12)), z(12, "int32")
__global__ void run_length(const int* keys, int* length) {
    __shared__ int s[64], start[64];
    int t = threadIdx.x;
    s[t] = keys[t]; //!
    ⟦__syncthreads();|||⟧
    int head = t == 0 || s[t] != s[t - 1]; //!
    start[t] = head;
    __syncthreads();
    if (head) {
        int e = t + 1;
        while (e < 64 && !start[e]) ++e;
        length[s[t]] = e - t; //!
    }
}
## missing barrier: kmeans finalize | grid=1 block=64 | r(64), i(64, 4), z(4)
__global__ void centroids(const float* x, const int* label, float* c) {
    __shared__ float sum[4];
    __shared__ int cnt[4];
    int t = threadIdx.x;
    if (t < 4) { sum[t] = 0; cnt[t] = 0; }
    __syncthreads();
    atomicAdd(&sum[label[t]], x[t]); //!
    atomicAdd(&cnt[label[t]], 1); //!
    ⟦__syncthreads();|||⟧
    if (t < 4) c[t] = cnt[t] ? sum[t] / cnt[t] : 0.f; //!
}
## missing barrier: aos staging by warp | grid=1 block=64 | r(64*3), z(64), z(64), z(64)
__global__ void aos_to_soa(const float* in, float* x, float* y, float* z) {
    __shared__ float s[2][96];
    int w = threadIdx.x / 32, l = threadIdx.x % 32;
    for (int k = 0; k < 3; ++k) s[w][k * 32 + l] = in[w * 96 + k * 32 + l]; //!
    ⟦__syncwarp();|||⟧
    x[threadIdx.x] = s[w][3 * l]; //!
    y[threadIdx.x] = s[w][3 * l + 1]; //!
    z[threadIdx.x] = s[w][3 * l + 2]; //!
}
## missing volatile and syncwarp: warp scan in shared | grid=1 block=64 | r(64), z(64)
__global__ void scan_warps(const float* x, float* y) {
    __shared__ float buf[2][48];
    int lane = threadIdx.x & 31;
    float* s = buf[threadIdx.x >> 5] + 16;
    if (lane < 16) s[lane - 16] = 0.f;
    __syncwarp();
    s[lane] = x[threadIdx.x];
    __syncwarp();
    float v = s[lane];
    for (int o = 1; o < 32; o *= 2) {
        v += s[lane - o]; //!
        ⟦__syncwarp();|||⟧
        s[lane] = v; //!
        ⟦__syncwarp();|||⟧
    }
    y[threadIdx.x] = v;
}
## missing barrier: layernorm backward columns | grid=2 block=(32, 8) | r(40*64), r(40*64), z(64), z(64), 40, 64
__global__ void ln_backward_gamma_beta(const float* dy, const float* xhat, float* dgamma, float* dbeta, int rows, int cols) {
    __shared__ float red[8][33];
    int c = blockIdx.x * 32 + threadIdx.x;
    float g = 0, b = 0;
    for (int r = threadIdx.y; r < rows; r += 8) { g += dy[r * cols + c] * xhat[r * cols + c]; b += dy[r * cols + c]; }
    red[threadIdx.y][threadIdx.x] = g;
    __syncthreads();
    if (threadIdx.y == 0) { float s = 0; for (int k = 0; k < 8; ++k) s += red[k][threadIdx.x]; dgamma[c] = s; } //!
    ⟦__syncthreads();|||⟧
    red[threadIdx.y][threadIdx.x] = b; //!
    __syncthreads();
    if (threadIdx.y == 0) { float s = 0; for (int k = 0; k < 8; ++k) s += red[k][threadIdx.x]; dbeta[c] = s; }
}
## missing barrier: z march plane | grid=1 block=(8, 8) | r(64*5), z(64*5), 5
__global__ void stencil7(const float* in, float* out, int nz) {
    __shared__ float p[8][8];
    int x = threadIdx.x, y = threadIdx.y, i = y * 8 + x;
    for (int z = 0; z < nz; ++z) {
        p[y][x] = in[z * 64 + i]; //!
        __syncthreads();
        float c = p[y][x];
        float l = x ? p[y][x - 1] : c, r = x < 7 ? p[y][x + 1] : c; //!
        float u = y ? p[y - 1][x] : c, d = y < 7 ? p[y + 1][x] : c; //!
        float f = z ? in[(z - 1) * 64 + i] : c, b = z + 1 < nz ? in[(z + 1) * 64 + i] : c;
        out[z * 64 + i] = l + r + u + d + f + b - 6 * c;
        ⟦__syncthreads();|||⟧
    }
}
## missing barrier: lookup table strided | grid=2 block=64 | k(128, 256).astype("uint8"), r(256), z(128)
__global__ void gamma_lut(const unsigned char* px, const float* table, float* out) {
    __shared__ float lut[256];
    for (int k = threadIdx.x; k < 256; k += blockDim.x) lut[k] = table[k]; //!
    ⟦__syncthreads();|||⟧
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = lut[px[i]]; //!
}
## missing barrier: label propagation | grid=1 block=64 | i(64, 64), z(64, "int32")
__global__ void components(const int* link, int* label) {
    __shared__ int lab[64];
    __shared__ int changed;
    int t = threadIdx.x, to = link[t];
    lab[t] = t;
    do {
        __syncthreads();
        if (t == 0) changed = 0; //!
        ⟦__syncthreads();|||⟧
        int m = min(atomicAdd(&lab[t], 0), atomicAdd(&lab[to], 0));
        if (atomicMin(&lab[t], m) > m) atomicExch(&changed, 1); //!
        if (atomicMin(&lab[to], m) > m) atomicExch(&changed, 1); //!
        __syncthreads();
    } while (changed); //!
    label[t] = lab[t];
}
## missing barrier: loop flag reread | grid=1 block=64 | i(64, 64), z(64, "int32")
__global__ void pointer_jump(const int* parent, int* root) {
    __shared__ int p[64];
    __shared__ int moved;
    int t = threadIdx.x;
    p[t] = min(parent[t], t);
    if (t == 0) moved = 1;
    __syncthreads();
    while (moved) { //!
        ⟦__syncthreads();|||⟧
        if (t == 0) moved = 0; //!
        int q = p[p[t]];
        __syncthreads();
        if (q != p[t]) { p[t] = q; atomicExch(&moved, 1); }
        __syncthreads();
    }
    root[t] = p[t];
}
## missing barrier: double buffered tile one barrier too few | grid=1 block=64 | r(64*5), z(64), 5
__global__ void reverse_accumulate(const float* x, float* y, int tiles) {
    __shared__ float buf[2][64];
    int t = threadIdx.x;
    float acc = 0;
    buf[0][t] = x[t];
    for (int k = 0; k < tiles; ++k) {
        ⟦__syncthreads();|||if (k % 2 == 0) __syncthreads();⟧
        if (k + 1 < tiles) buf[(k + 1) & 1][t] = x[(k + 1) * 64 + t]; //!
        acc += buf[k & 1][63 - t]; //!
    }
    y[t] = acc;
}
## missing barrier: segmented scan ping pong not flipped | grid=1 block=64 | r(64), i(64, 4), z(64)
__global__ void segscan(const float* x, const int* f, float* y) {
    __shared__ float v[2][64];
    __shared__ int h[2][64];
    int t = threadIdx.x, cur = 0;
    v[0][t] = x[t]; h[0][t] = f[t] == 0;
    __syncthreads();
    for (int o = 1; o < 64; o <<= 1) {
        float a = v[cur][t]; int g = h[cur][t];
        if (t >= o) { if (!g) a += v[cur][t - o]; g |= h[cur][t - o]; } //!
        ⟦cur ^= 1;|||⟧
        v[cur][t] = a; h[cur][t] = g; //!
        __syncthreads();
    }
    y[t] = v[cur][t];
}
## missing barrier: pooled argmin then use | grid=2 block=32 | r(64), z(64)
__global__ void center(const float* x, float* y) {
    __shared__ float lo;
    float v = x[blockIdx.x * 32 + threadIdx.x], m = v;
    for (int o = 16; o; o >>= 1) m = fminf(m, __shfl_down_sync(~0u, m, o));
    if (threadIdx.x == 0) lo = m; //!
    ⟦__syncwarp();|||⟧
    y[blockIdx.x * 32 + threadIdx.x] = v - lo; //!
}
## missing barrier: warp private bins merge | grid=2 block=64 | i(256, 16), z(16, "int32"), 256
__global__ void hist_warps(const int* x, int* out, int n) {
    __shared__ int h[2][16];
    int w = threadIdx.x >> 5, l = threadIdx.x & 31;
    if (l < 16) h[w][l] = 0;
    __syncwarp();
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += gridDim.x * 64) atomicAdd(&h[w][x[i]], 1); //!
    ⟦__syncthreads();|||__syncwarp();⟧
    if (threadIdx.x < 16) atomicAdd(&out[threadIdx.x], h[0][threadIdx.x] + h[1][threadIdx.x]); //!
}
## missing barrier: dynamic partition pivot | grid=1 block=32 | r(32), z(32)
__global__ void partition_by_mean(const float* x, float* y) {
    __shared__ float s[32];
    __shared__ int lo, hi;
    int t = threadIdx.x;
    s[t] = x[t];
    if (t == 0) { lo = 0; hi = 32; } //!
    __syncthreads();
    float m = 0;
    for (int i = 0; i < 32; ++i) m += s[i];
    m /= 32;
    int at = s[t] < m ? atomicAdd(&lo, 1) : atomicSub(&hi, 1) - 1;
    float v = s[t];
    ⟦__syncthreads();|||⟧
    s[at] = v; //!
    __syncthreads();
    y[t] = s[t] + (lo == hi ? 0.f : 1.f);
}
## missing barrier: named barrier of one warp pair | grid=1 block=128 | r(128), z(128)
__global__ void pairs(const float* x, float* y) {
    __shared__ float s[128];
    int t = threadIdx.x, g = t / 64;
    s[t] = x[t]; //!
    ⟦asm volatile("bar.sync %0, 64;" :: "r"(g + 1) : "memory");|||asm volatile("bar.sync %0, 32;" :: "r"(t / 32 + 1) : "memory");⟧
    y[t] = s[g * 64 + 63 - t % 64]; //!
}
## wrong barrier: named arrive instead of sync | grid=1 block=64 | r(32*4), z(32*4), 4
__global__ void stages(const float* x, float* y, int n) {
    __shared__ float s[32];
    int l = threadIdx.x & 31;
    if (threadIdx.x < 32) {
        for (int k = 0; k < n; ++k) {
            s[l] = 2 * x[k * 32 + l]; //!
            asm volatile("bar.arrive 1, 64;" ::: "memory"); //!
            ⟦asm volatile("bar.sync 2, 64;" ::: "memory");|||asm volatile("bar.arrive 2, 64;" ::: "memory"); //!⟧
        }
    } else {
        for (int k = 0; k < n; ++k) {
            asm volatile("bar.sync 1, 64;" ::: "memory"); //!
            y[k * 32 + l] = s[31 - l]; //!
            asm volatile("⟦bar.arrive|||bar.sync⟧ 2, 64;" ::: "memory"); //!
        }
    }
}
## missing barrier: matrix power in shared | grid=1 block=(8, 8) | r(64) / 4, z(64), 3
__global__ void matpow(const float* A, float* out, int times) {
    __shared__ float m[8][8];
    int i = threadIdx.y, j = threadIdx.x;
    m[i][j] = A[i * 8 + j];
    __syncthreads();
    for (int k = 0; k < times; ++k) {
        float s = 0;
        for (int q = 0; q < 8; ++q) s += m[i][q] * m[q][j]; //!
        ⟦__syncthreads();|||⟧
        m[i][j] = s; //!
        __syncthreads();
    }
    out[i * 8 + j] = m[i][j];
}
## divergent barrier: short circuit | grid=1 block=64 | i(64, 10), z(64, "int32"), 50
__global__ void any_large(const int* x, int* y, int n) {
    int t = threadIdx.x;
    int found = 0;
    ⟦int big = t < n && x[t] > 8; found = __syncthreads_or(big);|||if (t < n && __syncthreads_or(x[t] > 8)) found = 1; //!⟧
    ⟦|||__syncthreads(); //!⟧
    y[t] = found != 0;
}
## missing barrier: roles with different counts | grid=1 block=64 | r(32*4), z(32), 4
#define MEET() asm volatile("bar.sync 1, 64;" ::: "memory")
__global__ void roles(const float* x, float* y, int n) {
    __shared__ float s[32];
    int l = threadIdx.x & 31;
    float acc = 0;
    if (threadIdx.x < 32) {
        for (int k = 0; k < n; ++k) {
            s[l] = x[k * 32 + l]; //!
            MEET(); //!
            ⟦MEET();|||⟧
        }
    } else {
        for (int k = 0; k < n; ++k) {
            MEET(); //!
            acc += s[31 - l]; //!
            MEET(); //!
        }
        y[l] = acc;
    }
}
## divergent barrier: per thread trip count | grid=1 block=32 | i(32, 5) + 1, r(32), z(32)
__global__ void chase(const int* steps, const float* x, float* y) {
    __shared__ float s[32];
    int t = threadIdx.x, n = steps[t];
    ⟦int most = n; for (int o = 16; o; o >>= 1) most = max(most, __shfl_xor_sync(~0u, most, o));|||int most = n;⟧
    s[t] = x[t];
    __syncthreads(); //!
    for (int k = 0; k < most; ++k) {
        float v = s[(t + 1) & 31];
        __syncthreads(); //!
        if (k < n) s[t] = v + 1;
        __syncthreads(); //!
    }
    ⟦__syncthreads();|||__syncthreads(); //!⟧
    y[t] = s[t];
}
## divergent barrier: in a helper | grid=1 block=64 | r(64), z(64), 40
__device__ float block_sum(float v, float* s) {
    int t = threadIdx.x;
    s[t] = v;
    __syncthreads(); //!
    for (int h = 32; h; h >>= 1) { if (t < h) s[t] += s[t + h]; __syncthreads(); } //!
    float r = s[0];
    __syncthreads(); //!
    return r;
}
__global__ void normalise(const float* x, float* y, int n) {
    __shared__ float s[64];
    int t = threadIdx.x;
    float total = 0;
    ⟦total = block_sum(t < n ? x[t] : 0.f, s);|||if (t < n) total = block_sum(x[t], s); //!⟧
    __syncthreads(); //!
    y[t] = t < n ? x[t] / total : 0.f;
}
## divergent warp function: shfl in ternary | grid=1 block=32 | r(32), z(32)
__global__ void diff(const float* x, float* y) {
    int lane = threadIdx.x;
    float v = x[lane];
    ⟦float u = __shfl_up_sync(0xffffffffu, v, 1);
    y[lane] = v - (lane ? u : 0.f);|||y[lane] = v - (lane ? __shfl_up_sync(0xffffffffu, v, 1) : 0.f); //!
    __syncwarp(); //!⟧
}
## divergent warp function: all in and | grid=1 block=32 | i(32, 10), z(1, "int32"), 10
__global__ void check(const int* x, int* ok, int limit) {
    int v = x[threadIdx.x];
    ⟦int in = __all_sync(~0u, v < limit);
    if (v >= 0 && v != 3 && in) atomicAdd(ok, 1);|||if (v >= 0 && v != 3 && __all_sync(~0u, v < limit)) atomicAdd(ok, 1); //!
    __syncwarp(); //!⟧
}
## divergent warp function: ballot per lane loop | grid=1 block=32 | i(32, 6), z(32, "int32")
__global__ void rounds(const int* count, int* alive) {
    int n = count[threadIdx.x], sum = 0;
    for (int k = 0; k < ⟦6|||n⟧; ++k) sum += __popc(__ballot_sync(0xffffffff, k < n)); //!
    __syncwarp(); //!
    alive[threadIdx.x] = sum;
}
## divergent warp function: reduce in branch | grid=1 block=32 | i(32, 10), z(2, "int32")
__global__ void odd_sum(const int* x, int* out) {
    int v = x[threadIdx.x];
    unsigned odd = __ballot_sync(0xffffffffu, v & 1);
    if (v & 1) {
        int s = __reduce_add_sync(⟦odd|||0xffffffffu⟧, v); //!
        if (threadIdx.x == __ffs(odd) - 1) out[1] = s;
    }
    int all = __reduce_add_sync(0xffffffffu, v); //!
    if (threadIdx.x == 0) out[0] = all;
}
## divergent warp function: match after continue | grid=1 block=32 | i(128, 8), z(8, "int32")
__global__ void vote_bins(const int* x, int* h) {
    int lane = threadIdx.x;
    for (int i = lane; i < 128; i += 32) {
        int v = x[i];
        ⟦unsigned peers = __match_any_sync(~0u, v);
        if (v == 0) continue;|||if (v == 0) continue;
        unsigned peers = __match_any_sync(~0u, v); //!⟧
        if (lane == __ffs(peers) - 1) atomicAdd(&h[v], __popc(peers));
    }
    __syncwarp(); //!
}
## divergent warp function: tile shfl by some ranks | grid=1 block=32 | r(32), z(32)
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
__global__ void leaders(const float* x, float* y) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    float v = x[threadIdx.x], b = 0;
    ⟦b = tile.shfl(v, 0);|||if (tile.thread_rank() < 3) b = tile.shfl(v, 0); //!⟧
    tile.sync(); //!
    y[threadIdx.x] = tile.thread_rank() < 3 ? b : v;
}
## divergent warp function: syncwarp in half | grid=1 block=32 | r(32), z(32)
__global__ void halves(const float* x, float* y) {
    __shared__ float s[32];
    int l = threadIdx.x;
    s[l] = x[l]; //!
    ⟦__syncwarp();|||⟧
    if (l < 16) {
        ⟦|||__syncwarp(); //!⟧
        y[l] = s[l + 16]; //!
    } else
        y[l] = s[l];
    float v = __shfl_sync(0xffffffff, s[l], 0); //!
    y[l] += v;
}
