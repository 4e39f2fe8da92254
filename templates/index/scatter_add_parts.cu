// The sum of each `fan` neighbours in the order of the places that all belong to one place, for scatter_add_long: at the
// first level of rows g[o, order[j], :], at the next of the sums of the level below.
// g (outer, count, inner), parts (outer, all, inner), in C order: the `tiles` sums of this level start at `here`, those of
// the level below at `below`, and each is of `span` rows.
// Launch: a group of `lanes` threads owns a sum. No shared memory.
<% include "index/scatter_add.cuh" %>
using Key = << key >>;
constexpr bool of_rows = << "true" if level == 1 else "false" >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ g, const Key* __restrict__ keys, const long long* __restrict__ order, acc* __restrict__ parts,
    index total, long long count, long long inner, index tiles, long long span, long long all, long long below, long long here)
{
    const index row = group();
    if (row >= total) return;
    const index tile = row % tiles;
    const long long o = row / tiles;
    // Nobody asks for the sum of rows of several places.
    if (keys[tile * span] != keys[(tile + 1) * span - 1]) return;
#pragma unroll 1
    for (index column = first_column(); column < inner; column += column_step()) {
        Sums sums = {};
        if constexpr (of_rows) sums.add_rows(g + o * count * inner, order, tile * fan, (tile + 1) * fan, inner, column);
        else sums.add_rows(parts + (o * all + below) * inner, nullptr, tile * fan, (tile + 1) * fan, inner, column);
        sums.store(parts + (o * all + here + tile) * inner, inner, column);
    }
}
