// Integer intrinsics, the bits of numbers, and conversions that saturate as CUDA's do.
#pragma once

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __brev(unsigned x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
static inline unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}
static inline int __mulhi(int x, int y) { return (int)((long long)x * y >> 32); }
static inline unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((unsigned long long)x * y >> 32); }
static inline long long __mul64hi(long long x, long long y) { return (long long)((__int128)x * y >> 64); }
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
static inline int __mul24(int x, int y) {
    return (int)((unsigned)((int)((unsigned)x << 8) >> 8) * (unsigned)((int)((unsigned)y << 8) >> 8));
}
static inline unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffffu) * (y & 0xffffffu); }
static inline int __hadd(int x, int y) { return (int)(((long long)x + y) >> 1); }
static inline int __rhadd(int x, int y) { return (int)(((long long)x + y + 1) >> 1); }
static inline unsigned __uhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y) >> 1); }
static inline unsigned __urhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y + 1) >> 1); }
static inline unsigned __sad(int x, int y, unsigned z) { return z + (x > y ? (unsigned)x - y : (unsigned)y - x); }
static inline unsigned __usad(unsigned x, unsigned y, unsigned z) { return z + (x > y ? x - y : y - x); }
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned choice = selector >> 4 * i & 15;
        unsigned byte = (unsigned)(bytes >> 8 * (choice & 7)) & 255;
        if (choice & 8) byte = byte & 128 ? 255 : 0;
        result |= byte << 8 * i;
    }
    return result;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned n) {
    return (unsigned)(((unsigned long long)high << 32 | low) << (n & 31) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned n) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (n & 31));
}
static inline unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned n) {
    return (unsigned)(((unsigned long long)high << 32 | low) << (n < 32 ? n : 32) >> 32);
}
static inline unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned n) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (n < 32 ? n : 32));
}
static inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; ++i) c += (int)(signed char)(a >> 8 * i) * (int)(signed char)(b >> 8 * i);
    return c;
}
static inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; ++i) c += (a >> 8 * i & 255) * (b >> 8 * i & 255);
    return c;
}

namespace cukern {
template <class To, class From>
inline auto bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "the same number of bits");
    To to;
    __builtin_memcpy(&to, &from, sizeof(To));
    return to;
}

// An already rounded number as an integer: the nearest that there is; for NaN 0, or the highest bit alone where the number or
// the integer has 64 bits. Source: PTX ISA, cvt.
template <class To, class From>
inline auto saturate(From x) {
    constexpr int bits = 8 * sizeof(To) - (To(-1) < To(1));
    constexpr To highest = (To)(~0ull >> (64 - bits)), lowest = To(-1) < To(1) ? (To)(-highest - 1) : To(0);
    const From limit = (From)(2 * (From)(1ull << (bits - 1)));
    constexpr To of_nan = sizeof(From) == 8 || sizeof(To) == 8 ? (To)(1ull << (8 * sizeof(To) - 1)) : To(0);
    return x != x ? of_nan : x >= limit ? highest : x < (From)lowest ? lowest : (To)x;
}

// A value as float or double, rounded down, up or to zero, by its distance from the nearest one.
template <class To, class From>
inline auto directed(From from, int direction) {
    const To near = (To)from;
    const From difference = (From)near == from ? 0 : (From)near > from ? 1 : -1;
    if (direction == 0) direction = from > 0 ? -1 : 1;
    if (difference == 0 || (difference > 0) == (direction > 0)) return near;
    return sizeof(To) == 4 ? (To)__builtin_nextafterf((float)near, direction * __builtin_inff())
                           : (To)__builtin_nextafter((double)near, direction * __builtin_inf());
}
}  // namespace cukern

static inline int __float_as_int(float x) { return cukern::bits_as<int>(x); }
static inline unsigned __float_as_uint(float x) { return cukern::bits_as<unsigned>(x); }
static inline float __int_as_float(int x) { return cukern::bits_as<float>(x); }
static inline float __uint_as_float(unsigned x) { return cukern::bits_as<float>(x); }
static inline long long __double_as_longlong(double x) { return cukern::bits_as<long long>(x); }
static inline double __longlong_as_double(long long x) { return cukern::bits_as<double>(x); }
static inline int __double2hiint(double x) { return (int)(cukern::bits_as<long long>(x) >> 32); }
static inline int __double2loint(double x) { return (int)cukern::bits_as<long long>(x); }
static inline double __hiloint2double(int high, int low) {
    return cukern::bits_as<double>((unsigned long long)(unsigned)high << 32 | (unsigned)low);
}

#define CUKERN_TO_INTEGER(name, from, to, suffix)                                                             \
    static inline to name##_rn(from x) { return cukern::saturate<to>(__builtin_rint##suffix(x)); }            \
    static inline to name##_rz(from x) { return cukern::saturate<to>(__builtin_trunc##suffix(x)); }           \
    static inline to name##_ru(from x) { return cukern::saturate<to>(__builtin_ceil##suffix(x)); }            \
    static inline to name##_rd(from x) { return cukern::saturate<to>(__builtin_floor##suffix(x)); }
CUKERN_TO_INTEGER(__float2int, float, int, f)
CUKERN_TO_INTEGER(__float2uint, float, unsigned, f)
CUKERN_TO_INTEGER(__float2ll, float, long long, f)
CUKERN_TO_INTEGER(__float2ull, float, unsigned long long, f)
CUKERN_TO_INTEGER(__double2int, double, int, )
CUKERN_TO_INTEGER(__double2uint, double, unsigned, )
CUKERN_TO_INTEGER(__double2ll, double, long long, )
CUKERN_TO_INTEGER(__double2ull, double, unsigned long long, )
#undef CUKERN_TO_INTEGER

// Through a wider type that holds `from` exactly.
#define CUKERN_ROUNDED(name, from, to, wide)                                                                  \
    static inline to name##_rn(from x) { return (to)x; }                                                      \
    static inline to name##_rz(from x) { return cukern::directed<to, wide>(x, 0); }                           \
    static inline to name##_ru(from x) { return cukern::directed<to, wide>(x, 1); }                           \
    static inline to name##_rd(from x) { return cukern::directed<to, wide>(x, -1); }
CUKERN_ROUNDED(__int2float, int, float, double)
CUKERN_ROUNDED(__uint2float, unsigned, float, double)
CUKERN_ROUNDED(__ll2float, long long, float, __int128)
CUKERN_ROUNDED(__ull2float, unsigned long long, float, __int128)
CUKERN_ROUNDED(__ll2double, long long, double, __int128)
CUKERN_ROUNDED(__ull2double, unsigned long long, double, __int128)
CUKERN_ROUNDED(__double2float, double, float, double)
#undef CUKERN_ROUNDED
static inline double __int2double_rn(int x) { return x; }
static inline double __uint2double_rn(unsigned x) { return x; }

// Each operation is already rounded on its own: the host never fuses a product with a sum by itself.
#define CUKERN_ARITHMETIC(type, prefix, suffix)                                                               \
    static inline type __##prefix##add_rn(type x, type y) { return x + y; }                                   \
    static inline type __##prefix##sub_rn(type x, type y) { return x - y; }                                   \
    static inline type __##prefix##mul_rn(type x, type y) { return x * y; }                                   \
    static inline type __##prefix##div_rn(type x, type y) { return x / y; }                                   \
    static inline type __##prefix##rcp_rn(type x) { return 1 / x; }                                           \
    static inline type __##prefix##sqrt_rn(type x) { return __builtin_sqrt##suffix(x); }
CUKERN_ARITHMETIC(float, f, f)
CUKERN_ARITHMETIC(double, d, )
#undef CUKERN_ARITHMETIC
static inline float __frsqrt_rn(float x) { return (float)(1.0 / __builtin_sqrt((double)x)); }
static inline float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline float __fmaf_ieee_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline double __fma_rn(double x, double y, double z) { return __builtin_fma(x, y, z); }

// CUDA's directed float arithmetic, from the operation in double and the sign of what that left over.
namespace cukern {
inline float directed_sum(double near, double rest, int direction) {
    const float value = (float)near;
    if (!__builtin_isfinite(near)) return value;
    double above = (double)value - near;
    if (above == 0) above = -rest;
    if (direction == 0) direction = near > 0 || (near == 0 && rest > 0) ? -1 : 1;
    if (above == 0 || (above > 0) == (direction > 0)) return value;
    return __builtin_nextafterf(value, direction * __builtin_inff());
}
inline double two_sum_rest(double a, double b) {
    const double sum = a + b, part = sum - a;
    return (a - (sum - part)) + (b - part);
}
// A sum that is 0 has the sign of the direction, unless both of its parts have another one.
inline double directed_zero(double a, double b, int direction) {
    const double sum = a + b;
    return sum == 0 && direction < 0 && (__builtin_signbit(a) || __builtin_signbit(b)) ? -0.0 : sum;
}
}  // namespace cukern
#define CUKERN_DIRECTED(suffix, direction)                                                                     \
    static inline float __fadd_##suffix(float x, float y) {                                                    \
        return cukern::directed_sum(cukern::directed_zero(x, y, direction), cukern::two_sum_rest(x, y), direction); \
    }                                                                                                          \
    static inline float __fsub_##suffix(float x, float y) { return __fadd_##suffix(x, -y); }                   \
    static inline float __fmul_##suffix(float x, float y) {                                                    \
        return cukern::directed_sum((double)x * y, 0, direction);                                              \
    }                                                                                                          \
    static inline float __fdiv_##suffix(float x, float y) {                                                    \
        const double q = (double)x / y, rest = __builtin_fma(-q, (double)y, (double)x);                        \
        return cukern::directed_sum(q, y < 0 ? -rest : rest, direction);                                       \
    }                                                                                                          \
    static inline float __frcp_##suffix(float x) { return __fdiv_##suffix(1.0f, x); }                          \
    static inline float __fsqrt_##suffix(float x) {                                                            \
        const double q = __builtin_sqrt((double)x);                                                            \
        return cukern::directed_sum(q, __builtin_fma(-q, q, (double)x), direction);                            \
    }                                                                                                          \
    static inline float __fmaf_##suffix(float x, float y, float z) {                                           \
        const double product = (double)x * y;                                                                  \
        return cukern::directed_sum(cukern::directed_zero(product, z, direction),                              \
                                    cukern::two_sum_rest(product, z), direction);                              \
    }                                                                                                          \
    static inline float __fmaf_ieee_##suffix(float x, float y, float z) { return __fmaf_##suffix(x, y, z); }
CUKERN_DIRECTED(rz, 0)
CUKERN_DIRECTED(ru, 1)
CUKERN_DIRECTED(rd, -1)
#undef CUKERN_DIRECTED

// Of double by the processor itself, whose mode of rounding is changed around the operation. The system's header for that
// brings many others.
#if defined(__x86_64__)
enum class CukernRounding : int { nearest = 0, down = 0x400, up = 0x800, to_zero = 0xc00 };
extern "C" int fesetround(int) noexcept;
#elif defined(__aarch64__)
enum class CukernRounding : int { nearest = 0, up = 0x400000, down = 0x800000, to_zero = 0xc00000 };
extern "C" int fesetround(int) noexcept;
#else
#include <fenv.h>
enum class CukernRounding : int { nearest = FE_TONEAREST, down = FE_DOWNWARD, up = FE_UPWARD, to_zero = FE_TOWARDZERO };
#endif
namespace cukern {
// The compiler moves no use of the value to before this, and no work on it to behind.
template <class T>
inline void settle(T& value) {
    __asm__ volatile("" : "+m"(value) : : "memory");
}
template <class Function, class... T>
inline double by_mode(CukernRounding mode, Function function, T... operands) {
    fesetround((int)mode);
    (settle(operands), ...);
    double value = function(operands...);
    settle(value);
    fesetround((int)CukernRounding::nearest);
    return value;
}
}  // namespace cukern
#define CUKERN_BY_MODE(name, parameters, ...)                                                                  \
    static inline double name##_rz parameters { return cukern::by_mode(CukernRounding::to_zero, __VA_ARGS__); }          \
    static inline double name##_ru parameters { return cukern::by_mode(CukernRounding::up, __VA_ARGS__); }              \
    static inline double name##_rd parameters { return cukern::by_mode(CukernRounding::down, __VA_ARGS__); }
CUKERN_BY_MODE(__dadd, (double x, double y), [](double a, double b) { return a + b; }, x, y)
CUKERN_BY_MODE(__dsub, (double x, double y), [](double a, double b) { return a - b; }, x, y)
CUKERN_BY_MODE(__dmul, (double x, double y), [](double a, double b) { return a * b; }, x, y)
CUKERN_BY_MODE(__ddiv, (double x, double y), [](double a, double b) { return a / b; }, x, y)
CUKERN_BY_MODE(__drcp, (double x), [](double a) { return 1 / a; }, x)
CUKERN_BY_MODE(__dsqrt, (double x), [](double a) { return __builtin_sqrt(a); }, x)
CUKERN_BY_MODE(__fma, (double x, double y, double z), [](double a, double b, double c) { return __builtin_fma(a, b, c); }, x, y, z)
#undef CUKERN_BY_MODE
