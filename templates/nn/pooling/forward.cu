// y[p, i, j] = the average, or the maximum, of one window of plane p: rows i * stride - padding + a * dilation for a
// in [0, kernel), columns likewise; positions outside the plane are left out of a maximum.
// x (planes, height, width), y (planes, out_height, out_width), both contiguous. kernel, stride, padding and dilation are
// bound as (rows, columns) pairs, kind as "average" or "maximum", full as whether every window lies inside the plane,
// even as whether every average is divided by its window's number of places.
// average: divided by the positions of the window inside the padded plane (count_padding) or inside the plane.
// maximum: winners (as y; with `keep`) gets the place a * kernel columns + b of the first largest element, or of the first
// NaN; no_winner where no position lies inside the plane.
// Launch: one thread for `items` neighbouring outputs of each of `rows` rows. Shared: none.
// With `tile` a thread first reads all that its windows cover, `pack` elements an access, then pools each row's windows
// across, then those down, and writes `store` elements an access. `touched` lists the rows that it reads, counted from its
// first window's, each with its pairs (row of outputs, a).
<% set maximum = kind == "maximum" %>
<# A window of many places, of a whole plane say, would be a text that takes seconds to compile. #>
<% set unrolled = "unroll" if kernel[0] * kernel[1] <= 64 else "unroll 1" %>
<% set keep = keep and maximum %>
<% if not maximum %>
<% include "nn/pooling/divisor.cuh" %>
<% endif %>
<% if tile %>
<% include "nn/pooling/segment.cuh" %>
<% endif %>
<% if tile and keep and not full %>
// The first place of the window at (top, left) that lies inside the plane: the winner where all are -inf.
template <typename I>
__device__ __forceinline__ int first_place(I top, I left, I height, I width) {
    const I a = top < 0 ? divide_up(-top, I(<< dilation[0] >>)) : I(0);
    const I b = left < 0 ? divide_up(-left, I(<< dilation[1] >>)) : I(0);
    const bool exists = a < << kernel[0] >> && top + a * << dilation[0] >> < height && b < << kernel[1] >> &&
                        left + b * << dilation[1] >> < width;
    return exists ? int(a * << kernel[1] >> + b) : << no_winner >>;
}

<% endif %>
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* x, << elem >>* y, << winner ~ "* winners," if keep else "" >>
    << index >> planes, << index >> height, << index >> width, << index >> out_height, << index >> out_width)
{
    using elem = << elem >>;
    using acc = << acc >>;
    using index = << index >>;
    using count = unsigned << index >>;
    constexpr int items = << items >>;
    const count groups = divide_up(out_width, index(items)), bands = divide_up(out_height, index(<< rows >>));
    const count thread = count(blockIdx.x) * << block >> + count(threadIdx.x);
    if (thread >= count(planes) * bands * groups) return;
    const count band = thread / groups;
    const index plane = band / bands, first_row = (band - plane * bands) * << rows >>;
    const index first_out = (thread - band * groups) * items;
    const index top = first_row * << stride[0] >> - << padding[0] >>;
    const index left = first_out * << stride[1] >> - << padding[1] >>;

<% if tile %>
<% set span = (items - 1) * stride[1] + (kernel[1] - 1) * dilation[1] + 1 %>
    const elem outside = cast<elem>(<< "-limits<acc>::infinity()" if maximum else "acc(0)" >>);
<% for row, _ in touched %>
    elem row_<< row >>[<< span >>];
    load_segment< << span >>, << pack >>, << -padding[1] % pack >>, << "false" if full else "true" >>>(
        row_<< row >>, x, plane * height * width, top + << row >>, height, left, width, outside);
<% endfor %>
    acc best[<< rows >>][items];
<% if keep %>
    int place[<< rows >>][items];
<% endif %>
    // From the last place to the first, so that the first of equals, or of NaNs, stays.
<% for row, outputs in touched | reverse %>
#pragma unroll
    for (int item = 0; item < items; ++item) {
        acc value = cast<acc>(row_<< row >>[item * << stride[1] >> + << (kernel[1] - 1) * dilation[1] >>]);
<% if keep %>
        int across = << kernel[1] - 1 >>;
<% endif %>
#pragma unroll
        for (int b = << kernel[1] - 2 >>; b >= 0; --b) {
            const acc next = cast<acc>(row_<< row >>[item * << stride[1] >> + b * << dilation[1] >>]);
<% if maximum %>
            const bool wins = next >= value || next != next;
            value = wins ? next : value;
<% if keep %>
            across = wins ? b : across;
<% endif %>
<% else %>
            value += next;
<% endif %>
        }
<% for o, a in outputs %>
<% if a == kernel[0] - 1 %>
        best[<< o >>][item] = value;
<% if keep %>
        place[<< o >>][item] = across + << a * kernel[1] >>;
<% endif %>
<% elif maximum %>
        const bool wins_<< o >> = value >= best[<< o >>][item] || value != value;
        best[<< o >>][item] = wins_<< o >> ? value : best[<< o >>][item];
<% if keep %>
        place[<< o >>][item] = wins_<< o >> ? across + << a * kernel[1] >> : place[<< o >>][item];
<% endif %>
<% else %>
        best[<< o >>][item] += value;
<% endif %>
<% endfor %>
    }
<% endfor %>
#pragma unroll
    for (int o = 0; o < << rows >>; ++o) {
        if (first_row + o >= out_height) continue;
        const index at = ((plane * out_height + first_row) + o) * out_width + first_out;
<% if not maximum or keep and not full %>
#pragma unroll
        for (int item = 0; item < items; ++item) {
<% if not maximum and even %>
            best[o][item] /= acc(<< kernel[0] * kernel[1] >>);
<% else %>
            const index above = top + o * << stride[0] >>, before = left + item * << stride[1] >>;
<% if maximum %>
            const bool found = best[o][item] != -limits<acc>::infinity();
            place[o][item] = found ? place[o][item] : first_place(above, before, height, width);
<% else %>
            best[o][item] /= acc(pool_divisor(above, before, height, width));
<% endif %>
<% endif %>
        }
<% endif %>
        store_segment< << store >>>(y + at, best[o], out_width - first_out);
<% if keep %>
        store_segment< << store >>>(winners + at, place[o], out_width - first_out);
<% endif %>
    }
<% else %>
    const elem* source = x + (long long)plane * height * width;
    const long long out = ((long long)plane * out_height + first_row) * out_width;

    acc best[items];
<% if maximum %>
    int place[items];
<% endif %>
#pragma unroll
    for (int item = 0; item < items; ++item) {
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
            for (int item = 0; item < items; ++item) {
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
    for (int item = 0; item < items; ++item) {
        const index column = first_out + item;
        if (column >= out_width) continue;
<% if maximum %>
        y[out + column] = cast<elem>(best[item]);
<% if keep %>
        winners[out + column] = place[item];
<% endif %>
<% else %>
        y[out + column] = cast<elem>(best[item] / acc(pool_divisor(top, left + item * << stride[1] >>, height, width)));
<% endif %>
    }
<% endif %>
}
