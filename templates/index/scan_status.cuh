<% include "prelude/volatile_words.cuh" %>
// Values that blocks pass each other through zeroed memory: half of each word is bits of the value and half a flag that
// they are there, so no fence is needed, and a word is never seen half written.
// A block draws its tile by a ticket, so the blocks that it waits for are running already.
using Word = unsigned long long;
constexpr int words = (sizeof(T) + 3) / 4;
// Nanoseconds between two polls.
constexpr unsigned pause = << pause >>;
union Bits {
    T value;
    unsigned at[words];
};

__device__ __forceinline__ void tell(volatile Word* to, T value) {
    Bits bits;
    bits.at[words - 1] = 0;
    bits.value = value;
    Word marked[words];
#pragma unroll
    for (int i = 0; i < words; ++i) marked[i] = shl((Word)bits.at[i], 32) | 1;
    store_volatile(to, marked);
}

// A value that is waited for, neutral() unless `wanted`.
struct Awaited {
    const volatile Word* from;
    bool here;
    T value;
    Word seen[words];

    __device__ __forceinline__ Awaited(const volatile Word* from, bool wanted) : from(from), here(!wanted), value(neutral()) {}
    // All words are read before the first is tested, so that the loads overlap.
    __device__ __forceinline__ void look_up() {
        if (here) return;
        load_volatile(seen, from);
    }
    __device__ __forceinline__ void look() {
        if (here) return;
        Bits bits;
        Word flags = 1;
#pragma unroll
        for (int i = 0; i < words; ++i) {
            bits.at[i] = (unsigned)(seen[i] / 4294967296ull);
            flags &= seen[i];
        }
        if (flags) here = true, value = bits.value;
    }
};
