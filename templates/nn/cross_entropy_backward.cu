// dx[r, c] = (exp(x[r, c] - total[r]) - (c == targets[r])) * given * share: the derivative of a mean of -log softmax.
// x, dx (rows, columns) in C order; total (rows): the logarithms of the sums of exponentials; targets (rows): the classes,
// one out of range taken as the nearest; given: one number. Launch: block / lanes rows a block, dealt to those along y in
// turn; blocks along x share them. A thread moves << unroll >> pack(s) of << width >> elements. On the host one thread has a row.
// Shared: none.
<% include "prelude/math.cuh" %>
<% include "nn/packs.cuh" %>
<% set half = elem != acc %>
<% include "nn/exponential.cuh" %>
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* x, const << acc >>* total, const << target >>* targets,
    const << elem >>* given, << elem >>* dx,
    << index >> rows, << index >> columns, << acc >> share)
{
    using elem = << elem >>;
    using index = << index >>;
    const acc scale = cast<acc>(*given) * share;
    const index lane = threadIdx.x % << lanes >>, group = threadIdx.x / << lanes >>;
    for (index row = blockIdx.y * << block // lanes >> + group; row < rows; row += gridDim.y * << block // lanes >>) {
        const acc above = total[row];
        const long long named = (long long)targets[row];
        const index chosen = index(maximum(minimum(named, (long long)columns - 1), 0ll));
        const elem* const from = x + row * columns;
        elem* const to = dx + row * columns;
<% if block == 1 %>
        for (index c = 0; c < columns; ++c) to[c] = cast<elem>(exp(cast<acc>(from[c]) - above) * scale);
        to[chosen] = cast<elem>((exp(cast<acc>(from[chosen]) - above) - acc(1)) * scale);
<% else %>
        const index start = (index(blockIdx.x) * << lanes * unroll >> + lane) * << width >>;
        Pack<elem, << width >>> held[<< unroll >>];
#pragma unroll
        for (int u = 0; u < << unroll >>; ++u)
            if (start + u * << lanes * width >> < columns) held[u] = load_pack< << width >> >(from + start + u * << lanes * width >>);
#pragma unroll
        for (int u = 0; u < << unroll >>; ++u) {
            const index first = start + u * << lanes * width >>;
            if (first >= columns) break;
            acc numbers[<< width >>];
            unpack(held[u], numbers);
#pragma unroll
            for (int v = 0; v < << width >>; ++v) numbers[v] = exp_of(numbers[v] - above) * scale;
            store_pack(to + first, packed<elem>(numbers));
            if (first <= chosen && chosen < first + << width >>)
                to[chosen] = cast<elem>((exp_of(cast<acc>(from[chosen]) - above) - acc(1)) * scale);
        }
<% endif %>
    }
}
