// y[o, j, i] = x[o, 0, i] + ... + x[o, j, i] for j < n, "+" being << scan >><< ", from the end backwards" if reverse >>.
<% if pair %>
// Here: the linear recurrence y = x * y + z from 0, a scan of affine maps, which "+" composes.
<% endif %>
// x (outer, n, inner), y (outer, n + lead, inner) in C order; with lead y has the start of the scan, too.
// Launch: a thread scans `tile` neighbouring columns (o, i) at a time, `columns_piece` of them in all. No shared memory.
<% include "index/scan.cuh" %>
constexpr int block = << block >>, tile = << tile >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const S* __restrict__ x, << "const S* __restrict__ z, " if pair >>R* __restrict__ y,
    long long columns, long long columns_piece, long long n, long long inner, long long lead)
{
    << "const S* const z = x;" if not pair >>
    const long long first = ((long long)blockIdx.x * block + threadIdx.x) * columns_piece;
    const long long end = minimum(columns, first + columns_piece);
    long long width = 1;
    for (long long column = first; column < end; column += width) {
        const long long i = column % inner;
        const long long base = column / inner * n * inner + i;
        const long long target = column / inner * (n + lead) * inner + i + (reverse ? 0 : lead * inner);
        const long long begin = reverse ? target + n * inner : target - inner;
        if (tile > 1) width = minimum(minimum(end - column, inner - i), (long long)tile);
        T total[tile];
        for (long long v = 0; v < width; ++v) {
            total[v] = neutral();
            if (lead) y[begin + v] = result_of(neutral());
        }
        for (long long k = 0; k < n; ++k) {
            const long long j = (reverse ? n - 1 - k : k) * inner;
            for (long long v = 0; v < width; ++v) {
                total[v] = combine(total[v], state_of(x[base + j + v], pair ? z[base + j + v] : S(0)));
                y[target + j + v] = result_of(total[v]);
            }
        }
    }
}
