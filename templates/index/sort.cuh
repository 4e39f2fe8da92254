// What the kernels of a stable merge sort share. Keys are the bits of the elements as integers.
using K = << elem >>;
using O = << order >>;
using I = << index >>;
constexpr int block = << block >>, lanes = << lanes >>, items = << items >>, tile = lanes * items;
// Whether places are sorted with the keys, and whether keys are the bits of floats, with those of their infinity.
constexpr bool indexed = << "true" if indexed else "false" >>, descending = << "true" if descending else "false" >>;
constexpr bool floating = << "true" if infinity else "false" >>;
constexpr long long infinity = << infinity or 0 >>;

struct Element {
    K key;
    I place;
};
// Elements in memory: their keys and, if they are indexed, the places that they come from.
template <typename Key, typename Place>
struct Elements {
    Key* keys;
    Place* places;

    __device__ __forceinline__ Elements operator+(long long n) const { return {keys + n, indexed ? places + n : places}; }
    template <typename N>
    __device__ __forceinline__ Element operator[](N i) const { return {keys[i], indexed ? places[i] : I(0)}; }
    template <typename N>
    __device__ __forceinline__ void put(N i, Element element) const {
        keys[i] = element.key;
        if constexpr (indexed) places[i] = element.place;
    }
};
using Source = Elements<const K, const I>;
using Target = Elements<K, I>;

// A number in whose order a canonical key belongs; -0 and 0 have the same.
__device__ __forceinline__ O ordered(K key) {
    O number = key;
    if constexpr (floating) {
        const O sign = number >> (8 * int(sizeof(O)) - 1);
        number = ((key & limits<K>::highest()) ^ sign) - sign;
    }
    return descending ? ~number : number;
}

// The key itself, or of every NaN the same one, which is above infinity.
__device__ __forceinline__ K canonical(K key) {
    return floating && (key & limits<K>::highest()) > K(infinity) ? limits<K>::highest() : key;
}

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
        const N half = low + (high - low) / 2;
        const bool later = ordered(second[from - half - 1]) < ordered(first[half]);
        high = later ? half : high;
        low = later ? low : half + 1;
    }
    return low;
}
