## matmul: no barrier before a tile is used | grid=(2, 2) block=(8, 8) | f(256), f(256), z(256), 16
__global__ void planted(const float* a, const float* b, float* c, int n) {
    __shared__ float as[8][8], bs[8][8];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 8 + ty, col = blockIdx.x * 8 + tx;
    float sum = 0;
    for (int k0 = 0; k0 < n; k0 += 8) {
        as[ty][tx] = a[row * n + k0 + tx]; //!
        bs[ty][tx] = b[(k0 + ty) * n + col]; //!
        ⟦__syncthreads();|||⟧
        for (int k = 0; k < 8; ++k) sum += as[ty][k] * bs[k][tx]; //!
        __syncthreads();
    }
    c[row * n + col] = sum;
}
## matmul: the next tile is loaded over the one in use | grid=(2, 2) block=(8, 8) | f(256), f(256), z(256), 16
template <int T>
__device__ float dot_tile(const float (&as)[T][T], const float (&bs)[T][T], int ty, int tx) {
    float sum = 0;
    for (int k = 0; k < T; ++k) sum += as[ty][k] * bs[k][tx]; //!
    return sum;
}
__global__ void planted(const float* a, const float* b, float* c, int n) {
    __shared__ float as[8][8], bs[8][8];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 8 + ty, col = blockIdx.x * 8 + tx;
    float sum = 0;
    for (int k0 = 0; k0 < n; k0 += 8) {
        as[ty][tx] = a[row * n + k0 + tx]; //!
        bs[ty][tx] = b[(k0 + ty) * n + col]; //!
        __syncthreads();
        sum += dot_tile(as, bs, ty, tx);
        ⟦__syncthreads();|||⟧
    }
    c[row * n + col] = sum;
}
## matmul: the tail of k is not masked | grid=(2, 2) block=(8, 8) | f(120), f(120), z(144), 12, 10
__global__ void planted(const float* a, const float* b, float* c, int n, int inner) {
    __shared__ float as[8][8], bs[8][8];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 8 + ty, col = blockIdx.x * 8 + tx;
    float sum = 0;
    for (int k0 = 0; k0 < inner; k0 += 8) {
        as[ty][tx] = row < n && k0 + tx < inner ? a[row * inner + k0 + tx] : 0.f;
        bs[ty][tx] = col < n⟦ && k0 + ty < inner|||⟧ ? b[(k0 + ty) * n + col] : 0.f; //!
        __syncthreads();
        for (int k = 0; k < 8; ++k) sum += as[ty][k] * bs[k][tx];
        __syncthreads();
    }
    if (row < n && col < n) c[row * n + col] = sum;
}
## matmul: rows and columns of the result are swapped | grid=(1, 2) block=(8, 8) | f(12 * 4), f(4 * 6), z(72)
__global__ void planted(const float* a, const float* b, float* c) {
    const int M = 12, N = 6, K = 4;
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += a[row * K + k] * b[k * N + col];
    c[row * ⟦N|||M⟧ + col] = sum; //!
}
## matmul: a register tile one column too narrow | grid=1 block=16 | f(256), f(256), z(256)
__global__ void planted(const float* a, const float* b, float* c) {
    float acc[4][⟦4|||3⟧] = {};
    int r0 = threadIdx.x / 4 * 4, c0 = threadIdx.x % 4 * 4;
    for (int k = 0; k < 16; ++k)
        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < 4; ++j) acc[i][j] += a[(r0 + i) * 16 + k] * b[k * 16 + c0 + j]; //!
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) c[(r0 + i) * 16 + c0 + j] = acc[i][j]; //!
}
## matmul: two stages, of which the one in use is filled | grid=1 block=(8, 8) | f(8 * 32), f(8 * 32), z(64)
__global__ void planted(const float* a, const float* b, float* c) {
    __shared__ float as[2][8][8], bs[2][8][8];
    int tx = threadIdx.x, ty = threadIdx.y;
    as[0][ty][tx] = a[ty * 32 + tx];
    bs[0][ty][tx] = b[ty * 8 + tx];
    __syncthreads();
    float sum = 0;
    for (int step = 0; step < 4; ++step) {
        int now = step % 2, next = ⟦now ^ 1|||step == 2 ? now : now ^ 1⟧;
        if (step < 3) {
            as[next][ty][tx] = a[ty * 32 + (step + 1) * 8 + tx]; //!
            bs[next][ty][tx] = b[((step + 1) * 8 + ty) * 8 + tx]; //!
        }
        for (int k = 0; k < 8; ++k) sum += as[now][ty][k] * bs[now][k][tx]; //!
        __syncthreads();
    }
    c[ty * 8 + tx] = sum;
}
## matmul: sums that start with nothing | grid=1 block=(8, 8) | f(64), f(64), z(128)
__global__ void planted(const float* a, const float* b, float* c) {
    float acc[2]⟦ = {0, 0}|||⟧; //!
    int row = threadIdx.y, col = threadIdx.x;
    for (int k = 0; k < 8; ++k) {
        acc[0] += a[row * 8 + k] * b[k * 8 + col]; //!
        acc[1] += a[k * 8 + row] * b[k * 8 + col]; //!
    }
    c[row * 8 + col] = acc[0]; //!
    c[64 + row * 8 + col] = acc[1]; //!
}
## matmul: split k, whose parts add without atomics | grid=(1, 1, 4) block=(8, 8) | f(256), f(256), z(64)
__global__ void planted(const float* a, const float* b, float* c) {
    int row = threadIdx.y, col = threadIdx.x;
    float sum = 0;
    for (int k = blockIdx.z * 8; k < blockIdx.z * 8 + 8; ++k) sum += a[row * 32 + k] * b[k * 8 + col];
    float* out = c + row * 8 + col;
    ⟦atomicAdd(out, sum);|||*out = *out + sum;⟧ //!
}
## matmul: a tile of A is transposed on its way and read untransposed at its edge | grid=1 block=64 | f(64), f(64), z(64)
__global__ void planted(const float* a, const float* b, float* c) {
    __shared__ float at[8][9], bs[8 * 8];
    int t = threadIdx.x;
    at[t % 8][t / 8] = a[t];
    bs[t] = b[t];
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < 8; ++k) sum += ⟦at[k][t / 8]|||at[t / 8][k + 1]⟧ * bs[k * 8 + t % 8]; //!
    c[t] = sum;
}
## stencil: the right halo is never loaded | grid=3 block=32 | f(96), z(96), 96
__global__ void planted(const float* in, float* out, int n) {
    __shared__ float s[32 + 4];
    int g = blockIdx.x * 32 + threadIdx.x, l = threadIdx.x + 2;
    s[l] = in[g];
    if (threadIdx.x < 2) {
        s[l - 2] = g >= 2 ? in[g - 2] : 0.f;
        ⟦s[l + 32] = g + 32 < n ? in[g + 32] : 0.f;|||if (g + 32 < n) s[l + 32] = in[g + 32];⟧
    }
    __syncthreads();
    float sum = 0;
    for (int o = -2; o <= 2; ++o) sum += s[l + o]; //!
    out[g] = sum;
}
## stencil: the corners of a tile with a halo | grid=(2, 2) block=(8, 8) | f(256), z(256), 16
__global__ void planted(const float* in, float* out, int n) {
    __shared__ float s[10][10];
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
    auto at = [&](int r, int c) { return r < 0 || c < 0 || r >= n || c >= n ? 0.0f : in[r * n + c]; };
    s[ty][tx] = at(y, x);
    if (tx == 1) s[ty][0] = at(y, x - 1);
    if (tx == 8) s[ty][9] = at(y, x + 1);
    if (ty == 1) s[0][tx] = at(y - 1, x);
    if (ty == 8) s[9][tx] = at(y + 1, x);
    if (tx == 1 && ty == 1) s[0][0] = at(y - 1, x - 1);
    if (tx == 8 && ty == 1) s[0][9] = at(y - 1, x + 1);
    if (tx == 1 && ty == 8) s[9][0] = at(y + 1, x - 1);
    ⟦if (tx == 8 && ty == 8) s[9][9] = at(y + 1, x + 1);|||⟧
    __syncthreads();
    float sum = 0;
    for (int r = -1; r <= 1; ++r)
        for (int c = -1; c <= 1; ++c) sum += s[ty + r][tx + c]; //!
    out[y * n + x] = sum / 9;
}
## stencil: neighbours are read from what is written, in place | grid=2 block=32 | f(66)
__global__ void planted(float* u) {
    int i = 1 + blockIdx.x * blockDim.x + threadIdx.x;
    ⟦if (i % 2 == 0) return;|||⟧
    float left = u[i - 1], right = u[i + 1]; //!
    u[i] = 0.5f * (left + right); //!
}
## stencil: steps of time in shared memory, and half of the barriers | grid=1 block=32 | f(32), z(32), 6
__global__ void planted(const float* in, float* out, int steps) {
    __shared__ float u[2][34];
    int t = threadIdx.x + 1;
    u[0][t] = in[t - 1];
    if (t == 1) u[0][0] = u[1][0] = 0;
    if (t == 32) u[0][33] = u[1][33] = 0;
    __syncthreads();
    for (int s = 0; s < steps; ++s) {
        u[1 - s % 2][t] = (u[s % 2][t - 1] + u[s % 2][t] + u[s % 2][t + 1]) / 3; //!
        if (⟦true|||s % 3 != 2⟧) __syncthreads();
    }
    out[t - 1] = u[steps % 2][t];
}
## stencil: the plane above the topmost | grid=(1, 1, 4) block=(8, 4) | f(128), z(128), 8, 4, 4
__global__ void planted(const float* in, float* out, int nx, int ny, int nz) {
    int x = threadIdx.x, y = threadIdx.y, z = blockIdx.z;
    int i = (z * ny + y) * nx + x;
    float up = z < nz⟦ - 1|||⟧ ? in[i + nx * ny] : 0; //!
    float down = z > 0 ? in[i - nx * ny] : 0;
    out[i] = up + down - 2 * in[i];
}
## stencil: a ring whose left neighbour is minus one | grid=1 block=64 | f(50), z(50), 50
__global__ void planted(const float* in, float* out, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    int left = (i - 1⟦ + n|||⟧) % n, right = (i + 1) % n;
    out[i] = in[left] + in[right]; //!
}
## stencil: a queue of planes in registers that starts unset | grid=1 block=32 | f(256), z(256)
__global__ void planted(const float* in, float* out) {
    float below, here, above;
    int t = threadIdx.x;
    ⟦below = 0;|||⟧
    here = in[t];
    for (int z = 0; z < 8; ++z) {
        above = z < 7 ? in[(z + 1) * 32 + t] : 0;
        out[z * 32 + t] = above + below - 2 * here; //!
        below = here;
        here = above;
    }
}
## stencil: a convolution's mask is wider than its halo | grid=2 block=16 | f(32), f(7), z(32)
__global__ void planted(const float* in, const float* mask, float* out) {
    __shared__ float s[16 + 6];
    int base = blockIdx.x * 16;
    for (int k = threadIdx.x; k < 22; k += 16) {
        int g = base + k - 3;
        s[k] = g >= 0 && g < 32 ? in[g] : 0;
    }
    __syncthreads();
    float sum = 0;
    for (int k = 0; k ⟦< 7|||<= 7⟧; ++k) sum += s[threadIdx.x + k] * mask[k]; //!
    out[base + threadIdx.x] = sum;
}
## transpose: no barrier between the ways in and out | grid=(2, 2) block=(16, 16) | f(1024), z(1024), 32
__global__ void planted(const float* in, float* out, int n) {
    __shared__ float tile[16][17];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = in[y * n + x]; //!
    ⟦__syncthreads();|||__threadfence();⟧
    x = blockIdx.y * 16 + threadIdx.x;
    y = blockIdx.x * 16 + threadIdx.y;
    out[y * n + x] = tile[threadIdx.x][threadIdx.y]; //!
}
## transpose: the guard of the way in serves the way out | grid=(2, 1) block=(16, 16) | f(20 * 10), z(20 * 10), 10, 20
__global__ void planted(const float* in, float* out, int rows, int columns) {
    __shared__ float tile[16][17];
    int tx = threadIdx.x, ty = threadIdx.y;
    int x = blockIdx.x * 16 + tx, y = blockIdx.y * 16 + ty;
    if (x < columns && y < rows) tile[ty][tx] = in[y * columns + x];
    __syncthreads();
    int ox = blockIdx.y * 16 + tx, oy = blockIdx.x * 16 + ty;
    if (⟦ox < rows && oy < columns|||x < columns && y < rows⟧) out[oy * rows + ox] = tile[tx][ty]; //!
}
## transpose: in place, by both blocks of a pair | grid=(2, 2) block=(8, 8) | f(256)
__global__ void planted(float* m) {
    int r = blockIdx.y * 8 + threadIdx.y, c = blockIdx.x * 8 + threadIdx.x;
    if (⟦r < c|||r != c⟧) {
        float up = m[r * 16 + c]; //!
        float low = m[c * 16 + r]; //!
        m[r * 16 + c] = low; //!
        m[c * 16 + r] = up; //!
    }
}
## transpose: one tile after another, the second too early | grid=1 block=(8, 8) | f(192), z(192)
__global__ void planted(const float* in, float* out) {
    __shared__ float tile[8][9];
    for (int band = 0; band < 3; ++band) {
        tile[threadIdx.y][threadIdx.x] = in[threadIdx.y * 24 + band * 8 + threadIdx.x]; //!
        __syncthreads();
        out[(band * 8 + threadIdx.y) * 8 + threadIdx.x] = tile[threadIdx.x][threadIdx.y]; //!
        if (⟦band < 2|||band < 1⟧) __syncthreads();
    }
}
## transpose: rows of a block in steps of its height, one step too long | grid=1 block=(16, 4) | f(256), z(256)
__global__ void planted(const float* in, float* out) {
    __shared__ float tile[16][17];
    for (int j = 0; j < 16; j += ⟦4|||5⟧)
        if (j + threadIdx.y < 16) tile[j + threadIdx.y][threadIdx.x] = in[(j + threadIdx.y) * 16 + threadIdx.x];
    __syncthreads();
    for (int j = 0; j < 16; j += 4) out[(j + threadIdx.y) * 16 + threadIdx.x] = tile[threadIdx.x][j + threadIdx.y]; //!
}
## dynamic shared: two arrays of which the second does not fit | grid=1 block=32 shared=192 | f(32), z(32)
__global__ void planted(const float* x, float* y) {
    extern __shared__ unsigned char raw[];
    float* values = (float*)raw;
    ⟦short|||int⟧* order = reinterpret_cast<⟦short|||int⟧*>(raw + 32 * sizeof(float));
    values[threadIdx.x] = x[threadIdx.x];
    order[31 - threadIdx.x] = threadIdx.x; //!
    __syncthreads();
    y[threadIdx.x] = values[order[threadIdx.x]]; //!
}
## dynamic shared: an offset in bytes for one in elements | grid=1 block=32 shared=256 | f(64), z(32)
__global__ void planted(const float* x, float* y) {
    extern __shared__ float pool[];
    float* a = pool;
    float* b = pool + ⟦32|||32 * sizeof(float)⟧;
    a[threadIdx.x] = x[threadIdx.x];
    b[threadIdx.x] = x[32 + threadIdx.x]; //!
    __syncthreads();
    y[threadIdx.x] = a[31 - threadIdx.x] * b[31 - threadIdx.x]; //!
}
## dynamic shared: doubles behind an odd number of floats | grid=1 block=32 shared=512 | f(32), z(32)
__global__ void planted(const float* x, float* y) {
    extern __shared__ __align__(16) char store[];
    float* f = (float*)store;
    double* d = (double*)(store + ⟦34|||33⟧ * sizeof(float));
    f[threadIdx.x] = x[threadIdx.x];
    d[threadIdx.x] = f[threadIdx.x] * 2.0; //!
    __syncwarp();
    y[threadIdx.x] = (float)d[31 - threadIdx.x]; //!
}
## dynamic shared: two arrays that overlap by one element | grid=1 block=64 shared=512 | f(64), z(64)
__global__ void planted(const float* x, float* y) {
    extern __shared__ float arena[];
    float* left = arena;
    float* right = arena + ⟦64|||63⟧;
    int t = threadIdx.x;
    left[t] = x[t]; //!
    right[t] = 3 * x[t]; //!
    __syncthreads();
    y[t] = left[63 - t] + right[63 - t];
}
## dynamic shared: a scratch area is used again as another type | grid=1 block=64 shared=256 | f(64), z(64), k(64, 64)
__global__ void planted(const float* x, float* y, const int* order) {
    extern __shared__ int scratch[];
    int t = threadIdx.x;
    float* as_float = (float*)scratch;
    scratch[t] = order[t];
    __syncthreads();
    int from = scratch[63 - t]; //!
    ⟦__syncthreads();|||⟧
    as_float[t] = x[from]; //!
    __syncthreads();
    y[t] = as_float[63 - t];
}
