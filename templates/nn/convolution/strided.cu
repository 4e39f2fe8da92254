// Implicit GEMM of a strided convolution, or of its input gradient by phases (sub-pixel), on the tensor cores of sm_90a: output
// (pixels, filters) is the sum, over the window's taps, of image (pixels, channels) @ weights (channels, filters), with an epilogue:
// an elementwise expression of each sum and of operands. Pixels of the output that have the same taps are a grid; a gradient has as many grids as
// remainders by the stride. What a tap reads of the image for neighbouring pixels of a grid are neighbours in a plane of the image,
// which has every so many rows and columns.
// image (images, height, width, channels), weights (filters, taps, channels) and output (images, height, width, filters) by maps,
// of 16-bit floats: one for each plane of the image, and one for each grid of the output. What the maps fill with zeros are the
// padding, and channels beyond the last.
// A warpgroup makes a band: `band` rows of a grid of `width` pixels, of `images` images.
// Launch: blocks of three warpgroups, of which each makes every gridDim.x-th tile, two bands by tile_n filters. One thread of the
// last loads k-blocks, of 64 channels for a tap, to a ring of stages.
// A stage goes round: `empty` until it may be loaded, `full` when all its bytes have come, and empty again when all warps have
// multiplied it.
// Shared, dynamic: the stages, then 64 columns of the output for each warpgroup; 1024 bytes before for alignment.
<% include "linear/epilogue.cuh" %>
<% set wgmma_columns = [tile_n] %>
<% include "prelude/wgmma.cuh" %>
<% include "prelude/tensor_map.cuh" %>
<% include "prelude/warp_roles.cuh" %>
constexpr int tile_n = << tile_n >>, halves = << halves >>;  // of 64 pixels, that a warpgroup multiplies
constexpr int images = << images >>, band = << band >>, width = << width >>, stages = << stages >>;
constexpr int grids = << grids >>;
constexpr int line = 64, lines = 64 * halves, loaded_lines = images * band * width;  // of a band: in shared memory, and those that come
constexpr int stage_size = (2 * lines + tile_n) * line, part_size = lines * line;
static_assert(loaded_lines <= lines, "a band is in shared memory");

// All tiles, those across, filters, and k-blocks of a tap. Of a grid: its first tile; its bands, and those of some images; its first
// tap, and how many. Of a tap: a plane of the image, the row and column in it from a pixel's place in its grid on, and its number
// among the weights' taps.
<< Sizes >>
struct Planes {
    TensorMap of[<< planes >>];
};
struct Grids {
    TensorMap of[grids];
};
// Tile `turn` of this block.
struct ScheduledTile {
    int number, grid, column, pair;

    __device__ __forceinline__ ScheduledTile(const Sizes& g, int iteration) : number(blockIdx.x + iteration * gridDim.x), grid(0) {
#pragma unroll
        for (int i = 1; i < grids; ++i) grid += number >= g.of[i].first;
        const int own = number - g.of[grid].first;
        column = own % g.tiles_n * tile_n;
        pair = own / g.tiles_n;
    }
    __device__ __forceinline__ bool there(const Sizes& g) const { return number < g.tiles; }
    // A warpgroup's band; that beyond the last is the last once more.
    __device__ __forceinline__ int own_band(const Sizes& g, int group) const {
        return minimum(pair * 2 + group, g.of[grid].bands - 1);
    }
    __device__ __forceinline__ bool has(const Sizes& g, int group) const { return pair * 2 + group < g.of[grid].bands; }
};

extern "C" __global__ void __launch_bounds__(384, 1) << name >>(
    const __grid_constant__ Planes image, const __grid_constant__ TensorMap weights,
    <% for x in operands %>const << x.type >>* x<< x.k >>, <% endfor %>
    <% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %>const __grid_constant__ Grids output,
    const __grid_constant__ Sizes g, Steps steps)
{
    const Epilogue epilogue{<% for x in operands %>x<< x.k >>, <% endfor %><% for x in scalars %>s<< loop.index0 >>, <% endfor %>steps};
    extern __shared__ __align__(128) unsigned char shared[];
    T* const ring = (T*)(shared + (1024 - __cvta_generic_to_shared(shared) % 1024) % 1024);
    __shared__ MBarrier full[stages], empty[stages];
    if (threadIdx.x == 0) {
        mbarrier_init_ring(full, empty, stages, 1, 8);
        fence_mbarrier_init();
    }
    __syncthreads();

    const int group = own_group();
    if (group == 2) {
        give_registers<24>();
        for (int iteration = 0, number = 0; threadIdx.x == 256 && ScheduledTile(g, iteration).there(g); ++iteration) {
            const ScheduledTile tile(g, iteration);
            const Grid& grid = g.of[tile.grid];
            int image_at[2], row[2];
            for (int k = 0; k < 2; ++k) {
                const int own = tile.own_band(g, k);
                image_at[k] = own / grid.of_images * images;
                row[k] = own % grid.of_images * band;
            }
            for (int i = 0; i < grid.taps * g.k_blocks; ++i, ++number) {
                const int stage = number % stages, channel = i % g.k_blocks * line;
                const Tap& tap = g.taps[grid.tap + i / g.k_blocks];
                T* const to = ring + stage * stage_size;
                mbarrier_wait(&empty[stage], number / stages % 2 ^ 1);
                mbarrier_arrive_expecting(&full[stage], (2 * loaded_lines + tile_n) * line * int(sizeof(T)));
                for (int k = 0; k < 2; ++k)
                    copy_tile(to + k * part_size, image.of[tap.plane], {image_at[k], row[k] + tap.row, tap.column, channel}, &full[stage]);
                copy_tile(to + 2 * part_size, weights, {tile.column, tap.weights, channel}, &full[stage]);
            }
        }
        return;
    }
    take_registers<240>();
    const int warp = threadIdx.x % 128 / 32, row = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    T* const part = ring + stages * stage_size + group * part_size;
    float sums[halves][tile_n / 2];
    for (int iteration = 0, number = 0; ScheduledTile(g, iteration).there(g); ++iteration) {
        const ScheduledTile tile(g, iteration);
        const int count = g.of[tile.grid].taps * g.k_blocks;
        for (int i = 0; i < count; ++i, ++number) {
            const int stage = number % stages;
            T* const own = ring + stage * stage_size;
            mbarrier_wait(&full[stage], number / stages % 2);
            wgmma_fence();
#pragma unroll
            for (int x = 0; x < halves; ++x) {
                SharedMatrix left(own + group * part_size + 64 * x * line, 16, 1024), right(own + 2 * part_size, 16, 1024);
#pragma unroll
                for (int k = 0; k < line; k += 16) {
                    wgmma<T, tile_n, true, true>(sums[x], left, right, i > 0 || k > 0);
                    left += 32;
                    right += 32;
                }
            }
            wgmma_commit();
            wgmma_wait<1>(sums[0]);  // the k-block before this one has been multiplied
            if (i > 0) mbarrier_arrive_warp(&empty[(number - 1) % stages]);
        }
        const int last = tile.own_band(g, group), of_images = g.of[tile.grid].of_images;
#pragma unroll
        for (int x = 0; x < halves; ++x) wgmma_wait<0>(sums[x]);
        mbarrier_arrive_warp(&empty[(number - 1) % stages]);
#pragma unroll
        for (int x = 0; x < tile_n; x += 64) {
            const int column = tile.column + x;
            Operands of[8][2];
#pragma unroll
            for (int i = 0; i < 16; ++i) of[i / 2][i % 2] = epilogue.load(0, 0, minimum(column + i / 2 * 8 + 2 * q + i % 2, g.filters - 1));
            if (threadIdx.x % 128 == 0) wait_stores_read<0>();
            barrier_sync(1 + group, 128);  // the part may be written again
#pragma unroll
            for (int i = 0; i < 16 * halves; ++i) {
                const int half = i / 16, eight = i % 8, lower = i / 8 % 2, at = 64 * half + 16 * warp + 8 * lower + row;
                alignas(4) Out two[2];
#pragma unroll
                for (int j = 0; j < 2; ++j) two[j] = epilogue(sums[half][x / 2 + eight * 4 + lower * 2 + j], of[eight][j]);
                *(unsigned*)(part + at * line + (eight ^ row) * 8 + 2 * q) = *(const unsigned*)two;
            }
            fence_to_async();
            barrier_sync(1 + group, 128);
            if (threadIdx.x % 128 == 0) {
                if (tile.has(g, group) && column < g.filters)
                    store_tile(output.of[tile.grid], {last / of_images * images, last % of_images * band, 0, column}, part);
                commit_stores();
            }
        }
    }
    if (threadIdx.x % 128 == 0) wait_stores_read<0>();
}
