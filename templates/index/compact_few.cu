// Stream compaction by one block: the indices i < n where flags[i] is true, in order, and count[0], their number.
// Launch: one block, in which each of the warps owns a tile of `tile` flags. Shared: the counts of the warps.
<% include "index/compact.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ flags, long long* __restrict__ indices, long long* __restrict__ count, int n, int tile)
{
    __shared__ int counts[block / lanes];
    const int warp = threadIdx.x / lanes, lane = threadIdx.x % lanes;
    const int first = warp * tile, last = minimum(n, first + tile);
    int own = 0;
    for (int start = first; start < last; start += lanes) own += __popc(votes(start + lane < last && flags[start + lane]));
    if (lane == 0) counts[warp] = own;
    __syncthreads();
    long long to = 0;
    for (int w = 0; w < warp; ++w) to += counts[w];
    if (warp == block / lanes - 1 && lane == 0) count[0] = to + own;
    for (int start = first; start < last; start += lanes) {
        const bool flag = start + lane < last && flags[start + lane];
        const unsigned vote = votes(flag);
        if (flag) indices[to + __popc(vote & (shl(1u, lane) - 1u))] = start + lane;
        to += __popc(vote);
    }
}
