// As combine, for the indices that it leaves: the rows before and after the parts that combine_parts has reduced, then
// those parts that lie in no part of the next level, and so on.
// g (outer, count, inner), x and y (outer, size, inner), parts (outer, all, inner), in C order.
// Launch: a group of `lanes` threads owns one of the `tiles` parts of the first level, and reduces the rows of an index if
// its part is the first of that index. No shared memory.
<% from "index/sources.cuh" import parameters, source, layout with context %>
<% include "index/combine.cuh" %>
using Start = << starts >>;
using Key = << key >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<% if based %>
    const T* __restrict__ x,
<% endif %>
<< parameters() >>
    const long long* __restrict__ order, const Start* __restrict__ starts, T* __restrict__ y, const Key* __restrict__ keys,
    const acc* __restrict__ parts, << layout() >>index total, index size, long long count, long long inner, int levels, index tiles,
    long long all)
{
    const index row = group();
    if (row >= total) return;
    const index tile = row % tiles;
    const long long o = row / tiles;
    const index k = keys[tile * fan], first = starts[k], last = starts[k + 1];
    if (divide_up(first, index(fan)) != tile || tile >= last / fan) return;
    const long long to = (o * size + k) * inner;
#pragma unroll 1
    for (index column = first_column(); column < inner; column += column_step()) {
<< source() >>
        Rows result;
        const Base base(<< "x + to" if based else "nullptr" >>, inner, column);
        result.take(source, first, tile * fan, inner, column);
        result.take(source, last / fan * fan, last, inner, column);
        Lying<acc> level_parts{parts + o * all * inner + column, nullptr, inner};
        index a = tile, b = last / fan, here = tiles;
        for (int level = 1; level < levels; ++level) {
            const index up = divide_up(a, index(fan)), down = b / fan;
            if (up >= down) break;
            result.take(level_parts, a, up * fan, inner, column);
            result.take(level_parts, down * fan, b, inner, column);
            level_parts.data += here * inner;
            here /= fan;
            a = up;
            b = down;
        }
        result.take(level_parts, a, b, inner, column);
        base.join_to(result);
        << "result.divide(last - first);" if mean >>
        result.store(y + to, inner, column);
    }
}
