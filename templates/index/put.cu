// Scatter of rows: y[o, indices[j], :] = x[o, j, :] for the last j of each index. x (outer, count, words), y (outer, size,
// words), in C order. `order`: << "the last j of each index" if by_winner else "the j in the stably sorted order of the indices" >>.
// Launch: `lanes` threads share a row, and blocks along y its words. No two rows that are written are one. No shared memory.
<% include "lib/wrap_index.cuh" %>
using Word = << word >>;
using IndexT = << index_type >>;
using Order = << order >>;
constexpr int block = << block >>, lanes = << lanes >>;
constexpr bool by_winner = << "true" if by_winner else "false" >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const Word* __restrict__ x, const IndexT* __restrict__ indices, const Order* __restrict__ order, Word* __restrict__ y,
    long long total, long long size, long long count, long long words)
{
    const long long row = ((long long)blockIdx.x * block + threadIdx.x) / lanes;
    const int lane = threadIdx.x % lanes;
    if (row >= total) return;
    const long long o = row / count, i = row - o * count;
    const long long j = by_winner ? i : order[i], to_row = in_range(indices[j], size);
    if constexpr (by_winner) {
        if (order[to_row] != j) return;
    } else {
        if (i + 1 < count && in_range(indices[order[i + 1]], size) == to_row) return;
    }
    const Word* const from = x + (o * count + j) * words;
    Word* const to = y + (o * size + to_row) * words;
    for (long long w = (long long)blockIdx.y * lanes + lane; w < words; w += (long long)gridDim.y * lanes) to[w] = from[w];
}
