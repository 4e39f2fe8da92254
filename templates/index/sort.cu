// Stable merge sort of rows of `n` elements: keys (rows, n), the bits of the elements as integers<< ", and the places they come from" if indexed >>.
// Stage "tile": runs of << tile >> elements become sorted, << lanes >> thread(s) sharing a run, << items >> elements each. Stage "merge":
// pairs of sorted runs of `run` elements become one; which parts of the two make a part of the result, a binary search
// tells (Odeh, Green, Mwassi, Shmueli and Birk, "Merge path", 2012).
// Launch: << block >> thread(s) a block<< "; a thread sorts `piece` tiles, or merges `piece` elements" if serial else ", << tile >> elements of the result a group" >>. Shared: << "none" if serial else "the tiles of a block" >>.
using K = << elem >>;
using O = << order >>;
using I = << index >>;

// A number in whose order a canonical key belongs; -0 and 0 have the same.
__device__ __forceinline__ O ordered(K key) {
<% if infinity %>
    const O sign = O(key) >> (8 * int(sizeof(O)) - 1);
    const O number = ((key & limits<K>::highest()) ^ sign) - sign;
<% else %>
    const O number = key;
<% endif %>
    return << "~number" if descending else "number" >>;
}

// The key itself, or of every NaN the same one, which is above infinity.
__device__ __forceinline__ K canonical(K key) {
<% if infinity %>
    return (key & limits<K>::highest()) > K(<< infinity >>ll) ? limits<K>::highest() : key;
<% else %>
    return key;
<% endif %>
}

// How many of the first `from` elements of the merge of `first` (n1) and `second` (n2) come from `first`.
template <typename N>
__device__ __forceinline__ N split(const K* first, N n1, const K* second, N n2, N from) {
    N low = maximum(N(0), from - n2), high = minimum(from, n1);
    while (low < high) {
        const N half = low + (high - low) / 2;
        const bool later = ordered(second[from - half - 1]) < ordered(first[half]);
        high = later ? half : high;
        low = later ? low : half + 1;
    }
    return low;
}
<% if stage == "tile" %>

// The rank of each of << items >> keys among them.
__device__ __forceinline__ void find_ranks(const O (&key)[<< items >>], int (&rank)[<< items >>]) {
#pragma unroll
    for (int i = 0; i < << items >>; ++i) rank[i] = 0;
#pragma unroll
    for (int j = 0; j < << items >>; ++j) {
#pragma unroll
        for (int i = 0; i < << items >>; ++i) rank[i] += i > j ? key[j] <= key[i] : key[j] < key[i];
    }
}
<% endif %>
<% include "index/sort_serial.cuh" if serial else "index/sort_shared.cuh" %>
