// The moments of value_at(r) for r from `first` to `end`, which is read twice: faster than to join those of parts.
template <typename A, int width, typename Place, typename Values>
inline Moments<A> moments_of(Place first, Place end, const Values& value_at) {
    const auto total_of = [&](const auto& term) -> A {
        A parts[width] = {}, rest = 0;
        const auto push = [&](A sum, Place r) { return sum + term(A(value_at(r))); };
        Place r = pushed<4>(parts, first, end, push);
        r = pushed<1>(parts, r, end, push);
        for (; r < end; ++r) rest += term(A(value_at(r)));
        return rest + total(parts);
    };
    const A count = A(end - first), mean = total_of([](A x) { return x; }) / count;
    return Moments<A>{count, mean, total_of([&](A x) { return (x - mean) * (x - mean); })};
}
