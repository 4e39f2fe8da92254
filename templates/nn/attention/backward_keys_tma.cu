// backward_keys.cu on the tensor cores of sm_90a, fed by the hardware's copies: scores are made transposed, so that they stay in
// registers for the products with rows. Each warpgroup that multiplies has 64 keys of a tile and walks along the rows that attend
// to it, of all heads that share the keys. With the queries' gradients, which blocks add up in no certain order.
// Launch: blocks, of which each makes tiles of keys of a head. A warp of the last warpgroup brings tiles of
// queries and of the result's cotangent to a ring of stages with the rows' statistics, and before them the keys and values.
// Shared, dynamic: keys, values, the stages of queries and of the cotangent, those of what the score reads; for the queries' gradients
// the scores' cotangents and what a tile adds; statistics; 1024 bytes before for alignment.
<% set wgmma_columns = [tile_m, tile_m // 2, (head_size + 15) // 16 * 16, (value_size + 15) // 16 * 16] | unique | list %>
<% include "nn/attention/backward_tma.cuh" %>
constexpr bool makes_k = << makes_k | lower >>, makes_v = << makes_v | lower >>, makes_q = << makes_q | lower >>;
static_assert(!makes_q || (makes_k && makes_v && workers == 2), "with the gradients of queries, all");
constexpr int size_k = tile_n * head_lines, size_v = tile_n * value_lines;
constexpr int size_q = tile_m * head_lines, size_d = tile_m * value_lines;
// What a warpgroup makes of the gradients of a tile of queries, transposed: 64 features of all rows, or all features of half of them.
constexpr bool by_features = head_lines > line;
constexpr int own_columns = by_features ? tile_m : tile_m / 2, own_sums = 64 * own_columns;
constexpr int exchanged = makes_q ? tile_m * tile_n : 0, added = makes_q ? 2 * own_sums : 0;  // `exchanged` twice, by turns
constexpr bool by_turns = << by_turns | lower >>;  // one warpgroup multiplies while the other makes weights
static_assert(!by_turns || makes_q);
// Numbers of a tile's rows: lse of their RowShift, deltas, shifts, and whether some of these are not 0.
constexpr int size_statistics = 3 * tile_m + 2;
// The products with the cotangent begin at what is subtracted from them; by turns that is read while the other warpgroup multiplies.
constexpr bool begun = makes_k && !dropping && !by_turns;
constexpr bool stops = makes_q || mixed;  // keys beyond the last one must have no weight
// Numbers of barriers, the first two of each warpgroup and turn: its cotangents of scores are there; it may write them again. And
// of each warpgroup: it has written its sums; it is its turn to multiply.
enum Meeting { there = 1, writable = 9, written = 5, turn = 13 };

// The tiles of rows that attend to a tile of keys, of each head.
struct Walk : Course<tile_m> {
    int begin;  // the tile that comes first: where all rows have all keys, blocks add to different rows at a time

    __device__ __forceinline__ Walk(const Place& at, const Turns& turns, int key)
        : Course(rows_for(at, turns.sizes, turns.lists, key)), begin(makes_q && !bounded_right && count ? 2 * at.tile % count : 0) {}
    // Which of the tiles comes after so many others.
    __device__ __forceinline__ int turn(int i) const { return i + begin < count ? i + begin : i + begin - count; }
    // Whether all rows of a tile attend to all of 64 keys that there are.
    __device__ __forceinline__ bool whole(const Place& at, int row, int key) const {
        const int place = row + at.offset;
        return (!bounded_left || key >= place + tile_m - 1 - at.left) && (!bounded_right || key + 63 <= place + at.right) &&
               row + tile_m <= at.rows && (!stops || key + 64 <= at.keys);
    }
};
// Statistics of a tile with large ones, whose lane's first is `to`.
__device__ __forceinline__ void shift_rows(float* to, const RowStatistics* lse, const Sizes& sizes, const Place& at, int row) {
    const RowShifts shifts(sizes);
#pragma unroll 1
    for (int r = threadIdx.x % 32; r < tile_m && row + r < at.rows; r += 32, to += 32) {
        const RowShift made = shifts(lse[at.statistic(sizes, row + r)]);
        to[0] = made.lse, to[2 * tile_m] = made.shift;
    }
}
// Brings what the warpgroups that multiply go through, with the rows' statistics behind each stage; by one warp.
__device__ __forceinline__ void supply(
    const TensorMap& q, const TensorMap& k, const TensorMap& v, const TensorMap& d, const RowStatistics* lse, const float* delta,
    Turns turns, Stages keys, Stages rows, float* statistics)
{
    constexpr int own_rows = (tile_m + 31) / 32;  // of a lane
    const int lane = threadIdx.x % 32;
    while (turns.next()) {
        Place at = turns.place<sharing, true>();
        const int key = at.tile * tile_n, key_head = at.head / sharing;
        const Walk walk(at, turns, key);
        if (!walk.count) continue;
        if (lane == 0) {
            MBarrier* const full = keys.open(keys.size * sizeof(T));
            bring<tile_n, head_lines>(keys.memory, k, at.matrix(), key_head, at.before_k + key, full);
            bring<tile_n, value_lines>(keys.memory + size_k, v, at.matrix(), key_head, at.before_k + key, full);
        }
        ++keys.number;
        for (int n = 0, i = 0; n < sharing * walk.count; ++n, ++rows.number) {
            const int row = walk[walk.turn(i)];
            float* const to = statistics + rows.stage() * size_statistics + lane;
            float of_lse[own_rows], of_delta[own_rows];
            bool large = false;
#pragma unroll
            for (int r = 0; r < own_rows; ++r) {
                const int own = row + 32 * r + lane;
                of_lse[r] = own < at.rows ? exponent(lse[at.statistic(turns.sizes, own)].lse) : limits<float>::infinity();
                of_delta[r] = own < at.rows ? delta[at.statistic(turns.sizes, own)] : 0.0f;
                if (of_lse[r] == limits<float>::infinity()) of_delta[r] = 0.0f;
                of_delta[r] = -of_delta[r];
                large = large || is_large(of_lse[r]);
            }
            large = __any_sync(0xffffffffu, large);
            rows.wait_empty();
#pragma unroll
            for (int r = 0; r < own_rows; ++r)
                if (32 * r + lane < tile_m) to[32 * r] = of_lse[r], to[tile_m + 32 * r] = of_delta[r], to[2 * tile_m + 32 * r] = 0.0f;
            if (lane == 0) to[3 * tile_m] = large;
            if (large) shift_rows(to, lse, turns.sizes, at, row);
            mbarrier_arrive(&rows.full[rows.stage()]);
            if (lane == 0) {
                MBarrier* const full = rows.open(rows.size * sizeof(T));
                bring<tile_m, head_lines>(rows.tile(), q, at.matrix(), at.head, at.before_q + row, full);
                bring<tile_m, value_lines>(rows.tile() + size_q, d, at.matrix(), at.head, at.before_q + row, full);
            }
            if (++i == walk.count) i = 0, ++at.head;
        }
    }
}
// Brings what a score reads; by one warp.
__device__ __forceinline__ void supply_ahead(const Scores& scores, const TensorMap& map, Turns turns, Stages ahead) {
    while (turns.next()) {
        Place at = turns.place<sharing, true>();
        const int key = at.tile * tile_n;
        const Walk walk(at, turns, key);
        if (!walk.count) continue;
        for (int h = 0; h < sharing; ++h, ++at.head) {
            const Scores of_head = scores.of(at.batch, at.head);
            for (int i = 0; i < walk.count; ++i) bring_ahead(of_head, map, at, walk[walk.turn(i)], key, ahead);
        }
    }
}
// Where the warpgroups make the gradients of queries together: of a tile, once its cotangents of scores are there, while those of the
// next one are made. So one warpgroup may be most of a tile ahead, and multiply while the other makes weights.
struct Together {
    int group;     // the number of the warpgroup
    T* dscores;    // of two tiles: rows, in blocks of 64 keys
    float* sums;   // of the warpgroup
    float* total;  // of all tiles of a batch's heads, in the order in which lanes have them
    index tile;    // the one whose product comes next

    __device__ __forceinline__ static int meeting(int first, int group, int number) { return first + 2 * group + number % 2; }
    // Passes the cotangents of the scores of a tile of this number on to the other warpgroup.
    __device__ __forceinline__ void share(const unsigned (&words)[tile_m / 16][4], int number) const {
        const int lane = threadIdx.x % 32, chunk = threadIdx.x % 128 / 32 * 2 + lane / 8 % 2;
        T* const to = dscores + number % 2 * exchanged + group * tile_m * line;
        barrier_sync(meeting(writable, group, number), 256);
#pragma unroll
        for (int i = 0; i < tile_m / 16; ++i) {
            const int row = 16 * i + lane / 16 * 8 + lane % 8;
            store_matrices_transposed(to + row * line + (chunk ^ row % 8) * 8, words[i]);
        }
        fence_to_async();
        barrier_arrive(meeting(there, group, number), 256);
    }
    // Starts the product of a tile's cotangents of scores and the keys.
    __device__ __forceinline__ void multiply(float (&d)[own_columns / 2], const T* keys, int number) const {
        const T* const from_both = dscores + number % 2 * exchanged;
        SharedMatrix left(keys + (by_features ? group * tile_n * line : 0), 16, 8 * line * sizeof(T));
        const SharedMatrix right(from_both + (by_features ? 0 : group * own_columns * line), 16, 8 * line * sizeof(T));
        if (threadIdx.x % 128 == 0) wait_stores_read<0>();
        barrier_sync(meeting(there, 1 - group, number), 256);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < tile_n; k += 16) {
            SharedMatrix from = right;
            from += (k / line * line * tile_m + k % line) * int(sizeof(T));
            wgmma<T, own_columns, false, true>(d, left, from, k > 0);
            left += 16 * line * sizeof(T);
        }
        wgmma_commit();
    }
    // Adds the warpgroup's product to those of other keys.
    __device__ __forceinline__ void add(const float (&d)[own_columns / 2], float factor, int number) const {
        const int own = threadIdx.x % 128;
        barrier_arrive(meeting(writable, 1 - group, number), 256);
#pragma unroll
        for (int i = 0; i < own_columns / 8; ++i) {
            Pack<float, 4> pack;
#pragma unroll
            for (int e = 0; e < 4; ++e) pack.at[e] = d[4 * i + e] * factor;
            *(Pack<float, 4>*)(sums + (i * 128 + own) * 4) = pack;
        }
        fence_to_async();
        barrier_sync(written + group, 128);
        if (own == 0) {
            add_bulk(total + (2 * tile + group) * own_sums, sums, own_sums * sizeof(float));
            commit_stores();
        }
    }
    __device__ __forceinline__ void finish(const T* keys, float factor, int number) const {
        float dq[own_columns / 2];
        multiply(dq, keys, number);
        wgmma_wait<0>(dq);
        add(dq, factor, number);
    }
};
// Which weights of a lane's elements of a tile dropout keeps, of two keys of a warp's from `key` on and rows from `row` on. Elements of
// a draw are four keys of a row, which four lanes have: each draws for one row and one half of the keys.
struct KeptOfKeys {
    static constexpr int words = (tile_m + 63) / 64;
    unsigned of[4][words];

    __device__ __forceinline__ KeptOfKeys(const Draw& draw, const Sizes& sizes, const Place& at, int row, int key) : of{} {
        if constexpr (!dropping) return;
        const int lane = threadIdx.x % 32, own_key = lane / 4, part = own_key % 4;
        row += lane % 4 * 2;
#pragma unroll
        for (int w = 0; w < words; ++w) {
            unsigned own = 0;
#pragma unroll 4
            for (int i = 8 * w; i < (8 * w + 8 < tile_m / 8 ? 8 * w + 8 : tile_m / 8); ++i) {
                const int at_bit = i % 8 * 4;
                if constexpr (by_fours) {
                    own |= shl(draw.kept(sizes, at.element(sizes, row + 8 * i + part % 2, key + part / 2 * 8 + own_key / 4 * 4)), at_bit);
                } else {
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        const unsigned long long n = at.element(sizes, row + 8 * i + e % 2, key + e / 2 * 8 + own_key);
                        of[e][w] |= shl(draw.kept(sizes, n) >> n % 4 & 1, at_bit);
                    }
                }
            }
            if constexpr (by_fours)
#pragma unroll
                for (int e = 0; e < 4; ++e) of[e][w] = __shfl_sync(0xffffffffu, own, lane - 4 * part + 4 * e) >> part;
        }
    }
    // Of the lane's number i.
    __device__ __forceinline__ bool operator()(int i) const {
        return !dropping || of[i % 4][i / 4 / 8] >> i / 4 % 8 * 4 & 1;
    }
};
// Adds the products of a tile of rows with a warpgroup's keys. While one warpgroup makes
// weights, others multiply. `first`: no tile of rows came before with these keys.
__device__ __forceinline__ void advance(
    const Cotangents& cotangents, const Place& at, const T* keys, Stages& rows, const float* statistics, Stages& ahead,
    Together& together, int row, int key, bool whole, bool open, bool first, float (&sums_k)[makes_k ? head_width / 2 : 1],
    float (&sums_v)[makes_v ? value_width / 2 : 1])
{
    float s[tile_m / 2], ds[tile_m / 2];
    unsigned weights[tile_m / 16][4], dscores[tile_m / 16][4];
    const T* const own_keys = keys + together.group * 64 * line;
    const T *const of_q = rows.tile(), *const of_d = of_q + size_q;
    const int lane_row = row + threadIdx.x % 4 * 2;
    const float *const of_stage = statistics + rows.stage() * size_statistics, *const of_lse = of_stage + threadIdx.x % 4 * 2;
    const Allowed<tile_m, true> allowed[2] = {
        {cotangents.scores, cotangents.sizes, at, key, lane_row, open},
        {cotangents.scores, cotangents.sizes, at, key + 8, lane_row, open}};
    const auto attends = [&](int i) {
        const int place = lane_row + i / 4 * 8 + i % 2 + at.offset, own = key + i % 4 / 2 * 8;
        return (!bounded_left || own >= place - at.left) && (!bounded_right || own <= place + at.right) &&
               (!stops || own < at.keys) && allowed[i % 4 / 2](i / 4 * 8 + i % 2);
    };
    const auto spot = [&](int i, bool masked) {
        const int column = i / 4 * 8 + i % 2, last_row = masked ? at.rows - 1 : limits<int>::highest();
        return Spot{at.batch, at.head, lane_row, key, column, i % 4 / 2 * 8, last_row, at.keys - 1};
    };
    rows.wait_full();
    if (sequenced && row + tile_m > at.rows) {
        clear_rows<tile_m, head_lines>(rows.tile(), at.rows - row);
        clear_rows<tile_m, value_lines>(rows.tile() + size_q, at.rows - row);
        wait_cleared();
    }
    if constexpr (begun) {
#pragma unroll
        for (int i = 0; i < tile_m / 2; i += 4) {
            const Pack<float, 2> two = load_pack<2>(of_lse + tile_m + 2 * i);
            ds[i] = ds[i + 2] = two.at[0], ds[i + 1] = ds[i + 3] = two.at[1];
        }
        wgmma_made(ds);
    }
    if (by_turns && first) barrier_sync(turn + together.group, 256);
    wgmma_fence();
    multiply_rows<head_width, tile_n, tile_m>(s, own_keys, of_q);
    if constexpr (makes_k) multiply_rows<value_width, tile_n, tile_m, begun>(ds, own_keys + size_k, of_d);
    if constexpr (by_turns) barrier_arrive(turn + 1 - together.group, 256);
    const KeptOfKeys kept(cotangents.draw, cotangents.sizes, at, row, key - threadIdx.x % 32 / 4);
    wgmma_wait<makes_k ? 1 : 0>(s);
    wgmma_made(s);
    if (plain && of_stage[3 * tile_m] != 0.0f) {
#pragma unroll
        for (int i = 0; i < tile_m / 2; ++i) s[i] -= of_lse[2 * tile_m + i / 4 * 8 + i % 2];
    }
    if constexpr (brings_ahead) ahead.wait_full();
    const Arrived arrived(ahead, row, at.tile * tile_n);
    const auto weigh = [&](int i, const RowShift& of_row, const Ahead& of, bool masked, bool beyond) {
        const float product = s[i];
        const float p = masked ? cotangents.weight(product, of_row, spot(i, true), of, attends(i), beyond)
                               : cotangents.weight(product, of_row, spot(i, false), of);
        s[i] = cotangents.sloped(p, product, spot(i, masked), of);
        return kept(i) ? p : 0.0f;
    };
    const auto weigh_all = [&](bool masked, bool beyond) {
#pragma unroll
        for (int n = 0; n < tile_m / 16; ++n) {
            float elements[8] = {};
            arrived.elements<true>(elements, n, together.group * 64 + threadIdx.x % 128 / 32 * 16);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int at_i = 8 * n + 2 * i;
                const Pack<float, 2> lse = load_pack<2>(of_lse + at_i / 4 * 8), shift = load_pack<2>(of_lse + 2 * tile_m + at_i / 4 * 8);
                const float low = weigh(at_i, {shift.at[0], lse.at[0]}, arrived.with(elements[2 * i]), masked, beyond);
                const Ahead of = arrived.with(elements[2 * i + 1]);
                weights[n][i] = pair(low, weigh(at_i + 1, {shift.at[1], lse.at[1]}, of, masked, beyond));
            }
        }
    };
    if (whole && (!listed || open)) weigh_all(false, false);
    else if (plain && row + tile_m <= at.rows) weigh_all(true, false);
    else weigh_all(true, true);
    if constexpr (brings_ahead) ahead.release();
    if constexpr (makes_k) {
        wgmma_wait<0>(s);
        wgmma_made(ds);
    }
    if constexpr (makes_k) {
#pragma unroll
        for (int i = 0; i < tile_m / 2; ++i) {
            if constexpr (begun) ds[i] *= s[i];
            else ds[i] = s[i] * (cotangents.before(ds[i], kept(i)) + of_lse[tile_m + i / 4 * 8 + i % 2]);
        }
    }
    if constexpr (makes_k) round<tile_m>(dscores, ds);
    if constexpr (makes_q) together.share(dscores, rows.number);
    if constexpr (by_turns) barrier_sync(turn + together.group, 256);
    wgmma_fence();
    if constexpr (makes_v) multiply_weights<tile_m, makes_v ? value_width : 2>(sums_v, weights, of_d);
    if constexpr (makes_k) multiply_weights<tile_m, makes_k ? head_width : 2>(sums_k, dscores, of_q);
    if (makes_q && !first) {
        float dq[own_columns / 2];
        const int before = rows.number - 1;
        together.multiply(dq, keys, before);
        wgmma_wait<1>(dq);
        rows.release();
        wgmma_wait<0>(dq);
        together.add(dq, cotangents.factor(), before);
    } else {
        if constexpr (makes_k) wgmma_wait<0>(sums_k);
        if constexpr (makes_v) wgmma_wait<0>(sums_v);
        rows.release();
    }
    if constexpr (makes_q) {
        wgmma_made(sums_k);
        wgmma_made(sums_v);
        together.tile = ((index)at.batch * cotangents.sizes.heads + at.head) * divide_up(at.rows, tile_m) + row / tile_m;
    }
}

extern "C" __global__ void __launch_bounds__(threads, 1) << name >>(
    <% include "nn/attention/inputs.cuh" %>
    const __grid_constant__ TensorMap d, const RowStatistics* lse, const float* delta,
    T* dk, T* dv, << "float* dq, " if makes_q >>unsigned long long drawn, Sizes sizes, ScoreSteps score_steps, Order order)
{
    <% include "nn/attention/opening.cuh" %>
    T* const of_k = (T*)(shared + (1024 - __cvta_generic_to_shared(shared) % 1024) % 1024);
    T* const of_rows = of_k + size_k + size_v;
    T *const of_ahead = of_rows + stages * (size_q + size_d), *const of_scores = of_ahead + ahead_stages * size_ahead;
    float *const of_sums = (float*)(of_scores + 2 * exchanged), *const statistics = of_sums + added;
    __shared__ MBarrier full[stages + 1 + ahead_stages], empty[stages + 1 + ahead_stages];
    if (threadIdx.x == 0) {
        mbarrier_init_ring(full, empty, stages, 33, 4 * workers);
        mbarrier_init_ring(full + stages, empty + stages, 1, 1, 4 * workers);
        mbarrier_init_ring(full + stages + 1, empty + stages + 1, ahead_stages, 32, 4 * workers);
        fence_mbarrier_init();
    }
    __syncthreads();
    Stages keys{of_k, full + stages, empty + stages, size_k + size_v, 1, 0};
    Stages rows{of_rows, full, empty, size_q + size_d, stages, 0};
    Stages ahead{of_ahead, full + stages + 1, empty + stages + 1, size_ahead, ahead_stages, 0};
    const int group_number = own_group();
    if (group_number == workers) {
        give_registers<kept_registers>();
        if (threadIdx.x < 128 * workers + 32) supply(q, k, v, d, lse, delta, Turns(sizes, order, starts_q, starts_k, lists), keys, rows, statistics);
        if (brings_ahead && threadIdx.x / 32 == 4 * workers + 1)
            supply_ahead(scores, << tiled or "q" >>, Turns(sizes, order, starts_q, starts_k, lists), ahead);
        return;
    }
    take_registers<taken_registers>();
    scores.scale = settled(scores.scale);  // made of a double once, not for each tile
    Together together{group_number, of_scores, of_sums + group_number * own_sums, << "dq" if makes_q else "nullptr" >>, 0};
    for (int n = 0; makes_q && n < 2; ++n) barrier_arrive(Together::meeting(writable, 1 - group_number, n), 256);
    if (by_turns && group_number == 1) barrier_arrive(turn, 256);
    for (Turns turns(sizes, order, starts_q, starts_k, lists); turns.next();) {
        Place at = turns.place<sharing, true>();
        const int group_key = at.tile * tile_n + 64 * group_number, warp_key = group_key + threadIdx.x % 128 / 32 * 16;
        const int first_head = at.head;
        const Walk walk(at, turns, at.tile * tile_n);
        float sums_k[makes_k ? head_width / 2 : 1] = {}, sums_v[makes_v ? value_width / 2 : 1] = {};
        if (const int count = sharing * walk.count) {
            Scores of_head = scores;
            const Cotangents cotangents(sizes, of_head, draw);
            keys.wait_full();
            if (mixed && at.tile * tile_n + tile_n > at.keys) {
                clear_rows<tile_n, head_lines>(of_k, at.keys - at.tile * tile_n);
                clear_rows<tile_n, value_lines>(of_k + size_k, at.keys - at.tile * tile_n);
                wait_cleared();
            }
            for (int n = 0, i = 0; n < count; ++n) {
                const int tile = walk.turn(i), row = walk[tile];
                if (i == 0) of_head = scores.of(at.batch, at.head);
                const int own_key = warp_key + threadIdx.x % 32 / 4;
                const bool whole = walk.whole(at, row, group_key);
                advance(cotangents, at, of_k, rows, statistics, ahead, together, row, own_key, whole, walk.open(tile), n == 0, sums_k, sums_v);
                if (++i == walk.count) i = 0, ++at.head;
            }
            if constexpr (by_turns) barrier_arrive(turn + 1 - group_number, 256);
            if constexpr (makes_q) together.finish(of_k, cotangents.factor(), rows.number - 1);
            keys.release();
            at.head = first_head;
        }
        const float scale = Cotangents(sizes, scores, draw).factor(), of_dk[2] = {scale, scale};
        const float kept = dropping ? float(sizes.kept) : 1.0f, of_dv[2] = {kept, kept};
        const int keys_end = sequenced ? at.keys : sizes.keys;
        if constexpr (makes_k) store<head_size>(at.of_keys(dk, sizes.dk, keys_end), warp_key, sums_k, of_dk);
        if constexpr (makes_v) store<value_size>(at.of_keys(dv, sizes.dv, keys_end), warp_key, sums_v, of_dv);
    }
    if constexpr (makes_q) wait_stores<0>();
}
