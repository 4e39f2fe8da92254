// y[p, d, i, j] = the sum over (a, b, c) of weights_d[d, a] * weights_h[i, b] * weights_w[j, c] *
// x[p, starts_d[d] + a, starts_h[i] + b, starts_w[j] + c]: interpolation, averages over windows, and their transposes.
// x (planes, depth, height, width), y (planes, out_depth, out_height, out_width), contiguous; of each axis starts (out), in
// ascending order, and weights (out, taps), of which one that is 0 takes nothing, not even NaN.
// `held`: a thread owns `items` neighbours in each of `rows` rows, and keeps the rows of x that it combines across in
// registers, so that the next row of y reads only those that are new. Else it owns one element. No atomics.
// Launch: one thread for its elements, << block >> a block. Shared: none.
<% include "nn/pooling/segment.cuh" %>
using T = << elem >>;
using acc = << acc >>;
using index = << index >>;
using size = unsigned << index >>;
constexpr int block = << block >>, items = << items >>, rows = << rows >>, store = << store >>;
constexpr int taps_d = << taps[0] >>, taps_h = << taps[1] >>, taps_w = << taps[2] >>;

__device__ __forceinline__ void add(acc& sum, acc weight, acc value) {
    if (weight != acc(0)) sum += weight * value;
}
// A plane, and the weights of its place along the outermost axis.
struct Source {
    const T* from;
    const acc* weights;
    index slice, width;

    // The sum along the first and the last axis at a row, from a column on.
    __device__ __forceinline__ acc at(index row, index column, const acc* along) const {
        acc sum = acc(0);
#pragma unroll << 4 if held else 1 >>
        for (int a = 0; a < taps_d; ++a) {
            const T* line = from + a * slice + row * width + column;
            acc part = acc(0);
#pragma unroll << 16 if held else 1 >>
            for (int c = 0; c < taps_w; ++c) add(part, along[c], cast<acc>(line[c]));
            add(sum, weights[a], part);
        }
        return sum;
    }
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* x, T* y, const int* starts_d, const acc* weights_d, const int* starts_h, const acc* weights_h,
    const int* starts_w, const acc* weights_w, index planes, index depth, index height, index width,
    index out_depth, index out_height, index out_width)
{
    const size groups = divide_up(out_width, index(items)), bands = divide_up(out_height, index(rows));
    const size thread = size(blockIdx.x) * block + size(threadIdx.x), line = thread / groups, slab = line / bands;
    if (slab >= size(planes) * size(out_depth)) return;
    const index first = (thread - line * groups) * items, top = (line - slab * bands) * rows;
    const index plane = slab / size(out_depth), d = slab - plane * size(out_depth);
    const Source source = {
        x + (plane * depth + starts_d[d]) * height * width, weights_d + d * taps_d, height * width, width};
    T* target = y + (index(slab) * out_height + top) * out_width + first;
<% if held %>
    acc across[items][taps_w], ring[taps_h][items];
    index columns[items];
#pragma unroll
    for (int item = 0; item < items; ++item) {
        const index column = minimum(first + item, out_width - 1);
        columns[item] = starts_w[column];
#pragma unroll
        for (int c = 0; c < taps_w; ++c) across[item][c] = weights_w[column * taps_w + c];
    }
    // The ring has the rows from `base` on.
    index base = starts_h[top] - taps_h;
    for (int r = 0; r < rows; ++r) {
        if (top + r >= out_height) break;
        const index next = starts_h[top + r];
        base = maximum(base, next - taps_h);
        for (; base < next; ++base) {
#pragma unroll
            for (int item = 0; item < items; ++item) {
#pragma unroll
                for (int b = 0; b + 1 < taps_h; ++b) ring[b][item] = ring[b + 1][item];
                ring[taps_h - 1][item] = source.at(base + taps_h, columns[item], across[item]);
            }
        }
        acc made[items] = {};
#pragma unroll
        for (int b = 0; b < taps_h; ++b) {
            const acc weight = weights_h[(top + r) * taps_h + b];
#pragma unroll
            for (int item = 0; item < items; ++item) add(made[item], weight, ring[b][item]);
        }
        store_segment<store>(target + r * out_width, made, out_width - first);
    }
<% else %>
    const index row = starts_h[top], column = starts_w[first];
    acc made[1] = {};
    for (int b = 0; b < taps_h; ++b)
        add(made[0], weights_h[top * taps_h + b], source.at(row + b, column, weights_w + first * taps_w));
    store_segment<1>(target, made, index(1));
<% endif %>
}
