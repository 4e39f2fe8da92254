// __nv_fp8_e4m3 and __nv_fp8_e5m2: stored in 8 bits, rounded to nearest even, values beyond the largest become it.
// __nv_fp8_e8m0: a power of two, by its exponent, rounded up.
#pragma once
#include "cuda_fp16.h"

#include "cuda_bf16.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };
enum cudaRoundMode { cudaRoundNearest, cudaRoundZero, cudaRoundPosInf, cudaRoundMinInf };

namespace cukern {
// The code of a positive number that is rounded to `bits` of a mantissa, with exponents of the bias `bias`.
inline unsigned small_code(double size, int bits, int bias) {
    if (size == 0) return 0;
    int exponent;
    __builtin_frexp(size, &exponent);
    const int lowest = 1 - bias, power = exponent - 1 < lowest ? lowest : exponent - 1;
    const double units = __builtin_rint(__builtin_ldexp(size, bits - power));
    // A mantissa that is rounded up to the next power of two carries into the exponent.
    return units < (1 << bits) ? (unsigned)units : (unsigned)((power + bias) << bits) + (unsigned)units - (1 << bits);
}
inline float from_small_code(unsigned code, int bits, int bias) {
    const int exponent = (int)code >> bits, mantissa = (int)code & ((1 << bits) - 1);
    if (exponent == 0) return __builtin_ldexpf((float)mantissa, 1 - bias - bits);
    return __builtin_ldexpf((float)(mantissa + (1 << bits)), exponent - bias - bits);
}
inline __nv_fp8_storage_t to_fp8(double x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
    const unsigned char sign = __builtin_copysign(1.0, x) < 0 ? 0x80 : 0, top = kind == __NV_E4M3 ? 0x7e : 0x7b;
    const unsigned char infinity = kind == __NV_E4M3 ? 0x7f : 0x7c;
    if (x != x) return 0x7f;
    const double size = __builtin_fabs(x);
    const unsigned code = size > 1e6 ? 0xff : small_code(size, kind == __NV_E4M3 ? 3 : 2, kind == __NV_E4M3 ? 7 : 15);
    return sign | (unsigned char)(code <= top ? code : saturation == __NV_SATFINITE ? top : infinity);
}
inline float from_fp8(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
    const unsigned code = x & 0x7f;
    float value;
    if (kind == __NV_E4M3 && code == 0x7f) value = __builtin_nanf("");
    else if (kind == __NV_E5M2 && code >= 0x7c) value = code > 0x7c ? __builtin_nanf("") : __builtin_inff();
    else value = from_small_code(code, kind == __NV_E4M3 ? 3 : 2, kind == __NV_E4M3 ? 7 : 15);
    return x & 0x80 ? -value : value;
}
// The least code is 2^-127, also of zero; signs are dropped.
inline __nv_fp8_storage_t to_e8m0(double x, __nv_saturation_t saturation, cudaRoundMode mode) {
    if (x != x) return 0xff;
    const int top = saturation == __NV_SATFINITE ? 0xfe : 0xff;
    const double size = __builtin_fabs(x);
    if (size <= 0x1p-127) return 0;
    if (size > 0x1p128) return (__nv_fp8_storage_t)top;
    int exponent;
    const bool is_between = __builtin_frexp(size, &exponent) > 0.5;
    const int code = exponent + 126 + (is_between && mode == cudaRoundPosInf);
    return (__nv_fp8_storage_t)(code < top ? code : top);
}
inline float from_e8m0(unsigned code) { return code == 0xff ? __builtin_nanf("") : __builtin_ldexpf(1, (int)code - 127); }

template <__nv_fp8_interpretation_t kind>
struct Fp8 {
    __nv_fp8_storage_t __x;
    Fp8() = default;
    Fp8(float x) : __x(to_fp8(x, __NV_SATFINITE, kind)) {}
    Fp8(double x) : __x(to_fp8(x, __NV_SATFINITE, kind)) {}
    Fp8(__half x) : Fp8((float)x) {}
    Fp8(__nv_bfloat16 x) : Fp8((float)x) {}
    template <class T, class = typename IntegerAsDouble<T>::type>
    explicit Fp8(T x) : Fp8((double)x) {}
    explicit operator float() const { return from_fp8(__x, kind); }
    explicit operator double() const { return from_fp8(__x, kind); }
    explicit operator __half() const { return __half(from_fp8(__x, kind)); }
    explicit operator __nv_bfloat16() const { return __nv_bfloat16(from_fp8(__x, kind)); }
    explicit operator int() const { return (int)from_fp8(__x, kind); }
    explicit operator bool() const { return from_fp8(__x, kind) != 0; }
};
template <__nv_fp8_interpretation_t kind>
struct Fp8x2 {
    __nv_fp8x2_storage_t __x;
    Fp8x2() = default;
    template <Format format>
    explicit Fp8x2(Small2<format> x) : Fp8x2(float2{(float)x.x, (float)x.y}) {}
    explicit Fp8x2(float2 x) : __x((unsigned short)(Fp8<kind>(x.x).__x | Fp8<kind>(x.y).__x << 8)) {}
    explicit operator float2() const {
        return {from_fp8((unsigned char)__x, kind), from_fp8((unsigned char)(__x >> 8), kind)};
    }
};
template <__nv_fp8_interpretation_t kind>
struct Fp8x4 {
    __nv_fp8x4_storage_t __x;
    Fp8x4() = default;
    template <Format format>
    Fp8x4(Small2<format> low, Small2<format> high)
        : Fp8x4(float4{(float)low.x, (float)low.y, (float)high.x, (float)high.y}) {}
    explicit Fp8x4(float4 x)
        : __x(Fp8x2<kind>(float2{x.x, x.y}).__x | (unsigned)Fp8x2<kind>(float2{x.z, x.w}).__x << 16) {}
    explicit operator float4() const {
        float parts[4];
        for (int i = 0; i < 4; ++i) parts[i] = from_fp8((unsigned char)(__x >> 8 * i), kind);
        return {parts[0], parts[1], parts[2], parts[3]};
    }
};
}  // namespace cukern

using __nv_fp8_e4m3 = cukern::Fp8<__NV_E4M3>;
using __nv_fp8_e5m2 = cukern::Fp8<__NV_E5M2>;
using __nv_fp8x2_e4m3 = cukern::Fp8x2<__NV_E4M3>;
using __nv_fp8x2_e5m2 = cukern::Fp8x2<__NV_E5M2>;
using __nv_fp8x4_e4m3 = cukern::Fp8x4<__NV_E4M3>;
using __nv_fp8x4_e5m2 = cukern::Fp8x4<__NV_E5M2>;

static inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(
    float x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
    return cukern::to_fp8(x, saturation, kind);
}
static inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(
    double x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
    return cukern::to_fp8(x, saturation, kind);
}
static inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(
    float2 x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
    return (unsigned short)(cukern::to_fp8(x.x, saturation, kind) | cukern::to_fp8(x.y, saturation, kind) << 8);
}
static inline __nv_fp8x2_storage_t __nv_cvt_double2_to_fp8x2(
    double2 x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
    return (unsigned short)(cukern::to_fp8(x.x, saturation, kind) | cukern::to_fp8(x.y, saturation, kind) << 8);
}
#define CUKERN_FP8(raw, T, half)                                                                             \
    static inline __nv_fp8_storage_t __nv_cvt_##half##raw_to_fp8(                                            \
        raw x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {                               \
        return cukern::to_fp8((float)T(x), saturation, kind);                                                \
    }                                                                                                        \
    static inline __nv_fp8x2_storage_t __nv_cvt_##half##raw2_to_fp8x2(                                       \
        raw##2 x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {                            \
        return __nv_cvt_float2_to_fp8x2({(float)T(raw{x.x}), (float)T(raw{x.y})}, saturation, kind);         \
    }
using __half_raw2 = __half2_raw;
using __nv_bfloat16_raw2 = __nv_bfloat162_raw;
CUKERN_FP8(__half_raw, __half, half)
CUKERN_FP8(__nv_bfloat16_raw, __nv_bfloat16, bfloat16)
#undef CUKERN_FP8
static inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
    return __half(cukern::from_fp8(x, kind));
}
static inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t kind) {
    return {__nv_cvt_fp8_to_halfraw((unsigned char)x, kind).x, __nv_cvt_fp8_to_halfraw((unsigned char)(x >> 8), kind).x};
}

static inline __nv_fp8_storage_t __nv_cvt_float_to_e8m0(float x, __nv_saturation_t saturation, cudaRoundMode mode) {
    return cukern::to_e8m0(x, saturation, mode);
}
static inline __nv_fp8_storage_t __nv_cvt_double_to_e8m0(double x, __nv_saturation_t saturation, cudaRoundMode mode) {
    return cukern::to_e8m0(x, saturation, mode);
}
static inline __nv_fp8x2_storage_t __nv_cvt_float2_to_e8m0x2(float2 x, __nv_saturation_t saturation, cudaRoundMode mode) {
    return (unsigned short)(cukern::to_e8m0(x.x, saturation, mode) | cukern::to_e8m0(x.y, saturation, mode) << 8);
}
static inline __nv_bfloat16_raw __nv_cvt_e8m0_to_bf16raw(__nv_fp8_storage_t x) { return __nv_bfloat16(cukern::from_e8m0(x)); }
static inline __nv_bfloat162_raw __nv_cvt_e8m0x2_to_bf162raw(__nv_fp8x2_storage_t x) {
    return {__nv_cvt_e8m0_to_bf16raw((unsigned char)x).x, __nv_cvt_e8m0_to_bf16raw((unsigned char)(x >> 8)).x};
}

struct __nv_fp8_e8m0 {
    __nv_fp8_storage_t __x;
    __nv_fp8_e8m0() = default;
    explicit __nv_fp8_e8m0(double x) : __x(cukern::to_e8m0(x, __NV_SATFINITE, cudaRoundPosInf)) {}
    explicit __nv_fp8_e8m0(float x) : __nv_fp8_e8m0((double)x) {}
    explicit __nv_fp8_e8m0(__half x) : __nv_fp8_e8m0((double)(float)x) {}
    explicit __nv_fp8_e8m0(__nv_bfloat16 x) : __nv_fp8_e8m0((double)(float)x) {}
    explicit operator float() const { return cukern::from_e8m0(__x); }
    explicit operator double() const { return cukern::from_e8m0(__x); }
    explicit operator __nv_bfloat16() const { return __nv_bfloat16(cukern::from_e8m0(__x)); }
};
