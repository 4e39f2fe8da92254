// One place per element along the middle axis. Gather: y[o, j, i] = x[o, places[o, j, i], i]. Else add:
// y[o, places[o, j, i], i] += x[o, j, i].
// places (outer, count, inner); the other side of the picked axis is (outer, size, inner); all in C order.
// Launch: a thread owns the column (o, i), so that sums are taken in the order of j in every run. y starts as zeros
// where it is added to. No shared memory, no atomics.

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* __restrict__ x, const long long* __restrict__ places, << out >>* __restrict__ y,
    long long columns, long long size, long long count, long long inner)
{
    const long long column = (long long)(blockIdx.x) * << block >> + threadIdx.x;
    if (column >= columns) return;
    const long long at = column / inner * count * inner + column % inner;
    const long long base = column / inner * size * inner + column % inner;
    for (long long j = 0; j < count; ++j) {
<% if mode == "gather" %>
        y[at + j * inner] = x[base + places[at + j * inner] * inner];
<% else %>
        y[base + places[at + j * inner] * inner] += cast< << out >> >(x[at + j * inner]);
<% endif %>
    }
}
