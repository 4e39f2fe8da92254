// y = << kind >> along rows of `columns` elements: of x0, or as << kind >>_vjp the cotangent of its input from x0, that of
// its result, and x1, the result. All (rows, columns), in C order and aligned to packs of << width >> elements.
// Launch: block / threads rows a block, or a row a cluster of blocks. A thread keeps << chunks >> pack(s) of each array, in
// registers for << resident >> block(s) a multiprocessor.
// Shared: the states of warps and of the block. An element is read once and written once.
<% set forward = not kind.endswith("_vjp") %>
<% set logs = kind.startswith("log") %>
<% include "prelude/math.cuh" %>
<% include "prelude/reduce.cuh" %>
<% include "prelude/packs.cuh" %>
using elem = << elem >>;
using index = << index >>;
<% if forward %>
<% include "lib/exponents.cuh" %>
<% else %>
<% include "prelude/exponential.cuh" %>
using RowState = acc;
__device__ __forceinline__ RowState row_join(RowState a, RowState b) { return a + b; }
<% include "lib/row.cuh" %>
<% endif %>
<% from "lib/chunks.cuh" import each_chunk with context %>
<# With x the elements of a pack; of a derivative, g and z, those of both arrays. They are kept as they lie in memory, so
   that a half type takes half the registers. #>
<% macro each(after="") %>
<% set body = caller() | trim %>
<% call each_chunk() %>
acc << "x" if forward else "g" >>[<< width >>];
        unpack(x0_held[chunk], << "x" if forward else "g" >><< ", true" if after >>);
<% if not forward and (after or not logs) %>
        acc z[<< width >>];
        unpack(x1_held[chunk], z<< ", true" if after >>);
<% endif %>
#pragma unroll
        for (int v = 0; v < << width >>; ++v) {
            << body >>
        }
        << after >>
<% endcall %>
<% endmacro %>
<% macro store(x) %>if (row < rows) store_pack(y + at + start, packed<elem>(<< x >>));<% endmacro %>

extern "C" __global__ void<< " __cluster_dims__(%d, 1, 1)" % cluster if cluster > 1 >> __launch_bounds__(<< block >>, << resident >>) << name >>(
    const elem* x0, << "" if forward else "const elem* x1, " >>elem* y,
    << index >> rows, << index >> columns)
{
    const index row = index(row_team()) * row_groups + row_group();
    int phase = 0;
    // Beyond the last row its work is done again, and not stored.
    const index at = minimum(row, rows - 1) * columns;
    Pack<elem, << width >>> x0_held[<< chunks >>]<< "" if forward else ", x1_held[%d]" % chunks >>;
<% for k in range(1 if forward else 2) %>
<% call each_chunk() %>
x<< k >>_held[chunk] = load_pack< << width >> >(x<< k >> + at + start);
<% endcall %>
<% endfor %>
<% if forward %>
    acc peaks[<< width >>], sums[<< width >>] = {};
    Pack<elem, << width >>> top;
    for (int v = 0; v < << width >>; ++v) top.at[v] = cast<elem>(limits<acc>::lowest());
<% call each_chunk() %>
top = larger(top, x0_held[chunk]);
<% endcall %>
    unpack(top, peaks);
    for (int v = 1; v < << width >>; ++v) peaks[0] = maximum(peaks[0], peaks[v]);
    const Exponents below(peaks[0]);
<% call each() %>
sums[v] += below(x[v]);
<% endcall %>
    for (int v = 1; v < << width >>; ++v) sums[0] += sums[v];
    const RowState total = row_total({peaks[0], sums[0]}, phase);
    // For a half type a power of two: the digits that this costs are more than it has.
    const acc scale = << "log(total.sum)" if logs else "log2(total.sum)" if half else "acc(1) / total.sum" >>;
    row_end();
<% call each(store("x")) %>
x[v] = << "x[v] - total.peak - scale" if logs else "power_of_two((x[v] - total.peak) * acc(1.44269504) - scale)" if half else "exp(x[v] - total.peak) * scale" >>;
<% endcall %>
<% else %>
    acc sums[<< width >>] = {};
<% call each() %>
sums[v] += << "g[v]" if logs else "g[v] * z[v]" >>;
<% endcall %>
    for (int v = 1; v < << width >>; ++v) sums[0] += sums[v];
    const acc total = row_reduce(sums[0], phase);
    row_end();
<% call each(store("g")) %>
g[v] = << "g[v] - exp_of(z[v]) * total" if logs else "z[v] * (g[v] - total)" >>;
<% endcall %>
<% endif %>
}
