// sums[from + b] = the sum of squares of the b-th piece of many arrays.
// Launch: a block for each piece of an array. Shared memory: the sums of a block's warps.
<% set threads, cluster = block, 1 %>
<% include "prelude/reduce.cuh" %>
<% include "optim/pieces.cuh" %>
using RowState = acc;
__device__ __forceinline__ RowState row_join(RowState a, RowState b) { return a + b; }
<% include "lib/row.cuh" %>
struct Given {
    const T* of[capacity];
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const Given given, double* sums, int from, const Sizes sizes)
{
    const Piece piece = own_piece(sizes);
    const T* x = given.of[piece.array] + piece.start;
    const int packs = is_aligned(x) ? piece.size / vec : 0;
    acc sums_of[vec] = {};  // apart, so that one addition need not wait for another
    for (int k = threadIdx.x; k < packs; k += block) {
        acc v[vec];
        unpack(load_pack<vec>(x + vec * k), v);
#pragma unroll
        for (int i = 0; i < vec; ++i) sums_of[i] += v[i] * v[i];
    }
    acc sum = acc(0);
    for (int i = vec * packs + threadIdx.x; i < piece.size; i += block) {
        const acc v = cast<acc>(x[i]);
        sum += v * v;
    }
#pragma unroll
    for (int i = 0; i < vec; ++i) sum += sums_of[i];
    int phase = 0;
    sum = row_reduce(sum, phase);
    if (threadIdx.x == 0) sums[from + blockIdx.x] = sum;
    row_end();
}
