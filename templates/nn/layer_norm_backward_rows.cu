// The derivatives of layer_norm.cu as in layer_norm_backward.cu, for rows that threads hold in registers: x and dy are read
// once<< ", the next row while this one is worked on" if sums >>.
// x, dy, dx (rows, columns); weight (columns)<< "" if weighted else ", not read" >>; statistics (3, rows) as layer_norm.cu writes them.
// dweight, dbias (slots, columns) or null: sums over the rows of one block or cluster, to be summed over them afterwards.
// Launch: any grid, of whole clusters; rows are dealt to their groups of << threads >> thread(s) in turn. A thread keeps << chunks >> pack(s) of
// << width >> elements of each array, aligned. Shared: the states of warps, a row's sums of each group. No atomics.
<% include "prelude/math.cuh" %>
<% include "prelude/reduce.cuh" %>
<% include "nn/packs.cuh" %>
using elem = << elem >>;
using acc = << acc >>;
using index = << index >>;
// The sums of g = dy * weight and of g * n, n = (x - mean) * rstd.
struct RowState {
    acc sum, product;
};
__device__ __forceinline__ RowState row_join(RowState a, RowState b) { return {a.sum + b.sum, a.product + b.product}; }
<% include "nn/row.cuh" %>
using Held = Pack<elem, << width >>>;
<% macro each(loaded="") %>
#pragma unroll
        for (int chunk = 0; chunk < << chunks >>; ++chunk) {
<% if not exact %>
            if ((chunk * << threads >> + lane) * << width >> >= columns) continue;
<% endif %>
<% if weighted %>
            const Held scaled = load_pack< << width >> >(weight + (chunk * << threads >> + lane) * << width >>);
<% endif %>
#pragma unroll
            for (int v = 0; v < << width >>; ++v) {
                const acc n = << "cast<acc>(xs[chunk].at[v]) * rstd + shift" if half else "(cast<acc>(xs[chunk].at[v]) - mean - remainder) * rstd" >>;
                const acc given = cast<acc>(gs[chunk].at[v]);
                const acc g = << "given * cast<acc>(scaled.at[v])" if weighted else "given" >>;
                << caller() | trim >>
            }
        }
<% endmacro %>

// A row's packs of this thread.
__device__ __forceinline__ void read(Held* held, const elem* row, int lane, index columns) {
#pragma unroll
    for (int chunk = 0; chunk < << chunks >>; ++chunk)
        << "if ((chunk * %d + lane) * %d < columns) " % (threads, width) if not exact >>held[chunk] = load_pack< << width >> >(row + (chunk * << threads >> + lane) * << width >>);
}

__device__ __forceinline__ void read_own(acc* own, const acc* statistics, index rows, index row) {
    for (int k = 0; k < 3; ++k) own[k] = statistics[k * (long long)rows + row];
}

extern "C" __global__ void<< " __cluster_dims__(%d, 1, 1)" % cluster if cluster > 1 >> __launch_bounds__(<< block >>, << resident >>) << name >>(
    const elem* __restrict__ x, const elem* __restrict__ dy, const elem* __restrict__ weight,
    const acc* __restrict__ statistics, elem* __restrict__ dx, acc* __restrict__ dweight, acc* __restrict__ dbias,
    << index >> rows, << index >> columns)
{
    const int lane = row_lane();
    const acc scale = acc(1) / acc(columns);
    int phase = 0;
    const index step = index(row_teams()) * row_groups;
    index row = index(row_team()) * row_groups + row_group();
    Held xs[<< chunks >>], gs[<< chunks >>];
<% if sums %>
    Held next_xs[<< chunks >>], next_gs[<< chunks >>];
    acc weight_sum[<< chunks * width >>] = {}, bias_sum[<< chunks * width >>] = {};
<% endif %>
    // The statistics of the row that is worked on: read ahead where that leaves enough registers.
    acc own[3] = {};
    if (row < rows) {
        read(xs, x + row * columns, lane, columns);
        read(gs, dy + row * columns, lane, columns);
        << "read_own(own, statistics, rows, row);" if half >>
    }
    // Every thread of a block goes round equally often, since row_reduce needs them all.
    for (index first = index(row_team()) * row_groups; first < rows; first += step, row += step) {
        const bool live = row < rows;
        << "if (live) read_own(own, statistics, rows, row);" if not half >>
        const acc mean = own[0], remainder = own[1], rstd = own[2];
<% if half %>
        // A half type has no digits that this would take.
        const acc shift = -(mean + remainder) * rstd;
<% endif %>
<% if sums %>
        if (row + step < rows) {
            read(next_xs, x + (row + step) * columns, lane, columns);
            read(next_gs, dy + (row + step) * columns, lane, columns);
            << "read_own(own, statistics, rows, row + step);" if half >>
        }
<% endif %>
        acc sum[<< width >>] = {}, product[<< width >>] = {};
        if (live) {
<% call each() %>
sum[v] += g;
                product[v] += g * n;
<% if sums %>
                weight_sum[chunk * << width >> + v] += given * n;
                bias_sum[chunk * << width >> + v] += given;
<% endif %>
<% endcall %>
        }
        for (int v = 1; v < << width >>; ++v) sum[0] += sum[v], product[0] += product[v];
        const RowState total = row_reduce({sum[0], product[0]}, phase);
        const acc gradient_mean = total.sum * scale, product_mean = total.product * scale;
<% if half %>
        const acc by_n = -product_mean * rstd, offset = -gradient_mean * rstd;
<% endif %>
        if (live) {
<% call each() %>
gs[chunk].at[v] = cast<elem>(<< "g * rstd + (n * by_n + offset)" if half else "(g - gradient_mean - n * product_mean) * rstd" >>);
<% endcall %>
#pragma unroll
            for (int chunk = 0; chunk < << chunks >>; ++chunk)
                << "if ((chunk * %d + lane) * %d < columns) " % (threads, width) if not exact >>store_pack(dx + row * columns + (chunk * << threads >> + lane) * << width >>, gs[chunk]);
        }
<% if sums %>
#pragma unroll
        for (int chunk = 0; chunk < << chunks >>; ++chunk) xs[chunk] = next_xs[chunk], gs[chunk] = next_gs[chunk];
<% else %>
        if (row + step < rows) {
            read(xs, x + (row + step) * columns, lane, columns);
            read(gs, dy + (row + step) * columns, lane, columns);
            << "read_own(own, statistics, rows, row + step);" if half >>
        }
<% endif %>
    }
<% if sums %>
<% set groups = [block // threads, 1] | max %>
<% if groups > 1 %>
    // The groups of the block together, in order.
    __shared__ acc of_group[2][<< block * width >>];
<% endif %>
    const long long slot = (long long)row_team() * columns;
#pragma unroll
    for (int chunk = 0; chunk < << chunks >>; ++chunk) {
        const index start = (chunk * << threads >> + lane) * << width >>;
<% if groups > 1 %>
        __syncthreads();
#pragma unroll
        for (int v = 0; v < << width >>; ++v) {
            of_group[0][v * << block >> + threadIdx.x] = weight_sum[chunk * << width >> + v];
            of_group[1][v * << block >> + threadIdx.x] = bias_sum[chunk * << width >> + v];
        }
        __syncthreads();
        if (row_group() > 0) continue;
<% endif %>
        if (start >= columns) continue;
#pragma unroll
        for (int v = 0; v < << width >>; ++v) {
<% if groups > 1 %>
            acc by_weight = 0, by_bias = 0;
            for (int group = 0; group < << groups >>; ++group) {
                by_weight += of_group[0][v * << block >> + group * << threads >> + lane];
                by_bias += of_group[1][v * << block >> + group * << threads >> + lane];
            }
<% else %>
            const acc by_weight = weight_sum[chunk * << width >> + v], by_bias = bias_sum[chunk * << width >> + v];
<% endif %>
            if (dweight) dweight[slot + start + v] = by_weight;
            if (dbias) dbias[slot + start + v] = by_bias;
        }
    }
<% endif %>
    row_end();
}
