// Partial << what >>s for combine_long, of each `fan` neighbours in sorted order that have the same index: at the first
// level of rows g[o, order[j], :], at the next of the parts of the level below.
// g (outer, count, inner), parts (outer, all, inner), in C order: the `tiles` parts of this level start at `here`, those of
// the level below at `below`, and each is of `span` rows.
// Launch: a group of `lanes` threads owns a part. No shared memory.
<% from "index/sources.cuh" import parameters, source, layout with context %>
<% include "index/combine.cuh" %>
using Key = << key >>;
constexpr bool of_rows = << "true" if level == 1 else "false" >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<< parameters() >>
    const Key* __restrict__ keys, const long long* __restrict__ order, acc* __restrict__ parts, << layout() >>index total, long long count, long long inner, index tiles, long long span, long long all, long long below, long long here)
{
    const index row = group();
    if (row >= total) return;
    const index tile = row % tiles;
    const long long o = row / tiles;
    // A part whose rows have several indices is never read.
    if (keys[tile * span] != keys[(tile + 1) * span - 1]) return;
#pragma unroll 1
    for (index column = first_column(); column < inner; column += column_step()) {
        Rows result;
        if constexpr (of_rows) {
<< source() >>
            result.take(source, tile * fan, (tile + 1) * fan, inner, column);
        } else {
            const Lying<acc> below_it{parts + (o * all + below) * inner + column, nullptr, inner};
            result.take(below_it, tile * fan, (tile + 1) * fan, inner, column);
        }
        result.store(parts + (o * all + here + tile) * inner, inner, column);
    }
}
