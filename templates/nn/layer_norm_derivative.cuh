<# With n = (x - mean) * rstd and g = dy * weight:  dx = (g - mean(g) - n * mean(g * n)) * rstd. #>
<% macro each_chunk() %>
#pragma unroll
    for (int chunk = 0; chunk < chunks; ++chunk) {
<% if not exact %>
        if ((chunk * threads + lane) * width >= columns) continue;
<% endif %>
        << caller() | trim >>
    }
<% endmacro %>
<# n, the given cotangents and g of the packs of x, dy and the weight; `of`: the row's statistics. #>
<% macro numbers(x, dy, weight, of, again=false) %>
        acc n[width], given[width], g[width];
        unpack(<< x >>, n<< ", true" if again >>);
        unpack(<< dy >>, given<< ", true" if again >>);
<% if weighted %>
        unpack(<< weight >>, g);
<% endif %>
#pragma unroll
        for (int v = 0; v < width; ++v) {
            n[v] = (n[v] - << of >>.mean - << of >>.remainder) * << of >>.rstd;
            g[v] = << "g[v] * given[v]" if weighted else "given[v]" >>;
        }
<%- endmacro %>
<% macro derivative(n, g, of, gradient_mean, product_mean) %>
        acc made[width];
#pragma unroll
        for (int v = 0; v < width; ++v)
            made[v] = << "%s * %s.rstd - (%s * (%s * %s.rstd) + %s * %s.rstd)" % (g, of, n, product_mean, of, gradient_mean, of) if half else "(%s - %s - %s * %s) * %s.rstd" % (g, gradient_mean, n, product_mean, of) >>;
<%- endmacro %>
using elem = << elem >>;
using acc = << acc >>;
using index = << index >>;
using Held = Pack<elem, << width >>>;
constexpr int groups = << groups >>, chunks = << chunks >>, threads = << threads >>, width = << width >>, block = << block >>;
// The sums of g and of g * n, of << turn >> row(s).
struct RowState {
    acc sum<< "[%d]" % turn if turn > 1 >>, product<< "[%d]" % turn if turn > 1 >>;
};
__device__ __forceinline__ RowState row_join(RowState a, RowState b) {
<% if turn > 1 %>
    for (int r = 0; r < << turn >>; ++r) a.sum[r] += b.sum[r], a.product[r] += b.product[r];
    return a;
<% else %>
    return {a.sum + b.sum, a.product + b.product};
<% endif %>
}
<% include "nn/row.cuh" %>
struct RowStatistics {
    acc mean, remainder, rstd;
};
__device__ __forceinline__ RowStatistics statistics_of(const acc* statistics, index rows, index row) {
    return {statistics[row], statistics[rows + (long long)row], statistics[2 * (long long)rows + row]};
}
