// Float functions without branches or calls, so that a loop over threads that uses them is vectorised.
// Each is within 2 units in the last place of the exact value, tanh within 2.5. The polynomials interpolate at Chebyshev points.
#pragma once

#define CUKERN_INLINE inline __attribute__((always_inline))

namespace cukern {
// The product is rounded on its own where the processor has no fused operation, rather than call a slow one.
CUKERN_INLINE float multiply_add(float x, float y, float z) {
#ifdef __FP_FAST_FMAF
    return __builtin_fmaf(x, y, z);
#else
    return x * y + z;
#endif
}

// By recursion, as a loop over an array would stand in the way of the loop over threads.
CUKERN_INLINE float polynomial(float, float last) { return last; }
template <class... Rest>
CUKERN_INLINE auto polynomial(float x, float first, Rest... rest) {
    return multiply_add(polynomial(x, rest...), x, first);
}

constexpr float ln2_high = 0.693359375f, ln2_low = -2.1219444170e-4f;  // few bits: a small integer times it is exact

CUKERN_INLINE float power_of_two(int n) { return bits_as<float>(((unsigned)n << 23) + 0x3f800000u); }

// exp(x) - 1 = scale * rest + (scale - 1), with x = n ln 2 + s and rest = exp(s) - 1.
CUKERN_INLINE float reduced_exponential(float x, int* n) {
    // The sum with 1.5 * 2^23 is rounded to a whole number, which its lowest bits are; of NaN they are of no number.
    const float shifted = multiply_add(x, 1.44269504f, 12582912.0f), whole = shifted - 12582912.0f;
    const float s = multiply_add(whole, -ln2_low, multiply_add(whole, -ln2_high, x));
    *n = (int)(bits_as<unsigned>(shifted) - 0x4b400000u);
    const float p = polynomial(s, 0.5f, 0.166666672f, 0.0416664667f, 0.00833331048f, 0.00139336498f, 0.000198909911f);
    return multiply_add(s * s, p, s);
}

CUKERN_INLINE float exponential(float x) {
    const float low = x < -104.0f ? -104.0f : x, clamped = low > 89.0f ? 89.0f : low;
    int n;
    const float rest = reduced_exponential(clamped, &n);
    const int half = n >> 1;  // two steps, as 2^n alone may be too large or too small for a float
    return (rest + 1.0f) * power_of_two(half) * power_of_two(n - half);
}

CUKERN_INLINE float exponential_minus_1(float x) {
    const float low = x < -20.0f ? -20.0f : x, clamped = low > 89.0f ? 89.0f : low;
    int n;
    const float rest = reduced_exponential(clamped, &n);
    const float scale = power_of_two(n - 1);
    const float value = 2.0f * multiply_add(scale, rest, scale - 0.5f);
    return x == x && x != 0.0f ? value : x;
}

CUKERN_INLINE float logarithm(float x) {
    const bool small = x < 1.17549435e-38f;  // subnormal numbers have no exponent to read
    const int bits = bits_as<int>(small ? x * 8388608.0f : x);
    // Of the power of two that leaves 0.707 to 1.414. Unsigned, as the bits of -0 less those of a number are no int.
    const int exponent = (int)((unsigned)bits - 0x3f3504f3u) >> 23;
    const float whole = (float)(small ? exponent - 23 : exponent);
    const float t = bits_as<float>((unsigned)bits - (unsigned)exponent * (1u << 23)) - 1.0f;
    const float p = polynomial(t, 0.333333313f, -0.24999997f, 0.200007156f, -0.166678026f, 0.142490581f,
                               -0.124256872f, 0.116854198f, -0.114797339f, 0.0697161183f);
    const float cube = t * t * t * p;
    const float rest = multiply_add(-0.5f, t * t, multiply_add(whole, ln2_low, cube));
    const float value = multiply_add(whole, ln2_high, t + rest);
    const float outside = x == 0.0f ? -__builtin_inff() : x > 0.0f ? x : __builtin_nanf("");
    return x > 0.0f && x < __builtin_inff() ? value : outside;
}

// log(1 + x), with what 1 + x has rounded away put back.
CUKERN_INLINE float logarithm_of_1_plus(float x) {
    const float sum = 1.0f + x, lost = x - (sum - 1.0f);
    const float rough = logarithm(sum), value = sum > 0.0f && sum < __builtin_inff() ? rough + lost / sum : rough;
    return x == 0.0f ? x : value;
}

// (exp(2x) - 1) / (exp(2x) + 1), with the numerator as exact near 0 as elsewhere; beyond 9.1 it rounds to 1.
CUKERN_INLINE float hyperbolic_tangent(float x) {
    const float size = __builtin_fabsf(x), bounded = size < 9.1f ? size : 9.1f;
    int n;
    const float rest = reduced_exponential(2.0f * bounded, &n);
    const float scale = power_of_two(n);
    const float above = multiply_add(scale, rest, scale - 1.0f);
    return x == x ? __builtin_copysignf(above / (above + 2.0f), x) : x;
}

// Beyond 1 as 1 - exp(-x^2) q(1 / (1 + x)), where q is smooth.
CUKERN_INLINE float error_function(float x) {
    const float size = __builtin_fabsf(x), bounded = size < 4.0f ? size : 4.0f, square = bounded * bounded;
    const float p = polynomial(square, 0.128379166f, -0.376126379f, 0.112837821f, -0.0268654302f, 0.00522103161f,
                               -0.000848408032f, 0.000112659589f, -9.66704374e-06f);
    const float q = polynomial(1.0f / (1.0f + bounded), -0.000121411489f, 0.567063272f, 0.536255419f, 0.420759797f,
                               -0.610627115f, -0.652173579f, 1.3360467f, -0.6165241f);
    const float far = 1.0f - exponential(-square) * q;
    const float near = x == 0.0f ? x : multiply_add(x, p, x);
    return size < 1.0f ? near : x == x ? __builtin_copysignf(far, x) : x;
}

// The number of the two if one is NaN, as IEEE's maxNum and minNum.
template <class T>
CUKERN_INLINE auto maximum_number(T x, T y) {
    return x > y || y != y ? x : y;
}
template <class T>
CUKERN_INLINE auto minimum_number(T x, T y) {
    return x < y || y != y ? x : y;
}
}  // namespace cukern
