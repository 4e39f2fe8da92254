// d, m, then nibbles of 32 weights as in Q4_0. d * q + m.
struct Kind {
    static constexpr int bits = 4, weights = 32, bytes = 20, align = 4, units = 1, groups = 2, zero = 0;
    static constexpr int first_high = 1;  // of the groups whose weights are upper halves of bytes
    static constexpr bool shifted = true, interleaved = false;
    struct Unit {
        unsigned words[own_words];
        float d, m;

        Unit() = default;
        __device__ __forceinline__ Unit(const unsigned char* block, int) : d(half_at(block)), m(half_at(block + 2)) {
            load_groups<align>(words, block + 4);
        }
        __device__ __forceinline__ Group decode(int i) const {
            Group result{{}, d, m};
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
