// x[i] = a[i]^-1 b[i] for a batch of small matrices, by LU decompositions and both substitutions.
// a (count, n, n), n <= lanes; b (count, n, columns), or one for all where step is 0, else step is n * columns;
// x (count, n, columns), in C order. Of a singular matrix x is not finite.
// Launch: `lanes` threads, a power of two up to 32, for each matrix. Shared memory: static.
<% include "linear/small.cuh" %>
constexpr int width = << width >>;  // columns that are solved at once

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ x, long long count, int n, int columns, long long step)
{
    __shared__ Tile tiles[groups];
    Tile& tile = tiles[threadIdx.x / lanes];
    const int lane = threadIdx.x % lanes;
    const long long own = (long long)blockIdx.x * groups + threadIdx.x / lanes, matrix = minimum(own, count - 1);
    load(tile, a + matrix * n * n, n);
    const int row = decompose(tile, n).row;
    const T pivot = lane < n ? tile[row][lane] : T(1), inverse = T(1) / pivot;
    const bool divides = !(size_of(inverse) < limits<Size>::infinity());
    for (int first = 0; first < columns; first += width) {
        T y[width];
#pragma unroll
        for (int k = 0; k < width; ++k)
            y[k] = lane < n && first + k < columns ? b[matrix * step + (long long)row * columns + first + k] : T(0);
        for (int j = 0; j < n; ++j) {
            const T factor = lane > j && lane < n ? tile[row][j] : T(0);
#pragma unroll
            for (int k = 0; k < width; ++k) {
                const T above = __shfl_sync(0xffffffffu, y[k], j, lanes);
                if (lane > j) y[k] -= factor * above;
            }
        }
        for (int j = n - 1; j >= 0; --j) {
            const T factor = lane < j ? tile[row][j] : T(0);
#pragma unroll
            for (int k = 0; k < width; ++k) {
                if (lane == j) y[k] = divides ? y[k] / pivot : y[k] * inverse;
                const T below = __shfl_sync(0xffffffffu, y[k], j, lanes);
                if (lane < j) y[k] -= factor * below;
            }
        }
        if (own < count && lane < n)
#pragma unroll
            for (int k = 0; k < width; ++k)
                if (first + k < columns) x[(matrix * n + lane) * columns + first + k] = y[k];
    }
}
