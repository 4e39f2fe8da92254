// The gradients of queries from the sums of backward_keys_tma.cu, whose Together says where they lie: each thread has, of a row,
// eight features, which lie 64 bytes apart.
// Launch: a thread for each eight elements of the sums, in x. dq is (batch, heads, rows, features) with packs of 16 bytes, and
// elements from batch to batch, head to head and row to row.
<% include "prelude/packs.cuh" %>
using T = << elem >>;
constexpr int tile_m = << tile_m >>, lines = << lines >>;  // rows of a tile, and features with those of full lines
constexpr bool by_features = lines > 64;
constexpr int own_columns = by_features ? tile_m : tile_m / 2;  // of a warpgroup

extern "C" __global__ void << name >>(T* dq, const float* sums, long long count, long long of_batch, long long of_head,
                                      long long of_row, int heads, int rows, int features) {
    const long long i = (long long)blockIdx.x * << block >> + threadIdx.x;
    if (i >= count) return;
    const int element = i % 4, q = i / 4 % 4, warp = i / 16 % 4, eight = i / 64 % (own_columns / 8);
    const long long group = i / 64 / (own_columns / 8), tile = group / 2;
    const int tiles = divide_up(rows, tile_m), own = group % 2;
    const int column = 8 * eight + 2 * q + element % 2, feature = 16 * warp + element / 2 * 8 + (by_features ? 64 * own : 0);
    const long long row = tile % tiles * tile_m + column + (by_features ? 0 : own * own_columns), matrix = tile / tiles;
    if (row >= rows || feature >= features) return;
    const float* const from = sums + (group * (own_columns / 8) + eight) * 512 + warp * 128 + q * 4 + element;
    float made[8];
#pragma unroll
    for (int g = 0; g < 8; ++g) made[g] = from[16 * g];
    *(Pack<T, 8>*)(dq + matrix / heads * of_batch + matrix % heads * of_head + row * of_row + feature) = packed<T, 8>(made);
}
