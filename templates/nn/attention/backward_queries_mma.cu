// backward_queries.cu on tensor cores.
// Launch: a block for each tile of rows, head of keys and batch, in x; a warp for 16 rows. Shared, dynamic: tiles of q, d, k
// and v, and three statistics of the rows.
<% include "nn/attention/tensor_cores.cuh" %>

extern "C" __global__ void __launch_bounds__(threads) << name >>(
    <% include "nn/attention/inputs.cuh" %>
    const T* d, const RowStatistics* lse, const float* delta,
    T* dq, unsigned long long drawn, Sizes sizes, ScoreSteps score_steps)
{
    <% include "nn/attention/opening.cuh" %>
    T *const of_q = (T*)shared, *const of_d = of_q + tile_m * head_step, *const of_k = of_d + tile_m * value_step;
    T* const of_v = of_k + tile_n * head_step;
    float *const of_lse = (float*)(of_v + tile_n * value_step), *const of_rest = of_lse + tile_m, *const of_delta = of_rest + tile_m;
    const Place at(sizes, starts_q, starts_k, false);
    const int row = at.first_row(sizes), lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * 16;
    load<tile_m, head_size>(of_q, at.of_rows(q, sizes.q), row);
    load<tile_m, value_size>(of_d, at.of_rows(d, sizes.o), row);
    commit_copies();
    load_statistics<tile_m>(of_lse, of_rest, at, sizes, lse, row);
    load_deltas<tile_m>(of_delta, at, sizes, delta, row);
    float sums[head_width / 8][4] = {};
    const Course<tile_n> course = keys_for(at, sizes, lists, row);
    for (int n = 0; n < course.count; ++n) {
        const int key = course[n];
        scores.open = course.open(n);
        __syncthreads();
        load<tile_n, head_size>(of_k, at.of_keys(k, sizes.k, at.keys), key);
        load<tile_n, value_size>(of_v, at.of_keys(v, sizes.v, at.keys), key);
        commit_copies();
        wait_copies<0>();
        __syncthreads();
        float scored[tile_n / 8][4] = {}, dscores[tile_n / 8][4] = {};
        multiply_rows<head_width, tile_n>(scored, of_q, warp_row, of_k);
        multiply_rows<value_width, tile_n>(dscores, of_d, warp_row, of_v);
        const bool whole = at.attends_to_all(row, row + tile_m, key, key + tile_n);
#pragma unroll
        for (int i = 0; i < tile_n / 2; ++i) {
            const int r = warp_row + lane / 4 + i % 4 / 2 * 8, c = i / 4 * 8 + lane % 4 * 2 + i % 2;
            float& dscore = dscores[i / 4][i % 4];
            dscore = Element(
                at, sizes, scores, draw, scored[i / 4][i % 4], dscore, of_lse[r], of_rest[r], of_delta[r], row + r, key + c, whole).dscore;
        }
        multiply_weights<tile_n, head_width>(sums, dscores, of_k);
    }
    wait_copies<0>();
    store<head_size>(at.of_rows(dq, sizes.dq), row + warp_row, sums, 1.0f, 1.0f);
}
