// Scatter-reduce of sorted rows: y[o, k, :] = << "x[o, k, :] and " if based >>the << what >> of the rows g[o, j, :] of index k: j = order[starts[k]], ..., order[starts[k + 1] - 1],
// or starts[k], ..., starts[k + 1] - 1 without `order`. `mean`: divided by the number of rows, or by 1.
// g (outer, count, inner), x and y (outer, size, inner), in C order. With `levels`, an index whose rows fill a part of `fan`
// is left to combine_long. The tree of sums depends only on the indices, so every run gives the same bits. No atomics.
// Launch: a group of `lanes` threads owns a row of y. No shared memory.
<% from "index/sources.cuh" import parameters, source, layout with context %>
<% include "index/combine.cuh" %>
using Start = << starts >>;
// Whether outer is 1.
constexpr bool single = << "true" if single else "false" >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<% if based %>
    const T* __restrict__ x,
<% endif %>
<< parameters() >>
    const long long* __restrict__ order, const Start* __restrict__ starts, T* __restrict__ y, << layout() >>
    index total, index size, long long count, long long inner, int levels)
{
    const index row = group();
    if (row >= total) return;
    const long long o = single ? 0 : row / size;
    const index k = single ? row : row % size, first = starts[k], last = starts[k + 1];
    if (levels && divide_up(first, index(fan)) < last / fan) return;
    const long long to = (o * size + k) * inner;
#pragma unroll 1
    for (index column = first_column(); column < inner; column += column_step()) {
<< source() >>
        Rows result;
        const Base base(<< "x + to" if based else "nullptr" >>, inner, column);
        result.take(source, first, last, inner, column);
        base.join_to(result);
        << "result.divide(last - first);" if mean >>
        result.store(y + to, inner, column);
    }
}
