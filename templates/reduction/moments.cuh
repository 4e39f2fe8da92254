<% include "prelude/in_registers.cuh" %>
// sums[k] and squares[k] with the distances from `shift` of value_at(r + k), and again with N more, `deep` times, from `first` on;
// returns where fewer places than that are left before `end`.
template <int deep, typename A, int N, typename Place, typename Values>
inline Place add_distances(A (&sums)[N], A (&squares)[N], A shift, Place first, Place end, const Values& value_at) {
    Place r = first;
    for (; r + deep * N - 1 < end; r += deep * N) {
        over_pack<N>([&](int k) {
            A sum = sums[k], square = squares[k];
            in_registers<deep>([&](int i) {
                const A x = A(value_at(r + i * N + k)) - shift;
                sum += x;
                square = fma(x, x, square);
            });
            sums[k] = sum;
            squares[k] = square;
        });
    }
    return r;
}
// The moments of value_at(r) for r from `first` to `end`, where accumulators are wider than values, by the distances from the first
// value: the sum of their squares exceeds that of distances from the mean by no more than a factor of the number of values.
// Source: Chan, Golub, LeVeque, "Algorithms for computing the sample variance: analysis and recommendations", 1983.
template <typename A, int width, typename Place, typename Values>
inline Moments<A> moments_at_once(Place first, Place end, const Values& value_at) {
    const auto plus = [](A a, A b) { return a + b; };
    const A count = A(end - first), one = A(value_at(first)), shift = one - one == A(0) ? one : A(0);
    A sums[width] = {}, squares[width] = {}, rest[1] = {}, rest_squares[1] = {};
    Place r = add_distances<4>(sums, squares, shift, first, end, value_at);
    r = add_distances<1>(sums, squares, shift, r, end, value_at);
    add_distances<1>(rest, rest_squares, shift, r, end, value_at);
    const A sum = rest[0] + by_halves<width>(sums, plus), square = rest_squares[0] + by_halves<width>(squares, plus);
    return Moments<A>{count, shift + sum / count, square - sum * (sum / count)};
}
// The same where values are as wide, which are read twice: faster than to join the moments of parts.
template <typename A, int width, typename Place, typename Values>
inline Moments<A> moments_in_turn(Place first, Place end, const Values& value_at) {
    const auto total_of = [&](const auto& with) -> A {
        A parts[width] = {}, rest = 0;
        const auto push = [&](A sum, Place r) { return with(sum, A(value_at(r))); };
        Place r = pushed<4>(parts, first, end, push);
        r = pushed<1>(parts, r, end, push);
        for (; r < end; ++r) rest = push(rest, r);
        return rest + by_halves<width>(parts, [](A a, A b) { return a + b; });
    };
    const A count = A(end - first), mean = total_of([](A sum, A x) { return sum + x; }) / count;
    return Moments<A>{count, mean, total_of([&](A sum, A x) { return fma(x - mean, x - mean, sum); })};
}
template <typename A, int width, typename Place, typename Values>
inline Moments<A> moments_of(Place first, Place end, const Values& value_at) {
    if constexpr (sizeof(A) > sizeof(value_at(first))) return moments_at_once<A, width>(first, end, value_at);
    else return moments_in_turn<A, width>(first, end, value_at);
}
