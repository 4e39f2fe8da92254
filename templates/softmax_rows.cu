// y = << kind >> along rows of `columns` elements: of x0, or as << kind >>_vjp the cotangent of its input from x0, that of
// its result, and x1, the result. All (rows, columns), in C order and aligned to packs of << width >> elements.
// Launch: block / threads rows a block, or a row a cluster of blocks. A thread keeps << chunks >> pack(s) of each array.
// Shared: the states of warps and of the block. An element is read once and written once.
<% set forward = not kind.endswith("_vjp") %>
<% set logs = kind.startswith("log") %>
<# Of half types a thread keeps the exponentials, which costs less than to compute them again. #>
<% set kept = half and forward and not logs %>
<% include "prelude/math.cuh" %>
<% include "prelude/reduce.cuh" %>
<% include "nn/packs.cuh" %>
using elem = << elem >>;
using index = << index >>;
<% if forward %>
<% include "nn/exponents.cuh" %>
<% else %>
<% include "nn/exponential.cuh" %>
using RowState = acc;
__device__ __forceinline__ RowState row_join(RowState a, RowState b) { return a + b; }
<% include "nn/row.cuh" %>
<% endif %>
<% macro each() %>
#pragma unroll
    for (int chunk = 0; chunk < << chunks >>; ++chunk) {
<% if not exact %>
        if ((chunk * << threads >> + row_lane()) * << width >> >= columns) continue;
<% endif %>
#pragma unroll
        for (int v = 0; v < << width >>; ++v) {
            << caller() | trim >>
        }
    }
<% endmacro %>

extern "C" __global__ void<< " __cluster_dims__(%d, 1, 1)" % cluster if cluster > 1 >> __launch_bounds__(<< block >>) << name >>(
    const elem* __restrict__ x0, << "" if forward else "const elem* __restrict__ x1, " >>elem* __restrict__ y,
    << index >> rows, << index >> columns)
{
    const index row = index(row_team()) * row_groups + row_group();
    int phase = 0;
    // Beyond the last row its work is done again, and not stored.
    const index at = minimum(row, rows - 1) * columns + row_lane() * << width >>;
<% for k in range(1 if forward else 2) %>
    Pack<elem, << width >>> x<< k >>_held[<< chunks >>];
#pragma unroll
    for (int chunk = 0; chunk < << chunks >>; ++chunk)
        << "if ((chunk * %d + row_lane()) * %d < columns) " % (threads, width) if not exact >>x<< k >>_held[chunk] = load_pack< << width >> >(x<< k >> + at + chunk * << threads * width >>);
<% endfor %>
<% if forward %>
    acc peaks[<< width >>], sums[<< width >>] = {};
    for (int v = 0; v < << width >>; ++v) peaks[v] = limits<acc>::lowest();
<% call each() %>
peaks[v] = maximum(peaks[v], cast<acc>(x0_held[chunk].at[v]));
<% endcall %>
    for (int v = 1; v < << width >>; ++v) peaks[0] = maximum(peaks[0], peaks[v]);
    const Exponents below(peaks[0]);
<% if kept %>
    acc power[<< chunks * width >>];
<% endif %>
<% call each() %>
const acc one = below(cast<acc>(x0_held[chunk].at[v]));
            sums[v] += one;
            << "power[chunk * %d + v] = one;" % width if kept >>
<% endcall %>
    for (int v = 1; v < << width >>; ++v) sums[0] += sums[v];
    const RowState total = row_total({peaks[0], sums[0]}, phase);
    const acc scale = << "log(total.sum)" if logs else "acc(1) / total.sum" >><< " * exp_of(peaks[0] - total.peak)" if kept >>;
<% call each() %>
<% if kept %>
x0_held[chunk].at[v] = cast<elem>(power[chunk * << width >> + v] * scale);
<% else %>
const acc less = cast<acc>(x0_held[chunk].at[v]) - total.peak;
            x0_held[chunk].at[v] = cast<elem>(<< "less - scale" if logs else "exp(less) * scale" >>);
<% endif %>
<% endcall %>
<% else %>
    acc sums[<< width >>] = {};
<% call each() %>
const acc g = cast<acc>(x0_held[chunk].at[v]);
            sums[v] += << "g" if logs else "g * cast<acc>(x1_held[chunk].at[v])" >>;
<% endcall %>
    for (int v = 1; v < << width >>; ++v) sums[0] += sums[v];
    const acc total = row_reduce(sums[0], phase);
<% call each() %>
const acc g = cast<acc>(x0_held[chunk].at[v]), z = cast<acc>(x1_held[chunk].at[v]);
            x0_held[chunk].at[v] = cast<elem>(<< "g - exp_of(z) * total" if logs else "z * (g - total)" >>);
<% endcall %>
<% endif %>
    row_end();
    if (row >= rows) return;
#pragma unroll
    for (int chunk = 0; chunk < << chunks >>; ++chunk)
        << "if ((chunk * %d + row_lane()) * %d < columns) " % (threads, width) if not exact >>store_pack(y + at + chunk * << threads * width >>, x0_held[chunk]);
}
