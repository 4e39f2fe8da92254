// y as forward.cu makes it, for rows that threads hold in registers: x is read once.
// x, y (rows, columns); weight, bias (columns), or not read; statistics (rows, 2): those of statistics.cuh, with
// rstd = 1 / sqrt(variance + eps).
// `grouped`: a row is a group of channels, of `inner` neighbours each; weight and bias (groups * channels) are those of the
// channels, and rows take the groups in turn; statistics (rows, 3) begin with the row's first element.
// An `activation` follows. With a `residual` (rows, columns), x + residual is stored in total, and normalized.
// Launch: block / threads rows a block, or a row a cluster of blocks. A thread has `chunks` packs of `width` elements, and
// with `ahead` those of weight and bias, which it reads together with x. Shared: the states of warps.
<% include "nn/layer_norm/statistics.cuh" %>
<% include "prelude/packs.cuh" %>
<% include "prelude/issue_loads.cuh" %>
<% if activation %>
<% include "prelude/math.cuh" %>
<% include "lib/activation.cuh" %>
<% endif %>
constexpr int chunks = << chunks >>;
constexpr bool biased = << biased | lower >>, narrow = << half | lower >>, exact = << exact | lower >>;
constexpr bool ahead = << ahead | lower >> && (weighted || biased);
<% if grouped %>
// Whether a pack lies in one channel.
constexpr bool even = << even | lower >>;
<% endif %>
using Held = Pack<T, width>;
<% if half %>
using RowState = acc;
__device__ __forceinline__ RowState row_join(RowState a, RowState b) { return a + b; }
<% include "lib/row.cuh" %>
<% else %>
<% set sums = 2 %>
<% include "lib/row_sums.cuh" %>
<% endif %>

// Where the elements of a thread's chunk begin.
__device__ __forceinline__ index start_of(int chunk) { return (chunk * threads + row_lane()) * width; }
// each(v, value) for the thread's elements of a row, of which v is the place in their pack.
template <typename Each>
__device__ __forceinline__ void over_row(const Held (&held)[chunks], index columns, bool again, Each each) {
#pragma unroll
    for (int chunk = 0; chunk < chunks; ++chunk) {
        if (!exact && start_of(chunk) >= columns) continue;
        acc values[width];
        unpack(held[chunk], values, again);
#pragma unroll
        for (int v = 0; v < width; ++v) each(v, values[v]);
    }
}

<% if grouped %>
// The numbers of the channels of a pack that begins at `start` of its row.
__device__ __forceinline__ void unpack_channels(const T* channels, index start, index inner, acc (&to)[width]) {
    if (even) to[0] = cast<acc>(channels[start / inner]);
#pragma unroll
    for (int v = 0; v < width; ++v) to[v] = even ? to[0] : cast<acc>(channels[(start + v) / inner]);
}
<% endif %>

// The mean of a row is a sum of two numbers, so that one that is large beside the spread costs no digits.
struct RowMoments {
    acc mean, remainder, variance;
};
__device__ __forceinline__ acc mean_square(const Held (&held)[chunks], acc scale, index columns, int& phase) {
    acc square[width];
    clear(square);
    over_row(held, columns, false, [&](int v, acc value) { square[v] += value * value; });
    for (int v = 1; v < width; ++v) square[0] += square[v];
    return << "row_reduce(square[0], phase)" if half else "row_sums({acc(0), square[0]}, phase).of[1]" >> * scale;
}
<% if half %>
// Of elements less the first, with which the mean begins. They are kept as they lie in memory, in half the registers.
__device__ __forceinline__ RowMoments moments(const Held (&held)[chunks], acc first, acc scale, index columns, int& phase) {
    acc sum[width], square[width];
    clear(sum), clear(square);
    if (!centered) return {acc(0), acc(0), mean_square(held, scale, columns, phase)};
    over_row(held, columns, false, [&](int v, acc value) { sum[v] += value - first; });
    for (int v = 1; v < width; ++v) sum[0] += sum[v];
    const acc mean = row_reduce(sum[0], phase) * scale;
    over_row(held, columns, true, [&](int v, acc value) {
        const acc apart = value - first;
        square[v] += (apart - mean) * (apart - mean);
    });
    for (int v = 1; v < width; ++v) square[0] += square[v];
    return {first, mean, row_reduce(square[0], phase) * scale};
}
<% else %>
__device__ __forceinline__ RowMoments moments(const Held (&held)[chunks], acc first, acc scale, index columns, int& phase) {
    acc sum[width], square[width], offset[width];
    clear(sum), clear(square), clear(offset);
    if (!centered) return {acc(0), acc(0), mean_square(held, scale, columns, phase)};
    over_row(held, columns, false, [&](int v, acc value) { sum[v] += value - first; });
    for (int v = 1; v < width; ++v) sum[0] += sum[v];
    const acc mean = first + row_sums({sum[0], acc(0)}, phase).of[0] * scale;
    over_row(held, columns, false, [&](int v, acc value) {
        offset[v] += value - mean, square[v] += (value - mean) * (value - mean);
    });
    for (int v = 1; v < width; ++v) offset[0] += offset[v], square[0] += square[v];
    const RowState total = row_sums({offset[0], square[0]}, phase);
    const acc remainder = total.of[0] * scale;
    return {mean, remainder, total.of[1] * scale - remainder * remainder};
}
<% endif %>

extern "C" __global__ void<< " __cluster_dims__(%d, 1, 1)" % cluster if cluster > 1 >> __launch_bounds__(<< block >>, << resident >>) << name >>(
    const T* x, << "const T* residual, " if residual >>const T* weight, const T* bias, acc eps, T* y, acc* statistics,
    << "T* total, " if residual >>index rows, index columns<< ", index groups, index inner" if grouped >>)
{
    const int lane = row_lane();
    const index row = index(row_team()) * row_groups + row_group();
    const bool live = row < rows;
    const long long at = (long long)(live ? row : 0) * columns;
    const T* source = x + at;
    T* target = y + at;
    const acc scale = acc(1) / acc(columns);
    int phase = 0;
    Held held[chunks], weights[chunks], biases[chunks]<< ", others[chunks]" if residual >>;
#pragma unroll
    for (int chunk = 0; chunk < chunks; ++chunk) {
        const index start = start_of(chunk);
        if (!exact && start >= columns) continue;
        held[chunk] = load_pack<width>(source + start);
<% if residual %>
        others[chunk] = load_pack<width>(residual + at + start);
<% endif %>
        if (ahead && weighted) weights[chunk] = load_pack<width>(weight + start);
        if (ahead && biased) biases[chunk] = load_pack<width>(bias + start);
    }
    if (ahead) issue_loads();
<% if residual %>
#pragma unroll
    for (int chunk = 0; chunk < chunks; ++chunk) {
        const index start = start_of(chunk);
        if (!exact && start >= columns) continue;
        acc values[width], more[width];
        unpack(held[chunk], values), unpack(others[chunk], more);
#pragma unroll
        for (int v = 0; v < width; ++v) values[v] += more[v];
        held[chunk] = packed<T>(values);
        if (live) store_pack(total + at + start, held[chunk]);
    }
    const acc first = cast<acc>(sum_of(source[0], residual[at]));
<% else %>
    const acc first = cast<acc>(source[0]);
<% endif %>
    const RowMoments of = moments(held, first, scale, columns, phase);
    const acc rstd = acc(1) / sqrt(maximum(of.variance, acc(0)) + eps);
    row_end();
    if (!live) return;
    if (lane == 0) {
        const acc mean = narrow || !centered ? of.remainder : (of.mean - first) + of.remainder;
        << "statistics[row * 3] = first, statistics[row * 3 + 1] = mean, statistics[row * 3 + 2] = rstd" if grouped else "((Statistics*)statistics)[row] = {mean, rstd}" >>;
    }
    const acc above = -of.remainder * rstd;
    << "const index channel = row % groups * (columns / inner);" if grouped >>
#pragma unroll
    for (int chunk = 0; chunk < chunks; ++chunk) {
        const index start = start_of(chunk);
        if (!exact && start >= columns) continue;
        acc values[width], scaled[width], shifted[width];
        unpack(held[chunk], values);
<% if grouped %>
        if (weighted) unpack_channels(weight + channel, start, inner, scaled);
        if (biased) unpack_channels(bias + channel, start, inner, shifted);
<% else %>
        if (!ahead && weighted) weights[chunk] = load_pack<width>(weight + start);
        if (!ahead && biased) biases[chunk] = load_pack<width>(bias + start);
        if (weighted) unpack(weights[chunk], scaled);
        if (biased) unpack(biases[chunk], shifted);
<% endif %>
#pragma unroll
        for (int v = 0; v < width; ++v) {
            values[v] = centered ? (values[v] - of.mean) * rstd + above : values[v] * rstd;
            if (weighted) values[v] *= scaled[v];
            if (biased) values[v] += shifted[v];
<% if activation %>
            values[v] = activated(values[v]);
<% endif %>
        }
        store_pack(target + start, packed<T>(values));
    }
}
