// Common to the kernels of a stable merge sort.
<% include "index/sort_keys.cuh" %>
constexpr int block = << block >>, lanes = << lanes >>, items = << items >>, tile = lanes * items;

struct Element {
    K key;
    I index;
};
// Elements in memory: their keys and, if they are indexed, the indices that they come from.
template <typename Key, typename IndexT>
struct Elements {
    Key* keys;
    IndexT* indices;

    __device__ __forceinline__ Elements operator+(long long n) const { return {keys + n, indexed ? indices + n : indices}; }
    template <typename N>
    __device__ __forceinline__ Element operator[](N i) const { return {keys[i], indexed ? indices[i] : I(0)}; }
    template <typename N>
    __device__ __forceinline__ void put(N i, Element element) const {
        keys[i] = element.key;
        if constexpr (indexed) indices[i] = element.index;
    }
};
using Source = Elements<const K, const I>;
using Target = Elements<K, I>;

// The rank of each of a thread's keys among them.
__device__ __forceinline__ void find_ranks(const O (&key)[items], int (&rank)[items]) {
#pragma unroll
    for (int i = 0; i < items; ++i) rank[i] = 0;
#pragma unroll
    for (int j = 0; j < items; ++j) {
#pragma unroll
        for (int i = 0; i < items; ++i) rank[i] += i > j ? key[j] <= key[i] : key[j] < key[i];
    }
}

// How many of the first `from` elements of the merge of `first` (n1) and `second` (n2) come from `first`: a binary search
// (Odeh, Green, Mwassi, Shmueli and Birk, "Merge path", 2012).
template <typename N>
__device__ __forceinline__ N split(const K* first, N n1, const K* second, N n2, N from) {
    N low = maximum(N(0), from - n2), high = minimum(from, n1);
    while (low < high) {
        const N middle = low + (high - low) / 2;
        const bool later = ordered(second[from - middle - 1]) < ordered(first[middle]);
        high = later ? middle : high;
        low = later ? low : middle + 1;
    }
    return low;
}
