// Warp-specialized, persistent GEMM of sm_90a: D = epilogue(A @ B) by wgmma and TMA, for A (m, k) and B (k, n) of 16-bit floats, or
// of floats that are contiguous along k and truncated to tf32, in batches: sums in float, and the epilogue an elementwise expression
// of the sum and of operands that broadcast to (m, n). Tensor maps describe the factors, each contiguous along one of its two axes,
// in rows that begin at multiples of 16 bytes; and D, if its rows do too (`wide`): else threads store its parts.
// Launch: blocks of three warpgroups, two consumers and a producer. Consumers share the rows of each tile: they keep a finished tile
// of 16-bit elements in registers, and store its parts while the first k-blocks of the next are multiplied. Or they compute tiles in
// ping-pong, so that one stores its tile while the other multiplies.
// With `saves` it stores the sums too, straight from registers.
// Shared, dynamic: the stages, then for each warpgroup slots for parts of 64 lines of D; 1024 bytes before for alignment.
<% include "linear/product_tma.cuh" %>
using Target = << "const TensorMap&" if wide else "Out*" >>;  // D
constexpr bool keeps = !ping_pong && sizeof(Out) == 2;  // the registers do not suffice for more bytes
constexpr int across = tile_n / line, tile_parts = rows / 64 * across;  // parts side by side, and all of a warpgroup
static_assert(tile_parts % slots == 0, "a part has the same slot in each tile, as the wait for stores assumes");
// Elements of D of a warpgroup's 64 rows: for each eight columns of a part a pair of row g, then those of row g + 8.
struct Kept {
    Pair pairs[tile_n / 4];

    // Computes those of the part from column `x` on.
    __device__ __forceinline__ void finish(const Epilogue& epilogue, const PartOperands& own, int x, const float (&sums)[tile_n / 2]) {
#pragma unroll
        for (int i = 0; i < 2 * groups; ++i) {
            const int half = i / groups, group = i % groups;
            alignas(Pair) Out two[2];
#pragma unroll
            for (int j = 0; j < 2; ++j) two[j] = epilogue(sums[x / 2 + group * 4 + half * 2 + j], own.of[half][group].at(j));
            pairs[x / 4 + i] = *(const Pair*)two;
        }
    }
    // Stores the part from column `x` on through shared memory, by all threads of the warpgroup.
    __device__ __forceinline__ void store(Target d, const Sizes& sizes, int group, int batch, int row, int column, int x, T* to) const {
        const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
<% if wide %>
        if (threadIdx.x % 128 == 0) wait_stores_read<slots - 1>();
<% endif %>
        barrier_sync(1 + group, 128);  // the part may be written again
#pragma unroll
        for (int i = 0; i < 2 * groups; ++i) {  // chunks are swizzled as in a k-block, and as the map says
            const int own = i % groups * 8 + 2 * q;
            *(Pair*)(to + (16 * warp + i / groups * 8 + g) * line + (own / chunk ^ g) * chunk + own % chunk) = pairs[x / 4 + i];
        }
<% if wide %>
        fence_to_async();
        barrier_sync(1 + group, 128);
        if (threadIdx.x % 128 == 0) {
            if (row < sizes.m && column + x < sizes.n) store_tile(d, {batch, row, column + x}, to);
            commit_stores();
        }
<% else %>
        barrier_sync(1 + group, 128);
        Out* const corner = d + ((index)batch * sizes.m + row) * sizes.n + column + x;
        for (int r = warp; r < 64 && row + r < sizes.m; r += 4) {
#pragma unroll
            for (int c = lane; c < line; c += 32) {
                if (column + x + c < sizes.n) corner[sizes.row(r) + c] = ((const Out*)to)[r * line + (c / chunk ^ r % 8) * chunk + c % chunk];
            }
        }
<% endif %>
    }
};

<% set parameters %>
<% for x in operands %>const << x.type >>* x<< x.k >>, <% endfor %><% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %><< "T* saved, " if saves >>
<% endset %>
<% set arguments %>
<% for x in operands %>x<< x.k >>, <% endfor %><% for x in scalars %>s<< loop.index0 >>, <% endfor %>
<% endset %>
extern "C" __global__ void __launch_bounds__(threads, 1) __cluster_dims__(<< cluster >>, 1, 1) << name >>(
    const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
    << parameters | trim >>
    << "const __grid_constant__ TensorMap d" if wide else "Out* d" >>, Sizes sizes, Steps steps)
{
    const Epilogue epilogue{<< arguments | trim >> steps};
    extern __shared__ __align__(128) unsigned char shared[];
    __shared__ MBarrier full[stages], empty[stages];
    const Ring ring(shared, full, empty);
    // Not in ping-pong: ptxas then puts the instructions of the epilogue in another order, which was slower.
    if (!ping_pong && threadIdx.x == 256) prefetch_map(a), prefetch_map(b)<< ", prefetch_map(d)" if wide >>;
    ring.open();
    const int k_blocks = maximum(divide_up(sizes.k, depth), 1), group = own_group();
    if (group == 2) {
        give_registers<24>();
        const Place first = ScheduledTile(0).coord_now(sizes);
        ring.await_open();
        PipelineState at{0, 0};
        if (threadIdx.x == 256) {
            feed(ring, a, b, sizes, k_blocks, at, first);
            ring.await_empty(at, stages);
        }
        return;
    }
    ring.await_open();
    take_registers<240>();
    T* const parts = ring.at(stages) + group * slots * part_size;
    const int first_row = ping_pong ? 0 : rows * group;  // in a tile
    Sums sums;
    Multiplication product(ring, first_row);
    Kept kept[rows / 64];
    int batch = 0, row = sizes.m, column = 0;  // of what is kept; there is nothing at first
    const auto store = [&](int i) {  // part i of it
        kept[i / across].store(d, sizes, group, batch, row + i / across * 64, column, i % across * line, parts + i % slots * part_size);
    };
    TileCoords tiles(sizes, ping_pong ? group : 0);
    if (ping_pong && group == 1) {
        barrier_arrive(3, 256);
        product.at.skip(k_blocks);
    }
    for (int iteration = ping_pong ? group : 0; ScheduledTile(iteration).there(sizes); iteration += ping_pong ? 2 : 1) {
        if constexpr (keeps) {
#pragma unroll
            for (int i = 0; i < tile_parts; ++i) {
                if (i < k_blocks) product.multiply(sums, i == 0, i == 0);
                store(i);
            }
        }
        if constexpr (ping_pong) barrier_sync(3 + group, 256);  // the other one has had all k-blocks before these
        for (int i = keeps ? tile_parts : 0; i < k_blocks; ++i) product.multiply(sums, !keeps && i == 0, !keeps && i == 0);
        if constexpr (ping_pong) barrier_arrive(4 - group, 256);
        const Place place = tiles.at(iteration, first_row);
        batch = place.batch, row = place.m0, column = place.n0;
        PartOperands of_parts[ahead];  // prefetched while the last k-block is multiplied, and parts are computed
        const auto load = [&](int i) {
            of_parts[i % ahead].load(epilogue, sizes, batch, row + i / across * 64, column + i % across * line);
        };
#pragma unroll
        for (int i = 0; i < ahead; ++i) load(i);
        wgmma_wait<0>(sums[0]);
        if constexpr (rows > 64) wgmma_made(sums[1]);
        product.free(product.current);
        if constexpr (ping_pong) product.at.skip(k_blocks);
<% if saves %>
#pragma unroll
        for (int x = 0; x < rows / 64; ++x)
            ::store<tile_n>(
                Rounded{}, saved + (index)batch * sizes.m * sizes.n, sizes, batch, row + 64 * x + threadIdx.x % 128 / 32 * 16, column, sums[x]);
<% endif %>
#pragma unroll
        for (int i = 0; i < tile_parts; ++i) {
            kept[i / across].finish(epilogue, of_parts[i % ahead], i % across * line, sums[i / across]);
            if (i + ahead < tile_parts) load(i + ahead);
            if constexpr (!keeps && !ping_pong) store(i);
        }
        if constexpr (ping_pong) {
#pragma unroll
            for (int i = 0; i < tile_parts; ++i) store(i);
        }
    }
    if constexpr (keeps) {
#pragma unroll
        for (int i = 0; i < tile_parts; ++i) store(i);
    }
<% if wide %>
    if (threadIdx.x % 128 == 0) wait_stores_read<0>();
<% endif %>
}
