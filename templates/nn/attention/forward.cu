// o = softmax(f(q @ k.T * scale)) @ v, and for each query the logarithm of the sum of the exponentials of its scores, without
// the matrix of scores: a block walks along the keys with the maxima and sums of a tile of rows. A query that attends to no
// key gets zeros, and -inf.
// Launch: a block for each tile of rows, head of keys and batch, in x. `starts`: where packed sequences begin, in rows of q and
// of k; or, if `counted`, in starts_k the number of keys of each batch.
// Shared, dynamic: tiles of q, k and v, and the weights.
<% include "nn/attention/portable.cuh" %>

// The largest, or the sum, among the threads that share rows.
template <bool LARGEST>
__device__ __forceinline__ A of_row(A x) {
#pragma unroll
    for (int lane = lanes_x / 2; lane > 0; lane /= 2) {
        const A other = __shfl_xor_sync(0xffffffffu, x, lane);
        x = LARGEST ? maximum(x, other) : x + other;
    }
    return x;
}

extern "C" __global__ void __launch_bounds__(threads) << name >>(
    <% include "nn/attention/inputs.cuh" %>
    Result* o, RowStatistics* lse, unsigned long long drawn, Sizes sizes, ScoreSteps score_steps)
{
    <% include "nn/attention/opening.cuh" %>
    A *const of_q = (A*)shared, *const of_k = of_q + tile_m * head_step, *const of_v = of_k + tile_n * head_step;
    A* const weights = of_v + tile_n * value_step;
    const Place at(sizes, starts_q, starts_k, false);
    RowStatistics* const of_lse = at.of_part(lse, sizes, (index)sizes.heads * group * sizes.queries);
    const int row = at.first_row(sizes), x = threadIdx.x % lanes_x, y = threadIdx.x / lanes_x;
    load<tile_m, head_size>(of_q, at.of_rows(q, sizes.q), row);
    A sums[own_m][own_value] = {}, largest[own_m], total[own_m] = {};
    for (int i = 0; i < own_m; ++i) largest[i] = -limits<A>::infinity();
    const Course<tile_n> course = keys_for(at, sizes, lists, row);
    for (int n = 0; n < course.count; ++n) {
        const int key = course[n];
        scores.open = course.open(n);
        __syncthreads();
        load<tile_n, head_size>(of_k, at.of_keys(k, sizes.k, at.keys), key);
        load<tile_n, value_size>(of_v, at.of_keys(v, sizes.v, at.keys), key);
        __syncthreads();
        A score[own_m][own_n] = {};
        multiply<head_size>(score, of_q, head_step, 1, of_k, head_step, 1, tile_n);
#pragma unroll
        for (int i = 0; i < own_m; ++i) {
            const int r = i * lanes_y + y;
            A most = largest[i];
#pragma unroll
            for (int j = 0; j < own_n; ++j) {
                const int own_row = row + r, own_key = key + j * lanes_x + x;
                A& s = score[i][j];
                if (at.attends(own_row, own_key)) {
                    if constexpr (plain) s *= A(sizes.scale);
                    else s = scores(s, Spot{at.batch, at.head * group + own_row % group, own_row / group, own_key}).value;
                } else s = -limits<A>::infinity();
                most = maximum(most, s);
            }
            most = of_row<true>(most);
            const A from = most == -limits<A>::infinity() ? A(0) : most, shrink = exp_of(largest[i] - from);
            largest[i] = most;
            total[i] *= shrink;
            for (int j = 0; j < own_value; ++j) sums[i][j] *= shrink;
#pragma unroll
            for (int j = 0; j < own_n; ++j) {
                const A weight = exp_of(score[i][j] - from);
                total[i] += weight;
                A factor = A(1);
                if constexpr (dropping) factor = draw.factor(sizes, at.element(sizes, row + r, key + j * lanes_x + x));
                weights[r * score_step + j * lanes_x + x] = weight * factor;
            }
        }
        __syncthreads();
        multiply<tile_n>(sums, weights, score_step, 1, of_v, 1, value_step, value_size);
    }
#pragma unroll
    for (int i = 0; i < own_m; ++i) {
        const A whole = of_row<false>(total[i]);
        const int own_row = row + i * lanes_y + y;
        for (int j = 0; j < own_value; ++j) sums[i][j] = whole == A(0) ? A(0) : sums[i][j] / whole;
        if (x == 0 && own_row < at.rows)
            of_lse[at.statistic(sizes, own_row)] = statistics_of(largest[i], whole);
    }
    store<value_size>(at.of_rows(at.of_part(o, sizes, sizes.o.batch), sizes.o), row, sums, A(1));
}
