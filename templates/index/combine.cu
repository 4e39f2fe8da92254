// Scatter-reduce of sorted rows: y[o, k, :] = << "x[o, k, :] and " if based >>the << what >> of the rows g[o, j, :] of index k: j = order[starts[k]], ..., order[starts[k + 1] - 1],
// or starts[k], ..., starts[k + 1] - 1 without `order`. `mean`: divided by the number of rows, or by 1.
// g (outer, count, inner), x and y (outer, size, inner), parts (outer, all, inner), in C order. An index whose rows fill one of
// the `tiles` parts, of `fan` neighbours each, is left to combine_long, for which the first of the parts are made here. The
// tree of sums depends only on the indices, so every run gives the same bits. No atomics.
// Launch: a group of `lanes` threads owns a row of y, or behind these << "`total`" >> a part. No shared memory.
<% from "index/sources.cuh" import parameters, source, layout with context %>
<% include "index/combine.cuh" %>
using Start = << starts >>;
using Key = << key >>;
// Whether outer is 1.
constexpr bool single = << "true" if single else "false" >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<% if based %>
    const T* __restrict__ x,
<% endif %>
<< parameters() >>
    const long long* __restrict__ order, const Start* __restrict__ starts, T* __restrict__ y, const Key* __restrict__ keys,
    acc* __restrict__ parts, << layout() >>index total, index groups, index size, long long count, long long inner, index tiles, long long all)
{
    const index row = group();
    if (row >= groups) return;
    const bool part = row >= total;
    const index place = part ? row - total : row, places = part ? tiles : size;
    const long long o = single ? 0 : place / places;
    const index k = single ? place : place % places;
    const index first = part ? k * fan : index(starts[k]), last = part ? first + fan : index(starts[k + 1]);
    // A part whose rows have several indices is never read.
    if (part ? keys[first] != keys[last - 1] : tiles && divide_up(first, index(fan)) < last / fan) return;
    const long long to = part ? 0 : (o * size + k) * inner;
#pragma unroll 1
    for (index column = first_column(); column < inner; column += column_step()) {
<< source() >>
        Rows result;
        const Base base(<< "x + to" if based else "nullptr" >>, inner, column);
        result.take(source, first, last, inner, column);
        if (part) {
            result.store(parts + (o * all + k) * inner, inner, column);
            continue;
        }
        base.join_to(result);
        << "result.divide(last - first);" if mean >>
        result.store(y + to, inner, column);
    }
}
