// dx[r, c] = (p - (c == targets[r])) * given * share, where p = exp(x[r, c] - peak[r] - rest[r]): the derivative of a mean of
// -log softmax.
<% if by_rows %>
// Here by rows: p * given[r] + (c == targets[r]) * chosen_given[r]; 0 where both of these are 0,
// whatever x is.
<% endif %>
// x, dx (rows, columns) in C order; peak, rest (rows): the largest elements, and the logarithms of the sums of exponentials
// below them; targets (rows): the classes, one out of range taken as the nearest; given: one number. Launch: block / lanes rows a block, dealt to those along y in
// turn; blocks along x share them. A thread moves `unroll` packs of `width` elements. On the host one thread has a row.
// Shared: none.
<% set half = elem != acc and block > 1 %>
<% include "prelude/math.cuh" %>
<% include "prelude/packs.cuh" %>
<% include "prelude/exponential.cuh" %>
using T = << elem >>;
using Target = << target >>;
using index = << index >>;
constexpr int block = << block >>, lanes = << lanes >>, groups = block / lanes, width = << width >>, unroll = << unroll >>;
constexpr bool by_rows = << by_rows | lower >>;

// What the derivative by each element of a row has in common.
struct Row {
    acc peak, rest, scale, more;
    bool counts;

    __device__ __forceinline__ Row(acc peak, acc rest, acc scale, acc more)
        : peak(peak), rest(rest), scale(scale), more(more), counts(!by_rows || scale != acc(0) || more != acc(0)) {}
    __device__ __forceinline__ acc share(acc x) const { return exp_of(x - peak - rest); }
    __device__ __forceinline__ acc other(acc x) const { return counts ? share(x) * scale : acc(0); }
    __device__ __forceinline__ acc chosen(acc x) const {
        const acc part = (share(x) - acc(1)) * scale;
        return !counts ? acc(0) : by_rows ? part + more : part;
    }
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* x, const acc* peak, const acc* rest, const Target* targets,
    << "const acc* given, const acc* chosen_given" if by_rows else "const T* given" >>,
    T* dx, index rows, index columns<< ", acc share" if not by_rows >>)
{
    << "const acc scale = cast<acc>(*given) * share;" if not by_rows >>
    const index lane = threadIdx.x % lanes, group = threadIdx.x / lanes;
    for (index row = blockIdx.y * groups + group; row < rows; row += gridDim.y * groups) {
        const Row own(peak[row], rest[row], << "given[row], given[row] + chosen_given[row]" if by_rows else "scale, acc(0)" >>);
        const long long named = (long long)targets[row];
        const index chosen = index(maximum(minimum(named, (long long)columns - 1), 0ll));
        const T* const from = x + row * columns;
        T* const to = dx + row * columns;
<% if block == 1 %>
        for (index c = 0; c < columns; ++c) to[c] = cast<T>(own.other(cast<acc>(from[c])));
        to[chosen] = cast<T>(own.chosen(cast<acc>(from[chosen])));
<% else %>
        const index start = (index(blockIdx.x) * (lanes * unroll) + lane) * width;
        Pack<T, width> held[unroll];
#pragma unroll
        for (int u = 0; u < unroll; ++u)
            if (start + u * (lanes * width) < columns) held[u] = load_pack<width>(from + start + u * (lanes * width));
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            const index first = start + u * (lanes * width);
            if (first >= columns) break;
            acc numbers[width];
            unpack(held[u], numbers);
#pragma unroll
            for (int v = 0; v < width; ++v) numbers[v] = own.other(numbers[v]);
            store_pack(to + first, packed<T>(numbers));
            if (first <= chosen && chosen < first + width) to[chosen] = cast<T>(own.chosen(cast<acc>(from[chosen])));
        }
<% endif %>
    }
}
