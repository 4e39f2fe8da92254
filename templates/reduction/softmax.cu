// y = << kind >> along an axis of `n` elements: of x0, or as << kind >>_vjp the cotangent of its input from x0, that of
// its result, and x1, the result. Arrays of any strides; rows are numbered in C order.
// Launch: row_threads threads share a row (a power of two up to 32, or the block), and compute `rows_piece` rows in
// sequence. A row is read again for each of its passes. Shared: a number a warp where the block shares a row.
<% include "prelude/reduce.cuh" %>
<% include "reduction/softmax.cuh" %>
using Total = << total >>;
constexpr int unroll = << unroll >>;
// Whether exponentials are stored in y and divided by their total in the last pass.
constexpr bool stored = << stored | lower >>;
<% include "lib/row.cuh" %>
// The term at index r of a row.
__device__ __forceinline__ A term_at(const Row& row, index r, A peak) {
    const A e = term(row.load(r), peak);
    if constexpr (stored) row.y.at(r) = cast<T>(e);
    return e;
}
template <typename V>
__device__ __forceinline__ void fill(V (&values)[unroll], V value) {
    for (int u = 0; u < unroll; ++u) values[u] = value;
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* x0, << "const T* x1, " if not forward >>T* y, Layout layout, index n, index tasks, index rows_piece)
{
    constexpr index step = row_threads, round = unroll * step;
    const index group = index(row_team()) * row_groups + row_group(), lane = row_lane();
    int phase = 0;
    for (index task = group * rows_piece; task < (group + 1) * rows_piece; ++task) {
        if (row_threads == 1 && task >= tasks) break;
        const bool live = row_threads == 1 || task < tasks;
        const Row row(x0, << "x1, " if not forward >>y, layout, live ? task : 0);
        A part[unroll], peak = A(0);
        if constexpr (forward) {
            fill(part, limits<A>::lowest());
            index r = lane;
            for (; r + (unroll - 1) * step < n; r += round)
                over_pack<unroll>([&](int u) { part[u] = update_peak(part[u], row.load(r + u * step)); });
            for (; r < n; r += step) part[0] = update_peak(part[0], row.load(r));
            peak = row_reduce(total(part, Larger()), phase, Larger());
        }
        Total sum = Total(0);
        for (index r = lane; r < n;) {
            const index end = minimum(n, r + 4096 * step);
            fill(part, A(0));
            for (; r + (unroll - 1) * step < end; r += round)
                over_pack<unroll>([&](int u) { part[u] += term_at(row, r + u * step, peak); });
            for (; r < end; r += step) part[0] += term_at(row, r, peak);
            sum += Total(total(part));
        }
        const A total = finished(row_reduce(A(sum), phase));
        for (index r = lane; live && r < n; r += step)
            row.y.at(r) = cast<T>(stored ? cast<A>(row.y.at(r)) / total : result(row.load(r), peak, total));
    }
}
