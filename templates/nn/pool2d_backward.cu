// dx[p, h, w] = the sum of dy over the windows of plane p that hold (h, w): each divided as in the forward pass (average),
// or only those whose winner is (h, w) (maximum).
// dy, winners (planes, out_height, out_width), dx (planes, height, width), contiguous; variables as in pool2d.cu.
// Launch: one thread an element of dx, which gathers its at most kernel / stride windows an axis, in order: no atomics,
// so every run gives the same bits. Shared: none.
<% set maximum = kind == "maximum" %>
<% if not maximum %>
<% include "nn/pool_divisor.cuh" %>
<% endif %>
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* dy, << "const " ~ winner ~ "* winners," if maximum else "" >>
    << elem >>* dx, << index >> planes, << index >> height, << index >> width, << index >> out_height, << index >> out_width)
{
    using elem = << elem >>;
    using acc = << acc >>;
    using index = << index >>;
    const index i = index(blockIdx.x) * << block >> + index(threadIdx.x);
    if (i >= planes * height * width) return;
    const index padded_row = i / width % height + << padding[0] >>;
    const index padded_column = i % width + << padding[1] >>;
    const long long start = (long long)(i / width / height) * out_height * out_width;
    const index row_reach = << (kernel[0] - 1) * dilation[0] >>, column_reach = << (kernel[1] - 1) * dilation[1] >>;
    const index first_row = padded_row > row_reach ? divide_up(padded_row - row_reach, index(<< stride[0] >>)) : 0;
    const index first_column =
        padded_column > column_reach ? divide_up(padded_column - column_reach, index(<< stride[1] >>)) : 0;
    const index last_row = minimum(padded_row / << stride[0] >>, out_height - 1);
    const index last_column = minimum(padded_column / << stride[1] >>, out_width - 1);

    acc sum = acc(0);
    for (index row = first_row; row <= last_row; ++row) {
        for (index column = first_column; column <= last_column; ++column) {
            const long long out = start + (long long)row * out_width + column;
<% if maximum %>
            const index down = padded_row - row * << stride[0] >>, across = padded_column - column * << stride[1] >>;
            const bool on_window = down % << dilation[0] >> == 0 && across % << dilation[1] >> == 0;
            const index place = down / << dilation[0] >> * << kernel[1] >> + across / << dilation[1] >>;
            if (on_window && index(winners[out]) == place) sum += cast<acc>(dy[out]);
<% else %>
            const index top = row * << stride[0] >> - << padding[0] >>, left = column * << stride[1] >> - << padding[1] >>;
            sum += cast<acc>(dy[out]) / acc(pool_divisor(top, left, height, width));
<% endif %>
        }
    }
    dx[i] = cast<elem>(sum);
}
