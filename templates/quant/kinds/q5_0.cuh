// d, 32 fifth bits, weight j's in bit j, then nibbles of 32 weights as in Q4_0. d * (q - 16).
struct Kind {
    static constexpr int bits = 5, weights = 32, bytes = 22, align = 2, units = 1, groups = 2, zero = 16;
    static constexpr bool shifted = false, interleaved = false;
    struct Unit {
        unsigned high, words[own_words];
        float d;

        Unit() = default;
        __device__ __forceinline__ Unit(const unsigned char* block, int) : d(half_at(block)) { load_word_and_groups<align>(high, words, block + 2); }
        __device__ __forceinline__ Group decode(int i) const {
            Group result{{}, d, 0};
#pragma unroll
            for (int j = 0; j < own_words; ++j)
                result.q[j] = (words[j] >> 4 * i & 0x0f0f0f0fu) | 16 * spread_bits(own_bits(high >> 16 * i, j));
            return result;
        }
    };
};
