<% include "prelude/over_pack.cuh" %>
// States of reductions, and how threads that share a row combine theirs. A state is plain data.

// The words of a state from the thread whose lane differs by `distance`.
template <typename S>
__device__ __forceinline__ S shuffle_xor(S state, int distance) {
    union {
        S state;
        unsigned int word[(sizeof(S) + 3) / 4];
    } one;
    one.state = state;
#pragma unroll
    for (int i = 0; i < int((sizeof(S) + 3) / 4); ++i) one.word[i] = __shfl_xor_sync(0xffffffffu, one.word[i], distance);
    return one.state;
}

// A value and its index, -1 for none. Among equals the first index wins; a NaN wins over every number.
template <typename T, typename Place>
struct Indexed {
    T value;
    Place at;
};
template <typename T, typename Place>
__device__ __forceinline__ Indexed<T, Place> chosen(Indexed<T, Place> a, Indexed<T, Place> b, bool b_is_better) {
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    const bool tie = a_nan == b_nan && (a_nan || a.value == b.value);
    const bool take = a.at < 0 || (b.at >= 0 && (tie ? b.at < a.at : !a_nan && (b_nan || b_is_better)));
    return take ? b : a;
}
template <typename T, typename Place>
__device__ __forceinline__ Indexed<T, Place> largest(Indexed<T, Place> a, Indexed<T, Place> b) {
    return chosen(a, b, b.value > a.value);
}
template <typename T, typename Place>
__device__ __forceinline__ Indexed<T, Place> smallest(Indexed<T, Place> a, Indexed<T, Place> b) {
    return chosen(a, b, b.value < a.value);
}
// With x at a later index.
template <typename T, typename Place>
__device__ __forceinline__ Indexed<T, Place> later(Indexed<T, Place> a, T x, Place i, bool better) {
    return better || a.at < 0 || (x != x && a.value == a.value) ? Indexed<T, Place>{x, i} : a;
}
template <typename T, typename Place>
__device__ __forceinline__ Indexed<T, Place> largest(Indexed<T, Place> a, T x, Place i) {
    return later(a, x, i, x > a.value);
}
template <typename T, typename Place>
__device__ __forceinline__ Indexed<T, Place> smallest(Indexed<T, Place> a, T x, Place i) {
    return later(a, x, i, x < a.value);
}
// With v[k] at the later index i + k * step, where `best` is the best of them; N is a power of two.
#ifdef __CUDA_ARCH__
// Lanes of a warp seldom agree that a batch holds nothing better: its best is always worked out, in the fewest steps.
template <typename T, typename Place, int N>
__device__ __forceinline__ Indexed<T, Place> later_of(
    Indexed<T, Place> a, const T (&v)[N], T best, bool better, Place i, Place step)
{
    if (a.at >= 0 && (a.value != a.value || !(better || best != best))) return a;
    int at = 0;
#pragma unroll
    for (int k = N - 1; k >= 0; --k)
        if (v[k] == best || v[k] != v[k]) at = k;
    return Indexed<T, Place>{best, Place(i + at * step)};
}
<% for name, of, compare in [("largest", "maximum", ">"), ("smallest", "minimum", "<")] %>
template <typename T, typename Place, int N>
__device__ __forceinline__ Indexed<T, Place> << name >>(Indexed<T, Place> a, const T (&v)[N], Place i, Place step) {
    T best = v[0];
#pragma unroll
    for (int k = 1; k < N; ++k) best = << of >>(best, v[k]);
    return later_of(a, v, best, best << compare >> a.value, i, step);
}
<% endfor %>
#else
// Most batches hold nothing better, which comparisons that do not depend on each other, and so become vectors, find out.
<% for name, of, compare in [("largest", "maximum", "<="), ("smallest", "minimum", ">=")] %>
template <typename T, typename Place, int N>
inline Indexed<T, Place> << name >>(Indexed<T, Place> a, const T (&v)[N], Place i, Place step) {
    int better = a.at < 0, at = N;
    for (int k = 0; k < N; ++k) better |= int(!(v[k] << compare >> a.value));
    if (!better || (a.at >= 0 && a.value != a.value)) return a;
    T part[N];
    for (int k = 0; k < N; ++k) part[k] = v[k];
    const T best = by_halves<N>(part, [](T a, T b) { return << of >>(a, b); });
    for (int k = 0; k < N; ++k) at = minimum(at, v[k] == best || v[k] != v[k] ? k : N);
    return Indexed<T, Place>{best, Place(i + at * step)};
}
<% endfor %>
#endif

// Count, mean and sum of squared differences from the mean.
// Source: Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
template <typename A>
struct Moments {
    A count, mean, squares;
};
template <typename A>
__device__ __forceinline__ Moments<A> joined(Moments<A> a, Moments<A> b) {
    const A count = a.count + b.count;
    if (count == A(0)) return a;
    const A delta = b.mean - a.mean, share = b.count / count;
    // In this order the square of a large difference is not multiplied by 0.
    return Moments<A>{count, a.mean + delta * share, a.squares + b.squares + delta * (delta * (a.count * share))};
}
template <typename A>
__device__ __forceinline__ Moments<A> extended(Moments<A> a, A x) {
    const A count = a.count + A(1), delta = x - a.mean, mean = a.mean + delta / count;
    return Moments<A>{count, mean, a.squares + delta * (x - mean)};
}
// A power of two of numbers joined, by halves: a template for each half, which compilers of the host make into vectors.
template <typename A, int N, typename Join>
__device__ __forceinline__ A total(const A (&part)[N], Join join) {
    if constexpr (N == 1) {
        return part[0];
    } else {
        A folded[N / 2];
#pragma unroll
        for (int k = 0; k < N / 2; ++k) folded[k] = join(part[k], part[k + N / 2]);
        return total(folded, join);
    }
}
template <typename A, int N>
__device__ __forceinline__ A total(const A (&part)[N]) {
    return total(part, [](A a, A b) { return a + b; });
}
template <typename A, typename T, int N>
__device__ __forceinline__ Moments<A> extended(Moments<A> a, const T (&v)[N]) {
    A part[N];
#pragma unroll
    for (int k = 0; k < N; ++k) part[k] = A(v[k]);
    const A mean = total(part) * (A(1) / A(N));
#pragma unroll
    for (int k = 0; k < N; ++k) part[k] = (A(v[k]) - mean) * (A(v[k]) - mean);
    return joined(a, Moments<A>{A(N), mean, total(part)});
}

// exp; of numbers of half precision by the device's own instruction.
template <typename A>
__device__ __forceinline__ A exponential(A x) { return << "__expf" if half is defined and half else "exp" >>(x); }

// The largest value, and the sum of exponentials of the others' distances below it.
template <typename A>
struct LogSum {
    A peak, sum;
};
template <typename A>
__device__ __forceinline__ LogSum<A> joined(LogSum<A> a, LogSum<A> b) {
    const A peak = maximum(a.peak, b.peak);
    const A low = minimum(a.peak, b.peak);
    if (low == limits<A>::lowest()) return a.peak == low ? b : a;
    if (peak == limits<A>::infinity()) return LogSum<A>{peak, A(1)};
    return LogSum<A>{peak, a.sum * exponential(a.peak - peak) + b.sum * exponential(b.peak - peak)};
}
template <typename A>
__device__ __forceinline__ LogSum<A> extended(LogSum<A> a, A x) {
    // Without branches, so that lanes of vectors can have a state each.
    const A peak = maximum(a.peak, x), sum = a.sum * exponential(a.peak - peak) + exponential(x - peak);
    const bool infinite = peak == limits<A>::lowest() || peak == limits<A>::infinity();
    return LogSum<A>{peak, infinite ? A(peak > A(0)) : sum};
}
template <typename A, typename T, int N>
__device__ __forceinline__ LogSum<A> extended(LogSum<A> a, const T (&v)[N]) {
    A part[N];
    for (int k = 0; k < N; ++k) part[k] = A(v[k]);
#pragma unroll
    for (int n = N / 2; n > 0; n /= 2)
        for (int k = 0; k < n; ++k) part[k] = maximum(part[k], part[k + n]);
    const A peak = maximum(a.peak, part[0]);
    if (peak == limits<A>::lowest()) return a;
    if (peak == limits<A>::infinity()) return LogSum<A>{peak, A(1)};
    for (int k = 0; k < N; ++k) part[k] = exponential(A(v[k]) - peak);
#pragma unroll
    for (int n = N / 2; n > 0; n /= 2)
        for (int k = 0; k < n; ++k) part[k] += part[k + n];
    return LogSum<A>{peak, a.sum * exponential(a.peak - peak) + part[0]};
}
