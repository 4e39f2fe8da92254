// backward_keys.cu on tensor cores: the scores are made transposed, so that they stay in registers for the products with rows.
// Launch: a block for each tile of keys, head of keys and batch, in x; a warp for 16 keys. Shared, dynamic: tiles of k, v, q
// and d, and three statistics of the rows.
<% include "nn/attention/tensor_cores.cuh" %>
constexpr bool makes_k = << makes_k | lower >>, makes_v = << makes_v | lower >>;

extern "C" __global__ void __launch_bounds__(threads) << name >>(
    <% include "nn/attention/inputs.cuh" %>
    const T* d, const RowStatistics* lse, const float* delta,
    T* dk, T* dv, unsigned long long drawn, Sizes sizes, ScoreSteps score_steps)
{
    <% include "nn/attention/opening.cuh" %>
    T *const of_k = (T*)shared, *const of_v = of_k + tile_n * head_step, *const of_q = of_v + tile_n * value_step;
    T* const of_d = of_q + tile_m * head_step;
    float *const of_lse = (float*)(of_d + tile_m * value_step), *const of_rest = of_lse + tile_m, *const of_delta = of_rest + tile_m;
    const Place at(sizes, starts_q, starts_k, true);
    const int key = at.tile * tile_n, lane = threadIdx.x % 32, warp_key = threadIdx.x / 32 * 16;
    load<tile_n, head_size>(of_k, at.of_keys(k, sizes.k, at.keys), key);
    if constexpr (makes_k) load<tile_n, value_size>(of_v, at.of_keys(v, sizes.v, at.keys), key);
    commit_copies();
    float sums_k[head_width / 8][4] = {}, sums_v[value_width / 8][4] = {};
    const Course<tile_m> course = rows_for(at, sizes, lists, key);
    for (int n = 0; n < course.count; ++n) {
        const int row = course[n];
        scores.open = course.open(n);
        __syncthreads();
        load<tile_m, head_size>(of_q, at.of_rows(q, sizes.q), row);
        load<tile_m, value_size>(of_d, at.of_rows(d, sizes.o), row);
        commit_copies();
        load_statistics<tile_m>(of_lse, of_rest, at, sizes, lse, row);
        load_deltas<tile_m>(of_delta, at, sizes, delta, row);
        wait_copies<0>();
        __syncthreads();
        float weights[tile_m / 8][4] = {}, dscores[tile_m / 8][4] = {};
        multiply_rows<head_width, tile_m>(weights, of_k, warp_key, of_q);
        if constexpr (makes_k) multiply_rows<value_width, tile_m>(dscores, of_v, warp_key, of_d);
        const bool whole = at.attends_to_all(row, row + tile_m, key, key + tile_n);
#pragma unroll
        for (int i = 0; i < tile_m / 2; ++i) {
            const int r = i / 4 * 8 + lane % 4 * 2 + i % 2, c = warp_key + lane / 4 + i % 4 / 2 * 8;
            float &weight = weights[i / 4][i % 4], &dscore = dscores[i / 4][i % 4];
            const Element element(at, sizes, scores, draw, weight, dscore, of_lse[r], of_rest[r], of_delta[r], row + r, key + c, whole);
            weight = element.weight;
            dscore = element.dscore;
        }
        if constexpr (makes_v) multiply_weights<tile_m, value_width>(sums_v, weights, of_d);
        if constexpr (makes_k) multiply_weights<tile_m, head_width>(sums_k, dscores, of_q);
    }
    wait_copies<0>();
    const int stored = sequenced ? at.keys : sizes.keys;
    if constexpr (makes_k) store<head_size>(at.of_keys(dk, sizes.dk, stored), key + warp_key, sums_k, 1.0f, 1.0f);
    if constexpr (makes_v) store<value_size>(at.of_keys(dv, sizes.dv, stored), key + warp_key, sums_v, 1.0f, 1.0f);
}
