// y[o, j, i] = x[o, 0, i] + ... + x[o, j, i] for j < n, "+" being << scan >><< ", from the end backwards" if reverse >>.
<% if pair %>
// Here each element is the map of a number v to x * v + z, "+" is one map after another, and y what they make of 0.
<% endif %>
// x (outer, n, inner), y (outer, n + lead, inner) in C order; with lead y has the start of the scan, too.
// Launch: a block has a strip of << lanes * width >> neighbouring columns, << groups >> group(s) of << lanes >> thread(s) with << items >> rows each, all of them in registers.
<% if chained %>
// Which of the `strips`, and of the << groups * items >> rows from which on, follows from a ticket that the block draws; it tells what its
// columns make up to its last row to the block of the strip that comes next, so every run adds in the same order.
// `marks`: two words for the ticket, then what is told, all 0 at first.
<% endif %>
<% include "index/scan.cuh" %>
<% include "prelude/packs.cuh" %>
<% if chained %>
<% include "index/scan_marks.cuh" %>
<% endif %>
constexpr int width = << width >>, lanes = << lanes >>, items = << items >>, groups = << groups >>, columns = lanes * width;

__device__ __forceinline__ void fetch(
    Pack<S, width>* held, const S* from, long long first, long long n, long long inner, S absent)
{
    const S* at = from + << "(n - 1 - first)" if reverse else "first" >> * inner;
    const long long to_next = << "-inner" if reverse else "inner" >>;
    if (first + items <= n) {
#pragma unroll
        for (int r = 0; r < items; ++r, at += to_next) held[r] = load_pack<width>(at);
        return;
    }
#pragma unroll
    for (int r = 0; r < items; ++r) {
        if (first + r < n) {
            held[r] = load_pack<width>(at + r * to_next);
        } else {
#pragma unroll
            for (int v = 0; v < width; ++v) held[r].at[v] = absent;
        }
    }
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << source >>* __restrict__ x,
<%- if pair %> const << source >>* __restrict__ z,<% endif %> << result >>* __restrict__ y,
<%- if chained %> unsigned long long* marks,<% endif %>
    long long n, long long inner, long long strips, long long lead)
{
    const int group = threadIdx.x / lanes, lane = threadIdx.x % lanes;
<% if chained %>
    __shared__ T of_pieces_before[columns];
    __shared__ unsigned ticket;
    if (threadIdx.x == 0) ticket = atomicAdd((unsigned*)marks, 1u);
    __syncthreads();
    const long long strip = ticket % (unsigned)strips, piece = ticket / (unsigned)strips;
<% else %>
    const long long strip = blockIdx.x, piece = 0;
<% endif %>
    const long long beside = divide_up(inner, (long long)columns);
    const long long column = strip % beside * columns + lane * width;
    // Threads beyond the last column have no rows.
    const long long rows = column < inner ? n : 0, first = (piece * groups + group) * items;
    const long long base = strip / beside * n * inner + column;
    R* const to = y + strip / beside * (n + lead) * inner + column<< " + lead * inner" if not reverse >>;
    Pack<S, width> held[items];
    fetch(held, x + base, first, rows, inner, << absent >>);
<% if pair %>
    Pack<S, width> second[items];
    fetch(second, z + base, first, rows, inner, S(0));
<% endif %>
<% macro value(r, v) %>made_of(held[<< r >>].at[<< v >>]<% if pair %>, second[<< r >>].at[<< v >>]<% endif %>)<% endmacro %>
    T upto[width];
<% if groups > 1 or chained %>
    __shared__ T of_group[groups][columns];
#pragma unroll
    for (int v = 0; v < width; ++v) {
        T sum = << value("0", "v") >>;
#pragma unroll
        for (int r = 1; r < items; ++r) sum = combine(sum, << value("r", "v") >>);
        of_group[group][lane * width + v] = sum;
    }
    __syncthreads();
#pragma unroll
    for (int v = 0; v < width; ++v) {
        T sum = neutral();
        upto[v] = sum;
#pragma unroll << [groups, 16] | min >>
        for (int g = 0; g < groups; ++g) {
            if (g == group) upto[v] = sum;
            sum = combine(sum, of_group[g][lane * width + v]);
        }
<% if chained %>
        if (group == 0) {
            Word* const here = marks + 2 + ((piece * strips + strip) * columns + lane * width + v) * words;
            Awaited before(here - strips * columns * words, piece > 0);
            for (;;) {
                before.look_up();
                before.look();
                if (before.here) break;
                __nanosleep(<< pause >>);
            }
            tell(here, combine(before.value, sum));
            of_pieces_before[lane * width + v] = before.value;
        }
<% endif %>
    }
<% if chained %>
    __syncthreads();
#pragma unroll
    for (int v = 0; v < width; ++v) upto[v] = combine(of_pieces_before[lane * width + v], upto[v]);
<% endif %>
<% else %>
#pragma unroll
    for (int v = 0; v < width; ++v) upto[v] = neutral();
<% endif %>
    if (lead && piece == 0 && group == 0 && column < inner)
#pragma unroll
        for (int v = 0; v < width; ++v) to[<< "n * inner" if reverse else "-inner" >> + v] = result_of(neutral());
    R* out = to + << "(n - 1 - first)" if reverse else "first" >> * inner;
#pragma unroll
    for (int r = 0; r < items; ++r, out += << "-inner" if reverse else "inner" >>) {
        Pack<R, width> made;
#pragma unroll
        for (int v = 0; v < width; ++v) {
            upto[v] = combine(upto[v], << value("r", "v") >>);
            made.at[v] = result_of(upto[v]);
        }
        if (first + r < rows) store_pack<width>(out, made);
    }
}
