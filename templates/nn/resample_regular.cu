// y[p, i, j] = the sum over rows and columns of a part of x of down[i, row] * across[j, column] * x[p, row, column], where groups of
// `rows` rows of y read parts of x that are equally far apart, with the same weights but for the first and the last group, and
// groups of `items` columns likewise: interpolation by simple ratios, averages over equal windows, and their transposes. What a
// part has beyond the ends of x counts as 0; where a weight is 0 nothing is taken, not even NaN.
// x (planes, height, width), y (planes, out_height, out_width), contiguous, aligned to a group's columns, x to its packs.
// Launch: a thread makes a group of rows by a group of columns, << block >> threads a block. Shared: none. No atomics.
<% include "prelude/packs.cuh" %>
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
    __device__ __forceinline__ void load(const T* row, index first, size width) {
<% for place, wide in packs %>
        <% if place < 0 or place + wide > across.apart %>if (size(first + << place >>) < width) <% endif %>at_<< loop.index0 >> = load_pack<(<< wide >>)>(row + (first + << place >>));
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

// The rows of y from what the rows of x come to along the columns. Each is stored once its last row of x is summed.
__device__ __forceinline__ void make(
    T* to, index out_width, const Columns (&parts)[rows_of_x], bool at_left, bool at_right, bool at_top, bool at_bottom)
{
    acc sums[rows_of_x][items], made[items];
<% for b in range(down.reach) %>
    parts[<< b >>].sum(sums[<< b >>], at_left, at_right);
<% for r in down.ending(b) %>
#pragma unroll
    for (int i = 0; i < items; ++i)
        made[i] = <% for place in down.terms[r] %><% if not loop.first %> + <% endif %><< weight(down, r, place, "at_top", "at_bottom") >> * sums[<< place >>][i]<% else %>acc(0)<% endfor %>;
    store_pack(to + << r >> * out_width, packed<T>(made));
<% endfor %>
<% endfor %>
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ x, T* __restrict__ y, index planes, index height, index width, index out_height, index out_width)
{
    const size groups = out_width / items, bands = out_height / rows;
    const size thread = size(blockIdx.x) * << block >> + size(threadIdx.x), line = thread / groups, plane = line / bands;
    if (plane >= size(planes)) return;
    const size group = thread - line * groups, band = line - plane * bands;
    const bool at_left = group == 0, at_right = group + 1 == groups, at_top = band == 0, at_bottom = band + 1 == bands;
    const index top = index(band) * rows_apart + first_row, left = index(group) * columns_apart;
    const T* const from = x + index(plane) * height * width;
    T* const to = y + index(line) * rows * out_width + index(group) * items;
    Columns parts[rows_of_x] = {};
#pragma unroll
    for (int b = 0; b < rows_of_x; ++b) {
        if (rows_inside || size(top + b) < size(height)) parts[b].load(from + (top + b) * width, left, width);
    }
    make(to, out_width, parts, at_left, at_right, at_top, at_bottom);
}
