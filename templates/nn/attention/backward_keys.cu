// The gradients of k and v, or one of them: a block walks along the rows that attend to a tile of keys, and makes their weights again from the
// logarithms of the sums that the forward pass left. delta: for each query the sum of o * d over the features.
// Launch: a block for each tile of keys, head of keys and batch, in x. Shared, dynamic: see Tiles.
<% include "nn/attention/backward.cuh" %>
constexpr bool makes_k = << makes_k | lower >>, makes_v = << makes_v | lower >>;
constexpr int own_keys = tile_n / lanes_y;

extern "C" __global__ void __launch_bounds__(threads) << name >>(
    <% include "nn/attention/inputs.cuh" %>
    const T* d, const RowStatistics* lse, const A* delta, T* dk,
    T* dv, unsigned long long drawn, Sizes sizes, ScoreSteps score_steps)
{
    <% include "nn/attention/opening.cuh" %>
    const Tiles tiles(shared);
    const Place at(sizes, starts_q, starts_k, true);
    const int key = at.tile * tile_n;
    tiles.load_keys(at, sizes, k, v, key);
    A of_k[own_keys][own_head] = {}, of_v[own_keys][own_value] = {};
    const Course<tile_m> course = rows_for(at, sizes, lists, key);
    for (int n = 0; n < course.count; ++n) {
        const int row = course[n];
        scores.open = course.open(n);
        __syncthreads();
        tiles.load_rows(at, sizes, q, d, lse, delta, row);
        __syncthreads();
        tiles.each(at, sizes, scores, draw, row, key, [&](const Element& element, int, int, int r, int c) {
            tiles.weights[r * score_step + c] = element.weight;
            tiles.dscores[r * score_step + c] = element.dscore;
        });
        __syncthreads();
        if constexpr (makes_v) multiply<tile_m>(of_v, tiles.weights, 1, score_step, tiles.d, 1, value_step, value_size);
        if constexpr (makes_k) multiply<tile_m>(of_k, tiles.dscores, 1, score_step, tiles.q, 1, head_step, head_size);
    }
    const int stored = sequenced ? at.keys : sizes.keys;
    if constexpr (makes_k) store<head_size>(at.of_keys(dk, sizes.dk, stored), key, of_k, A(1));
    if constexpr (makes_v) store<value_size>(at.of_keys(dv, sizes.dv, stored), key, of_v, A(1));
}
