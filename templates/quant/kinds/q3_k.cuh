// 32 bytes of third bits, bit n of byte j that of weight 32 * n + j; 64 bytes of two bits a weight as in Q2_K; 16 scales of 6
// bits in 12 bytes: of scale n the low 4 bits in a half of byte n % 8, the high 2 in byte 8 + n % 4; d.
// d * (scale - 32) * (q - 4).
struct Kind {
    static constexpr int bits = 3, weights = 256, bytes = 110, align = 2, units = 4, groups = 4, zero = 4;
    static constexpr bool shifted = false, interleaved = true;
    struct Unit {
        unsigned words[own_words], high[own_words];
        int scales[4];
        float d;

        Unit() = default;
        __device__ __forceinline__ Unit(const unsigned char* block, int unit) : d(half_at(block + 108)) {
            load_groups<align>(words, block + 32 + 16 * unit);
            load_groups<align>(high, block + 16 * (unit % 2));
#pragma unroll
            for (int i = 0; i < own_words; ++i) high[i] >>= unit / 2 * 4;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int n = group_of<Kind>(unit, i);
                scales[i] = (block[96 + n % 8] >> n / 8 * 4 & 15) + (block[104 + n % 4] >> n / 4 * 2 & 3) * 16 - 32;
            }
        }
        __device__ __forceinline__ Group decode(int i) const {
            Group result{{}, d * float(scales[i]), 0};
#pragma unroll
            for (int j = 0; j < own_words; ++j) result.q[j] = (words[j] >> 2 * i & 0x03030303u) | (high[j] >> i & 0x01010101u) * 4;
            return result;
        }
    };
};
