// What the kernels of a stable radix sort of rows share: keys are sorted by one digit a pass, from the lowest on.
<% include "index/sort_keys.cuh" %>
// Counts of elements, and of what blocks tell each other: two bits say what the others are.
using Word = << word >>;
constexpr int digits = 256, passes = sizeof(K), block = << block >>, items = << items >>;

// The digit of a key that begins at a bit.
__device__ __forceinline__ int digit_of(K key, int bit) {
    using U = << unsigned >>;
    const U sign = limits<K>::is_signed ? shl((unsigned long long)1, 8 * int(sizeof(K)) - 1) : 0;
    return int(U(U(ordered(key)) ^ sign) >> bit) & (digits - 1);
}
