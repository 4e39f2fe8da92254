// reduceat: y[o, k, :] = the << what >> of the rows x[o, j, :] of slice k: from starts[k] to starts[k + 1] - 1, of the last
// slice to n - 1; one row where the next slice does not start after it.
// x (outer, n, inner), y (outer, count, inner), in C order. The results of full parts of `fan` rows in a slice are read
// from `parts` (outer, all, inner), of which fold_parts has computed `tiles` on the first level.
// Launch: a group of threads owns `piece` slices. No shared memory.
<% include "index/fold.cuh" %>

// Combines full parts of as high a level as there is, and the rows before and after them.
__device__ __forceinline__ void take_slice(
    Fold& result, const T* __restrict__ x, const acc* __restrict__ parts, index first, index last, index inner, index tiles)
{
    index a = 0, b = 0;
    if (parts && last - first >= fan) a = divide_up(first, index(fan)), b = last / fan;
    if (a >= b) {
        result.template take<false>(x, first, last, inner);
        return;
    }
    result.template take<false>(x, first, a * fan, inner);
    result.template take<false>(x, b * fan, last, inner);
    const acc* at = parts;
    for (index here = tiles; here >= 2 * fan; here /= fan) {
        const index up = divide_up(a, index(fan)), down = b / fan;
        if (up >= down) break;
        result.template take<true>(at, a, up * fan, inner);
        result.template take<true>(at, down * fan, b, inner);
        at += (long long)here * inner;
        a = up;
        b = down;
    }
    result.template take<true>(at, a, b, inner);
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ x, const acc* __restrict__ parts, const long long* __restrict__ starts, To* __restrict__ y,
    index total, index piece, index count, index n, index inner, index tiles, long long all)
{
    const index group = (index(blockIdx.x) * block + index(threadIdx.x)) / threads, start = index(blockIdx.y) * across;
    const index step = index(gridDim.y) * across;
    index row = group * piece, k = row % count;
    long long o = row / count;
    for (index p = 0; p < piece; ++p, ++row, ++k) {
        if (k == count) k = 0, ++o;
        index first = 0, last = 0;
        if (row < total) {
            first = index(minimum(maximum(starts[k], 0ll), (long long)n - 1));
            last = k + 1 < count ? index(minimum(starts[k + 1], (long long)n)) : n;
            last = maximum(last, first + 1);
        }
        for (index base = start; base < inner; base += step) {
            const index column = base + own_column();
            const bool mine = row < total && column < inner;
            Fold result = Fold::none(inner - column);
            if (mine)
                take_slice(result, x + o * n * inner + column, parts ? parts + o * all * inner + column : nullptr, first, last, inner, tiles);
            result.share();
            if (mine) result.store(y + (o * count + k) * inner + column);
            if (single) break;
        }
    }
}
