// dx of layer_norm as backward.cu makes it, for rows that threads hold in registers: x and dy are read once.
// x, dy, dx (rows, columns); weight (columns), or not read; statistics (rows, 2) as forward.cu writes them. With a
// `residual`, `plus` (rows, columns) is added to dx.
// Launch: block / threads rows a block, or a row a cluster of blocks. A thread keeps `chunks` packs of `width` elements of
// each array, aligned, in registers. Shared: the states of warps.
<% include "nn/layer_norm/derivative.cuh" %>

extern "C" __global__ void<< " __cluster_dims__(%d, 1, 1)" % cluster if cluster > 1 >> __launch_bounds__(<< block >>, << resident >>) << name >>(
    const T* x, const T* dy, const T* weight, const acc* statistics, << "const T* plus, " if residual >>T* dx, index rows, index columns)
{
    const acc scale = acc(1) / acc(columns);
    int phase = 0;
    const index own = index(row_team()) * groups + row_group();
    // Beyond the last row its work is done again, and not stored.
    const index row = minimum(own, rows - 1);
    const index at = row * columns;
    Held xs[chunks], dys[chunks]<< ", pluses[chunks]" if residual >>;
#pragma unroll
    for (int chunk = 0; chunk < chunks; ++chunk) {
        const index start = start_of(chunk);
        if (!exact && start >= columns) continue;
        xs[chunk] = load_pack<width>(x + at + start);
        dys[chunk] = load_pack<width>(dy + at + start);
<% if residual %>
        pluses[chunk] = load_pack<width>(plus + at + start);
<% endif %>
    }
    const RowStatistics of(x[row * columns], statistics_of(statistics, row));
    acc scaled[width], sum[width], product[width];
    clear(sum), clear(product);
#pragma unroll
    for (int chunk = 0; chunk < chunks; ++chunk) {
        const index start = start_of(chunk);
        if (!exact && start >= columns) continue;
        if (weighted) unpack(load_pack<width>(weight + start), scaled);
        const Numbers here(xs[chunk], dys[chunk], of, scaled);
#pragma unroll
        for (int v = 0; v < width; ++v) sum[v] += here.g[v], product[v] += here.g[v] * here.n[v];
    }
    for (int v = 1; v < width; ++v) sum[0] += sum[v], product[0] += product[v];
    const RowState total = row_sums({centered ? sum[0] : acc(0), product[0]}, phase);
    const acc gradient_mean = total.of[0] * scale, product_mean = total.of[1] * scale;
    row_end();
    if (own >= rows) return;
#pragma unroll
    for (int chunk = 0; chunk < chunks; ++chunk) {
        const index start = start_of(chunk);
        if (!exact && start >= columns) continue;
        if (weighted) unpack(load_pack<width>(weight + start), scaled);
        const Numbers here(xs[chunk], dys[chunk], of, scaled, true);
        acc result[width]<< ", more[width]" if residual >>;
        << "unpack(pluses[chunk], more);" if residual >>
#pragma unroll
        for (int v = 0; v < width; ++v) result[v] = derivative(here.n[v], here.g[v], of, gradient_mean, product_mean)<< " + more[v]" if residual >>;
        store_pack(dx + at + start, packed<T>(result));
    }
}
