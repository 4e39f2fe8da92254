// y[o, places[j], :] = x[o, j, :] for the last j of each place. x (outer, count, words), y (outer, size, words), in C order.
<% if by == "winner" %>
// j is the last of its place where winner[places[j]] == j.
<% else %>
// A row of x is the i-th in the order that puts the places in order, stably; so the last of a place comes before another's.
<% endif %>
// Launch: << lanes >> threads share a row, and blocks along y its words. No two rows that are written are one. No shared memory.
<% include "lib/place.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << word >>* __restrict__ x, const << place >>* __restrict__ places, const << turn >>* __restrict__ turns, << word >>* __restrict__ y,
    long long total, long long size, long long count, long long words)
{
    const long long row = ((long long)blockIdx.x * << block >> + threadIdx.x) / << lanes >>;
    const int lane = threadIdx.x % << lanes >>;
    if (row >= total) return;
    const long long o = row / count, i = row - o * count;
<% if by == "winner" %>
    const long long j = i, place = settled(places[j], size);
    if (turns[place] != j) return;
<% else %>
    const long long j = turns[i], place = settled(places[j], size);
    if (i + 1 < count && settled(places[turns[i + 1]], size) == place) return;
<% endif %>
    const << word >>* const from = x + (o * count + j) * words;
    << word >>* const to = y + (o * size + place) * words;
    for (long long w = (long long)blockIdx.y * << lanes >> + lane; w < words; w += (long long)gridDim.y * << lanes >>) to[w] = from[w];
}
