// Outputs of the warps of a tile, after linear/product.cuh. With `by_rows` a tile has all columns of D.
struct Results {
<% if saves %>
    T* saved;
<% endif %>
    Stored* d;
};
<% if rows %>
// Reduces the 16 rows and COLUMNS columns of a warp from (row, column) on: leaves the state of row r at of_rows[r].
template <int COLUMNS>
__device__ __forceinline__ void reduce(
    Row::State* of_rows, const Epilogue& epilogue, const Sizes& sizes, int batch, int row, int column, const float (&sums)[COLUMNS / 2])
{
    const int q = threadIdx.x % 4, g = threadIdx.x % 32 / 4;
    Row::State of[2] = {Row::identity(), Row::identity()};
    finish<COLUMNS, Out>(epilogue, sizes, batch, row, column, sums, [&](int half, int x, const Out(&values)[4][2]) {
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int place = column + x + i / 2 * 8 + 2 * q + i % 2;
            if (place < sizes.n) of[half] = Row::push(of[half], values[i / 2][i % 2], place);
        }
    });
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const Row::State total = Row::of_lanes<4>(of[half]);
        if (q == 0) of_rows[8 * half + g] = total;
    }
}
<% endif %>
// Ends the 16 rows and COLUMNS columns of a warp from (row, column) of the tile on, of `batch`. With `by_rows` they leave a state
// for each row in memory that all warps have done with; PART numbers the warps that share the rows.
template <int COLUMNS>
__device__ __forceinline__ void end(
    const Results& to, const Epilogue& epilogue, const Sizes& sizes, const Place& at, int row, int column, const float (&sums)[COLUMNS / 2],
    unsigned char* memory, int part = 0)
{
<% if saves %>
    store<COLUMNS>(Rounded{}, to.saved, sizes, at.batch, at.m0 + row, at.n0 + column, sums);
<% endif %>
<% if rows %>
    reduce<COLUMNS>((Row::State*)memory + part * tile_m + row, epilogue, sizes, at.batch, at.m0 + row, column, sums);
<% else %>
    store<COLUMNS>(epilogue, to.d, sizes, at.batch, at.m0 + row, at.n0 + column, sums);
<% endif %>
}
// Combines the PARTS partial states of each row that warps have left in memory, and stores the results.
template <int PARTS>
__device__ __forceinline__ void end_rows(const Results& to, const Sizes& sizes, const Place& at, const unsigned char* memory) {
<% if rows %>
    const Row::State* const of_rows = (const Row::State*)memory;
    for (int r = threadIdx.x; r < tile_m && at.m0 + r < sizes.m; r += threads) {
        Row::State total = of_rows[r];
#pragma unroll
        for (int part = 1; part < PARTS; ++part) total = Row::combine(total, of_rows[part * tile_m + r]);
        to.d[at.m0 + r] = Row::finish(total, sizes.n);
    }
<% endif %>
}
