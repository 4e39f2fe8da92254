// y[o, j, :] = x[o, places[j], :]: rows of x (outer, size, words) picked into y (outer, count, words), both in C order,
// in words of << word >>.
// Launch: a group of << lanes >> thread(s) owns `piece` rows, << rows >> of them at a time, and reads << items >> word(s) of each of
// these before it writes one; blocks along y own `span` words of the rows. Groups of a block take turns in its rows. No
// shared memory. `scattered`: a row is one word, and a block one thread.
<% include "lib/place.cuh" %>
using I = << index >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << word >>* __restrict__ x, const << place >>* __restrict__ places, << word >>* __restrict__ y,
    I total, I piece, long long size, I count, I words, I span)
{
<% if scattered %>
    const I first = (I)blockIdx.x * piece, end = minimum(total, first + piece);
    for (I row = first; row < end; ++row)
        y[row] = x[<< "settled(places[row], size)" if single else "(long long)(row / count) * size + settled(places[row % count], size)" >>];
<% else %>
    constexpr int lanes = << lanes >>, groups = << block // lanes >>, rows = << rows >>, items = << items >>;
    const int lane = threadIdx.x % lanes;
    const I first = (I)blockIdx.x * groups * piece + (I)(threadIdx.x / lanes);
    const I end = minimum(total, first + groups * piece), stop = minimum(words, ((I)blockIdx.y + 1) * span);
<% if block > 1 %>
#pragma unroll 1
<% endif %>
    for (I row = first; row < end; row += groups * rows) {
        const << word >>* from[rows];
#pragma unroll
        for (int r = 0; r < rows; ++r) {
            const I at = minimum(row + r * groups, total - 1);
            from[r] = x + << "settled(places[at], size)" if single else "((long long)(at / count) * size + settled(places[at % count], size))" >> * words;
        }
<% if block > 1 %>
#pragma unroll 1
<% endif %>
        for (I i = (I)blockIdx.y * span + lane; i < stop; i += lanes * items) {
            << word >> held[rows][items];
#pragma unroll
            for (int r = 0; r < rows; ++r)
#pragma unroll
                for (int k = 0; k < items; ++k)
                    if (<< "true" if exact else "k == 0 || i + k * lanes < words" >>) held[r][k] = from[r][i + k * lanes];
#pragma unroll
            for (int r = 0; r < rows; ++r)
#pragma unroll
                for (int k = 0; k < items; ++k)
                    if ((r == 0 || row + r * groups < end) && << "true" if exact else "(k == 0 || i + k * lanes < words)" >>) {
                        << word >>* const to = y + (long long)(row + r * groups) * words + i + k * lanes;
                        << "__stcs(to, held[r][k])" if streamed else "*to = held[r][k]" >>;
                    }
        }
    }
<% endif %>
}
