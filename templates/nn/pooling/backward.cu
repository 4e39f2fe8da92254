// dx[p, h, w] = the sum of dy over the windows of plane p that hold (h, w): each divided as in the forward pass (average),
// or only those whose winner is (h, w) (maximum).
// dy, winners (planes, out_height, out_width), dx (planes, height, width), contiguous; variables as in pool2d.cu.
// Each element gathers its at most kernel / stride windows an axis, in order: no atomics, so every run gives the same bits.
// Launch: one thread for `items` neighbouring elements of dx in each of `rows` rows, multiples of the strides with `tile`,
// where it reads all windows that reach its elements first; else 1 and 1. Shared: none.
<% set maximum = kind == "maximum" %>
<% if not maximum %>
<% include "nn/pooling/divisor.cuh" %>
<% endif %>
<% if tile %>
<% include "nn/pooling/segment.cuh" %>
<% endif %>
<# In a half type's float a product rounds as well as a quotient. #>
<% set count = kernel[0] * kernel[1] %>
<% set divided = "" if maximum else " * acc(%r)" % (1 / count) if elem != acc else " / acc(%d)" % count %>
<% set reach = ((kernel[0] - 1) * dilation[0], (kernel[1] - 1) * dilation[1]) %>
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* dy, << "const " ~ winner ~ "* winners," if maximum else "" >>
    << elem >>* dx,
    << index >> planes, << index >> height, << index >> width, << index >> out_height, << index >> out_width)
{
    using elem = << elem >>;
    using acc = << acc >>;
    using index = << index >>;
<% if maximum %>
    using winner = << winner >>;
<% endif %>
    using count = unsigned << index >>;
    const count thread = count(blockIdx.x) * << block >> + count(threadIdx.x);
<% if tile %>
<# The first window down and across that reaches the thread's first element, and how many reach one of them. #>
<% set first_down = -((reach[0] - padding[0]) // stride[0]) %>
<% set first_across = -((reach[1] - padding[1]) // stride[1]) %>
<% set down = (rows - 1 + padding[0]) // stride[0] - first_down + 1 %>
<% set across = (items - 1 + padding[1]) // stride[1] - first_across + 1 %>
    constexpr int items = << items >>;
    const count groups = divide_up(width, index(items)), bands = divide_up(height, index(<< rows >>));
    if (thread >= count(planes) * bands * groups) return;
    const count all_bands = thread / groups;
    const index plane = all_bands / bands, band = all_bands - plane * bands, group = thread - all_bands * groups;
    const index i = band * << rows // stride[0] >> + << first_down >>;
    const index j = group * << items // stride[1] >> + << first_across >>;
    const index start = plane * out_height * out_width;

<% for d in range(down) %>
    elem dy_<< d >>[<< across >>];
    load_segment< << across >>, << pack >>, << first_across % pack >>, true>(
        dy_<< d >>, dy, start, i + << d >>, out_height, j, out_width, elem(0.0f));
<% if maximum %>
    winner place_<< d >>[<< across >>];
    load_segment< << across >>, << pack >>, << first_across % pack >>, false>(
        place_<< d >>, winners, start, i + << d >>, out_height, j, out_width, winner(0));
<% endif %>
<% endfor %>
    acc sum[<< rows >>][items];
#pragma unroll
    for (int h = 0; h < << rows >>; ++h) {
#pragma unroll
        for (int w = 0; w < items; ++w) sum[h][w] = acc(0);
    }
<% for d in range(down) %>
#pragma unroll
    for (int c = 0; c < << across >>; ++c) {
<% if maximum or even %>
        const acc share = cast<acc>(dy_<< d >>[c])<< divided >>;
<% else %>
        const bool exists = i + << d >> >= 0 && i + << d >> < out_height && j + c >= 0 && j + c < out_width;
        const index top = (i + << d >>) * << stride[0] >> - << padding[0] >>, left = (j + c) * << stride[1] >> - << padding[1] >>;
        const acc share = exists ? cast<acc>(dy_<< d >>[c]) / acc(pool_divisor(top, left, height, width)) : acc(0);
<% endif %>
<% for a in range(kernel[0]) %>
<% set h = (first_down + d) * stride[0] - padding[0] + a * dilation[0] %>
<% if 0 <= h < rows %>
#pragma unroll
        for (int b = 0; b < << kernel[1] >>; ++b) {
            const int w = (c + << first_across >>) * << stride[1] >> - << padding[1] >> + b * << dilation[1] >>;
            if (w < 0 || w >= items) continue;
<% if maximum %>
            sum[<< h >>][w] += place_<< d >>[c] == << a * kernel[1] >> + b ? share : acc(0);
<% else %>
            sum[<< h >>][w] += share;
<% endif %>
        }
<% endif %>
<% endfor %>
    }
<% endfor %>
#pragma unroll
    for (int h = 0; h < << rows >>; ++h) {
        const index row = band * << rows >> + h;
        if (row < height) {
            const index column = group * items;
            store_segment< << store >>>(dx + ((plane * height + row) * width + column), sum[h], width - column);
        }
    }
<% else %>
    const index at = thread;
    if (at >= planes * height * width) return;
    const index padded_row = at / width % height + << padding[0] >>;
    const index padded_column = at % width + << padding[1] >>;
    const long long start = (long long)(at / width / height) * out_height * out_width;
    const index row_reach = << reach[0] >>, column_reach = << reach[1] >>;
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
    dx[at] = cast<elem>(sum);
<% endif %>
}
