// y[i, c] = the << reduction.name >> over r < length of f(x0[i, c, r], x1[i, c, r], ...), for few values of a result, on the host:
// neighbouring results are worked out together, in the lanes of the vectors that its compiler makes.
// Inputs x* of any strides, scalars s*, output y (rows, columns) in C order. Inputs of `dense` have the values of
// neighbouring results one after another.
// Launch: a thread owns `tasks_piece` of the `tasks` tiles, each of `tile` columns. Shared: none.
<% from "reduction/reduce.cuh" import parameters, results, memory, numbers, output with context %>
<% include "prelude/reduce.cuh" %>
<% include "prelude/in_registers.cuh" %>
<% include "reduction/reduce.cuh" %>
<% include "reduction/line.cuh" %>
constexpr int block = << block >>, tile = << tile >>, length = << length >>, stride = << stride >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<< parameters() >>
<< results() >>
    Layout layout, long long n, index columns, index tiles, index tasks, index tasks_piece)
{
    const Memory memory{<< memory() >>};
    const Scalars scalars{<< numbers() >>};
    const Output out{<< output() >>};
    const index thread = index(blockIdx.x) * block + index(threadIdx.x);
    for (index task = thread * tasks_piece; task < minimum(tasks, (thread + 1) * tasks_piece); ++task) {
        const index row = task / tiles, first = task % tiles * tile, width = minimum(index(tile), columns - first);
        Line line(memory, layout, row, 0, first);
<% for k in dense %>
        line.x<< k >>.column = length;
<% endfor %>
<% if stride != length %>
        // In loops that step by other numbers than powers of two and 3 the compiler reads each value by itself.
        T values[tile * stride];
        for (index c = 0; c < width; ++c) in_registers<length>([&](int r) { values[c * stride + r] = line.value(scalars, r, c); });
<% endif %>
        State a[tile];
        for (index c = 0; c < width; ++c) {
            const auto push_at = [&](State own, Place r) { return push(own, << "line.value(scalars, r, c)" if stride == length else "values[c * stride + r]" >>, r); };
            a[c] = pushed_in_turn<length, 1>(identity(), Place(0), push_at);
        }
        for (index c = 0; c < width; ++c) out.store((long long)row * columns + first + c, a[c]);
    }
}
