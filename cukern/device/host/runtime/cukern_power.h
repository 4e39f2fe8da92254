// Powers without branches, so that a loop over threads that uses them is vectorised, with the values of a single call: within 0.6
// units in the last place. The polynomials interpolate at Chebyshev points.
#pragma once
#include "cukern_circular.h"

#ifdef __FP_FAST_FMA
namespace cukern {
// A number of twice the digits: the sum of two.
struct Double2 {
    double high, low;
};
CUKERN_INLINE Double2 quick_sum(double x, double y) {  // of |x| >= |y|
    const double sum = x + y;
    return {sum, y - (sum - x)};
}
CUKERN_INLINE Double2 product(double x, double y) {
    const double high = x * y;
    return {high, __builtin_fma(x, y, -high)};
}

// x = m 2^exponent, where m is from 0.707 to 1.414; of a positive number that is not subnormal.
CUKERN_INLINE double mantissa(double x, double* exponent) {
    const unsigned long long bits = bits_as<unsigned long long>(x) - 0x3fe6a09e667f3bcdull;
    const long long power = (long long)(bits & 0xfff0000000000000ull);
    // The integer as a double by the bits of a large one: few processors convert vectors of integers of 64 bits.
    *exponent = bits_as<double>(0x4338000000000000ll + (power >> 52)) - 6755399441055744.0;
    return bits_as<double>(bits_as<long long>(x) - power);
}
CUKERN_INLINE double power_of_two(double n) {  // a whole number from -1022 to 1023
    return bits_as<double>((bits_as<long long>(n + 6755399441055744.0) - 0x4338000000000000ll + 1023) << 52);
}

// The logarithm: 2 artanh(s) = 2 s + 2/3 s^3 + ... with s = (m - 1) / (m + 1), of whose first two terms all digits are kept.
CUKERN_INLINE Double2 precise_logarithm(double x) {
    double exponent;
    const double m = mantissa(x, &exponent), f = m - 1.0, g = m + 1.0, lost = m - (g - 1.0);
    const double s = f / g, rest = (__builtin_fma(-s, g, f) - s * lost) / g;
    const Double2 square = product(s, s), cube = product(s, square.high), third = product(cube.high, 0.6666666666666666);
    const double more = 2.0 * s * rest + square.low;
    const double cube_low = __builtin_fma(s, more, __builtin_fma(rest, square.high, cube.low));
    const double third_low = __builtin_fma(cube.high, 3.700743415417188e-17, __builtin_fma(cube_low, 0.6666666666666666, third.low));
    const double z = square.high;
    const double far = s * z * z * polynomial(z, 0.4, 0.28571428571429375, 0.22222222221649277, 0.18181818336889324, 0.15384594802772,
                                              0.13334813373687013, 0.11706004128016817, 0.11725604536475413);
    const Double2 near = quick_sum(2.0 * s, third.high);
    const Double2 whole = quick_sum(exponent * 0.6931471805592082, near.high);
    const Double2 plain = exponent == 0.0 ? near : whole;
    const double low = (exponent == 0.0 ? 0.0 : near.low + exponent * 7.371002565167799e-13) + (2.0 * rest + third_low + far);
    return quick_sum(plain.high, plain.low + low);
}
// exp(high + low) by two powers of two, as one alone may be too large or too small; beyond the numbers infinity or 0.
CUKERN_INLINE double precise_exponential(double high, double low) {
    const double bounded = high < -800.0 ? -800.0 : high > 800.0 ? 800.0 : high, whole = __builtin_rint(bounded * 1.4426950408889634);
    const double first = __builtin_fma(-whole, 0.6931471805592082, bounded), half = __builtin_rint(0.5 * whole);
    const double near = __builtin_fma(-whole, 7.371002565167799e-13, first);
    const double rest = __builtin_fma(-whole, 7.371002565167799e-13, first - near) + (bounded == high ? low : 0.0);
    const double r = near + rest, lost = rest - (r - near);
    const double p = polynomial(r, 0.16666666666666666, 0.04166666666666667, 0.008333333333333333, 0.0013888888888883711, 0.0001984126984126639, 2.480158732567746e-05, 2.755731924004356e-06, 2.755727347871858e-07, 2.505207789275738e-08, 2.09147553258932e-09, 1.608437344642417e-10);
    const double tail = __builtin_fma(r * r, __builtin_fma(r, p, 0.5), lost + r * lost);
    const Double2 sum = quick_sum(1.0, r);
    return (sum.high + (sum.low + tail)) * power_of_two(half) * power_of_two(whole - half);
}
CUKERN_INLINE bool is_odd(double y) {
    const double half = 0.5 * y;
    return __builtin_rint(half) != half && __builtin_rint(y) == y;
}

// Of 0, infinities and NaN the C library is asked alone, whose results there have no digits.
CUKERN_INLINE double power(double x, double y) {
    const double size = __builtin_fabs(x), infinity = __builtin_inf();
    const long long plain = -(long long)((size > 0.0) & (size < infinity) & (__builtin_fabs(y) < infinity));
    const double base = either(size, 1.0, plain), exponent = either(y, 1.0, plain);
    const bool small = base < 2.2250738585072014e-308;
    const Double2 log = precise_logarithm(small ? base * 18014398509481984.0 : base);
    const double scale = small ? -54.0 : 0.0;
    const Double2 sum = quick_sum(__builtin_fma(scale, 0.6931471805592082, log.high), __builtin_fma(scale, 7.371002565167799e-13, log.low));
    const Double2 most = product(exponent, small ? sum.high : log.high);
    const double made = precise_exponential(most.high, __builtin_fma(exponent, small ? sum.low : log.low, most.low));
    const double whole = __builtin_rint(y) == y ? made : __builtin_nan("");
    const double value = x < 0.0 ? (is_odd(y) ? -whole : whole) : made;
    return either(value, cukern_pow(either(1.0, x, plain), either(1.0, y, plain)), plain);
}

// Of single precision in double precision, which holds every logarithm and product with digits to spare.
CUKERN_INLINE float power(float number, float power) {
    const double x = number, y = power, size = __builtin_fabs(x), infinity = __builtin_inf();
    const long long plain = -(long long)((size > 0.0) & (size < infinity) & (__builtin_fabs(y) < infinity));
    double exponent;
    const double m = mantissa(either(size, 1.0, plain), &exponent), s = (m - 1.0) / (m + 1.0), z = s * s;
    const double far = z * polynomial(z, 0.6666666666666666, 0.39999999904, 0.2857153242228238, 0.2220469408794354, 0.1912230338938648);
    const double log = __builtin_fma(exponent, 0.6931471805599453, s * (2.0 + far)), most = either(y, 1.0, plain) * log;
    const double bounded = most < -200.0 ? -200.0 : most > 200.0 ? 200.0 : most, whole = __builtin_rint(bounded * 1.4426950408889634);
    const double r = __builtin_fma(-whole, 0.6931471805599453, bounded);
    const double p = polynomial(r, 1.0, 1.0, 0.5, 0.16666666681704215, 0.041666666681700104, 0.008333310844647862, 0.001388886640612628, 0.00019891080463998843, 2.4851387704571765e-05);
    const double made = p * power_of_two(whole), real = __builtin_rint(y) == y ? made : __builtin_nan("");
    const double value = x < 0.0 ? (is_odd(y) ? -real : real) : made;
    const double special = cukern_pow(either(1.0, x, plain), either(1.0, y, plain));
    return (float)either(value, special, plain);
}
}  // namespace cukern
#else
namespace cukern {
inline double power(double x, double y) { return __builtin_pow(x, y); }
inline float power(float x, float y) { return __builtin_powf(x, y); }
}  // namespace cukern
#endif
