// d, dmin, 8 scales and 8 minimums of 6 bits in 12 bytes, 128 bytes: of 64 weights, byte j of 32 has weight j in its low half
// and weight j + 32 in its high one. d * scale * q - dmin * minimum, one of each for 32 weights.
<% include "quant/kinds/scales_k.cuh" %>
struct Kind {
    static constexpr int bits = 4, weights = 256, bytes = 144, align = 16, units = 4, groups = 4, zero = 0;
    static constexpr int first_high = 2;  // of the groups whose weights are upper halves of bytes
    static constexpr bool shifted = true, interleaved = false;
    struct Unit {
        unsigned words[2 * own_words];
        ScalesK of;

        Unit() = default;
        __device__ __forceinline__ Unit(const unsigned char* block, int unit) : of(block, unit) {
            load_groups<align>(words, block + 16 + 32 * unit);
        }
        __device__ __forceinline__ Group decode(int i) const {
            Group result{{}, of.scale[i / 2], of.least[i / 2]};
#pragma unroll
            for (int j = 0; j < own_words; ++j) result.q[j] = words[i % 2 * own_words + j] >> i / 2 * 4 & 0x0f0f0f0fu;
            return result;
        }
        // The bytes of decode(i).q[j], 16 times as large from group first_high on: where they are.
        __device__ __forceinline__ unsigned in_place(int i, int j) const {
            return words[i % 2 * own_words + j] & (i < first_high ? 0x0f0f0f0fu : 0xf0f0f0f0u);
        }
    };
};
