// y[r, j] = x[r, 0] + ... + x[r, j] for j < n, "+" being << scan >><< ", from the end backwards" if reverse >>.
<% if pair %>
// Here: the linear recurrence y = x * y + z from 0, a scan of affine maps, which "+" composes.
<% endif %>
// x (rows, n), y (rows, n + lead) in C order; with lead y has the start of the scan, too.
// Decoupled look-back (Merrill and Garland, "Single-pass parallel prefix scan with decoupled look-back", 2016), of three
// levels: a tile writes its total, the last of 32 tiles that of these, the last of 1024 the prefix: so every run adds in
// the same order.
// Launch: a block for each of the `tiles` tiles of `step` elements of each row, which it draws by a ticket.
// `status`: two words for the ticket, then for each row the totals, all 0 before.
// A tile is staged in shared memory, with << resident >> blocks resident per multiprocessor; a thread scans packs * width
// neighbouring elements.
<% include "index/scan.cuh" %>
<% include "prelude/packs.cuh" %>
using I = << index >>;
constexpr int width = << width >>, packs = << packs >>, block = << block >>, team = 32, warps = block / team;
constexpr int step = block * packs * width;
// Whether results overwrite elements.
constexpr bool in_place = << "true" if in_place else "false" >>;
<% include "index/scan_warp.cuh" %>

<% include "prelude/copy_async.cuh" %>

<% include "index/scan_shared.cuh" %>

<% include "index/scan_status.cuh" %>

// The total of the lanes of a warp, in lane 0.
__device__ __forceinline__ T folded(T t) {
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) t = combine(t, shuffle_down(t, distance));
    return t;
}

// Look-back: the total of the tiles of a row before this one, in lane 0 of the warp that calls it; `own` is that of this.
__device__ __forceinline__ T total_before(volatile Word* of_tile, int tiles, int tile, T own) {
    const int lane = threadIdx.x % 32, tile_of_set = tile % 32, set = tile / 32, set_of_block = set % 32, block_of_sets = set / 32;
    volatile Word* const of_set = of_tile + (long long)tiles * words;
    volatile Word* const upto = of_set + (long long)divide_up(tiles, 32) * words;
    if (lane == 0) tell(of_tile + (long long)tile * words, own);
    // Lane 31, which no tile or set comes before, has what comes before the 32 sets.
    const volatile Word* const from = lane < 31 ? of_set + (long long)(set - set_of_block + lane) * words : upto + (long long)block_of_sets * words;
    Awaited a(of_tile + (long long)(tile - tile_of_set + lane) * words, lane < tile_of_set);
    Awaited b(from, lane < 31 ? lane < set_of_block : block_of_sets > 0);
    T whole = neutral();
    for (bool told = tile_of_set < 31;;) {
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
        __nanosleep(pause);
    }
    const T before = shuffle_from(b.value, 31);
    if (tile_of_set == 31 && set_of_block == 31) {
        whole = shuffle_from(whole, 0);
        const T all = folded(lane == 31 ? whole : b.value);
        if (lane == 0) tell(upto + (long long)(block_of_sets + 1) * words, combine(before, all));
    }
    return combine(combine(before, folded(lane == 31 ? neutral() : b.value)), folded(a.value));
}

// The total of the elements of a thread.
__device__ __forceinline__ T sum_of(const Tile<S>& x, const Tile<S>& z) {
    T sum = neutral();
#pragma unroll
    for (int k = 0; k < packs; ++k) {
        const Pack<S, width> a = x.pack(k), b = pair ? z.pack(k) : a;
#pragma unroll
        for (int v = 0; v < width; ++v) {
            const int at = reverse ? width - 1 - v : v;
            sum = combine(sum, state_of(a.at[at], b.at[at]));
        }
    }
    return sum;
}
// The results of a thread, of which `upto` comes before the first; they may overwrite the elements.
__device__ __forceinline__ void write(Tile<R>& result, T upto, const Tile<S>& x, const Tile<S>& z) {
#pragma unroll
    for (int k = 0; k < packs; ++k) {
        const Pack<S, width> a = x.pack(k), b = pair ? z.pack(k) : a;
        Pack<R, width> results;
#pragma unroll
        for (int v = 0; v < width; ++v) {
            const int at = reverse ? width - 1 - v : v;
            upto = combine(upto, state_of(a.at[at], b.at[at]));
            results.at[at] = result_of(upto);
        }
        result.put(k, results);
    }
}

extern "C" __global__ void __launch_bounds__(<< block >>, << resident >>) << name >>(
    const S* __restrict__ x, << "const S* __restrict__ z, " if pair >>R* __restrict__ y, Word* status,
    long long rows, I n, int lead, int tiles)
{
    << "const S* const z = x;" if not pair >>
    __shared__ Tile<S> x_tile, z_tile;
    __shared__ Tile<R> y_tile;
    __shared__ T of_warp[warps], of_tiles_before;
    __shared__ unsigned ticket;
    Tile<S>& second = pair ? z_tile : x_tile;
    Tile<R>& result = in_place ? *(Tile<R>*)&x_tile : y_tile;
    if (threadIdx.x == 0) ticket = atomicAdd((unsigned*)status, 1u);
    __syncthreads();
    const long long row = ticket % (unsigned)rows;
    const int tile = ticket / (unsigned)rows, warp = threadIdx.x / 32;
    const S *const from = x + row * n, *const z_from = z + row * n;
    R* const to = y + row * (n + lead) + (reverse ? 0 : lead);
    // Packs lie on the boundaries of memory: the first one of a row may begin before it.
    const int phase = (size_t)from / sizeof(S) % width;
    const I first = reverse ? n + (width - (phase + n) % width) % width - I(tile + 1) * step : I(tile) * step - phase;
    if (lead && tile == 0 && threadIdx.x == 0) to[reverse ? n : -1] = result_of(neutral());
    x_tile.fetch(from, first, n, true, absent());
    if constexpr (pair) z_tile.fetch(z_from, first, n, (int)((size_t)z_from / sizeof(S) % width) == phase, S(0));
    copies_arrive();
    const T sum = sum_of(x_tile, second);
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
        const T value = total_before(status + 2 + row * count * words, tiles, tile, own);
        if (threadIdx.x == 0) of_tiles_before = value;
    }
    __syncthreads();
    upto = combine(of_tiles_before, upto);
    write(result, upto, x_tile, second);
    __syncwarp();
    result.store(to, first, n, (int)((size_t)to / sizeof(R) % width) == phase);
}
