// The operation of the scan << scan >>: elements S become states T, which are combined, and states become results R.
<% include "prelude/math.cuh" %>
using S = << source >>;
using R = << result >>;
using A = << accumulator >>;
// Whether elements are pairs, of two arrays, and whether the scan goes from the end backwards.
constexpr bool pair = << "true" if pair else "false" >>, reverse = << "true" if reverse else "false" >>;
<% if pair %>
// The affine map of v to v * a + b.
struct T {
    A a, b;
};
// Whether a map forgets what comes before, be it infinite or NaN: its factor is -0, as that of all that follow.
__device__ __forceinline__ bool forgets(T t) { return t.a == A(0) && copysign(1.0f, (float)t.a<< ".re" if accumulator.startswith("complex") >>) < 0; }
// Composes maps. A 0 stays 0, also under a product of factors that is infinite; a product of 0 is not -0, also where it
// vanishes (adding 0 would not do: in one rounding with the product, the sum of a vanishing one is -0).
__device__ __forceinline__ T combine(T p, T q) {
    if (forgets(q)) return q;
    const A product = p.a * q.a;
    return {forgets(p) ? p.a : product == A(0) ? A(0) : product, p.b == A(0) ? q.b : q.a * p.b + q.b};
}
__device__ __forceinline__ T neutral() { return {A(1), A(0)}; }
__device__ __forceinline__ T state_of(S x, S z) { return {cast<A>(x), cast<A>(z)}; }
__device__ __forceinline__ R result_of(T t) { return cast<R>(t.b); }
<% else %>
using T = A;
__device__ __forceinline__ T combine(T a, T b) { return << combine >>; }
__device__ __forceinline__ T neutral() { return << identity >>; }
__device__ __forceinline__ T state_of(S x, S) { return cast<A>(cast< << compute >> >(x)); }
__device__ __forceinline__ R result_of(T t) { return cast<R>(t); }
<% endif %>
// The identity element of x; in a pair with 0.
__device__ __forceinline__ S absent() { return << absent >>; }
