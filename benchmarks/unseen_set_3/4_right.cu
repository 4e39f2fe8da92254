## right: leaky relu in place | grid=2 block=64 | r(100), 100
__global__ void leaky_relu_inplace(float* x, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float v = x[i];
        x[i] = v > 0.5f ? v : 0.01f * v;
    }
}
## right: transpose in place by pairs of tiles | grid=(3, 3) block=(8, 8) | r(576), 24
__global__ void transpose_inplace(float* a, int n) {
    __shared__ float s[8][9], u[8][9];
    if (blockIdx.x < blockIdx.y) return;
    int tx = threadIdx.x, ty = threadIdx.y;
    int x = blockIdx.x * 8 + tx, y = blockIdx.y * 8 + ty;
    int mx = blockIdx.y * 8 + tx, my = blockIdx.x * 8 + ty;
    s[ty][tx] = a[y * n + x];
    u[ty][tx] = a[my * n + mx];
    __syncthreads();
    a[my * n + mx] = s[tx][ty];
    if (blockIdx.x != blockIdx.y) a[y * n + x] = u[tx][ty];
}
## right: red and black sweeps in place | grid=1 block=(16, 16) | r(18*18), 18, 4
__global__ void red_black(float* u, int n, int sweeps) {
    int x = threadIdx.x + 1, y = threadIdx.y + 1;
    for (int k = 0; k < 2 * sweeps; ++k) {
        if (((x + y) & 1) == (k & 1))
            u[y * n + x] = 0.25f * (u[y * n + x - 1] + u[y * n + x + 1] + u[(y - 1) * n + x] + u[(y + 1) * n + x]);
        __syncthreads();
    }
}
## right: odd even transposition sort in global memory | grid=2 block=32 | i(128, 1000), 64
__global__ void odd_even(int* x, int n) {
    int* mine = x + blockIdx.x * n;
    for (int round = 0; round < n; ++round) {
        int i = 2 * threadIdx.x + (round & 1);
        if (i + 1 < n && mine[i] > mine[i + 1]) {
            int v = mine[i];
            mine[i] = mine[i + 1];
            mine[i + 1] = v;
        }
        __syncthreads();
    }
}
## right: three buffers, one barrier a step | grid=1 block=64 | r(64*6), z(64), 6
__global__ void three_buffers(const float* x, float* y, int steps) {
    __shared__ float s[3][64];
    int t = threadIdx.x;
    float acc = 0.f;
    s[0][t] = x[t];
    for (int k = 0; k < steps; ++k) {
        if (k + 1 < steps) s[(k + 1) % 3][t] = x[(k + 1) * 64 + t];
        __syncthreads();
        acc += s[k % 3][(t + 7) % 64];
    }
    y[t] = acc;
}
## right: partial sums of two warps without a barrier of the block | grid=2 block=64 | r(128), z(4)
__global__ void warp_slices(const float* x, float* out) {
    __shared__ float s[64];
    int t = threadIdx.x, lane = t & 31;
    s[t] = x[blockIdx.x * 64 + t];
    __syncwarp();
    for (int o = 16; o; o /= 2) {
        float other = lane < o ? s[t + o] : 0.f;
        __syncwarp();
        if (lane < o) s[t] += other;
        __syncwarp();
    }
    if (lane == 0) out[(blockIdx.x * 64 + t) / 32] = s[t];
}
## right: tail warp votes with its own mask | grid=1 block=96 | i(70, 10), z(3, "int32"), 70
__global__ void count_even(const int* x, int* out, int n) {
    int i = threadIdx.x, lane = i & 31;
    unsigned mask = __ballot_sync(0xffffffff, i < n);
    if (i < n) {
        unsigned even = __ballot_sync(mask, x[i] % 2 == 0);
        if (lane == 0) out[i / 32] = __popc(even);
    }
}
## right: table looked up by a clamped index | grid=1 block=64 | f(64), r(17), z(64), 17
__global__ void interpolate(const float* x, const float* table, float* y, int n) {
    int i = threadIdx.x;
    float at = (x[i] - 1.f) * (n - 1);
    int k = min((int)at, n - 2);
    float w = at - k;
    y[i] = (1.f - w) * table[k] + w * table[k + 1];
}
## right: queue of work in shared memory | grid=1 block=32 | z(64, "int32"), 64
__global__ void work_queue(int* visits, int n) {
    __shared__ int queue[64], head, tail, end;
    int t = threadIdx.x;
    if (t == 0) { queue[0] = 1; head = 0; tail = 1; end = 1; }
    __syncthreads();
    while (head < tail) {
        int k = head + t;
        if (k < tail) {
            int node = queue[k];
            visits[node] = node;
            if (2 * node < n) queue[atomicAdd(&end, 1)] = 2 * node;
            if (2 * node + 1 < n) queue[atomicAdd(&end, 1)] = 2 * node + 1;
        }
        __syncthreads();
        if (t == 0) { head = min(head + 32, tail); tail = end; }
        __syncthreads();
    }
}
## right: dot products in double by compare and swap | grid=4 block=32 | r(128), r(128), z(1, "uint64")
__global__ void dot(const float* a, const float* b, unsigned long long* sum) {
    int i = blockIdx.x * 32 + threadIdx.x;
    double v = (double)a[i] * b[i];
    for (int o = 16; o; o /= 2) v += __shfl_down_sync(0xffffffff, v, o);
    if (threadIdx.x == 0) {
        unsigned long long old = atomicAdd(sum, 0ull), seen;
        do {
            seen = old;
            old = atomicCAS(sum, seen, (unsigned long long)__double_as_longlong(v + __longlong_as_double((long long)seen)));
        } while (old != seen);
    }
}
## right: run length encoding | grid=1 block=64 | a(64) // 5, z(14, "int32"), z(14, "int32"), z(1, "int32"), 64
__global__ void run_lengths(const int* x, int* value, int* start, int* runs, int n) {
    __shared__ int s[64];
    int t = threadIdx.x;
    int first = t == 0 || x[t] != x[t - 1];
    s[t] = first;
    __syncthreads();
    for (int o = 1; o < n; o *= 2) {
        int v = t >= o ? s[t - o] : 0;
        __syncthreads();
        s[t] += v;
        __syncthreads();
    }
    if (first) { value[s[t] - 1] = x[t]; start[s[t] - 1] = t; }
    if (t == n - 1) *runs = s[t];
}
## right: matrix times vector with split rows and atomics | grid=(2, 3) block=32 | r(50*90), r(90), z(50), 50, 90
__global__ void gemv_split(const float* A, const float* x, float* y, int rows, int cols) {
    __shared__ float s[30];
    int part = blockIdx.y * 30;
    for (int k = threadIdx.x; k < 30; k += blockDim.x) s[k] = x[part + k];
    __syncthreads();
    int row = blockIdx.x * 32 + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.f;
    for (int k = 0; k < 30; ++k) sum += A[row * cols + part + k] * s[k];
    atomicAdd(&y[row], sum);
}
## right: producer block signals consumers with release and acquire | grid=3 block=32 | r(32), z(32), z(64), z(1, "int32")
#include <cuda/atomic>
__global__ void signal(const float* x, float* middle, float* y, int* flag) {
    int t = threadIdx.x;
    cuda::atomic_ref<int, cuda::thread_scope_device> ready(*flag);
    if (blockIdx.x == 0) {
        middle[t] = x[t] * x[t];
        __syncthreads();
        if (t == 0) ready.store(1, cuda::memory_order_release);
    } else {
        if (t == 0) while (ready.load(cuda::memory_order_acquire) == 0) {}
        __syncthreads();
        y[(blockIdx.x - 1) * 32 + t] = middle[31 - t] + blockIdx.x;
    }
}
## right: crops of an image with bounds by rows | grid=3 block=(8, 8) | r(400), ck.asarray([0, 0, 14, 15, 7, 13], dtype="int32"), z(192), 20
__global__ void crops(const float* image, const int* corner, float* out, int n) {
    int x = corner[2 * blockIdx.x] + threadIdx.x, y = corner[2 * blockIdx.x + 1] + threadIdx.y;
    float v = x < n && y < n ? image[y * n + x] : 0.f;
    out[(blockIdx.x * 8 + threadIdx.y) * 8 + threadIdx.x] = v;
}
## right: counting sort of a block | grid=2 block=64 | i(128, 16), z(128, "int32"), 64
__global__ void counting_sort(const int* x, int* y, int n) {
    __shared__ int count[16], start[16];
    int t = threadIdx.x, k = x[blockIdx.x * n + t];
    if (t < 16) count[t] = 0;
    __syncthreads();
    int rank = atomicAdd(&count[k], 1);
    __syncthreads();
    if (t < 32) {
        int v = t < 16 ? count[t] : 0, sum = v;
        for (int o = 1; o < 16; o *= 2) {
            int u = __shfl_up_sync(0xffffffff, sum, o);
            if (t >= o) sum += u;
        }
        if (t < 16) start[t] = sum - v;
    }
    __syncthreads();
    y[blockIdx.x * n + start[k] + rank] = k;
}
## right: uninitialised output where every element is set | grid=2 block=32 | r(120), ck.empty(60), ck.empty(60), 60
__global__ void deinterleave(const float2* z, float* re, float* im, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float2 v = z[i];
        re[i] = v.x;
        im[i] = v.y;
    }
    __syncthreads();
    int first = blockIdx.x * blockDim.x + threadIdx.x;
    if (first < n) re[first] += im[first];
}
## right: address beyond 32 bits by a wide index | grid=2 block=32 | r(64), z(64), 3000000000
__global__ void wide(const float* x, float* y, long long base) {
    long long row = base + blockIdx.x;
    for (long long i = row * 32 + threadIdx.x; i < (row + 1) * 32; i += blockDim.x) y[i - base * 32] = 2.f * x[i - base * 32];
}
## right: one thread of each block raises a flag | grid=3 block=64 | i(192, 100), z(1, "int32")
__global__ void any_above(const int* x, int* found) {
    int v = x[blockIdx.x * 64 + threadIdx.x];
    int some = __syncthreads_or(v > 97);
    if (some && threadIdx.x == 0) atomicOr(found, 1);
}
