// Products of tiles of 16-bit elements by the warpgroups of sm_90a, from tiles that the hardware's copies bring. The heads of
// queries are apart: a row is a query. Warp w of a warpgroup has rows 16 * w to 16 * w + 15 of a result, and lane 4 * g + q of
// it, of rows g and g + 8, columns 2 * q and 2 * q + 1 of each eight.
<% include "nn/attention/attention.cuh" %>
<% include "lib/transpose.cuh" %>
<% include "prelude/mma.cuh" %>
<% include "prelude/packs.cuh" %>
<% include "prelude/tensor_map.cuh" %>
<% include "prelude/warp_roles.cuh" %>
<% include "prelude/wgmma.cuh" %>
static_assert(group == 1, "the heads of queries are apart");
constexpr int line = 64;  // elements of 128 bytes
constexpr int stages = << stages >>, workers = << workers >>;  // warpgroups that multiply
constexpr bool mixed = counted || sequenced;  // what lies beyond the last key of a tile may be anything
constexpr int kept_registers = workers == 2 ? 24 : 32, taken_registers = workers == 2 ? 240 : workers == 3 ? 160 : 112;
// Features that are multiplied; a tile has whole lines of them, with zeros beyond those of a head.
constexpr int head_width = (head_size + 15) / 16 * 16, value_width = (value_size + 15) / 16 * 16;
constexpr int head_lines = (head_size + line - 1) / line * line, value_lines = (value_size + line - 1) / line * line;

// The order in which tiles are begun, so that the keys of the heads at work stay in the L2: heads in sections, in each tile
// after tile, those first that take longest. Blocks take tiles to and fro, from another one on in each section.
// The heads of all batches, and those of a section; turns of a block in a section, and how many blocks further the next one begins.
<< Order >>
// The tiles that a block makes.
struct Turns {
    const Sizes& sizes;
    const Order& order;
    const int *starts_q, *starts_k;  // of sequences, or how many keys each batch has
    const int* lists;  // of tiles, see mask_tiles.cu
    // Counted on from turn to turn: divisions take long, and the compiler would not know that all threads agree on what they make.
    int section, own, block;  // of the heads, the block's turn in it, and the block's number there

    __device__ __forceinline__ Turns(
        const Sizes& sizes, const Order& order, const int* starts_q, const int* starts_k, const int* lists)
        : sizes(sizes), order(order), starts_q(starts_q), starts_k(starts_k), lists(lists), section(0), own(-1), block(blockIdx.x) {}
    __device__ __forceinline__ int first() const { return section * order.section; }  // head of the section
    __device__ __forceinline__ int width() const { return minimum(order.section, order.heads - first()); }
    // Of the tile in the section.
    __device__ __forceinline__ int number() const {
        const int blocks = gridDim.x;
        return own * blocks + ((own + section) % 2 ? blocks - 1 - block : block);
    }
    __device__ __forceinline__ bool next() {
        do {
            if (++own == order.turns) {
                own = 0, ++section;
                block -= order.rotation;
                if (block < 0) block += gridDim.x;
            }
            if (first() >= order.heads) return false;
        } while (number() >= width() * sizes.tiles);
        return true;
    }
    // Of the first head among every so many.
    template <int HEADS, bool OF_KEYS>
    __device__ __forceinline__ Place place() const {
        const int head = first() + number() % width(), heads = sizes.heads / HEADS;
        Place at(sizes, starts_k, head / heads, head % heads * HEADS);
        at.tile = number() / width();
        if constexpr (sequenced) at.find(sizes, starts_q, starts_k, OF_KEYS);
        return at;
    }
};

// A tile in shared memory consists of blocks of 64 features, in each of which a row is a line whose chunks change places.
// Asks for COUNT rows of a head, from `first` on; beyond the end they are zeros.
template <int COUNT, int FEATURES>
__device__ __forceinline__ void bring(T* to, const TensorMap& map, int batch, int head, int first, MBarrier* full) {
#pragma unroll
    for (int e = 0; e < FEATURES; e += line) copy_tile(to + e * COUNT, map, {batch, head, first, e}, full);
}
// Makes zeros of the rows of a tile of keys or values from `end` on, where a weight that is 0 may meet what is NaN: by all threads
// that multiply, once the tile has come. Others wait for them with wait_cleared.
template <int COUNT, int FEATURES>
__device__ __forceinline__ void clear_rows(T* tile, int end) {
    constexpr int chunks = FEATURES / 8;
    for (int i = end * chunks + threadIdx.x; i < COUNT * chunks; i += 128 * workers)
        *(Pack<T, 8>*)(tile + i % chunks / 8 * COUNT * line + i / chunks * line + i % 8 * 8) = Pack<T, 8>{};
}
__device__ __forceinline__ void wait_cleared() {
    fence_to_async();
    barrier_sync(8, 128 * workers);
}
// Tiles in shared memory, and how many of them a warpgroup has had.
struct Stages {
    T* memory;
    MBarrier *full, *empty;
    int size;
    unsigned count, number;

    __device__ __forceinline__ int stage() const { return number % count; }
    __device__ __forceinline__ T* tile() const { return memory + stage() * size; }
    __device__ __forceinline__ void wait_full() const { mbarrier_wait(&full[stage()], number / count % 2); }
    __device__ __forceinline__ void wait_empty() const { mbarrier_wait(&empty[stage()], number / count % 2 ^ 1); }
    __device__ __forceinline__ void release() {
        mbarrier_arrive_warp(&empty[stage()]);
        ++number;
    }
    // Waits for an empty stage, of which `bytes` are expected. By one thread, which then asks for them.
    __device__ __forceinline__ MBarrier* open(int bytes) const {
        wait_empty();
        mbarrier_arrive_expecting(&full[stage()], bytes);
        return &full[stage()];
    }
};
// What a score reads besides the product, which a warp brings ahead of each tile of scores: an array's tile of rows and keys, and for
// each distance of a key and a query, of which a tile has `span`, some numbers.
constexpr int windows = << windows.inputs | length >>, span = tile_m + tile_n;
constexpr bool tiled = << (tiled is not none) | lower >>, brings_ahead = tiled || windows > 0;
constexpr int ahead_stages = << ahead_stages >>, size_ahead = << ahead_size >> / sizeof(T);
constexpr int tile_lines = (tile_n + line - 1) / line * line, size_tile = tiled ? tile_m * tile_lines : 0;
<% for x in operands if x.tiled %>
using Tiled = << x.type >>;
// The array's batch and head.
__device__ __forceinline__ void bring_array(T* to, const TensorMap& map, const Place& at, int row, int key, MBarrier* full) {
    const int batch = << "at.batch" if 0 in x.axes else 0 >>, head = << "at.head" if 1 in x.axes else 0 >>;
#pragma unroll
    for (int e = 0; e < tile_lines; e += line) copy_tile(to + e * tile_m, map, {batch, head, row, key + e}, full);
}
<% else %>
using Tiled = T;
__device__ __forceinline__ void bring_array(T*, const TensorMap&, const Place&, int, int, MBarrier*) {}
<% endfor %>
// By so many threads, whole warps, before the tile of these rows and keys. Numbers from `known` on are the first ones of the tile that
// the threads brought before.
template <int MAKERS = 32>
__device__ __forceinline__ void bring_ahead(
    [[maybe_unused]] const Scores& scores, const TensorMap& map, const Place& at, int row, int key, Stages& ahead,
    [[maybe_unused]] int known = span)
{
    const int lane = threadIdx.x % MAKERS;
    ahead.wait_empty();
<% if windows.inputs %>
    float* const to = (float*)(ahead.tile() + size_tile);
    const float* const before = (const float*)(ahead.memory + (ahead.number + 1) % 2 * ahead.size + size_tile);
    if (ahead_stages != 2 || known % MAKERS) known = span;  // each thread copies numbers of its own
    // Distances that no key has from a query are as those nearest to them.
    for (int i = lane; i < minimum(known, span); i += MAKERS) {
        const int distance = minimum(maximum(key - row - tile_m + 1 + i, 1 - at.rows), at.keys - 1);
        float made[windows];
        scores.by_distance(made, at.batch, at.head, maximum(-distance, 0), maximum(distance, 0));
#pragma unroll
        for (int n = 0; n < windows; ++n) to[n * span + i] = made[n];
    }
    for (int i = known + lane; i < span; i += MAKERS) {
#pragma unroll
        for (int n = 0; n < windows; ++n) to[n * span + i] = before[n * span + i - known];
    }
<% endif %>
    if (tiled && lane == 0) bring_array(ahead.tile(), map, at, row, key, ahead.open(size_tile * sizeof(T)));
    else mbarrier_arrive(&ahead.full[ahead.stage()]);
    ++ahead.number;
}
// What came ahead of a tile, where a lane's first row and key of it are these.
struct Arrived {
    const T *memory, *tile;
    int begin;  // of the tile in the stages' memory
    Ahead of;

    __device__ __forceinline__ Arrived(const Stages& ahead, int row, int key)
        : memory(ahead.memory), tile(brings_ahead ? ahead.tile() : nullptr), begin(brings_ahead ? ahead.stage() * ahead.size : 0),
          of{(const float*)(tile + size_tile), tile_m - 1 + row - key} {}
    // The array's elements of a lane's numbers 8 * n to 8 * n + 7 of a result: of a warp's 16 rows from the tile's `row` on, or with OF_KEYS
    // of its 16 keys from the tile's `key` on.
    template <bool OF_KEYS>
    __device__ __forceinline__ void elements(float (&to)[8], int n, int first) const {
        if constexpr (!tiled) return;
        const int lane = threadIdx.x % 32, high = lane / 16, own = first + lane % 16;
        Pack<Tiled, 8> pack;
        unsigned(&words)[4] = (unsigned(&)[4])pack;
        if constexpr (OF_KEYS) {
            const int place = own / line * tile_m * line + (16 * n + lane % 8 + 8 * high) * line + (own / 8 ^ lane) % 8 * 8;
            load_matrices_transposed(words, tile + place);
        } else {
            // The chunks of a row differ by bits of their places alone, which are made in 32 bits.
            const int place = begin + own * line + (high ^ lane % 8) * 8;
            load_matrices(words, memory + (place ^ n % 4 * 16) + n / 4 * tile_m * line);
        }
        unpack(pack, to);
    }
    __device__ __forceinline__ Ahead with(float element) const { return {of.windows, of.origin, element}; }
};
// Starts d = a @ b.T, for 64 rows of a tile of ROWS from `a` on, and the rows of a tile of COLUMNS; with MORE, d += a @ b.T.
template <int DEPTH, int ROWS, int COLUMNS, bool MORE = false>
__device__ __forceinline__ void multiply_rows(float (&d)[COLUMNS / 2], const T* a, const T* b) {
    const SharedMatrix left(a, 16, 8 * line * sizeof(T)), right(b, 16, 8 * line * sizeof(T));
#pragma unroll
    for (int k = 0; k < DEPTH; k += 16) {
        SharedMatrix from_a = left, from_b = right;
        from_a += (k / line * line * ROWS + k % line) * int(sizeof(T));
        from_b += (k / line * line * COLUMNS + k % line) * int(sizeof(T));
        wgmma<T, COLUMNS, true, true>(d, from_a, from_b, MORE || k > 0);
    }
    wgmma_commit();
}
// Starts d += weights @ b, for a tile of DEPTH rows.
template <int DEPTH, int COLUMNS>
__device__ __forceinline__ void multiply_weights(float (&d)[COLUMNS / 2], const unsigned (&weights)[DEPTH / 16][4], const T* b) {
    SharedMatrix right(b, DEPTH * line * sizeof(T), 8 * line * sizeof(T));
#pragma unroll
    for (int k = 0; k < DEPTH / 16; ++k) {
        wgmma<T, COLUMNS, false>(d, weights[k], right, true);
        right += 16 * line * sizeof(T);
    }
    wgmma_commit();
}
// What a mask has for a row, or with OF_KEYS for a key, in COUNT columns from `first` on; true where it is `open`.
template <int COUNT, bool OF_KEYS>
struct Allowed {
<% if listed %>
    static constexpr bool by_query = << mask_by_query | lower >>, by_key = << mask_by_key | lower >>;
    static constexpr bool by_line = OF_KEYS ? by_key : by_query, along = OF_KEYS ? by_query : by_key;
    static constexpr int count = (COUNT + 31) / 32;
    unsigned words[count];

    __device__ __forceinline__ Allowed(const Scores& scores, const Sizes& sizes, const Place& at, int own, int first, bool open) {
        const int queries = by_query ? sizes.queries : 1, keys = by_key ? sizes.keys : 1;
        const int lines = OF_KEYS ? keys : queries, length = divide_up(OF_KEYS ? queries : keys, 32);
        const long long heads = << "sizes.heads" if lists_by_head else 1 >>;
        const long long matrix = << "at.batch * heads" if lists_by_batch else 0 >><< " + at.head" if lists_by_head >>;
        const unsigned* line = scores.bits + (matrix * lines + (by_line ? minimum(own, lines - 1) : 0)) * length;
        if constexpr (OF_KEYS) line += << "sizes.sequences * heads" if lists_by_batch else "heads" >> * queries * divide_up(keys, 32);
#pragma unroll
        for (int w = 0; w < count; ++w) {
            words[w] = ~0u;
            if (open) continue;
            const int n = along ? first / 32 + w : 0;
            const unsigned low = line[minimum(n, length - 1)];
            const unsigned high = COUNT % 32 == 0 ? 0u : line[minimum(n + 1, length - 1)];
            words[w] = along ? unsigned((shl((unsigned long long)high, 32) | low) >> first % 32) : low;
        }
    }
    __device__ __forceinline__ bool operator()(int column) const { return words[column / 32] >> column % 32 & 1; }
<% else %>
    __device__ __forceinline__ Allowed(const Scores&, const Sizes&, const Place&, int, int, bool) {}
    __device__ __forceinline__ bool operator()(int) const { return true; }
<% endif %>
};
// Which weights of a lane's elements of a tile dropout keeps, of two rows from `row` on and keys from `key` on. Elements of a draw are
// four of a row, which two lanes have: each draws for one of the rows.
template <int COLUMNS>
struct Kept {
    static constexpr int words = (COLUMNS + 63) / 64;
    unsigned of[2][words];

    __device__ __forceinline__ Kept(const Draw& draw, const Sizes& sizes, const Place& at, int row, int key) : of{} {
        if constexpr (!dropping) return;
        const int lane = threadIdx.x % 4, odd = lane % 2;
#pragma unroll
        for (int w = 0; w < words; ++w) {
            unsigned own = 0;
#pragma unroll 4
            for (int i = 8 * w; i < (8 * w + 8 < COLUMNS / 8 ? 8 * w + 8 : COLUMNS / 8); ++i) {
                const int at_bit = i % 8 * 4;
                if constexpr (by_fours) {
                    own |= shl(draw.kept(sizes, at.element(sizes, row + 8 * odd, key + 8 * i + lane / 2 * 4)), at_bit);
                } else {
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        const unsigned long long n = at.element(sizes, row + e / 2 * 8, key + 8 * i + 2 * lane + e % 2);
                        of[e / 2][w] |= shl(draw.kept(sizes, n) >> n % 4 & 1, at_bit + e % 2);
                    }
                }
            }
            if constexpr (by_fours) {
                const unsigned other = __shfl_xor_sync(0xffffffffu, own, 1);
                of[0][w] = (odd ? other : own) >> 2 * odd;
                of[1][w] = (odd ? own : other) >> 2 * odd;
            }
        }
    }
    // The lane's number: of its second row, eight rows on, if `half`, and of a column.
    __device__ __forceinline__ bool operator()(int half, int column) const {
        return !dropping || of[half][column / 64] >> (column % 64 / 8 * 4 + column % 2) & 1;
    }
};
// Two numbers in a word, rounded.
__device__ __forceinline__ unsigned pair(float low, float high) {
    const float both[2] = {low, high};
    const Pack<T, 2> made = packed<T, 2>(both);
    return *(const unsigned*)&made;
}
// The result of a product as the left operand of another: it stays in its lanes.
template <int COLUMNS>
__device__ __forceinline__ void round(unsigned (&words)[COLUMNS / 16][4], const float (&d)[COLUMNS / 2]) {
#pragma unroll
    for (int i = 0; i < COLUMNS / 4; ++i) words[i / 4][i % 4] = pair(d[2 * i], d[2 * i + 1]);
}
// Stores the 16 rows of a warp from `first` on, times a factor for each of a lane's two.
template <int SIZE, int COLUMNS, typename P>
__device__ __forceinline__ void store(const Rows<1, P>& rows, int first, const float (&d)[COLUMNS], const float (&factor)[2]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        P* const to = rows(first + lane / 4 + 8 * half);
#pragma unroll
        for (int y = 0; y < SIZE; y += 32) {
            uint4 pack;
            unsigned(&words)[4] = (unsigned(&)[4])pack;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int at = y / 2 + 4 * i + 2 * half;
                words[i] = at < COLUMNS ? pair(d[at] * factor[half], d[at + 1] * factor[half]) : 0u;
            }
            transpose(words);
            const int e = y + 8 * (lane % 4);
            if (to && e < SIZE) *(uint4*)(to + e) = pack;
        }
    }
}
