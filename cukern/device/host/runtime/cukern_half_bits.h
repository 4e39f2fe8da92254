// The 16 bits of a half and its value, rounded to nearest even.
#pragma once

namespace cukern {
// Without branches, and not through _Float16, whose conversions GCC does not vectorise.
CUKERN_INLINE float from_half_bits(unsigned short half) {
    const unsigned sign = (half & 0x8000u) << 16, rest = half & 0x7fffu;
    // Times 2^112 moves the exponent's bias and makes subnormals normal; infinity and NaN lack the highest exponent.
    const unsigned wide = bits_as<unsigned>(bits_as<float>(rest << 13) * 0x1p112f);
    return bits_as<float>((rest >= 0x7c00 ? wide | 0x7f800000 : wide) | sign);
}
CUKERN_INLINE unsigned short to_half_bits(float x) {
    const unsigned bits = bits_as<unsigned>(x), size = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
    const unsigned normal = (size - (112u << 23) + 0xfff + (size >> 13 & 1)) >> 13;
    // The sum with 0.5 has the last place of a subnormal half, and is rounded there.
    const unsigned subnormal = bits_as<unsigned>(bits_as<float>(size) + 0.5f) - 0x3f000000;
    const unsigned special = size > 0x7f800000 ? 0x7e00 : 0x7c00;
    const unsigned rounded = size < 0x38800000 ? subnormal : normal;
    return (unsigned short)(sign | (size < 0x47800000 ? rounded : special));
}

// A double as float with the last bit set when inexact, so that a second rounding cannot meet a false tie.
inline float odd_float(double x) {
    const float near = directed<float>(x, 0);
    return (double)near == x || x != x ? near : bits_as<float>(bits_as<unsigned>(near) | 1);
}
}  // namespace cukern
