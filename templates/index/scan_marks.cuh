<% include "prelude/volatile_words.cuh" %>
// Numbers that blocks tell each other through memory that is 0 at first: of each word half is bits of the number and
// half says that they are there, so that no fence is needed, and who sees a word has it whole.
// A block takes its place in the order by a ticket, so that whom it waits for is at work already.
using Word = unsigned long long;
constexpr int words = (sizeof(T) + 3) / 4;
// Nanoseconds between two looks at what is waited for.
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

// A number that is waited for, neutral() unless `wanted`.
struct Awaited {
    const volatile Word* from;
    bool here;
    T value;
    Word seen[words];

    __device__ __forceinline__ Awaited(const volatile Word* from, bool wanted) : from(from), here(!wanted), value(neutral()) {}
    // Several are looked up before the first is looked at, so that they are on their way together.
    __device__ __forceinline__ void look_up() {
        if (here) return;
        load_volatile(seen, from);
    }
    __device__ __forceinline__ void look() {
        if (here) return;
        Bits bits;
        Word marks = 1;
#pragma unroll
        for (int i = 0; i < words; ++i) {
            bits.at[i] = (unsigned)(seen[i] / 4294967296ull);
            marks &= seen[i];
        }
        if (marks) here = true, value = bits.value;
    }
};
