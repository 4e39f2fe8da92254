// y[r, c] = (x[r, c] - mean[r]) * rstd[r] * weight[c] + bias[c], for rows of `columns` elements.
// x, y (rows, columns); weight, bias (columns) or null; statistics (3, rows): the mean, what rounding took from it,
// and rstd = 1 / sqrt(variance + eps).
// Launch: grid divide_up(rows, block / threads) with `threads` a row: 1, a power of two up to 32, or block.
// Shared: one number a warp when threads > 32. A block owns block / threads rows.
// chunks > 0: a thread keeps chunks * width elements in registers and x is read once; chunks == 0: x is read again
// for each of the three passes, for rows of any length (on the host, where the cache keeps the row).
<% include "nn/row.cuh" %>
<% macro over_row() %>
<% if chunks %>
#pragma unroll
    for (int chunk = 0; chunk < << chunks >>; ++chunk) {
        const index start = (chunk * << threads >> + lane) * << width >>;
        if (start < columns) {
#pragma unroll
            for (int v = 0; v < << width >>; ++v) {
                const acc value = held[chunk * << width >> + v];
                << caller() | trim >>
            }
        }
    }
<% else %>
    for (index start = lane * << width >>; start + << width >> <= columns; start += << threads * width >>) {
#pragma unroll
        for (int v = 0; v < << width >>; ++v) {
            const acc value = cast<acc>(source[start + v]);
            << caller() | trim >>
        }
    }
    for (index start = columns / << width >> * << width >> + lane; start < columns; start += << threads >>) {
        const int v = 0;
        const acc value = cast<acc>(source[start]);
        << caller() | trim >>
    }
<% endif %>
<% endmacro %>
<% macro total(partial) %>
    for (int v = 1; v < << width >>; ++v) << partial >>[0] += << partial >>[v];
    << partial >>[0] = row_sum(<< partial >>[0]);
<% endmacro %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* x, const << elem >>* weight, const << elem >>* bias, << elem >>* y, << acc >>* statistics,
    << index >> rows, << index >> columns, << acc >> eps)
{
    using elem = << elem >>;
    using acc = << acc >>;
    using index = << index >>;
    const int lane = threadIdx.x % << threads >>;
    const index row = index(blockIdx.x) * << block // threads >> + index(threadIdx.x) / << threads >>;
    const bool live = row < rows;
<% if threads == 1 %>
    if (!live) return;
<% endif %>
    const elem* source = x + (long long)(live ? row : 0) * columns;
    elem* target = y + (long long)(live ? row : 0) * columns;
    const acc scale = acc(1) / acc(columns);

<% if chunks %>
    struct alignas(<< width >> * sizeof(elem)) Pack { elem part[<< width >>]; };
    acc held[<< chunks * width >>];
#pragma unroll
    for (int chunk = 0; chunk < << chunks >>; ++chunk) {
        const index start = (chunk * << threads >> + lane) * << width >>;
        if (start < columns) {
            const Pack pack = *reinterpret_cast<const Pack*>(source + start);
#pragma unroll
            for (int v = 0; v < << width >>; ++v) held[chunk * << width >> + v] = cast<acc>(pack.part[v]);
        }
    }
<% endif %>

    // The first element is subtracted before the sum, and the mean is kept as a sum of two numbers: a mean that is
    // large beside the spread then costs no digits.
    const acc shift = cast<acc>(source[0]);
    acc sum[<< width >>] = {};
<% call over_row() %>
sum[v] += value - shift;
<% endcall %>
<< total("sum") >>
    const acc mean = shift + sum[0] * scale;
    acc offset[<< width >>] = {}, square[<< width >>] = {};
<% call over_row() %>
offset[v] += value - mean, square[v] += (value - mean) * (value - mean);
<% endcall %>
<< total("offset") >>
<< total("square") >>
    const acc remainder = offset[0] * scale;
    const acc variance = square[0] * scale - remainder * remainder;
    const acc rstd = acc(1) / sqrt(maximum(variance, acc(0)) + eps);
    if (!live) return;
    if (lane == 0) {
        statistics[row] = mean;
        statistics[rows + row] = remainder;
        statistics[2 * rows + row] = rstd;
    }
<% if chunks %>
#pragma unroll
    for (int chunk = 0; chunk < << chunks >>; ++chunk) {
        const index start = (chunk * << threads >> + lane) * << width >>;
        if (start < columns) {
            Pack scaled, shifted, result;
            if (weight) scaled = *reinterpret_cast<const Pack*>(weight + start);
            if (bias) shifted = *reinterpret_cast<const Pack*>(bias + start);
#pragma unroll
            for (int v = 0; v < << width >>; ++v) {
                acc value = (held[chunk * << width >> + v] - mean - remainder) * rstd;
                if (weight) value *= cast<acc>(scaled.part[v]);
                if (bias) value += cast<acc>(shifted.part[v]);
                result.part[v] = cast<elem>(value);
            }
            *reinterpret_cast<Pack*>(target + start) = result;
        }
    }
<% else %>
    for (index column = lane; column < columns; column += << threads >>) {
        acc value = (cast<acc>(source[column]) - mean - remainder) * rstd;
        if (weight) value *= cast<acc>(weight[column]);
        if (bias) value += cast<acc>(bias[column]);
        target[column] = cast<elem>(value);
    }
<% endif %>
}
