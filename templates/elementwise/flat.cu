// y[i] = f(x0[i], x1[i], ...) with all axes as one line of `total` elements, for the threads of a GPU.
// An operand is "flat" where it lies in memory as that line does, "one" where it is a single element, and "any" where
// its place follows from the indices along the axes. Operands that are flat are moved << width >> elements at a time.
// Launch: a block owns << chunk >> elements; a thread loads << unroll >> packs of each input before it computes. The last
// block, which may lack elements, goes one by one. No shared memory.
<% from "elementwise/operands.cuh" import parameters, memory, constants, computed with context %>
<% include "prelude/math.cuh" %>
<% include "elementwise/operands.cuh" %>
<% set operands = inputs + outputs %>
<% set placed = operands | selectattr("place", "equalto", "any") | list %>
<% set read = inputs | selectattr("place", "equalto", "any") | list %>
<% set written = outputs | selectattr("place", "equalto", "any") | list %>
<% set unsigned = "unsigned int" if index == "int" else index %>
<# The indices c1, c2, ... of the element e, and where the operands of `some` have it. #>
<% macro indices(some) %>
<% if axes > 1 %>
            << unsigned >> rest = e;
<% endif %>
<% for axis in range(axes - 1, 0, -1) %>
            const << unsigned >> q<< axis >> = quotient(rest, layout.by[<< axis >>]);
            index c<< axis >> = index(rest - q<< axis >> * size_of(layout.by[<< axis >>]));
            rest = q<< axis >>;
<% endfor %>
<% for x in some %>
            index o<< x.k >> = index(<< "rest" if axes > 1 else "e" >>) * layout.stride[<< x.table >>][0]<% for axis in range(1, axes) %> + c<< axis >> * layout.stride[<< x.table >>][<< axis >>]<% endfor %>;
<% endfor %>
<%- endmacro %>
<# On to the next element. #>
<% macro advance(some, axis) %>
<% for x in some %>
                o<< x.k >> += layout.stride[<< x.table >>][<< axis >>];
<% endfor %>
<% if axis %>
                if (++c<< axis >> == size_of(layout.by[<< axis >>])) {
                    c<< axis >> = 0;
<% for x in some %>
                    o<< x.k >> -= index(size_of(layout.by[<< axis >>])) * layout.stride[<< x.table >>][<< axis >>];
<% endfor %>
<< advance(some, axis - 1) >>
                }
<% endif %>
<%- endmacro %>
<% if placed %>

// Sizes of the axes, slowest first; steps of the operands that are not flat, in elements.
struct Layout {
    << "Divisor" if index == "int" else index >> by[<< axes >>];
    << index >> stride[<< placed | length >>][<< axes >>];
};
<% endif %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<< parameters() >>
<% if placed %>
    Layout layout,
<% endif %>
    << index >> total)
{
    using index = << index >>;
    const index start = index(blockIdx.x) * << chunk >>;
<< constants() >>
<% if width * unroll > 1 %>
    if (start + << chunk >> <= total) {
        const index first = start + index(threadIdx.x) * << width >>;
<% for x in inputs if x.place == "flat" %>
        Pack< << x.type >>, << width >>> p<< x.k >>[<< unroll >>];
<% endfor %>
<% for x in read %>
        << x.type >> g<< x.k >>[<< unroll * width >>];
<% endfor %>
<% if inputs | rejectattr("place", "equalto", "one") | list %>
#pragma unroll
        for (int u = 0; u < << unroll >>; ++u) {
            const index e = first + u * << block * width >>;
<% for x in inputs if x.place == "flat" %>
            p<< x.k >>[u] = load< << width >> >(<< memory(x) >> + e);
<% endfor %>
<% if read %>
<< indices(read) >>
#pragma unroll
            for (int k = 0; k < << width >>; ++k) {
<% for x in read %>
                g<< x.k >>[u * << width >> + k] = << memory(x) >>[o<< x.k >>];
<% endfor %>
<< advance(read, axes - 1) >>
            }
<% endif %>
        }
<% endif %>
#pragma unroll
        for (int u = 0; u < << unroll >>; ++u) {
            const index e = first + u * << block * width >>;
<% for y in outputs if y.place == "flat" %>
            Pack< << y.type >>, << width >>> r<< loop.index0 >>;
<% endfor %>
<% if written %>
<< indices(written) >>
<% endif %>
#pragma unroll
            for (int k = 0; k < << width >>; ++k) {
<% for x in inputs if x.place != "one" %>
                const << x.compute >> a<< x.k >> = cast< << x.compute >> >(<< "p%d[u].at[k]" % x.k if x.place == "flat" else "g%d[u * %d + k]" % (x.k, width) >>);
<% endfor %>
<< computed() >>
<% for y in outputs %>
                << "r%d.at[k]" % loop.index0 if y.place == "flat" else "y%d[o%d]" % (loop.index0, y.k) >> = cast< << y.type >> >(<< y.value >>);
<% endfor %>
<% if written %>
<< advance(written, axes - 1) >>
<% endif %>
            }
<% for y in outputs if y.place == "flat" %>
            store(y<< loop.index0 >> + e, r<< loop.index0 >>);
<% endfor %>
        }
        return;
    }
<% endif %>
#pragma unroll 1
    for (index e = start + index(threadIdx.x); e < total; e += << block >>) {
<% if placed %>
<< indices(placed) >>
<% endif %>
<% for x in inputs if x.place != "one" %>
                const << x.compute >> a<< x.k >> = cast< << x.compute >> >(<< memory(x) >>[<< "e" if x.place == "flat" else "o%d" % x.k >>]);
<% endfor %>
<< computed() >>
<% for y in outputs %>
                y<< loop.index0 >>[<< "e" if y.place == "flat" else "o%d" % y.k >>] = cast< << y.type >> >(<< y.value >>);
<% endfor %>
<% if width * unroll == 1 %>
                break;
<% endif %>
    }
}
