// y[p, i, j] = the sum over rows and columns of a part of x of down[i, row] * across[j, column] * x[p, row, column], where groups of
// `rows` rows of y read parts of x that are equally far apart, with the same weights but for the first and the last group, and
// groups of `items` columns likewise: interpolation by simple ratios, averages over equal windows, and their transposes. What a
// part has beyond the ends of x counts as 0; where a weight is 0 nothing is taken, not even NaN.
// x (planes, height, width), y (planes, out_height, out_width), contiguous, aligned to a group's columns, x to its packs.
// Launch: a thread makes a group of rows by a group of columns, << block >> threads a block. Shared: none. No atomics.
<% include "prelude/packs.cuh" %>
<% include "lib/divisor.cuh" %>
// Groups of columns in a row, and of rows in a plane.
<< Groups >>
using T = << elem >>;
using acc = << acc >>;
using index = << index >>;
using size = unsigned << index >>;
constexpr int items = << across.items >>, rows = << down.items >>;
// Where along x the part of a group begins, and how far it reaches; how far apart parts are.
constexpr int first_column = << across.first >>, columns = << across.reach >>, columns_apart = << across.apart >>;
constexpr int first_row = << down.first >>, rows_of_x = << down.reach >>, rows_apart = << down.apart >>;
constexpr bool rows_inside = first_row >= 0 && first_row + rows_of_x <= rows_apart;
<% macro weight(axis, item, place, at_first, at_last) -%>
<% set low, usual, high = axis.weights[0][item][place], axis.weights[1][item][place], axis.weights[2][item][place] -%>
(<% if low != usual %><< at_first >> ? acc(<< low >>) : <% endif %><% if high != usual %><< at_last >> ? acc(<< high >>) : <% endif %>acc(<< usual >>))
<%- endmacro %>
// A row of x of a group's columns, in packs; zeros outside.
struct Columns {
<% for place, wide in packs %>
    Pack<T, << wide >>> at_<< loop.index0 >>;
<% endfor %>
    // `from` is where the part of the row begins, of column `first`: loads differ by constants from one address.
    __device__ __forceinline__ void load(const T* from, index first, size width, bool there) {
<% for place, wide in packs %>
        at_<< loop.index0 >> = {};
        if (there<% if place < 0 or place + wide > across.apart %> && size(first + << place >>) < width<% endif %>) at_<< loop.index0 >> = load_pack<(<< wide >>)>(from + (<< place >>));
<% endfor %>
    }
    __device__ __forceinline__ void sum(acc (&sums)[items], bool at_left, bool at_right) const {
        acc values[columns];
<% for place, wide in packs %>
        {
            acc own[<< wide >>];
            unpack(at_<< loop.index0 >>, own);
#pragma unroll
            for (int i = 0; i < << wide >>; ++i) {
                const int place = << place >> + i - first_column;
                if (place >= 0 && place < columns) values[place] = own[i];
            }
        }
<% endfor %>
<% for item in range(across.items) %>
        sums[<< item >>] = <% for place in across.terms[item] %><% if not loop.first %> + <% endif %><< weight(across, item, place, "at_left", "at_right") >> * values[<< place >>]<% else %>acc(0)<% endfor %>;
<% endfor %>
    }
};

// A thread's part of x and its place among the groups.
struct Part {
    const T* from;
    index top, left, height, width;
    bool at_left, at_right, at_top, at_bottom;

    __device__ __forceinline__ void load(Columns& to, int row) const {
        to.load(from + row * (long long)width, left, width, rows_inside || size(top + row) < size(height));
    }
    // Each row of y is stored once its last row of x is summed along the columns; some rows of x are asked for before.
    __device__ __forceinline__ void make(T* to, index out_width) const {
        Columns parts[rows_of_x];
        acc sums[<< "1" if down.apart > down.items else "rows_of_x" >>][items], result[rows][items];
<% for b in range([ahead, down.reach] | min) %>
        load(parts[<< b >>], << b >>);
<% endfor %>
<% for b in range(down.reach) %>
<% if b + ahead < down.reach %>
        load(parts[<< b + ahead >>], << b + ahead >>);
<% endif %>
<% if down.apart > down.items %>
        parts[<< b >>].sum(sums[0], at_left, at_right);
<% for r in range(down.items) if b in down.terms[r] %>
#pragma unroll
        for (int i = 0; i < items; ++i)
            result[<< r >>][i] = <% if b != down.terms[r][0] %>result[<< r >>][i] + <% endif %><< weight(down, r, b, "at_top", "at_bottom") >> * sums[0][i];
<% endfor %>
<% else %>
        parts[<< b >>].sum(sums[<< b >>], at_left, at_right);
<% for r in down.ending(b) %>
#pragma unroll
        for (int i = 0; i < items; ++i)
            result[<< r >>][i] = <% for place in down.terms[r] %><% if not loop.first %> + <% endif %><< weight(down, r, place, "at_top", "at_bottom") >> * sums[<< place >>][i]<% else %>acc(0)<% endfor %>;
<% endfor %>
<% endif %>
<% for r in down.ending(b) %>
        store_pack(to + << r >> * out_width, packed<T>(result[<< r >>]));
<% endfor %>
<% endfor %>
    }
};

extern "C" __global__ void __launch_bounds__(<< block >>, << resident >>) << name >>(
    const T* __restrict__ x, T* __restrict__ y, index planes, index height, index width, index out_height, index out_width,
    const Groups of)
{
    index plane = index(blockIdx.x) * << block >> + threadIdx.x;
    const int group = take(plane, of.across);
    const index line = plane;
    const int band = take(plane, of.down);
    if (plane >= planes) return;
    const index top = index(band) * rows_apart + first_row, left = index(group) * columns_apart;
    const Part part = {
        x + (plane * height + top) * width + left, top, left, height, width,
        group == 0, group + 1 == of.across.by, band == 0, band + 1 == of.down.by};
    part.make(y + line * rows * out_width + index(group) * items, out_width);
}
