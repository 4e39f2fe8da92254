// What instructions of inline PTX need that CUDA has no function for.
#pragma once

namespace cukern {
// The truth table of three bits has a bit for each of their 8 combinations.
inline unsigned lop3(unsigned a, unsigned b, unsigned c, unsigned table) {
    unsigned result = 0;
    for (int i = 0; i < 8; ++i)
        if (table >> i & 1) result |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return result;
}
template <class T>
inline T bit_field(T x, unsigned position, unsigned length) {
    position &= 255, length &= 255;
    if (length == 0) return 0;
    const unsigned sign = T(-1) < T(0) ? (unsigned)x >> (position + length - 1 < 31 ? position + length - 1 : 31) & 1 : 0;
    const unsigned low = position < 32 ? (unsigned)x >> position : 0;
    const unsigned mask = length < 32 ? (1u << length) - 1 : ~0u;
    const unsigned known = position < 32 ? mask & (~0u >> position) : 0;
    return (T)((low & known) | (sign ? ~known : 0));
}
inline unsigned with_bit_field(unsigned field, unsigned base, unsigned position, unsigned length) {
    position &= 255, length &= 255;
    if (position > 31 || length == 0) return base;
    const unsigned mask = (length < 32 ? (1u << length) - 1 : ~0u) << position;
    return (base & ~mask) | (field << position & mask);
}
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
    __builtin_memcpy(&to, &bits, sizeof(To));
}
}  // namespace cukern
