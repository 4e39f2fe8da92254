// y[o, places[j], :] = x[o, j, :] for the last j of each place. x (outer, count, words), y (outer, size, words), in C order.
<% if by_winner %>
// `turns` are the winners: j is the last of its place where turns[places[j]] == j.
<% else %>
// `turns` are the j in the order that puts the places in order, stably: the last of a place comes before another's.
<% endif %>
// Launch: `lanes` threads share a row, and blocks along y its words. No two rows that are written are one. No shared memory.
<% include "lib/place.cuh" %>
using Word = << word >>;
using Place = << place >>;
using Turn = << turn >>;
constexpr int block = << block >>, lanes = << lanes >>;
constexpr bool by_winner = << "true" if by_winner else "false" >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const Word* __restrict__ x, const Place* __restrict__ places, const Turn* __restrict__ turns, Word* __restrict__ y,
    long long total, long long size, long long count, long long words)
{
    const long long row = ((long long)blockIdx.x * block + threadIdx.x) / lanes;
    const int lane = threadIdx.x % lanes;
    if (row >= total) return;
    const long long o = row / count, i = row - o * count;
    const long long j = by_winner ? i : turns[i], place = settled(places[j], size);
    if constexpr (by_winner) {
        if (turns[place] != j) return;
    } else {
        if (i + 1 < count && settled(places[turns[i + 1]], size) == place) return;
    }
    const Word* const from = x + (o * count + j) * words;
    Word* const to = y + (o * size + place) * words;
    for (long long w = (long long)blockIdx.y * lanes + lane; w < words; w += (long long)gridDim.y * lanes) to[w] = from[w];
}
