// The first pass of a stable merge sort of rows of `n` elements, by single threads: runs of `tile` elements are sorted by
// rank.
// x and keys (rows, n), the bits of the elements as integers<< "; indices, where they come from, likewise" if indexed >>.
// Launch: a thread sorts `piece` runs. No shared memory.
<% include "index/sort.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const K* __restrict__ x, K* __restrict__ keys, << "I* __restrict__ indices, " if indexed >>long long rows, I n, I tiles,
    long long piece)
{
    const long long thread = (long long)blockIdx.x * block + threadIdx.x;
    const long long last = minimum((thread + 1) * piece, rows * tiles);
    for (long long task = thread * piece; task < last; ++task) {
        const I first = I(task % tiles) * tile;
        const long long base = task / tiles * n + first;
        const int size = int(minimum(I(tile), n - first));
        const K* const from = x + base;
        const Target to = Target{keys<< ", indices" if indexed >>} + base;
        O key[items];
        int rank[items];
        if (size == tile)
            for (int i = 0; i < items; ++i) key[i] = ordered(canonical(from[i]));
        else
            for (int i = 0; i < items; ++i) key[i] = i < size ? ordered(canonical(from[i])) : limits<O>::highest();
        find_ranks(key, rank);
        for (int i = 0; i < size; ++i) to.put(rank[i], {canonical(from[i]), first + i});
    }
}
