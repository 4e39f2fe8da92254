// winner[k] = the j < count that stays of all with places[j] = k: << "the last one" if mode == "last" else "that of the %s of the values x (count)" % mode >>. Starts as -1 throughout.
// Launch: one thread goes through the j in turn<< "; or, in blocks of several, a thread owns one j" if mode == "last" >>. No shared memory.
<% include "lib/place.cuh" %>
using Place = << place >>;
using Winner = << winner >>;
constexpr int block = << block >>;
<% if mode != "last" %>
using T = << elem >>;
<% include "index/better.cuh" %>
<% endif %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    << "const T* __restrict__ x, " if mode != "last" >>const Place* __restrict__ places, Winner* __restrict__ winner,
    long long size, long long count)
{
    if constexpr (block == 1) {
        for (long long j = 0; j < count; ++j) {
            Winner& found = winner[settled(places[j], size)];
            if (<< "true" if mode == "last" else "found < 0 || better(cast<acc>(x[j]), cast<acc>(x[found]))" >>) found = Winner(j);
        }
    } else {
        // The order of atomics does not matter to the last.
        const long long j = (long long)blockIdx.x * block + threadIdx.x;
        if (j < count) atomicMax(&winner[settled(places[j], size)], Winner(j));
    }
}
