// Linear interpolation: y[i], i < count, of the points (xs[j], ys[j]), j < n, at p[i], xs in ascending order; `below` under
// xs[0] and `above` over xs[n - 1], or ys[0] and ys[n - 1] without them.
// Launch: a thread owns `piece` times `items` of p, which it searches together. Shared: << "xs" if kept else "none" >>.
<% include "index/search.cuh" %>
using T = << elem >>;

// The value at p of the line through two points. If the first one is infinite, it starts from the other.
__device__ __forceinline__ acc line(acc p, acc x0, acc x1, acc y0, acc y1) {
    if (p == x1) return y1;
    const acc slope = (y1 - y0) / (x1 == x0 ? acc(1) : x1 - x0);
    acc result = y0 + (p - x0) * slope;
    if (result != result) result = y0 == y1 ? y0 : y1 + (p - x1) * slope;
    return result != result && p == x0 ? y0 : result;
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const acc* __restrict__ xs, const acc* __restrict__ ys, const acc* __restrict__ p, T* __restrict__ y, acc below, acc above,
    bool has_below, bool has_above, I n, long long count, I piece)
{
<% if kept %>
    __shared__ Table table;
    table.fill(xs, n);
    const auto element = [&](I i) { return table.at[Table::padded(i)]; };
<% else %>
    const auto element = [&](I i) { return xs[i]; };
<% endif %>
    const acc first = xs[0], last = xs[n - 1];
    if (!has_below) below = ys[0];
    if (!has_above) above = ys[n - 1];
    long long at = (long long)blockIdx.x * block * items * piece + threadIdx.x;
    for (I group = 0; group < piece && at < count; ++group, at += block * items) {
        acc wanted[items];
        I position[items];
#pragma unroll
        for (int k = 0; k < items; ++k) wanted[k] = p[minimum(at + k * block, count - 1)];
        count_before(position, wanted, n, element);
#pragma unroll
        for (int k = 0; k < items; ++k) {
            if (at + k * block >= count) break;
            const acc x = wanted[k];
            const I low = maximum(I(0), minimum(position[k] - 1, n - 2)), high = minimum(low + 1, n - 1);
            const acc inside = line(x, element(low), element(high), ys[low], ys[high]);
            y[at + k * block] = cast<T>(x != x ? x : x < first ? below : x > last ? above : inside);
        }
    }
}
