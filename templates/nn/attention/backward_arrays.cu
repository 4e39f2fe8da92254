// The gradient of an array of the score, by which the elements of the matrix of scores are made again: a block sums what
// the batches, heads, rows and keys contribute to which the array is broadcast. sums is (batches, heads, rows, keys), where 1
// stands for batches or heads that are summed, and for rows or keys that are the number of their tiles.
// Launch: a block for each tile of rows and of keys, and each head and batch that is kept, in x. Shared, dynamic: see Tiles.
<% include "nn/attention/backward.cuh" %>
constexpr bool keep_batch = << keep_batch | lower >>, keep_head = << keep_head | lower >>;
constexpr bool keep_rows = << keep_rows | lower >>, keep_keys = << keep_keys | lower >>;

extern "C" __global__ void __launch_bounds__(threads) << name >>(
    <% include "nn/attention/inputs.cuh" %>
    const T* d, const RowStatistics* lse, const A* delta,
    A* sums, unsigned long long drawn, Sizes sizes, ScoreSteps score_steps)
{
    <% include "nn/attention/opening.cuh" %>
    const Tiles tiles(shared);
    const int tiles_m = divide_up(sizes.queries, tile_m), tiles_n = sizes.tiles;
    int block = blockIdx.x;
    const int key = block % tiles_n * tile_n;
    block /= tiles_n;
    const int row = block % tiles_m * tile_m;
    block /= tiles_m;
    const int heads = keep_head ? 1 : sizes.heads, head = keep_head ? block % sizes.heads : 0;
    const int batches = keep_batch ? 1 : sizes.sequences, batch = keep_batch ? block / (keep_head ? sizes.heads : 1) : 0;
    A own[own_m][own_n] = {};
    for (int b = batch; b < batch + batches; ++b) {
        for (int h = head; h < head + heads; ++h) {
            const Place at(sizes, starts_k, b, h);
            const Course<tile_m> course = rows_for(at, sizes, lists, key);
            const int number = course.number_of(row);
            if (number < 0) continue;
            scores.open = course.open(number);
            __syncthreads();
            tiles.load_rows(at, sizes, q, d, lse, delta, row);
            tiles.load_keys(at, sizes, k, v, key);
            __syncthreads();
            tiles.each(at, sizes, scores, draw, row, key, [&](const Element& element, int i, int j, int, int) {
                own[i][j] += element.by_array;
            });
        }
    }
    const int x = threadIdx.x % lanes_x, y = threadIdx.x / lanes_x;
#pragma unroll
    for (int i = 0; i < own_m; ++i)
#pragma unroll
        for (int j = 0; j < own_n; ++j) tiles.weights[(i * lanes_y + y) * score_step + j * lanes_x + x] = own[i][j];
    __syncthreads();
    const int rows = keep_rows ? sizes.queries : tiles_m, columns = keep_keys ? sizes.keys : tiles_n;
    sums += (long long)block * rows * columns;
    for (int i = threadIdx.x; i < (keep_rows ? tile_m : 1) * (keep_keys ? tile_n : 1); i += threads) {
        const int r = keep_keys ? i / tile_n : i, c = keep_keys ? i % tile_n : 0;
        A sum = A(0);
        for (int m = r; m < (keep_rows ? r + 1 : tile_m); ++m)
            for (int n = c; n < (keep_keys ? c + 1 : tile_n); ++n) sum += tiles.weights[m * score_step + n];
        const int to_row = keep_rows ? row + r : row / tile_m, to_column = keep_keys ? key + c : key / tile_n;
        if (to_row < rows && to_column < columns) sums[(long long)to_row * columns + to_column] = sum;
    }
}
