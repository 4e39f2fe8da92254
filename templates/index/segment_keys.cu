// keys[j] = places[j] counted from 0, for j < n.
// Launch: a thread owns `piece` of the n. No shared memory.
<% include "lib/place.cuh" %>
using Place = << given >>;
using Key = << made >>;
constexpr int block = << block >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const Place* __restrict__ places, Key* __restrict__ keys, long long n, long long piece, long long size)
{
    const long long first = ((long long)blockIdx.x * block + threadIdx.x) * piece;
    const long long last = minimum(n, first + piece);
    for (long long j = first; j < last; ++j) keys[j] = Key(settled(places[j], size));
}
