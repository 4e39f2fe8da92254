// dx[r, c] = (exp(x[r, c] - total[r]) - (c == targets[r])) * given * share: the derivative of a mean of -log softmax.
// x, dx (rows, columns) in C order; total (rows): the logarithms of the sums of exponentials; targets (rows): the classes,
// one out of range taken as the nearest; given: one number. Launch: blocks along y take rows in turn, those along x share
// a row; a thread moves << unroll >> pack(s) of << width >> elements. On the host one thread has a row. Shared: none.
<% include "prelude/math.cuh" %>
<% include "nn/packs.cuh" %>
<% set exponential = "__expf" if elem != acc and acc == "float" else "exp" %>
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* __restrict__ x, const << acc >>* __restrict__ total, const << target >>* __restrict__ targets,
    const << elem >>* __restrict__ given, << elem >>* __restrict__ dx,
    << index >> rows, << index >> columns, << acc >> share)
{
    using elem = << elem >>;
    using acc = << acc >>;
    using index = << index >>;
    const acc scale = cast<acc>(*given) * share;
    for (index row = blockIdx.y; row < rows; row += gridDim.y) {
        const acc above = total[row];
        const long long named = (long long)targets[row];
        const index chosen = index(maximum(minimum(named, (long long)columns - 1), 0ll));
        const elem* const from = x + row * columns;
        elem* const to = dx + row * columns;
<% if block == 1 %>
        for (index c = 0; c < columns; ++c) to[c] = cast<elem>(exp(cast<acc>(from[c]) - above) * scale);
        to[chosen] = cast<elem>((exp(cast<acc>(from[chosen]) - above) - acc(1)) * scale);
<% else %>
        const index start = (index(blockIdx.x) * << block * unroll >> + threadIdx.x) * << width >>;
        Pack<elem, << width >>> held[<< unroll >>];
#pragma unroll
        for (int u = 0; u < << unroll >>; ++u)
            if (start + u * << block * width >> < columns) held[u] = load_pack< << width >> >(from + start + u * << block * width >>);
#pragma unroll
        for (int u = 0; u < << unroll >>; ++u) {
            const index first = start + u * << block * width >>;
            if (first >= columns) break;
#pragma unroll
            for (int v = 0; v < << width >>; ++v) {
                const acc p = << exponential >>(cast<acc>(held[u].at[v]) - above);
                held[u].at[v] = cast<elem>((first + v == chosen ? p - acc(1) : p) * scale);
            }
            store_pack(to + first, held[u]);
        }
<% endif %>
    }
}
