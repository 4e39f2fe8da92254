// y[r * R + p, c] = the sum over the entries j of block row r, and over q < C, of a[j, p, q] * x[indices[j] * C + q, c],
// where j = offsets[r], ..., offsets[r + 1] - 1. CSR is R = C = 1. Block rows of more than `longest` entries are left out.
// a (entries, R, C), x (-, columns), y (rows, columns), in C order.
// Launch: a group of across * along threads, neighbours in a warp, owns `piece` times `tall` rows of y: `across` of them
// share the columns, of which each has `items` at a time, and `along` the entries. Blocks along y share the columns. The
// order of the sums depends on the launch alone, so that every run gives the same bits. No shared memory.
<% include "sparse/multiply.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ a, const IndexT* __restrict__ indices, const IndexT* __restrict__ offsets, const T* __restrict__ x,
    T* __restrict__ y, long long rows, long long columns, long long piece, long long longest)
{
    const int lane = threadIdx.x % (across * along), part = lane / across, own = threadIdx.x / (across * along);
    const long long start = ((long long)blockIdx.x * groups + own) * piece;
    Sums sums;
    for (long long i = start; i < start + piece; ++i) {
        // All threads take part in the shuffles.
        const long long row = i * tall < rows ? i * tall : 0, r = row / R, first = offsets[r], last = offsets[r + 1];
        const bool inside = i * tall < rows && last - first <= longest;
        for (long long base = (long long)blockIdx.y * span; base < columns; base += (long long)gridDim.y * span) {
            const long long column = base + lane % across * items;
            add_entries(sums, a, indices, x, int(row % R), first + part, inside ? last : first, along, column, columns);
            add_group(sums);
            if (!inside || part || column >= columns) continue;
#pragma unroll
            for (int t = 0; t < tall; ++t) {
                Pack<T, items> result;
#pragma unroll
                for (int k = 0; k < items; ++k) result.at[k] = cast<T>(sums[t][k]);
                T* const to = y + (row + t) * columns + column;
                if constexpr (whole) store_pack(to, result);
                else
                    for (int k = 0; k < items && column + k < columns; ++k) to[k] = result.at[k];
            }
        }
    }
}
