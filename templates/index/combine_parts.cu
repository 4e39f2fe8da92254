// Partial << what >>s for combine_long, of each `fan` neighbours in sorted order that have the same index, of the parts of
// the level below, of which combine has made the first.
// parts (outer, all, inner), in C order: the `tiles` parts of this level start at `here`, those of the level below at
// `below`, and each is of `span` rows.
// Launch: a group of `lanes` threads owns a part. No shared memory.
<% include "index/combine.cuh" %>
using Key = << key >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const Key* __restrict__ keys, acc* __restrict__ parts, index total, long long inner, index tiles, long long span,
    long long all, long long below, long long here)
{
    const index row = group();
    if (row >= total) return;
    const index tile = row % tiles;
    const long long o = row / tiles;
    // A part whose rows have several indices is never read.
    if (keys[tile * span] != keys[(tile + 1) * span - 1]) return;
#pragma unroll 1
    for (index column = first_column(); column < inner; column += column_step()) {
        const Lying<acc> source{parts + (o * all + below) * inner + column, nullptr, inner};
        Rows result;
        result.take(source, tile * fan, (tile + 1) * fan, inner, column);
        result.store(parts + (o * all + here + tile) * inner, inner, column);
    }
}
