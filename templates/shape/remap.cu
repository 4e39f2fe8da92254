// y[i, j, ...] = x[i - before[0], j - before[1], ...]; where a place is outside of x, y has
<% if beyond == "constant" %>
// `low` in front of x and `high` behind it.
<% else %>
// what is inside << {"edge": "nearest to it", "wrap": "when x is a circle", "reflect": "when x is mirrored at its ends", "symmetric": "when x is mirrored behind its ends"}[beyond] >>.
<% endif %>
// y in C order, x of any strides; an element is moved as << elem >>, whatever it holds. The axes are `rows` (the outer ones
// together) by `columns`. Launch: << lanes >> threads share a row; such a group owns `rows_piece` rows and `piece` columns of
// each. Groups of columns lie along blockIdx.y, or along blockIdx.x where there is one row. No shared memory.
<% set step = "" if unit else " * layout.step[%d]" % outer %>

// Sizes of y's outer axes; for each axis the size of x, the places of y before it, and the step of x in elements.
struct Layout {
    << index >> << "shape[%d], " % outer if outer >>size[<< outer + 1 >>], before[<< outer + 1 >>], step[<< outer + 1 >>];
};
<% if beyond != "constant" %>

// The place in an axis of n places that stands for p.
template <typename I>
__device__ __forceinline__ I inside(I p, I n) {
    if (p >= 0 && p < n) return p;
<% if beyond == "edge" %>
    return p < 0 ? I(0) : n - 1;
<% else %>
<% if beyond == "reflect" %>
    if (n == 1) return I(0);
<% endif %>
    const I period = << {"wrap": "n", "reflect": "2 * (n - 1)", "symmetric": "2 * n"}[beyond] >>;
    p %= period;
    if (p < 0) p += period;
    return << {"wrap": "p", "reflect": "p < n ? p : period - p", "symmetric": "p < n ? p : period - 1 - p"}[beyond] >>;
<% endif %>
}
<% endif %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* __restrict__ x, << elem >>* __restrict__ y, << "%s low, %s high, " % (elem, elem) if beyond == "constant" >>Layout layout,
    << index >> rows, << index >> rows_piece, << index >> columns, << index >> piece)
{
    using index = << index >>;
    const index group = (index(blockIdx.x) * << block >> + index(threadIdx.x)) / << lanes >>;
    const index lane = index(threadIdx.x) % << lanes >>;
    const index start = << "index(blockIdx.y)" if outer else "group" >> * piece;
    const index end = minimum(columns, start + piece);
    const index size = layout.size[<< outer >>], before = layout.before[<< outer >>];
    const index first = minimum(end, maximum(start, before)), last = minimum(end, maximum(start, before + size));
<% if outer %>
    const index end_row = minimum(rows, (group + 1) * rows_piece);
    for (index row = group * rows_piece; row < end_row; ++row) {
        index i = row, offset = 0;
<% if beyond == "constant" %>
        int outside = 0;
<% endif %>
<% for axis in range(outer - 1, -1, -1) %>
        const index p<< axis >> = i<< " %% layout.shape[%d]" % axis if axis >> - layout.before[<< axis >>];
<% if axis %>
        i /= layout.shape[<< axis >>];
<% endif %>
<% if beyond == "constant" %>
        if (p<< axis >> < 0 || p<< axis >> >= layout.size[<< axis >>]) outside = p<< axis >> < 0 ? -1 : 1;
        offset += p<< axis >> * layout.step[<< axis >>];
<% else %>
        offset += inside(p<< axis >>, layout.size[<< axis >>]) * layout.step[<< axis >>];
<% endif %>
<% endfor %>
        << elem >>* to = y + row * columns;
<% if beyond == "constant" %>
        if (outside) {
            for (index j = start + lane; j < end; j += << lanes >>) to[j] = outside < 0 ? low : high;
            continue;
        }
<% endif %>
        const << elem >>* from = x + offset;
<% else %>
    {
        << elem >>* to = y;
        const << elem >>* from = x;
<% endif %>
<% if beyond == "wrap" %>
        // Once around at most, as a roll is, there is no remainder to take.
        if (before <= size && columns - before <= 2 * size) {
            for (index j = start + lane; j < first; j += << lanes >>) to[j] = from[(j - before + size)<< step >>];
            for (index j = first + lane; j < last; j += << lanes >>) to[j] = from[(j - before)<< step >>];
            for (index j = last + lane; j < end; j += << lanes >>) to[j] = from[(j - before - size)<< step >>];
            << "continue" if outer else "return" >>;
        }
<% endif %>
        for (index j = start + lane; j < first; j += << lanes >>)
            to[j] = << "low" if beyond == "constant" else "from[inside(j - before, size)%s]" % step >>;
        for (index j = first + lane; j < last; j += << lanes >>) to[j] = from[(j - before)<< step >>];
        for (index j = last + lane; j < end; j += << lanes >>)
            to[j] = << "high" if beyond == "constant" else "from[inside(j - before, size)%s]" % step >>;
    }
}
