// y[r, c] = (x[r, c] - mean[r]) * rstd[r] * weight[c] + bias[c], for rows of `columns` elements.
// x, y (rows, columns); weight, bias (columns)<< "" if weighted and biased else ", where there is one" >>; statistics (rows, 2): those of layer_norm_statistics.cuh,
// with rstd = 1 / sqrt(variance + eps).
// Launch: block / threads rows a block, or a row a cluster of blocks. Shared: the states of warps, and one of a block.
// chunks > 0: a thread keeps chunks * width elements in registers and x is read once. chunks == 0: x is read once for
// the statistics, by tiles of << tile >> elements a thread, and once for y, for rows that no registers hold.
<% set early = ahead and (weighted or biased) %>
<% if early %>
// What there is of weight and bias is read with x, and kept until it is needed.
<% endif %>
<% include "prelude/math.cuh" %>
<% include "prelude/reduce.cuh" %>
<% include "prelude/packs.cuh" %>
<% if early %>
<% include "prelude/issue_loads.cuh" %>
<% endif %>
<% include "nn/layer_norm/statistics.cuh" %>
<% if chunks and not half %>
<% set sums = 2 %>
<% include "lib/row_sums.cuh" %>
<% else %>
using RowState = << acc if chunks else "double" >>;
__device__ __forceinline__ RowState row_join(RowState a, RowState b) { return a + b; }
<% include "lib/row.cuh" %>
<% endif %>
<% from "lib/chunks.cuh" import each_chunk with context %>
<# Of the elements of a row, of a half type less its first. Those are kept as they lie in memory, in half the registers. #>
<% macro over_row(again="false") %>
<% set body = caller() | trim %>
<% call each_chunk() %>
acc values[<< width >>];
        unpack(held[chunk], values, << again >>);
#pragma unroll
        for (int v = 0; v < << width >>; ++v) {
            const acc value = values[v]<< " - shift" if half >>;
            << body >>
        }
<% endcall %>
<% endmacro %>
<% if not chunks %>

// Of `count` elements: the mean, less the row's first element, and the sum of squared differences from it.
struct RowMoments {
    double count, mean, squares;
};

// The moments of `size` more elements, `<< threads >>` apart, joined to `a`: Chan, Golub and LeVeque, "Updating formulae
// and a pairwise algorithm for computing sample variances", 1979. Within the tile sums are about its first element.
__device__ __forceinline__ RowMoments joined(RowMoments a, const << elem >>* tile, int size, << acc >> origin) {
    << acc >> held[<< tile >>], sum[<< width >>] = {}, square[<< width >>] = {};
    const << acc >> shift = cast< << acc >> >(tile[0]);
    const int whole = size / << width >> * << width >>;
    for (int i = 0; i < size; ++i) held[i] = cast< << acc >> >(tile[i * << threads >>]) - shift;
    for (int i = 0; i < whole; i += << width >>)
        for (int v = 0; v < << width >>; ++v) sum[v] += held[i + v];
    for (int i = whole; i < size; ++i) sum[0] += held[i];
    for (int v = 1; v < << width >>; ++v) sum[0] += sum[v];
    const << acc >> middle = sum[0] / << acc >>(size);
    for (int i = 0; i < whole; i += << width >>)
        for (int v = 0; v < << width >>; ++v) square[v] += (held[i + v] - middle) * (held[i + v] - middle);
    for (int i = whole; i < size; ++i) square[0] += (held[i] - middle) * (held[i] - middle);
    for (int v = 1; v < << width >>; ++v) square[0] += square[v];
    const double count = a.count + size;
    // The squares are about `middle`, which is the mean but for its rounding.
    const double mean = (double(shift) - double(origin)) + double(sum[0]) / size;
    const double distance = mean - a.mean, part = size / count;
    return {count, a.mean + distance * part, a.squares + square[0] + distance * distance * a.count * part};
}
<% endif %>

extern "C" __global__ void<< " __cluster_dims__(%d, 1, 1)" % cluster if cluster > 1 >> __launch_bounds__(<< block >>, << resident >>) << name >>(
    const << elem >>* x, const << elem >>* weight, const << elem >>* bias, << elem >>* y, << acc >>* statistics,
    << index >> rows, << index >> columns, << acc >> eps)
{
    using elem = << elem >>;
    using acc = << acc >>;
    using index = << index >>;
    const int lane = row_lane();
    const index row = index(row_team()) * row_groups + row_group();
    const bool live = row < rows;
<% if threads == 1 %>
    if (!live) return;
<% endif %>
    const elem* source = x + (long long)(live ? row : 0) * columns;
    elem* target = y + (long long)(live ? row : 0) * columns;
    int phase = 0;

<% if chunks %>
    const acc scale = acc(1) / acc(columns);
    Pack<elem, << width >>> held[<< chunks >>];
<% if early %>
<% for name in (["weights"] if weighted else []) + (["biases"] if biased else []) %>
    Pack<elem, << width >>> << name >>[<< chunks >>];
<% endfor %>
<% endif %>
<% call each_chunk() %>
held[chunk] = load_pack< << width >> >(source + start);
        << "weights[chunk] = load_pack<%d>(weight + start);" % width if early and weighted >>
        << "biases[chunk] = load_pack<%d>(bias + start);" % width if early and biased >>
<% endcall %>
<% if early %>
    issue_loads();
<% endif %>
<% endif %>

    const acc shift = cast<acc>(source[0]);
<% if chunks %>
    acc sum[<< width >>], square[<< width >>]<< ", offset[%d]" % width if not half >>;
    clear(sum), clear(square)<< ", clear(offset)" if not half >>;
<% call over_row() %>
sum[v] += value<< " - shift" if not half >>;
<% endcall %>
    for (int v = 1; v < << width >>; ++v) sum[0] += sum[v];
<% if half %>
    // Less the first element, as the values are.
    const acc mean = row_reduce(sum[0], phase) * scale;
<% call over_row("true") %>
square[v] += (value - mean) * (value - mean);
<% endcall %>
    for (int v = 1; v < << width >>; ++v) square[0] += square[v];
    const acc variance = row_reduce(square[0], phase) * scale;
<% else %>
    // The mean is a sum of two numbers: one that is large beside the spread then costs no digits.
    const acc mean = shift + row_sums({sum[0], acc(0)}, phase).of[0] * scale;
<% call over_row() %>
offset[v] += value - mean, square[v] += (value - mean) * (value - mean);
<% endcall %>
    for (int v = 1; v < << width >>; ++v) offset[0] += offset[v], square[0] += square[v];
    const RowState total = row_sums({offset[0], square[0]}, phase);
    const acc remainder = total.of[0] * scale;
    const acc variance = total.of[1] * scale - remainder * remainder;
<% endif %>
<% else %>
    RowMoments own = {0.0, 0.0, 0.0};
    for (index start = lane; start < columns; start += << tile * threads >>) {
        const index left = divide_up(columns - start, index(<< threads >>));
        own = joined(own, source + start, left < << tile >> ? int(left) : << tile >>, shift);
    }
    const double above = row_reduce(own.count * own.mean, phase) / columns;
    const double apart = own.mean - above;
    const acc variance = acc(row_reduce(own.squares + own.count * apart * apart, phase) / columns);
    const acc mean = acc(double(shift) + above);
    const acc remainder = acc((double(shift) - double(mean)) + above);
<% endif %>
    const acc rstd = acc(1) / sqrt(maximum(variance, acc(0)) + eps);
    row_end();
    if (!live) return;
    if (lane == 0) ((Statistics*)statistics)[row] = {<< "acc(above)" if not chunks else "mean" if half else "(mean - shift) + remainder" >>, rstd};
<% if chunks %>
    const acc above = << "-mean" if half else "-remainder" >> * rstd;
<% call each_chunk() %>
acc values[<< width >>]<< ", scaled[%d]" % width if weighted >><< ", shifted[%d]" % width if biased >>;
        unpack(held[chunk], values);
        << "unpack(%s, scaled);" % ("weights[chunk]" if early else "load_pack<%d>(weight + start)" % width) if weighted >>
        << "unpack(%s, shifted);" % ("biases[chunk]" if early else "load_pack<%d>(bias + start)" % width) if biased >>
#pragma unroll
        for (int v = 0; v < << width >>; ++v) {
            acc& value = values[v];
            value = (value - << "shift" if half else "mean" >>) * rstd + above;
            << "value *= scaled[v];" if weighted >>
            << "value += shifted[v];" if biased >>
        }
        store_pack(target + start, packed<elem>(values));
<% endcall %>
<% else %>
    for (index column = lane; column < columns; column += << threads >>) {
        acc value = (cast<acc>(source[column]) - mean - remainder) * rstd;
        << "value *= cast<acc>(weight[column]);" if weighted >>
        << "value += cast<acc>(bias[column]);" if biased >>
        target[column] = cast<elem>(value);
    }
<% endif %>
}
