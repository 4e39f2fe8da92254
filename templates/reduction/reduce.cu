// y[i] = the << reduction.name >> over r of f(x0[i, r], x1[i, r], ...), i over the kept elements in C order, in plain loops.
// Inputs x* of any strides, scalars s*, output y (rows). Reduced axes: `outer` (all but one) by `inner`.
// Launch: a thread owns `rows_piece` rows. blockIdx.y numbers the pieces that the reduced axes are cut into; the stage
// "partial" leaves a state for each in `parts` (rows, pieces). Shared: none.
<% from "reduction/reduce.cuh" import parameters, results, memory, numbers, output with context %>
<% set twice = reduction.state == "Moments<A>" and not body %>
<% include "prelude/reduce.cuh" %>
<% if twice %>
<% include "reduction/moments.cuh" %>
<% endif %>
<% include "reduction/reduce.cuh" %>
<% include "reduction/line.cuh" %>
// `unroll` values are combined at once, or each updates a separate state; `batch_size` of the rest.
constexpr int block = << block >>, unroll = << unroll >>, states = batch ? 1 : unroll, batch_size = 8;
// Values that a state takes before it is stored again: with functions loops of several would not become vectors.
constexpr int deep = << 1 if "(" in body | map(attribute="code") | join else 4 >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<< parameters() >>
<< results() >>
    Layout layout, long long n, index outer, index inner, index outer_piece, index inner_piece, index rows, index rows_piece)
{
    const Memory memory{<< memory() >>};
    const Scalars scalars{<< numbers() >>};
    const Output out{<< output() >>};
    const Piece piece(outer, inner, outer_piece, inner_piece);
    const index thread = index(blockIdx.x) * block + index(threadIdx.x);
    for (index row = thread * rows_piece; row < minimum(rows, (thread + 1) * rows_piece); ++row) {
        State a[states];
#pragma unroll
        for (int u = 0; u < states; ++u) a[u] = identity();
        for (index q = piece.q_first; q < piece.q_end; ++q) {
            const Line line(memory, layout, row, q);
<% if twice %>
            constexpr index near = 16384;  // values that are in a cache when they are read again
            for (index r = piece.r_first; r < piece.r_end; r += near) {
                const index end = minimum(piece.r_end, r + near);
                a[0] = combine(a[0], moments_of<A, unroll>(r, end, [&](index r) { return line.value(scalars, r); }));
            }
<% else %>
            index r = piece.r_first;
            const auto push_at = [&](State state, index r) { return push(state, line.value(scalars, r), Place(q * inner + r)); };
            if constexpr (!batch) {
                r = pushed<deep>(a, r, piece.r_end, push_at);
                r = pushed<1>(a, r, piece.r_end, push_at);
            }
            for (; batch && r + unroll - 1 < piece.r_end; r += unroll) {
                // Not unrolled: what is left of a loop the host's compiler makes into vectors better.
                T v[unroll];
                for (int u = 0; u < unroll; ++u) v[u] = line.value(scalars, r + u);
                a[0] = push_all(a[0], v, Place(q * inner + r), Place(1));
            }
            if constexpr (batch && unroll > batch_size) {
                for (; r + batch_size - 1 < piece.r_end; r += batch_size) {
                    T v[batch_size];
                    for (int u = 0; u < batch_size; ++u) v[u] = line.value(scalars, r + u);
                    a[0] = push_all(a[0], v, Place(q * inner + r), Place(1));
                }
            }
            if constexpr (states > batch_size) {
                for (; r + batch_size - 1 < piece.r_end; r += batch_size) {
                    over_pack<batch_size>([&](int u) { a[u] = push(a[u], line.value(scalars, r + u), Place(q * inner + r + u)); });
                }
            }
            for (; r < piece.r_end; ++r) a[0] = push(a[0], line.value(scalars, r), Place(q * inner + r));
<% endif %>
        }
        out.store(row, by_halves<states>(a, combine));
    }
}
