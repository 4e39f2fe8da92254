// y[p, d, i, j] = the sum over (a, b, c) of weights_d[d, a] * weights_h[i, b] * weights_w[j, c] *
// x[p, starts_d[d] + a, starts_h[i] + b, starts_w[j] + c]: interpolation, averages over windows, and their transposes.
// x (planes, depth, height, width), y (planes, out_depth, out_height, out_width), contiguous; of each axis starts (out), in
// ascending order, and weights (out, taps), of which one that is 0 takes nothing, not even NaN. Along the width, if `walks`, the
// starts are of groups of `items` columns, with weights (groups * items, taps) for the columns of x from there on.
// Launch: a thread owns `items` neighbouring columns of a band of `rows` rows, << block >> threads a block. If `walks`, it goes
// down the rows of x and sums each along the width once; the sums of the last `taps_h` of them are in its registers.
// Shared: none. No atomics.
<% include "prelude/packs.cuh" %>
using T = << elem >>;
using acc = << acc >>;
using index = << index >>;
using size = unsigned << index >>;
constexpr int items = << items >>, taps_d = << taps[0] >>, taps_h = << taps[1] >>, taps_w = << taps[2] >>;
// Whether there is no first axis.
constexpr bool flat = << flat | lower >>;

__device__ __forceinline__ void add(acc& sum, acc weight, acc value, bool sure = false) {
    if (sure || weight != acc(0)) sum += weight * value;
}
<% if walks %>
// Columns of x are read `wide` together. `inside`: none that is read is outside of x.
constexpr int wide = << wide >>;
constexpr bool inside = << inside | lower >>;
// Whether the weight of a column for an item is not 0 in some group, and in all of them in which the column is inside of x.
<% for name, masks in patterns.items() %>
__device__ __forceinline__ constexpr bool << name >>(int item, int column) {
    return (<% for mask in masks %>item == << loop.index0 >> ? << mask >>ull : <% endfor %>0ull) >> column & 1;
}
<% endfor %>
// What a row of x has for a thread's columns; zeros outside.
struct Columns {
    Pack<T, wide> of[taps_w / wide];

    __device__ __forceinline__ void load(const T* row, index first, size width) {
#pragma unroll
        for (int i = 0; i < taps_w / wide; ++i) {
            if (inside || size(first + i * wide) < width) of[i] = load_pack<wide>(row + (first + i * wide));
        }
    }
    __device__ __forceinline__ void sum(acc (&sums)[items], const acc (&weights)[items][taps_w]) const {
        acc values[taps_w];
#pragma unroll
        for (int c = 0; c < taps_w; ++c) values[c] = cast<acc>(of[c / wide].at[c % wide]);
#pragma unroll
        for (int item = 0; item < items; ++item) {
            sums[item] = acc(0);
#pragma unroll
            for (int c = 0; c < taps_w; ++c) {
                if (used(item, c)) add(sums[item], weights[item][c], values[c], sure(item, c));
            }
        }
    }
};
// A thread's columns of x and how they are weighted.
struct Source {
    const T* plane;
    const acc* weights_d;
    acc weights[items][taps_w];
    index slice, width, first;
    Columns next = {};  // of one row, if there is no first axis: it is asked for before it is needed
    index next_row = -1;

    __device__ __forceinline__ void ask(index row) {
        next.load(plane + row * width, first, width);
        next_row = row;
    }
    __device__ __forceinline__ void sum(acc (&sums)[items], index row) {
        if (flat) {
            if (next_row != row) ask(row);
            return next.sum(sums, weights);
        }
#pragma unroll
        for (int item = 0; item < items; ++item) sums[item] = acc(0);
#pragma unroll
        for (int a = 0; a < taps_d; ++a) {
            acc part[items];
            Columns own = {};
            own.load(plane + a * slice + row * width, first, width);
            own.sum(part, weights);
#pragma unroll
            for (int item = 0; item < items; ++item) add(sums[item], weights_d[a], part[item]);
        }
    }
};
<% endif %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ x, T* __restrict__ y, const int* __restrict__ starts_d, const acc* __restrict__ weights_d,
    const int* __restrict__ starts_h, const acc* __restrict__ weights_h, const int* __restrict__ starts_w,
    const acc* __restrict__ weights_w, index planes, index depth, index height, index width,
    index out_depth, index out_height, index out_width, index rows)
{
    const size groups = out_width / items, bands = divide_up(out_height, rows);
    const size thread = size(blockIdx.x) * << block >> + size(threadIdx.x), line = thread / groups, slab = line / bands;
    if (slab >= size(planes) * size(out_depth)) return;
    const index group = thread - line * groups, top = (line - slab * bands) * rows;
    const index plane = slab / size(out_depth), d = slab - plane * size(out_depth);
    const T* from = x + (plane * depth + starts_d[d]) * height * width;
    T* to = y + (index(slab) * out_height + top) * out_width + group * items;
    const index end = minimum(rows, out_height - top);
    const int* of_rows = starts_h + top;
    const acc* down = weights_h + top * taps_h;
<% if walks %>
    Source source = {from, weights_d + d * taps_d, {}, height * width, width, starts_w[group]};
#pragma unroll
    for (int i = 0; i < items * taps_w; ++i) {
        if (used(i / taps_w, i % taps_w)) source.weights[i / taps_w][i % taps_w] = weights_w[group * (items * taps_w) + i];
    }
    acc sums[taps_h][items] = {};
    index row = of_rows[0];  // the next one of x
    for (index r = 0; r < end; ++r, to += out_width, down += taps_h) {
        const index start = of_rows[r];
        row = maximum(row, start);
        while (row < start + taps_h) {
#pragma unroll
            for (int i = 0; i + 1 < taps_h; ++i) {
#pragma unroll
                for (int item = 0; item < items; ++item) sums[i][item] = sums[i + 1][item];
            }
            source.sum(sums[taps_h - 1], row);
            ++row;
            if (flat && row < height) source.ask(row);
        }
        acc made[items] = {};
#pragma unroll
        for (int b = 0; b < taps_h; ++b) {
            const acc weight = down[b];
#pragma unroll
            for (int item = 0; item < items; ++item) add(made[item], weight, sums[b][item]);
        }
        store_pack(to, packed<T>(made));
    }
<% else %>
    const acc *const along = weights_w + group * taps_w, *const deep = weights_d + d * taps_d;
    for (index r = 0; r < end; ++r, to += out_width, down += taps_h) {
        acc made = acc(0);
        for (int b = 0; b < taps_h; ++b) {
            const T* line_of = from + (of_rows[r] + b) * width + starts_w[group];
            acc sum = acc(0);
            for (int a = 0; a < taps_d; ++a, line_of += height * width) {
                acc part = acc(0);
                for (int c = 0; c < taps_w; ++c) add(part, along[c], cast<acc>(line_of[c]));
                add(sum, deep[a], part);
            }
            add(made, down[b], sum);
        }
        *to = cast<T>(made);
    }
<% endif %>
}
