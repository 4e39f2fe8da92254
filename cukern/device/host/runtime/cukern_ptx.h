// What instructions of inline PTX need that CUDA has no function for.
#pragma once

namespace cukern {
template <class T>
constexpr bool is_float = false;
template <>
constexpr bool is_float<float> = true;
template <>
constexpr bool is_float<double> = true;
template <class T>
constexpr bool is_whole = !is_float<T> && !__is_class(T);

// A register's bits, and a register from bits, whatever its type.
template <class T>
inline unsigned long long bits_of(T x) {
    unsigned long long bits = 0;
    __builtin_memcpy(&bits, &x, sizeof(T));
    return bits;
}
template <class To, class From>
inline void set_bits(To& to, From from) {
    const unsigned long long bits = bits_of(from);
    __builtin_memcpy((void*)&to, &bits, sizeof(To));
}
// A register as a value of a type, and a value to a register: numbers of one kind are converted, all else are bits.
template <class T, class From>
inline T in(From x) {
    if constexpr ((is_whole<T> && is_whole<From>) || (is_float<T> && is_float<From>)) {
        return (T)x;
    } else {
        T value;
        set_bits(value, x);
        return value;
    }
}
template <class To, class T>
inline void out(To& to, T value) {
    if constexpr ((is_whole<To> && is_whole<T>) || (is_float<To> && is_float<T>)) to = (To)value;
    else set_bits(to, value);
}
// Where an instruction stands, for functions of any number of registers.
struct Here {
    const char* file;
    int line;
};
inline Here here(CUKERN_HERE) { return {file, line}; }
// The register that is written `_`.
struct Dropped {
    template <class T>
    T operator=(T value) { return value; }
};
template <class T>
inline void out(Dropped&, T) {}
template <class T, class From>
inline void give_back(T&& to, From value) { to = value; }
template <class T, class From>
inline void give_back(T*& to, From value) { to = (T*)value; }

template <class T>
struct Plain {
    using type = T;
};
template <class T>
struct Plain<volatile T> {
    using type = T;
};
// Where the last address of another block of the cluster was that this OS thread has mapped; unknown to checked launches.
static thread_local const void* last_mapped;
static __attribute__((noinline, no_sanitize("thread"))) void note_mapped(const void* at) { last_mapped = at; }
static __attribute__((noinline, no_sanitize("thread"))) const void* mapped_or(const void* other) {
    return last_mapped ? last_mapped : other;
}
// Shared memory by the low 32 bits of its address: that of the launch, the variables of the kernel, or of another block.
inline void* shared_at(unsigned long long address) {
    const auto near = [address](const void* known) {
        return (char*)known + (int)((unsigned)address - (unsigned)(unsigned long long)known);
    };
    void* const dynamic = near(dynamic_shared_base);
    if (runtime->is_shared(dynamic, 1)) return dynamic;
    void* const variable = near(&dynamic_shared_base);
    return runtime->is_shared(variable, 1) ? variable : near(mapped_or(dynamic));
}
inline void require_aligned(const volatile void* at, unsigned bytes, Here here) {
    if ((unsigned long long)at % bytes) fault("inline PTX: the address of a vector is no multiple of its size", here.file, here.line);
}
template <class T, class... To>
inline void load_from(Here here, const void* at, To&... to) {
    T* const from = (T*)at;
    if (sizeof...(To) > 1) require_aligned(at, sizeof...(To) * sizeof(T), here);
    unsigned i = 0;
    (out(to, from[i++]), ...);
}
template <class T, class... From>
inline void store_to(Here here, void* at, From... values) {
    T* const to = (T*)at;
    if (sizeof...(From) > 1) require_aligned(at, sizeof...(From) * sizeof(T), here);
    unsigned i = 0;
    ((to[i++] = in<typename Plain<T>::type>(values)), ...);
}
template <class... Values>
inline void add_each(float* at, Values... values) {
    (atomicAdd(at++, in<float>(values)), ...);
}
// Values of an array to registers.
template <class T, unsigned count, class... To>
inline void give(const T (&values)[count], To&... to) {
    static_assert(count == sizeof...(To), "inline PTX: an instruction with another number of registers");
    unsigned i = 0;
    (out(to, values[i++]), ...);
}

// The truth table of three bits has a bit for each of their 8 combinations.
inline unsigned lop3(unsigned a, unsigned b, unsigned c, unsigned table) {
    unsigned result = 0;
    for (int i = 0; i < 8; ++i)
        if (table >> i & 1) result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return result;
}
template <class T>
inline T bit_field(unsigned long long bits, unsigned position, unsigned length) {
    constexpr unsigned all = 8 * sizeof(T), last = all - 1;
    const unsigned long long whole = ~0ull >> (64 - all), x = bits & whole;
    position &= 255, length &= 255;
    if (length == 0) return 0;
    const unsigned top = position + length - 1 < last ? position + length - 1 : last;
    const unsigned long long sign = T(-1) < T(0) ? x >> top & 1 : 0;
    const unsigned long long low = position < all ? x >> position : 0;
    const unsigned long long mask = length < all ? (1ull << length) - 1 : whole;
    const unsigned long long known = position < all ? mask & (whole >> position) : 0;
    return (T)((low & known) | (sign ? ~known : 0));
}
template <class T>
inline T with_bit_field(T field, T base, unsigned position, unsigned length) {
    constexpr unsigned all = 8 * sizeof(T);
    position &= 255, length &= 255;
    if (position >= all || length == 0) return base;
    const T mask = (length < all ? ((T)1 << length) - 1 : ~(T)0) << position;
    return (base & ~mask) | (field << position & mask);
}
// The highest bit that is not the sign's, or ~0u.
template <class T>
inline unsigned highest_bit(T x) {
    const unsigned long long bits = (unsigned long long)(x < 0 ? ~x : x);
    return bits ? 63u - (unsigned)__builtin_clzll(bits) : ~0u;
}
template <class T>
inline unsigned shift_to_highest_bit(T x) {
    const unsigned found = highest_bit(x);
    return found == ~0u ? found : 8 * (unsigned)sizeof(T) - 1 - found;
}
// The modes of prmt, by the byte that each byte of the result is, for the two low bits of the selector.
enum Permutation { permute_f4e, permute_b4e, permute_rc8, permute_ecl, permute_ecr, permute_rc16 };
inline unsigned permuted_by(Permutation mode, unsigned a, unsigned b, unsigned selector) {
    constexpr unsigned short table[6][4] = {{0x3210, 0x4321, 0x5432, 0x6543}, {0x5670, 0x6701, 0x7012, 0x0123},
                                            {0x0000, 0x1111, 0x2222, 0x3333}, {0x3210, 0x3211, 0x3222, 0x3333},
                                            {0x0000, 0x1110, 0x2210, 0x3210}, {0x1010, 0x3232, 0x1010, 0x3232}};
    return __byte_perm(a, b, table[mode][selector & 3]);
}
template <class T>
inline T dot_of_two(unsigned a, unsigned b, unsigned c, unsigned shift) {
    constexpr bool is_signed = T(-1) < T(0);
    unsigned sum = c;
    for (unsigned i = 0; i < 2; ++i) {
        const int x = is_signed ? (short)(a >> 16 * i) : (int)(a >> 16 * i & 0xffff);
        const int y = is_signed ? (signed char)(b >> (8 * i + shift)) : (int)(b >> (8 * i + shift) & 255);
        sum += (unsigned)(x * y);
    }
    return (T)sum;
}
template <class T>
struct Pair {
    T low, high;
};
template <class T>
inline Pair<T> min_of_pairs(Pair<T> a, Pair<T> b) { return {b.low < a.low ? b.low : a.low, b.high < a.high ? b.high : a.high}; }
template <class T>
inline Pair<T> max_of_pairs(Pair<T> a, Pair<T> b) { return {a.low < b.low ? b.low : a.low, a.high < b.high ? b.high : a.high}; }

template <class T, class From>
inline T saturated(From x) {
    constexpr bool is_signed = T(-1) < T(0);
    constexpr unsigned long long most = ~0ull >> (64 - 8 * sizeof(T) + is_signed);
    if (x < 0) return is_signed ? ((long long)x < -(long long)most - 1 ? (T)(-(long long)most - 1) : (T)x) : T(0);
    return (unsigned long long)x > most ? (T)most : (T)x;
}
// Two integers, saturated, in the low bits, below those of a third.
template <class T>
inline unsigned packed(int high, int low, unsigned rest = 0) {
    constexpr unsigned bits = 8 * sizeof(T), mask = (1u << bits) - 1;
    const unsigned pair = ((unsigned)saturated<T>(high) & mask) << bits | ((unsigned)saturated<T>(low) & mask);
    return bits == 8 ? rest << 16 | pair : pair;
}
// A float as tf32: to nearest even, to zero, or to nearest and away from zero in the middle.
inline unsigned tf32_bits(float x, int rounding, bool is_finite = false) {
    const unsigned word = bits_of(x), most = 0x7f7fe000;
    if (x != x) return word;
    const bool is_infinite = (word << 1) == 0xff000000;
    const unsigned near =
        is_infinite ? word : (word + (rounding == 0 ? 0xfff + (word >> 13 & 1) : rounding == 2 ? 0x1000 : 0)) & ~0x1fffu;
    return is_finite && (near & 0x7fffffff) > most ? (word & 0x80000000) | most : near;
}
template <class T>
inline T relu(T x) { return x != x || x > T(0.0f) ? x : T(0.0f); }

// The lower and the higher of two floats, of which -0 is below +0.
template <class T>
inline T min_of(T a, T b) { return a != b ? (T)fmin(a, b) : __builtin_signbit(a) ? a : b; }
template <class T>
inline T max_of(T a, T b) { return a != b ? (T)fmax(a, b) : __builtin_signbit(a) ? b : a; }

template <class T> inline bool is_finite(T x) { return __builtin_isfinite(x); }
template <class T> inline bool is_infinite(T x) { return __builtin_isinf(x); }
template <class T> inline bool is_notanumber(T x) { return x != x; }
template <class T> inline bool is_number(T x) { return x == x; }
template <class T> inline bool is_normal(T x) { return x == 0 || __builtin_isnormal(x); }
template <class T> inline bool is_subnormal(T x) { return x != 0 && __builtin_isfinite(x) && !__builtin_isnormal(x); }
}  // namespace cukern

static inline int __dp2a_lo(int a, int b, int c) { return cukern::dot_of_two<int>((unsigned)a, (unsigned)b, (unsigned)c, 0); }
static inline int __dp2a_hi(int a, int b, int c) { return cukern::dot_of_two<int>((unsigned)a, (unsigned)b, (unsigned)c, 16); }
static inline unsigned __dp2a_lo(unsigned a, unsigned b, unsigned c) { return cukern::dot_of_two<unsigned>(a, b, c, 0); }
static inline unsigned __dp2a_hi(unsigned a, unsigned b, unsigned c) { return cukern::dot_of_two<unsigned>(a, b, c, 16); }
