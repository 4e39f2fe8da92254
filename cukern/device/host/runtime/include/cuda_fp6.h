// __nv_fp6_e3m2 and __nv_fp6_e2m3: stored in 8 bits each.
#pragma once
#include "cuda_fp8.h"

typedef __nv_fp8_storage_t __nv_fp6_storage_t;
typedef __nv_fp8x2_storage_t __nv_fp6x2_storage_t;
typedef __nv_fp8x4_storage_t __nv_fp6x4_storage_t;
enum __nv_fp6_interpretation_t { __NV_E2M3, __NV_E3M2 };

namespace cukern {
using E2m3 = Finite<2, 3>;
using E3m2 = Finite<3, 2>;
inline unsigned char to_fp6(double x, __nv_fp6_interpretation_t kind, cudaRoundMode mode) {
    return kind == __NV_E2M3 ? E2m3::of(x, mode) : E3m2::of(x, mode);
}
// The two highest bits are ignored.
inline float from_fp6(unsigned code, __nv_fp6_interpretation_t kind) {
    return kind == __NV_E2M3 ? E2m3::number(code & 63) : E3m2::number(code & 63);
}
}  // namespace cukern

using __nv_fp6_e2m3 = cukern::Minifloat<cukern::E2m3>;
using __nv_fp6_e3m2 = cukern::Minifloat<cukern::E3m2>;
using __nv_fp6x2_e2m3 = cukern::Minifloat2<cukern::E2m3, 8>;
using __nv_fp6x2_e3m2 = cukern::Minifloat2<cukern::E3m2, 8>;
using __nv_fp6x4_e2m3 = cukern::Minifloat4<cukern::E2m3, 8>;
using __nv_fp6x4_e3m2 = cukern::Minifloat4<cukern::E3m2, 8>;
CUKERN_CONVERSIONS(fp6, 8, cukern::to_fp6, __nv_fp6_interpretation_t, cudaRoundMode)
CUKERN_CONVERSIONS_BACK(fp6, 8, cukern::from_fp6, __nv_fp6_interpretation_t)
