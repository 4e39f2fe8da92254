// d, then nibbles of 32 weights: byte j has weight j in its low half and weight j + 16 in its high one. d * (q - 8).
struct Kind {
    static constexpr int bits = 4, weights = 32, bytes = 18, align = 2, units = 1, groups = 2, zero = 8;
    static constexpr int first_high = 1;  // of the groups whose weights are upper halves of bytes
    static constexpr bool shifted = false, interleaved = false;
    struct Unit {
        unsigned words[own_words];
        float d;

        Unit() = default;
        __device__ __forceinline__ Unit(const unsigned char* block, int) : d(half_at(block)) { load_groups<align>(words, block + 2); }
        __device__ __forceinline__ Group decode(int i) const {
            Group result{{}, d, 0};
#pragma unroll
            for (int j = 0; j < own_words; ++j) result.q[j] = words[j] >> 4 * i & 0x0f0f0f0fu;
            return result;
        }
        // The bytes of decode(i).q[j], 16 times as large from group first_high on: where they are.
        __device__ __forceinline__ unsigned in_place(int i, int j) const {
            return words[j] & (i < first_high ? 0x0f0f0f0fu : 0xf0f0f0f0u);
        }
    };
};
