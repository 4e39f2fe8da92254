// With n = (x - mean) * rstd and g = dy * weight:  dx = (g - mean(g) - n * mean(g * n)) * rstd,
// dweight = sum over rows of dy * n, dbias = sum over rows of dy. Source: the chain rule through mean and variance.
// x, dy, dx (rows, columns); weight (columns) or null; statistics (rows, 2) as layer_norm.cu writes them.
// dweight, dbias (slots, columns): sums over the rows of one slot, to be summed over the slots afterwards. With chunks
// either may be null; without, both are zeros at the start. A slot is a group of `threads` threads of the grid.
// Launch: any grid, of whole clusters; rows are dealt to the slots in turn. threads, cluster, width as in layer_norm.cu.
// chunks > 0: x and dy are read once; chunks == 0: once for the sums and once for dx.
// Shared: one number a warp, one a block. A block owns its slots; no atomics, so every run gives the same bits.
<% include "prelude/math.cuh" %>
<% include "prelude/reduce.cuh" %>
<% if chunks %>
<% include "prelude/packs.cuh" %>
<% endif %>
<# Of g and of g * n. #>
<% set sums = 2 %>
<% include "lib/row_sums.cuh" %>
<% include "nn/layer_norm/statistics.cuh" %>
<% macro add_up(column, v) -%>
const acc n = of.normal(cast<acc>(source[<< column >>]));
                    const acc given = cast<acc>(above[<< column >>]);
                    weight_sums[<< column >>] += given * n;
                    bias_sums[<< column >>] += given;
                    const acc g = weight ? given * cast<acc>(weight[<< column >>]) : given;
                    sum[<< v >>] += g;
                    product[<< v >>] += g * n;
<%- endmacro %>

extern "C" __global__ void<< " __cluster_dims__(%d, 1, 1)" % cluster if cluster > 1 >> __launch_bounds__(<< block >>) << name >>(
    const << elem >>* __restrict__ x, const << elem >>* __restrict__ dy, const << elem >>* __restrict__ weight,
    const << acc >>* __restrict__ statistics, << elem >>* __restrict__ dx, << acc >>* __restrict__ dweight,
    << acc >>* __restrict__ dbias, << index >> rows, << index >> columns)
{
    using elem = << elem >>;
    using acc = << acc >>;
    using index = << index >>;
    const int lane = row_lane();
    const long long slot = (long long)row_team() * row_groups + row_group();
    const acc scale = acc(1) / acc(columns);
    int phase = 0;
<% if chunks %>
    acc weight_sum[<< chunks * width >>] = {}, bias_sum[<< chunks * width >>] = {};
<% else %>
    acc* weight_sums = dweight + slot * columns;
    acc* bias_sums = dbias + slot * columns;
<% endif %>

    // Every thread of a block goes round equally often, since row_reduce needs them all.
    for (long long first = (long long)row_team() * row_groups; first < rows;
         first += (long long)row_teams() * row_groups) {
        const bool live = first + row_group() < rows;
        const long long row = live ? first + row_group() : 0;
        const elem* source = x + row * columns;
        const elem* above = dy + row * columns;
        elem* target = dx + row * columns;
        const RowStatistics of(source[0], statistics_of(statistics, row));

        acc sum[<< width >>] = {}, product[<< width >>] = {};
<% if chunks %>
        acc normal[<< chunks * width >>], gradient[<< chunks * width >>];
#pragma unroll
        for (int chunk = 0; chunk < << chunks >>; ++chunk) {
            const index start = (chunk * << threads >> + lane) * << width >>;
            if (start < columns && live) {
                acc x_held[<< width >>], dy_held[<< width >>], scaled[<< width >>];
                unpack(load_pack< << width >> >(source + start), x_held);
                unpack(load_pack< << width >> >(above + start), dy_held);
                if (weight) unpack(load_pack< << width >> >(weight + start), scaled);
#pragma unroll
                for (int v = 0; v < << width >>; ++v) {
                    const int i = chunk * << width >> + v;
                    const acc n = of.normal(x_held[v]);
                    acc g = dy_held[v];
                    weight_sum[i] += g * n;
                    bias_sum[i] += g;
                    if (weight) g *= scaled[v];
                    normal[i] = n;
                    gradient[i] = g;
                    sum[v] += g;
                    product[v] += g * n;
                }
            }
        }
<% else %>
        if (live) {
            const index whole = columns / << width >> * << width >>;
            for (index start = lane * << width >>; start < whole; start += << threads * width >>) {
                for (int v = 0; v < << width >>; ++v) {
                    << add_up("start + v", "v") >>
                }
            }
            for (index column = whole + lane; column < columns; column += << threads >>) {
                << add_up("column", "0") >>
            }
        }
<% endif %>
        for (int v = 1; v < << width >>; ++v) sum[0] += sum[v], product[0] += product[v];
        const RowState total = row_sums({sum[0], product[0]}, phase);
        const acc gradient_mean = total.of[0] * scale, product_mean = total.of[1] * scale;

<% if chunks %>
#pragma unroll
        for (int chunk = 0; chunk < << chunks >>; ++chunk) {
            const index start = (chunk * << threads >> + lane) * << width >>;
            if (start < columns && live) {
                acc made[<< width >>];
#pragma unroll
                for (int v = 0; v < << width >>; ++v) {
                    const int i = chunk * << width >> + v;
                    made[v] = (gradient[i] - gradient_mean - normal[i] * product_mean) * of.rstd;
                }
                store_pack(target + start, packed<elem>(made));
            }
        }
<% else %>
        for (index column = lane; column < columns && live; column += << threads >>) {
            const acc n = of.normal(cast<acc>(source[column]));
            const acc g = cast<acc>(above[column]) * (weight ? cast<acc>(weight[column]) : acc(1));
            target[column] = cast<elem>((g - gradient_mean - n * product_mean) * of.rstd);
        }
<% endif %>
    }
<% if chunks %>
#pragma unroll
    for (int chunk = 0; chunk < << chunks >>; ++chunk) {
#pragma unroll
        for (int v = 0; v < << width >>; ++v) {
            const index column = (chunk * << threads >> + lane) * << width >> + v;
            if (column < columns) {
                if (dweight) dweight[slot * columns + column] = weight_sum[chunk * << width >> + v];
                if (dbias) dbias[slot * columns + column] = bias_sum[chunk * << width >> + v];
            }
        }
    }
<% endif %>
    row_end();
}
