// A step of back substitution in each of a batch of matrices: `panel` rows, from `first` on, of x = U^-1 y.
// a (batch, n, width), in C order: the upper triangles U (n, n), and to the right of them y (n, width - n), from which the
// caller has subtracted U times the rows of x below. x (batch, n, width - n), in C order.
// Launch: blocks along x for the matrices, along y for the columns of y, one a thread. Shared memory: static.
using T = << elem >>;
constexpr int block = << block >>, panel = << panel >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    T* a, T* __restrict__ x, int n, int width, int first)
{
    __shared__ T upper[panel][panel];
    a += (long long)blockIdx.x * n * width + (long long)first * width;
    x += ((long long)blockIdx.x * n + first) * (width - n);
    const int rows = minimum(panel, n - first);
    for (int i = threadIdx.x; i < panel * panel; i += block) {
        const int p = i / panel, q = i % panel;
        upper[p][q] = p < rows && q < rows ? a[(long long)p * width + first + q] : T(p == q);
    }
    __syncthreads();
    const int c = blockIdx.y * block + threadIdx.x;
    if (c >= width - n) return;
    T value[panel];
#pragma unroll
    for (int p = 0; p < panel; ++p) value[p] = p < rows ? a[(long long)p * width + n + c] : T(0);
#pragma unroll
    for (int p = panel - 1; p >= 0; --p) {
#pragma unroll
        for (int q = p + 1; q < panel; ++q) value[p] -= upper[p][q] * value[q];
        value[p] = value[p] / upper[p][p];
        if (p < rows) x[(long long)p * (width - n) + c] = value[p];
    }
}
