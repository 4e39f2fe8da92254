// Sine and cosine without branches, so that a loop over threads that uses them is vectorised, with the values of a single call:
// within 0.8 units in the last place of a double, and half a unit of a float. The polynomials interpolate at Chebyshev points.
#pragma once
#include "cukern_float.h"

namespace cukern {
CUKERN_INLINE double multiply_add(double x, double y, double z) {
#ifdef __FP_FAST_FMA
    return __builtin_fma(x, y, z);
#else
    return x * y + z;
#endif
}
CUKERN_INLINE double polynomial(double, double last) { return last; }
template <class... Rest>
CUKERN_INLINE double polynomial(double x, double first, Rest... rest) {
    return multiply_add(polynomial(x, rest...), x, first);
}

// Half of pi in parts of 30 bits, of which a multiple with 23 bits is exact, and a rest (Cody and Waite, "Software manual for the
// elementary functions", 1980): no double below the bound is so near a multiple that it loses its digits.
constexpr double reduced_below = 8388608.0;  // 2^23, beyond which glibc's vectors call the functions of single numbers
constexpr double half_pi[] = {1.570796325802803, 9.920935791635221e-10, 5.17018297889025e-19, 2.9038559739793605e-28};

// x - y, and what its rounding loses (Knuth).
CUKERN_INLINE double difference(double x, double y, double* lost) {
    const double made = x - y, other = x - made;
    *lost = (x - (made + other)) + (other - y);
    return made;
}

// x = made + rest + k pi / 2, where k is `quarter`, from -2 to 2, and a multiple of 4.
CUKERN_INLINE double less_quarters(double x, double* rest, double* quarter) {
    const double whole = __builtin_rint(x * 0.6366197723675814);
    double lost, also_lost;
    const double near = difference(difference(x - whole * half_pi[0], whole * half_pi[1], &lost), whole * half_pi[2], &also_lost);
    const double low = (lost + also_lost) - whole * half_pi[3];
    *rest = (near - (near + low)) + low;
    *quarter = whole - 4.0 * __builtin_rint(0.25 * whole);
    return near + low;
}
CUKERN_INLINE double near_sine(double x, double rest) {
    const double z = x * x, cube = z * x;
    const double p = polynomial(z, 0.008333333333333331, -0.0001984126984126506, 2.7557319219335453e-06, -2.5052106231157904e-08,
                                1.605853141458901e-10, -7.586685070091267e-13);
    return x - ((z * (0.5 * rest - cube * p) - rest) - cube * -0.16666666666666666);
}
CUKERN_INLINE double near_cosine(double x, double rest) {
    const double z = x * x, half = 0.5 * z, most = 1.0 - half;
    const double p = polynomial(z, 0.041666666666666664, -0.0013888888888887395, 2.4801587298763433e-05, -2.7557317270560326e-07,
                                2.0876146024689747e-09, -1.1382614868556325e-11);
    return most + (((1.0 - most) - half) + (z * (z * p) - x * rest));
}

// All bits where a number is beyond the bound or NaN. Selection is by masks: of a condition compilers make branches about calls.
CUKERN_INLINE long long far_mask(double x) { return -(long long)!(__builtin_fabs(x) <= reduced_below); }
CUKERN_INLINE int far_mask(float x) { return -(int)!(__builtin_fabsf(x) <= (float)reduced_below); }
CUKERN_INLINE double masked(double x, long long mask) { return bits_as<double>(bits_as<long long>(x) & mask); }
CUKERN_INLINE float masked(float x, int mask) { return bits_as<float>(bits_as<int>(x) & mask); }
CUKERN_INLINE double either(double x, double y, long long mask) {
    return bits_as<double>((bits_as<long long>(x) & mask) | (bits_as<long long>(y) & ~mask));
}
CUKERN_INLINE float either(float x, float y, int mask) {
    return bits_as<float>((bits_as<int>(x) & mask) | (bits_as<int>(y) & ~mask));
}
// The C library is asked for those alone: of 0 its vectors, which are not exact, make 0 or 1.
CUKERN_INLINE double sine(double x) {
    const long long mask = far_mask(x);
    double rest, quarter;
    const double near = less_quarters(masked(x, ~mask), &rest, &quarter);
    const double size = __builtin_fabs(quarter), value = size == 1.0 ? near_cosine(near, rest) : near_sine(near, rest);
    const double made = (size == 2.0) | (quarter == -1.0) ? -value : value;
    return either(cukern_sin(masked(x, mask)), x == 0.0 ? x : made, mask);
}
CUKERN_INLINE double cosine(double x) {
    const long long mask = far_mask(x);
    double rest, quarter;
    const double near = less_quarters(masked(x, ~mask), &rest, &quarter);
    const double size = __builtin_fabs(quarter), value = size == 1.0 ? near_sine(near, rest) : near_cosine(near, rest);
    const double made = (size == 2.0) | (quarter == 1.0) ? -value : value;
    return either(cukern_cos(masked(x, mask)), made, mask);
}

// Of single precision in double precision, where two parts of half of pi do: the second one to all its digits.
CUKERN_INLINE double less_quarters(float x, double* quarter) {
    const double whole = __builtin_rint((double)x * 0.6366197723675814);
    *quarter = whole - 4.0 * __builtin_rint(0.25 * whole);
    return ((double)x - whole * half_pi[0]) - whole * 9.920935796805404e-10;
}
CUKERN_INLINE double near_sine(double x) {
    const double z = x * x;
    const double p = polynomial(z, -0.16666666663853044, 0.008333331873837089, -0.00019840086263755443, 2.7249864655139585e-06);
    return x + x * z * p;
}
CUKERN_INLINE double near_cosine(double x) {
    const double z = x * x;
    const double p = polynomial(z, 0.04166666666431933, -0.0013888887671288108, 2.480059998353171e-05, -2.7300908167996537e-07);
    return (1.0 - 0.5 * z) + z * z * p;
}
CUKERN_INLINE float sine(float x) {
    const int mask = far_mask(x);
    double quarter;
    const double near = less_quarters(masked(x, ~mask), &quarter), size = __builtin_fabs(quarter);
    const double value = size == 1.0 ? near_cosine(near) : near_sine(near);
    const float made = (float)((size == 2.0) | (quarter == -1.0) ? -value : value);
    return either(cukern_sinf(masked(x, mask)), x == 0.0f ? x : made, mask);
}
CUKERN_INLINE float cosine(float x) {
    const int mask = far_mask(x);
    double quarter;
    const double near = less_quarters(masked(x, ~mask), &quarter), size = __builtin_fabs(quarter);
    const double value = size == 1.0 ? near_sine(near) : near_cosine(near);
    const float made = (float)((size == 2.0) | (quarter == 1.0) ? -value : value);
    return either(cukern_cosf(masked(x, mask)), made, mask);
}
}  // namespace cukern
