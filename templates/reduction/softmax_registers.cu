// y = << kind >> along an axis of `n` elements: of x0, or as << kind >>_vjp the cotangent of its input from x0, that of
// its result, and x1, the result. Arrays of any strides; rows are numbered in C order.
// Launch: row_threads threads share a row (a power of two up to 32, or the block) and keep it in registers, `keep` elements
// each. Shared: a number a warp where the block shares a row. An element is read once and written once.
<% include "prelude/reduce.cuh" %>
<% include "reduction/softmax.cuh" %>
constexpr int keep = << keep >>;
<% include "lib/row.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* x0, << "const T* x1, " if not forward >>T* y, Layout layout, index n, index rows)
{
    const index row_index = index(row_team()) * row_groups + row_group(), lane = row_lane();
    const Row row(x0, << "x1, " if not forward >>y, layout, minimum(row_index, rows - 1));
    int phase = 0;
    Element elements[keep];
#pragma unroll
    for (int u = 0; u < keep; ++u) {
        const index r = lane + u * row_threads;
        elements[u] = r < n ? row.load(r) : padding();
    }
    A peak = limits<A>::lowest(), sum = A(0), terms[keep];
    if constexpr (forward) {
#pragma unroll
        for (int u = 0; u < keep; ++u) peak = update_peak(peak, elements[u]);
        peak = row_reduce(peak, phase, Larger());
    }
#pragma unroll
    for (int u = 0; u < keep; ++u) {
        terms[u] = term(elements[u], peak);
        sum += terms[u];
    }
    const A total = finished(row_reduce(sum, phase));
#pragma unroll
    for (int u = 0; u < keep; ++u) {
        const index r = lane + u * row_threads;
        if (row_index < rows && r < n) row.y.at(r) = cast<T>(divided ? terms[u] / total : result(elements[u], peak, total));
    }
}
