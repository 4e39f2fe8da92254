// y[o, j, i] = x[o, places[j], i]: rows of x (outer, size, inner) picked into y (outer, count, inner), both in C order.
// Launch: << lanes >> threads share a row of y; such a group owns `rows_piece` rows. No shared memory.

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* __restrict__ x, const long long* __restrict__ places, << elem >>* __restrict__ y,
    long long rows, long long rows_piece, long long size, long long count, long long inner)
{
    const long long group = ((long long)(blockIdx.x) * << block >> + threadIdx.x) / << lanes >>;
    const long long lane = threadIdx.x % << lanes >>;
    const long long end = minimum(rows, (group + 1) * rows_piece);
    for (long long row = group * rows_piece; row < end; ++row) {
        const << elem >>* from = x + (row / count * size + places[row % count]) * inner;
        << elem >>* to = y + row * inner;
        for (long long i = lane; i < inner; i += << lanes >>) to[i] = from[i];
    }
}
