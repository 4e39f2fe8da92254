// y[o, j, i] = x[o, 0, i] + ... + x[o, j, i] for j < n, "+" being << scan >><< ", from the end backwards" if reverse >>.
<% if pair %>
// Here: the linear recurrence y = x * y + z from 0, a scan of affine maps, which "+" composes.
<% endif %>
// x (outer, n, inner), y (outer, n + lead, inner) in C order; with lead y has the start of the scan, too.
// Launch: a block has a strip of `columns` neighbouring columns, `groups` of `lanes` threads with `items` rows each, all of
// them in registers.
<% if chained %>
// A block draws its strip, of `strips`, and its groups * items rows by a ticket, and passes the scan up to its last row to
// the block of the strip that comes next, so every run adds in the same order.
// `status`: two words for the ticket, then the words that blocks write, all 0 before.
<% endif %>
<% include "index/scan.cuh" %>
<% include "prelude/packs.cuh" %>
<% include "index/scan_status.cuh" %>
constexpr int block = << block >>, width = << width >>, lanes = << lanes >>, items = << items >>;
constexpr int groups = block / lanes, columns = lanes * width;
constexpr bool chained = << "true" if chained else "false" >>;

// The rows of a thread, from the one that is `first` in the order of the scan.
struct Held {
    Pack<S, width> x[items], z[pair ? items : 1];

    __device__ __forceinline__ static void fetch(
        Pack<S, width>* held, const S* from, long long first, long long n, long long inner, S absent)
    {
        const S* at = from + (reverse ? n - 1 - first : first) * inner;
        const long long to_next = reverse ? -inner : inner;
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
    __device__ __forceinline__ T value(int r, int v) const { return state_of(x[r].at[v], pair ? z[r].at[v] : S(0)); }
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const S* __restrict__ x, << "const S* __restrict__ z, " if pair >>R* __restrict__ y, << "Word* status, " if chained >>
    long long n, long long inner, long long strips, long long lead)
{
    << "const S* const z = x;" if not pair >>
    << "Word* const status = nullptr;" if not chained >>
    __shared__ T of_pieces_before[columns];
    __shared__ unsigned ticket;
    __shared__ T of_group[groups][columns];
    const int group = threadIdx.x / lanes, lane = threadIdx.x % lanes;
    long long strip = blockIdx.x, piece = 0;
    if constexpr (chained) {
        if (threadIdx.x == 0) ticket = atomicAdd((unsigned*)status, 1u);
        __syncthreads();
        strip = ticket % (unsigned)strips;
        piece = ticket / (unsigned)strips;
    }
    const long long beside = divide_up(inner, (long long)columns);
    const long long column = strip % beside * columns + lane * width;
    // Threads beyond the last column have no rows.
    const long long rows = column < inner ? n : 0, first = (piece * groups + group) * items;
    const long long base = strip / beside * n * inner + column;
    R* const to = y + strip / beside * (n + lead) * inner + column + (reverse ? 0 : lead * inner);
    Held held;
    Held::fetch(held.x, x + base, first, rows, inner, absent());
    if constexpr (pair) Held::fetch(held.z, z + base, first, rows, inner, S(0));
    T upto[width];
#pragma unroll
    for (int v = 0; v < width; ++v) upto[v] = neutral();
    if constexpr (groups > 1 || chained) {
#pragma unroll
        for (int v = 0; v < width; ++v) {
            T sum = held.value(0, v);
#pragma unroll
            for (int r = 1; r < items; ++r) sum = combine(sum, held.value(r, v));
            of_group[group][lane * width + v] = sum;
        }
        __syncthreads();
#pragma unroll
        for (int v = 0; v < width; ++v) {
            T sum = neutral();
#pragma unroll(groups < 16 ? groups : 16)
            for (int g = 0; g < groups; ++g) {
                if (g == group) upto[v] = sum;
                sum = combine(sum, of_group[g][lane * width + v]);
            }
            if (chained && group == 0) {
                Word* const here = status + 2 + ((piece * strips + strip) * columns + lane * width + v) * words;
                Awaited before(here - strips * columns * words, piece > 0);
                for (;;) {
                    before.look_up();
                    before.look();
                    if (before.here) break;
                    __nanosleep(pause);
                }
                tell(here, combine(before.value, sum));
                of_pieces_before[lane * width + v] = before.value;
            }
        }
    }
    if constexpr (chained) {
        __syncthreads();
#pragma unroll
        for (int v = 0; v < width; ++v) upto[v] = combine(of_pieces_before[lane * width + v], upto[v]);
    }
    if (lead && piece == 0 && group == 0 && column < inner)
#pragma unroll
        for (int v = 0; v < width; ++v) to[(reverse ? n * inner : -inner) + v] = result_of(neutral());
    R* out = to + (reverse ? n - 1 - first : first) * inner;
#pragma unroll
    for (int r = 0; r < items; ++r, out += reverse ? -inner : inner) {
        Pack<R, width> result;
#pragma unroll
        for (int v = 0; v < width; ++v) {
            upto[v] = combine(upto[v], held.value(r, v));
            result.at[v] = result_of(upto[v]);
        }
        if (first + r < rows) store_pack<width>(out, result);
    }
}
