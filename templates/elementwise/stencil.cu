// y[i] = f(x0[i], x1[i], ...) in rows of `columns` elements where several inputs are views of one array, shifted by a few
// rows and columns, for the threads of a GPU. A thread computes a patch of `height` rows by `width` columns, and loads what
// its neighbours in the patch read too once. The inputs are in `groups` of views of one array: what a patch reads of one is
// in `lines`, rows of that array from which pieces of `width` or single elements are loaded.
// A patch at the end of the rows moves up and stores what is new. Of the columns, only those that a view has are read.
// Launch: `lanes` threads along a row, a multiple of 32, and patches below one another for the rest of the block; blocks
// along the columns, then along `strips` of `height` rows. Outputs are "single" for patches of one column, else in a "pack"
// where memory is aligned to it, else "staged" in shared memory for a warp to store them side by side.
<% from "elementwise/operands.cuh" import parameters, memory, same with context %>
<% include "prelude/math.cuh" %>
using index = << index >>;
using unsigned_index = << "unsigned int" if index == "int" else index >>;
constexpr int block = << block >>, lanes = << lanes >>, width = << width >>, height = << height >>;
<% set staged = outputs | selectattr("access", "equalto", "staged") | list %>
<% include "elementwise/operands.cuh" %>
<% include "prelude/issue_loads.cuh" %>
constexpr int outer = << outer >>, strided = << groups | length + outputs | length >>;
// Sizes of the outer axes, slowest first, the last one in strips; steps of the groups and outputs, in elements.
<< Layout >>
// Where a strip is: its first row that is new, the first row of its patches, and there the offsets of groups and outputs.
struct Strip {
    index begin, row, offset[strided];

    __device__ __forceinline__ Strip(const Layout& layout, index strip, index rows) {
        index at[outer];
        unsigned_index rest = strip;
#pragma unroll
        for (int axis = outer - 1; axis > 0; --axis) {
            const unsigned_index next = quotient(rest, layout.by[axis]);
            at[axis] = index(rest - next * size_of(layout.by[axis]));
            rest = next;
        }
        at[0] = index(rest);
        begin = at[outer - 1] * height;
        at[outer - 1] = row = minimum(begin, rows - height);
#pragma unroll
        for (int x = 0; x < strided; ++x) {
            offset[x] = at[0] * layout.stride[x][0];
#pragma unroll
            for (int axis = 1; axis < outer; ++axis) offset[x] += at[axis] * layout.stride[x][axis];
        }
    }
};
// A column of a group that a view has, the nearest to j.
__device__ __forceinline__ index within(index j, index first, index last) { return minimum(maximum(j, first), last); }
<# The offset of a line of a group. #>
<% macro start(g, line) %>strip.offset[<< g.table >>]<% for axis, n in line.shifts %> + << n >> * layout.stride[<< g.table >>][<< axis >>]<% endfor %> - << g.phase >><% endmacro %>
<# The place of a column in a line. #>
<% macro column(g, j) %><< j >><< " * layout.stride[%d][outer]" % g.table if g.any >><% endmacro %>
// What a patch reads of each group.
struct Window {
<% for g in groups %>
    Pack< << inputs[g.k].type >>, << g.width >> > g<< loop.index0 >>[<< g.lines | length >>][<< g.pieces >>];
<% endfor %>

    __device__ __forceinline__ void load(const Memory& memory, const Strip& strip, index j, index columns) {
        const Layout& layout = memory.layout;
<% if width > 1 %>
        // Whether all of it is between the first column and the last that a view has.
        const bool inner = j >= << first >> && j + << last >> <= columns;
<% endif %>
<% for inner in (true, false) if inner or width > 1 %>
        << "if (inner) {" if inner and width > 1 else "} else {" if not inner >>
<% for g in groups %>
<% set number = loop.index0 %>
<% for line in g.lines if line.chunks %>
        {
            const << inputs[g.k].type >>* from = memory.x<< g.k >> + (<< start(g, line) >>);
<% for q in line.chunks %>
<% if inner and g.width > 1 %>
            g<< number >>[<< line.at >>][<< q - g.least >>] = ::load< << g.width >> >(from + (j + << q * g.width >>));
<% elif inner %>
            g<< number >>[<< line.at >>][<< q - g.least >>].at[0] = from[<< column(g, "(j + %d)" % q) >>];
<% else %>
#pragma unroll
            for (int e = 0; e < << g.width >>; ++e)
                g<< number >>[<< line.at >>][<< q - g.least >>].at[e] = from[<< column(g, "within(j + %d + e, %d, columns + %d)" % (q * g.width, line.first, line.last)) >>];
<% endif %>
<% endfor %>
        }
<% endfor %>
<% endfor %>
<% endfor %>
        << "}" if width > 1 >>
    }
    __device__ __forceinline__ Values values(const Same& same, int r, int c) const {
        return expression(same<% for x in inputs if x.access != "one" %>, cast< << x.compute >> >(g<< x.group >>[<< x.line >> + r][(c + << x.column >>) / << x.width >>].at[(c + << x.column >>) % << x.width >>])<% endfor %>);
    }
};
// A patch of each output.
struct Outputs {
<% for y in outputs %>
    Pack< << y.type >>, width> y<< loop.index0 >>[height];
<% endfor %>

    __device__ __forceinline__ void put(int r, int c, Values values) {
<% for y in outputs %>
        y<< loop.index0 >>[r].at[c] = values.y<< loop.index0 >>;
<% endfor %>
    }
    // Stores the patch; whole warps do so where outputs are staged.
    __device__ __forceinline__ void store(const Memory& memory, const Strip& strip, index j, index columns) const {
<% if staged %>
        const int thread = int(threadIdx.x), lane = thread % 32;
<% for y in staged %>
        __shared__ __align__(16) << y.type >> staged<< y.k >>[height][block * width];
#pragma unroll
        for (int r = 0; r < height; ++r) store_pack(&staged<< y.k >>[r][thread * width], y<< y.k - inputs | length >>[r]);
<% endfor %>
        __syncwarp();
<% endif %>
#pragma unroll
        for (int r = 0; r < height; ++r) {
            if (strip.row + r < strip.begin) continue;
<% for y in outputs %>
<% set to = "memory.y%d + (strip.offset[%d] + r * memory.layout.stride[%d][outer - 1]" % (loop.index0, y.table, y.table) %>
<% if y.access == "single" %>
            *(<< to >> + j)) = y<< loop.index0 >>[r].at[0];
<% elif y.access == "pack" %>
            if (j + width <= columns) {
                ::store(<< to >> + j), y<< loop.index0 >>[r]);
            } else {
#pragma unroll
                for (int c = 0; c < width; ++c)
                    if (j + c < columns) *(<< to >> + j + c)) = y<< loop.index0 >>[r].at[c];
            }
<% else %>
#pragma unroll
            for (int c = 0; c < width; ++c) {
                const index i = j + c * 32 - lane * (width - 1);
                if (i < columns) *(<< to >> + i)) = staged<< y.k >>[r][(thread - lane) * width + c * 32 + lane];
            }
<% endif %>
<% endfor %>
        }
    }
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<< parameters() >>
    Layout layout, << index >> rows, << index >> columns, << index >> strips)
{
    const index number = index(blockIdx.y) * (block / lanes) + index(threadIdx.x) / lanes;
    const index j = (index(blockIdx.x) * lanes + index(threadIdx.x) % lanes) * width;
    if (number >= strips<< " || j >= columns" if not staged >>) return;
    const Memory memory{<< memory() >>layout};
    const Same same{<< same() >>};
    const Strip strip(layout, number, rows);
    Window window;
    window.load(memory, strip, j, columns);
    issue_loads();
    Outputs out;
#pragma unroll
    for (int r = 0; r < height; ++r) {
#pragma unroll
        for (int c = 0; c < width; ++c) out.put(r, c, window.values(same, r, c));
    }
    out.store(memory, strip, j, columns);
}
