// winner[k] = the j < count that stays of all that belong to place k, -1 of none. x (count) are the values.
<% if mode == "last" %>
// The largest j. << "One thread goes through the j in turn." if serial else "The atomics' order does not matter." >>
<% else %>
// The j of the << mode >> of the values, of equal ones the first, and the first NaN.
<% endif %>
<% if serial or mode == "last" %>
// Launch: << "one thread" if serial else "a thread owns one j" >>, << block >> thread(s) a block. No shared memory. winner starts as -1 throughout.
<% else %>
// Those of k are j = order[starts[k]], ..., order[starts[k + 1] - 1], which are in rising order.
// Launch: a thread owns one place, << block >> threads a block. No shared memory.
<% endif %>
<% include "lib/place.cuh" %>
<% if mode != "last" %>
using acc = << acc >>;

__device__ __forceinline__ bool better(acc value, acc best) {
    return best == best && (value != value || value << "<" if mode == "min" else ">" >> best);
}
<% endif %>
<% if serial or mode == "last" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    <<- "const %s* __restrict__ x, " % elem if mode != "last" >>const << place >>* __restrict__ places, << winner >>* __restrict__ winner,
    long long size, long long count)
{
<% if serial %>
    for (long long j = 0; j < count; ++j) {
        << winner >>& found = winner[settled(places[j], size)];
<% if mode == "last" %>
        found = (<< winner >>)j;
<% else %>
        if (found < 0 || better(cast<acc>(x[j]), cast<acc>(x[found]))) found = (<< winner >>)j;
<% endif %>
    }
<% else %>
    const long long j = (long long)blockIdx.x * << block >> + threadIdx.x;
    if (j < count) atomicMax(&winner[settled(places[j], size)], (<< winner >>)j);
<% endif %>
}
<% else %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* __restrict__ x, const long long* __restrict__ order, const << starts >>* __restrict__ starts,
    << winner >>* __restrict__ winner, long long size)
{
    const long long k = (long long)blockIdx.x * << block >> + threadIdx.x;
    if (k >= size) return;
    long long found = -1;
    for (long long i = starts[k]; i < starts[k + 1]; ++i) {
        if (found < 0 || better(cast<acc>(x[order[i]]), cast<acc>(x[found]))) found = order[i];
    }
    winner[k] = (<< winner >>)found;
}
<% endif %>
