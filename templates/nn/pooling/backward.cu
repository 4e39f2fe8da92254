// dx[p, h, w] = the sum of dy over the windows of plane p that hold (h, w): each divided as in the forward pass (average),
// or only those whose winner is (h, w) (maximum).
// dy, winners (planes, out_height, out_width), dx (planes, height, width), contiguous.
// Each element gathers its at most kernel / stride windows an axis, in order: no atomics, so every run gives the same bits.
// Launch: one thread for an element of dx. Shared: none.
<% include "nn/pooling/windows.cuh" %>
constexpr int block = << block >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* dy, << "const Place* winners," if kind == "maximum" >> T* dx,
    index planes, index height, index width, index out_height, index out_width)
{
    const index at = size(blockIdx.x) * block + size(threadIdx.x);
    if (at >= planes * height * width) return;
    const index padded_row = at / width % height + Padding::rows, padded_column = at % width + Padding::columns;
    const index row_reach = Reach::rows, column_reach = Reach::columns;
    const index first_row = padded_row > row_reach ? divide_up(padded_row - row_reach, index(Stride::rows)) : 0;
    const index first_column =
        padded_column > column_reach ? divide_up(padded_column - column_reach, index(Stride::columns)) : 0;
    const index last_row = minimum(padded_row / Stride::rows, out_height - 1);
    const index last_column = minimum(padded_column / Stride::columns, out_width - 1);
    const long long start = (long long)(at / width / height) * out_height * out_width;

    acc sum = acc(0);
    for (index row = first_row; row <= last_row; ++row) {
        for (index column = first_column; column <= last_column; ++column) {
            const long long out = start + (long long)row * out_width + column;
<% if kind == "maximum" %>
            const index down = padded_row - row * Stride::rows, across = padded_column - column * Stride::columns;
            const bool on_window = down % Dilation::rows == 0 && across % Dilation::columns == 0;
            const index place = down / Dilation::rows * Kernel::columns + across / Dilation::columns;
            if (on_window && index(winners[out]) == place) sum += cast<acc>(dy[out]);
<% else %>
            const index top = row * Stride::rows - Padding::rows, left = column * Stride::columns - Padding::columns;
            sum += cast<acc>(dy[out]) / acc(divisor(top, left, height, width));
<% endif %>
        }
    }
    dx[at] = cast<T>(sum);
}
