// y[p, i, j] = the average, or the maximum, of one window of plane p: rows i * stride - padding + a * dilation for a
// in [0, kernel), columns likewise; positions outside the plane are left out of a maximum.
// x (planes, height, width), y (planes, out_height, out_width), both contiguous; with `channels_last` a plane for each image,
// and after its columns the channels.
// average: divided by the positions of the window inside the padded plane (count_padding) or inside the plane.
// maximum: winners (as y; with `keep`) gets the place a * kernel columns + b of the first largest element, or of the first
// NaN; no_winner where no position lies inside the plane.
// Launch: one thread for `items` neighbouring outputs of a row, and of these for `pack` neighbouring channels. Shared: none.
<% include "prelude/packs.cuh" %>
<% include "nn/pooling/windows.cuh" %>
constexpr int block = << block >>, items = << items >>, pack = << pack >>;
// A window of many places, of a whole plane say, would take seconds to compile if it were unrolled.
constexpr int unroll = << 64 if kernel[0] * kernel[1] <= (16 if channels_last else 64) else 1 >>;

// What is known of a window: its sum, or the first of its largest elements and where that is.
struct Window {
    acc value = largest ? -limits<acc>::infinity() : acc(0);
    int place = no_winner;

    __device__ __forceinline__ void add(acc x, int at) {
        if constexpr (largest) {
            if (place == no_winner || x > value || (x != x && value == value)) {
                value = x;
                place = at;
            }
        } else {
            value += x;
        }
    }
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* x, T* y, << "Place* winners," if keep >>
    index planes, index height, index width, index out_height, index out_width << ", index channels" if channels_last >>)
{
    << "constexpr index channels = 1;" if not channels_last >>
    const size packs = channels / pack, groups = divide_up(out_width, index(items));
    const size thread = size(blockIdx.x) * block + size(threadIdx.x);
    if (thread >= size(planes) * size(out_height) * groups * packs) return;
    const size group = thread / packs, line = group / groups, plane = line / size(out_height);
    const index channel = (thread - group * packs) * pack, row = line - plane * size(out_height);
    const index first = (group - line * groups) * items;
    const index top = row * Stride::rows - Padding::rows, left = first * Stride::columns - Padding::columns;
    const T* source = x + (long long)plane * height * width * channels + channel;

    Window windows[items][pack];
#pragma unroll unroll
    for (int a = 0; a < Kernel::rows; ++a) {
        const index at_row = top + a * Dilation::rows;
        if (at_row < 0 || at_row >= height) continue;
#pragma unroll unroll
        for (int b = 0; b < Kernel::columns; ++b) {
#pragma unroll
            for (int item = 0; item < items; ++item) {
                const index at_column = left + item * Stride::columns + b * Dilation::columns;
                if (at_column < 0 || at_column >= width) continue;
                acc given[pack];
                unpack(load_pack<pack>(source + ((long long)at_row * width + at_column) * channels), given);
#pragma unroll
                for (int v = 0; v < pack; ++v) windows[item][v].add(given[v], a * Kernel::columns + b);
            }
        }
    }
    const long long out = (items == 1 ? (long long)group : (long long)line * out_width + first) * channels + channel;
#pragma unroll
    for (int item = 0; item < items; ++item) {
        if (items > 1 && first + item >= out_width) continue;
        const acc by = largest ? acc(1) : acc(divisor(top, left + item * Stride::columns, height, width));
        acc value[pack];
        Pack<Place, pack> place;
#pragma unroll
        for (int v = 0; v < pack; ++v) {
            value[v] = largest ? windows[item][v].value : windows[item][v].value / by;
            place.at[v] = Place(windows[item][v].place);
        }
        store_pack(y + out + item * channels, packed<T>(value));
        << "store_pack(winners + out + item * channels, place);" if keep >>
    }
}
