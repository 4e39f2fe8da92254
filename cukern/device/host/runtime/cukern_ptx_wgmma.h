// Products of a warpgroup by descriptors of matrices, as inline PTX has them.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace cukern {
// The elements that the base of a text may not know, as it names no half.
template <int format>
struct SmallBits {
    unsigned short bits;
    operator float() const { return format ? from_bfloat_bits(bits) : from_half_bits(bits); }
};
namespace factor {
using f16 = SmallBits<0>;
using bf16 = SmallBits<1>;
using tf32 = float;
using e4m3 = E4M3;
}  // namespace factor
}  // namespace cukern
template <>
constexpr bool is_float16<cukern::SmallBits<0>> = true;
template <>
constexpr bool is_bfloat16<cukern::SmallBits<1>> = true;

namespace cukern {
// The shared memory whose address has these low 18 bits, which are all that a descriptor has.
inline const void* described(unsigned low, const char* file, int line) {
    constexpr unsigned mask = 0x3ffff;
    const auto at_or_after = [low](const void* known) { return (char*)known + ((low - (unsigned)(unsigned long long)known) & mask); };
#ifdef CUKERN_CHECKED
    const char* const first = (const char*)((unsigned long long)dynamic_shared_base & ~(unsigned long long)mask);
    constexpr int count = 64, step = 1 << 20;  // variables lie in slots of so many bytes
#else
    const char* const first = (const char*)&dynamic_shared_base - (1 << 17);
    constexpr int count = 1, step = 0;
#endif
    const void* const dynamic = at_or_after(dynamic_shared_base);
    if (runtime->is_shared(dynamic, 0)) return dynamic;
    for (int i = 0; i < count; ++i) {
        const void* const one = at_or_after(first + i * step);
        if (runtime->is_shared(one, 0)) return one;
    }
    if (!runtime->is_shared(dynamic, 16)) fault("the address of a matrix descriptor is not in the block's shared memory", file, line);
    return dynamic;
}
inline SharedMatrix matrix_of(unsigned long long descriptor, const char* file, int line) {
    if (descriptor >> 62 != 1) fault("a matrix descriptor without the swizzle of 128 bytes, which is all that the host has", file, line);
    if (descriptor >> 49 & 7) fault("a matrix descriptor with a base offset, which the host does not have", file, line);
    const auto field = [descriptor](int at) { return (int)(descriptor >> at & 0x3fff) * 16; };
    return SharedMatrix(described((unsigned)field(0), file, line), field(16), field(32));
}
// The accumulators, which have to follow one another in memory.
template <int count>
using Sums = float (&)[count];
template <class... T>
inline Sums<sizeof...(T)> sums(Here here, T&... d) {
    float* const at[] = {(float*)&d...};
    for (unsigned i = 1; i < sizeof...(T); ++i)
        if (at[i] != at[0] + i) fault("the accumulators of wgmma are not the elements of one array, in order", here.file, here.line);
    return *(float (*)[sizeof...(T)])at[0];
}
struct Words {
    unsigned word[4];
};
inline void require_positive(long long a, long long b, const char* file, int line) {
    if (a != 1 || b != 1) fault("wgmma of negated matrices, which the host does not have", file, line);
}
template <class T, int N>
inline void wgmma_of(float (&d)[N / 2], unsigned long long a, unsigned long long b, bool add, long long sign_a, long long sign_b,
                     int by_rows_a = 0, int by_rows_b = 0, CUKERN_HERE) {
    require_positive(sign_a, sign_b, file, line);
    const SharedMatrix of_a = matrix_of(a, file, line), of_b = matrix_of(b, file, line);
    if constexpr (sizeof(T) == 2) {
        if (by_rows_a && by_rows_b) return wgmma<T, N, false, false>(d, of_a, of_b, add, file, line);
        if (by_rows_a) return wgmma<T, N, false, true>(d, of_a, of_b, add, file, line);
        if (by_rows_b) return wgmma<T, N, true, false>(d, of_a, of_b, add, file, line);
    }
    wgmma<T, N, true, true>(d, of_a, of_b, add, file, line);
}
template <class T, int N>
inline void wgmma_of(float (&d)[N / 2], Words a, unsigned long long b, bool add, long long sign_a, long long sign_b,
                     int by_rows_b = 0, CUKERN_HERE) {
    require_positive(sign_a, sign_b, file, line);
    const SharedMatrix of_b = matrix_of(b, file, line);
    runtime->gives_registers(d, sizeof d, !add, file, line);
    WgmmaOperands own{d, nullptr, a.word, &of_b, add, thread_rank() / 32, file, line};
    const auto run = by_rows_b && sizeof(T) == 2 ? wgmma_of_warp<T, N, true, true, sizeof(T) != 2> : wgmma_of_warp<T, N, true, true, true>;
    if (by_rows_b) of_b.template require<T, sizeof(T) != 2>(0, N, file, line);
    else of_b.template require<T, true>(0, N, file, line);
    together("wgmma", run, &own, file, line);
}
}  // namespace cukern
