// The keys of a sort: the bits of the elements as integers, and their order.
using K = << elem >>;
using O = << order >>;
using I = << index >>;
// Whether indices are sorted with the keys, and whether keys are the bits of floats, with those of their infinity.
constexpr bool indexed = << "true" if indexed else "false" >>, descending = << "true" if descending else "false" >>;
constexpr bool floating = << "true" if infinity and not pair else "false" >>;
constexpr long long infinity = << infinity or 0 >>;

<% if pair %>
// A number in whose order a float belongs; -0 and 0 have the same.
__device__ __forceinline__ int ordered_float(int bits) {
    const int sign = bits >> 31;
    return ((bits & limits<int>::highest()) ^ sign) - sign;
}

<% endif %>
// A number in whose order a canonical key belongs; -0 and 0 have the same.
__device__ __forceinline__ O ordered(K key) {
    O number = key;
<% if pair %>
    // The real part decides before the imaginary one; a NaN in one of them, and then in the other, before both.
    const int real = int(key), imag = int(key >> 32), magnitude = limits<int>::highest();
    const bool no_real = (real & magnitude) > infinity, no_imag = (imag & magnitude) > infinity;
    const int high = no_real || no_imag ? int(infinity) + no_imag + 2 * no_real : ordered_float(real);
    const int low = no_real ? (no_imag ? 0 : ordered_float(imag)) : ordered_float(no_imag ? real : imag);
    number = K(high) * (K(1) << "<<" >> 32) + low;
<% endif %>
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
