// y[i] = the << reduction.name >> over r of f(x0[i, r], x1[i, r], ...), i over `rows` kept elements in C order.
// Inputs x* of any strides, scalars s*, output y (rows). Reduced axes: `outer` (all but one) by `inner`.
// Launch: << lanes >> threads share a row (a power of two up to 32, or the block); such a group owns `rows_piece` tasks.
// A task is << tile >> neighbouring row(s). blockIdx.y numbers the pieces that the reduced axes are cut into; the
// stage "partial" leaves a state for each in `parts` (rows, pieces), and "final" joins them.
// Shared: a state a warp where the block shares a row. No barrier where one thread has a row to itself.
<% include "prelude/math.cuh" %>
<% include "prelude/reduce.cuh" %>
<% set batched = reduction.batch and unroll > 1 %>
<% set states = 1 if batched else unroll %>
<% macro parameters() %>
<% if stage != "final" %>
<% for x in inputs %>
    const << x.type >>* __restrict__ x<< x.k >>,
<% endfor %>
<% for type in scalars %>
    << type >> s<< loop.index0 >>,
<% endfor %>
    Layout layout, << index >> outer, << index >> inner, << index >> outer_piece, << index >> inner_piece,
<% if tile > 1 %>
    << index >> columns, << index >> tiles,
<% endif %>
<% endif %>
<% if stage != "whole" %>
    << "const " if stage == "final" >>State* __restrict__ parts, << index >> pieces,
<% endif %>
<% if stage != "partial" %>
    << result >>* __restrict__ y, long long n,<< " double p," if reduction.parameter >>
<% endif %>
    << index >> tasks, << index >> rows_piece
<%- endmacro %>
<% macro steps(from, name, axes, target, field, shape) %>
            index << from >>_left = << from >>;
<% for axis in range(axes - 1, -1, -1) %>
<% for x in inputs %>
            << target >><< x.k >> += << from >>_left<< " % layout." ~ shape ~ "[" ~ axis ~ "]" if axis >> * layout.<< field >>[<< x.k >>][<< axis >>];
<% endfor %>
<% if axis %>
            << from >>_left /= layout.<< shape >>[<< axis >>];
<% endif %>
<% endfor %>
<% endmacro %>
<% macro element(state, r) %>
<% for x in inputs %>
                const << x.compute >> a<< x.k >> = cast< << x.compute >> >(x<< x.k >>[q<< x.k >>
                    << {"unit": "+ " ~ r, "zero": "", "any": "+ " ~ r ~ " * layout.step[" ~ x.k ~ "]"}[x.step] >>
<%- if tile > 1 %> << {"unit": "+ c", "zero": "", "any": "+ c * layout.column[" ~ x.k ~ "]"}[x.column] >><% endif %>]);
<% endfor %>
<% for line in body %>
                const << line.type >> << line.name >> = << line.code >>;
<% endfor %>
<% if state %>
                << state >> = push(<< state >>, << value >>, (long long)(q) * inner + << r >>);
<% else %>
                v[u] = << value >>;
<% endif %>
<%- endmacro %>
using T = << value_type >>;
using A = << accumulator >>;
using State = << reduction.state >>;
__device__ __forceinline__ State identity() { return << reduction.identity >>; }
__device__ __forceinline__ State push(State a, T x, long long i) { return << reduction.push >>; }
__device__ __forceinline__ State combine(State a, State b) { return << reduction.combine >>; }
<% if batched %>
__device__ __forceinline__ State push_all(State a, const T (&v)[<< unroll >>], long long i, long long step) {
    return << reduction.batch >>;
}
<% endif %>
<% if stage != "partial" %>
__device__ __forceinline__ << result >> finish(State a, A n<< ", double p" if reduction.parameter >>) {
    return cast< << result >> >(<< reduction.finish >>);
}
<% endif %>
<% if stage != "final" %>

// Sizes of the kept axes and of the outer reduced ones; steps of the inputs along them and along the inner one.
struct Layout {
    << index >> << "kept_shape[%d], kept[%d][%d], " % (kept, inputs | length, kept) if kept >><< "outer_shape[%d], outer[%d][%d], " % (over, inputs | length, over) if over >>step[<< inputs | length >>], column[<< inputs | length >>];
};
<% endif %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<< parameters() >>)
{
    using index = << index >>;
    const index group = (index(blockIdx.x) * << block >> + index(threadIdx.x)) / << lanes >>;
    const index lane = index(threadIdx.x) % << lanes >>;
<% if stage != "final" %>
    const index inner_pieces = maximum(index(1), divide_up(inner, inner_piece));
    const index q_first = index(blockIdx.y) / inner_pieces * outer_piece;
    const index q_end = minimum(outer, q_first + outer_piece);
    const index r_first = index(blockIdx.y) % inner_pieces * inner_piece;
    const index r_end = minimum(inner, r_first + inner_piece);
<% endif %>
<% if lanes > 32 %>
    __shared__ State of_warp[<< block // 32 >>];
<% endif %>
    for (index task = group * rows_piece; task < (group + 1) * rows_piece; ++task) {
<% if lanes == 1 %>
        if (task >= tasks) break;
<% else %>
        const bool live = task < tasks;
<% endif %>
<% if tile > 1 %>
        const index row = task / tiles;
        const index first = task % tiles * << tile >>;
        const index width = minimum(index(<< tile >>), columns - first);
        State a[<< tile >>];
        for (index c = 0; c < width; ++c) a[c] = identity();
<% else %>
<% if lanes == 1 %>
        const index row = task;
<% else %>
        const index row = live ? task : 0;
<% endif %>
        State a[<< states >>];
#pragma unroll
        for (int u = 0; u < << states >>; ++u) a[u] = identity();
<% endif %>
<% if stage == "final" %>
        for (index r = lane; r < pieces; r += << lanes >>) a[0] = combine(a[0], parts[(long long)row * pieces + r]);
<% else %>
<% for x in inputs %>
        index o<< x.k >> = 0;
<% endfor %>
<% if kept %>
<< steps("row", "row", kept, "o", "kept", "kept_shape") >>
<% endif %>
        for (index q = q_first; q < q_end; ++q) {
<% for x in inputs %>
            index q<< x.k >> = o<< x.k >><< " + first" if tile > 1 and x.column == "unit" else " + first * layout.column[%d]" % x.k if tile > 1 and x.column == "any" >>;
<% endfor %>
<% if over %>
<< steps("q", "q", over, "q", "outer", "outer_shape") >>
<% endif %>
<% if tile > 1 %>
            for (index r = r_first; r < r_end; ++r) {
                for (index c = 0; c < width; ++c) {
<< element("a[c]", "r") >>
                }
            }
<% else %>
            index r = r_first + lane;
            for (; r + << (unroll - 1) * lanes >> < r_end; r += << unroll * lanes >>) {
<% if batched %>
                T v[<< unroll >>];
<% endif %>
#pragma unroll
                for (int u = 0; u < << unroll >>; ++u) {
<< element("" if batched else "a[u]", "(r + u * %d)" % lanes if lanes > 1 else "(r + u)") >>
                }
<% if batched %>
                a[0] = push_all(a[0], v, (long long)(q) * inner + r, << lanes >>);
<% endif %>
            }
            for (; r < r_end; r += << lanes >>) {
<< element("a[0]", "r") >>
            }
<% endif %>
        }
<% endif %>
<% if tile > 1 %>
        for (index c = 0; c < width; ++c) {
            const long long at = (long long)row * columns + first + c;
<% if stage == "partial" %>
            parts[at * pieces + blockIdx.y] = a[c];
<% else %>
            y[at] = finish(a[c], A(n)<< ", p" if reduction.parameter >>);
<% endif %>
        }
<% else %>
        State total = a[0];
<% if states > 1 %>
#pragma unroll
        for (int u = 1; u < << states >>; ++u) total = combine(total, a[u]);
<% endif %>
<% if lanes > 1 %>
#pragma unroll
        for (int distance = << [lanes, 32] | min // 2 >>; distance > 0; distance /= 2)
            total = combine(total, shuffle_xor(total, distance));
<% endif %>
<% if lanes > 32 %>
        __syncthreads();
        if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = total;
        __syncthreads();
        total = of_warp[0];
        for (int warp = 1; warp < << block // 32 >>; ++warp) total = combine(total, of_warp[warp]);
<% endif %>
<% if lanes > 1 %>
        if (live && lane == 0)
<% endif %>
<% if stage == "partial" %>
            parts[(long long)row * pieces + blockIdx.y] = total;
<% else %>
            y[row] = finish(total, A(n)<< ", p" if reduction.parameter >>);
<% endif %>
<% endif %>
    }
}
