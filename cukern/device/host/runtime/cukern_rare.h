// Functions of CUDA that few kernels call.
#pragma once

#define CUKERN_SINGLE(name, parameters, call) static inline auto name##f parameters { return call; }
CUKERN_SINGLE(ilogb, (float x), ilogb(x))
CUKERN_SINGLE(lrint, (float x), lrint(x))
CUKERN_SINGLE(llrint, (float x), llrint(x))
CUKERN_SINGLE(lround, (float x), lround(x))
CUKERN_SINGLE(llround, (float x), llround(x))
CUKERN_SINGLE(scalbn, (float x, int n), scalbn(x, n))
CUKERN_SINGLE(scalbln, (float x, long n), __builtin_scalblnf(x, n))
CUKERN_SINGLE(rhypot, (float x, float y), rhypot(x, y))
CUKERN_SINGLE(remquo, (float x, float y, int* quotient), __builtin_remquof(x, y, quotient))
#undef CUKERN_SINGLE
static inline double scalbln(double x, long n) { return __builtin_scalbln(x, n); }

namespace cukern {
// Values are scaled by the largest first, so that squares neither overflow nor vanish.
template <class T>
inline auto length_of(int count, const T* values) {
    double largest = 0, sum = 0;
    for (int i = 0; i < count; ++i) {
        if (isinf(values[i])) return (T)__builtin_inf();
        if (!(fabs((double)values[i]) <= largest)) largest = fabs((double)values[i]);
    }
    if (largest == 0 || largest != largest) return (T)largest;
    for (int i = 0; i < count; ++i) sum += values[i] / largest * (values[i] / largest);
    return (T)(largest * sqrt(sum));
}
}  // namespace cukern
#define CUKERN_LENGTHS(type, suffix)                                                                                  \
    static inline type norm4d##suffix(type a, type b, type c, type d) {                                               \
        const type values[] = {a, b, c, d};                                                                         \
        return cukern::length_of(4, values);                                                                       \
    }                                                                                                                 \
    static inline type rnorm3d##suffix(type a, type b, type c) {                                                      \
        const type values[] = {a, b, c};                                                                            \
        return 1 / cukern::length_of(3, values);                                                                 \
    }                                                                                                                 \
    static inline type rnorm4d##suffix(type a, type b, type c, type d) {                                              \
        const type values[] = {a, b, c, d};                                                                         \
        return 1 / cukern::length_of(4, values);                                                                 \
    }                                                                                                                 \
    static inline type norm##suffix(int count, const type* values) { return cukern::length_of(count, values); }       \
    static inline type rnorm##suffix(int count, const type* values) { return 1 / cukern::length_of(count, values); }
CUKERN_LENGTHS(float, f)
CUKERN_LENGTHS(double, )
#undef CUKERN_LENGTHS

static inline int __isnan(double x) { return __builtin_isnan(x); }
static inline int __isnanf(float x) { return __builtin_isnan(x); }
static inline int __isinf(double x) { return __builtin_isinf(x); }
static inline int __isinff(float x) { return __builtin_isinf(x); }
static inline unsigned umin(unsigned a, unsigned b) { return b < a ? b : a; }
static inline unsigned umax(unsigned a, unsigned b) { return a < b ? b : a; }
static inline long long llmin(long long a, long long b) { return b < a ? b : a; }
static inline long long llmax(long long a, long long b) { return a < b ? b : a; }
static inline unsigned long long ullmin(unsigned long long a, unsigned long long b) { return b < a ? b : a; }
static inline unsigned long long ullmax(unsigned long long a, unsigned long long b) { return a < b ? b : a; }
static inline void __prof_trigger(int) {}

// Copies and texts, as C has them.
extern "C" {
void* memmove(void*, const void*, size_t) noexcept;
size_t strlen(const char*) noexcept;
int strcmp(const char*, const char*) noexcept;
}

// Of three: the larger and smaller, of sums too, and not below 0 with `_relu`; as 32 bits, and as two parts of 16.
namespace cukern {
template <class Part, class Function>
inline auto by_part(unsigned a, unsigned b, unsigned c, Function function) {
    unsigned result = 0;
    for (unsigned at = 0; at < 32; at += 16)
        result |= ((unsigned)function((Part)(a >> at), (Part)(b >> at), (Part)(c >> at)) & 0xffff) << at;
    return result;
}
template <class T>
inline auto larger(T a, T b) { return a < b ? b : a; }
template <class T>
inline auto smaller(T a, T b) { return b < a ? b : a; }
template <class T>
inline auto sum(T a, T b) { return (T)((unsigned)a + (unsigned)b); }
}  // namespace cukern
#define CUKERN_OF_THREE(name, suffix, type, expression)                                                               \
    static inline type name##suffix(type a, type b, type c) { return expression; }
#define CUKERN_OF_PAIRS(name, suffix, type, expression)                                                               \
    static inline unsigned name##suffix(unsigned x, unsigned y, unsigned z) {                                         \
        return cukern::by_part<type>(x, y, z, [](type a, type b, type c) { return expression; });                     \
    }
#define CUKERN_LIMITS(name, expression, form)                                                                         \
    form(name, _s32, int, expression) CUKERN_OF_PAIRS(name, _s16x2, short, expression)                                \
    form(name, _u32, unsigned, expression) CUKERN_OF_PAIRS(name, _u16x2, unsigned short, expression)                  \
    form(name, _s32_relu, int, cukern::larger<int>(expression, 0))                                                    \
    CUKERN_OF_PAIRS(name, _s16x2_relu, short, cukern::larger<short>(expression, 0))
CUKERN_LIMITS(__viaddmax, cukern::larger(cukern::sum(a, b), c), CUKERN_OF_THREE)
CUKERN_LIMITS(__viaddmin, cukern::smaller(cukern::sum(a, b), c), CUKERN_OF_THREE)
CUKERN_LIMITS(__vimax3, cukern::larger(cukern::larger(a, b), c), CUKERN_OF_THREE)
CUKERN_LIMITS(__vimin3, cukern::smaller(cukern::smaller(a, b), c), CUKERN_OF_THREE)
#undef CUKERN_LIMITS
#undef CUKERN_OF_PAIRS
#undef CUKERN_OF_THREE
static inline int __vimax_s32_relu(int a, int b) { return __vimax3_s32(a, b, 0); }
static inline int __vimin_s32_relu(int a, int b) { return cukern::larger(cukern::smaller(a, b), 0); }
static inline unsigned __vimax_s16x2_relu(unsigned a, unsigned b) { return __vimax3_s16x2(a, b, 0); }
static inline unsigned __vimin_s16x2_relu(unsigned a, unsigned b) { return __vimin3_s16x2_relu(a, b, a); }
#define CUKERN_LARGER_OF(name, suffix, type, op)                                                                     \
    static inline type name##_##suffix(type a, type b, bool* is_first) { return (*is_first = a op b) ? a : b; }
#define CUKERN_LARGER_PAIR(name, suffix, type, op)                                                                   \
    static inline unsigned name##_##suffix(unsigned a, unsigned b, bool* high, bool* low) {                          \
        *high = (type)(a >> 16) op (type)(b >> 16), *low = (type)a op (type)b;                                       \
        return ((*high ? a : b) & 0xffff0000u) | ((*low ? a : b) & 0xffffu);                                         \
    }
CUKERN_LARGER_OF(__vibmax, s32, int, >=)
CUKERN_LARGER_OF(__vibmax, u32, unsigned, >=)
CUKERN_LARGER_OF(__vibmin, s32, int, <=)
CUKERN_LARGER_OF(__vibmin, u32, unsigned, <=)
CUKERN_LARGER_PAIR(__vibmax, s16x2, short, >=)
CUKERN_LARGER_PAIR(__vibmax, u16x2, unsigned short, >=)
CUKERN_LARGER_PAIR(__vibmin, s16x2, short, <=)
CUKERN_LARGER_PAIR(__vibmin, u16x2, unsigned short, <=)
#undef CUKERN_LARGER_PAIR
#undef CUKERN_LARGER_OF

// The place of the n-th set bit from a bit on, upwards, or downwards for a negative n; all bits if there is none.
static inline unsigned __fns(unsigned mask, unsigned base, int n) {
    if (n == 0) return mask >> base & 1 ? base : 0xffffffffu;
    for (int at = (int)base; at >= 0 && at < 32; at += n > 0 ? 1 : -1)
        if (mask >> at & 1 && (n > 0 ? --n : ++n) == 0) return (unsigned)at;
    return 0xffffffffu;
}
static inline int __finite(double x) { return __builtin_isfinite(x); }
static inline int __finitef(float x) { return __builtin_isfinite(x); }
static inline void __barrier_sync(unsigned id, CUKERN_HERE) {
    if (id) cukern::fault("__barrier_sync of another barrier than 0: the host has those of prelude/warp_roles.cuh", file, line);
    __syncthreads(file, line);
}

// The modified Bessel functions, by their power series, whose terms are all positive.
namespace cukern {
inline double modified_bessel(int order, double x) {
    const double half = x / 2;
    double term = order ? half : 1, sum = 0;
    for (int k = 1; sum + term != sum; ++k) {
        sum += term;
        term *= half / k * (half / (k + order));
    }
    return sum;
}
}  // namespace cukern
static inline double cyl_bessel_i0(double x) { return cukern::modified_bessel(0, x); }
static inline double cyl_bessel_i1(double x) { return cukern::modified_bessel(1, x); }
static inline float cyl_bessel_i0f(float x) { return (float)cukern::modified_bessel(0, x); }
static inline float cyl_bessel_i1f(float x) { return (float)cukern::modified_bessel(1, x); }

// Clusters.
static inline unsigned __clusterRelativeBlockRank() { return cukern::runtime->cluster_rank(); }
static inline unsigned __clusterSizeInBlocks() { return cukern::runtime->cluster_size(); }
static inline void __cluster_barrier_arrive(CUKERN_HERE) { cukern::runtime->cluster_arrive(true, file, line); }
static inline void __cluster_barrier_arrive_relaxed(CUKERN_HERE) { cukern::runtime->cluster_arrive(false, file, line); }
static inline void __cluster_barrier_wait(CUKERN_HERE) { cukern::runtime->cluster_wait(file, line); }
static inline void* __cluster_map_shared_rank(const void* own, unsigned rank, CUKERN_HERE) {
    return cukern::runtime->map_shared(own, rank, file, line);
}
static inline void __threadfence_cluster() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
