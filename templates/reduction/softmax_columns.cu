// y = << kind >> along an axis of `n` elements: of x0, or as << kind >>_vjp the cotangent of its input from x0, that of
// its result, and x1, the result. Arrays of any strides. The last of the other axes has `columns` elements,
// neighbours in memory: a thread computes `tile` of them together, in loops that the compiler vectorizes.
// Launch: a thread owns `tasks_piece` of the `tasks` tiles, numbered along the columns first. Shared: none.
<% include "reduction/softmax.cuh" %>
using Total = << total >>;
constexpr int block = << block >>, tile = << tile >>;
// Whether exponentials are stored in y and divided by their total in the last pass.
constexpr bool stored = << stored | lower >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* x0, << "const T* x1, " if not forward >>T* y, Layout layout, index n, index columns, index tiles, index tasks,
    index tasks_piece)
{
    const index thread = index(blockIdx.x) * block + index(threadIdx.x);
    for (index task = thread * tasks_piece; task < minimum(tasks, (thread + 1) * tasks_piece); ++task) {
        const index first = task % tiles * tile, width = minimum(index(tile), columns - first);
        const Row row(x0, << "x1, " if not forward >>y, layout, task / tiles, first);
        A peak[tile];
        Total sum[tile];
        for (index c = 0; c < width; ++c) {
            peak[c] = limits<A>::lowest();
            sum[c] = Total(0);
        }
        if constexpr (forward)
            for (index r = 0; r < n; ++r)
                for (index c = 0; c < width; ++c) peak[c] = update_peak(peak[c], row.load(r, c));
        for (index start = 0; start < n; start += 1024) {
            const index end = minimum(n, start + 1024);
            A part[tile];
            for (index c = 0; c < width; ++c) part[c] = A(0);
            for (index r = start; r < end; ++r)
                for (index c = 0; c < width; ++c) {
                    const A e = term(row.load(r, c), peak[c]);
                    part[c] += e;
                    if constexpr (stored) row.y.at(r, c) = cast<T>(e);
                }
            for (index c = 0; c < width; ++c) sum[c] += Total(part[c]);
        }
        A total[tile];
        for (index c = 0; c < width; ++c) total[c] = A(finished(sum[c]));
        for (index r = 0; r < n; ++r)
            for (index c = 0; c < width; ++c)
                row.y.at(r, c) = cast<T>(stored ? cast<A>(row.y.at(r, c)) / total[c] : result(row.load(r, c), peak[c], total[c]));
    }
}
