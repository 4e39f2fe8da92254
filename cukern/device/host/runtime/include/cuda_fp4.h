// __nv_fp4_e2m1: stored in 8 bits, or two in them.
#pragma once
#include "cuda_fp8.h"

typedef __nv_fp8_storage_t __nv_fp4_storage_t;
typedef __nv_fp8_storage_t __nv_fp4x2_storage_t;
typedef __nv_fp8x2_storage_t __nv_fp4x4_storage_t;
enum __nv_fp4_interpretation_t { __NV_E2M1 };

namespace cukern {
using E2m1 = Finite<2, 1>;
inline unsigned char to_fp4(double x, __nv_fp4_interpretation_t = __NV_E2M1, cudaRoundMode mode = cudaRoundNearest) {
    return E2m1::of(x, mode);
}
// The four highest bits are ignored.
inline float from_fp4(unsigned code, __nv_fp4_interpretation_t = __NV_E2M1) { return E2m1::number(code & 15); }
}  // namespace cukern

using __nv_fp4_e2m1 = cukern::Minifloat<cukern::E2m1>;
using __nv_fp4x2_e2m1 = cukern::Minifloat2<cukern::E2m1, 4>;
using __nv_fp4x4_e2m1 = cukern::Minifloat4<cukern::E2m1, 4>;
CUKERN_CONVERSIONS(fp4, 4, cukern::to_fp4, __nv_fp4_interpretation_t, cudaRoundMode)
CUKERN_CONVERSIONS_BACK(fp4, 4, cukern::from_fp4, __nv_fp4_interpretation_t)
