// __half and __nv_bfloat16: stored in 16 bits, computed in float, rounded to nearest even after each operation.
#pragma once
#include "cukern_half_bits.h"

namespace cukern {
CUKERN_INLINE float from_bfloat_bits(unsigned short bits) { return bits_as<float>((unsigned)bits << 16); }
CUKERN_INLINE unsigned short to_bfloat_bits(float x) {
    const unsigned bits = bits_as<unsigned>(x);
    const unsigned rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (unsigned short)(x != x ? (bits >> 16 | 0x40) : rounded);
}

// A 64-bit integer as double, with the last bit set when inexact.
template <class T>
inline double odd_double(T x) {
    if (sizeof(T) < 8) return (double)x;
    const double near = directed<double, __int128>(x, 0);
    return (__int128)near == (__int128)x ? near : bits_as<double>(bits_as<unsigned long long>(near) | 1);
}

enum Format { half_format, bfloat_format };

// The bits alone.
template <Format format>
struct Raw {
    unsigned short x;
};
template <Format format>
struct alignas(4) Raw2 {
    unsigned short x, y;
};

template <Format format>
struct Small {
    unsigned short bits;

    Small() = default;
    Small(Raw<format> raw) : bits(raw.x) {}
    operator Raw<format>() const { return {bits}; }
    Small(float x) : bits(format == half_format ? to_half_bits(x) : to_bfloat_bits(x)) {}
    Small(double x) : Small(odd_float(x)) {}
    template <class T, class = typename IntegerAsDouble<T>::type>
    Small(T x) {
        if constexpr (sizeof(T) < 4) *this = Small((float)x);
        else *this = Small(odd_double(x));
    }
    operator float() const { return format == half_format ? from_half_bits(bits) : from_bfloat_bits(bits); }

#define CUKERN_OPERATOR(op)                                                                     \
    friend inline Small operator op(Small x, Small y) { return Small((float)x op (float)y); }   \
    Small& operator op##=(Small y) { return *this = *this op y; }
    CUKERN_OPERATOR(+)
    CUKERN_OPERATOR(-)
    CUKERN_OPERATOR(*)
    CUKERN_OPERATOR(/)
#undef CUKERN_OPERATOR
#define CUKERN_OPERATOR(op) \
    friend inline bool operator op(Small x, Small y) { return (float)x op (float)y; }
    CUKERN_OPERATOR(==)
    CUKERN_OPERATOR(!=)
    CUKERN_OPERATOR(<)
    CUKERN_OPERATOR(<=)
    CUKERN_OPERATOR(>)
    CUKERN_OPERATOR(>=)
#undef CUKERN_OPERATOR
    Small operator+() const { return *this; }
    Small operator-() const { return from_bits(bits ^ 0x8000); }
    Small& operator++() { return *this += Small(1.0f); }
    Small& operator--() { return *this -= Small(1.0f); }
    static Small from_bits(unsigned short bits) {
        Small result;
        result.bits = bits;
        return result;
    }
};

template <Format format>
struct alignas(4) Small2 {
    Small<format> x, y;
    Small2() = default;
    Small2(Small<format> x, Small<format> y) : x(x), y(y) {}
    Small2(Raw2<format> raw) : x(Raw<format>{raw.x}), y(Raw<format>{raw.y}) {}
    operator Raw2<format>() const { return {x.bits, y.bits}; }

#define CUKERN_OPERATOR(op) \
    friend inline Small2 operator op(Small2 a, Small2 b) { return {a.x op b.x, a.y op b.y}; } \
    friend inline Small2& operator op##=(Small2& a, Small2 b) { return a = a op b; }
    CUKERN_OPERATOR(+)
    CUKERN_OPERATOR(-)
    CUKERN_OPERATOR(*)
    CUKERN_OPERATOR(/)
#undef CUKERN_OPERATOR
// A comparison holds if it does of both.
#define CUKERN_OPERATOR(op) \
    friend inline bool operator op(Small2 a, Small2 b) { return a.x op b.x && a.y op b.y; }
    CUKERN_OPERATOR(==)
    CUKERN_OPERATOR(!=)
    CUKERN_OPERATOR(<)
    CUKERN_OPERATOR(<=)
    CUKERN_OPERATOR(>)
    CUKERN_OPERATOR(>=)
#undef CUKERN_OPERATOR
    Small2 operator-() const { return {-x, -y}; }
};

// A number rounded to the format down, up or to zero.
template <class T>
inline T small_directed(double x, int direction) {
    const T near(x);
    const double value = (float)near;
    if (value == x || x != x) return near;
    if (direction == 0) direction = x > 0 ? -1 : 1;
    if ((value > x) == (direction > 0)) return near;
    // One step up is one more in the bits of a positive number and one less in those of a negative one.
    if (value == 0) return T::from_bits(direction > 0 ? 0x0001 : 0x8001);
    return T::from_bits(near.bits + ((near.bits & 0x8000) ? -direction : direction));
}
}  // namespace cukern

using __half = cukern::Small<cukern::half_format>;
using __half2 = cukern::Small2<cukern::half_format>;
using half = __half;
using half2 = __half2;
using __nv_bfloat16 = cukern::Small<cukern::bfloat_format>;
using __nv_bfloat162 = cukern::Small2<cukern::bfloat_format>;
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;
using __half_raw = cukern::Raw<cukern::half_format>;
using __half2_raw = cukern::Raw2<cukern::half_format>;
using __nv_bfloat16_raw = cukern::Raw<cukern::bfloat_format>;
using __nv_bfloat162_raw = cukern::Raw2<cukern::bfloat_format>;

#define CUKERN_SMALL(T, T2, name, pair)                                                                 \
    static inline float __##name##2float(T x) { return x; }                                             \
    static inline T __float2##name(float x) { return x; }                                               \
    static inline T __float2##name##_rn(float x) { return x; }                                          \
    static inline T __float2##name##_rz(float x) { return cukern::small_directed<T>(x, 0); }    \
    static inline T __float2##name##_ru(float x) { return cukern::small_directed<T>(x, 1); }    \
    static inline T __float2##name##_rd(float x) { return cukern::small_directed<T>(x, -1); }   \
    static inline T __double2##name(double x) { return x; }                                             \
    static inline T __low2##name(T2 a) { return a.x; }                                                  \
    static inline T __high2##name(T2 a) { return a.y; }                                                 \
    static inline T2 __low2##pair(T2 a) { return {a.x, a.x}; }                                          \
    static inline T2 __high2##pair(T2 a) { return {a.y, a.y}; }                                         \
    static inline T2 __lows2##pair(T2 a, T2 b) { return {a.x, b.x}; }                                   \
    static inline T2 __highs2##pair(T2 a, T2 b) { return {a.y, b.y}; }                                  \
    static inline T2 __halves2##pair(T a, T b) { return {a, b}; }                                       \
    static inline T2 make_##pair(T a, T b) { return {a, b}; }                                           \
    static inline T2 __##name##2##pair(T a) { return {a, a}; }                                          \
    static inline T2 __float2##pair##_rn(float a) { return {T(a), T(a)}; }                              \
    static inline T2 __floats2##pair##_rn(float a, float b) { return {T(a), T(b)}; }                    \
    static inline T2 __float22##pair##_rn(float2 a) { return {T(a.x), T(a.y)}; }                        \
    static inline float2 __##pair##2float2(T2 a) { return {(float)a.x, (float)a.y}; }
CUKERN_SMALL(__half, __half2, half, half2)
CUKERN_SMALL(__nv_bfloat16, __nv_bfloat162, bfloat16, bfloat162)
#undef CUKERN_SMALL

// From and to integers, rounded to nearest even, to zero, up and down; to those of 8 and 16 bits by way of an int.
#define CUKERN_FROM(T, name, short_name, type)                                                          \
    static inline T __##short_name##2##name##_rn(type x) { return x; }                                  \
    static inline T __##short_name##2##name##_rz(type x) { return cukern::small_directed<T>(cukern::odd_double(x), 0); }  \
    static inline T __##short_name##2##name##_ru(type x) { return cukern::small_directed<T>(cukern::odd_double(x), 1); }  \
    static inline T __##short_name##2##name##_rd(type x) { return cukern::small_directed<T>(cukern::odd_double(x), -1); }
#define CUKERN_TO(T, name, short_name, type, call)                                                      \
    static inline type __##name##2##short_name##_rn(T x) { return call(rn); }                           \
    static inline type __##name##2##short_name##_rz(T x) { return call(rz); }                           \
    static inline type __##name##2##short_name##_ru(T x) { return call(ru); }                           \
    static inline type __##name##2##short_name##_rd(T x) { return call(rd); }
#define CUKERN_INT(r) __float2int_##r(x)
#define CUKERN_UINT(r) __float2uint_##r(x)
#define CUKERN_LL(r) __float2ll_##r(x)
#define CUKERN_ULL(r) __float2ull_##r(x)
#define CUKERN_SHORT(r) (short)max(-32768, min(32767, __float2int_##r(x)))
#define CUKERN_USHORT(r) (unsigned short)min(65535u, __float2uint_##r(x))
#define CUKERN_INTEGERS(T, name)                                                                        \
    CUKERN_FROM(T, name, int, int) CUKERN_FROM(T, name, uint, unsigned) CUKERN_FROM(T, name, short, short) \
    CUKERN_FROM(T, name, ushort, unsigned short) CUKERN_FROM(T, name, ll, long long)                    \
    CUKERN_FROM(T, name, ull, unsigned long long) CUKERN_TO(T, name, int, int, CUKERN_INT)              \
    CUKERN_TO(T, name, uint, unsigned, CUKERN_UINT) CUKERN_TO(T, name, short, short, CUKERN_SHORT)      \
    CUKERN_TO(T, name, ushort, unsigned short, CUKERN_USHORT) CUKERN_TO(T, name, ll, long long, CUKERN_LL) \
    CUKERN_TO(T, name, ull, unsigned long long, CUKERN_ULL)
#define CUKERN_BYTES(T, name)                                                                           \
    static inline signed char __##name##2char_rz(T x) { return (signed char)max(-128, min(127, __float2int_rz(x))); } \
    static inline unsigned char __##name##2uchar_rz(T x) { return (unsigned char)min(255u, __float2uint_rz(x)); }
CUKERN_BYTES(__half, half)
CUKERN_BYTES(__nv_bfloat16, bfloat16)
#undef CUKERN_BYTES
CUKERN_INTEGERS(__half, half)
CUKERN_INTEGERS(__nv_bfloat16, bfloat16)
#undef CUKERN_INTEGERS
#undef CUKERN_USHORT
#undef CUKERN_SHORT
#undef CUKERN_ULL
#undef CUKERN_LL
#undef CUKERN_UINT
#undef CUKERN_INT
#undef CUKERN_TO
#undef CUKERN_FROM

static inline short __half_as_short(__half x) { return (short)x.bits; }
static inline unsigned short __half_as_ushort(__half x) { return x.bits; }
static inline __half __short_as_half(short x) { return __half::from_bits((unsigned short)x); }
static inline __half __ushort_as_half(unsigned short x) { return __half::from_bits(x); }
static inline short __bfloat16_as_short(__nv_bfloat16 x) { return (short)x.bits; }
static inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
static inline __nv_bfloat16 __short_as_bfloat16(short x) { return __nv_bfloat16::from_bits((unsigned short)x); }
static inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { return __nv_bfloat16::from_bits(x); }

#define CUKERN_FORMAT template <cukern::Format f>
#define CUKERN_S cukern::Small<f>
#define CUKERN_S2 cukern::Small2<f>

// Both names of arithmetic, alone and in pairs; the pair's follows CUDA's second naming.
#define CUKERN_ARITHMETIC(name, pair, op)                                                               \
    CUKERN_FORMAT inline CUKERN_S name(CUKERN_S a, CUKERN_S b) { return a op b; }                       \
    CUKERN_FORMAT inline CUKERN_S2 pair(CUKERN_S2 a, CUKERN_S2 b) { return a op b; }
CUKERN_ARITHMETIC(__hadd, __hadd2, +)
CUKERN_ARITHMETIC(__hsub, __hsub2, -)
CUKERN_ARITHMETIC(__hmul, __hmul2, *)
CUKERN_ARITHMETIC(__hdiv, __h2div, /)
CUKERN_ARITHMETIC(__hadd_rn, __hadd2_rn, +)
CUKERN_ARITHMETIC(__hsub_rn, __hsub2_rn, -)
CUKERN_ARITHMETIC(__hmul_rn, __hmul2_rn, *)
#undef CUKERN_ARITHMETIC

// Saturated to [0, 1], NaN to 0.
CUKERN_FORMAT inline CUKERN_S cukern_saturated(CUKERN_S a) { 
    return a > CUKERN_S(0) ? fmin((float)a, 1.0f) : 0.0f;
}
CUKERN_FORMAT inline CUKERN_S2 cukern_saturated(CUKERN_S2 a) { return {cukern_saturated(a.x), cukern_saturated(a.y)}; }
#define CUKERN_SATURATED(name, op)                                                                      \
    CUKERN_FORMAT inline CUKERN_S name##_sat(CUKERN_S a, CUKERN_S b) { return cukern_saturated(a op b); } \
    CUKERN_FORMAT inline CUKERN_S2 name##2_sat(CUKERN_S2 a, CUKERN_S2 b) { return cukern_saturated(a op b); }
CUKERN_SATURATED(__hadd, +)
CUKERN_SATURATED(__hsub, -)
CUKERN_SATURATED(__hmul, *)
#undef CUKERN_SATURATED

// False of NaN, unlike the operator !=; the names with u are true of it. Pairs: as numbers, of both, and as masks.
#define CUKERN_COMPARES(name, expression)                                                               \
    CUKERN_FORMAT inline bool __h##name(CUKERN_S a, CUKERN_S b) { return expression; }                  \
    CUKERN_FORMAT inline CUKERN_S2 __h##name##2(CUKERN_S2 a, CUKERN_S2 b) {                             \
        return {CUKERN_S(__h##name(a.x, b.x) ? 1.0f : 0.0f), CUKERN_S(__h##name(a.y, b.y) ? 1.0f : 0.0f)}; \
    }                                                                                                   \
    CUKERN_FORMAT inline bool __hb##name##2(CUKERN_S2 a, CUKERN_S2 b) {                                 \
        return __h##name(a.x, b.x) && __h##name(a.y, b.y);                                              \
    }                                                                                                   \
    CUKERN_FORMAT inline unsigned __h##name##2_mask(CUKERN_S2 a, CUKERN_S2 b) {                         \
        return (__h##name(a.x, b.x) ? 0xffffu : 0) | (__h##name(a.y, b.y) ? 0xffff0000u : 0);           \
    }
#define CUKERN_COMPARE(name, op)                                                                        \
    CUKERN_COMPARES(name, a == a && b == b && a op b)                                                   \
    CUKERN_COMPARES(name##u, a != a || b != b || a op b)
CUKERN_COMPARE(eq, ==)
CUKERN_COMPARE(ne, !=)
CUKERN_COMPARE(lt, <)
CUKERN_COMPARE(le, <=)
CUKERN_COMPARE(gt, >)
CUKERN_COMPARE(ge, >=)
#undef CUKERN_COMPARES
#undef CUKERN_COMPARE

CUKERN_FORMAT inline bool __hisnan(CUKERN_S a) { return a != a; }
CUKERN_FORMAT inline CUKERN_S2 __hisnan2(CUKERN_S2 a) {
    return {CUKERN_S(a.x != a.x ? 1.0f : 0.0f), CUKERN_S(a.y != a.y ? 1.0f : 0.0f)};
}
CUKERN_FORMAT inline int __hisinf(CUKERN_S a) { return isinf((float)a) ? (a.bits & 0x8000 ? -1 : 1) : 0; }
CUKERN_FORMAT inline CUKERN_S __hneg(CUKERN_S a) { return -a; }
CUKERN_FORMAT inline CUKERN_S2 __hneg2(CUKERN_S2 a) { return -a; }
CUKERN_FORMAT inline CUKERN_S __habs(CUKERN_S a) { return CUKERN_S::from_bits(a.bits & 0x7fff); }
CUKERN_FORMAT inline CUKERN_S2 __habs2(CUKERN_S2 a) { return {__habs(a.x), __habs(a.y)}; }
CUKERN_FORMAT inline CUKERN_S __hmax(CUKERN_S a, CUKERN_S b) { return fmax((float)a, (float)b); }
CUKERN_FORMAT inline CUKERN_S __hmin(CUKERN_S a, CUKERN_S b) { return fmin((float)a, (float)b); }
CUKERN_FORMAT inline CUKERN_S __hmax_nan(CUKERN_S a, CUKERN_S b) { return a != a ? a : b != b ? b : __hmax(a, b); }
CUKERN_FORMAT inline CUKERN_S __hmin_nan(CUKERN_S a, CUKERN_S b) { return a != a ? a : b != b ? b : __hmin(a, b); }
CUKERN_FORMAT inline CUKERN_S2 __hmax2_nan(CUKERN_S2 a, CUKERN_S2 b) { return {__hmax_nan(a.x, b.x), __hmax_nan(a.y, b.y)}; }
CUKERN_FORMAT inline CUKERN_S2 __hmin2_nan(CUKERN_S2 a, CUKERN_S2 b) { return {__hmin_nan(a.x, b.x), __hmin_nan(a.y, b.y)}; }
CUKERN_FORMAT inline CUKERN_S2 __hmax2(CUKERN_S2 a, CUKERN_S2 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }
CUKERN_FORMAT inline CUKERN_S2 __hmin2(CUKERN_S2 a, CUKERN_S2 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }
CUKERN_FORMAT inline float __low2float(CUKERN_S2 a) { return a.x; }
CUKERN_FORMAT inline float __high2float(CUKERN_S2 a) { return a.y; }
CUKERN_FORMAT inline CUKERN_S2 __lowhigh2highlow(CUKERN_S2 a) { return {a.y, a.x}; }
// The product is exact in double; the sum there is rounded to odd, then once to the format.
CUKERN_FORMAT inline CUKERN_S __hfma(CUKERN_S a, CUKERN_S b, CUKERN_S c) {
    const double product = (double)(float)a * (float)b, addend = (float)c, sum = product + addend;
    const double rest = cukern::two_sum_rest(product, addend);
    if (rest == 0 || !isfinite(sum) || cukern::bits_as<unsigned long long>(sum) & 1) return CUKERN_S(sum);
    const bool outward = (rest > 0) == (sum > 0);
    return CUKERN_S(cukern::bits_as<double>(cukern::bits_as<unsigned long long>(sum) + (outward ? 1 : -1)));
}
CUKERN_FORMAT inline CUKERN_S2 __hfma2(CUKERN_S2 a, CUKERN_S2 b, CUKERN_S2 c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
CUKERN_FORMAT inline CUKERN_S __hfma_sat(CUKERN_S a, CUKERN_S b, CUKERN_S c) { return cukern_saturated(__hfma(a, b, c)); }
CUKERN_FORMAT inline CUKERN_S2 __hfma2_sat(CUKERN_S2 a, CUKERN_S2 b, CUKERN_S2 c) {
    return cukern_saturated(__hfma2(a, b, c));
}
CUKERN_FORMAT inline CUKERN_S __hfma_relu(CUKERN_S a, CUKERN_S b, CUKERN_S c) {
    return __hmax_nan(__hfma(a, b, c), CUKERN_S(0));
}
CUKERN_FORMAT inline CUKERN_S2 __hfma2_relu(CUKERN_S2 a, CUKERN_S2 b, CUKERN_S2 c) {
    return {__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)};
}
// Complex numbers in pairs: a * b + c.
CUKERN_FORMAT inline CUKERN_S2 __hcmadd(CUKERN_S2 a, CUKERN_S2 b, CUKERN_S2 c) {
    return {__hfma(-a.y, b.y, __hfma(a.x, b.x, c.x)), __hfma(a.y, b.x, __hfma(a.x, b.y, c.y))};
}

#define CUKERN_MATH(name, expression) \
    CUKERN_FORMAT inline CUKERN_S h##name(CUKERN_S a) { const float x = a; return CUKERN_S(expression); } \
    CUKERN_FORMAT inline CUKERN_S2 h2##name(CUKERN_S2 a) { return {h##name(a.x), h##name(a.y)}; }
CUKERN_MATH(exp, exp(x))
CUKERN_MATH(exp2, exp2(x))
CUKERN_MATH(exp10, exp10(x))
CUKERN_MATH(log, log(x))
CUKERN_MATH(log2, log2(x))
CUKERN_MATH(log10, log10(x))
CUKERN_MATH(sin, sin(x))
CUKERN_MATH(cos, cos(x))
CUKERN_MATH(tanh, tanh(x))
CUKERN_MATH(tanh_approx, tanh(x))
CUKERN_MATH(sqrt, sqrt(x))
CUKERN_MATH(rsqrt, rsqrt(x))
CUKERN_MATH(rcp, 1 / x)
CUKERN_MATH(floor, floor(x))
CUKERN_MATH(ceil, ceil(x))
CUKERN_MATH(trunc, trunc(x))
CUKERN_MATH(rint, rint(x))
#undef CUKERN_MATH
#undef CUKERN_FORMAT
#undef CUKERN_S
#undef CUKERN_S2

CUKERN_ATOMIC_BY(atomicAdd, __half, old + value)
CUKERN_ATOMIC_BY(atomicAdd, __nv_bfloat16, old + value)
CUKERN_ATOMIC_BY(atomicAdd, __half2, old + value)
CUKERN_ATOMIC_BY(atomicAdd, __nv_bfloat162, old + value)

namespace cukern {
template <Format format>
inline Small2<format> pair_of(Small<format> low, Small<format> high) { return {low, high}; }
}  // namespace cukern
