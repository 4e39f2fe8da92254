// Vectors of complex numbers on the host, of which expressions without Annex G's infinities are computed sooner than GCC's own
// vectors are: each number is read once, and one instruction adds and subtracts.
#if defined(__AVX__) && defined(__has_builtin) && !defined(__clang__) && !defined(CUKERN_CHECKED)
#if __has_builtin(__builtin_shufflevector)
#define CUKERN_LANES
namespace complex_parts {
template <typename T>
struct Lanes {
    static constexpr int count = 16 / sizeof(T);
    typedef T Vector __attribute__((vector_size(32)));
    typedef T Stored __attribute__((vector_size(32), aligned(alignof(T)), may_alias));
    typedef decltype(Vector{} < Vector{}) Flags;
    Vector parts;

    Lanes(Vector result) : parts(result) {}
    explicit Lanes(const complex<T>* from) : parts(*(const Stored*)from) { asm("" : "+x"(parts)); }
    void store(complex<T>* to) const { *(Stored*)to = parts; }
};
inline Lanes<float> plain_product(Lanes<float> x, Lanes<float> y, complex<float>) {
    const auto a = x.parts, b = y.parts;
    const auto re = __builtin_shufflevector(a, a, 0, 0, 2, 2, 4, 4, 6, 6), im = __builtin_shufflevector(a, a, 1, 1, 3, 3, 5, 5, 7, 7);
    return {__builtin_ia32_addsubps256(re * b, im * __builtin_shufflevector(b, b, 1, 0, 3, 2, 5, 4, 7, 6))};
}
inline Lanes<double> plain_product(Lanes<double> x, Lanes<double> y, complex<double>) {
    const auto a = x.parts, b = y.parts;
    const auto re = __builtin_shufflevector(a, a, 0, 0, 2, 2), im = __builtin_shufflevector(a, a, 1, 1, 3, 3);
    return {__builtin_ia32_addsubpd256(re * b, im * __builtin_shufflevector(b, b, 1, 0, 3, 2))};
}
template <typename T>
inline Lanes<T> plain_conj(Lanes<T> z, complex<T>) {
    using Vector = typename Lanes<T>::Vector;
    using Flags = typename Lanes<T>::Flags;
    Vector signs = {};
    for (int i = 1; i < 2 * Lanes<T>::count; i += 2) signs[i] = T(-0.0);
    return {(Vector)((Flags)z.parts ^ (Flags)signs)};
}
inline auto unordered(Lanes<float> a, Lanes<float> b) { return (Lanes<float>::Flags)__builtin_ia32_cmpps256(a.parts, b.parts, 3); }
inline auto unordered(Lanes<double> a, Lanes<double> b) { return (Lanes<double>::Flags)__builtin_ia32_cmppd256(a.parts, b.parts, 3); }
// Stores so many numbers, of which make(k) makes some from number k on; whether one is NaN.
template <int count, typename T, typename Make>
inline bool made_with_nan(complex<T>* to, Make make) {
    constexpr int step = Lanes<T>::count;
    static_assert(count % (2 * step) == 0, "whole pairs of vectors");
    typename Lanes<T>::Flags result = {};
    for (int k = 0; k < count; k += 2 * step) {
        const Lanes<T> first = make(k), second = make(k + step);
        first.store(to + k), second.store(to + k + step);
        result |= unordered(first, second);
    }
    typedef long long Words __attribute__((vector_size(32)));
    return !__builtin_ia32_ptestz256((Words)result, (Words)result);
}
}  // namespace complex_parts
#endif
#endif
