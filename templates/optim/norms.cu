// norms[from + b] = the root of the sum of squares of the b-th piece of many arrays.
// Launch: a block for each piece of an array. Shared memory: the sums of a block's warps.
<% set threads, cluster = block, 1 %>
<% include "prelude/reduce.cuh" %>
<% include "prelude/packs.cuh" %>
using T = << elem >>;
using acc = << acc >>;
constexpr int vec = << vec >>;
<% from "lib/pieces.cuh" import table with context %>
<% include "lib/pieces.cuh" %>
<% include "optim/unit.cuh" %>
// Squares of doubles alone may be larger or smaller than any double.
constexpr bool in_units = sizeof(T) == 8;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    << table("const T") >> given, double* norms, int from, const __grid_constant__ Sizes sizes)
{
    const Piece piece = piece_of((int)blockIdx.x, sizes);
    const T* x = given[piece.array] + piece.start;
    const int packs = is_aligned(x) ? piece.size / vec : 0;
    int phase = 0;
    double unit = 1;
    if constexpr (in_units) {
        double largest = 0;
        for (int i = threadIdx.x; i < piece.size; i += block) largest = maximum(largest, fabs(double(cast<acc>(x[i]))));
        unit = unit_of(row_reduce(largest, phase, Larger()));
    }
    double sums_of[vec] = {};  // apart, so that one addition need not wait for another
    for (int k = threadIdx.x; k < packs; k += block) {
        acc v[vec];
        unpack(load_pack<vec>(x + vec * k), v);
#pragma unroll
        for (int i = 0; i < vec; ++i) sums_of[i] += squared(v[i], unit);
    }
    double sum = 0;
    for (int i = vec * packs + threadIdx.x; i < piece.size; i += block) sum += squared(cast<acc>(x[i]), unit);
#pragma unroll
    for (int i = 0; i < vec; ++i) sum += sums_of[i];
    sum = row_reduce(sum, phase);
    if (threadIdx.x == 0) norms[from + blockIdx.x] = sqrt(sum) / unit;
    row_end();
}
