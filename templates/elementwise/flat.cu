// y[i] = f(x0[i], x1[i], ...) with all axes as one line of `total` elements, for the threads of a GPU.
// An operand is "flat" where it lies in memory as that line does, "one" where it is a single element, and "any" where
// its address follows from the indices along the axes. Operands that are flat are moved a pack of `width` at a time.
// Launch: a block owns `chunk` elements; a thread loads `unroll` packs of each input before it computes. The last block,
// which may lack elements, goes one by one. No shared memory.
<% from "elementwise/operands.cuh" import parameters, memory, same with context %>
<% include "prelude/math.cuh" %>
using index = << index >>;
using unsigned_index = << "unsigned int" if index == "int" else index >>;
constexpr int block = << block >>, width = << width >>, unroll = << unroll >>, chunk = << chunk >>;
<% set strided = (inputs + outputs) | selectattr("access", "equalto", "any") | list %>
<% include "elementwise/operands.cuh" %>
<% if strided %>
constexpr int axes = << axes >>, strided = << strided | length >>;
// Sizes of the axes, slowest first; steps of the operands that are not flat, in elements.
<< Layout >>
// The indices of an element along the axes, and the offsets of the strided operands there.
struct Walk {
    index at[axes], offset[strided];

    __device__ __forceinline__ Walk(const Layout& layout, unsigned_index e) {
#pragma unroll
        for (int axis = axes - 1; axis > 0; --axis) {
            const unsigned_index next = quotient(e, layout.by[axis]);
            at[axis] = index(e - next * size_of(layout.by[axis]));
            e = next;
        }
        at[0] = index(e);
#pragma unroll
        for (int x = 0; x < strided; ++x) {
            offset[x] = at[0] * layout.stride[x][0];
#pragma unroll
            for (int axis = 1; axis < axes; ++axis) offset[x] += at[axis] * layout.stride[x][axis];
        }
    }
    // On to the next element.
    __device__ __forceinline__ void advance(const Layout& layout) {
#pragma unroll
        for (int axis = axes - 1; axis >= 0; --axis) {
#pragma unroll
            for (int x = 0; x < strided; ++x) offset[x] += layout.stride[x][axis];
            if (axis == 0 || ++at[axis] != size_of(layout.by[axis])) break;
            at[axis] = 0;
#pragma unroll
            for (int x = 0; x < strided; ++x) offset[x] -= index(size_of(layout.by[axis])) * layout.stride[x][axis];
        }
    }
};
<% else %>
struct Layout {};
struct Walk {
    __device__ __forceinline__ Walk(const Layout&, index) {}
    __device__ __forceinline__ void advance(const Layout&) {}
};
<% endif %>
// A pack's worth of each input.
struct Inputs {
<% for x in inputs if x.access != "one" %>
    Pack< << x.type >>, width> x<< x.k >>;
<% endfor %>

    __device__ __forceinline__ void load(const Memory& memory, index e) {
<% for x in inputs if x.access == "flat" %>
        x<< x.k >> = ::load<width>(memory.x<< x.k >> + e);
<% endfor %>
<% if "any" in inputs | map(attribute="access") %>
        Walk walk(memory.layout, e);
#pragma unroll
        for (int k = 0; k < width; ++k) {
<% for x in inputs if x.access == "any" %>
            x<< x.k >>.at[k] = memory.x<< x.k >>[walk.offset[<< x.table >>]];
<% endfor %>
            walk.advance(memory.layout);
        }
<% endif %>
    }
    __device__ __forceinline__ Values values(const Same& same, int k) const {
        return expression(same<% for x in inputs if x.access != "one" %>, cast< << x.compute >> >(x<< x.k >>.at[k])<% endfor %>);
    }
};
// A pack of each output that is flat; the others are stored one by one.
struct Outputs {
<% for y in outputs if y.access == "flat" %>
    Pack< << y.type >>, width> y<< y.k - inputs | length >>;
<% endfor %>

    __device__ __forceinline__ void put(const Memory& memory, const Walk& walk, int k, Values values) {
<% for y in outputs %>
        << "y%d.at[k]" % loop.index0 if y.access == "flat" else "memory.y%d[walk.offset[%d]]" % (loop.index0, y.table) >> = values.y<< loop.index0 >>;
<% endfor %>
    }
    __device__ __forceinline__ void store(const Memory& memory, index e) {
<% for y in outputs if y.access == "flat" %>
        ::store(memory.y<< y.k - inputs | length >> + e, y<< y.k - inputs | length >>);
<% endfor %>
    }
};
__device__ __forceinline__ void one_by_one(const Memory& memory, const Same& same, index e) {
    const Walk walk(memory.layout, e);
    const Values values = expression(same<% for x in inputs if x.access != "one" %>, cast< << x.compute >> >(memory.x<< x.k >>[<< "e" if x.access == "flat" else "walk.offset[%d]" % x.table >>])<% endfor %>);
<% for y in outputs %>
    memory.y<< loop.index0 >>[<< "e" if y.access == "flat" else "walk.offset[%d]" % y.table >>] = values.y<< loop.index0 >>;
<% endfor %>
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<< parameters() >>
    << "Layout layout," if strided >> << index >> total)
{
    << "const Layout layout{};" if not strided >>
    const Memory memory{<< memory() >>layout};
    const Same same{<< same() >>};
    const index start = index(blockIdx.x) * chunk;
    if (width * unroll > 1 && start + chunk <= total) {
        const index first = start + index(threadIdx.x) * width;
        Inputs in[unroll];
#pragma unroll
        for (int u = 0; u < unroll; ++u) in[u].load(memory, first + u * block * width);
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            const index e = first + u * block * width;
            Walk walk(layout, e);
            Outputs out;
#pragma unroll
            for (int k = 0; k < width; ++k) {
                out.put(memory, walk, k, in[u].values(same, k));
                walk.advance(layout);
            }
            out.store(memory, e);
        }
        return;
    }
#pragma unroll 1
    for (index e = start + index(threadIdx.x); e < total; e += block) {
        one_by_one(memory, same, e);
        if (width * unroll == 1) break;
    }
}
