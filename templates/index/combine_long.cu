// As combine, for the indices that it leaves: the rows before and after the parts that combine_parts has reduced, then
// those parts that lie in no part of the next level, and so on.
// g (outer, count, inner), x and y (outer, size, inner), parts (outer, all, inner), in C order.
// Launch: a group of `lanes` threads owns one of the `tiles` parts of the first level, and reduces the rows of an index if
// its part is the first of that index. No shared memory.
<% include "index/combine.cuh" %>
using Start = << starts >>;
using Key = << key >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    << "const T* __restrict__ x, " if based >>const T* __restrict__ g, const long long* __restrict__ order,
    const Start* __restrict__ starts, T* __restrict__ y, index total, index size, long long count, long long inner, int levels,
    const Key* __restrict__ keys, const acc* __restrict__ parts, index tiles, long long all)
{
    const index row = group();
    if (row >= total) return;
    const index tile = row % tiles;
    const long long o = row / tiles;
    const index k = keys[tile * fan], first = starts[k], last = starts[k + 1];
    if (divide_up(first, index(fan)) != tile || tile >= last / fan) return;
    const T* const from = g + o * count * inner;
    const long long to = (o * size + k) * inner;
#pragma unroll 1
    for (index column = first_column(); column < inner; column += column_step()) {
        Rows result;
        const Base base(<< "x + to" if based else "nullptr" >>, inner, column);
        result.take(from, order, first, tile * fan, inner, column);
        result.take(from, order, last / fan * fan, last, inner, column);
        const acc* at = parts + o * all * inner;
        index a = tile, b = last / fan, here = tiles;
        for (int level = 1; level < levels; ++level) {
            const index up = divide_up(a, index(fan)), down = b / fan;
            if (up >= down) break;
            result.take(at, nullptr, a, up * fan, inner, column);
            result.take(at, nullptr, down * fan, b, inner, column);
            at += here * inner;
            here /= fan;
            a = up;
            b = down;
        }
        result.take(at, nullptr, a, b, inner, column);
        base.join_to(result);
        << "result.divide(last - first);" if mean >>
        result.store(y + to, inner, column);
    }
}
