// The first pass of a stable merge sort of rows of `n` elements: runs of `tile` elements are sorted.
// x and keys (rows, n), the bits of the elements as integers<< "; indices, where they come from, likewise" if indexed >>.
// Launch: `lanes` threads share a run, `items` elements each: they sort these by rank, then merge what neighbours have.
// Shared: the tiles of a block.
<% include "index/sort_shared.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const K* __restrict__ x, K* __restrict__ keys, << "I* __restrict__ indices, " if indexed >>long long rows, I n, I tiles)
{
    __shared__ K shared_keys[block * items];
    __shared__ I shared_indices[indexed ? block * items : 1];
    const int group = threadIdx.x / lanes, lane = threadIdx.x % lanes, own = lane * items;
    const long long task = (long long)blockIdx.x * (block / lanes) + group;
    const I first = I(task % tiles) * tile;
    const long long base = task / tiles * n + first;
    const int size = task < rows * tiles ? int(minimum(I(tile), n - first)) : 0;
    const Target shared = Target{shared_keys, shared_indices} + group * tile;
    for (int i = lane; i < size; i += lanes) shared.keys[i] = canonical(x[base + i]);
    __syncthreads();

    K held[items];
    O key[items];
    int rank[items];
#pragma unroll
    for (int i = 0; i < items; ++i) {
        held[i] = own + i < size ? shared.keys[own + i] : K(0);
        key[i] = own + i < size ? ordered(held[i]) : limits<O>::highest();
    }
    find_ranks(key, rank);
#pragma unroll
    for (int i = 0; i < items; ++i) {
        if (own + i >= size) break;
        shared.put(own + rank[i], {held[i], first + own + i});
    }
    __syncthreads();

    for (int run = items; run < tile; run *= 2) {
        const int start = own / (2 * run) * (2 * run);
        const int end = maximum(0, minimum(2 * run, size - start));
        merge(shared + start, minimum(run, end), end, own - start);
    }
    const Target to{keys<< ", indices" if indexed >>};
    for (int i = lane; i < size; i += lanes) to.put(base + i, shared[i]);
}
