// backward_keys.cu on the tensor cores of sm_90a, fed by the hardware's copies: scores are made transposed, so that they stay in
// registers for the products with rows. Each warpgroup that multiplies has 64 keys of a tile and walks along the rows that attend
// to it, of all heads that share the keys.
// Launch: blocks, of which each makes every gridDim.x-th tile of keys of a head. A warp of the last warpgroup brings tiles of
// queries and of the result's cotangent to a ring of stages with the rows' statistics, and before them the keys and values.
// Shared, dynamic: keys, values, the stages of queries, those of the cotangent, statistics; 1024 bytes before for alignment.
<% set wgmma_columns = [tile_m, (head_size + 15) // 16 * 16, (value_size + 15) // 16 * 16] | unique | list %>
<% include "nn/attention/backward_tma.cuh" %>
constexpr bool ahead = << by_turns | lower >>;  // scores are made while those before them multiply the queries
constexpr bool makes_k = << makes_k | lower >>, makes_v = << makes_v | lower >>;
constexpr int size_k = tile_n * head_lines, size_v = tile_n * value_lines;
constexpr int size_q = tile_m * head_lines, size_d = tile_m * value_lines;

static_assert(tile_m % 32 == 0, "a lane of a warp brings statistics of every 32nd row");

// The tiles of rows that attend to a tile of keys, of each head.
struct Walk {
    int first, count;

    __device__ __forceinline__ Walk(const Place& at, int key) {
        const Range range = at.rows_of(key);
        first = range.first;
        count = divide_up(maximum(range.end - first, 0), tile_m);
    }
    // Whether all rows of a tile attend to all of 64 keys that there are.
    __device__ __forceinline__ bool whole(const Place& at, int row, int key) const {
        return (!bounded_left || key >= row + tile_m - 1 + at.offset - at.left) && (!bounded_right || key + 63 <= row + at.offset + at.right);
    }
};

extern "C" __global__ void __launch_bounds__(threads, 1) << name >>(
    <% include "nn/attention/inputs.cuh" %>
    const __grid_constant__ TensorMap d, const float* lse, const float* delta,
    T* dk, T* dv, unsigned long long drawn, Sizes sizes, ScoreSteps score_steps, Order order)
{
    <% include "nn/attention/opening.cuh" %>
    T* const of_k = (T*)(shared + (1024 - __cvta_generic_to_shared(shared) % 1024) % 1024);
    T *const of_v = of_k + size_k, *const of_q = of_v + size_v, *const of_d = of_q + stages * size_q;
    float* const statistics = (float*)(of_d + stages * size_d);
    __shared__ MBarrier full_k, empty_k, full[stages], empty[stages];
    if (threadIdx.x == 0) {
        mbarrier_init(&full_k, 1);
        mbarrier_init(&empty_k, 4 * workers);
        for (int i = 0; i < stages; ++i) {
            mbarrier_init(&full[i], 32);
            mbarrier_init(&empty[i], 4 * workers);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    Stages rows{of_q, full, empty, size_q, 0};
    const int group_number = threadIdx.x / 128, lane = threadIdx.x % 32;
    int made = 0;  // tiles of keys with rows
    if (group_number == workers) {
        give_registers<24>();
        for (int turn = 0; threadIdx.x < 128 * workers + 32 && Turn(turn).there(sizes, order); ++turn) {
            Place at = Turn(turn).place<sharing>(sizes, order);
            const int key = at.tile * tile_n, key_head = at.head / sharing;
            const Walk walk(at, key);
            if (!walk.count) continue;
            mbarrier_wait(&empty_k, made++ % 2 ^ 1);
            if (lane == 0) {
                mbarrier_arrive_expecting(&full_k, (size_k + size_v) * sizeof(T));
                bring<tile_n, head_lines>(of_k, k, at.batch, key_head, key, &full_k);
                bring<tile_n, value_lines>(of_v, v, at.batch, key_head, key, &full_k);
            }
            for (int head = 0; head < sharing; ++head, ++at.head)
                for (int i = 0; i < walk.count; ++i, ++rows.number) {
                    const int row = walk.first + i * tile_m, stage = rows.stage();
                    float of_lse[tile_m / 32], of_delta[tile_m / 32];
#pragma unroll
                    for (int r = 0; r < tile_m / 32; ++r) {
                        const int own = row + 32 * r + lane;
                        of_lse[r] = own < at.rows ? exponent(lse[at.statistic(sizes, own)]) : limits<float>::infinity();
                        of_delta[r] = own < at.rows ? delta[at.statistic(sizes, own)] : 0.0f;
                    }
                    rows.wait_empty();
                    if (lane == 0) {
                        mbarrier_arrive_expecting(&full[stage], (size_q + size_d) * sizeof(T));
                        bring<tile_m, head_lines>(of_q + stage * size_q, q, at.batch, at.head, row, &full[stage]);
                        bring<tile_m, value_lines>(of_d + stage * size_d, d, at.batch, at.head, row, &full[stage]);
                    }
#pragma unroll
                    for (int r = 0; r < tile_m / 32; ++r) {
                        statistics[2 * stage * tile_m + 32 * r + lane] = of_lse[r];
                        statistics[(2 * stage + 1) * tile_m + 32 * r + lane] = of_delta[r];
                    }
                    if (lane > 0) mbarrier_arrive(&full[stage]);
                }
        }
        return;
    }
    take_registers<240>();
    const Cotangents cotangents(sizes, scores, draw);
    const T *const own_k = of_k + group_number * 64 * line, *const own_v = of_v + group_number * 64 * line;
    for (int turn = 0; Turn(turn).there(sizes, order); ++turn) {
        Place at = Turn(turn).place<sharing>(sizes, order);
        const int key = at.tile * tile_n, group_key = key + 64 * group_number;
        const int own_key = group_key + threadIdx.x % 128 / 32 * 16 + lane / 4;
        const Walk walk(at, key);
        float sums_k[makes_k ? head_width / 2 : 1] = {}, sums_v[makes_v ? value_width / 2 : 1] = {};
        if (walk.count) {
            mbarrier_wait(&full_k, made++ % 2);
            const int first_head = at.head;
            for (int n = 0, i = 0; n < sharing * walk.count; ++n) {
                const int row = walk.first + i * tile_m, stage = rows.stage();
                float s[tile_m / 2], ds[tile_m / 2];
                unsigned weights[tile_m / 16][4], dscores[tile_m / 16][4];
                rows.wait_full();
                wgmma_fence();
                multiply_rows<head_width, tile_n, tile_m>(s, own_k, of_q + stage * size_q);
                if constexpr (makes_k) multiply_rows<value_width, tile_n, tile_m>(ds, own_v, of_d + stage * size_d);
                if constexpr (ahead && makes_k) {
                    wgmma_wait<2>(s);
                    if (n > 0) arrive(&empty[(rows.number - 1) % stages]);
                }
                wgmma_wait<makes_k ? 1 : 0>(s);
                wgmma_made(s);
                const bool whole = walk.whole(at, row, group_key);
                const float* const of_lse = statistics + 2 * stage * tile_m + threadIdx.x % 4 * 2;
                const auto attends = [&](int i) {
                    const int place = row + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2 + at.offset, own = own_key + i % 4 / 2 * 8;
                    return whole || ((!bounded_left || own >= place - at.left) && (!bounded_right || own <= place + at.right));
                };
                if constexpr (early) {
#pragma unroll
                    for (int i = 0; i < tile_m / 2; ++i) s[i] = cotangents.weight(s[i], of_lse[i / 4 * 8 + i % 2], true);
                    if ((bounded_left || bounded_right) && !whole) {
#pragma unroll
                        for (int i = 0; i < tile_m / 2; ++i)
                            if (!attends(i)) s[i] = 0.0f;
                    }
                    if constexpr (makes_v) {
                        round<tile_m>(weights, s);
                        wgmma_fence();
                        multiply_weights<tile_m, value_width>(sums_v, weights, of_d + stage * size_d);
                    }
                }
                if constexpr (makes_k) {
                    wgmma_wait<early && makes_v ? 1 : 0>(s);
                    wgmma_made(ds);
                }
                if constexpr (makes_k || !early) {
#pragma unroll
                    for (int i = 0; i < tile_m / 2; ++i)
                        cotangents.finish(s[i], ds[i], at, of_lse[i / 4 * 8 + i % 2], of_lse[tile_m + i / 4 * 8 + i % 2],
                                          row + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2, own_key + i % 4 / 2 * 8, early || attends(i));
                }
                if constexpr (makes_v && !early) {
                    round<tile_m>(weights, s);
                    wgmma_fence();
                    multiply_weights<tile_m, value_width>(sums_v, weights, of_d + stage * size_d);
                }
                if constexpr (makes_k) {
                    round<tile_m>(dscores, ds);
                    wgmma_fence();
                    multiply_weights<tile_m, head_width>(sums_k, dscores, of_q + stage * size_q);
                }
                if constexpr (ahead && makes_k) {
                    wgmma_wait<1>(s);
                    ++rows.number;
                } else {
                    wgmma_wait<0>(s);
                    rows.release();
                }
                if (++i == walk.count) i = 0, ++at.head;
            }
            wgmma_wait<0>(sums_k);
            wgmma_wait<0>(sums_v);
            if (ahead && makes_k) arrive(&empty[(rows.number - 1) % stages]);
            arrive(&empty_k);
            at.head = first_head;
        }
        const float scale = float(sizes.scale), of_dk[2] = {scale, scale}, of_dv[2] = {1.0f, 1.0f};
        const int first = own_key - lane / 4;
        if constexpr (makes_k) store<head_size>(at.of_keys(dk, sizes.dk, sizes.keys), first, sums_k, of_dk);
        if constexpr (makes_v) store<value_size>(at.of_keys(dv, sizes.dv, sizes.keys), first, sums_v, of_dv);
    }
}
