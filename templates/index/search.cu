// By a binary search for each i < count: y[i] = << "whether q[i] is one of the sorted xs (n)" if among else "how many of the sorted xs (n) come before q[i]" >>, << "those below it, or equal" if right else "those below it" >>.
// xs in ascending order, NaN last<< "; its element j is xs[order[j]]" if indirect >>.
// Launch: a thread owns `piece` times `items` queries, which it searches together. Shared: << "xs" if kept else "none" >>.
<% include "index/search.cuh" %>
using T = << elem >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ xs, << "const long long* __restrict__ order, " if indirect >>const T* __restrict__ q,
    << "bool" if among else "long long" >>* __restrict__ y, I n, long long count, I piece)
{
<% if kept %>
    __shared__ Table table;
    table.fill(xs, n);
    const auto element = [&](I i) { return table.at[Table::padded(i)]; };
<% else %>
    const auto element = [&](I i) { return cast<acc>(xs[<< "order[i]" if indirect else "i" >>]); };
<% endif %>
    long long at = (long long)blockIdx.x * block * items * piece + threadIdx.x;
    for (I group = 0; group < piece && at < count; ++group, at += block * items) {
        acc wanted[items];
        I position[items];
#pragma unroll
        for (int k = 0; k < items; ++k) wanted[k] = cast<acc>(q[minimum(at + k * block, count - 1)]);
        count_before(position, wanted, n, element);
#pragma unroll
        for (int k = 0; k < items; ++k) {
            if (at + k * block >= count) break;
            y[at + k * block] = << "position[k] < n && element(position[k]) == wanted[k]" if among else "position[k]" >>;
        }
    }
}
