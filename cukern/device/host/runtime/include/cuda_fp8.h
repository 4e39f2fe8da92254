// __nv_fp8_e4m3 and __nv_fp8_e5m2: stored in 8 bits, rounded to nearest even, values beyond the largest become it.
// __nv_fp8_e8m0: a power of two, by its exponent, rounded up.
#pragma once
#include "../cukern_minifloat.h"

enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

namespace cukern {
template <class T>
inline __nv_fp8_storage_t to_fp8(T x, __nv_saturation_t saturation, __nv_fp8_interpretation_t kind) {
    const unsigned char sign = __builtin_copysign(1.0, x) < 0 ? 0x80 : 0, top = kind == __NV_E4M3 ? 0x7e : 0x7b;
    const unsigned char infinity = kind == __NV_E4M3 ? 0x7f : 0x7c;
    if (x != x) {  // a double keeps its sign, and highest bits where there is more than one NaN
        if (sizeof(T) < 8) return 0x7f;
        return sign | (kind == __NV_E4M3 ? 0x7f : 0x7e | (unsigned char)(bits_as<unsigned long long>((double)x) >> 50 & 3));
    }
    const double size = __builtin_fabs((double)x);
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
    const int infinity = 0xff, top = saturation == __NV_SATFINITE ? 0xfe : infinity;
    const double size = __builtin_fabs(x);
    if (size <= 0x1p-127) return 0;
    int exponent = 0;
    const bool is_between = __builtin_frexp(size, &exponent) > 0.5 || size > 0x1p127;
    const int below = exponent + 126 < 0xfe ? exponent + 126 : 0xfe;
    const int code = __builtin_isinf(size) ? infinity : below + (is_between && mode == cudaRoundPosInf);
    return (__nv_fp8_storage_t)(code < top ? code : top);
}
inline float from_e8m0(unsigned code) { return code == 0xff ? __builtin_nanf("") : __builtin_ldexpf(1, (int)code - 127); }

template <__nv_fp8_interpretation_t kind>
struct Fp8 {
    template <class T>
    static unsigned char of(T x) {
        return to_fp8(x, __NV_SATFINITE, kind);
    }
    static float number(unsigned code) { return from_fp8((unsigned char)code, kind); }
};
struct E8m0 {
    static unsigned char of(double x) { return to_e8m0(x, __NV_SATFINITE, cudaRoundPosInf); }
    static float number(unsigned code) { return from_e8m0(code); }
};
}  // namespace cukern

using __nv_fp8_e4m3 = cukern::Minifloat<cukern::Fp8<__NV_E4M3>>;
using __nv_fp8_e5m2 = cukern::Minifloat<cukern::Fp8<__NV_E5M2>>;
using __nv_fp8_e8m0 = cukern::Minifloat<cukern::E8m0>;
using __nv_fp8x2_e4m3 = cukern::Minifloat2<cukern::Fp8<__NV_E4M3>, 8>;
using __nv_fp8x2_e5m2 = cukern::Minifloat2<cukern::Fp8<__NV_E5M2>, 8>;
using __nv_fp8x2_e8m0 = cukern::Minifloat2<cukern::E8m0, 8>;
using __nv_fp8x4_e4m3 = cukern::Minifloat4<cukern::Fp8<__NV_E4M3>, 8>;
using __nv_fp8x4_e5m2 = cukern::Minifloat4<cukern::Fp8<__NV_E5M2>, 8>;
using __nv_fp8x4_e8m0 = cukern::Minifloat4<cukern::E8m0, 8>;

CUKERN_CONVERSIONS(fp8, 8, cukern::to_fp8, __nv_saturation_t, __nv_fp8_interpretation_t)
CUKERN_CONVERSIONS_BACK(fp8, 8, cukern::from_fp8, __nv_fp8_interpretation_t)
#define CUKERN_TO_E8M0(name, name2, one, two)                                                              \
    CUKERN_CONVERSION(name, name2, one, two, __nv_fp8_storage_t, __nv_fp8x2_storage_t, 8, cukern::to_e8m0, \
                      __nv_saturation_t, cudaRoundMode)
CUKERN_TO_E8M0(__nv_cvt_double_to_e8m0, __nv_cvt_double2_to_e8m0x2, double, double2)
CUKERN_TO_E8M0(__nv_cvt_float_to_e8m0, __nv_cvt_float2_to_e8m0x2, float, float2)
CUKERN_TO_E8M0(__nv_cvt_bfloat16raw_to_e8m0, __nv_cvt_bfloat162raw_to_e8m0x2, __nv_bfloat16_raw, __nv_bfloat162_raw)
#undef CUKERN_TO_E8M0
static inline __nv_bfloat16_raw __nv_cvt_e8m0_to_bf16raw(__nv_fp8_storage_t x) {
    return cukern::raw_of<cukern::bfloat_format>(cukern::from_e8m0(x));
}
static inline __nv_bfloat162_raw __nv_cvt_e8m0x2_to_bf162raw(__nv_fp8x2_storage_t x) {
    return {__nv_cvt_e8m0_to_bf16raw((unsigned char)x).x, __nv_cvt_e8m0_to_bf16raw((unsigned char)(x >> 8)).x};
}
