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
// The value of a float16 with these bits. All of them are normal as floats.
__device__ __forceinline__ float half_bits(unsigned short bits) {
    return __half2float(__ushort_as_half(bits));
}
__device__ __forceinline__ float half_at(const unsigned char* from) { return half_bits(*(const unsigned short*)from); }
// Four bits, one in each byte.
__device__ __forceinline__ unsigned spread_bits(unsigned four) { return four * 0x00204081u & 0x01010101u; }
