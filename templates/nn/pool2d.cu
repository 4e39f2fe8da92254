// y[p, i, j] = the average, or the maximum, of one window of plane p: rows i * stride - padding + a * dilation for a
// in [0, kernel), columns likewise; positions outside the plane are left out of a maximum.
// x (planes, height, width), y (planes, out_height, out_width), both contiguous. kernel, stride, padding and dilation are
// bound as (rows, columns) pairs, kind as "average" or "maximum".
// average: divided by the positions of the window inside the padded plane (count_padding) or inside the plane.
// maximum: winner (as y) or null gets the place a * kernel columns + b of the first largest element, or of the first NaN;
// no_winner where no position lies inside the plane.
// Launch: one thread for `items` neighbouring outputs of one row. Shared: none.
<% set maximum = kind == "maximum" %>
<# A window of many places, of a whole plane say, would be a text that takes seconds to compile. #>
<% set unrolled = "unroll" if kernel[0] * kernel[1] <= 64 else "unroll 1" %>
<% if not maximum %>
<% include "nn/pool_divisor.cuh" %>
<% endif %>
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* x, << elem >>* y, << winner ~ "* winners," if maximum else "" >>
    << index >> planes, << index >> height, << index >> width, << index >> out_height, << index >> out_width)
{
    using elem = << elem >>;
    using acc = << acc >>;
    using index = << index >>;
    const index groups = divide_up(out_width, index(<< items >>));
    const index thread = index(blockIdx.x) * << block >> + index(threadIdx.x);
    if (thread >= planes * out_height * groups) return;
    const index first_out = thread % groups * << items >>;
    const index row = thread / groups;
    const index plane = row / out_height;
    const index top = row % out_height * << stride[0] >> - << padding[0] >>;
    const index left = first_out * << stride[1] >> - << padding[1] >>;
    const elem* source = x + (long long)plane * height * width;

    acc best[<< items >>];
<% if maximum %>
    int place[<< items >>];
<% endif %>
#pragma unroll
    for (int item = 0; item < << items >>; ++item) {
        best[item] = << "-limits<acc>::infinity()" if maximum else "acc(0)" >>;
<% if maximum %>
        place[item] = << no_winner >>;
<% endif %>
    }
#pragma << unrolled >>
    for (int a = 0; a < << kernel[0] >>; ++a) {
        const index at_row = top + a * << dilation[0] >>;
        if (at_row < 0 || at_row >= height) continue;
#pragma << unrolled >>
        for (int b = 0; b < << kernel[1] >>; ++b) {
#pragma unroll
            for (int item = 0; item < << items >>; ++item) {
                const index at_column = left + item * << stride[1] >> + b * << dilation[1] >>;
                if (at_column < 0 || at_column >= width) continue;
                const acc value = cast<acc>(source[(long long)at_row * width + at_column]);
<% if maximum %>
                const bool first = place[item] == << no_winner >>;
                if (first || value > best[item] || (value != value && best[item] == best[item])) {
                    best[item] = value;
                    place[item] = a * << kernel[1] >> + b;
                }
<% else %>
                best[item] += value;
<% endif %>
            }
        }
    }
#pragma unroll
    for (int item = 0; item < << items >>; ++item) {
        const index column = first_out + item;
        if (column >= out_width) continue;
        const long long out = (long long)row * out_width + column;
<% if maximum %>
        y[out] = cast<elem>(best[item]);
        if (winners) winners[out] = place[item];
<% else %>
        y[out] = cast<elem>(best[item] / acc(pool_divisor(top, left + item * << stride[1] >>, height, width)));
<% endif %>
    }
}
