// Common to the kernels of a stable least-significant-digit radix sort of rows.
<% include "index/sort_keys.cuh" %>
// Counts of elements, and the status words of the look-back: two bits say what the others are.
using Word = << word >>;
constexpr int digits = 256, passes = sizeof(K), block = << block >>, items = << items >>;

// The digit of a key that begins at a bit.
__device__ __forceinline__ int digit_of(K key, int bit) {
    using U = << unsigned >>;
    const U sign = limits<K>::is_signed ? shl((unsigned long long)1, 8 * int(sizeof(K)) - 1) : 0;
    return int(U(U(ordered(key)) ^ sign) >> bit) & (digits - 1);
}
