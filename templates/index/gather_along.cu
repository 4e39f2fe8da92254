// Gather along an axis: y[o, j, i] = x[o, indices[o, j, i], i], or the index of that element in the flattened x.
// x (outer, size, inner), indices and y (outer, count, inner), all in C order.
// Launch: a thread owns `piece` elements, interleaved in a block. A block of one thread divides once per run of elements
// that share a row of x. No shared memory.
<% include "lib/wrap_index.cuh" %>
using index = << index >>;
using T = << elem >>;
using IndexT = << index_type >>;
constexpr int block = << block >>;
// Whether outer and inner are 1.
constexpr bool single = << "true" if single else "false" >>, single_inner = << "true" if single_inner else "false" >>;
<% if flat %>
// An array whose element i is i.
struct Iota {
    __device__ __forceinline__ long long operator[](long long i) const { return i; }
};
<% endif %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    << "const T* __restrict__ x, " if not flat >>const IndexT* __restrict__ indices, T* __restrict__ y,
    index total, index piece, index size, index count, index inner)
{
    << "const Iota x{};" if flat >>
    const index width = single_inner ? 1 : inner;
    if constexpr (block == 1) {
        const index start = index(blockIdx.x) * piece, end = minimum(total, start + piece);
        const index run = single_inner ? count : inner;
        for (index at = start; at < end;) {
            const index number = at / run, stop = minimum(end, (number + 1) * run);
            const index base = (single_inner ? number : number / count) * size;
            for (index i = at - number * run; at < stop; ++at, ++i)
                y[at] = x[(base + in_range(indices[at], size)) * width + (single_inner ? 0 : i)];
        }
    } else {
        const index start = index(blockIdx.x) * block * piece + index(threadIdx.x);
        const index end = minimum(total, start + block * piece);
#pragma unroll 4
        for (index at = start; at < end; at += block) {
            const index row = at / width, base = single ? 0 : row / count * size;
            y[at] = x[(base + in_range(indices[at], size)) * width + (at - row * width)];
        }
    }
}
