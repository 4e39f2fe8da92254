// d, d times the sum of the weights, which is not read, then 32 weights of 8 bits. d * q.
struct Kind {
    static constexpr int bits = 8, weights = 32, bytes = 36, align = 4, units = 1, groups = 2, zero = 0;
    static constexpr bool shifted = false, interleaved = false;
    struct Unit {
        unsigned words[2 * own_words];
        float d;

        Unit() = default;
        __device__ __forceinline__ Unit(const unsigned char* block, int) : d(half_at(block)) { load_groups<align>(words, block + 4); }
        __device__ __forceinline__ Group decode(int i) const {
            return group_in(words, i, d);
        }
    };
};
