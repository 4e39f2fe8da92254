// N words of 32 bits from an address that is aligned to ALIGN bytes: 2, 4 or 16.
template <int ALIGN, int N>
__device__ __forceinline__ void load_words(unsigned (&to)[N], const unsigned char* from) {
    if constexpr (ALIGN == 16 && N % 4 == 0) {
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            const uint4 four = *(const uint4*)(from + 4 * i);
            to[i] = four.x, to[i + 1] = four.y, to[i + 2] = four.z, to[i + 3] = four.w;
        }
    } else if constexpr (ALIGN >= 4) {
#pragma unroll
        for (int i = 0; i < N; ++i) to[i] = ((const unsigned*)from)[i];
    } else {
        // The words that hold them; if the address is between two, also half of the one behind.
        const bool between = (unsigned long long)from % 4;
        const unsigned* const first = (const unsigned*)(from - (between ? 2 : 0));
        unsigned held[N + 1];
#pragma unroll
        for (int i = 0; i < N; ++i) held[i] = first[i];
        held[N] = between ? *(const unsigned short*)(first + N) : 0;
#pragma unroll
        for (int i = 0; i < N; ++i) to[i] = __funnelshift_r(held[i], held[i + 1], between ? 16 : 0);
    }
}
// The thread's own words of groups of 16 weights, 16 bytes each, which follow each other.
template <int ALIGN, int N>
__device__ __forceinline__ void load_groups(unsigned (&to)[N], const unsigned char* from) {
    if constexpr (own_words == 4) {
        load_words<ALIGN>(to, from);
    } else {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const unsigned short* const own = (const unsigned short*)(from + 16 * i) + threadIdx.x % 4;
            to[i] = __byte_perm(own[0], own[4], 0x5410);
        }
    }
}
// A word and such groups behind it.
template <int ALIGN, int N>
__device__ __forceinline__ void load_word_and_groups(unsigned& word, unsigned (&to)[N], const unsigned char* from) {
    if constexpr (own_words == 4) {
        unsigned all[N + 1];
        load_words<ALIGN>(all, from);
        word = all[0];
#pragma unroll
        for (int i = 0; i < N; ++i) to[i] = all[i + 1];
    } else {
        unsigned first[1];
        load_words<ALIGN>(first, from);
        word = first[0];
        load_groups<ALIGN>(to, from + 4);
    }
}
// Of a bit for each of a group's weights, those of the thread's j-th word.
__device__ __forceinline__ unsigned own_bits(unsigned bits, int j) {
    const unsigned own = bits >> (own_words == 4 ? 4 * j : threadIdx.x % 4 * 2);
    return own_words == 4 ? own & 15 : (own & 3) | (own >> 6 & 12);
}
// The value of a float16 with these bits. All of them are normal as floats.
__device__ __forceinline__ float half_bits(unsigned short bits) {
    return __half2float(__ushort_as_half(bits));
}
__device__ __forceinline__ float half_at(const unsigned char* from) { return half_bits(*(const unsigned short*)from); }
// Four bits, one in each byte.
__device__ __forceinline__ unsigned spread_bits(unsigned four) { return four * 0x00204081u & 0x01010101u; }
