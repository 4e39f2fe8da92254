// Floats of 4, 6 and 8 bits: single, in pairs and in fours, by a type Code with their conversions to and from numbers.
#pragma once
#include "cukern_half.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
enum cudaRoundMode { cudaRoundNearest, cudaRoundZero, cudaRoundPosInf, cudaRoundMinInf };

namespace cukern {
// The code of a positive number that is rounded to `bits` of a mantissa, with exponents of the bias `bias`.
inline unsigned small_code(double size, int bits, int bias, bool nearest = true) {
    if (size == 0) return 0;
    int exponent;
    __builtin_frexp(size, &exponent);
    const int lowest = 1 - bias, power = exponent - 1 < lowest ? lowest : exponent - 1;
    const double exact = __builtin_ldexp(size, bits - power), units = nearest ? __builtin_rint(exact) : __builtin_floor(exact);
    // A mantissa that is rounded up to the next power of two carries into the exponent.
    return units < (1 << bits) ? (unsigned)units : (unsigned)((power + bias) << bits) + (unsigned)units - (1 << bits);
}
inline float from_small_code(unsigned code, int bits, int bias) {
    const int exponent = (int)code >> bits, mantissa = (int)code & ((1 << bits) - 1);
    if (exponent == 0) return __builtin_ldexpf((float)mantissa, 1 - bias - bits);
    return __builtin_ldexpf((float)(mantissa + (1 << bits)), exponent - bias - bits);
}

// Without infinities and NaN: numbers beyond the largest become it, and so does NaN.
template <int exponent_bits, int bits>
struct Finite {
    static constexpr int bias = (1 << (exponent_bits - 1)) - 1;
    static constexpr unsigned top = (1u << (exponent_bits + bits)) - 1;
    static unsigned char of(double x, cudaRoundMode mode = cudaRoundNearest) {
        if (mode != cudaRoundNearest && mode != cudaRoundZero)
            fault("a conversion to 4 or 6 bits that does not round to nearest or to zero", nullptr, 0);
        const double size = __builtin_fabs(x), most = from_small_code(top, bits, bias);
        const unsigned code = size <= most ? small_code(size, bits, bias, mode == cudaRoundNearest) : top;
        return (unsigned char)(code | (x == x && __builtin_signbit(x) ? top + 1 : 0));
    }
    static float number(unsigned code) {
        const float size = from_small_code(code & top, bits, bias);
        return code > top ? -size : size;
    }
};

// As conversions to it are, with one NaN.
template <Format format>
inline Raw<format> raw_of(float x) {
    return x == x ? Raw<format>(Small<format>(x)) : Raw<format>{0x7fff};
}

template <class Code>
struct Minifloat {
    unsigned char __x;
    Minifloat() = default;
    explicit Minifloat(double x) : __x(Code::of(x)) {}
    explicit Minifloat(float x) : __x(Code::of(x)) {}
    explicit Minifloat(__half x) : Minifloat((float)x) {}
    explicit Minifloat(__nv_bfloat16 x) : Minifloat((float)x) {}
    template <class T, class = typename IntegerAsDouble<T>::type>
    explicit Minifloat(T x) : Minifloat((float)x) {}
    explicit operator float() const { return Code::number(__x); }
    explicit operator double() const { return Code::number(__x); }
    template <Format format>
    explicit operator Small<format>() const {
        return raw_of<format>(Code::number(__x));
    }
    explicit operator bool() const { return Code::number(__x) != 0; }
    template <class T, class = typename IntegerAsDouble<T>::type>
    explicit operator T() const {
        return saturate<T>(__builtin_truncf(Code::number(__x)));
    }
};

template <int bits>
struct WordOf {};
template <> struct WordOf<8> { using type = unsigned char; };
template <> struct WordOf<16> { using type = unsigned short; };
template <> struct WordOf<32> { using type = unsigned; };
// Several in one word, each in `width` of its bits, the first in the lowest ones.
template <class Code, int width, int count>
struct Minifloats {
    typename WordOf<width * count>::type __x;

   protected:
    template <class... T>
    void set(T... values) {
        unsigned word = 0, at = 0;
        ((word |= (unsigned)Code::of(values) << at, at += width), ...);
        __x = (decltype(__x))word;
    }
    float get(int i) const { return Code::number(__x >> width * i & ((1u << width) - 1)); }
};
template <class Code, int width>
struct Minifloat2 : Minifloats<Code, width, 2> {
    Minifloat2() = default;
    explicit Minifloat2(float2 x) { this->set(x.x, x.y); }
    explicit Minifloat2(double2 x) { this->set(x.x, x.y); }
    template <Format format>
    explicit Minifloat2(Small2<format> x) { this->set((float)x.x, (float)x.y); }
    explicit operator float2() const { return {this->get(0), this->get(1)}; }
    template <Format format>
    explicit operator Small2<format>() const {
        return {raw_of<format>(this->get(0)), raw_of<format>(this->get(1))};
    }
};
template <class Code, int width>
struct Minifloat4 : Minifloats<Code, width, 4> {
    Minifloat4() = default;
    explicit Minifloat4(float4 x) { this->set(x.x, x.y, x.z, x.w); }
    explicit Minifloat4(double4 x) { this->set(x.x, x.y, x.z, x.w); }
    template <Format format>
    Minifloat4(Small2<format> low, Small2<format> high) {
        this->set((float)low.x, (float)low.y, (float)high.x, (float)high.y);
    }
    explicit operator float4() const { return {this->get(0), this->get(1), this->get(2), this->get(3)}; }
};

inline double number_of(double x) { return x; }
inline float number_of(float x) { return x; }
template <Format format>
inline float number_of(Raw<format> x) {
    return (float)Small<format>(x);
}
}  // namespace cukern

// A function that converts a number, and one for two of them; `code` takes a double and what else the functions are given.
#define CUKERN_CONVERSION(name, name2, one, two, T, T2, width, code, A, B)                                   \
    static inline T name(one x, A a, B b) { return code(cukern::number_of(x), a, b); }                       \
    static inline T2 name2(two x, A a, B b) {                                                                \
        return (T2)(code(cukern::number_of(one{x.x}), a, b) | code(cukern::number_of(one{x.y}), a, b) << width); \
    }
#define CUKERN_CONVERSIONS(to, width, code, A, B)                                                            \
    CUKERN_CONVERSION(__nv_cvt_double_to_##to, __nv_cvt_double2_to_##to##x2, double, double2,                \
                      __nv_##to##_storage_t, __nv_##to##x2_storage_t, width, code, A, B)                     \
    CUKERN_CONVERSION(__nv_cvt_float_to_##to, __nv_cvt_float2_to_##to##x2, float, float2,                    \
                      __nv_##to##_storage_t, __nv_##to##x2_storage_t, width, code, A, B)                     \
    CUKERN_CONVERSION(__nv_cvt_halfraw_to_##to, __nv_cvt_halfraw2_to_##to##x2, __half_raw, __half2_raw,      \
                      __nv_##to##_storage_t, __nv_##to##x2_storage_t, width, code, A, B)                     \
    CUKERN_CONVERSION(__nv_cvt_bfloat16raw_to_##to, __nv_cvt_bfloat16raw2_to_##to##x2, __nv_bfloat16_raw,    \
                      __nv_bfloat162_raw, __nv_##to##_storage_t, __nv_##to##x2_storage_t, width, code, A, B)
#define CUKERN_CONVERSIONS_BACK(from, width, number, A)                                                      \
    static inline __half_raw __nv_cvt_##from##_to_halfraw(__nv_##from##_storage_t x, A a) {                  \
        return cukern::raw_of<cukern::half_format>(number(x, a));                                            \
    }                                                                                                        \
    static inline __half2_raw __nv_cvt_##from##x2_to_halfraw2(__nv_##from##x2_storage_t x, A a) {            \
        return {__nv_cvt_##from##_to_halfraw((unsigned char)(x & ((1u << width) - 1)), a).x,                 \
                __nv_cvt_##from##_to_halfraw((unsigned char)(x >> width), a).x};                             \
    }
