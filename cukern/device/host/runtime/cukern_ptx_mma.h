// Products of small matrices by the lanes of a warp, of all shapes and types of PTX's mma.sync whose lane 4 * g + q holds, with
// `parts` elements in a word, in word i of A row g + 8 * (i % 2) (g alone of 8 rows), from element 4 * parts * (i / 2) + parts * q
// on; in word i of B column g, from element parts * (4 * i + q) on; in element i of C and D row g + 8 * (i / 2), column
// 2 * q + i % 2. Source: PTX ISA, mma. The order of the sums, and how they are rounded, is not said there.
#pragma once
#include <cuda_fp8.h>

namespace cukern {
namespace of {
// A type of elements: its bits, and one of its elements of a word.
template <int width, class T>
struct Whole {
    static constexpr int bits = width;
    static constexpr bool is_exact = true;
    using Sum = long long;
    static Sum get(unsigned long long word, int part) { return (T)(word >> width * part << (64 - width)) >> (64 - width); }
    static unsigned long long put(Sum x) { return (unsigned)x; }
};
using s8 = Whole<8, long long>;
using u8 = Whole<8, unsigned long long>;
using s32 = Whole<32, long long>;
#define CUKERN_ELEMENT(name, width, value, stored)                                             \
    struct name {                                                                              \
        static constexpr int bits = width;                                                     \
        using Sum = double;                                                                    \
        static Sum get(unsigned long long word, int part) {                                    \
            [[maybe_unused]] const unsigned long long x = word >> width % 64 * part;           \
            return value;                                                                      \
        }                                                                                      \
        static unsigned long long put([[maybe_unused]] Sum x) { return stored; }               \
    };
CUKERN_ELEMENT(f16, 16, from_half_bits((unsigned short)x), __half(x).bits)
CUKERN_ELEMENT(bf16, 16, from_bfloat_bits((unsigned short)x), __nv_bfloat16(x).bits)
CUKERN_ELEMENT(tf32, 32, bits_as<float>((unsigned)x & ~0x1fffu), 0)
CUKERN_ELEMENT(f32, 32, bits_as<float>((unsigned)x), bits_as<unsigned>((float)x))
CUKERN_ELEMENT(f64, 64, bits_as<double>(word), bits_as<unsigned long long>(x))
CUKERN_ELEMENT(e4m3, 8, from_fp8((unsigned char)x, __NV_E4M3), 0)
CUKERN_ELEMENT(e5m2, 8, from_fp8((unsigned char)x, __NV_E5M2), 0)
#undef CUKERN_ELEMENT
}  // namespace of

// Registers of a lane: their bits, and where results go.
template <int count>
struct Ins {
    unsigned long long word[count];
};
template <int count>
struct Outs {
    unsigned long long word[count];
    void* at[count];
    unsigned bytes;
};
template <class... T>
inline Ins<sizeof...(T)> ins(T... x) { return {{bits_of(x)...}}; }
template <class... T>
inline Outs<sizeof...(T)> outs(T&... x) { return {{}, {(void*)&x...}, (unsigned)((sizeof(T) + ...) / sizeof...(T))}; }
// The registers of a lane for a number of elements of a warp's.
template <class T>
constexpr int registers(int elements) { return elements * (T::bits < 32 ? T::bits : 32) / (32 * 32); }

struct Factors {
    const unsigned long long *a, *b, *c;
    unsigned long long* d;
    bool saturates;
};
template <int M, int N, int K, class D, class A, class B, class C>
void mma_now(const unsigned long long* lanes) {
    using Sum = typename D::Sum;
    constexpr int parts = A::bits < 32 ? 32 / A::bits : 1, words = K / (4 * parts), c_parts = C::bits == 16 ? 2 : 1,
                  d_parts = D::bits == 16 ? 2 : 1;
    if (!__is_same(Sum, long long)) note_product(M, N, K, A::bits);
    Sum a[M][K], b[N][K];
    for (int lane = 0; lane < 32; ++lane) {
        const Factors& own = *(const Factors*)lanes[lane];
        for (int i = 0; i < words * M / 8; ++i)
            for (int part = 0; part < parts; ++part)
                a[M == 16 ? lane / 4 + 8 * (i % 2) : lane / 4][4 * parts * (M == 16 ? i / 2 : i) + lane % 4 * parts + part] =
                    A::get(own.a[i], part);
        for (int i = 0; i < words; ++i)
            for (int part = 0; part < parts; ++part)
                b[lane / 4][parts * (4 * i + lane % 4) + part] = B::get(own.b[i], part);
    }
    for (int lane = 0; lane < 32; ++lane) {
        const Factors& own = *(const Factors*)lanes[lane];
        for (int i = 0; i < M / 4; ++i) {
            const Sum *row = a[lane / 4 + 8 * (i / 2)], *column = b[2 * (lane % 4) + i % 2];
            Sum sum = C::get(own.c[i / c_parts], i % c_parts);
            for (int k = 0; k < K; ++k) sum += row[k] * column[k];
            if (own.saturates && sum != (Sum)(int)(long long)sum) sum = sum < 0 ? -2147483648ll : 2147483647ll;
            own.d[i / d_parts] |= D::put(sum) << D::bits % 64 * (i % d_parts);
        }
    }
}
template <int M, int N, int K, class D, class A, class B, class C, int ds, int as, int bs, int cs>
inline void mma(const char* name, Outs<ds> d, Ins<as> a, Ins<bs> b, Ins<cs> c, bool saturates, CUKERN_HERE) {
    static_assert(N == 8 && (M == 8 || M == 16), "inline PTX: mma of 8 or 16 rows and 8 columns");
    static_assert(A::bits == B::bits && registers<B>(N * K) > 0, "inline PTX: mma of a shape that the host does not have for these types");
    static_assert(ds == registers<D>(M * N) && as == registers<A>(M * K) && bs == registers<B>(N * K) && cs == registers<C>(M * N),
                  "inline PTX: mma with another number of registers than its matrices have");
    const Factors own{a.word, b.word, c.word, d.word, saturates};
    together(name, mma_now<M, N, K, D, A, B, C>, (void*)&own, file, line);
    for (int i = 0; i < ds; ++i) __builtin_memcpy(d.at[i], &d.word[i], d.bytes);
}

inline void transpose_now(const unsigned long long* lanes) {
    unsigned short matrix[8][8];
    for (int lane = 0; lane < 32; ++lane)
        for (int part = 0; part < 2; ++part)
            matrix[lane / 4][2 * (lane % 4) + part] = (unsigned short)(*(unsigned*)lanes[lane] >> 16 * part);
    for (int lane = 0; lane < 32; ++lane)
        *(unsigned*)lanes[lane] = matrix[2 * (lane % 4)][lane / 4] | (unsigned)matrix[2 * (lane % 4) + 1][lane / 4] << 16;
}
inline unsigned transposed_matrix(unsigned own, CUKERN_HERE) {
    together("movmatrix", transpose_now, &own, file, line);
    return own;
}
}  // namespace cukern
