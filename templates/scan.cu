// y[o, j, i] = x[o, 0, i] + ... + x[o, j, i] for j < n, "+" being << scan >><< ", from the end backwards" if reverse >>.
// x, y (outer, n, inner) in C order. The n elements are cut into `pieces` of `piece`. Stage "whole": there is one piece.
// Stage "total": only the whole of each piece is written, to totals (outer, pieces, inner). Stage "apply": as "whole",
// each piece starting from what the pieces before it make together, carry (outer, pieces, inner).
// Launch: << lanes >> thread(s) scan a column (o, i) of a piece, in << "steps of %d elements" % (lanes * items) if lanes > 1 else "order" >>; blockIdx.y
// numbers the pieces. Shared: a number a warp where a block has a column. No atomics: every run gives the same bits.
<% include "prelude/math.cuh" %>
using T = << accumulator >>;
__device__ __forceinline__ T combine(T a, T b) { return << combine >>; }
<% macro load(j) %>cast<T>(cast< << compute >> >(x[base + (<< j >>) * inner]))<% endmacro %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << source >>* __restrict__ x,
<%- if stage == "total" %> T* __restrict__ totals,<% else %> << result >>* __restrict__ y,<% endif %>
<%- if stage == "apply" %> const T* __restrict__ carry,<% endif %>
    long long columns, long long columns_piece, long long n, long long piece, long long inner, long long lead)
{
    const long long group = ((long long)blockIdx.x * << block >> + threadIdx.x) / << lanes >>;
    const int lane = threadIdx.x % << lanes >>;
    const long long first = blockIdx.y * piece, last = minimum(n, first + piece);
    for (long long column = group * columns_piece; column < minimum(columns, (group + 1) * columns_piece); ++column) {
        const long long base = column / inner * n * inner + column % inner;
<% if stage != "total" %>
        // With lead there is room for the start of the scan before its first element, or after its last.
        const long long target = column / inner * (n + lead) * inner + column % inner<< " + lead * inner" if not reverse >>;
<% endif %>
        T total = << identity >>;
<% if stage == "apply" %>
        total = carry[(column / inner * gridDim.y + blockIdx.y) * inner + column % inner];
<% endif %>
<% if stage != "total" %>
        if (lead && blockIdx.y == 0 && lane == 0)
            y[<< "target + n * inner" if reverse else "target - inner" >>] = cast< << result >> >(T(<< identity >>));
<% endif %>
<% if lanes == 1 %>
        for (long long k = first; k < last; ++k) {
            const long long j = << "n - 1 - k" if reverse else "k" >>;
            total = combine(total, << load("j") >>);
<% if stage != "total" %>
            y[target + j * inner] = cast< << result >> >(total);
<% endif %>
        }
<% else %>
        __shared__ T of_warp[<< block // 32 >>];
        for (long long start = first; start < last; start += << lanes * items >>) {
            T held[<< items >>];
            T own = << identity >>;
#pragma unroll
            for (int v = 0; v < << items >>; ++v) {
                const long long k = start + lane * << items >> + v;
                const long long j = << "n - 1 - k" if reverse else "k" >>;
                if (k < last) own = combine(own, << load("j") >>);
                held[v] = own;
            }
            // Along the warp each thread adds what is `distance` before it.
            T sum = own;
#pragma unroll
            for (int distance = 1; distance < 32; distance *= 2) {
                const T other = __shfl_up_sync(0xffffffffu, sum, distance);
                if (lane % 32 >= distance) sum = combine(other, sum);
            }
            __syncthreads();
            if (lane % 32 == 31) of_warp[lane / 32] = sum;
            const T before = __shfl_up_sync(0xffffffffu, sum, 1);
            __syncthreads();
            T ahead = total;
            for (int warp = 0; warp < << block // 32 >>; ++warp) {
                if (warp == lane / 32 && lane % 32) ahead = combine(total, before);
                else if (warp == lane / 32) ahead = total;
                total = combine(total, of_warp[warp]);
            }
<% if stage != "total" %>
#pragma unroll
            for (int v = 0; v < << items >>; ++v) {
                const long long k = start + lane * << items >> + v;
                const long long j = << "n - 1 - k" if reverse else "k" >>;
                if (k < last) y[target + j * inner] = cast< << result >> >(combine(ahead, held[v]));
            }
<% endif %>
        }
<% endif %>
<% if stage == "total" %>
<% if lanes > 1 %>
        if (lane == 0)
<% endif %>
            totals[(column / inner * gridDim.y + blockIdx.y) * inner + column % inner] = total;
<% endif %>
    }
}
