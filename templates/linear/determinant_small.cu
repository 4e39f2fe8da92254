// The signs of the determinants of a batch of small matrices, and the logarithms of their absolute values.
// a (count, n, n), n <= lanes, in C order; sign (count), of a complex matrix its direction; size (count).
// Launch: `lanes` threads, a power of two up to 32, for each matrix. Shared memory: static.
<% include "linear/small.cuh" %>
using Wide = << "complex<double>" if is_complex else "double" >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ a, Wide* __restrict__ sign, double* __restrict__ size, long long count, int n)
{
    __shared__ Tile tiles[groups];
    Tile& tile = tiles[threadIdx.x / lanes];
    const int lane = threadIdx.x % lanes;
    const long long own = (long long)blockIdx.x * groups + threadIdx.x / lanes, matrix = minimum(own, count - 1);
    load(tile, a + matrix * n * n, n);
    const Decomposed result = decompose(tile, n);
    const Wide pivot = lane < n ? Wide(tile[result.row][lane]) : Wide(1);
    const double length = << "abs(pivot)" if is_complex else "fabs(pivot)" >>;
    Wide turn = length == 0 ? Wide(0) : pivot / length;
    double sum = log(length);
#pragma unroll
    for (int distance = lanes / 2; distance > 0; distance /= 2) {
        turn = turn * shuffle_xor(turn, distance);
        sum += shuffle_xor(sum, distance);
    }
    if (lane == 0 && own < count) sign[matrix] = result.odd ? -turn : turn, size[matrix] = sum;
}
