// What the kernels of depthwise convolutions share: threads walk down the image's rows, and add each of them to the sums of all rows
// of the output whose windows it is in. Neighbouring columns of `width` channels each are a thread's.
<% include "prelude/packs.cuh" %>
using acc = << acc >>;
constexpr int items = << items >>, width = << width >>, taps_x = << taps_x >>, taps_y = << taps_y >>;
// From a window to the next. Columns of a row that a thread's windows span; those that are its own; others, and how many are before it.
constexpr int step_x = << step_x | default(1) >>, span = (items - 1) * step_x + taps_x, own = items * step_x;
constexpr int edges = span - own, before = << before >>;

// Adds row r of the image, r = k modulo the taps, to the sums; those of row o of the output are at o % taps_y.
__device__ __forceinline__ void add_row(
    acc (&sums)[taps_y][items][width], const acc (&values)[span][width], const acc (&factors)[taps_y][taps_x][width], int k)
{
#pragma unroll
    for (int b = 0; b < taps_y; ++b) {
        acc(&to)[items][width] = sums[(k - b + taps_y) % taps_y];
#pragma unroll
        for (int i = 0; i < items; ++i) {
#pragma unroll
            for (int c = 0; c < taps_x; ++c) {
#pragma unroll
                for (int v = 0; v < width; ++v) to[i][v] += values[i + c][v] * factors[b][c][v];
            }
        }
    }
}

// What a thread reads of a row whose columns lie side by side: a pack of its own ones, and those around it.
struct WholeRow {
    Pack<T, own> pack;
    T edge[edges > 0 ? edges : 1];  // before the pack, and behind it

    __device__ __forceinline__ void load(const T* line, int column, int columns, bool is) {
        pack = is && column < columns ? load_pack<own>(line + column) : Pack<T, own>{};
#pragma unroll
        for (int i = 0; i < edges; ++i) {
            const int at = column + (i < before ? i - before : own + i - before);
            edge[i] = is && unsigned(at) < unsigned(columns) ? line[at] : T();
        }
    }
    __device__ __forceinline__ void numbers(acc (&to)[span][width]) const {
        acc inner[own];
        unpack(pack, inner);
#pragma unroll
        for (int i = 0; i < span; ++i)
            to[i][0] = i < before ? cast<acc>(edge[i]) : i < before + own ? inner[i - before] : cast<acc>(edge[i - own]);
    }
};
// The same where columns do not lie side by side, or not in whole packs: `step` is the stride from one to the next.
struct SpreadRow {
    Pack<T, width> packs[span];

    template <typename Step>
    __device__ __forceinline__ void load(const T* line, int column, int columns, Step step, bool is) {
#pragma unroll
        for (int i = 0; i < span; ++i) {
            const bool there = is && unsigned(column + i) < unsigned(columns);
            packs[i] = there ? load_pack<width>(line + (column + i) * step) : Pack<T, width>{};
        }
    }
    __device__ __forceinline__ void numbers(acc (&to)[span][width]) const {
#pragma unroll
        for (int i = 0; i < span; ++i) unpack(packs[i], to[i]);
    }
};
