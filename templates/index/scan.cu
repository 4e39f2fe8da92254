// y[o, j, i] = x[o, 0, i] + ... + x[o, j, i] for j < n, "+" being << scan >><< ", from the end backwards" if reverse >>.
<% if pair %>
// Here each element is the map of a number v to x * v + z, "+" is one map after another, and y what they make of 0.
<% endif %>
// x (outer, n, inner), y (outer, n + lead, inner) in C order; with lead y has the start of the scan, too.
// Launch: a thread scans << "%d neighbouring columns" % tile if tile > 1 else "a column" >> (o, i) at a time, `columns_piece` of them in all.
<% include "index/scan.cuh" %>
<% macro load(at) %>made_of(x[<< at >>]<% if pair %>, z[<< at >>]<% endif %>)<% endmacro %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << source >>* __restrict__ x,
<%- if pair %> const << source >>* __restrict__ z,<% endif %> << result >>* __restrict__ y,
    long long columns, long long columns_piece, long long n, long long inner, long long lead)
{
    const long long first = ((long long)blockIdx.x * << block >> + threadIdx.x) * columns_piece;
    const long long end = minimum(columns, first + columns_piece);
    long long width = 1;
    for (long long column = first; column < end; column += width) {
        const long long i = column % inner;
        const long long base = column / inner * n * inner + i;
        const long long target = column / inner * (n + lead) * inner + i<< " + lead * inner" if not reverse >>;
        const long long begin = << "target + n * inner" if reverse else "target - inner" >>;
<% if tile > 1 %>
        width = minimum(minimum(end - column, inner - i), (long long)<< tile >>);
        T total[<< tile >>];
        for (long long v = 0; v < width; ++v) {
            total[v] = neutral();
            if (lead) y[begin + v] = result_of(neutral());
        }
        for (long long k = 0; k < n; ++k) {
            const long long j = (<< "n - 1 - k" if reverse else "k" >>) * inner;
            for (long long v = 0; v < width; ++v) {
                total[v] = combine(total[v], << load("base + j + v") >>);
                y[target + j + v] = result_of(total[v]);
            }
        }
<% else %>
        T total = neutral();
        if (lead) y[begin] = result_of(neutral());
        for (long long k = 0; k < n; ++k) {
            const long long j = (<< "n - 1 - k" if reverse else "k" >>) * inner;
            total = combine(total, << load("base + j") >>);
            y[target + j] = result_of(total);
        }
<% endif %>
    }
}
