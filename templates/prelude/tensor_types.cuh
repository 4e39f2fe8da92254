// The types that tensor cores take besides __half and __nv_bfloat16: tf32, which is a float with 10 bits of mantissa, and
// e4m3, 8 bits of which 4 are the exponent and 3 the mantissa: up to 448, in steps of 2**-9 below 2**-6, no infinity.
// Source: PTX ISA, cvt, alternate floating-point data formats.
#ifndef CUKERN_TENSOR_TYPES
#define CUKERN_TENSOR_TYPES

struct E4M3 {
    unsigned char bits;
};
template <typename T>
constexpr bool is_e4m3 = false;
template <>
constexpr bool is_e4m3<E4M3> = true;
template <typename T>
constexpr bool is_tf32 = false;
template <>
constexpr bool is_tf32<float> = true;
template <typename T>
constexpr bool is_tensor_type = is_float16<T> || is_bfloat16<T> || is_tf32<T> || is_e4m3<T>;

#ifdef __CUDACC__

// A float rounded to tf32, away from zero in the middle. The products do not round: they leave out the low 13 bits.
__device__ __forceinline__ unsigned as_tf32(float x) {
    unsigned word;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(x));
    return word;
}
// Four floats rounded to e4m3, to even in the middle, in one word, the first in its low byte (sm_89 and up). Those beyond 448,
// infinities too, become 448 or -448; NaN stays NaN.
__device__ __forceinline__ unsigned as_e4m3x4(float a, float b, float c, float d) {
    unsigned word;
    asm("{ .reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, %2, %1; cvt.rn.satfinite.e4m3x2.f32 high, %4, %3; "
        "mov.b32 %0, {low, high}; }" : "=r"(word) : "f"(a), "f"(b), "f"(c), "f"(d));
    return word;
}
__device__ __forceinline__ float as_float(E4M3 x) {
    unsigned pair;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"((unsigned short)x.bits));
    float value;
    asm("{ .reg .b16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(pair));
    return value;
}

#else

inline unsigned as_tf32(float x) {
    const unsigned word = cukern::bits_as<unsigned>(x);
    return (word & 0x7f800000) == 0x7f800000 ? word : (word + 0x1000) & ~0x1fffu;
}
inline float as_float(E4M3 x) {
    const int exponent = x.bits / 8 % 16, mantissa = x.bits % 8;
    if ((x.bits & 0x7f) == 0x7f) return cukern::bits_as<float>(0x7fffffffu);  // the NaN that GPUs make
    const float size = exponent ? cukern::bits_as<float>((unsigned)(shl(exponent + 120, 23) | shl(mantissa, 20)))
                                : mantissa * 0x1p-9f;
    return x.bits & 0x80 ? -size : size;
}

namespace cukern {
inline unsigned e4m3_bits(float x) {
    const unsigned word = bits_as<unsigned>(x), sign = word >> 24 & 0x80, size = word & 0x7fffffff;
    if (size > 0x7f800000) return 0x7f;
    const float absolute = bits_as<float>(size);
    if (absolute >= 448) return sign | 0x7e;
    if (absolute < 0x1p-6f) return sign | (unsigned)__builtin_rintf(absolute * 0x1p9f);
    return sign | (((size + 0x7ffff + (size >> 20 & 1)) >> 20) - 8 * 120);
}
// What the products make of an element.
template <typename T>
inline float factor_of(const void* element) {
    T x;
    __builtin_memcpy(&x, element, sizeof x);
    if constexpr (is_e4m3<T>) return as_float(x);
    else if constexpr (is_tf32<T>) return bits_as<float>(bits_as<unsigned>(x) & ~0x1fffu);
    else return (float)x;
}
// A sum and the products of two rows of factors. These are variables of the function that multiplies, which nobody need watch.
template <int K>
__attribute__((no_sanitize("thread", "alignment", "signed-integer-overflow"))) inline double with_products(
    double sum, const float (&a)[K], const float (&b)[K]) {
    for (int k = 0; k < K; ++k) sum += (double)a[k] * b[k];
    return sum;
}
// The factors in the words of A that a lane of a warp holds; see mma.cuh.
template <typename T>
inline void spread_words(float (*rows)[32 / sizeof(T)], int lane, const unsigned* words) {
    constexpr int parts = 4 / sizeof(T);
    for (int i = 0; i < 4; ++i)
        for (int part = 0; part < parts; ++part)
            rows[lane / 4 + 8 * (i % 2)][4 * parts * (i / 2) + lane % 4 * parts + part] =
                factor_of<T>((const char*)&words[i] + part * sizeof(T));
}
}  // namespace cukern

inline unsigned as_e4m3x4(float a, float b, float c, float d) {
    return cukern::e4m3_bits(a) | shl(cukern::e4m3_bits(b), 8) | shl(cukern::e4m3_bits(c), 16) | shl(cukern::e4m3_bits(d), 24);
}

#endif
#endif  // CUKERN_TENSOR_TYPES
