// Sort keys: keys[j] = indices[j] counted from 0, for j < n.
// Launch: a thread owns `piece` of the n. No shared memory.
<% include "lib/wrap_index.cuh" %>
using IndexT = << source >>;
using Key = << result >>;
constexpr int block = << block >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const IndexT* __restrict__ indices, Key* __restrict__ keys, long long n, long long piece, long long size)
{
    const long long first = ((long long)blockIdx.x * block + threadIdx.x) * piece;
    const long long last = minimum(n, first + piece);
    for (long long j = first; j < last; ++j) keys[j] = Key(in_range(indices[j], size));
}
