// Shared by all reduction kernels, generated from a reduction's row and a program: the state and its functions, value_of
// (the map that is fused), and Output. For stages that read inputs also Memory and Layout, whose steps in elements
// are those along the kept axes, the outer reduced axes, the inner one, and to the next column.
<% macro parameters() %>
<% for x in inputs %>
    const << x.type >>* x<< x.k >>,
<% endfor %>
<% for type in scalars %>
    << type >> s<< loop.index0 >>,
<% endfor %>
<%- endmacro %>
<# The parameters for the result. #>
<% macro results() %>
<% if stage == "partial" %>
    State* parts,
<% else %>
    << "double p, " if reduction.parameter >><< "const %s* before, " % result if onto >><< result >>* y,
<% endif %>
<%- endmacro %>
<# The members of Memory, Scalars and Output, in a kernel. #>
<% macro memory() %><% for x in inputs %>x<< x.k >>, <% endfor %><% endmacro %>
<% macro numbers() %><% for type in scalars %>s<< loop.index0 >>, <% endfor %><% endmacro %>
<% macro output() %><< "parts" if stage == "partial" else "y, n" + (", p" if reduction.parameter else "") + (", before" if onto else "") >><% endmacro %>
<# It takes long to compile, and rows of the table do not need it. #>
<% if body or reduction.custom %>
<% include "prelude/math.cuh" %>
<% endif %>
using index = << index >>;
using T = << value_type >>;
using A = << accumulator >>;
using Place = index;
using State = << reduction.state >>;
__device__ __forceinline__ State identity() { return << reduction.identity >>; }
__device__ __forceinline__ State combine(State a, State b) { return << reduction.combine >>; }
struct Output {
<% if stage == "partial" %>
    State* parts;

    __device__ __forceinline__ void store(long long at, State a) const { parts[at * gridDim.y + blockIdx.y] = a; }
<% else %>
    << result >>* y;
    long long n_;
    << "double p;" if reduction.parameter >>
    << "const %s* before;" % result if onto >>

    __device__ __forceinline__ void store(long long at, State a) const {
        const A n = A(n_);
        y[at] = cast< << result >> >((<< reduction.finish >>)<< " + cast<A>(before[at])" if onto >>);
    }
<% endif %>
};
<% if stage != "final" %>
__device__ __forceinline__ State push(State a, T x, Place i) { return << reduction.push >>; }
// Several values at once, whose indices are `step` apart.
template <int N>
__device__ __forceinline__ State push_all(State a, const T (&v)[N], Place i, Place step) {
<% if reduction.batch %>
    return << reduction.batch >>;
<% else %>
    State b = identity();
#pragma unroll
    for (int k = 0; k < N; ++k) b = push(b, v[k], Place(i + k * step));
    return combine(a, b);
<% endif %>
}
constexpr bool batch = << "true" if reduction.batch else "false" >>;

struct Scalars {
<% for type in scalars %>
    << type >> s<< loop.index0 >>;
<% endfor %>
};
__device__ __forceinline__ T value_of(const Scalars& scalars<% for x in inputs %>, << x.compute >> a<< x.k >><% endfor %>) {
<% for type in scalars %>
    const auto s<< loop.index0 >> = scalars.s<< loop.index0 >>;
<% endfor %>
<% for line in body %>
    const << line.type >> << line.name >> = << line.code >>;
<% endfor %>
    return << value >>;
}
struct Memory {
<% for x in inputs %>
    const << x.type >>* x<< x.k >>;
<% endfor %>
};

<% include "lib/strided.cuh" %>
constexpr int inputs = << inputs | length >>, over = << over >>;
<< Layout >>
__device__ __forceinline__ void advance_kept(const Layout& layout, index (&offset)[inputs], index at) {
    << "advance(offset, at, layout.kept_shape, layout.kept_step);" if kept >>
}
__device__ __forceinline__ void advance_outer(const Layout& layout, index (&offset)[inputs], index at) {
    << "advance(offset, at, layout.outer_shape, layout.outer_step);" if over >>
}
<% endif %>
