// Numbers that blocks tell each other through memory that is 0 at first: of each word half is bits of the number and
// half says that they are there, so that no fence is needed, and who sees a word has it whole.
// A block takes its place in the order by a ticket, so that whom it waits for is at work already.
using Word = unsigned long long;
constexpr int words = (sizeof(T) + 3) / 4;
union Bits {
    T value;
    unsigned at[words];
};

__device__ __forceinline__ void tell(volatile Word* to, T value) {
    Bits bits;
    bits.at[words - 1] = 0;
    bits.value = value;
#ifdef __CUDA_ARCH__
    if constexpr (words % 2 == 0) {
#pragma unroll
        for (int i = 0; i < words; i += 2)
            asm volatile("st.volatile.v2.u64 [%0], {%1, %2};" ::"l"(to + i), "l"(shl((Word)bits.at[i], 32) | 1),
                         "l"(shl((Word)bits.at[i + 1], 32) | 1) : "memory");
        return;
    }
#endif
#pragma unroll
    for (int i = 0; i < words; ++i) to[i] = shl((Word)bits.at[i], 32) | 1;
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
#ifdef __CUDA_ARCH__
        if constexpr (words % 2 == 0) {
#pragma unroll
            for (int i = 0; i < words; i += 2)
                asm volatile("ld.volatile.v2.u64 {%0, %1}, [%2];" : "=l"(seen[i]), "=l"(seen[i + 1]) : "l"(from + i) : "memory");
            return;
        }
#endif
#pragma unroll
        for (int i = 0; i < words; ++i) seen[i] = from[i];
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
