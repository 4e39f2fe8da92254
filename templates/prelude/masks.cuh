// Conditions as masks of 32 bits, 0 or -1, packed to bools: by saturation, where compilers would mask the bits first.
// Only on the host, and where that is faster than a plain loop.
#if defined(__AVX2__) && !defined(__AVX512BW__) && !defined(CUKERN_CHECKED)
constexpr bool packs_masks = true;
template <int count>
inline void pack_masks(const int* masks, bool* to) {
    static_assert(count % 32 == 0, "whole vectors");
    typedef int Words __attribute__((vector_size(32), aligned(4)));
    typedef char Bytes __attribute__((vector_size(32), aligned(1)));
    const Words order = {0, 4, 1, 5, 2, 6, 3, 7};  // each half of a vector is packed by itself
    for (int i = 0; i < count; i += 32) {
        const Words* part = (const Words*)(masks + i);
        const auto low = __builtin_ia32_packssdw256(part[0], part[1]), high = __builtin_ia32_packssdw256(part[2], part[3]);
        const Words bytes = (Words)__builtin_ia32_packsswb256(low, high);
        *(Bytes*)(to + i) = (Bytes)__builtin_ia32_permvarsi256(bytes, order) & 1;
    }
}
#else
constexpr bool packs_masks = false;
template <int count>
inline void pack_masks(const int* masks, bool* to) {}
#endif
