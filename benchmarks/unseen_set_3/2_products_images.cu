## missing barrier: sgemm 1d block tiling, next tile over the one in use | grid=(2, 2) block=128 | r(64*64), r(64*64), z(64*64), 64, 64, 64
#define BM 32
#define BN 32
#define BK 4
#define TM 8
__global__ void sgemm1d(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[BM * BK], Bs[BK * BN];
    const int cRow = blockIdx.y, cCol = blockIdx.x;
    const int threadCol = threadIdx.x % BN, threadRow = threadIdx.x / BN;
    A += cRow * BM * K;
    B += cCol * BN;
    C += cRow * BM * N + cCol * BN;
    const int innerColA = threadIdx.x % BK, innerRowA = threadIdx.x / BK;
    const int innerColB = threadIdx.x % BN, innerRowB = threadIdx.x / BN;
    float threadResults[TM] = {0.0f};
    for (int bkIdx = 0; bkIdx < K; bkIdx += BK) {
        As[innerRowA * BK + innerColA] = A[innerRowA * K + innerColA]; //!
        Bs[innerRowB * BN + innerColB] = B[innerRowB * N + innerColB]; //!
        __syncthreads();
        A += BK;
        B += BK * N;
        for (int dotIdx = 0; dotIdx < BK; ++dotIdx) {
            float tmpB = Bs[dotIdx * BN + threadCol]; //!
            for (int resIdx = 0; resIdx < TM; ++resIdx)
                threadResults[resIdx] += As[(threadRow * TM + resIdx) * BK + dotIdx] * tmpB; //!
        }
        ⟦__syncthreads();|||⟧
    }
    for (int resIdx = 0; resIdx < TM; ++resIdx) C[(threadRow * TM + resIdx) * N + threadCol] = threadResults[resIdx];
}
## race: sgemm 1d block tiling, tile of B stored by the stride of A | grid=(2, 2) block=128 | r(64*64), r(64*64), z(64*64), 64, 64, 64
#define BM 32
#define BN 32
#define BK 4
#define TM 8
__global__ void sgemm1d(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[BM * BK], Bs[BK * BN];
    const int cRow = blockIdx.y, cCol = blockIdx.x;
    const int threadCol = threadIdx.x % BN, threadRow = threadIdx.x / BN;
    A += cRow * BM * K;
    B += cCol * BN;
    C += cRow * BM * N + cCol * BN;
    const int innerColA = threadIdx.x % BK, innerRowA = threadIdx.x / BK;
    const int innerColB = threadIdx.x % BN, innerRowB = threadIdx.x / BN;
    float threadResults[TM] = {0.0f};
    for (int bkIdx = 0; bkIdx < K; bkIdx += BK) {
        As[innerRowA * BK + innerColA] = A[innerRowA * K + innerColA];
        Bs[innerRowB * ⟦BN|||BK⟧ + innerColB] = B[innerRowB * N + innerColB]; //!
        __syncthreads();
        A += BK;
        B += BK * N;
        for (int dotIdx = 0; dotIdx < BK; ++dotIdx) {
            float tmpB = Bs[dotIdx * BN + threadCol]; //!
            for (int resIdx = 0; resIdx < TM; ++resIdx)
                threadResults[resIdx] += As[(threadRow * TM + resIdx) * BK + dotIdx] * tmpB;
        }
        __syncthreads();
    }
    for (int resIdx = 0; resIdx < TM; ++resIdx) C[(threadRow * TM + resIdx) * N + threadCol] = threadResults[resIdx];
}
## buffer: sgemm double buffer, loads go where the product reads | grid=(2, 2) block=(16, 16) | r(32*64), r(64*32), z(32*32), 32, 32, 64
__global__ void sgemm_dbuf(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float s_a[2][16][16], s_b[2][16][17];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float acc = 0.f;
    s_a[0][ty][tx] = A[row * K + tx];
    s_b[0][ty][tx] = B[ty * N + col];
    __syncthreads();
    for (int bk = 1; bk < K / 16; bk++) {
        int smem_sel = (bk - 1) & 1;
        int smem_sel_next = ⟦bk & 1|||(bk - 1) & 1⟧;
        s_a[smem_sel_next][ty][tx] = A[row * K + bk * 16 + tx]; //!
        s_b[smem_sel_next][ty][tx] = B[(bk * 16 + ty) * N + col]; //!
        for (int k = 0; k < 16; k++) acc += s_a[smem_sel][ty][k] * s_b[smem_sel][k][tx]; //!
        __syncthreads();
    }
    int last = (K / 16 - 1) & 1;
    for (int k = 0; k < 16; k++) acc += s_a[last][ty][k] * s_b[last][k][tx]; //!
    C[row * N + col] = acc;
}
## missing barrier: sgemm double buffer, buffers change without one | grid=(2, 2) block=(16, 16) | r(32*64), r(64*32), z(32*32), 32, 32, 64
__global__ void sgemm_dbuf(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float s_a[2][16][16], s_b[2][16][17];
    int tx = threadIdx.x, ty = threadIdx.y;
    int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float acc = 0.f;
    s_a[0][ty][tx] = A[row * K + tx];
    s_b[0][ty][tx] = B[ty * N + col];
    __syncthreads();
    for (int bk = 1; bk < K / 16; bk++) {
        int smem_sel = (bk - 1) & 1;
        int smem_sel_next = bk & 1;
        s_a[smem_sel_next][ty][tx] = A[row * K + bk * 16 + tx]; //!
        s_b[smem_sel_next][ty][tx] = B[(bk * 16 + ty) * N + col]; //!
        for (int k = 0; k < 16; k++) acc += s_a[smem_sel][ty][k] * s_b[smem_sel][k][tx]; //!
        ⟦__syncthreads();|||⟧
    }
    int last = (K / 16 - 1) & 1;
    for (int k = 0; k < 16; k++) acc += s_a[last][ty][k] * s_b[last][k][tx]; //!
    C[row * N + col] = acc;
}
## async copy: pipelined tiles by async copies, last stage not waited for | grid=2 block=64 | r(2*5*64), z(128), 5
#include <cuda_pipeline.h>
__global__ void pipelined(const float* x, float* y, int tiles) {
    __shared__ float stage[2][64];
    int t = threadIdx.x;
    const float* mine = x + blockIdx.x * tiles * 64;
    float acc = 0.f;
    __pipeline_memcpy_async(&stage[0][t], &mine[t], 4);
    __pipeline_commit();
    for (int k = 0; k < tiles; ++k) {
        if (k + 1 < tiles) __pipeline_memcpy_async(&stage[(k + 1) & 1][t], &mine[(k + 1) * 64 + t], 4); //!
        ⟦__pipeline_commit();|||if (k + 1 < tiles) __pipeline_commit();⟧
        __pipeline_wait_prior(1);
        __syncthreads();
        acc += stage[k & 1][63 - t] * (k + 1); //!
        __syncthreads();
    }
    y[blockIdx.x * 64 + t] = acc;
}
## missing barrier: pipelined tiles by async copies, copies of the other threads | grid=2 block=64 | r(2*5*64), z(128), 5
#include <cuda_pipeline.h>
__global__ void pipelined(const float* x, float* y, int tiles) {
    __shared__ float stage[2][64];
    int t = threadIdx.x;
    const float* mine = x + blockIdx.x * tiles * 64;
    float acc = 0.f;
    __pipeline_memcpy_async(&stage[0][t], &mine[t], 4);
    __pipeline_commit();
    for (int k = 0; k < tiles; ++k) {
        if (k + 1 < tiles) __pipeline_memcpy_async(&stage[(k + 1) & 1][t], &mine[(k + 1) * 64 + t], 4); //!
        __pipeline_commit();
        __pipeline_wait_prior(1);
        ⟦__syncthreads();|||⟧
        acc += stage[k & 1][63 - t] * (k + 1); //!
        __syncthreads();
    }
    y[blockIdx.x * 64 + t] = acc;
}
## missing barrier: csr product by warps, lanes in step without syncwarp | grid=2 block=128 | a(8)*5, i(35, 30), r(35), r(30), z(7), 7
__global__ void spmv_csr_vector(const int* rowptr, const int* col, const float* val, const float* x, float* y, int rows) {
    __shared__ float partial[128];
    int lane = threadIdx.x & 31, t = threadIdx.x;
    int row = (blockIdx.x * blockDim.x + t) / 32;
    if (row >= rows) return;
    int start = rowptr[row], end = rowptr[row + 1];
    float sum = 0.f;
    for (int j = start + lane; j < end; j += 32) sum += val[j] * x[col[j]];
    partial[t] = sum; //!
    __syncwarp();
    for (int o = 16; o > 0; o /= 2) {
        if (lane < o) partial[t] += partial[t + o]; //!
        ⟦__syncwarp();|||⟧
    }
    if (lane == 0) y[row] = partial[t];
}
## bounds: csr product by warps, warp beyond the rows | grid=2 block=128 | a(8)*5, i(35, 30), r(35), r(30), z(7), 7
__global__ void spmv_csr_vector(const int* rowptr, const int* col, const float* val, const float* x, float* y, int rows) {
    __shared__ float partial[128];
    int lane = threadIdx.x & 31, t = threadIdx.x;
    int row = (blockIdx.x * blockDim.x + t) / 32;
    ⟦if (row >= rows) return;|||⟧
    int start = rowptr[row], end = rowptr[row + 1]; //!
    float sum = 0.f;
    for (int j = start + lane; j < end; j += 32) sum += val[j] * x[col[j]];
    partial[t] = sum;
    __syncwarp();
    for (int o = 16; o > 0; o /= 2) {
        if (lane < o) partial[t] += partial[t + o];
        __syncwarp();
    }
    if (lane == 0) y[row] = partial[t]; //!
}
## bounds: ell product, padding taken for a column | grid=1 block=64 | i(3*32, 34) - 4, r(3*32), r(30), z(27), 27, 32, 3
__global__ void spmv_ell(const int* col, const float* val, const float* x, float* y, int rows, int pitch, int width) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.f;
    for (int k = 0; k < width; ++k) {
        int at = k * pitch + row;
        int c = col[at];
        float v = val[at];
        ⟦if (c >= 0) |||⟧sum += v * x[c]; //!
    }
    y[row] = sum;
}
## bounds: ell product, padded rows written | grid=1 block=64 | i(3*32, 34) - 4, r(3*32), r(30), z(27), 27, 32, 3
__global__ void spmv_ell(const int* col, const float* val, const float* x, float* y, int rows, int pitch, int width) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= ⟦rows|||pitch⟧) return;
    float sum = 0.f;
    for (int k = 0; k < width; ++k) {
        int at = k * pitch + row;
        int c = col[at];
        float v = val[at];
        if (c >= 0) sum += v * x[c];
    }
    y[row] = sum; //!
}
## race: csr to csc, places in the columns | grid=1 block=32 | a(21)*4, i(80, 16), r(80), z(17, "int32"), z(80, "int32"), z(80), z(17, "int32"), 20, 16
__global__ void csr2csc(const int* rowptr, const int* col, const float* val, int* colptr, int* row, float* out, int* at,
                        int rows, int cols) {
    for (int e = threadIdx.x; e < rowptr[rows]; e += blockDim.x) atomicAdd(&colptr[col[e] + 1], 1);
    __syncthreads();
    if (threadIdx.x == 0)
        for (int c = 0; c < cols; ++c) {
            colptr[c + 1] += colptr[c];
            at[c + 1] = colptr[c + 1];
        }
    __syncthreads();
    for (int r = threadIdx.x; r < rows; r += blockDim.x)
        for (int e = rowptr[r]; e < rowptr[r + 1]; ++e) {
            int place = ⟦atomicAdd(&at[col[e]], 1)|||at[col[e]]++⟧; //!
            row[place] = r; //!
            out[place] = val[e]; //!
        }
}
## missing barrier: csr to csc, column starts still being added up | grid=1 block=32 | a(21)*4, i(80, 16), r(80), z(17, "int32"), z(80, "int32"), z(80), z(17, "int32"), 20, 16
__global__ void csr2csc(const int* rowptr, const int* col, const float* val, int* colptr, int* row, float* out, int* at,
                        int rows, int cols) {
    for (int e = threadIdx.x; e < rowptr[rows]; e += blockDim.x) atomicAdd(&colptr[col[e] + 1], 1);
    __syncthreads();
    if (threadIdx.x == 0)
        for (int c = 0; c < cols; ++c) {
            colptr[c + 1] += colptr[c];
            at[c + 1] = colptr[c + 1]; //!
        }
    ⟦__syncthreads();|||⟧
    for (int r = threadIdx.x; r < rows; r += blockDim.x)
        for (int e = rowptr[r]; e < rowptr[r + 1]; ++e) {
            int place = atomicAdd(&at[col[e]], 1); //!
            row[place] = r;
            out[place] = val[e];
        }
}
## unset: sobel tile, corners of the tile | grid=(2, 2) block=(16, 16) | r(30*30), z(900), 30, 30
__global__ void sobel(const float* in, float* out, int w, int h) {
    __shared__ float s[18][18];
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    auto at = [&](int px, int py) {
        px = min(max(px, 0), w - 1);
        py = min(max(py, 0), h - 1);
        return in[py * w + px];
    };
    s[ty][tx] = at(x, y);
    if (tx == 1) s[ty][0] = at(x - 1, y);
    if (tx == 16) s[ty][17] = at(x + 1, y);
    if (ty == 1) s[0][tx] = at(x, y - 1);
    if (ty == 16) s[17][tx] = at(x, y + 1);
    ⟦if ((tx == 1 || tx == 16) && (ty == 1 || ty == 16)) {
        int dx = tx == 1 ? -1 : 1, dy = ty == 1 ? -1 : 1;
        s[ty + dy][tx + dx] = at(x + dx, y + dy);
    }|||⟧
    __syncthreads();
    if (x >= w || y >= h) return;
    float gx = s[ty - 1][tx + 1] + 2 * s[ty][tx + 1] + s[ty + 1][tx + 1] - s[ty - 1][tx - 1] - 2 * s[ty][tx - 1] - s[ty + 1][tx - 1]; //!
    float gy = s[ty + 1][tx - 1] + 2 * s[ty + 1][tx] + s[ty + 1][tx + 1] - s[ty - 1][tx - 1] - 2 * s[ty - 1][tx] - s[ty - 1][tx + 1]; //!
    out[y * w + x] = sqrtf(gx * gx + gy * gy);
}
## bounds: sobel tile, clamped to one past the edge | grid=(2, 2) block=(16, 16) | r(30*30), z(900), 30, 30
__global__ void sobel(const float* in, float* out, int w, int h) {
    __shared__ float s[18][18];
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    auto at = [&](int px, int py) {
        px = min(max(px, 0), ⟦w - 1|||w⟧);
        py = min(max(py, 0), ⟦h - 1|||h⟧);
        return in[py * w + px]; //!
    };
    s[ty][tx] = at(x, y);
    if (tx == 1) s[ty][0] = at(x - 1, y);
    if (tx == 16) s[ty][17] = at(x + 1, y);
    if (ty == 1) s[0][tx] = at(x, y - 1);
    if (ty == 16) s[17][tx] = at(x, y + 1);
    if ((tx == 1 || tx == 16) && (ty == 1 || ty == 16)) {
        int dx = tx == 1 ? -1 : 1, dy = ty == 1 ? -1 : 1;
        s[ty + dy][tx + dx] = at(x + dx, y + dy);
    }
    __syncthreads();
    if (x >= w || y >= h) return;
    float gx = s[ty - 1][tx + 1] + 2 * s[ty][tx + 1] + s[ty + 1][tx + 1] - s[ty - 1][tx - 1] - 2 * s[ty][tx - 1] - s[ty + 1][tx - 1];
    float gy = s[ty + 1][tx - 1] + 2 * s[ty + 1][tx] + s[ty + 1][tx + 1] - s[ty - 1][tx - 1] - 2 * s[ty - 1][tx] - s[ty - 1][tx + 1];
    out[y * w + x] = sqrtf(gx * gx + gy * gy);
}
## unset: convolution of rows, right halo | grid=(1, 2) block=(16, 4) | z(512), r(512), r(9), 64, 8
#define RADIUS 4
#define BX 16
#define BY 4
#define STEPS 4
__global__ void convolution_rows(float* dst, const float* src, const float* kernel, int w, int pitch_rows) {
    __shared__ float s[BY][(STEPS + 2) * BX];
    const int x0 = (blockIdx.x * STEPS - 1) * BX + threadIdx.x;
    const int y = blockIdx.y * BY + threadIdx.y;
    if (y >= pitch_rows) return;
    src += y * w;
    dst += y * w;
    for (int i = 1; i < 1 + STEPS; i++) s[threadIdx.y][threadIdx.x + i * BX] = src[x0 + i * BX];
    s[threadIdx.y][threadIdx.x] = x0 >= 0 ? src[x0] : 0;
    for (int i = 1 + STEPS; i < ⟦2 + STEPS|||1 + STEPS⟧; i++)
        s[threadIdx.y][threadIdx.x + i * BX] = x0 + i * BX < w ? src[x0 + i * BX] : 0;
    __syncthreads();
    for (int i = 1; i < 1 + STEPS; i++) {
        float sum = 0;
        for (int j = -RADIUS; j <= RADIUS; j++)
            sum += kernel[RADIUS - j] * s[threadIdx.y][threadIdx.x + i * BX + j]; //!
        dst[x0 + i * BX] = sum;
    }
}
## missing barrier: convolution of rows, halo of the neighbours | grid=(1, 2) block=(16, 4) | z(512), r(512), r(9), 64, 8
#define RADIUS 4
#define BX 16
#define BY 4
#define STEPS 4
__global__ void convolution_rows(float* dst, const float* src, const float* kernel, int w, int pitch_rows) {
    __shared__ float s[BY][(STEPS + 2) * BX];
    const int x0 = (blockIdx.x * STEPS - 1) * BX + threadIdx.x;
    const int y = blockIdx.y * BY + threadIdx.y;
    if (y >= pitch_rows) return;
    src += y * w;
    dst += y * w;
    for (int i = 1; i < 1 + STEPS; i++) s[threadIdx.y][threadIdx.x + i * BX] = src[x0 + i * BX]; //!
    s[threadIdx.y][threadIdx.x] = x0 >= 0 ? src[x0] : 0; //!
    for (int i = 1 + STEPS; i < 2 + STEPS; i++)
        s[threadIdx.y][threadIdx.x + i * BX] = x0 + i * BX < w ? src[x0 + i * BX] : 0; //!
    ⟦__syncthreads();|||⟧
    for (int i = 1; i < 1 + STEPS; i++) {
        float sum = 0;
        for (int j = -RADIUS; j <= RADIUS; j++)
            sum += kernel[RADIUS - j] * s[threadIdx.y][threadIdx.x + i * BX + j]; //!
        dst[x0 + i * BX] = sum;
    }
}
## unset: median filter, sorts nine where the border gave fewer | grid=(2, 2) block=(8, 8) | r(14*14), z(196), 14, 14
__global__ void median3(const float* in, float* out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float window[9];
    int n = 0;
    for (int yy = y - 1; yy <= y + 1; ++yy)
        for (int xx = x - 1; xx <= x + 1; ++xx)
            if (xx >= 0 && xx < w && yy >= 0 && yy < h) window[n++] = in[yy * w + xx];
    ⟦|||n = 9;⟧
    for (int i = 1; i < n; ++i) {
        float v = window[i]; //!
        int j = i - 1;
        while (j >= 0 && window[j] > v) { window[j + 1] = window[j]; --j; } //!
        window[j + 1] = v; //!
    }
    out[y * w + x] = window[n / 2]; //!
}
## bounds: median filter, row below the last | grid=(2, 2) block=(8, 8) | r(14*14), z(196), 14, 14
__global__ void median3(const float* in, float* out, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float window[9];
    int n = 0;
    for (int yy = y - 1; yy <= y + 1; ++yy)
        for (int xx = x - 1; xx <= x + 1; ++xx)
            if (xx >= 0 && xx < w && yy >= 0 && yy ⟦<|||<=⟧ h) window[n++] = in[yy * w + xx]; //!

    for (int i = 1; i < n; ++i) {
        float v = window[i];
        int j = i - 1;
        while (j >= 0 && window[j] > v) { window[j + 1] = window[j]; --j; }
        window[j + 1] = v;
    }
    out[y * w + x] = window[n / 2];
}
## missing barrier: box sums by an integral image, columns summed while rows are | grid=1 block=32 | r(32*32), z(1024), z(1024), 32, 3
__global__ void box_filter(const float* in, float* sums, float* out, int n, int r) {
    int t = threadIdx.x;
    float run = 0.f;
    for (int x = 0; x < n; ++x) {
        run += in[t * n + x];
        sums[t * n + x] = run; //!
    }
    ⟦__syncthreads();|||⟧
    run = 0.f;
    for (int y = 0; y < n; ++y) {
        run += sums[y * n + t]; //!
        sums[y * n + t] = run; //!
    }
    __syncthreads();
    for (int y = 0; y < n; ++y) {
        int x1 = min(t + r, n - 1), y1 = min(y + r, n - 1), x0 = t - r - 1, y0 = y - r - 1;
        float v = sums[y1 * n + x1];
        if (x0 >= 0) v -= sums[y1 * n + x0];
        if (y0 >= 0) v -= sums[y0 * n + x1];
        if (x0 >= 0 && y0 >= 0) v += sums[y0 * n + x0];
        out[y * n + t] = v / ((2 * r + 1) * (2 * r + 1));
    }
}
## bounds: box sums by an integral image, window held against one past the image | grid=1 block=32 | r(32*32), z(1024), z(1024), 32, 3
__global__ void box_filter(const float* in, float* sums, float* out, int n, int r) {
    int t = threadIdx.x;
    float run = 0.f;
    for (int x = 0; x < n; ++x) {
        run += in[t * n + x];
        sums[t * n + x] = run;
    }
    __syncthreads();
    run = 0.f;
    for (int y = 0; y < n; ++y) {
        run += sums[y * n + t];
        sums[y * n + t] = run;
    }
    __syncthreads();
    for (int y = 0; y < n; ++y) {
        int x1 = min(t + r, ⟦n - 1|||n⟧), y1 = min(y + r, ⟦n - 1|||n⟧), x0 = t - r - 1, y0 = y - r - 1;
        float v = sums[y1 * n + x1]; //!
        if (x0 >= 0) v -= sums[y1 * n + x0]; //!
        if (y0 >= 0) v -= sums[y0 * n + x1]; //!
        if (x0 >= 0 && y0 >= 0) v += sums[y0 * n + x0];
        out[y * n + t] = v / ((2 * r + 1) * (2 * r + 1));
    }
}
## missing barrier: heat plane by plane, next plane over the one in use | grid=(2, 2) block=(8, 8) | r(5*16*16), z(1280), 16, 16, 5
__global__ void heat25d(const float* in, float* out, int nx, int ny, int nz) {
    __shared__ float s[10][10];
    int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1, plane = nx * ny;
    int at = y * nx + x;
    float below = in[at], here = in[at + plane];
    for (int z = 1; z < nz - 1; ++z) {
        at += plane;
        float above = in[at + plane];
        s[ty][tx] = here; //!
        if (tx == 1) s[ty][0] = x > 0 ? in[at - 1] : 0.f; //!
        if (tx == 8) s[ty][9] = x < nx - 1 ? in[at + 1] : 0.f; //!
        if (ty == 1) s[0][tx] = y > 0 ? in[at - nx] : 0.f; //!
        if (ty == 8) s[9][tx] = y < ny - 1 ? in[at + nx] : 0.f; //!
        __syncthreads();
        out[at] = here + 0.1f * (s[ty][tx - 1] + s[ty][tx + 1] + s[ty - 1][tx] + s[ty + 1][tx] + below + above - 6 * here); //!
        below = here;
        here = above;
        ⟦__syncthreads();|||⟧
    }
}
## bounds: heat plane by plane, plane above the last | grid=(2, 2) block=(8, 8) | r(5*16*16), z(1280), 16, 16, 5
__global__ void heat25d(const float* in, float* out, int nx, int ny, int nz) {
    __shared__ float s[10][10];
    int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1, plane = nx * ny;
    int at = y * nx + x;
    float below = in[at], here = in[at + plane];
    for (int z = 1; z < ⟦nz - 1|||nz⟧; ++z) {
        at += plane;
        float above = in[at + plane]; //!
        s[ty][tx] = here;
        if (tx == 1) s[ty][0] = x > 0 ? in[at - 1] : 0.f;
        if (tx == 8) s[ty][9] = x < nx - 1 ? in[at + 1] : 0.f;
        if (ty == 1) s[0][tx] = y > 0 ? in[at - nx] : 0.f;
        if (ty == 8) s[9][tx] = y < ny - 1 ? in[at + nx] : 0.f;
        __syncthreads();
        out[at] = here + 0.1f * (s[ty][tx - 1] + s[ty][tx + 1] + s[ty - 1][tx] + s[ty + 1][tx] + below + above - 6 * here);
        below = here;
        here = above;
        __syncthreads();
    }
}
## buffer: game of life, generation written where it is read | grid=1 block=(16, 16) | i(512, 2), 16, 6
__global__ void life(int* cells, int n, int steps) {
    int x = threadIdx.x, y = threadIdx.y;
    int left = (x + n - 1) % n, right = (x + 1) % n;
    int up = (y + n - 1) % n, down = (y + 1) % n;
    for (int step = 0; step < steps; ++step) {
        const int* now = cells + (step & 1) * n * n;
        int* next = cells + ⟦((step + 1) & 1)|||(step & 1)⟧ * n * n;
        int alive = now[y * n + left] + now[y * n + right] + now[down * n + x] + now[down * n + left] + now[down * n + right]; //!
        alive += now[up * n + x] + now[up * n + left] + now[up * n + right]; //!
        int self = now[y * n + x];
        next[y * n + x] = alive == 3 || (alive == 2 && self); //!
        __syncthreads();
    }
}
## bounds: game of life, row above the first | grid=1 block=(16, 16) | i(512, 2), 16, 6
__global__ void life(int* cells, int n, int steps) {
    int x = threadIdx.x, y = threadIdx.y;
    int left = (x + n - 1) % n, right = (x + 1) % n;
    int up = ⟦(y + n - 1)|||(y - 1)⟧ % n, down = (y + 1) % n;
    for (int step = 0; step < steps; ++step) {
        const int* now = cells + (step & 1) * n * n;
        int* next = cells + ((step + 1) & 1) * n * n;
        int alive = now[y * n + left] + now[y * n + right] + now[down * n + x] + now[down * n + left] + now[down * n + right];
        alive += now[up * n + x] + now[up * n + left] + now[up * n + right]; //!
        int self = now[y * n + x];
        next[y * n + x] = alive == 3 || (alive == 2 && self);
        __syncthreads();
    }
}
## buffer: fft stockham, stage written over its input | grid=2 block=32 | r(256), z(256), 64
__global__ void fft64(const float2* in, float2* out, int n) {
    __shared__ float2 s[2][64];
    int j = threadIdx.x, half = n / 2;
    s[0][j] = in[blockIdx.x * n + j];
    s[0][j + half] = in[blockIdx.x * n + j + half];
    __syncthreads();
    int cur = 0;
    for (int ns = 1; ns < n; ns *= 2) {
        int k = j % ns, to = ⟦1 - cur|||cur⟧;
        float2 a = s[cur][j], b = s[cur][j + half]; //!
        float sn, cs;
        sincospif(-(float)k / ns, &sn, &cs);
        float2 t = make_float2(b.x * cs - b.y * sn, b.x * sn + b.y * cs);
        int d = j / ns * ns * 2 + k;
        s[to][d] = make_float2(a.x + t.x, a.y + t.y); //!
        s[to][d + ns] = make_float2(a.x - t.x, a.y - t.y); //!
        __syncthreads();
        cur = to;
    }
    __syncthreads();
    out[blockIdx.x * n + j] = s[cur][j];
    out[blockIdx.x * n + j + half] = s[cur][j + half];
}
## missing barrier: fft stockham, next stage begins at once | grid=2 block=32 | r(256), z(256), 64
__global__ void fft64(const float2* in, float2* out, int n) {
    __shared__ float2 s[2][64];
    int j = threadIdx.x, half = n / 2;
    s[0][j] = in[blockIdx.x * n + j];
    s[0][j + half] = in[blockIdx.x * n + j + half];
    __syncthreads();
    int cur = 0;
    for (int ns = 1; ns < n; ns *= 2) {
        int k = j % ns, to = 1 - cur;
        float2 a = s[cur][j], b = s[cur][j + half]; //!
        float sn, cs;
        sincospif(-(float)k / ns, &sn, &cs);
        float2 t = make_float2(b.x * cs - b.y * sn, b.x * sn + b.y * cs);
        int d = j / ns * ns * 2 + k;
        s[to][d] = make_float2(a.x + t.x, a.y + t.y); //!
        s[to][d + ns] = make_float2(a.x - t.x, a.y - t.y); //!
        ⟦__syncthreads();|||⟧
        cur = to;
    }
    __syncthreads();
    out[blockIdx.x * n + j] = s[cur][j];
    out[blockIdx.x * n + j + half] = s[cur][j + half];
}
## race: bit reversal in place, both partners swap | grid=2 block=64 | r(128), r(128), 128, 7
__global__ void bit_reverse(float* re, float* im, int n, int bits) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int j = __brev(i) >> (32 - bits);
    if (⟦j > i|||j != i⟧) {
        float a = re[i], b = im[i]; //!
        re[i] = re[j]; //!
        im[i] = im[j]; //!
        re[j] = a; //!
        im[j] = b; //!
    }
}
## bounds: bit reversal in place, shifted by one bit too few | grid=2 block=64 | r(128), r(128), 128, 7
__global__ void bit_reverse(float* re, float* im, int n, int bits) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int j = __brev(i) >> (⟦32|||31⟧ - bits);
    if (j > i) {
        float a = re[i], b = im[i];
        re[i] = re[j]; //!
        im[i] = im[j]; //!
        re[j] = a; //!
        im[j] = b; //!
    }
}
## missing barrier: floyd warshall tile, the next pivot begins at once | grid=1 block=(16, 16) | r(144), 12
__global__ void fw_phase1(float* dist, int n) {
    __shared__ float s[16][16];
    int i = threadIdx.y, j = threadIdx.x;
    bool in = i < n && j < n;
    if (in) s[i][j] = dist[i * n + j];
    else s[i][j] = INFINITY;
    __syncthreads();
    for (int k = 0; k < 16; ++k) {
        float a = s[i][k], b = s[k][j]; //!
        if (a + b < s[i][j]) s[i][j] = a + b; //!
        ⟦__syncthreads();|||⟧
    }
    if (in) dist[i * n + j] = s[i][j];
}
## unset: floyd warshall tile, tile beyond the matrix | grid=1 block=(16, 16) | r(144), 12
__global__ void fw_phase1(float* dist, int n) {
    __shared__ float s[16][16];
    int i = threadIdx.y, j = threadIdx.x;
    bool in = i < n && j < n;
    if (in) s[i][j] = dist[i * n + j];
    ⟦else s[i][j] = INFINITY;|||⟧
    __syncthreads();
    for (int k = 0; k < 16; ++k) {
        float a = s[i][k], b = s[k][j]; //!
        if (a + b < s[i][j]) s[i][j] = a + b; //!
        __syncthreads();
    }
    if (in) dist[i * n + j] = s[i][j];
}
## missing barrier: gaussian elimination in shared memory, pivot row of the step before | grid=2 block=16 | r(512), r(32), 16
__global__ void eliminate(float* a, float* rhs, int n) {
    __shared__ float s[16][16], b[16];
    int r = threadIdx.x;
    float* mine = a + blockIdx.x * n * n;
    for (int c = 0; c < n; ++c) s[r][c] = mine[r * n + c] + (r == c ? 20.f : 0.f);
    b[r] = rhs[blockIdx.x * n + r];
    __syncthreads();
    for (int k = 0; k < n; ++k) {
        if (r > k) {
            float f = s[r][k] / s[k][k]; //!
            for (int c = k; c < n; ++c) s[r][c] -= f * s[k][c]; //!
            b[r] -= f * b[k]; //!
        }
        ⟦__syncthreads();|||⟧
    }
    for (int c = 0; c < n; ++c) mine[r * n + c] = s[r][c];
    rhs[blockIdx.x * n + r] = b[r];
}
## bounds: gaussian elimination in shared memory, inner loop one too far | grid=2 block=16 | r(512), r(32), 16
__global__ void eliminate(float* a, float* rhs, int n) {
    __shared__ float s[16][16], b[16];
    int r = threadIdx.x;
    float* mine = a + blockIdx.x * n * n;
    for (int c = 0; c < n; ++c) s[r][c] = mine[r * n + c] + (r == c ? 20.f : 0.f);
    b[r] = rhs[blockIdx.x * n + r];
    __syncthreads();
    for (int k = 0; k < n; ++k) {
        if (r > k) {
            float f = s[r][k] / s[k][k];
            for (int c = k; c ⟦<|||<=⟧ n; ++c) s[r][c] -= f * s[k][c]; //!
            b[r] -= f * b[k];
        }
        __syncthreads();
    }
    for (int c = 0; c < n; ++c) mine[r * n + c] = s[r][c];
    rhs[blockIdx.x * n + r] = b[r];
}
## unset: nms by bit masks, columns beyond the boxes | grid=(2, 2) block=32 | r(200), z(100, "uint64"), 50, 0.3
__global__ void nms(const float* boxes, unsigned long long* masks, int n, float threshold) {
    __shared__ float column[32 * 4];
    int row_size = min(n - (int)blockIdx.y * 32, 32), col_size = min(n - (int)blockIdx.x * 32, 32);
    if (threadIdx.x < col_size)
        for (int k = 0; k < 4; ++k) column[threadIdx.x * 4 + k] = boxes[(blockIdx.x * 32 + threadIdx.x) * 4 + k];
    __syncthreads();
    if (threadIdx.x >= row_size) return;
    int cur = blockIdx.y * 32 + threadIdx.x;
    const float* a = boxes + cur * 4;
    unsigned long long bits = 0;
    for (int i = blockIdx.x == blockIdx.y ? threadIdx.x + 1 : 0; i < ⟦col_size|||32⟧; ++i) {
        const float* b = column + i * 4;
        float w = fminf(a[0] + a[2], b[0] + b[2]) - fmaxf(a[0], b[0]); //!
        float h = fminf(a[1] + a[3], b[1] + b[3]) - fmaxf(a[1], b[1]); //!
        float common = fmaxf(w, 0.f) * fmaxf(h, 0.f);
        if (common > threshold * (a[2] * a[3] + b[2] * b[3] - common)) bits |= 1ull << i; //!
    }
    masks[cur * gridDim.x + blockIdx.x] = bits;
}
## bounds: nms by bit masks, row of masks by the block | grid=(2, 2) block=32 | r(200), z(100, "uint64"), 50, 0.3
__global__ void nms(const float* boxes, unsigned long long* masks, int n, float threshold) {
    __shared__ float column[32 * 4];
    int row_size = min(n - (int)blockIdx.y * 32, 32), col_size = min(n - (int)blockIdx.x * 32, 32);
    if (threadIdx.x < col_size)
        for (int k = 0; k < 4; ++k) column[threadIdx.x * 4 + k] = boxes[(blockIdx.x * 32 + threadIdx.x) * 4 + k];
    __syncthreads();
    if (threadIdx.x >= row_size) return;
    int cur = blockIdx.y * 32 + threadIdx.x;
    const float* a = boxes + cur * 4;
    unsigned long long bits = 0;
    for (int i = blockIdx.x == blockIdx.y ? threadIdx.x + 1 : 0; i < col_size; ++i) {
        const float* b = column + i * 4;
        float w = fminf(a[0] + a[2], b[0] + b[2]) - fmaxf(a[0], b[0]);
        float h = fminf(a[1] + a[3], b[1] + b[3]) - fmaxf(a[1], b[1]);
        float common = fmaxf(w, 0.f) * fmaxf(h, 0.f);
        if (common > threshold * (a[2] * a[3] + b[2] * b[3] - common)) bits |= 1ull << i;
    }
    masks[cur * ⟦gridDim.x|||blockDim.x⟧ + blockIdx.x] = bits; //!
}
