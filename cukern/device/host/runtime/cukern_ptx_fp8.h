// Conversions of pairs of 8-bit and 4-bit floats, for inline PTX.
#pragma once
#include <cuda_fp4.h>

namespace cukern {
template <__nv_fp8_interpretation_t kind>
inline unsigned short to_fp8_pair(float high, float low, bool is_relu) {
    if (is_relu) high = relu(high), low = relu(low);
    return (unsigned short)(to_fp8(high, __NV_SATFINITE, kind) << 8 | to_fp8(low, __NV_SATFINITE, kind));
}
template <__nv_fp8_interpretation_t kind>
inline unsigned short to_fp8_pair(__half2 x, bool is_relu) { return to_fp8_pair<kind>((float)x.y, (float)x.x, is_relu); }
template <__nv_fp8_interpretation_t kind>
inline __half2 from_fp8_pair(unsigned short x) {
    return {__half(from_fp8((unsigned char)x, kind)), __half(from_fp8((unsigned char)(x >> 8), kind))};
}
inline unsigned char to_fp4_pair(float high, float low, bool is_relu) {
    if (is_relu) high = relu(high), low = relu(low);
    return (unsigned char)(to_fp4(high) << 4 | to_fp4(low));
}
inline __half2 from_fp4_pair(unsigned char x) { return {__half(from_fp4(x & 15u)), __half(from_fp4(x >> 4))}; }
}  // namespace cukern
