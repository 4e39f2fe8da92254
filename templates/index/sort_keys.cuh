// The keys of a sort: the bits of the elements as integers, and their order.
using K = << elem >>;
using O = << order >>;
using I = << index >>;
// Whether places are sorted with the keys, and whether keys are the bits of floats, with those of their infinity.
constexpr bool indexed = << "true" if indexed else "false" >>, descending = << "true" if descending else "false" >>;
constexpr bool floating = << "true" if infinity else "false" >>;
constexpr long long infinity = << infinity or 0 >>;

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
