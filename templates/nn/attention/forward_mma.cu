// forward.cu on tensor cores. While the scores of a tile of keys are made its values are on their way, and while those are
// multiplied the next keys are.
// Launch: a block for each tile of rows, head of keys and batch, in x; a warp for 16 rows. Shared, dynamic: tiles of q, k and v.
<% include "nn/attention/tensor_cores.cuh" %>
<% include "prelude/next_kernel.cuh" %>
constexpr bool fixed = << fixed | lower >>;  // the fragments of q stay in registers

extern "C" __global__ void __launch_bounds__(threads) << name >>(
    <% include "nn/attention/inputs.cuh" %>
    Result* o, RowStatistics* lse, unsigned long long drawn, Sizes sizes, ScoreSteps score_steps)
{
    <% include "nn/attention/opening.cuh" %>
    allow_next_kernel();
    T *const of_q = (T*)shared, *const of_k = of_q + tile_m * head_step, *const of_v = of_k + tile_n * head_step;
    const Place at(sizes, starts_q, starts_k, false);
    RowStatistics* const of_lse = at.of_part(lse, sizes, (index)sizes.heads * group * sizes.queries);
    const int row = at.first_row(sizes), lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * 16;
    const auto keys = at.of_keys(k, sizes.k, at.keys);
    const auto values = at.of_keys(v, sizes.v, at.keys);
    const Course<tile_n> course = keys_for(at, sizes, lists, row);
    load<tile_m, head_size>(of_q, at.of_rows(q, sizes.q), row);
    if (course.count) load<tile_n, head_size>(of_k, keys, course[0]);
    commit_copies();
    // Scores are compared before they are scaled, if the factor is all that is between.
    const float unit = float(plain ? sizes.scale * log2_e : log2_e);
    float sums[value_width / 8][4] = {}, largest[2], total[2] = {};
    largest[0] = largest[1] = -limits<float>::infinity();
    unsigned left[fixed ? head_width / 16 : 1][4];
    bool loaded = false;
    for (int n = 0; n < course.count; ++n) {
        const int key = course[n];
        scores.open = course.open(n);
        wait_copies<0>();
        __syncthreads();
        load<tile_n, value_size>(of_v, values, key);
        commit_copies();
        float score[tile_n / 8][4] = {};
        if constexpr (fixed) {
            if (!loaded) {
                loaded = true;
#pragma unroll
                for (int e = 0; e < head_width; e += 16) fragments<false, false>(left[e / 16], of_q, head_step, warp_row, e);
            }
#pragma unroll
            for (int e = 0; e < head_width; e += 16)
#pragma unroll
                for (int y = 0; y < tile_n; y += 16) {
                    unsigned right[4];
                    fragments<false, true>(right, of_k, head_step, y, e);
                    add_products(score[y / 8], score[y / 8 + 1], left[e / 16], right);
                }
        } else {
            multiply_rows<head_width, tile_n>(score, of_q, warp_row, of_k);
        }
        wait_copies<0>();
        __syncthreads();
        if (n + 1 < course.count) load<tile_n, head_size>(of_k, keys, course[n + 1]);
        commit_copies();
        const bool whole = at.attends_to_all(row, row + tile_m, key, key + tile_n);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int own_row = row + warp_row + lane / 4 + 8 * half;
            float most = largest[half];
            if (!plain || !whole) {
#pragma unroll
                for (int i = 0; i < tile_n / 4; ++i) {
                    const int own_key = key + i / 2 * 8 + lane % 4 * 2 + i % 2;
                    float& s = score[i / 2][2 * half + i % 2];
                    if (!whole && !at.attends(own_row, own_key)) s = -limits<float>::infinity();
                    else if constexpr (!plain)
                        s = scores(s, Spot{at.batch, at.head * group + own_row % group, own_row / group, key + lane % 4 * 2,
                                           0, i / 2 * 8 + i % 2}).value;
                }
            }
#pragma unroll
            for (int i = 0; i < tile_n / 4; ++i) most = maximum(most, score[i / 2][2 * half + i % 2]);
            most = maximum(most, __shfl_xor_sync(0xffffffffu, most, 1));
            most = maximum(most, __shfl_xor_sync(0xffffffffu, most, 2));
            const float from = most == -limits<float>::infinity() ? 0.0f : rounded_product(most, unit);
            const float shrink = power_of_two(rounded_product(largest[half], unit) - from);
            largest[half] = most;
            total[half] *= shrink;
#pragma unroll
            for (int y = 0; y < value_width / 8; ++y) sums[y][2 * half] *= shrink, sums[y][2 * half + 1] *= shrink;
#pragma unroll
            for (int i = 0; i < tile_n / 4; ++i) {
                float& s = score[i / 2][2 * half + i % 2];
                s = power_of_two(fma(s, unit, -from));
                total[half] += s;
                if constexpr (dropping)
                    s *= draw.factor(sizes, at.element(sizes, own_row, key + i / 2 * 8 + lane % 4 * 2 + i % 2));
            }
        }
        multiply_weights<tile_n, value_width>(sums, score, of_v);
    }
    wait_copies<0>();
    const float lacks = lacking((plain ? float(sizes.scale) : 1.0f) * log2_e, unit);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float& whole = total[half];
        whole += __shfl_xor_sync(0xffffffffu, whole, 1);
        whole += __shfl_xor_sync(0xffffffffu, whole, 2);
        const int own_row = row + warp_row + lane / 4 + 8 * half;
        if (lane % 4 == 0 && own_row < at.rows)
            of_lse[at.statistic(sizes, own_row)] = statistics_of_powers(rounded_product(largest[half], unit), whole, lacks);
        whole = whole == 0.0f ? 0.0f : 1 / whole;
    }
    store<value_size>(at.of_rows(at.of_part(o, sizes, sizes.o.batch), sizes.o), row + warp_row, sums, total[0], total[1]);
}
