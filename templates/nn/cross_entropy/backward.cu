// dx[r, c] = (exp(x[r, c] - total[r]) - (c == targets[r])) * given * share: the derivative of a mean of -log softmax.
<% if by_rows %>
// Here by rows: exp(x[r, c] - total[r]) * given[r] + (c == targets[r]) * chosen_given[r]; 0 where both of these are 0,
// whatever x is.
<% endif %>
// x, dx (rows, columns) in C order; total (rows): the logarithms of the sums of exponentials; targets (rows): the classes,
// one out of range taken as the nearest; given: one number. Launch: block / lanes rows a block, dealt to those along y in
// turn; blocks along x share them. A thread moves << unroll >> pack(s) of << width >> elements. On the host one thread has a row.
// Shared: none.
<% include "prelude/math.cuh" %>
<% include "prelude/packs.cuh" %>
<% set half = elem != acc %>
<% include "prelude/exponential.cuh" %>
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* x, const << acc >>* total, const << target >>* targets,
<% if by_rows %>
    const << acc >>* given, const << acc >>* chosen_given, << elem >>* dx, << index >> rows, << index >> columns)
<% else %>
    const << elem >>* given, << elem >>* dx,
    << index >> rows, << index >> columns, << acc >> share)
<% endif %>
{
    using elem = << elem >>;
    using index = << index >>;
<% set counts, rest = ("!counts ? acc(0) : ", " + rest") if by_rows else ("", "") %>
<% if not by_rows %>
    const acc scale = cast<acc>(*given) * share;
<% endif %>
    const index lane = threadIdx.x % << lanes >>, group = threadIdx.x / << lanes >>;
    for (index row = blockIdx.y * << block // lanes >> + group; row < rows; row += gridDim.y * << block // lanes >>) {
        const acc above = total[row];
<% if by_rows %>
        const acc scale = given[row], rest = scale + chosen_given[row];
        const bool counts = scale != acc(0) || rest != acc(0);
<% endif %>
        const long long named = (long long)targets[row];
        const index chosen = index(maximum(minimum(named, (long long)columns - 1), 0ll));
        const elem* const from = x + row * columns;
        elem* const to = dx + row * columns;
<% if block == 1 %>
        for (index c = 0; c < columns; ++c) to[c] = cast<elem>(<< counts >>exp(cast<acc>(from[c]) - above) * scale);
        to[chosen] = cast<elem>(<< counts >>(exp(cast<acc>(from[chosen]) - above) - acc(1)) * scale<< rest >>);
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
            for (int v = 0; v < << width >>; ++v) numbers[v] = << counts >>exp_of(numbers[v] - above) * scale;
            store_pack(to + first, packed<elem>(numbers));
            if (first <= chosen && chosen < first + << width >>)
                to[chosen] = cast<elem>(<< counts >>(exp_of(cast<acc>(from[chosen]) - above) - acc(1)) * scale<< rest >>);
        }
<% endif %>
    }
}
