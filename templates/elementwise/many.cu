// y[i] = f(x0[i], x1[i], ...) for many arrays in one launch: each x and y is a table of arrays, and those with one number
// have the same size. An input that is "one" is a single element, the same for all of them.
// Launch: a block for each piece of an array; blocks of one thread may be fewer. No shared memory.
<% from "elementwise/operands.cuh" import same with context %>
<% from "lib/pieces.cuh" import table with context %>
<% include "prelude/math.cuh" %>
<% include "lib/pieces.cuh" %>
<% include "elementwise/operands.cuh" %>
constexpr int width = << width >>;
<% set flat = inputs | selectattr("access", "equalto", "flat") | list %>
<% macro parameters() %>
<% for x in inputs if not x.inplace %>
    << "const %s*" % x.type if x.access == "one" else table("const " ~ x.type) >> x<< x.k >>,
<% endfor %>
<% for type in scalars %>
    << type >> s<< loop.index0 >>,
<% endfor %>
<% for y in outputs %>
    << table(y.type) >> y<< loop.index0 >>,
<% endfor %>
<%- endmacro %>
<# The members of Memory at a piece. #>
<% macro memory() %><% for x in inputs %><< "x%d" % x.k if x.access == "one" else "%s[own.array] + own.start" % (x.inplace or "x%d" % x.k) >>, <% endfor %><% for y in outputs %>y<< loop.index0 >>[own.array] + own.start, <% endfor %><% endmacro %>
struct Layout {};

__device__ __forceinline__ bool aligned(const Memory& memory) {
    return <% for x in flat if not x.inplace %>is_aligned(memory.x<< x.k >>) && <% endfor %><% for y in outputs %>is_aligned(memory.y<< loop.index0 >>)<< " && " if not loop.last >><% endfor %>;
}
// N neighbouring elements.
template <int N>
__device__ __forceinline__ void compute(const Memory& memory, const Same& same, int first) {
<% for x in flat %>
    const auto x<< x.k >> = load_pack<N>(memory.<< x.inplace or "x%d" % x.k >> + first);
<% endfor %>
<% for y in outputs %>
    Pack< << y.type >>, N> y<< loop.index0 >>;
<% endfor %>
#pragma unroll
    for (int k = 0; k < N; ++k) {
        const Values values = expression(same<% for x in flat %>, cast< << x.compute >> >(x<< x.k >>.at[k])<% endfor %>);
<% for y in outputs %>
        y<< loop.index0 >>.at[k] = values.y<< loop.index0 >>;
<% endfor %>
    }
<% for y in outputs %>
    store_pack(memory.y<< loop.index0 >> + first, y<< loop.index0 >>);
<% endfor %>
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<< parameters() >>
    const __grid_constant__ Sizes sizes)
{
    const Layout layout{};
    int number = (int)blockIdx.x;
    << "for (; number < sizes.pieces; number += (int)gridDim.x)" if block == 1 >> {
        const Piece own = piece_of(number, sizes);
        const Memory memory{<< memory() >>layout};
        const Same same{<< same() >>};
        const int packs = width > 1 && aligned(memory) ? own.size / width : 0;
        for (int k = threadIdx.x; k < packs; k += block) compute<width>(memory, same, width * k);
        for (int i = width * packs + threadIdx.x; i < own.size; i += block) compute<1>(memory, same, i);
    }
}
