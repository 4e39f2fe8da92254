// y[p, d, i, j] = the sum over (a, b, c) of weights_d[d, a] * weights_h[i, b] * weights_w[j, c] *
// x[p, starts_d[d] + a, starts_h[i] + b, starts_w[j] + c]: interpolation, averages over windows, and their transposes.
// x (planes, depth, height, width), y (planes, out_depth, out_height, out_width), contiguous; of each axis starts (out), in
// ascending order, and weights (out, taps), of which one that is 0 takes nothing, not even NaN. Along the height the starts
// are of bands of `rows` rows of y, with weights (bands * rows, reach) for the rows of x from there on; if `joint`, along the
// width they are of `items` columns, with weights (groups * items, taps_w).
// Launch: a thread owns `items` elements of each row of a band: neighbours, which it stores at once, or if not `packed` such
// that next to each lies one of the next thread's. `held`: it first sums each row of x along the others, in registers.
// << block >> threads a block. Shared: none. No atomics.
<% include "prelude/packs.cuh" %>
using T = << elem >>;
using acc = << acc >>;
using index = << index >>;
using size = unsigned << index >>;
constexpr int block = << block >>, items = << items >>, rows = << rows >>;
constexpr int taps_d = << taps[0] >>, reach = << taps[1] >>, taps_w = << taps[2] >>;
// Whether there is no first axis.
constexpr bool flat = << flat | lower >>, packed_rows = << packed | lower >>;

__device__ __forceinline__ void add(acc& sum, acc weight, acc value, bool sure = false) {
    if (sure || weight != acc(0)) sum += weight * value;
}
<% if held %>
// Which weights of the rows of a band are not 0 in any of the bands, and in all of them; and along the width, if `joint`.
<% for name, masks in patterns.items() %>
__device__ __forceinline__ constexpr bool << name >>(int row, int place) {
    return (<% for mask in masks %>row == << loop.index0 >> ? << mask >>ull : <% endfor %>0ull) >> place & 1;
}
<% endfor %>
<% endif %>
// Slices of a plane, and their weights.
struct Source {
    const T* from;
    const acc* weights;
    index slice, width;

    // The sum along the first and the last axis at a row, from a column on.
    __device__ __forceinline__ acc at(index row, size column, const acc* along) const {
        acc sum = acc(0);
#pragma unroll << 4 if held else 1 >>
        for (int a = 0; a < taps_d; ++a) {
            const T* line = from + a * slice + row * width + column;
            acc part = acc(0);
#pragma unroll << 16 if held else 1 >>
            for (int c = 0; c < taps_w; ++c) add(part, along[c], cast<acc>(line[c]));
            if (flat) return part;
            add(sum, weights[a], part);
        }
        return sum;
    }
<% if held and joint %>
    // The same for `items` columns, whose elements are read once.
    __device__ __forceinline__ void add_to(acc (&sums)[items], index row, size column, const acc (&along)[items][taps_w]) const {
#pragma unroll 4
        for (int a = 0; a < taps_d; ++a) {
            const T* line = from + a * slice + row * width + column;
            acc parts[items] = {}, values[taps_w];
#pragma unroll
            for (int c = 0; c < taps_w; ++c) values[c] = cast<acc>(line[c]);
#pragma unroll
            for (int item = 0; item < items; ++item) {
#pragma unroll
                for (int c = 0; c < taps_w; ++c) {
                    if (used_w(item, c)) add(parts[item], along[item][c], values[c], sure_w(item, c));
                }
                if (flat) sums[item] = parts[item];
                else add(sums[item], weights[a], parts[item]);
            }
        }
    }
<% endif %>
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ x, T* __restrict__ y, const int* __restrict__ starts_d, const acc* __restrict__ weights_d,
    const int* __restrict__ starts_h, const acc* __restrict__ weights_h, const int* __restrict__ starts_w,
    const acc* __restrict__ weights_w, index planes, index depth, index height, index width,
    index out_depth, index out_height, index out_width)
{
    const size groups = divide_up(out_width, index(items)), bands = divide_up(out_height, index(rows));
    const size thread = size(blockIdx.x) * block + size(threadIdx.x), line = thread / groups, slab = line / bands;
    if (slab >= size(planes) * size(out_depth)) return;
    const index first = thread - line * groups, band = line - slab * bands;
    const index plane = slab / size(out_depth), d = slab - plane * size(out_depth);
    const Source source = {
        x + (plane * depth + starts_d[d]) * height * width, weights_d + d * taps_d, height * width, width};
    T* target = y + (index(slab) * out_height + band * rows) * out_width;
    const index top = starts_h[band];
    const acc* down = weights_h + band * (rows * reach);
<% if held %>
    const index left = packed_rows ? first * items : first, step = packed_rows ? 1 : index(groups);
<% if joint %>
    acc sums[reach][items] = {}, across[items][taps_w];
    const size from = starts_w[first];
#pragma unroll
    for (int i = 0; i < items * taps_w; ++i) {
        if (used_w(i / taps_w, i % taps_w)) across[i / taps_w][i % taps_w] = weights_w[first * (items * taps_w) + i];
    }
#pragma unroll
    for (int b = 0; b < reach; ++b) source.add_to(sums[b], top + b, from, across);
<% else %>
    acc sums[reach][items];
#pragma unroll
    for (int item = 0; item < items; ++item) {
        const index column = minimum(left + item * step, out_width - 1);
        const size from = starts_w[column];
        acc across[taps_w];
#pragma unroll
        for (int c = 0; c < taps_w; ++c) across[c] = weights_w[column * taps_w + c];
#pragma unroll
        for (int b = 0; b < reach; ++b) sums[b][item] = source.at(top + b, from, across);
    }
<% endif %>
#pragma unroll
    for (int r = 0; r < rows; ++r) {
        if (band * rows + r >= out_height) break;
        T* to = target + r * out_width + left;
        acc made[items] = {};
#pragma unroll
        for (int b = 0; b < reach; ++b) {
            if (!used_h(r, b)) continue;
            const acc weight = down[r * reach + b];
#pragma unroll
            for (int item = 0; item < items; ++item) add(made[item], weight, sums[b][item], sure_h(r, b));
        }
        if constexpr (packed_rows) {
            store_pack(to, packed<T>(made));
            continue;
        }
#pragma unroll
        for (int item = 0; item < items; ++item) {
            if (left + item * step < out_width) to[item * step] = cast<T>(made[item]);
        }
    }
<% else %>
    acc made = acc(0);
    for (int b = 0; b < reach; ++b)
        add(made, down[b], source.at(top + b, starts_w[first], weights_w + first * taps_w));
    target[first] = cast<T>(made);
<% endif %>
}
