// y[o, k, i] = sum of g[o, j, i] over the j that belong to k: order[starts[k]], ..., order[starts[k + 1] - 1], in that
// order, so that every run gives the same bits. g (outer, count, inner), y (outer, size, inner), both in C order.
// Launch: << lanes >> threads share a row of y; such a group owns `rows_piece` rows. No shared memory, no atomics.

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* __restrict__ g, const long long* __restrict__ order, const long long* __restrict__ starts,
    << elem >>* __restrict__ y, long long rows, long long rows_piece, long long size, long long count, long long inner)
{
    using acc = << acc >>;
    const long long group = ((long long)(blockIdx.x) * << block >> + threadIdx.x) / << lanes >>;
    const long long lane = threadIdx.x % << lanes >>;
    const long long end = minimum(rows, (group + 1) * rows_piece);
    for (long long row = group * rows_piece; row < end; ++row) {
        const << elem >>* from = g + row / size * count * inner;
        const long long first = starts[row % size], last = starts[row % size + 1];
        for (long long i = lane; i < inner; i += << lanes >>) {
            acc total = acc(0);
            for (long long j = first; j < last; ++j) total += cast<acc>(from[order[j] * inner + i]);
            y[row * inner + i] = cast< << elem >> >(total);
        }
    }
}
