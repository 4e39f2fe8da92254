// backward_queries.cu on the tensor cores of sm_90a, fed by the hardware's copies. Each warpgroup that multiplies has 64 rows of a
// tile and walks along the keys to which the tile attends.
// Launch: blocks, of which each makes every gridDim.x-th tile of rows of a head. One thread of the last warpgroup brings tiles of
// keys and values to a ring of stages, and before them the rows of the queries and of the result's cotangent.
// Shared, dynamic: queries, the cotangent, the stages of keys, those of values; 1024 bytes before for alignment.
<% set wgmma_columns = [tile_n, (head_size + 15) // 16 * 16] | unique | list %>
<% include "nn/attention/backward_tma.cuh" %>
constexpr int size_q = tile_m * head_lines, size_d = tile_m * value_lines;
constexpr int size_k = tile_n * head_lines, size_v = tile_n * value_lines;

extern "C" __global__ void __launch_bounds__(threads, 1) << name >>(
    <% include "nn/attention/inputs.cuh" %>
    const __grid_constant__ TensorMap d, const float* lse, const float* delta,
    T* dq, unsigned long long drawn, Sizes sizes, ScoreSteps score_steps, Order order)
{
    <% include "nn/attention/opening.cuh" %>
    T* const of_q = (T*)(shared + (1024 - __cvta_generic_to_shared(shared) % 1024) % 1024);
    T *const of_d = of_q + size_q, *const of_k = of_d + size_d, *const of_v = of_k + stages * size_k;
    __shared__ MBarrier full_q, empty_q, full[stages], empty[stages];
    if (threadIdx.x == 0) {
        mbarrier_init(&full_q, 1);
        mbarrier_init(&empty_q, 4 * workers);
        for (int i = 0; i < stages; ++i) {
            mbarrier_init(&full[i], 1);
            mbarrier_init(&empty[i], 4 * workers);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    Stages keys{of_k, full, empty, size_k, 0};
    const int group_number = threadIdx.x / 128, lane = threadIdx.x % 32;
    int made = 0;  // tiles of rows with keys
    if (group_number == workers) {
        give_registers<24>();
        for (int turn = 0; threadIdx.x == 128 * workers && Turn(turn).there(sizes, order); ++turn) {
            const Place at = Turn(turn).place<1>(sizes, order);
            const int row = at.first_row(sizes), key_head = at.head / sharing;
            const Range range = at.keys_of(row);
            if (range.first >= range.end) continue;
            mbarrier_wait(&empty_q, made++ % 2 ^ 1);
            mbarrier_arrive_expecting(&full_q, (size_q + size_d) * sizeof(T));
            bring<tile_m, head_lines>(of_q, q, at.batch, at.head, row, &full_q);
            bring<tile_m, value_lines>(of_d, d, at.batch, at.head, row, &full_q);
            for (int key = range.first; key < range.end; key += tile_n, ++keys.number) {
                const int stage = keys.stage();
                keys.wait_empty();
                mbarrier_arrive_expecting(&full[stage], (size_k + size_v) * sizeof(T));
                bring<tile_n, head_lines>(of_k + stage * size_k, k, at.batch, key_head, key, &full[stage]);
                bring<tile_n, value_lines>(of_v + stage * size_v, v, at.batch, key_head, key, &full[stage]);
            }
        }
        return;
    }
    take_registers<240>();
    const Cotangents cotangents(sizes, scores, draw);
    const T *const own_q = of_q + group_number * 64 * line, *const own_d = of_d + group_number * 64 * line;
    for (int turn = 0; Turn(turn).there(sizes, order); ++turn) {
        const Place at = Turn(turn).place<1>(sizes, order);
        const int row = at.first_row(sizes), group_row = row + 64 * group_number;
        const int own_row = group_row + threadIdx.x % 128 / 32 * 16 + lane / 4;
        const Range range = at.keys_of(row);
        float sums[head_width / 2] = {};
        if (range.first < range.end) {
            float of_lse[2], of_delta[2];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int own = own_row + 8 * half;
                of_lse[half] = own < at.rows ? exponent(lse[at.statistic(sizes, own)]) : limits<float>::infinity();
                of_delta[half] = own < at.rows ? delta[at.statistic(sizes, own)] : 0.0f;
            }
            mbarrier_wait(&full_q, made++ % 2);
            for (int key = range.first; key < range.end; key += tile_n) {
                const int stage = keys.stage();
                float s[tile_n / 2], ds[tile_n / 2];
                unsigned dscores[tile_n / 16][4];
                keys.wait_full();
                wgmma_fence();
                multiply_rows<head_width, tile_m, tile_n>(s, own_q, of_k + stage * size_k);
                multiply_rows<value_width, tile_m, tile_n>(ds, own_d, of_v + stage * size_v);
                wgmma_wait<2>(s);  // what the tile before was multiplied for has been made
                if (key > range.first) arrive(&empty[(keys.number - 1) % stages]);
                wgmma_wait<1>(s);
                wgmma_made(s);
                const bool whole = at.attends_to_all(minimum(group_row, at.rows), minimum(group_row + 64, at.rows), key, key + tile_n);
                const auto attends = [&](int i) {
                    const int own = key + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2, place = own_row + i % 4 / 2 * 8 + at.offset;
                    return whole || (own < at.keys && (!bounded_left || own >= place - at.left) && (!bounded_right || own <= place + at.right));
                };
                if constexpr (early) {
#pragma unroll
                    for (int i = 0; i < tile_n / 2; ++i) s[i] = cotangents.weight(s[i], of_lse[i / 2 % 2], true);
                    if (!whole) {
#pragma unroll
                        for (int i = 0; i < tile_n / 2; ++i)
                            if (!attends(i)) s[i] = 0.0f;
                    }
                }
                wgmma_wait<0>(s);
                wgmma_made(ds);
#pragma unroll
                for (int i = 0; i < tile_n / 2; ++i)
                    cotangents.finish(s[i], ds[i], at, of_lse[i / 2 % 2], of_delta[i / 2 % 2], own_row + i % 4 / 2 * 8,
                                      key + i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2, early || attends(i));
                round<tile_n>(dscores, ds);
                wgmma_fence();
                multiply_weights<tile_n, head_width>(sums, dscores, of_k + stage * size_k);
                ++keys.number;
            }
            wgmma_wait<0>(sums);
            arrive(&empty[(keys.number - 1) % stages]);
            arrive(&empty_q);
        }
        const float scale = float(sizes.scale), factor[2] = {scale, scale};
        store<head_size>(at.of_rows(dq, sizes.dq), own_row - lane / 4, sums, factor);
    }
}
