// y[i] = f(x0[i], x1[i], ...) in rows of `columns` elements, for the threads of a GPU.
// Along a row an operand steps by 1 ("unit", moved << width >> elements at a time), by 0 ("zero") or by anything ("any").
// One that is `flat` lies in memory as the rows do, one that is `fixed` is the same for every row and loaded once.
// Launch: << lanes >> threads along a row, `columns` in pieces along blockIdx.x; a thread loads << unroll >> rows before it
// computes, and goes on by gridDim.y times the rows of a block. Whole warps do so together. No shared memory.
<% from "elementwise/operands.cuh" import parameters, memory, constants, computed with context %>
<% include "prelude/math.cuh" %>
<% include "elementwise/operands.cuh" %>
<% include "prelude/issue_loads.cuh" %>
<% set operands = inputs + outputs %>
<% set placed = operands | rejectattr("place", "equalto", "one") | rejectattr("flat") | list %>
<% set moving = inputs | rejectattr("place", "equalto", "one") | rejectattr("fixed") | list %>
<% set fixed = inputs | rejectattr("place", "equalto", "one") | selectattr("fixed") | list %>
<% set groups = block // lanes %>
<% set unsigned = "unsigned int" if index == "int" else index %>
<# Where the operands of `some` have the row. #>
<% macro offsets(some) %>
<% if outer > 1 and some | rejectattr("flat") | list %>
            << unsigned >> rest = row;
<% for axis in range(outer - 1, 0, -1) %>
            const << unsigned >> q<< axis >> = quotient(rest, layout.by[<< axis >>]);
            const index c<< axis >> = index(rest - q<< axis >> * size_of(layout.by[<< axis >>]));
            rest = q<< axis >>;
<% endfor %>
<% endif %>
<% for x in some %>
<% if x.flat %>
            const index o<< x.k >> = row * columns;
<% else %>
            const index o<< x.k >> = index(<< "rest" if outer > 1 else "row" >>) * layout.stride[<< x.table >>][0]<% for axis in range(1, outer) %> + c<< axis >> * layout.stride[<< x.table >>][<< axis >>]<% endfor %>;
<% endif %>
<% endfor %>
<%- endmacro %>
<% macro held(x, count) %>
<% if x.place == "unit" %>Pack< << x.type >>, << width >>> p<< x.k >><% else %><< x.type >> p<< x.k >><% endif %><< "[%d]" % count if count else "" >>
<%- endmacro %>
<% macro loaded(x, offset) %>
<% if x.place == "unit" %>load< << width >> >(<< memory(x) >> + << offset >>j)<% elif x.place == "zero" %><< memory(x) >>[<< offset >>0]<% else %><< memory(x) >>[<< offset >>j * layout.stride[<< x.table >>][<< outer >>]]<% endif %>
<%- endmacro %>
<% if placed %>

// Sizes of the outer axes, slowest first; steps of the operands that are not flat, in elements.
struct Layout {
    << "Divisor" if index == "int" else index >> by[<< outer >>];
    << index >> stride[<< placed | length >>][<< outer + 1 >>];
};
<% endif %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<< parameters() >>
<% if placed %>
    Layout layout,
<% endif %>
    << index >> rows, << index >> columns)
{
    using index = << index >>;
    const index j = (index(blockIdx.x) * << lanes >> + index(threadIdx.x) % << lanes >>) * << width >>;
    if (j >= columns) return;
<< constants() >>
<% for x in fixed %>
    const << held(x, 0) | trim >> = << loaded(x, "") | trim >>;
<% endfor %>
#pragma unroll 1
    for (index base = index(blockIdx.y) * << groups * unroll >> + index(threadIdx.x) / << lanes >>; base < rows;
         base += index(gridDim.y) * << groups * unroll >>) {
<% for x in moving %>
        << held(x, unroll) | trim >>;
<% endfor %>
<% if moving %>
#pragma unroll
        for (int u = 0; u < << unroll >>; ++u) {
            // Beyond the last row that is read again, and nothing is stored.
            const index row = minimum(base + u * << groups >>, rows - 1);
<< offsets(moving) >>
<% for x in moving %>
            p<< x.k >>[u] = << loaded(x, "o%d + " % x.k) | trim >>;
<% endfor %>
        }
        issue_loads();
<% endif %>
#pragma unroll
        for (int u = 0; u < << unroll >>; ++u) {
            const index row = base + u * << groups >>;
            if (row >= rows) break;
<< offsets(outputs) >>
<% for y in outputs if y.place == "unit" %>
            Pack< << y.type >>, << width >>> r<< y.k >>;
<% endfor %>
#pragma unroll
            for (int k = 0; k < << width >>; ++k) {
<% for x in inputs if x.place != "one" %>
                const << x.compute >> a<< x.k >> = cast< << x.compute >> >(p<< x.k >><< "" if x.fixed else "[u]" >><< ".at[k]" if x.place == "unit" else "" >>);
<% endfor %>
<< computed() >>
<% for y in outputs %>
                << "r%d.at[k]" % y.k if y.place == "unit" else "y%d[o%d + j * layout.stride[%d][%d]]" % (loop.index0, y.k, y.table, outer) >> = cast< << y.type >> >(<< y.value >>);
<% endfor %>
            }
<% for y in outputs if y.place == "unit" %>
            store(y<< loop.index0 >> + o<< y.k >> + j, r<< y.k >>);
<% endfor %>
        }
    }
}
