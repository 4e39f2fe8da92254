// y = << kind >> along rows of `columns` elements: of x0, or as << kind >>_vjp the cotangent of its input from x0, that of
// its result, and x1, the result. All (rows, columns), in C order and aligned to packs of << width >> elements.
// Launch: block / threads rows a block, or a row a cluster of blocks. A thread keeps << chunks >> pack(s) of each array.
// Shared: the states of warps and of the block. An element is read once and written once.
<% set forward = not kind.endswith("_vjp") %>
<% set logs = kind.startswith("log") %>
<# Of half types a thread keeps the exponentials, which costs less than to compute them again. #>
<% set kept = half and forward and not logs %>
<% set exponential = "__expf" if half else "exp" %>
<% include "prelude/math.cuh" %>
<% include "prelude/reduce.cuh" %>
<% include "nn/packs.cuh" %>
using elem = << elem >>;
using acc = << acc >>;
using index = << index >>;
<% if forward %>
// The largest number, and the sum of exponentials of all those numbers' distances below it.
struct RowState {
    acc peak, sum;
};
__device__ __forceinline__ RowState row_join(RowState a, RowState b) {
    const acc peak = maximum(a.peak, b.peak);
    const bool a_higher = a.peak == peak;
    const RowState high = a_higher ? a : b, low = a_higher ? b : a;
    return {peak, high.sum + low.sum * (low.peak == peak ? acc(1) : << exponential >>(low.peak - peak))};
}
<% else %>
using RowState = acc;
__device__ __forceinline__ RowState row_join(RowState a, RowState b) { return a + b; }
<% endif %>
<% include "nn/row.cuh" %>
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
    // Where all is -inf a difference would be NaN, and this thread's part is 0.
    const acc own = peaks[0] == limits<acc>::lowest() ? acc(0) : peaks[0];
<% if half %>
    // In powers of 2: a product and the device's own instruction.
    const acc shift = own * acc(1.44269504);
<% endif %>
<% if kept %>
    acc power[<< chunks * width >>];
<% endif %>
<% call each() %>
const acc one = << "exp2(cast<acc>(x0_held[chunk].at[v]) * acc(1.44269504) - shift)" if half else "exp(cast<acc>(x0_held[chunk].at[v]) - own)" >>;
            sums[v] += one;
            << "power[chunk * %d + v] = one;" % width if kept >>
<% endcall %>
    for (int v = 1; v < << width >>; ++v) sums[0] += sums[v];
    const RowState total = row_reduce({peaks[0], sums[0]}, phase);
    const acc scale = << "log(total.sum)" if logs else "acc(1) / total.sum" >><< " * exp(peaks[0] - total.peak)" if kept >>;
<% call each() %>
<% if kept %>
x0_held[chunk].at[v] = cast<elem>(power[chunk * << width >> + v] * scale);
<% else %>
const acc below = cast<acc>(x0_held[chunk].at[v]) - total.peak;
            x0_held[chunk].at[v] = cast<elem>(<< "below - scale" if logs else "exp(below) * scale" >>);
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
            x0_held[chunk].at[v] = cast<elem>(<< "g - %s(z) * total" % exponential if logs else "z * (g - total)" >>);
<% endcall %>
<% endif %>
    row_end();
    if (row >= rows) return;
#pragma unroll
    for (int chunk = 0; chunk < << chunks >>; ++chunk)
        << "if ((chunk * %d + row_lane()) * %d < columns) " % (threads, width) if not exact >>store_pack(y + at + chunk * << threads * width >>, x0_held[chunk]);
}
