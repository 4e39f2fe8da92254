// y[i] = f(x0[i], x1[i], ...) in rows of `columns` elements, for the threads of a GPU.
// Along a row an operand steps by 1 ("unit", moved a pack of `width` at a time), by 0 ("zero") or by anything ("any").
// One that is `flat` lies in memory as the rows do, one that is `fixed` is the same for every row and loaded once.
// Launch: `lanes` threads along a row, `columns` in pieces along blockIdx.x; a thread loads `unroll` rows before it computes,
// and goes on by gridDim.y times the rows of a block. Whole warps do so together. `totals` are summed over the rows of a block,
// in an order that is always the same, into row blockIdx.y of t* (gridDim.y, columns); or `along` each row, which up to 32 lanes
// have, a power of two. Shared: those of a block's groups, if any.
<% from "elementwise/operands.cuh" import parameters, memory, same with context %>
<% include "prelude/math.cuh" %>
using index = << index >>;
using unsigned_index = << "unsigned int" if index == "int" else index >>;
constexpr int block = << block >>, lanes = << lanes >>, width = << width >>, unroll = << unroll >>, groups = block / lanes;
<% set varied = inputs | rejectattr("access", "equalto", "one") | list %>
<% set of_rows, of_columns = (totals, []) if along else ([], totals) %>
<% set strided = (varied + outputs + of_rows) | rejectattr("flat") | list %>
<% include "elementwise/operands.cuh" %>
<% include "prelude/issue_loads.cuh" %>
<% if strided %>
constexpr int outer = << outer >>, strided = << strided | length >>;
// Sizes of the outer axes, slowest first; steps of the operands that are not flat, in elements.
<< Layout >>
<% else %>
struct Layout {};
<% endif %>
// Where the operands have a row.
struct Row {
    index flat<< ", offset[strided]" if strided >>;

    __device__ __forceinline__ Row(const Layout& layout, index row, index columns) : flat(row * columns) {
<% if strided %>
        index at[outer];
        unsigned_index rest = row;
#pragma unroll
        for (int axis = outer - 1; axis > 0; --axis) {
            const unsigned_index next = quotient(rest, layout.by[axis]);
            at[axis] = index(rest - next * size_of(layout.by[axis]));
            rest = next;
        }
        at[0] = index(rest);
#pragma unroll
        for (int x = 0; x < strided; ++x) {
            offset[x] = at[0] * layout.stride[x][0];
#pragma unroll
            for (int axis = 1; axis < outer; ++axis) offset[x] += at[axis] * layout.stride[x][axis];
        }
<% endif %>
    }
};
<# Where an operand has the columns from j on. #>
<% macro address(x) %>row.<< "flat" if x.flat else "offset[%d]" % x.table >><< {"unit": " + j", "zero": "", "any": " + j * memory.layout.stride[%d][outer]" % x.table}[x.access] >><% endmacro %>
// What a thread has of inputs in a row: the elements of the columns from j on.
<% for name, some in (("Fixed", varied | selectattr("fixed") | list), ("Moving", varied | rejectattr("fixed") | list)) %>
struct << name >> {
<% for x in some %>
    << "Pack<%s, width>" % x.type if x.access == "unit" else x.type >> x<< x.k >>;
<% endfor %>

    __device__ __forceinline__ void load(const Memory& memory, const Row& row, index j) {
<% for x in some %>
        x<< x.k >> = << "::load<width>(memory.x%d + %s)" % (x.k, address(x)) if x.access == "unit" else "memory.x%d[%s]" % (x.k, address(x)) >>;
<% endfor %>
    }
};
<% endfor %>
constexpr bool moves = << "true" if varied | rejectattr("fixed") | list else "false" >>;
__device__ __forceinline__ Values values(const Same& same, const Fixed& fixed, const Moving& moving, int k) {
    return expression(same<% for x in varied %>, cast< << x.compute >> >(<< "fixed" if x.fixed else "moving" >>.x<< x.k >><< ".at[k]" if x.access == "unit" >>)<% endfor %>);
}
// A pack of each output that steps by 1; the others are stored one by one. And what a thread has of a row's sums.
struct Outputs {
<% for t in of_rows %>
    << t.compute >> t<< loop.index0 >>{};
<% endfor %>
<% for y in outputs if y.access == "unit" %>
    Pack< << y.type >>, width> y<< y.k - inputs | length >>;
<% endfor %>

    __device__ __forceinline__ void put(const Memory& memory, const Row& row, index j, int k, Values values) {
<% for y in outputs %>
        << "y%d.at[k]" % loop.index0 if y.access == "unit" else "memory.y%d[%s]" % (loop.index0, address(y)) >> = values.y<< loop.index0 >>;
<% endfor %>
<% for t in of_rows %>
        t<< loop.index0 >> += values.t<< loop.index0 >>;
<% endfor %>
    }
<% if of_rows %>
    // Stores the row's sums, of its lanes together.
    __device__ __forceinline__ void sum(const Memory& memory, const Row& row) {
        const int lane = int(threadIdx.x) % lanes;
        const unsigned int together = shl(~0u / shl(1u, 32 - lanes), int(threadIdx.x) % 32 - lane);
#pragma unroll
        for (int apart = lanes / 2; apart > 0; apart /= 2) {
<% for t in of_rows %>
            t<< loop.index0 >> += __shfl_xor_sync(together, t<< loop.index0 >>, apart);
<% endfor %>
        }
        if (lane > 0) return;
<% for t in of_rows %>
        memory.t<< loop.index0 >>[<< address(t) >>] = cast< << t.type >> >(t<< loop.index0 >>);
<% endfor %>
    }
<% endif %>
    __device__ __forceinline__ void store(const Memory& memory, const Row& row, index j) {
<% for y in outputs if y.access == "unit" %>
        ::store(memory.y<< y.k - inputs | length >> + << address(y) >>, y<< y.k - inputs | length >>);
<% endfor %>
    }
};
// The sums of what a thread has seen of each column.
struct Totals {
<% for t in of_columns %>
    << t.compute >> t<< loop.index0 >>[width]{};
<% endfor %>

    __device__ __forceinline__ void add(int k, Values values) {
<% for t in of_columns %>
        t<< loop.index0 >>[k] += values.t<< loop.index0 >>;
<% endfor %>
    }
    // Stores those of a block, whose threads all call it that have columns.
    __device__ __forceinline__ void store(const Memory& memory, index columns, index j) {
<% if of_columns and block > lanes %>
        const int lane = int(threadIdx.x) % lanes, group = int(threadIdx.x) / lanes;
<% for t in totals %>
        __shared__ << t.compute >> of_groups<< loop.index0 >>[(groups - 1) * width * lanes];
<% endfor %>
#pragma unroll
        for (int k = 0; k < width; ++k) {
            if (group == 0) break;
<% for t in totals %>
            of_groups<< loop.index0 >>[((group - 1) * width + k) * lanes + lane] = t<< loop.index0 >>[k];
<% endfor %>
        }
        __syncthreads();
        if (group > 0) return;
#pragma unroll
        for (int i = 0; i < (groups - 1) * width; ++i) {
<% for t in totals %>
            t<< loop.index0 >>[i % width] += of_groups<< loop.index0 >>[i * lanes + lane];
<% endfor %>
        }
<% endif %>
<% for t in of_columns %>
        Pack< << t.type >>, width> sums<< loop.index0 >>;
#pragma unroll
        for (int k = 0; k < width; ++k) sums<< loop.index0 >>.at[k] = cast< << t.type >> >(t<< loop.index0 >>[k]);
        store_pack(memory.t<< loop.index0 >> + (index(blockIdx.y) * columns + j), sums<< loop.index0 >>);
<% endfor %>
    }
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<< parameters() >>
    << "Layout layout," if strided >> << index >> rows, << index >> columns)
{
<% if of_rows %>
    const bool within = index(threadIdx.x) % lanes * width < columns;  // all lanes sum a row
    const index j = within ? index(threadIdx.x) % lanes * width : 0;
<% else %>
    constexpr bool within = true;
    const index j = (index(blockIdx.x) * lanes + index(threadIdx.x) % lanes) * width;
    if (j >= columns) return;
<% endif %>
    << "const Layout layout{};" if not strided >>
    const Memory memory{<< memory() >>layout};
    const Same same{<< same() >>};
    Fixed fixed;
    fixed.load(memory, Row(layout, 0, columns), j);
    Totals totals;
#pragma unroll 1
    for (index base = index(blockIdx.y) * (groups * unroll) + index(threadIdx.x) / lanes; base < rows;
         base += index(gridDim.y) * (groups * unroll)) {
        Moving moving[unroll];
        if constexpr (moves) {
#pragma unroll
            for (int u = 0; u < unroll; ++u)
                // Beyond the last row that is read again, and nothing is stored.
                moving[u].load(memory, Row(layout, minimum(base + u * groups, rows - 1), columns), j);
            issue_loads();
        }
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            if (base + u * groups >= rows) break;
            const Row row(layout, base + u * groups, columns);
            Outputs out;
#pragma unroll
            for (int k = 0; k < width && within; ++k) {
                const Values one = values(same, fixed, moving[u], k);
                out.put(memory, row, j, k, one);
                totals.add(k, one);
            }
            if (within) out.store(memory, row, j);
            << "out.sum(memory, row);" if of_rows >>
        }
    }
    totals.store(memory, columns, j);
}
