// y[r, c] = (x[r, c] - mean[r]) * rstd[r] * weight[c] + bias[c], for rows of any length: x is read once for the statistics,
// by tiles of `tile` elements a thread, and once for y.
// x, y (rows, columns); weight, bias (columns), or not read; statistics (rows, 2): those of statistics.cuh, with
// rstd = 1 / sqrt(variance + eps). With a `residual` (rows, columns), x + residual is stored in total, and normalized.
// Launch: block / threads rows a block. Shared: the states of warps.
<% include "nn/layer_norm/statistics.cuh" %>
constexpr int tile = << tile >>;
constexpr bool biased = << biased | lower >>;
using RowState = double;
__device__ __forceinline__ RowState row_join(RowState a, RowState b) { return a + b; }
<% include "lib/row.cuh" %>

// Of `count` elements: the mean, less the row's first element, and the sum of squared differences from it.
struct RowMoments {
    double count, mean, squares;
};

// The moments of `size` more elements, `threads` apart, joined to `a`: Chan, Golub and LeVeque, "Updating formulae
// and a pairwise algorithm for computing sample variances", 1979. Within the tile sums are about its first element.
__device__ __forceinline__ RowMoments joined(RowMoments a, const T* elements, int size, acc origin) {
    acc held[tile], sum[width] = {}, square[width] = {};
    const acc shift = centered ? cast<acc>(elements[0]) : acc(0);
    const int whole = size / width * width;
    for (int i = 0; i < size; ++i) held[i] = cast<acc>(elements[i * threads]) - shift;
    for (int i = 0; i < whole && centered; i += width)
        for (int v = 0; v < width; ++v) sum[v] += held[i + v];
    for (int i = whole; i < size && centered; ++i) sum[0] += held[i];
    for (int v = 1; v < width; ++v) sum[0] += sum[v];
    const acc middle = sum[0] / acc(size);
    for (int i = 0; i < whole; i += width)
        for (int v = 0; v < width; ++v) square[v] += (held[i + v] - middle) * (held[i + v] - middle);
    for (int i = whole; i < size; ++i) square[0] += (held[i] - middle) * (held[i] - middle);
    for (int v = 1; v < width; ++v) square[0] += square[v];
    const double count = a.count + size;
    // The squares are about `middle`, which is the mean but for its rounding.
    const double mean = (double(shift) - double(origin)) + double(sum[0]) / size;
    const double distance = mean - a.mean, part = size / count;
    return {count, a.mean + distance * part, a.squares + square[0] + distance * distance * a.count * part};
}

extern "C" __global__ void __launch_bounds__(<< block >>, 1) << name >>(
    const T* x, << "const T* residual, " if residual >>const T* weight, const T* bias, acc eps, T* y, acc* statistics,
    << "T* total, " if residual >>index rows, index columns)
{
    const int lane = row_lane();
    const index row = index(row_team()) * row_groups + row_group();
    const bool live = row < rows;
    if (threads == 1 && !live) return;
    const long long at = (long long)(live ? row : 0) * columns;
    T* target = y + at;
    int phase = 0;
<% if residual %>
    // A thread reads the columns that it has written, and the first.
    for (index column = lane; column < columns && live; column += threads) total[at + column] = sum_of(x[at + column], residual[at + column]);
    const T* source = total + at;
    const acc shift = centered ? cast<acc>(sum_of(x[at], residual[at])) : acc(0);
<% else %>
    const T* source = x + at;
    const acc shift = centered ? cast<acc>(source[0]) : acc(0);
<% endif %>
    RowMoments own = {0.0, 0.0, 0.0};
    for (index start = lane; start < columns; start += tile * threads) {
        const index left = divide_up(columns - start, index(threads));
        own = joined(own, source + start, left < tile ? int(left) : tile, shift);
    }
    const double above = centered ? row_reduce(own.count * own.mean, phase) / columns : 0.0;
    const double apart = own.mean - above;
    const acc variance = acc(row_reduce(own.squares + own.count * apart * apart, phase) / columns);
    // The mean is a sum of two numbers: one that is large beside the spread then costs no digits.
    const acc mean = acc(double(shift) + above);
    const acc remainder = acc((double(shift) - double(mean)) + above);
    const acc rstd = acc(1) / sqrt(maximum(variance, acc(0)) + eps);
    row_end();
    if (!live) return;
    if (lane == 0) ((Statistics*)statistics)[row] = {acc(above), rstd};
    for (index column = lane; column < columns; column += threads) {
        acc value = (cast<acc>(source[column]) - mean - remainder) * rstd;
        if (weighted) value *= cast<acc>(weight[column]);
        if (biased) value += cast<acc>(bias[column]);
        target[column] = cast<T>(value);
    }
}
