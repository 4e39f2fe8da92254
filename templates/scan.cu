// y[o, j, i] = x[o, 0, i] + ... + x[o, j, i] for j < n, "+" being << scan >><< ", from the end backwards" if reverse >>.
<% if pair %>
// Here each element is the map of a number v to x * v + z, "+" is one map after another, and y what they make of 0.
<% endif %>
// x, y (outer, n, inner) in C order. The n elements are cut into `pieces` of `piece`. Stage "whole": there is one piece.
// Stage "total": only the whole of each piece is written, to totals (outer, pieces, inner). Stage "apply": as "whole",
// each piece starting from what the pieces before it make together, carry (outer, pieces, inner).
// Launch: << lanes >> thread(s) scan << "%d neighbouring columns" % tile if tile > 1 else "a column" >> (o, i) of a piece, in << "steps of %d elements" % (lanes * items) if lanes > 1 else "order" >>; blockIdx.y numbers
// the pieces. Shared: a number a warp where a block has a column. No atomics: every run gives the same bits.
<% include "prelude/math.cuh" %>
using A = << accumulator >>;
<% if pair %>
struct T {
    A a, b;
};
// A 0 stays 0, also under a product of factors that is infinite.
__device__ __forceinline__ T combine(T p, T q) { return {p.a * q.a, p.b == A(0) ? q.b : q.a * p.b + q.b}; }
__device__ __forceinline__ T shuffle_up(T t, int distance) {
    return {__shfl_up_sync(0xffffffffu, t.a, distance), __shfl_up_sync(0xffffffffu, t.b, distance)};
}
__device__ __forceinline__ T shuffle_last(T t) {
    return {__shfl_sync(0xffffffffu, t.a, 31), __shfl_sync(0xffffffffu, t.b, 31)};
}
<% else %>
using T = A;
__device__ __forceinline__ T combine(T a, T b) { return << combine >>; }
__device__ __forceinline__ T shuffle_up(T t, int distance) { return __shfl_up_sync(0xffffffffu, t, distance); }
__device__ __forceinline__ T shuffle_last(T t) { return __shfl_sync(0xffffffffu, t, 31); }
<% endif %>
<% set neutral = "T{A(1), A(0)}" if pair else "T(" ~ identity ~ ")" %>
<% macro load(at) %>
<%- if pair %>T{cast<A>(x[<< at >>]), cast<A>(z[<< at >>])}<% else %>cast<A>(cast< << compute >> >(x[<< at >>]))<% endif -%>
<% endmacro %>
<% macro carried(at) %><< "T{A(1), carry[" ~ at ~ "]}" if pair else "carry[" ~ at ~ "]" >><% endmacro %>
<% set number = ".b" if pair else "" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << source >>* __restrict__ x,
<%- if pair %> const << source >>* __restrict__ z,<% endif %>
<%- if stage == "total" %> A* __restrict__ totals,<% else %> << result >>* __restrict__ y,<% endif %>
<%- if stage == "total" and pair %> A* __restrict__ totals_z,<% endif %>
<%- if stage == "apply" %> const A* __restrict__ carry,<% endif %>
    long long columns, long long columns_piece, long long n, long long piece, long long inner, long long lead)
{
    const long long group = ((long long)blockIdx.x * << block >> + threadIdx.x) / << lanes >>;
    const int lane = threadIdx.x % << lanes >>;
    const long long first = blockIdx.y * piece, last = minimum(n, first + piece);
    const long long end = minimum(columns, (group + 1) * columns_piece);
    long long width = 1;
    for (long long column = group * columns_piece; column < end; column += width) {
        const long long i = column % inner;
        const long long base = column / inner * n * inner + i;
        const long long at_piece = (column / inner * gridDim.y + blockIdx.y) * inner + i;
<% if stage != "total" %>
        // With lead there is room for the start of the scan before its first element, or after its last.
        const long long target = column / inner * (n + lead) * inner + i<< " + lead * inner" if not reverse >>;
        const long long begin = << "target + n * inner" if reverse else "target - inner" >>;
<% endif %>
<% if tile > 1 %>
        width = minimum(minimum(end - column, inner - i), (long long)<< tile >>);
        T total[<< tile >>];
        for (long long v = 0; v < width; ++v) {
            total[v] = << carried("at_piece + v") if stage == "apply" else neutral >>;
<% if stage != "total" %>
            if (lead && blockIdx.y == 0) y[begin + v] = cast< << result >> >(<< neutral >><< number >>);
<% endif %>
        }
        for (long long k = first; k < last; ++k) {
            const long long j = (<< "n - 1 - k" if reverse else "k" >>) * inner;
            for (long long v = 0; v < width; ++v) {
                total[v] = combine(total[v], << load("base + j + v") >>);
<% if stage != "total" %>
                y[target + j + v] = cast< << result >> >(total[v]<< number >>);
<% endif %>
            }
        }
<% if stage == "total" %>
        for (long long v = 0; v < width; ++v) {
            totals[at_piece + v] = total[v]<< ".a" if pair >>;
<% if pair %>
            totals_z[at_piece + v] = total[v].b;
<% endif %>
        }
<% endif %>
<% else %>
        T total = << carried("at_piece") if stage == "apply" else neutral >>;
<% if stage != "total" %>
        if (lead && blockIdx.y == 0 && lane == 0) y[begin] = cast< << result >> >(<< neutral >><< number >>);
<% endif %>
<% if lanes == 1 %>
        for (long long k = first; k < last; ++k) {
            const long long j = (<< "n - 1 - k" if reverse else "k" >>) * inner;
            total = combine(total, << load("base + j") >>);
<% if stage != "total" %>
            y[target + j] = cast< << result >> >(total<< number >>);
<% endif %>
        }
<% else %>
<% if lanes > 32 %>
        __shared__ T of_warp[<< lanes // 32 >>];
<% endif %>
        for (long long start = first; start < last; start += << lanes * items >>) {
            T held[<< items >>];
            T own = << neutral >>;
#pragma unroll
            for (int v = 0; v < << items >>; ++v) {
                const long long k = start + lane * << items >> + v;
                const long long j = (<< "n - 1 - k" if reverse else "k" >>) * inner;
                if (k < last) own = combine(own, << load("base + j") >>);
                held[v] = own;
            }
            // Along the warp each thread adds what is `distance` before it.
            T sum = own;
#pragma unroll
            for (int distance = 1; distance < 32; distance *= 2) {
                const T other = shuffle_up(sum, distance);
                if (lane % 32 >= distance) sum = combine(other, sum);
            }
            const T before = shuffle_up(sum, 1);
<% if lanes > 32 %>
            __syncthreads();
            if (lane % 32 == 31) of_warp[lane / 32] = sum;
            __syncthreads();
            T ahead = total;
            for (int warp = 0; warp < << lanes // 32 >>; ++warp) {
                if (warp == lane / 32) ahead = lane % 32 ? combine(total, before) : total;
                total = combine(total, of_warp[warp]);
            }
<% else %>
            const T ahead = lane ? combine(total, before) : total;
            total = combine(total, shuffle_last(sum));
<% endif %>
<% if stage != "total" %>
#pragma unroll
            for (int v = 0; v < << items >>; ++v) {
                const long long k = start + lane * << items >> + v;
                const long long j = (<< "n - 1 - k" if reverse else "k" >>) * inner;
                if (k < last) y[target + j] = cast< << result >> >(combine(ahead, held[v])<< number >>);
            }
<% endif %>
        }
<% endif %>
<% if stage == "total" %>
<% if lanes > 1 %>
        if (lane == 0)
<% endif %>
        {
            totals[at_piece] = total<< ".a" if pair >>;
<% if pair %>
            totals_z[at_piece] = total.b;
<% endif %>
        }
<% endif %>
<% endif %>
    }
}
