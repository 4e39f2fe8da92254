<% if stage == "keys" %>
// keys[j] = places[j] counted from 0, for j < n.
<% else %>
// starts[k] = how many of the `count` keys, which are in rising order, are less than k, for k < n.
<% endif %>
// Launch: a thread owns `piece` of the n, << block >> thread(s) a block. No shared memory.
<% include "lib/place.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << place >>* __restrict__ given, << out >>* __restrict__ made, long long n, long long piece, long long size, long long count)
{
    const long long first = ((long long)blockIdx.x * << block >> + threadIdx.x) * piece;
    const long long last = minimum(n, first + piece);
<% if stage == "keys" %>
    for (long long j = first; j < last; ++j) made[j] = (<< out >>)settled(given[j], size);
<% else %>
    long long low = 0, high = count;
    while (low < high) {
        const long long middle = low + (high - low) / 2;
        const bool less = given[middle] < first;
        low = less ? middle + 1 : low;
        high = less ? high : middle;
    }
    for (long long k = first; k < last; ++k) {
        while (low < count && given[low] < k) ++low;
        made[k] = (<< out >>)low;
    }
<% endif %>
}
