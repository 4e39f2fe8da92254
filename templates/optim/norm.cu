// norm[0] = the root of the sum of squares of the norms behind the first; norms[0] = the factor that clips it to max_norm.
// Launch: one block. Shared memory: the sums of its warps.
<% set threads, cluster = block, 1 %>
<% include "prelude/reduce.cuh" %>
using T = << elem >>;
constexpr int block = << block >>;
<% include "optim/unit.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    double* norms, T* norm, int count, double max_norm)
{
    double largest = 0, sum = 0;
    for (int i = threadIdx.x; i < count; i += block) largest = maximum(largest, norms[1 + i]);
    int phase = 0;
    const double unit = unit_of(row_reduce(largest, phase, Larger()));
#pragma unroll 8
    for (int i = threadIdx.x; i < count; i += block) sum += squared(norms[1 + i], unit);
    sum = row_reduce(sum, phase);
    if (threadIdx.x == 0) {
        const double result = sqrt(sum) / unit;
        norm[0] = cast<T>(result);
        // In this order neither a norm of 0 nor an infinite max_norm gives a NaN.
        norms[0] = 1 / maximum(result / max_norm, 1.0);
    }
    row_end();
}
