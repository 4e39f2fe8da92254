// y = << kind >> along rows of `columns` elements: of x0, or as << kind >>_vjp the cotangent of its input from x0, that of
// its result, and x1, the result. All (rows, columns), in C order and aligned to packs of `width` elements.
// Launch: block / threads rows a block, or a row a cluster of blocks. A thread keeps `chunks` packs of each array, in
// registers for << resident >> block(s) a multiprocessor.
// Shared: the states of warps and of the block. An element is read once and written once.
<% include "prelude/reduce.cuh" %>
<% include "prelude/packs.cuh" %>
using elem = << elem >>;
using index = << index >>;
constexpr int width = << width >>, chunks = << chunks >>;
constexpr bool logs = << logs | lower >>, narrow = << half | lower >>, full = << full | lower >>;
<% if forward %>
<% include "lib/exponents.cuh" %>
<% else %>
<% include "prelude/exponential.cuh" %>
using RowState = acc;
__device__ __forceinline__ RowState row_join(RowState a, RowState b) { return a + b; }
<% include "lib/row.cuh" %>
<% endif %>
// The column at which pack number `chunk` of a thread starts.
__device__ __forceinline__ index start_of(int chunk) { return (chunk * row_threads + row_lane()) * width; }
// A thread's packs of a row in the arrays' dtype, so that a half type takes half the registers.
using Held = Pack<elem, width>[chunks];
__device__ __forceinline__ void load(Held& held, const elem* row, index columns) {
#pragma unroll
    for (int chunk = 0; chunk < chunks; ++chunk) {
        const index start = start_of(chunk);
        if (!full && start >= columns) continue;
        held[chunk] = load_pack<width>(row + start);
    }
}

extern "C" __global__ void<< " __cluster_dims__(%d, 1, 1)" % cluster if cluster > 1 >> __launch_bounds__(<< block >>, << resident >>) << name >>(
    const elem* x0, << "" if forward else "const elem* x1, " >>elem* y, index rows, index columns)
{
    const index row = index(row_team()) * row_groups + row_group();
    int phase = 0;
    // Groups beyond the last row compute it again and do not store it.
    const index at = minimum(row, rows - 1) * columns;
    acc sums[width] = {};
<% if forward %>
    Held x_held;
    load(x_held, x0 + at, columns);
    Pack<elem, width> top;
    for (int v = 0; v < width; ++v) top.at[v] = cast<elem>(limits<acc>::lowest());
#pragma unroll
    for (int chunk = 0; chunk < chunks; ++chunk) {
        if (!full && start_of(chunk) >= columns) continue;
        top = larger(top, x_held[chunk]);
    }
    acc peaks[width];
    unpack(top, peaks);
    for (int v = 1; v < width; ++v) peaks[0] = maximum(peaks[0], peaks[v]);
    const Exponents below(peaks[0]);
#pragma unroll
    for (int chunk = 0; chunk < chunks; ++chunk) {
        if (!full && start_of(chunk) >= columns) continue;
        acc x[width];
        unpack(x_held[chunk], x);
#pragma unroll
        for (int v = 0; v < width; ++v) sums[v] += below(x[v]);
    }
    for (int v = 1; v < width; ++v) sums[0] += sums[v];
    const RowState total = row_total({peaks[0], sums[0]}, phase);
    // For a half type a power of two: the digits that this costs are more than it has.
    const acc scale = logs ? log(total.sum) : narrow ? log2(total.sum) : acc(1) / total.sum;
    row_end();
#pragma unroll
    for (int chunk = 0; chunk < chunks; ++chunk) {
        const index start = start_of(chunk);
        if (!full && start >= columns) continue;
        acc x[width];
        unpack(x_held[chunk], x, true);
#pragma unroll
        for (int v = 0; v < width; ++v)
            x[v] = logs     ? x[v] - total.peak - scale
                   : narrow ? power_of_two((x[v] - total.peak) * acc(1.44269504) - scale)
                            : exp(x[v] - total.peak) * scale;
        if (row < rows) store_pack(y + at + start, packed<elem>(x));
    }
<% else %>
    Held g_held, y_held;
    load(g_held, x0 + at, columns);
    load(y_held, x1 + at, columns);
#pragma unroll
    for (int chunk = 0; chunk < chunks; ++chunk) {
        if (!full && start_of(chunk) >= columns) continue;
        acc g[width], z[width];
        unpack(g_held[chunk], g);
        unpack(y_held[chunk], z);
#pragma unroll
        for (int v = 0; v < width; ++v) sums[v] += logs ? g[v] : g[v] * z[v];
    }
    for (int v = 1; v < width; ++v) sums[0] += sums[v];
    const acc total = row_reduce(sums[0], phase);
    row_end();
#pragma unroll
    for (int chunk = 0; chunk < chunks; ++chunk) {
        const index start = start_of(chunk);
        if (!full && start >= columns) continue;
        acc g[width], z[width];
        unpack(g_held[chunk], g, true);
        unpack(y_held[chunk], z, true);
#pragma unroll
        for (int v = 0; v < width; ++v) g[v] = logs ? g[v] - exp_of(z[v]) * total : z[v] * (g[v] - total);
        if (row < rows) store_pack(y + at + start, packed<elem>(g));
    }
<% endif %>
}
