// y[i, c] = the << reduction.name >> over r of f(x0[i, r, c], x1[i, r, c], ...), in plain loops, where the elements of
// neighbouring results are neighbours. Inputs x* of any strides, scalars s*, output y (rows, columns) in C order.
// Launch: a thread owns `tasks_piece` of the `tasks` tiles, each of `tile` columns that it reduces together. blockIdx.y
// numbers the pieces that the reduced axes, `outer` (all but one) by `inner`, are cut into; the stage "partial" leaves a
// state for each in `parts` (rows, columns, pieces). Shared: none.
<% from "reduction/reduce.cuh" import parameters, results, memory, numbers, output with context %>
<% include "prelude/reduce.cuh" %>
<% include "reduction/reduce.cuh" %>
<% include "reduction/line.cuh" %>
// Values of a column that are combined at once, or in sequence while its state is in a register.
constexpr int block = << block >>, tile = << tile >>, batch_size = << "1" if reduction.ordered else "batch ? 8 : 4" >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<< parameters() >>
<< results() >>
    Layout layout, long long n, index outer, index inner, index outer_piece, index inner_piece, index columns, index tiles,
    index tasks, index tasks_piece)
{
    const Memory memory{<< memory() >>};
    const Scalars scalars{<< numbers() >>};
    const Output out{<< output() >>};
    const Piece piece(outer, inner, outer_piece, inner_piece);
    const index thread = index(blockIdx.x) * block + index(threadIdx.x);
    for (index task = thread * tasks_piece; task < minimum(tasks, (thread + 1) * tasks_piece); ++task) {
        const index row = task / tiles, first = task % tiles * tile, width = minimum(index(tile), columns - first);
        State a[tile];
        for (index c = 0; c < width; ++c) a[c] = identity();
        for (index q = piece.q_first; q < piece.q_end; ++q) {
            const Line line(memory, layout, row, q, first);
            index r = piece.r_first;
            for (; batch_size > 1 && r + batch_size - 1 < piece.r_end; r += batch_size) {
                // Apart, as the host's compiler makes vectors of a loop along a row.
                T values[batch_size][tile];
#pragma unroll
                for (int u = 0; u < batch_size; ++u)
                    for (index c = 0; c < width; ++c) values[u][c] = line.value(scalars, r + u, c);
                for (index c = 0; c < width; ++c) {
                    T v[batch_size];
#pragma unroll
                    for (int u = 0; u < batch_size; ++u) v[u] = values[u][c];
                    if constexpr (batch) {
                        a[c] = push_all(a[c], v, Place(q * inner + r), Place(1));
                    } else {
#pragma unroll
                        for (int u = 0; u < batch_size; ++u) a[c] = push(a[c], v[u], Place(q * inner + r + u));
                    }
                }
            }
            for (; r < piece.r_end; ++r)
                for (index c = 0; c < width; ++c)
                    a[c] = push(a[c], line.value(scalars, r, c), Place(q * inner + r));
        }
        for (index c = 0; c < width; ++c) out.store((long long)row * columns + first + c, a[c]);
    }
}
