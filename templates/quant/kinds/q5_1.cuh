// d, m, then fifth bits and nibbles of 32 weights as in Q5_0. d * q + m.
struct Kind {
    static constexpr int bits = 5, weights = 32, bytes = 24, align = 4, units = 1, groups = 2, zero = 0;
    static constexpr bool shifted = true, interleaved = false;
    struct Unit {
        unsigned high, words[own_words];
        float d, m;

        Unit() = default;
        __device__ __forceinline__ Unit(const unsigned char* block, int) : d(half_at(block)), m(half_at(block + 2)) {
            load_word_and_groups<align>(high, words, block + 4);
        }
        __device__ __forceinline__ Group decode(int i) const {
            Group result{{}, d, m};
#pragma unroll
            for (int j = 0; j < own_words; ++j)
                result.q[j] = (words[j] >> 4 * i & 0x0f0f0f0fu) | 16 * spread_bits(own_bits(high >> 16 * i, j));
            return result;
        }
    };
};
