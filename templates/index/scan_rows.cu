// y[r, j] = x[r, 0] + ... + x[r, j] for j < n, "+" being << scan >><< ", from the end backwards" if reverse >>.
<% if pair %>
// Here each element is the map of a number v to x * v + z, "+" is one map after another, and y what they make of 0.
<% endif %>
// x (rows, n), y (rows, n + lead) in C order; with lead y has the start of the scan, too.
// Launch: << lanes >> thread(s) scan a row in steps of << lanes * width * packs >> elements, and read << "one" if single else "the next one" >> before << "they" if single else "this is" >> << "scan" if single else "scanned" >>.
// Each thread has << packs >> packs of << width >> elements, << team >> threads neighbouring ones. No atomics.
<% include "index/scan.cuh" %>
<% include "prelude/packs.cuh" %>
using I = << index >>;
constexpr int width = << width >>, packs = << packs >>, lanes = << lanes >>, team = << team >>, warps = lanes / team;
constexpr int chunk = team * width, part = chunk * packs, step = part * warps;

<% include "index/scan_warp.cuh" %>

// The packs of one array at `first`, counted in the order of the scan, and each `chunk` further.
__device__ __forceinline__ void fetch(Pack<S, width>* held, const S* row, I first, I n, bool straight, S absent) {
    if (straight && first >= 0 && first + (part - chunk + width) <= n) {
#pragma unroll
        for (int k = 0; k < packs; ++k)
            held[k] = load_pack<width>(row + << "(n - width - (first + k * chunk))" if reverse else "(first + k * chunk)" >>);
        return;
    }
#pragma unroll
    for (int k = 0; k < packs; ++k)
#pragma unroll
        for (int v = 0; v < width; ++v) {
            const I at = << "n - width - (first + k * chunk) + v" if reverse else "first + k * chunk + v" >>;
            held[k].at[v] = at >= 0 && at < n ? row[at] : absent;
        }
}

struct Held {
    Pack<S, width> x[packs];
<% if pair %>
    Pack<S, width> z[packs];
<% endif %>

    __device__ __forceinline__ void fetch_at(I first, I n, const S* row, bool straight<% if pair %>, const S* second, bool second_straight<% endif %>) {
        fetch(x, row, first, n, straight, << absent >>);
<% if pair %>
        fetch(z, second, first, n, second_straight, S(0));
<% endif %>
    }
    // The v-th of a pack in the order of the scan.
    __device__ __forceinline__ T value(int k, int v) const {
        const int at = << "width - 1 - v" if reverse else "v" >>;
        return made_of(x[k].at[at]<% if pair %>, z[k].at[at]<% endif %>);
    }

    // What the threads of a team make together; `before` is what comes before each pack of this one.
    __device__ __forceinline__ T reduce(T* before) const {
        const int lane = threadIdx.x % team;
        T sum = neutral();
#pragma unroll
        for (int k = 0; k < packs; ++k) {
            T upto = value(k, 0);
#pragma unroll
            for (int v = 1; v < width; ++v) upto = combine(upto, value(k, v));
            upto = scan_team(upto);
            const T others = shuffle_up(upto, 1);
            before[k] = lane ? combine(sum, others) : sum;
            sum = combine(sum, shuffle_from(upto, team - 1));
        }
        return sum;
    }

    __device__ __forceinline__ void store(R* to, I first, I n, bool straight, T ahead, const T* before) const {
        const bool whole = straight && first >= 0 && first + (part - chunk + width) <= n;
#pragma unroll
        for (int k = 0; k < packs; ++k) {
            const I from = << "n - width - (first + k * chunk)" if reverse else "first + k * chunk" >>;
            Pack<R, width> made;
            T upto = combine(ahead, before[k]);
#pragma unroll
            for (int v = 0; v < width; ++v) {
                upto = combine(upto, value(k, v));
                made.at[<< "width - 1 - v" if reverse else "v" >>] = result_of(upto);
            }
            if (whole) {
                store_pack<width>(to + from, made);
            } else {
#pragma unroll
                for (int v = 0; v < width; ++v)
                    if (from + v >= 0 && from + v < n) to[from + v] = made.at[v];
            }
        }
    }
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << source >>* __restrict__ x,
<%- if pair %> const << source >>* __restrict__ z,<% endif %> << result >>* __restrict__ y,
    long long rows, << index >> n, << index >> total, int lead)
{
    const int warp = threadIdx.x % lanes / team;
<% if lanes > 32 %>
    __shared__ T of_warp[2][warps];
<% endif %>
    const long long row = ((long long)blockIdx.x * << block >> + threadIdx.x) / lanes;
    const bool begins = row < rows && threadIdx.x % lanes == 0;
    const I size = row < rows ? n : 0;
    const S* const from = x + row * n;
    R* const to = y + row * (n + lead)<< " + lead" if not reverse >>;
    // Packs lie on the boundaries of memory: the first one of a row may begin before it.
    const int phase = (size_t)from / sizeof(S) % width;
    const int skipped = << "(int)((width - (phase + n) % width) % width)" if reverse else "phase" >>;
    const bool fits = (int)((size_t)to / sizeof(R) % width) == phase;
<% if pair %>
    const S* const second = z + row * n;
    const bool second_fits = (int)((size_t)second / sizeof(S) % width) == phase;
<% endif %>
    I first = warp * part + threadIdx.x % team * width - skipped;
    if (lead && begins) to[<< "n" if reverse else "-1" >>] = result_of(neutral());
    T before[packs];
    T so_far = neutral();
    Held held;
    held.fetch_at(first, size, from, true<% if pair %>, second, second_fits<% endif %>);
<% if single %>
    {
        const T sum = held.reduce(before);
<% else %>
    int turn = 0;
#pragma unroll 1
    for (I start = 0; start < total; start += step, first += step) {
        Held next;
        if (start + step < total) next.fetch_at(first + step, size, from, true<% if pair %>, second, second_fits<% endif %>);
        const T sum = held.reduce(before);
<% endif %>
<% if lanes > 32 %>
<% set at = "0" if single else "turn" %>
        // In turns: who writes the numbers of the next step may not wait for who still reads those of this one.
        if (threadIdx.x % 32 == 0) of_warp[<< at >>][warp] = sum;
        __syncthreads();
        T ahead = so_far;
#pragma unroll
        for (int w = 0; w < warps; ++w) {
            if (w == warp) ahead = so_far;
            so_far = combine(so_far, of_warp[<< at >>][w]);
        }
<% else %>
        const T ahead = so_far;
        so_far = combine(so_far, sum);
<% endif %>
        held.store(to, first, size, fits, ahead, before);
<% if not single %>
        held = next;
        turn ^= 1;
<% endif %>
    }
}
