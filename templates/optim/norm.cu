// norm[0] = the root of the sum of `count` numbers; sums[count] = what makes a norm of at most max_norm of it.
// Launch: one block. Shared memory: the sums of its warps.
<% set threads, cluster = block, 1 %>
<% include "prelude/reduce.cuh" %>
using T = << elem >>;
constexpr int block = << block >>;
using RowState = double;
__device__ __forceinline__ RowState row_join(RowState a, RowState b) { return a + b; }
<% include "lib/row.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    double* sums, T* norm, int count, double max_norm)
{
    double sum = 0;
#pragma unroll 8
    for (int i = threadIdx.x; i < count; i += block) sum += sums[i];
    int phase = 0;
    sum = row_reduce(sum, phase);
    if (threadIdx.x == 0) {
        norm[0] = cast<T>(sqrt(sum));
        // In this order neither a norm of 0 nor an infinite max_norm makes a NaN.
        sums[count] = 1 / maximum(sqrt(sum) / max_norm, 1.0);
    }
    row_end();
}
