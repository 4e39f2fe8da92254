// mean[0] = share * the sum of `count` numbers. Launch: one block. Shared: the sums of its warps.
<% set threads, cluster = block, 1 %>
<% include "prelude/reduce.cuh" %>
using T = << elem >>;
using acc = << acc >>;
constexpr int block = << block >>;
using RowState = acc;
__device__ __forceinline__ RowState row_join(RowState a, RowState b) { return a + b; }
<% include "lib/row.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(const acc* parts, T* mean, int count, acc share) {
    acc sum = acc(0);
#pragma unroll 8
    for (int i = threadIdx.x; i < count; i += block) sum += parts[i];
    int phase = 0;
    sum = row_reduce(sum, phase);
    if (threadIdx.x == 0) *mean = cast<T>(sum * share);
    row_end();
}
