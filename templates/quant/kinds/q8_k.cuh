// d as a float, 256 weights of 8 bits, the sums of each 16, which are not read. d * q.
struct Kind {
    static constexpr int bits = 8, weights = 256, bytes = 292, align = 4, units = 4, groups = 4, zero = 0;
    static constexpr bool shifted = false, interleaved = false;
    struct Unit {
        unsigned words[4 * own_words];
        float d;

        Unit() = default;
        __device__ __forceinline__ Unit(const unsigned char* block, int unit) : d(*(const float*)block) {
            load_groups<align>(words, block + 4 + 64 * unit);
        }
        __device__ __forceinline__ Group decode(int i) const {
            return group_in(words, i, d);
        }
    };
};
