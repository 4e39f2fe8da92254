// 16 bytes, each with the scale and, in the high half, the minimum of 16 weights; 64 bytes; d, dmin. Of 128 weights, byte j of
// 32 has weights j, j + 32, j + 64 and j + 96, the first in the lowest bits. d * scale * q - dmin * minimum.
struct Kind {
    static constexpr int bits = 2, weights = 256, bytes = 84, align = 4, units = 4, groups = 4, zero = 0;
    static constexpr bool shifted = true, interleaved = true;
    struct Unit {
        unsigned words[own_words], scales[4];
        float d, dmin;

        Unit() = default;
        __device__ __forceinline__ Unit(const unsigned char* block, int unit) : d(half_at(block + 80)), dmin(half_at(block + 82)) {
            load_groups<align>(words, block + 16 + 16 * unit);
#pragma unroll
            for (int i = 0; i < 4; ++i) scales[i] = block[group_of<Kind>(unit, i)];
        }
        __device__ __forceinline__ Group decode(int i) const {
            Group result{{}, d * float(scales[i] & 15), -(dmin * float(scales[i] >> 4))};
#pragma unroll
            for (int j = 0; j < own_words; ++j) result.q[j] = words[j] >> 2 * i & 0x03030303u;
            return result;
        }
    };
};
