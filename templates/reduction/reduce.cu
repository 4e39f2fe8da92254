// y[i] = the << reduction.name >> over r of f(x0[i, r], x1[i, r], ...), i over the kept elements in C order, in plain loops.
// Inputs x* of any strides, scalars s*, output y (rows). Reduced axes: `outer` (all but one) by `inner`.
// Launch: a thread owns `rows_piece` rows. blockIdx.y numbers the pieces that the reduced axes are cut into; the stage
// "partial" leaves a state for each in `parts` (rows, pieces). Shared: none.
<% from "reduction/reduce.cuh" import parameters, results, memory, numbers, output with context %>
<% include "prelude/over_pack.cuh" %>
<% include "prelude/reduce.cuh" %>
<% include "reduction/reduce.cuh" %>
<% include "reduction/line.cuh" %>
// `unroll` values are combined at once, or each updates a separate state; `batch_size` of the rest.
constexpr int block = << block >>, unroll = << unroll >>, states = batch ? 1 : unroll, batch_size = 8;

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
            index r = piece.r_first;
            for (; r + unroll - 1 < piece.r_end; r += unroll) {
                if constexpr (batch) {
                    // Not unrolled: what is left of a loop the host's compiler makes into vectors better.
                    T v[unroll];
                    for (int u = 0; u < unroll; ++u) v[u] = line.value(scalars, r + u);
                    a[0] = push_all(a[0], v, Place(q * inner + r), Place(1));
                } else {
                    over_pack<unroll>([&](int u) { a[u] = push(a[u], line.value(scalars, r + u), Place(q * inner + r + u)); });
                }
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
        }
        out.store(row, by_halves<states>(a, combine));
    }
}
