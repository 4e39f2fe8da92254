// y[o, indices[j], :] = value, y (outer, size, words) in C order.
// Launch: `lanes` threads share a row, and blocks along y its words. Rows that are written twice get the same value. No
// shared memory.
<% include "lib/wrap_index.cuh" %>
using Word = << word >>;
using IndexT = << index_type >>;
constexpr int block = << block >>, lanes = << lanes >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const IndexT* __restrict__ indices, Word* __restrict__ y, Word value, long long total, long long size, long long count,
    long long words)
{
    const long long row = ((long long)blockIdx.x * block + threadIdx.x) / lanes;
    if (row >= total) return;
    const long long o = row / count;
    Word* const to = y + (o * size + in_range(indices[row - o * count], size)) * words;
    for (long long w = (long long)blockIdx.y * lanes + threadIdx.x % lanes; w < words; w += (long long)gridDim.y * lanes)
        to[w] = value;
}
