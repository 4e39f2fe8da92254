// y[i] = the << reduction.name >> over r of f(x0[i, r], x1[i, r], ...), i over the kept elements in C order, in plain loops.
// Inputs x* of any strides, scalars s*, output y (rows). Reduced axes: `outer` (all but one) by `inner`.
// Launch: a thread owns `rows_piece` tasks, each of << tile >> neighbouring row(s). blockIdx.y numbers the pieces that the
// reduced axes are cut into; the stage "partial" leaves a state for each in `parts` (rows, pieces). Shared: none.
<% from "reduction/reduce.cuh" import parameters, results, store, steps, states with context %>
<% include "prelude/math.cuh" %>
<% include "prelude/reduce.cuh" %>
<% set batched = reduction.batch and unroll > 1 %>
<% set kept_states = 1 if batched else unroll %>
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
                << state >> = push(<< state >>, << value >>, Place(q * inner + << r >>));
<% else %>
                v[u] = << value >>;
<% endif %>
<%- endmacro %>
<< states(batched) >>

// Sizes of the kept axes and of the outer reduced ones; steps of the inputs along them and along the inner one.
struct Layout {
    << index >> << "kept_shape[%d], kept[%d][%d], " % (kept, inputs | length, kept) if kept >><< "outer_shape[%d], outer[%d][%d], " % (over, inputs | length, over) if over >>step[<< inputs | length >>], column[<< inputs | length >>];
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<< parameters() >>
<< results() >>
    Layout layout, long long n, << index >> outer, << index >> inner, << index >> outer_piece, << index >> inner_piece,
    << "%s columns, %s tiles, " % (index, index) if tile > 1 >><< index >> tasks, << index >> rows_piece)
{
    using index = << index >>;
    const index thread = index(blockIdx.x) * << block >> + index(threadIdx.x);
    const index inner_pieces = maximum(index(1), divide_up(inner, inner_piece));
    const index q_first = index(blockIdx.y) / inner_pieces * outer_piece;
    const index q_end = minimum(outer, q_first + outer_piece);
    const index r_first = index(blockIdx.y) % inner_pieces * inner_piece;
    const index r_end = minimum(inner, r_first + inner_piece);
    for (index task = thread * rows_piece; task < minimum(tasks, (thread + 1) * rows_piece); ++task) {
<% if tile > 1 %>
        const index row = task / tiles;
        const index first = task % tiles * << tile >>;
        const index width = minimum(index(<< tile >>), columns - first);
        State a[<< tile >>];
        for (index c = 0; c < width; ++c) a[c] = identity();
<% else %>
        const index row = task;
        State a[<< kept_states >>];
#pragma unroll
        for (int u = 0; u < << kept_states >>; ++u) a[u] = identity();
<% endif %>
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
            index r = r_first;
            for (; r + << unroll - 1 >> < r_end; r += << unroll >>) {
<% if batched %>
                T v[<< unroll >>];
<% endif %>
#pragma unroll
                for (int u = 0; u < << unroll >>; ++u) {
<< element("" if batched else "a[u]", "(r + u)") >>
                }
<% if batched %>
                a[0] = push_all(a[0], v, Place(q * inner + r), Place(1));
<% endif %>
            }
            for (; r < r_end; ++r) {
<< element("a[0]", "r") >>
            }
<% endif %>
        }
<% if tile > 1 %>
        for (index c = 0; c < width; ++c) << store("(long long)row * columns + first + c", "a[c]") >>
<% else %>
        State total = a[0];
<% if kept_states > 1 %>
#pragma unroll
        for (int u = 1; u < << kept_states >>; ++u) total = combine(total, a[u]);
<% endif %>
        << store("row", "total") >>
<% endif %>
    }
}
