// Merging in shared memory, by the threads of a block.
<% include "index/sort.cuh" %>

// The next `items` elements, from `from` on, of the merge of elements [0, middle) and [middle, end), written
// over them. All threads of the block call it, those that have none with from >= end.
__device__ __forceinline__ void merge(Target shared, int middle, int end, int from) {
    Element held[items];
    if (from < end) {
        int a = split(shared.keys, middle, shared.keys + middle, end - middle, from), b = middle + from - a;
#pragma unroll
        for (int i = 0; i < items; ++i) {
            if (from + i >= end) break;
            const bool later = a >= middle || (b < end && ordered(shared.keys[b]) < ordered(shared.keys[a]));
            held[i] = shared[later ? b++ : a++];
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < items; ++i) {
        if (from + i >= end) break;
        shared.put(from + i, held[i]);
    }
    __syncthreads();
}
