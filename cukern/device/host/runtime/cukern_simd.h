// CUDA's SIMD intrinsics: two parts of 16 bits, or four of 8, in an unsigned.
#pragma once

namespace cukern {
template <class Part, class Function>
inline auto by_part(unsigned a, unsigned b, Function function) {
    unsigned result = 0;
    for (unsigned at = 0; at < 32; at += 8 * sizeof(Part)) {
        const unsigned part = (unsigned)function((int)(Part)(a >> at), (int)(Part)(b >> at));
        result |= (part & (0xffffffffu >> (32 - 8 * sizeof(Part)))) << at;
    }
    return result;
}
template <class Part, class Function>
inline auto sum_of_parts(unsigned a, unsigned b, Function function) {
    unsigned sum = 0;
    for (unsigned at = 0; at < 32; at += 8 * sizeof(Part)) sum += (unsigned)function((int)(Part)(a >> at), (int)(Part)(b >> at));
    return sum;
}
inline int within(int x, int low, int high) { return x < low ? low : high < x ? high : x; }
}  // namespace cukern

#define CUKERN_PARTS(name, type, expression)                                                   \
    static inline unsigned name(unsigned a, unsigned b) {                                      \
        return cukern::by_part<type>(a, b, [](int x, int y) { return (int)(expression); });    \
    }
#define CUKERN_PART(name, type, expression)                                                    \
    static inline unsigned name(unsigned a) {                                                  \
        return cukern::by_part<type>(a, 0, [](int x, int) { return (int)(expression); });      \
    }
#define CUKERN_COMPARED(name, n, type, op)                     \
    CUKERN_PARTS(__vcmp##name##n, type, x op y ? -1 : 0)       \
    CUKERN_PARTS(__vset##name##n, type, x op y ? 1 : 0)
#define CUKERN_SIMD(n, s, u, low, high)                                                        \
    CUKERN_PARTS(__vadd##n, u, x + y)                                                          \
    CUKERN_PARTS(__vsub##n, u, x - y)                                                          \
    CUKERN_PARTS(__vaddss##n, s, cukern::within(x + y, low, high))                             \
    CUKERN_PARTS(__vsubss##n, s, cukern::within(x - y, low, high))                             \
    CUKERN_PARTS(__vaddus##n, u, cukern::within(x + y, 0, 2 * high + 1))                       \
    CUKERN_PARTS(__vsubus##n, u, cukern::within(x - y, 0, 2 * high + 1))                       \
    /* Halves are rounded away from zero. */                                                   \
    CUKERN_PARTS(__vavgs##n, s, x + y < 0 ? (x + y - 1) / 2 : (x + y + 1) / 2)                 \
    CUKERN_PARTS(__vavgu##n, u, (x + y + 1) / 2)                                               \
    CUKERN_PARTS(__vhaddu##n, u, (x + y) / 2)                                                  \
    CUKERN_PARTS(__vabsdiffs##n, s, x < y ? y - x : x - y)                                     \
    CUKERN_PARTS(__vabsdiffu##n, u, x < y ? y - x : x - y)                                     \
    CUKERN_PARTS(__vmaxs##n, s, x < y ? y : x)                                                 \
    CUKERN_PARTS(__vmaxu##n, u, x < y ? y : x)                                                 \
    CUKERN_PARTS(__vmins##n, s, y < x ? y : x)                                                 \
    CUKERN_PARTS(__vminu##n, u, y < x ? y : x)                                                 \
    CUKERN_PART(__vabs##n, s, x < 0 ? -x : x)                                                  \
    CUKERN_PART(__vabsss##n, s, cukern::within(x < 0 ? -x : x, low, high))                     \
    CUKERN_PART(__vneg##n, u, -x)                                                              \
    CUKERN_PART(__vnegss##n, s, cukern::within(-x, low, high))                                 \
    CUKERN_COMPARED(eq, n, u, ==)                                                              \
    CUKERN_COMPARED(ne, n, u, !=)                                                              \
    CUKERN_COMPARED(ges, n, s, >=)                                                             \
    CUKERN_COMPARED(geu, n, u, >=)                                                             \
    CUKERN_COMPARED(gts, n, s, >)                                                              \
    CUKERN_COMPARED(gtu, n, u, >)                                                              \
    CUKERN_COMPARED(les, n, s, <=)                                                             \
    CUKERN_COMPARED(leu, n, u, <=)                                                             \
    CUKERN_COMPARED(lts, n, s, <)                                                              \
    CUKERN_COMPARED(ltu, n, u, <)                                                              \
    static inline unsigned __vsads##n(unsigned a, unsigned b) {                                \
        return cukern::sum_of_parts<s>(a, b, [](int x, int y) { return x < y ? y - x : x - y; }); \
    }                                                                                          \
    static inline unsigned __vsadu##n(unsigned a, unsigned b) {                                \
        return cukern::sum_of_parts<u>(a, b, [](int x, int y) { return x < y ? y - x : x - y; }); \
    }
CUKERN_SIMD(2, short, unsigned short, -32768, 32767)
CUKERN_SIMD(4, signed char, unsigned char, -128, 127)
#undef CUKERN_SIMD
#undef CUKERN_COMPARED
#undef CUKERN_PART
#undef CUKERN_PARTS
