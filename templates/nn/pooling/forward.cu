// y[p, i, j] = the average, or the maximum, of one window of plane p: rows i * stride - padding + a * dilation for a
// in [0, kernel), columns likewise; positions outside the plane are left out of a maximum.
// x (planes, height, width), y (planes, out_height, out_width), both contiguous.
// average: divided by the positions of the window inside the padded plane (count_padding) or inside the plane.
// maximum: winners (as y; with `keep`) gets the place a * kernel columns + b of the first largest element, or of the first
// NaN; no_winner where no position lies inside the plane.
// Launch: one thread for `items` neighbouring outputs of a row. Shared: none.
<% include "nn/pooling/windows.cuh" %>
constexpr int block = << block >>, items = << items >>;
// A window of many places, of a whole plane say, would take seconds to compile if it were unrolled.
constexpr int unroll = << 64 if kernel[0] * kernel[1] <= 64 else 1 >>;

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
    index planes, index height, index width, index out_height, index out_width)
{
    const size groups = divide_up(out_width, index(items)), thread = size(blockIdx.x) * block + size(threadIdx.x);
    if (thread >= size(planes) * size(out_height) * groups) return;
    const size line = thread / groups;
    const index plane = line / size(out_height), row = line - plane * size(out_height);
    const index first = (thread - line * groups) * items;
    const index top = row * Stride::rows - Padding::rows, left = first * Stride::columns - Padding::columns;
    const T* source = x + (long long)plane * height * width;
    const long long out = ((long long)plane * out_height + row) * out_width;

    Window windows[items];
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
                windows[item].add(cast<acc>(source[(long long)at_row * width + at_column]), a * Kernel::columns + b);
            }
        }
    }
#pragma unroll
    for (int item = 0; item < items; ++item) {
        const index column = first + item;
        if (column >= out_width) continue;
        acc value = windows[item].value;
        if constexpr (!largest) value /= acc(divisor(top, left + item * Stride::columns, height, width));
        y[out + column] = cast<T>(value);
        << "winners[out + column] = windows[item].place;" if keep >>
    }
}
