// dx of layer_norm, and what dweight and dbias are summed up from, as backward.cu makes them, for rows that threads hold
// in registers: x and dy are read once, of any alignment where `width` is 1.
// x, dy, dx (rows, columns); weight (columns) or null; statistics (rows, 2) as forward.cu writes them. dweight, dbias
// (slots, columns) or null: sums over the rows of one slot, to be summed over the slots afterwards.
// Launch: any grid, of whole clusters; a slot is a group of `threads` threads of it, and rows are dealt to the slots in
// turn. With a `residual`, `plus` (rows, columns) is added to dx. A thread has `chunks` packs of `width` elements of each array. Shared: the states of warps. No atomics.
<% include "nn/layer_norm/statistics.cuh" %>
<% include "prelude/packs.cuh" %>
constexpr int chunks = << chunks >>;
<# Of g and of g * n. #>
<% set sums = 2 %>
<% include "lib/row_sums.cuh" %>

extern "C" __global__ void<< " __cluster_dims__(%d, 1, 1)" % cluster if cluster > 1 >> __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ x, const T* __restrict__ dy, const T* __restrict__ weight,
    const acc* __restrict__ statistics, << "const T* __restrict__ plus, " if residual >>T* __restrict__ dx, acc* __restrict__ dweight,
    acc* __restrict__ dbias, index rows, index columns)
{
    const int lane = row_lane();
    const long long slot = (long long)row_team() * row_groups + row_group();
    const acc scale = acc(1) / acc(columns);
    int phase = 0;
    acc weight_sum[chunks][width] = {}, bias_sum[chunks][width] = {};

    // Every thread of a block goes round equally often, since row_sums needs them all.
    for (long long first = (long long)row_team() * row_groups; first < rows;
         first += (long long)row_teams() * row_groups) {
        const bool live = first + row_group() < rows;
        const long long row = live ? first + row_group() : 0;
        const T* source = x + row * columns;
        const T* above = dy + row * columns;
        T* target = dx + row * columns;
        const RowStatistics of(source[0], statistics_of(statistics, row));
        acc sum[width] = {}, product[width] = {}, ns[chunks][width], gs[chunks][width];
#pragma unroll
        for (int chunk = 0; chunk < chunks; ++chunk) {
            const index start = (chunk * threads + lane) * width;
            if (start >= columns || !live) continue;
            acc xs[width], dys[width], scaled[width];
            unpack(load_pack<width>(source + start), xs);
            unpack(load_pack<width>(above + start), dys);
            if (weight) unpack(load_pack<width>(weight + start), scaled);
#pragma unroll
            for (int v = 0; v < width; ++v) {
                const acc n = of.normal(xs[v]);
                acc g = dys[v];
                weight_sum[chunk][v] += g * n;
                bias_sum[chunk][v] += g;
                if (weight) g *= scaled[v];
                ns[chunk][v] = n, gs[chunk][v] = g;
                sum[v] += g;
                product[v] += g * n;
            }
        }
        for (int v = 1; v < width; ++v) sum[0] += sum[v], product[0] += product[v];
        const RowState total = row_sums({centered ? sum[0] : acc(0), product[0]}, phase);
        const acc gradient_mean = total.of[0] * scale, product_mean = total.of[1] * scale;
#pragma unroll
        for (int chunk = 0; chunk < chunks; ++chunk) {
            const index start = (chunk * threads + lane) * width;
            if (start >= columns || !live) continue;
            acc result[width]<< ", more[width]" if residual >>;
            << "unpack(load_pack<width>(plus + row * columns + start), more);" if residual >>
#pragma unroll
            for (int v = 0; v < width; ++v)
                result[v] = (gs[chunk][v] - gradient_mean - ns[chunk][v] * product_mean) * of.rstd<< " + more[v]" if residual >>;
            store_pack(target + start, packed<T>(result));
        }
    }
#pragma unroll
    for (int chunk = 0; chunk < chunks; ++chunk) {
#pragma unroll
        for (int v = 0; v < width; ++v) {
            const index column = (chunk * threads + lane) * width + v;
            if (column >= columns) continue;
            if (dweight) dweight[slot * columns + column] = weight_sum[chunk][v];
            if (dbias) dbias[slot * columns + column] = bias_sum[chunk][v];
        }
    }
    row_end();
}
