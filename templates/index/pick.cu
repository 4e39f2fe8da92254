// winner[k] = of all j < count with indices[j] = k << "the last one" if mode == "last" else "that of the %s of the values x (count)" % mode >>. All -1 before.
// Launch: one thread goes through all j in order<< "; or, in blocks of several, a thread owns one j" if mode == "last" >>. No shared memory.
<% include "lib/wrap_index.cuh" %>
using IndexT = << index_type >>;
using Winner = << winner >>;
constexpr int block = << block >>;
<% if mode != "last" %>
using T = << elem >>;
<% include "index/better.cuh" %>
<% endif %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    << "const T* __restrict__ x, " if mode != "last" >>const IndexT* __restrict__ indices, Winner* __restrict__ winner,
    long long size, long long count)
{
    if constexpr (block == 1) {
        for (long long j = 0; j < count; ++j) {
            Winner& best = winner[in_range(indices[j], size)];
            if (<< "true" if mode == "last" else "best < 0 || better(cast<acc>(x[j]), cast<acc>(x[best]))" >>) best = Winner(j);
        }
    } else {
        // The maximum does not depend on the order of atomics.
        const long long j = (long long)blockIdx.x * block + threadIdx.x;
        if (j < count) atomicMax(&winner[in_range(indices[j], size)], Winner(j));
    }
}
