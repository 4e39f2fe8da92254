// y[o, p, i] = << join or "b" >> of a = y[o, p, i] and b = x[o, j, i], in the order of j, with p = indices<< "[o, j, i]" if each else "[j]" >><< "" if join else ": the last j of an index wins" >>.
// x (outer, count, inner), y (outer, size, inner), in C order.
// Launch: a thread owns `piece` of the i of one o: only one thread writes to an element. No shared memory, no atomics.
<% include "lib/wrap_index.cuh" %>
using index = << index >>;
using T = << elem >>;
using Sum = << out >>;
using IndexT = << index_type >>;
constexpr int block = << block >>;
constexpr bool joins = << "true" if join else "false" >>, each = << "true" if each else "false" >>;
// Whether inner is 1.
constexpr bool single_inner = << "true" if single_inner else "false" >>;

__device__ __forceinline__ Sum join(Sum a, Sum b) { return << join or "b" >>; }

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ x, const IndexT* __restrict__ indices, Sum* __restrict__ y,
    index total, index piece, index size, index count, index inner)
{
    const index width = single_inner ? 1 : inner, pieces = divide_up(inner, piece);
    const index task = index(blockIdx.x) * block + index(threadIdx.x);
    if (task >= total) return;
    const index o = task / pieces, first = single_inner ? 0 : task % pieces * piece;
    const index last = single_inner ? 1 : minimum(inner, first + piece);
    for (index j = 0; j < count; ++j) {
        const index from = (o * count + j) * width, row = each ? 0 : index(in_range(indices[j], size));
        for (index i = first; i < last; ++i) {
            const index to = (o * size + (each ? index(in_range(indices[from + i], size)) : row)) * width + i;
            y[to] = joins ? join(y[to], cast<Sum>(x[from + i])) : cast<Sum>(x[from + i]);
        }
    }
}
