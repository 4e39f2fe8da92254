// A merge pass of a stable merge sort of rows of `n` elements: pairs of sorted runs of `run` elements become one.
// keys and out (rows, n), the bits of the elements as integers<< "; indices and out_indices, where they come from, likewise" if indexed >>.
// Launch: a block writes `tile` elements of the result, and finds the parts of the two runs by merge path (Odeh, Green,
// Mwassi, Shmueli and Birk, 2012). Shared: these parts.
<% include "index/sort_shared.cuh" %>

// As split, by a warp, with 32 probes at a time.
__device__ __forceinline__ I split_by_warp(const K* first, I n1, const K* second, I n2, I from) {
    I low = maximum(I(0), from - n2), high = minimum(from, n1);
    while (low < high) {
        const I step = (high - low) / 32 + 1, at = low + I(threadIdx.x % 32 + 1) * step - 1;
        const bool later = at >= high || ordered(second[from - at - 1]) < ordered(first[at]);
        const int part = __ffs(int(__ballot_sync(0xffffffffu, later))) - 1;
        low += part * step;
        high = minimum(high, low + step - 1);
    }
    return low;
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const K* __restrict__ keys, << "const I* __restrict__ indices, " if indexed >>K* __restrict__ out,
    << "I* __restrict__ out_indices, " if indexed >>I n, I tiles, I run)
{
    __shared__ K shared_keys[tile];
    __shared__ I shared_indices[indexed ? tile : 1];
    __shared__ I cut[2];
    const Target shared{shared_keys, shared_indices};
    const long long task = blockIdx.x;
    const I first = I(task % tiles) * tile;
    const long long base = task / tiles * n;
    const int size = int(minimum(I(tile), n - first));
    const I start = first / (2 * run) * (2 * run), from = first - start;
    const I middle = minimum(run, n - start), end = minimum(2 * run, n - start);
    const Source pair = Source{keys<< ", indices" if indexed >>} + (base + start);
    for (int w = threadIdx.x / 32; w < 2; w += block / 32) {
        const I split_at = split_by_warp(pair.keys, middle, pair.keys + middle, end - middle, from + w * size);
        if (threadIdx.x % 32 == 0) cut[w] = split_at;
    }
    __syncthreads();
    // The part of the first run, and after it that of the second.
    const int before = int(cut[1] - cut[0]);
    for (int i = threadIdx.x; i < size; i += block)
        shared.put(i, pair[i < before ? cut[0] + i : middle + (from - cut[0]) + (i - before)]);
    __syncthreads();
    merge(shared, before, size, int(threadIdx.x) * items);
    const Target to = Target{out<< ", out_indices" if indexed >>} + (base + first);
    for (int i = threadIdx.x; i < size; i += block) to.put(i, shared[i]);
}
