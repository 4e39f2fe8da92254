// d, dmin, scales and minimums as in Q4_K; 32 bytes of fifth bits, bit n of byte j that of weight 32 * n + j; 128 bytes of
// nibbles as in Q4_K. d * scale * q - dmin * minimum.
<% include "quant/kinds/scales_k.cuh" %>
struct Kind {
    static constexpr int bits = 5, weights = 256, bytes = 176, align = 16, units = 4, groups = 4, zero = 0;
    static constexpr bool shifted = true, interleaved = false;
    struct Unit {
        unsigned words[2 * own_words], high[2 * own_words];
        ScalesK of;

        Unit() = default;
        __device__ __forceinline__ Unit(const unsigned char* block, int unit) : of(block, unit) {
            load_groups<align>(words, block + 48 + 32 * unit);
            load_groups<align>(high, block + 16);
#pragma unroll
            for (int i = 0; i < 2 * own_words; ++i) high[i] >>= 2 * unit;
        }
        __device__ __forceinline__ Group decode(int i) const {
            Group result{{}, of.scale[i / 2], of.least[i / 2]};
#pragma unroll
            for (int j = 0; j < own_words; ++j)
                result.q[j] = (words[i % 2 * own_words + j] >> i / 2 * 4 & 0x0f0f0f0fu) | (high[i % 2 * own_words + j] >> i / 2 & 0x01010101u) * 16;
            return result;
        }
    };
};
