// CUDA's maths functions: each name overloaded for float and double, as double for integers, and with the suffix f.
#pragma once
#include "cukern_float.h"

namespace cukern {
template <class T>
struct IntegerAsDouble {};
template <> struct IntegerAsDouble<bool> { using type = double; };
template <> struct IntegerAsDouble<char> { using type = double; };
template <> struct IntegerAsDouble<signed char> { using type = double; };
template <> struct IntegerAsDouble<unsigned char> { using type = double; };
template <> struct IntegerAsDouble<short> { using type = double; };
template <> struct IntegerAsDouble<unsigned short> { using type = double; };
template <> struct IntegerAsDouble<int> { using type = double; };
template <> struct IntegerAsDouble<unsigned> { using type = double; };
template <> struct IntegerAsDouble<long> { using type = double; };
template <> struct IntegerAsDouble<unsigned long> { using type = double; };
template <> struct IntegerAsDouble<long long> { using type = double; };
template <> struct IntegerAsDouble<unsigned long long> { using type = double; };
}  // namespace cukern

#if defined(__x86_64__) && !defined(__clang__) && __has_include(<bits/math-vector.h>)
// glibc has these for vectors too, to 4 units in the last place: they are asked where their values are those of single calls.
extern "C" {
#define CUKERN_OF_VECTORS(name, type, parameters) \
    __attribute__((simd("notinbranch"), const)) type cukern_##name parameters noexcept __asm__(#name);
CUKERN_OF_VECTORS(pow, double, (double, double))
CUKERN_OF_VECTORS(sin, double, (double))
CUKERN_OF_VECTORS(sinf, float, (float))
CUKERN_OF_VECTORS(cos, double, (double))
CUKERN_OF_VECTORS(cosf, float, (float))
#undef CUKERN_OF_VECTORS
}
#else
#define cukern_pow __builtin_pow
#define cukern_sin __builtin_sin
#define cukern_sinf __builtin_sinf
#define cukern_cos __builtin_cos
#define cukern_cosf __builtin_cosf
#endif
#include "cukern_circular.h"
#include "cukern_power.h"

#define CUKERN_UNARY_AS(name, single, wide, ...)                                \
    static inline __VA_ARGS__ float name(float x) { return single; }            \
    static inline __VA_ARGS__ double name(double x) { return wide; }            \
    static inline __VA_ARGS__ float name##f(float x) { return single; }         \
    template <class T>                                                          \
    inline __VA_ARGS__ typename cukern::IntegerAsDouble<T>::type name(T x) { return name((double)x); }
#define CUKERN_UNARY(name) CUKERN_UNARY_AS(name, __builtin_##name##f(x), __builtin_##name(x))
CUKERN_UNARY_AS(exp, cukern::exponential(x), __builtin_exp(x))
CUKERN_UNARY(exp2)
CUKERN_UNARY_AS(expm1, cukern::exponential_minus_1(x), __builtin_expm1(x))
CUKERN_UNARY_AS(log, cukern::logarithm(x), __builtin_log(x))
CUKERN_UNARY_AS(log1p, cukern::logarithm_of_1_plus(x), __builtin_log1p(x))
CUKERN_UNARY(log2)
CUKERN_UNARY(log10)
CUKERN_UNARY(logb)
CUKERN_UNARY_AS(sin, cukern::sine(x), cukern::sine(x))
CUKERN_UNARY_AS(cos, cukern::cosine(x), cukern::cosine(x))
CUKERN_UNARY(tan)
CUKERN_UNARY(asin)
CUKERN_UNARY(acos)
CUKERN_UNARY(atan)
CUKERN_UNARY(sinh)
CUKERN_UNARY(cosh)
CUKERN_UNARY_AS(tanh, cukern::hyperbolic_tangent(x), __builtin_tanh(x))
CUKERN_UNARY(asinh)
CUKERN_UNARY(acosh)
CUKERN_UNARY(atanh)
CUKERN_UNARY(sqrt)
CUKERN_UNARY(cbrt)
CUKERN_UNARY_AS(erf, cukern::error_function(x), __builtin_erf(x))
CUKERN_UNARY(erfc)
CUKERN_UNARY(lgamma)
CUKERN_UNARY(floor)
CUKERN_UNARY(ceil)
CUKERN_UNARY(round)
CUKERN_UNARY(trunc)
CUKERN_UNARY(rint)
CUKERN_UNARY(nearbyint)
CUKERN_UNARY_AS(fabs, __builtin_fabsf(x), __builtin_fabs(x), constexpr)  // as texts call it in such functions
#undef CUKERN_UNARY

extern "C" {
double exp10(double) noexcept;
float exp10f(float) noexcept;
double j0(double) noexcept;
double j1(double) noexcept;
double jn(int, double) noexcept;
double y0(double) noexcept;
double y1(double) noexcept;
double yn(int, double) noexcept;
float j0f(float) noexcept;
float j1f(float) noexcept;
float jnf(int, float) noexcept;
float y0f(float) noexcept;
float y1f(float) noexcept;
float ynf(int, float) noexcept;
}
static inline float exp10(float x) { return exp10f(x); }
CUKERN_UNARY_AS(rsqrt, (float)(1.0 / __builtin_sqrt((double)x)), 1.0 / __builtin_sqrt(x))
CUKERN_UNARY_AS(rcbrt, (float)(1.0 / __builtin_cbrt((double)x)), 1.0 / __builtin_cbrt(x))
CUKERN_UNARY_AS(normcdf, (float)(0.5 * __builtin_erfc(-0.70710678118654752440 * x)),
                0.5 * __builtin_erfc(-0.70710678118654752440 * x))

namespace cukern {
// Exact for large x too: x is first brought to its distance from the nearest half integer.
inline double reduced_pi(double x, int* quadrant) {
    const double whole = __builtin_rint(2 * x);
    *quadrant = (int)(long long)(whole - 4 * __builtin_floor(whole / 4));
    return 3.14159265358979323846 * (x - whole / 2);
}
inline double sin_pi(double x) {
    if (!__builtin_isfinite(x)) return x - x;
    int quadrant;
    const double r = reduced_pi(x, &quadrant);
    const double value = quadrant & 1 ? __builtin_cos(r) : __builtin_sin(r);
    return value == 0 ? __builtin_copysign(0.0, x) : quadrant & 2 ? -value : value;
}
inline double cos_pi(double x) {
    if (!__builtin_isfinite(x)) return x - x;
    int quadrant;
    const double r = reduced_pi(x, &quadrant);
    const double value = quadrant & 1 ? -__builtin_sin(r) : __builtin_cos(r);
    return value == 0 ? 0.0 : quadrant & 2 ? -value : value;
}

// The inverse of the normal distribution, to 1e-9 of the value: rational functions (P. J. Acklam) of the distance q from the middle,
// up to 0.47575, and of the probability p from the end, below 0.02425.
inline double normal_quantile_inside(double q) {
    const double a[] = {-3.969683028665376e+01, 2.209460984245205e+02, -2.759285104469687e+02,
                        1.383577518672690e+02, -3.066479806614716e+01, 2.506628277459239e+00};
    const double b[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02,
                        6.680131188771972e+01, -1.328068155288572e+01};
    const double r = q * q;
    return (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
           (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
}
inline double normal_quantile_below(double p) {
    const double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                        -2.549732539343734e+00, 4.374664141464968e+00, 2.938163982698783e+00};
    const double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00, 3.754408661907416e+00};
    const double q = __builtin_sqrt(-2 * __builtin_log(p));
    return (((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
           ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
}
// Of single-precision numbers these need no more.
inline double erfc_inverse(float number) {
    const double p = 0.5 * number, half = 0.70710678118654752440;
    if (!(p >= 0 && p <= 1)) return __builtin_nan("");
    if (p == 0 || p == 1) return p == 0 ? __builtin_inf() : -__builtin_inf();
    if (p < 0.02425) return -half * normal_quantile_below(p);
    return p > 0.97575 ? half * normal_quantile_below(1 - p) : half * normal_quantile_inside(0.5 - p);
}
inline double erf_inverse(float number) {
    const double q = 0.5 * number, half = 0.70710678118654752440, size = __builtin_fabs(q);
    if (size < 0.47575) return half * normal_quantile_inside(q);
    return size == 0.5 ? __builtin_copysign(__builtin_inf(), q)
           : size < 0.5 ? __builtin_copysign(half * normal_quantile_below(0.5 - size), q)
                        : __builtin_nan("");
}
// The gamma function of single-precision numbers, to 1e-9 of the value: by its recurrence from the polynomial that interpolates
// it from 1 to 2, at Chebyshev's nodes, or by its reflection.
inline double gamma_above(double x) {
    double product = 1;
    for (; x > 2; product *= x) x -= 1;
    if (x < 1) {
        product = 1 / x;
        x += 1;
    }
    const double c[] = {0.886226925452758, 0.01616920065840417, 0.10370336277726211, -0.013411904506554021,
                        0.009040352923395126, -0.002422168172203529, 0.0009156435575836381, -0.00029832791723595346,
                        0.00010140753638126146, -3.1321932472932596e-05, 1.0480373433884011e-05,
                        -5.477962568054642e-06, 1.827323383309536e-06};
    const double t = 2 * x - 3;
    double sum = 0;
    for (int k = 12; k >= 0; --k) sum = sum * t + c[k];
    return product * sum;
}
inline double gamma_of(float number) {
    const double x = number;
    if (x >= 0.5) return gamma_above(x > 40 ? 40 : x);
    if (x == 0) return __builtin_copysign(__builtin_inf(), x);
    if (!(x > -__builtin_inf()) || x == __builtin_floor(x)) return __builtin_nan("");
    // Below -60 the result is below all numbers.
    const double sine = sin_pi(x);
    return x < -60 ? __builtin_copysign(0.0, sine) : 3.14159265358979323846 / (sine * gamma_above(1 - x));
}
inline double normal_quantile_start(double p) {
    return p < 0.02425 ? normal_quantile_below(p) : normal_quantile_inside(p - 0.5);
}
// x with erfc(x) = p, for p at most 1, where no digit is lost: Halley's steps make the start exact.
inline double erfc_inverse_half(double p) {
    if (p == 0) return __builtin_inf();
    double x = -normal_quantile_start(p / 2) * 0.70710678118654752440;
    for (int i = 0; i < 2; ++i) {
        const double error = (__builtin_erfc(x) - p) / (1.12837916709551257390 * __builtin_exp(-x * x));
        x += error / (1 + x * error);
    }
    return x;
}
inline double erf_inverse(double y) {
    const double size = __builtin_fabs(y);
    if (!(size <= 1)) return __builtin_nan("");
    if (size >= 0.5) return __builtin_copysign(erfc_inverse_half(1 - size), y);
    double x = 0.88622692545275801365 * y * (1 + 0.26179938779914943654 * y * y);
    for (int i = 0; i < 4; ++i) {
        const double error = (__builtin_erf(x) - y) / (1.12837916709551257390 * __builtin_exp(-x * x));
        x -= error / (1 + x * error);
    }
    return x;
}
inline double erfc_inverse(double p) {
    if (!(p >= 0 && p <= 2)) return __builtin_nan("");
    if (p >= 0.5 && p <= 1.5) return erf_inverse(1 - p);  // which is exact, where erfc beside 1 has few digits of what it lacks
    return p <= 1 ? erfc_inverse_half(p) : -erfc_inverse_half(2 - p);
}
// exp(x * x) * erfc(x); beyond 10 by its continued fraction, where erfc alone would vanish.
inline double scaled_erfc(double x) {
    if (x < 10) return __builtin_exp(x * x) * __builtin_erfc(x);
    double tail = 0;
    for (int k = 40; k > 0; --k) tail = 0.5 * k / (x + tail);
    return 0.56418958354775628695 / (x + tail);
}
}  // namespace cukern

CUKERN_UNARY_AS(sinpi, (float)cukern::sin_pi(x), cukern::sin_pi(x))
CUKERN_UNARY_AS(cospi, (float)cukern::cos_pi(x), cukern::cos_pi(x))
CUKERN_UNARY_AS(tgamma, (float)cukern::gamma_of(x), __builtin_tgamma(x))
CUKERN_UNARY_AS(erfinv, (float)cukern::erf_inverse(x), cukern::erf_inverse(x))
CUKERN_UNARY_AS(erfcinv, (float)cukern::erfc_inverse(x), cukern::erfc_inverse(x))
CUKERN_UNARY_AS(erfcx, (float)cukern::scaled_erfc(x), cukern::scaled_erfc(x))
CUKERN_UNARY_AS(normcdfinv, (float)(-1.41421356237309504880 * cukern::erfc_inverse(2 * (double)x)),
                -1.41421356237309504880 * cukern::erfc_inverse(2 * x))
#undef CUKERN_UNARY_AS

namespace cukern {
// Squares of floats fit in a double, and vectors have its root.
inline float hypot_of(float x, float y) {
    const double a = x, b = y;
    const float root = (float)__builtin_sqrt(a * a + b * b);
    const bool infinite = (__builtin_fabsf(x) == __builtin_inff()) | (__builtin_fabsf(y) == __builtin_inff());
    return infinite ? __builtin_inff() : root;
}
}  // namespace cukern

#define CUKERN_BINARY_AS(name, single, wide)                                                           \
    static inline float name(float x, float y) { return single; }                                      \
    static inline double name(double x, double y) { return wide; }                                     \
    static inline double name(float x, double y) { return name((double)x, y); }                        \
    static inline double name(double x, float y) { return name(x, (double)y); }                        \
    static inline float name##f(float x, float y) { return name(x, y); }                               \
    template <class T, class U>                                                                        \
    inline typename cukern::IntegerAsDouble<T>::type name(T x, U y) {                                  \
        return name((double)x, (double)y);                                                             \
    }                                                                                                  \
    template <class U>                                                                                 \
    inline typename cukern::IntegerAsDouble<U>::type name(double x, U y) {                             \
        return name(x, (double)y);                                                                     \
    }                                                                                                  \
    template <class U>                                                                                 \
    inline typename cukern::IntegerAsDouble<U>::type name(float x, U y) {                              \
        return name((double)x, (double)y);                                                             \
    }
#define CUKERN_BINARY(name) CUKERN_BINARY_AS(name, __builtin_##name##f(x, y), __builtin_##name(x, y))
CUKERN_BINARY_AS(fmax, cukern::maximum_number(x, y), cukern::maximum_number(x, y))
CUKERN_BINARY_AS(fmin, cukern::minimum_number(x, y), cukern::minimum_number(x, y))
CUKERN_BINARY(atan2)
CUKERN_BINARY_AS(hypot, cukern::hypot_of(x, y), __builtin_hypot(x, y))
CUKERN_BINARY(fmod)
CUKERN_BINARY(remainder)
CUKERN_BINARY(copysign)
CUKERN_BINARY(nextafter)
CUKERN_BINARY(fdim)
CUKERN_BINARY_AS(pow, cukern::power(x, y), cukern::power(x, y))
#undef CUKERN_BINARY
#undef CUKERN_BINARY_AS
static inline float pow(float x, int y) { return cukern::power(x, (float)y); }
static inline float rhypot(float x, float y) { return (float)(1.0 / __builtin_hypot((double)x, (double)y)); }
static inline double rhypot(double x, double y) { return 1.0 / __builtin_hypot(x, y); }

static inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
static inline float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
// By a double, which holds every product with a power of two that float or zero does not round it to.
static inline float ldexp(float x, int n) {
    const int power = n < -300 ? -300 : n > 300 ? 300 : n;
    return (float)((double)x * __longlong_as_double((long long)(power + 1023) << 52));
}
static inline double ldexp(double x, int n) { return __builtin_ldexp(x, n); }
static inline float ldexpf(float x, int n) { return ldexp(x, n); }
static inline float scalbn(float x, int n) { return __builtin_scalbnf(x, n); }
static inline double scalbn(double x, int n) { return __builtin_scalbn(x, n); }
static inline float frexp(float x, int* n) { return __builtin_frexpf(x, n); }
static inline double frexp(double x, int* n) { return __builtin_frexp(x, n); }
static inline float frexpf(float x, int* n) { return __builtin_frexpf(x, n); }
static inline float modf(float x, float* n) { return __builtin_modff(x, n); }
static inline double modf(double x, double* n) { return __builtin_modf(x, n); }
static inline float modff(float x, float* n) { return __builtin_modff(x, n); }
static inline float remquo(float x, float y, int* n) { return __builtin_remquof(x, y, n); }
static inline double remquo(double x, double y, int* n) { return __builtin_remquo(x, y, n); }
static inline int ilogb(float x) { return __builtin_ilogbf(x); }
static inline int ilogb(double x) { return __builtin_ilogb(x); }
static inline long lrint(float x) { return __builtin_lrintf(x); }
static inline long lrint(double x) { return __builtin_lrint(x); }
static inline long long llrint(float x) { return __builtin_llrintf(x); }
static inline long long llrint(double x) { return __builtin_llrint(x); }
static inline long lround(float x) { return __builtin_lroundf(x); }
static inline long lround(double x) { return __builtin_lround(x); }
static inline long long llround(float x) { return __builtin_llroundf(x); }
static inline long long llround(double x) { return __builtin_llround(x); }
static inline double nan(const char*) { return __builtin_nan(""); }
static inline float nanf(const char*) { return __builtin_nanf(""); }
static inline double norm3d(double a, double b, double c) { return __builtin_hypot(__builtin_hypot(a, b), c); }
static inline float norm3df(float a, float b, float c) { return (float)__builtin_sqrt((double)a * a + (double)b * b + (double)c * c); }

#define CUKERN_PAIR(name, type, first, second) \
    static inline void name(type x, type* s, type* c) { *s = first(x), *c = second(x); }
CUKERN_PAIR(sincos, float, sin, cos)
CUKERN_PAIR(sincos, double, sin, cos)
CUKERN_PAIR(sincosf, float, sin, cos)
CUKERN_PAIR(sincospi, float, sinpi, cospi)
CUKERN_PAIR(sincospi, double, sinpi, cospi)
CUKERN_PAIR(sincospif, float, sinpi, cospi)
#undef CUKERN_PAIR

#undef isnan
#undef isinf
#undef isfinite
#undef signbit
#define CUKERN_TEST(name, expression)                                  \
    static inline bool name(float x) { return expression; }            \
    static inline bool name(double x) { return expression; }
CUKERN_TEST(isnan, __builtin_isnan(x))
CUKERN_TEST(isinf, __builtin_isinf(x))
CUKERN_TEST(isfinite, __builtin_isfinite(x))
CUKERN_TEST(isnormal, __builtin_isnormal(x))
// GCC 12 has no instruction for what it makes of __builtin_signbit of a vector of halves.
static inline bool signbit(float x) { return cukern::bits_as<int>(x) < 0; }
static inline bool signbit(double x) { return cukern::bits_as<long long>(x) < 0; }
#undef CUKERN_TEST

// min and max take a number over NaN, as fmin and fmax.
#define CUKERN_MIN_MAX(type, a, b)                                                \
    static constexpr type min(a x, b y) { return (type)y < (type)x ? y : x; }     \
    static constexpr type max(a x, b y) { return (type)x < (type)y ? y : x; }
CUKERN_MIN_MAX(int, int, int)
CUKERN_MIN_MAX(unsigned, unsigned, unsigned)
CUKERN_MIN_MAX(unsigned, int, unsigned)
CUKERN_MIN_MAX(unsigned, unsigned, int)
CUKERN_MIN_MAX(long, long, long)
CUKERN_MIN_MAX(unsigned long, unsigned long, unsigned long)
CUKERN_MIN_MAX(unsigned long, long, unsigned long)
CUKERN_MIN_MAX(unsigned long, unsigned long, long)
CUKERN_MIN_MAX(long long, long long, long long)
CUKERN_MIN_MAX(unsigned long long, unsigned long long, unsigned long long)
CUKERN_MIN_MAX(unsigned long long, long long, unsigned long long)
CUKERN_MIN_MAX(unsigned long long, unsigned long long, long long)
#undef CUKERN_MIN_MAX
#define CUKERN_MIN_MAX(type, a, b)                                      \
    static inline type min(a x, b y) { return fmin((type)x, (type)y); } \
    static inline type max(a x, b y) { return fmax((type)x, (type)y); }
CUKERN_MIN_MAX(float, float, float)
CUKERN_MIN_MAX(double, double, double)
CUKERN_MIN_MAX(double, float, double)
CUKERN_MIN_MAX(double, double, float)
#undef CUKERN_MIN_MAX

static constexpr int abs(int x) { return x < 0 ? -x : x; }
static constexpr long abs(long x) { return x < 0 ? -x : x; }
static constexpr long long abs(long long x) { return x < 0 ? -x : x; }
static constexpr long labs(long x) { return x < 0 ? -x : x; }
static constexpr long long llabs(long long x) { return x < 0 ? -x : x; }
static inline float abs(float x) { return __builtin_fabsf(x); }
static inline double abs(double x) { return __builtin_fabs(x); }

// The fast intrinsics are the exact functions here.
static inline float __expf(float x) { return exp(x); }
static inline float __exp10f(float x) { return exp10(x); }
static inline float __logf(float x) { return log(x); }
static inline float __log2f(float x) { return log2(x); }
static inline float __log10f(float x) { return log10(x); }
static inline float __sinf(float x) { return sin(x); }
static inline float __cosf(float x) { return cos(x); }
static inline float __tanf(float x) { return tan(x); }
static inline float __tanhf(float x) { return tanh(x); }
static inline float __powf(float x, float y) { return pow(x, y); }
static inline void __sincosf(float x, float* s, float* c) { sincos(x, s, c); }
static inline float __fdividef(float x, float y) { return x / y; }
static inline float fdividef(float x, float y) { return x / y; }
static inline float __saturatef(float x) { return x > 0 ? (x < 1 ? x : 1) : 0; }
