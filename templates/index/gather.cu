// Gather of rows: y[o, j, :] = x[o, indices[j], :], x (outer, size, words), y (outer, count, words), both in C order.
// Launch: a group of `lanes` threads owns `piece` rows, `rows` of them at a time, and reads `items` words of each of
// these before it writes one; blocks along y own `span` words of the rows. Rows are interleaved among the groups of a
// block. With `streaming` the caches keep x, not y. No shared memory. With `scattered` a row is one word, and a block one thread.
<% include "lib/wrap_index.cuh" %>
<% if streaming %>
<% include "prelude/streaming.cuh" %>
<% endif %>
<% set at = "(long long)(row + r * groups) * words + i + k * lanes" %>
using index = << index >>;
using Word = << word >>;
using IndexT = << index_type >>;
constexpr int block = << block >>, lanes = << lanes >>, rows = << rows >>, items = << items >>, groups = block / lanes;
// Whether outer is 1, and whether rows fill all items of their threads.
constexpr bool single = << "true" if single else "false" >>, full = << "true" if full else "false" >>;
constexpr bool scattered = << "true" if scattered else "false" >>;

// The row of x that is copied to a row of y.
__device__ __forceinline__ long long picked(const IndexT* indices, index row, long long size, index count) {
    if (single) return in_range(indices[row], size);
    return (long long)(row / count) * size + in_range(indices[row % count], size);
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const Word* __restrict__ x, const IndexT* __restrict__ indices, Word* __restrict__ y,
    index total, index piece, long long size, index count, index words, index span)
{
    if constexpr (scattered) {
        const index first = index(blockIdx.x) * piece, end = minimum(total, first + piece);
        for (index row = first; row < end; ++row) y[row] = x[picked(indices, row, size, count)];
        return;
    }
    const int lane = threadIdx.x % lanes;
    const index first = index(blockIdx.x) * groups * piece + index(threadIdx.x / lanes);
    const index end = minimum(total, first + groups * piece), stop = minimum(words, (index(blockIdx.y) + 1) * span);
#pragma unroll 1
    for (index row = first; row < end; row += groups * rows) {
        const Word* from[rows];
#pragma unroll
        for (int r = 0; r < rows; ++r)
            from[r] = x + picked(indices, minimum(row + r * groups, total - 1), size, count) * words;
#pragma unroll 1
        for (index i = index(blockIdx.y) * span + lane; i < stop; i += lanes * items) {
            Word held[rows][items];
#pragma unroll
            for (int r = 0; r < rows; ++r)
#pragma unroll
                for (int k = 0; k < items; ++k)
                    if (full || k == 0 || i + k * lanes < words) held[r][k] = from[r][i + k * lanes];
#pragma unroll
            for (int r = 0; r < rows; ++r)
#pragma unroll
                for (int k = 0; k < items; ++k)
                    if ((r == 0 || row + r * groups < end) && (full || k == 0 || i + k * lanes < words))
                        << "store_streaming(&y[%s], held[r][k])" % at if streaming else "y[%s] = held[r][k]" % at >>;
        }
    }
}
