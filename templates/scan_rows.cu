// y[r, j] = x[r, 0] + ... + x[r, j] for j < n, "+" being << scan >><< ", from the end backwards" if reverse >>.
<% if pair %>
// Here each element is the map of a number v to x * v + z, "+" is one map after another, and y what they make of 0.
<% endif %>
// x (rows, n), y (rows, n + lead) in C order; with lead y has the start of the scan, too.
<% if chained %>
// Launch: a block for each of the `tiles` tiles of << lanes * width * packs >> elements of each row, that of a ticket it draws. It tells what its
// tile makes; the last of 32 tiles, what these make; the last of 1024, what all up to there make: so every run adds in
// the same order. `marks`: two words for the ticket, then for each row what is told, all 0 at first.
<% else %>
// Launch: << lanes >> thread(s) scan a row in steps of << lanes * width * packs >> elements, and read << "one" if single else "the next one" >> before << "they" if single else "this is" >> << "scan" if single else "scanned" >>.
<% endif %>
// Each thread has << packs >> packs of << width >> elements, << team >> threads neighbouring ones. No atomics but the ticket's.
<% include "scan.cuh" %>
<% include "nn/packs.cuh" %>
using I = << index >>;
constexpr int width = << width >>, packs = << packs >>, lanes = << lanes >>, team = << team >>, warps = lanes / team;
constexpr int chunk = team * width, part = chunk * packs, step = part * warps;

__device__ __forceinline__ T shuffle_up(T t, int distance) {
<% if pair %>
    return {__shfl_up_sync(0xffffffffu, t.a, distance, team), __shfl_up_sync(0xffffffffu, t.b, distance, team)};
<% else %>
    return __shfl_up_sync(0xffffffffu, t, distance, team);
<% endif %>
}
__device__ __forceinline__ T shuffle_down(T t, int distance) {
<% if pair %>
    return {__shfl_down_sync(0xffffffffu, t.a, distance), __shfl_down_sync(0xffffffffu, t.b, distance)};
<% else %>
    return __shfl_down_sync(0xffffffffu, t, distance);
<% endif %>
}
__device__ __forceinline__ T shuffle_from(T t, int lane) {
<% if pair %>
    return {__shfl_sync(0xffffffffu, t.a, lane, team), __shfl_sync(0xffffffffu, t.b, lane, team)};
<% else %>
    return __shfl_sync(0xffffffffu, t, lane, team);
<% endif %>
}

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
#pragma unroll
            for (int distance = 1; distance < team; distance *= 2) {
                const T other = shuffle_up(upto, distance);
                if (lane >= distance) upto = combine(other, upto);
            }
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
<% if chained %>
<% include "scan_marks.cuh" %>

// What the lanes of a warp make together, in lane 0.
__device__ __forceinline__ T folded(T t) {
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) t = combine(t, shuffle_down(t, distance));
    return t;
}

// What the tiles of a row before this one make, in lane 0 of the warp that calls it; `own` is what this one makes.
__device__ __forceinline__ T made_before(volatile Word* of_tile, int tiles, int tile, T own) {
    const int lane = threadIdx.x % 32, place = tile % 32, set = tile / 32, place_of_set = set % 32, block_of_sets = set / 32;
    volatile Word* const of_set = of_tile + (long long)tiles * words;
    volatile Word* const upto = of_set + (long long)divide_up(tiles, 32) * words;
    if (lane == 0) tell(of_tile + (long long)tile * words, own);
    Awaited a(of_tile + (long long)(tile - place + lane) * words, lane < place);
    Awaited b(of_set + (long long)(set - place_of_set + lane) * words, lane < place_of_set);
    Awaited c(upto + (long long)block_of_sets * words, block_of_sets > 0);
    T whole = neutral();
    for (bool told = place < 31;;) {
        a.look_up();
        b.look_up();
        c.look_up();
        a.look();
        // Others wait for this while what is before the set is still on its way.
        if (!told && __all_sync(0xffffffffu, a.here)) {
            told = true;
            whole = folded(lane == 31 ? own : a.value);
            if (lane == 0) tell(of_set + (long long)set * words, whole);
        }
        b.look();
        c.look();
        if (__all_sync(0xffffffffu, a.here && b.here && c.here)) break;
        __nanosleep(<< pause >>);
    }
    if (place == 31 && place_of_set == 31) {
        whole = shuffle_from(whole, 0);
        const T all = folded(lane == 31 ? whole : b.value);
        if (lane == 0) tell(upto + (long long)(block_of_sets + 1) * words, combine(c.value, all));
    }
    return combine(combine(c.value, folded(b.value)), folded(a.value));
}
<% endif %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << source >>* __restrict__ x,
<%- if pair %> const << source >>* __restrict__ z,<% endif %> << result >>* __restrict__ y,
<%- if chained %> unsigned long long* marks,<% endif %>
    long long rows, << index >> n, << index >> total, int lead<% if chained %>, int tiles<% endif %>)
{
    const int warp = threadIdx.x % lanes / team;
<% if lanes > 32 %>
    __shared__ T of_warp[2][warps];
<% endif %>
<% if chained %>
    __shared__ T of_tiles_before;
    __shared__ unsigned ticket;
    if (threadIdx.x == 0) ticket = atomicAdd((unsigned*)marks, 1u);
    __syncthreads();
    const long long row = ticket % (unsigned)rows;
    const int tile = ticket / (unsigned)rows;
    const bool begins = tile == 0 && threadIdx.x == 0;
    const I size = n;
<% else %>
    const long long row = ((long long)blockIdx.x * << block >> + threadIdx.x) / lanes;
    const bool begins = row < rows && threadIdx.x % lanes == 0;
    const I size = row < rows ? n : 0;
<% endif %>
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
<% if chained %>
    first += (I)tile * step;
    Held held;
    held.fetch_at(first, size, from, true<% if pair %>, second, second_fits<% endif %>);
    const T sum = held.reduce(before);
    T ahead = neutral(), own = neutral();
<% if lanes > 32 %>
    if (threadIdx.x % 32 == 0) of_warp[0][warp] = sum;
    __syncthreads();
#pragma unroll
    for (int w = 0; w < warps; ++w) {
        if (w == warp) ahead = own;
        own = combine(own, of_warp[0][w]);
    }
<% else %>
    own = sum;
<% endif %>
    if (warp == 0) {
        const T value = made_before(marks + 2 + row * << "((long long)tiles + divide_up(tiles, 32) + tiles / 1024 + 1) * words" >>, tiles, tile, own);
        if (threadIdx.x == 0) of_tiles_before = value;
    }
    __syncthreads();
    held.store(to, first, size, fits, combine(of_tiles_before, ahead), before);
<% else %>
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
<% endif %>
}
