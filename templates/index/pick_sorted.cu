// winner[k] = of all j with index k that of the << mode >> of the values x (count); -1 where there is none.
// Those of index k are j = order[starts[k]], ..., order[starts[k + 1] - 1], in ascending order.
// Launch: a thread owns one k. No shared memory.
using T = << elem >>;
using Start = << starts >>;
using Winner = << winner >>;
constexpr int block = << block >>;
<% include "index/better.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ x, const long long* __restrict__ order, const Start* __restrict__ starts,
    Winner* __restrict__ winner, long long size)
{
    const long long k = (long long)blockIdx.x * block + threadIdx.x;
    if (k >= size) return;
    long long best = -1;
    for (long long i = starts[k]; i < starts[k + 1]; ++i)
        if (best < 0 || better(cast<acc>(x[order[i]]), cast<acc>(x[best]))) best = order[i];
    winner[k] = Winner(best);
}
