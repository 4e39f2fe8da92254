// y[r, j] = x[r, 0] + ... + x[r, j] for j < n, "+" being << scan >><< ", from the end backwards" if reverse >>.
<% if pair %>
// Here each element is the map of a number v to x * v + z, "+" is one map after another, and y what they make of 0.
<% endif %>
// x (rows, n), y (rows, n + lead) in C order; with lead y has the start of the scan, too.
// Launch: a block for each of the `tiles` tiles of << block * width * packs >> elements of each row, that of a ticket it draws. It tells what its
// tile makes; the last of 32 tiles, what these make; the last of 1024, what all up to there make: so every run adds in
// the same order. `marks`: two words for the ticket, then for each row what is told, all 0 at first.
// A tile lies in shared memory, so that << resident >> blocks are under way in a multiprocessor; a thread scans << packs * width >> neighbouring elements.
<% include "index/scan.cuh" %>
<% include "prelude/packs.cuh" %>
using I = << index >>;
constexpr int width = << width >>, packs = << packs >>, block = << block >>, team = 32, warps = block / team;
constexpr int step = block * packs * width;
<% include "index/scan_warp.cuh" %>

<% include "prelude/copy_async.cuh" %>

<% include "index/scan_shared.cuh" %>

<% include "index/scan_marks.cuh" %>

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
    // Lane 31, which no tile or set comes before, has what comes before the 32 sets.
    const volatile Word* const from = lane < 31 ? of_set + (long long)(set - place_of_set + lane) * words : upto + (long long)block_of_sets * words;
    Awaited a(of_tile + (long long)(tile - place + lane) * words, lane < place);
    Awaited b(from, lane < 31 ? lane < place_of_set : block_of_sets > 0);
    T whole = neutral();
    for (bool told = place < 31;;) {
        a.look_up();
        b.look_up();
        a.look();
        // Others wait for this while what is before the set is still on its way.
        if (!told && __all_sync(0xffffffffu, a.here)) {
            told = true;
            whole = folded(lane == 31 ? own : a.value);
            if (lane == 0) tell(of_set + (long long)set * words, whole);
        }
        b.look();
        if (__all_sync(0xffffffffu, a.here && b.here)) break;
        __nanosleep(<< pause >>);
    }
    const T before = shuffle_from(b.value, 31);
    if (place == 31 && place_of_set == 31) {
        whole = shuffle_from(whole, 0);
        const T all = folded(lane == 31 ? whole : b.value);
        if (lane == 0) tell(upto + (long long)(block_of_sets + 1) * words, combine(before, all));
    }
    return combine(combine(before, folded(lane == 31 ? neutral() : b.value)), folded(a.value));
}

<% set at = "[width - 1 - v]" if reverse else "[v]" %>
<% set tiles = "const Tile<S>& held" ~ (", const Tile<S>& second_held" if pair) %>
// What the elements of a thread make.
__device__ __forceinline__ T sum_of(<< tiles >>) {
    T sum = neutral();
#pragma unroll
    for (int k = 0; k < packs; ++k) {
        const Pack<S, width> a = held.pack(k);
<% if pair %>
        const Pack<S, width> b = second_held.pack(k);
<% endif %>
#pragma unroll
        for (int v = 0; v < width; ++v) sum = combine(sum, made_of(a.at<< at >><< ", b.at" ~ at if pair >>));
    }
    return sum;
}
// The results of a thread, of which `upto` comes before the first; they may take the place of the elements.
__device__ __forceinline__ void write(Tile<R>& made, T upto, << tiles >>) {
#pragma unroll
    for (int k = 0; k < packs; ++k) {
        const Pack<S, width> a = held.pack(k);
<% if pair %>
        const Pack<S, width> b = second_held.pack(k);
<% endif %>
        Pack<R, width> results;
#pragma unroll
        for (int v = 0; v < width; ++v) {
            upto = combine(upto, made_of(a.at<< at >><< ", b.at" ~ at if pair >>));
            results.at<< at >> = result_of(upto);
        }
        made.put(k, results);
    }
}

extern "C" __global__ void __launch_bounds__(<< block >>, << resident >>) << name >>(
    const << source >>* __restrict__ x,
<%- if pair %> const << source >>* __restrict__ z,<% endif %> << result >>* __restrict__ y, unsigned long long* marks,
    long long rows, << index >> n, int lead, int tiles)
{
    __shared__ Tile<S> held;
<% if pair %>
    __shared__ Tile<S> second_held;
<% endif %>
<% if in_place %>
    Tile<R>& made = *(Tile<R>*)&held;
<% else %>
    __shared__ Tile<R> made;
<% endif %>
    __shared__ T of_warp[warps], of_tiles_before;
    __shared__ unsigned ticket;
    if (threadIdx.x == 0) ticket = atomicAdd((unsigned*)marks, 1u);
    __syncthreads();
    const long long row = ticket % (unsigned)rows;
    const int tile = ticket / (unsigned)rows, warp = threadIdx.x / 32;
    const S* const from = x + row * n;
    R* const to = y + row * (n + lead)<< " + lead" if not reverse >>;
    // Packs lie on the boundaries of memory: the first one of a row may begin before it.
    const int phase = (size_t)from / sizeof(S) % width;
<% if reverse %>
    const I first = n + (width - (phase + n) % width) % width - (I)(tile + 1) * step;
<% else %>
    const I first = (I)tile * step - phase;
<% endif %>
    if (lead && tile == 0 && threadIdx.x == 0) to[<< "n" if reverse else "-1" >>] = result_of(neutral());
    held.fetch(from, first, n, true, << absent >>);
<% if pair %>
    const S* const second = z + row * n;
    second_held.fetch(second, first, n, (int)((size_t)second / sizeof(S) % width) == phase, S(0));
<% endif %>
    copies_arrive();
    const T sum = sum_of(held<< ", second_held" if pair >>);
    const T upto_thread = scan_team(sum), others = shuffle_up(upto_thread, 1);
    if (threadIdx.x % 32 == 31) of_warp[warp] = upto_thread;
    __syncthreads();
    T upto = neutral(), own = neutral();
#pragma unroll
    for (int w = 0; w < warps; ++w) {
        if (w == warp) upto = own;
        own = combine(own, of_warp[w]);
    }
    if (threadIdx.x % 32) upto = combine(upto, others);
    if (warp == 0) {
        const long long count = (long long)tiles + divide_up(tiles, 32) + tiles / 1024 + 1;
        const T value = made_before(marks + 2 + row * count * words, tiles, tile, own);
        if (threadIdx.x == 0) of_tiles_before = value;
    }
    __syncthreads();
    upto = combine(of_tiles_before, upto);
    write(made, upto, held<< ", second_held" if pair >>);
    __syncwarp();
    made.store(to, first, n, (int)((size_t)to / sizeof(R) % width) == phase);
}
