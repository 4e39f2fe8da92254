// Outputs of GEMMs besides an element of D for each sum, after linear/epilogue.cuh: the sums themselves
// (`saves`), as a derivative reads them; or a number for each row in place of D (`by_rows`), its reduction.
constexpr bool by_rows = << "true" if rows else "false" >>;
using Stored = << rows.result if rows else "Out" >>;
<% if saves %>
struct Rounded {
    __device__ __forceinline__ Operands load(int, int, int) const { return {}; }
    __device__ __forceinline__ T operator()(<< acc >> sum, const Operands&) const { return cast<T>(sum); }
};
<% endif %>
<% if rows %>
<% include "prelude/reduce.cuh" %>
// The reduction, in the words of its row of the table.
struct Row {
    using T = Out;
    using A = << rows.accumulator >>;
    using Place = int;
    using State = << rows.reduction.state >>;
    static __device__ __forceinline__ State identity() { return << rows.reduction.identity >>; }
    static __device__ __forceinline__ State combine(State a, State b) { return << rows.reduction.combine >>; }
    static __device__ __forceinline__ State push(State a, T x, Place i) { return << rows.reduction.push >>; }
    static __device__ __forceinline__ Stored finish(State a, int n_) {
        const A n = A(n_);
        return cast<Stored>(<< rows.reduction.finish >>);
    }
    // The states of `lanes` neighbouring threads together.
    template <int lanes>
    static __device__ __forceinline__ State of_lanes(State a) {
#pragma unroll
        for (int distance = lanes / 2; distance > 0; distance /= 2) a = combine(a, shuffle_xor(a, distance));
        return a;
    }
};
<% endif %>
