// Rows of a tile that has all columns of D, each reduced to a number, after linear/ends.cuh and linear/tile.cuh.
// Reduces the 16 rows and COLUMNS columns of a warp from (row, column) on: leaves the state of row r at of_rows[r].
template <int COLUMNS, class Sizes>
__device__ __forceinline__ void reduce(
    Row::State* of_rows, const Epilogue& epilogue, const Sizes& sizes, int batch, int row, int column, const float (&sums)[COLUMNS / 2])
{
    const int q = threadIdx.x % 4, g = threadIdx.x % 32 / 4;
    Row::State of[2] = {Row::identity(), Row::identity()};
    finish<COLUMNS, Out>(epilogue, sizes, batch, row, column, sums, [&](int half, int x, const Out(&made)[4][2]) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int place = column + x + i / 2 * 8 + 2 * q + i % 2;
            if (place < sizes.n) of[half] = Row::push(of[half], made[i / 2][i % 2], place);
        }
    });
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const Row::State total = Row::of_lanes<4>(of[half]);
        if (q == 0) of_rows[8 * half + g] = total;
    }
}
// Stores the rows from m0 on. Row r has PARTS states, `tile_m` apart, that all threads have written before.
template <int PARTS, class Sizes>
__device__ __forceinline__ void store_rows(Made* d, const Row::State* of_rows, const Sizes& sizes, int m0) {
    __syncthreads();
    for (int r = threadIdx.x; r < tile_m && m0 + r < sizes.m; r += threads) {
        Row::State total = of_rows[r];
#pragma unroll
        for (int part = 1; part < PARTS; ++part) total = Row::combine(total, of_rows[part * tile_m + r]);
        d[m0 + r] = Row::finish(total, sizes.n);
    }
}
