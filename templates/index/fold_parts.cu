// Partial results for fold_slices: the << what >> of each `fan` neighbouring rows, on the first level of x[o, j, :], on the
// next of the parts of the level below. By the bits of fold_facts, parts that no slice reads are left out.
// x (outer, n, inner), parts (outer, all, inner), in C order: the `tiles` parts of this level start at `here`, those of the
// level below at `below`, and each is of `span` rows of x.
// Launch: a group of threads owns a part. No shared memory.
<% include "index/fold.cuh" %>
constexpr bool of_parts = << "true" if level > 1 else "false" >>;

// Whether the rows lie within the last slice that starts at or before them.
__device__ __forceinline__ bool needed(
    const long long* __restrict__ starts, bool rising, index count, long long n, long long first, long long last)
{
    if (!rising) return true;
    index low = 0, high = count;
    while (low < high) {
        const index middle = low + (high - low) / 2;
        if (starts[middle] <= first) low = middle + 1;
        else high = middle;
    }
    return low > 0 && (low < count ? starts[low] : n) >= last;
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ x, acc* parts, const long long* __restrict__ starts, const unsigned* __restrict__ facts,
    index total, index tiles, index count, index n, index inner, long long span, long long all, long long below, long long here)
{
    if (*facts < 2) return;
    const index row = (index(blockIdx.x) * block + index(threadIdx.x)) / threads;
    const index tile = row % tiles;
    const long long o = row / tiles;
    const bool owned = row < total && needed(starts, *facts == 2, count, n, tile * span, (tile + 1) * span);
    for (index base = index(blockIdx.y) * across; base < inner; base += index(gridDim.y) * across) {
        const index column = base + own_column();
        const bool mine = owned && column < inner;
        Fold result = Fold::none(inner - column);
        if (mine) {
            if constexpr (of_parts)
                result.template take<true>(parts + (o * all + below) * inner + column, tile * fan, (tile + 1) * fan, inner);
            else
                result.template take<false>(x + o * n * inner + column, tile * fan, (tile + 1) * fan, inner);
        }
        result.share();
        if (mine) result.store(parts + (o * all + here + tile) * inner + column);
    }
}
