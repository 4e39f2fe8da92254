// __nv_fp4_e2m1: stored in 4 bits, rounded to nearest even; values beyond 6 become it, and NaN 6.
#pragma once
#include "cuda_fp8.h"

typedef unsigned char __nv_fp4_storage_t;
typedef unsigned char __nv_fp4x2_storage_t;
typedef unsigned short __nv_fp4x4_storage_t;
enum __nv_fp4_interpretation_t { __NV_E2M1 };

namespace cukern {
inline unsigned char to_fp4(double x) {
    const unsigned code = x != x || __builtin_fabs(x) > 6 ? 7 : small_code(__builtin_fabs(x), 1, 1);
    return (unsigned char)(code | (x == x && __builtin_copysign(1.0, x) < 0 ? 8 : 0));
}
inline float from_fp4(unsigned x) {
    const float value = from_small_code(x & 7, 1, 1);
    return x & 8 ? -value : value;
}
inline void require_nearest(cudaRoundMode mode) {
    if (mode != cudaRoundNearest) fault("a conversion to 4 bits that does not round to nearest", nullptr, 0);
}
}  // namespace cukern

static inline __nv_fp4_storage_t __nv_cvt_double_to_fp4(double x, __nv_fp4_interpretation_t, cudaRoundMode mode) {
    cukern::require_nearest(mode);
    return cukern::to_fp4(x);
}
static inline __nv_fp4_storage_t __nv_cvt_float_to_fp4(float x, __nv_fp4_interpretation_t kind, cudaRoundMode mode) {
    return __nv_cvt_double_to_fp4(x, kind, mode);
}
static inline __nv_fp4x2_storage_t __nv_cvt_float2_to_fp4x2(float2 x, __nv_fp4_interpretation_t kind, cudaRoundMode mode) {
    return (unsigned char)(__nv_cvt_float_to_fp4(x.x, kind, mode) | __nv_cvt_float_to_fp4(x.y, kind, mode) << 4);
}
static inline __half_raw __nv_cvt_fp4_to_halfraw(__nv_fp4_storage_t x, __nv_fp4_interpretation_t) {
    return __half(cukern::from_fp4(x));
}
static inline __half2_raw __nv_cvt_fp4x2_to_halfraw2(__nv_fp4x2_storage_t x, __nv_fp4_interpretation_t kind) {
    return {__nv_cvt_fp4_to_halfraw(x & 15, kind).x, __nv_cvt_fp4_to_halfraw(x >> 4, kind).x};
}

struct __nv_fp4_e2m1 {
    __nv_fp4_storage_t __x;
    __nv_fp4_e2m1() = default;
    explicit __nv_fp4_e2m1(float x) : __x(cukern::to_fp4(x)) {}
    explicit __nv_fp4_e2m1(double x) : __x(cukern::to_fp4(x)) {}
    explicit __nv_fp4_e2m1(__half x) : __x(cukern::to_fp4((float)x)) {}
    explicit __nv_fp4_e2m1(__nv_bfloat16 x) : __x(cukern::to_fp4((float)x)) {}
    explicit operator float() const { return cukern::from_fp4(__x); }
    explicit operator double() const { return cukern::from_fp4(__x); }
    explicit operator __half() const { return __half(cukern::from_fp4(__x)); }
    explicit operator __nv_bfloat16() const { return __nv_bfloat16(cukern::from_fp4(__x)); }
};
struct __nv_fp4x2_e2m1 {
    __nv_fp4x2_storage_t __x;
    __nv_fp4x2_e2m1() = default;
    explicit __nv_fp4x2_e2m1(float2 x) : __x(__nv_cvt_float2_to_fp4x2(x, __NV_E2M1, cudaRoundNearest)) {}
    explicit operator float2() const { return {cukern::from_fp4(__x & 15u), cukern::from_fp4(__x >> 4)}; }
};
struct __nv_fp4x4_e2m1 {
    __nv_fp4x4_storage_t __x;
    __nv_fp4x4_e2m1() = default;
    explicit __nv_fp4x4_e2m1(float4 x)
        : __x((unsigned short)(__nv_fp4x2_e2m1(float2{x.x, x.y}).__x | __nv_fp4x2_e2m1(float2{x.z, x.w}).__x << 8)) {}
    explicit operator float4() const {
        return {cukern::from_fp4(__x & 15u), cukern::from_fp4(__x >> 4 & 15u), cukern::from_fp4(__x >> 8 & 15u), cukern::from_fp4(__x >> 12u)};
    }
};
