// y[r, j] = x[r, 0] + ... + x[r, j] for j < n, "+" being << scan >><< ", from the end backwards" if reverse >>.
<% if pair %>
// Here: the linear recurrence y = x * y + z from 0, a scan of affine maps, which "+" composes.
<% endif %>
// x (rows, n), y (rows, n + lead) in C order; with lead y has the start of the scan, too.
// Launch: `lanes` threads scan a row in steps of `step` elements, and prefetch the next one before this is scanned; there is
// one step where the scan is `single`. A thread has `packs` of `width` elements, neighbours neighbouring ones. No atomics.
<% include "index/scan.cuh" %>
<% include "prelude/packs.cuh" %>
using I = << index >>;
constexpr int block = << block >>, width = << width >>, packs = << packs >>, lanes = << lanes >>;
constexpr int team = lanes < 32 ? lanes : 32, warps = lanes / team;
constexpr int chunk = team * width, part = chunk * packs, step = part * warps;
// From the first element of a thread's packs to the end of the last.
constexpr int reach = part - chunk + width;
constexpr bool single = << "true" if single else "false" >>;
<% include "index/scan_warp.cuh" %>

// Where a row has the pack that is at `first` in the order of the scan.
__device__ __forceinline__ I in_memory(I first, I n) { return reverse ? n - width - first : first; }

// A row of the arrays. That of x has packs on the boundaries of memory; with `z_fits` so has that of z.
struct Row {
    const S *x, *z;
    I n;
    bool z_fits;
};

// The elements of a thread.
struct Held {
    Pack<S, width> x[packs], z[pair ? packs : 1];

    // The packs of one array at `first`, counted in the order of the scan, and each `chunk` further.
    __device__ __forceinline__ static void fetch(Pack<S, width>* held, const S* row, I first, I n, bool fits, S absent) {
        if (fits && first >= 0 && first + reach <= n) {
#pragma unroll
            for (int k = 0; k < packs; ++k) held[k] = load_pack<width>(row + in_memory(first + k * chunk, n));
            return;
        }
#pragma unroll
        for (int k = 0; k < packs; ++k)
#pragma unroll
            for (int v = 0; v < width; ++v) {
                const I at = in_memory(first + k * chunk, n) + v;
                held[k].at[v] = at >= 0 && at < n ? row[at] : absent;
            }
    }
    __device__ __forceinline__ void fetch(const Row& row, I first) {
        fetch(x, row.x, first, row.n, true, absent());
        if constexpr (pair) fetch(z, row.z, first, row.n, row.z_fits, S(0));
    }
    // The v-th of a pack in the order of the scan.
    __device__ __forceinline__ T value(int k, int v) const {
        const int at = reverse ? width - 1 - v : v;
        return state_of(x[k].at[at], pair ? z[k].at[at] : S(0));
    }

    // The total of a team of threads; `before`: the scan before each pack of this thread.
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

    __device__ __forceinline__ void store(R* to, I first, I n, bool fits, T ahead, const T* before) const {
        const bool packed = fits && first >= 0 && first + reach <= n;
#pragma unroll
        for (int k = 0; k < packs; ++k) {
            const I from = in_memory(first + k * chunk, n);
            Pack<R, width> result;
            T upto = combine(ahead, before[k]);
#pragma unroll
            for (int v = 0; v < width; ++v) {
                upto = combine(upto, value(k, v));
                result.at[reverse ? width - 1 - v : v] = result_of(upto);
            }
            if (packed) {
                store_pack<width>(to + from, result);
            } else {
#pragma unroll
                for (int v = 0; v < width; ++v)
                    if (from + v >= 0 && from + v < n) to[from + v] = result.at[v];
            }
        }
    }
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const S* __restrict__ x, << "const S* __restrict__ z, " if pair >>R* __restrict__ y, long long rows, I n, I total, int lead)
{
    << "const S* const z = x;" if not pair >>
    __shared__ T of_warp[2][warps];
    const int warp = threadIdx.x % lanes / team;
    const long long number = ((long long)blockIdx.x * block + threadIdx.x) / lanes;
    const bool begins = number < rows && threadIdx.x % lanes == 0;
    const S *const from = x + number * n, *const second = z + number * n;
    R* const to = y + number * (n + lead) + (reverse ? 0 : lead);
    // Packs lie on the boundaries of memory: the first one of a row may begin before it.
    const int phase = (size_t)from / sizeof(S) % width;
    const int skipped = reverse ? (int)((width - (phase + n) % width) % width) : phase;
    const bool fits = (int)((size_t)to / sizeof(R) % width) == phase;
    const Row row{from, second, number < rows ? n : 0, (int)((size_t)second / sizeof(S) % width) == phase};
    I first = warp * part + threadIdx.x % team * width - skipped;
    if (lead && begins) to[reverse ? n : -1] = result_of(neutral());
    T before[packs];
    T so_far = neutral();
    Held held;
    held.fetch(row, first);
    int stage = 0;
#pragma unroll 1
    for (I start = 0; single || start < total; start += step, first += step) {
        Held next;
        if (!single && start + step < total) next.fetch(row, first + step);
        const T sum = held.reduce(before);
        T ahead = so_far;
        if constexpr (lanes > 32) {
            // Double-buffered: a warp may write the sums of the next step while others still read those of this one.
            if (threadIdx.x % 32 == 0) of_warp[stage][warp] = sum;
            __syncthreads();
#pragma unroll
            for (int w = 0; w < warps; ++w) {
                if (w == warp) ahead = so_far;
                so_far = combine(so_far, of_warp[stage][w]);
            }
        } else {
            so_far = combine(so_far, sum);
        }
        held.store(to, first, row.n, fits, ahead, before);
        if (single) break;
        held = next;
        stage ^= 1;
    }
}
