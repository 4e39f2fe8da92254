// 128 bytes of low halves, 64 of two high bits, 16 signed scales of 16 weights, d. Of 128 weights, byte j of 64 has the low half
// of weight j, and in its high half that of weight j + 64; byte j of 32 has the high bits of weights j, j + 32, j + 64 and
// j + 96, the first in the lowest bits. d * scale * (q - 32).
struct Kind {
    static constexpr int bits = 6, weights = 256, bytes = 210, align = 2, units = 4, groups = 4, zero = 32;
    static constexpr bool shifted = false, interleaved = true;
    struct Unit {
        unsigned first[own_words], second[own_words], high[own_words];
        int scales[4];
        float d;

        Unit() = default;
        __device__ __forceinline__ Unit(const unsigned char* block, int unit) : d(half_at(block + 208)) {
            const unsigned char* const low = block + unit / 2 * 64 + unit % 2 * 16;
            load_groups<align>(first, low);
            load_groups<align>(second, low + 32);
            load_groups<align>(high, block + 128 + 16 * unit);
#pragma unroll
            for (int i = 0; i < 4; ++i) scales[i] = ((const signed char*)block)[192 + group_of<Kind>(unit, i)];
        }
        __device__ __forceinline__ Group decode(int i) const {
            Group result{{}, d * float(scales[i]), 0};
#pragma unroll
            for (int j = 0; j < own_words; ++j) {
                const unsigned low = (i % 2 ? second : first)[j] >> i / 2 * 4 & 0x0f0f0f0fu;
                result.q[j] = low | (i < 2 ? shl(high[j], 4 - 2 * i) : high[j] >> (2 * i - 4)) & 0x30303030u;
            }
            return result;
        }
    };
};
