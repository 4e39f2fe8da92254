// dx of layer_norm.cu as in layer_norm_backward.cu, for rows that threads hold in registers: x and dy are read once.
// x, dy, dx (rows, columns); weight (columns)<< "" if weighted else ", not read" >>; statistics (rows, 2) as layer_norm.cu writes them.
// Launch: block / threads rows a block, or a row a cluster of blocks. A thread keeps << chunks >> pack(s) of << width >> elements of each
// array, aligned, in registers for << resident >> block(s) a multiprocessor. Shared: the states of warps.
<% include "prelude/math.cuh" %>
<% include "prelude/reduce.cuh" %>
<% include "prelude/packs.cuh" %>
<% from "lib/chunks.cuh" import each_chunk with context %>
<% from "nn/layer_norm/derivative.cuh" import numbers, derivative with context %>
<% include "nn/layer_norm/derivative.cuh" %>

extern "C" __global__ void<< " __cluster_dims__(%d, 1, 1)" % cluster if cluster > 1 >> __launch_bounds__(<< block >>, << resident >>) << name >>(
    const elem* x, const elem* dy, const elem* weight,
    const acc* statistics, elem* dx, << index >> rows, << index >> columns)
{
    const acc scale = acc(1) / acc(columns);
    int phase = 0;
    const index own = index(row_team()) * groups + row_group();
    // Beyond the last row its work is done again, and not stored.
    const index row = minimum(own, rows - 1);
    const index at = row * columns;
    Held xs_held[chunks], gs_held[chunks];
<% call each_chunk() %>
xs_held[chunk] = load_pack<width>(x + at + start);
        gs_held[chunk] = load_pack<width>(dy + at + start);
<% endcall %>
    const RowStatistics of(x[row * columns], statistics_of(statistics, row));
    acc sum[width], product[width];
    clear(sum), clear(product);
<% set weight_at = "load_pack<width>(weight + start)" %>
<% call each_chunk() %>
<< numbers("xs_held[chunk]", "gs_held[chunk]", "of", weight_at) >>
#pragma unroll
        for (int v = 0; v < width; ++v) sum[v] += g[v], product[v] += g[v] * n[v];
<% endcall %>
    for (int v = 1; v < width; ++v) sum[0] += sum[v], product[0] += product[v];
    const RowState total = row_sums({sum[0], product[0]}, phase);
    const acc gradient_mean = total.of[0] * scale, product_mean = total.of[1] * scale;
    row_end();
    if (own >= rows) return;
<% call each_chunk() %>
<< numbers("xs_held[chunk]", "gs_held[chunk]", "of", weight_at, again=true) >>
<< derivative("n[v]", "g[v]", "of", "gradient_mean", "product_mean") >>
        store_pack(dx + at + start, packed<elem>(made));
<% endcall %>
}
