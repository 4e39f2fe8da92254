// backward_queries.cu on the tensor cores of sm_90a, fed by the hardware's copies. Each warpgroup that multiplies has 64 rows of a
// tile and walks along the keys to which the tile attends.
// Launch: blocks, of which each makes tiles of rows of a head. One thread of the last warpgroup brings tiles of
// keys and values to a ring of stages, and before them the rows of the queries and of the result's cotangent.
// Shared, dynamic: queries, the cotangent, the stages of keys and values, those of what the score reads; 1024
// bytes before for alignment.
<% set wgmma_columns = [tile_n, (head_size + 15) // 16 * 16] | unique | list %>
<% include "nn/attention/backward_tma.cuh" %>
constexpr int size_q = tile_m * head_lines, size_d = tile_m * value_lines;
constexpr int size_k = tile_n * head_lines, size_v = tile_n * value_lines;

// Brings what the warpgroups that multiply go through; by one thread.
__device__ __forceinline__ void supply(
    const TensorMap& q, const TensorMap& k, const TensorMap& v, const TensorMap& d, Turns turns,
    Stages rows, Stages keys)
{
    while (turns.next()) {
        const Place at = turns.place<1, false>();
        const int row = at.first_row(turns.sizes), key_head = at.head / sharing;
        const Course<tile_n> course = keys_for(at, turns.sizes, turns.lists, row);
        if (!course.count) continue;
        MBarrier* const of_rows = rows.open(rows.size * sizeof(T));
        bring<tile_m, head_lines>(rows.memory, q, at.matrix(), at.head, at.before_q + row, of_rows);
        bring<tile_m, value_lines>(rows.memory + size_q, d, at.matrix(), at.head, at.before_q + row, of_rows);
        ++rows.number;
        for (int n = 0; n < course.count; ++n, ++keys.number) {
            const int key = course[n];
            MBarrier* const full = keys.open(keys.size * sizeof(T));
            bring<tile_n, head_lines>(keys.tile(), k, at.matrix(), key_head, at.before_k + key, full);
            bring<tile_n, value_lines>(keys.tile() + size_k, v, at.matrix(), key_head, at.before_k + key, full);
        }
    }
}
// Brings what a score reads; by one warp.
__device__ __forceinline__ void supply_ahead(const Scores& scores, const TensorMap& map, Turns turns, Stages ahead) {
    while (turns.next()) {
        const Place at = turns.place<1, false>();
        const int row = at.first_row(turns.sizes);
        const Course<tile_n> course = keys_for(at, turns.sizes, turns.lists, row);
        const Scores of_head = scores.of(at.batch, at.head);
        for (int n = 0; n < course.count; ++n) bring_ahead(of_head, map, at, row, course[n], ahead);
    }
}
// What a lane knows of its two rows, and which keys they attend to.
struct Own {
    const Place& at;
    int row;
    RowShift shifts[2];
    float delta[2];
    bool shifted;  // one of a warp's rows

    __device__ __forceinline__ Own(const Place& at, const Sizes& sizes, int row, const RowStatistics* of_lse, const float* of_delta)
        : at(at), row(row) {
        const RowShifts made(sizes);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const bool there = row + 8 * half < at.rows;
            shifts[half] = there ? made(of_lse[at.statistic(sizes, row + 8 * half)]) : RowShift{0.0f, limits<float>::infinity()};
            delta[half] = there ? of_delta[at.statistic(sizes, row + 8 * half)] : 0.0f;
            if (shifts[half].lse == limits<float>::infinity()) delta[half] = 0.0f;
        }
        shifted = __any_sync(0xffffffffu, shifts[0].shift != 0.0f || shifts[1].shift != 0.0f);
    }
    __device__ __forceinline__ bool attends(int half, int key) const {
        const int place = row + 8 * half + at.offset;
        return key < at.keys && (!bounded_left || key >= place - at.left) && (!bounded_right || key <= place + at.right);
    }
};
// The cotangents of the scores of a tile of keys, multiplied by its keys, are on their way to `sums` when this returns.
__device__ __forceinline__ void advance(
    const Cotangents& cotangents, const Own& own, const T* rows, Stages& keys, Stages& ahead, int tile_row, int key, bool first,
    bool whole, bool open, float (&sums)[head_width / 2])
{
    float s[tile_n / 2], ds[tile_n / 2];
    unsigned dscores[tile_n / 16][4];
    keys.wait_full();
    if (mixed && key + tile_n > own.at.keys) {
        clear_rows<tile_n, head_lines>(keys.tile(), own.at.keys - key);
        clear_rows<tile_n, value_lines>(keys.tile() + size_k, own.at.keys - key);
        wait_cleared();
    }
    wgmma_fence();
    multiply_rows<head_width, tile_m, tile_n>(s, rows, keys.tile());
    multiply_rows<value_width, tile_m, tile_n>(ds, rows + size_q, keys.tile() + size_k);
    const Kept<tile_n> kept(cotangents.draw, cotangents.sizes, own.at, own.row, key);
    const int lane_key = key + threadIdx.x % 4 * 2;
    const Allowed<tile_n, false> allowed[2] = {
        {cotangents.scores, cotangents.sizes, own.at, own.row, lane_key, open},
        {cotangents.scores, cotangents.sizes, own.at, own.row + 8, lane_key, open}};
    wgmma_wait<2>(s);  // the tile before this one has been multiplied
    if (!first) mbarrier_arrive_warp(&keys.empty[(keys.number - 1) % keys.count]);
    wgmma_wait<1>(s);
    wgmma_made(s);
    if (plain && own.shifted) {
#pragma unroll
        for (int i = 0; i < tile_n / 2; ++i) s[i] -= own.shifts[i / 2 % 2].shift;
    }
    const auto spot = [&](int i, bool masked) {
        const Place& at = own.at;
        const int column = i / 4 * 8 + i % 2, last_key = masked ? at.keys - 1 : limits<int>::highest();
        return Spot{at.batch, at.head, own.row, lane_key, i / 2 % 2 * 8, column, at.rows - 1, last_key};
    };
    const auto attends = [&](int i) {
        const int half = i / 2 % 2, column = i / 4 * 8 + i % 2;
        return own.attends(half, lane_key + column) && allowed[half](column);
    };
    if constexpr (brings_ahead) ahead.wait_full();
    const Arrived arrived(ahead, tile_row, key);
    const auto weigh_all = [&](bool masked) {
#pragma unroll
        for (int n = 0; n < tile_n / 16; ++n) {
            float elements[8] = {};
            arrived.elements<false>(elements, n, threadIdx.x / 32 * 16);
#pragma unroll
            for (int i = 8 * n; i < 8 * n + 8; ++i) {
                const RowShift& of_row = own.shifts[i / 2 % 2];
                const Ahead of = arrived.with(elements[i % 8]);
                const float p = masked ? cotangents.weight(s[i], of_row, spot(i, true), of, attends(i), false)
                                       : cotangents.weight(s[i], of_row, spot(i, false), of);
                s[i] = cotangents.sloped(p, s[i], spot(i, masked), of);
            }
        }
    };
    if (whole && (!listed || open)) weigh_all(false);
    else weigh_all(true);
    if constexpr (brings_ahead) ahead.release();
    wgmma_wait<0>(s);
    wgmma_made(ds);
#pragma unroll
    for (int i = 0; i < tile_n / 2; ++i) {
        const int half = i / 2 % 2;
        ds[i] = s[i] * (cotangents.before(ds[i], kept(half, i / 4 * 8 + i % 2)) - own.delta[half]);
    }
    round<tile_n>(dscores, ds);
    wgmma_fence();
    multiply_weights<tile_n, head_width>(sums, dscores, keys.tile());
    ++keys.number;
}

extern "C" __global__ void __launch_bounds__(threads, 1) << name >>(
    <% include "nn/attention/inputs.cuh" %>
    const __grid_constant__ TensorMap d, const RowStatistics* lse, const float* delta,
    T* dq, unsigned long long drawn, Sizes sizes, ScoreSteps score_steps, Order order)
{
    <% include "nn/attention/opening.cuh" %>
    T* const of_q = (T*)(shared + (1024 - __cvta_generic_to_shared(shared) % 1024) % 1024);
    __shared__ MBarrier full[stages + 1 + ahead_stages], empty[stages + 1 + ahead_stages];
    if (threadIdx.x == 0) {
        mbarrier_init_ring(full, empty, stages + 1, 1, 4 * workers);
        mbarrier_init_ring(full + stages + 1, empty + stages + 1, ahead_stages, 32, 4 * workers);
        fence_mbarrier_init();
    }
    __syncthreads();
    Stages rows{of_q, full + stages, empty + stages, size_q + size_d, 1, 0};
    Stages keys{of_q + size_q + size_d, full, empty, size_k + size_v, stages, 0};
    T* const of_ahead = keys.memory + stages * (size_k + size_v);
    Stages ahead{of_ahead, full + stages + 1, empty + stages + 1, size_ahead, ahead_stages, 0};
    const int group_number = own_group();
    if (group_number == workers) {
        give_registers<kept_registers>();
        if (threadIdx.x == 128 * workers) supply(q, k, v, d, Turns(sizes, order, starts_q, starts_k, lists), rows, keys);
        if (brings_ahead && threadIdx.x / 32 == 4 * workers + 1)
            supply_ahead(scores, << tiled or "q" >>, Turns(sizes, order, starts_q, starts_k, lists), ahead);
        return;
    }
    take_registers<taken_registers>();
    for (Turns turns(sizes, order, starts_q, starts_k, lists); turns.next();) {
        const Place at = turns.place<1, false>();
        const int row = at.first_row(sizes), group_row = row + 64 * group_number, warp_row = group_row + threadIdx.x % 128 / 32 * 16;
        const Course<tile_n> course = keys_for(at, sizes, lists, row);
        const Own own(at, sizes, warp_row + threadIdx.x % 32 / 4, lse, delta);
        const Scores of_head = scores.of(at.batch, at.head);
        const Cotangents cotangents(sizes, of_head, draw);
        float sums[head_width / 2] = {};
        if (course.count) {
            rows.wait_full();
            for (int n = 0; n < course.count; ++n) {
                const int key = course[n];
                advance(cotangents, own, of_q + group_number * 64 * line, keys, ahead, row, key, n == 0,
                        at.attends_to_all(group_row, group_row + 64, key, key + tile_n), course.open(n), sums);
            }
            wgmma_wait<0>(sums);
            mbarrier_arrive_warp(&keys.empty[(keys.number - 1) % stages]);
            rows.release();
        }
        const float scale = cotangents.factor(), factor[2] = {scale, scale};
        store<head_size>(at.of_rows(dq, sizes.dq), warp_row, sums, factor);
    }
}
