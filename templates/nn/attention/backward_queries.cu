// The gradient of q: a block walks along the keys to which a tile of rows attends. See backward_keys.cu.
// Launch: a block for each tile of rows, head of keys and batch, in x. Shared, dynamic: see Tiles.
<% include "nn/attention/backward.cuh" %>

extern "C" __global__ void __launch_bounds__(threads) << name >>(
    <% include "nn/attention/inputs.cuh" %>
    const T* d, const RowStatistics* lse, const A* delta, T* dq,
    unsigned long long drawn, Sizes sizes, ScoreSteps score_steps)
{
    <% include "nn/attention/opening.cuh" %>
    const Tiles tiles(shared);
    const Place at(sizes, starts_q, starts_k, false);
    const int row = at.first_row(sizes);
    tiles.load_rows(at, sizes, q, d, lse, delta, row);
    A of_q[own_m][own_head] = {};
    const Course<tile_n> course = keys_for(at, sizes, lists, row);
    for (int n = 0; n < course.count; ++n) {
        const int key = course[n];
        scores.open = course.open(n);
        __syncthreads();
        tiles.load_keys(at, sizes, k, v, key);
        __syncthreads();
        tiles.each(at, sizes, scores, draw, row, key, [&](const Element& element, int, int, int r, int c) {
            tiles.dscores[r * score_step + c] = element.dscore;
        });
        __syncthreads();
        multiply<tile_n>(of_q, tiles.dscores, score_step, 1, tiles.k, 1, head_step, head_size);
    }
    store<head_size>(at.of_rows(dq, sizes.dq), row, of_q, A(1));
}
