// D = X @ W.T + bias on the tensor cores of sm_90a for X (rows, inputs) and D of 16-bit floats, and W (outputs, inputs) in
// quantised blocks: of W's rows, which are those of the instructions' first factor, a lane dequantises in registers what it has
// of them. Sums are in float. Maps lead to X, to W as 16-bit words, and to D. Inputs are a multiple of `wide`.
// Launch: blocks of three warpgroups, of which each makes every gridDim.x-th tile: `tile_m` outputs of `tile_n` rows. The first
// two share the outputs and multiply. Of the third one thread loads k-blocks of X to a ring of stages, and one the blocks of
// `wide` weights of each output to another ring. A k-block's weights are dequantised while the k-block before is multiplied.
// A stage goes round: `empty` until it may be written, `full` when all its bytes have come, and empty again when all warps have
// done with it. With several `shares`, a cluster of as many blocks makes one tile: each multiplies a share of the inputs, and then
// adds up and stores a share of the tile's rows, of which the others have stored their sums in its shared memory.
// Shared, dynamic: the stages of X, where such sums lie later; a part of D for each warpgroup; the stages of W; 1024 bytes before
// for alignment.
<% set of_lane = true %>
<% set wgmma_columns = [tile_n] %>
<% include "prelude/math.cuh" %>
<% include "quant/kind.cuh" %>
<% include "prelude/packs.cuh" %>
<% include "prelude/mma.cuh" %>
<% include "prelude/wgmma.cuh" %>
<% include "prelude/tensor_map.cuh" %>
<% include "prelude/warp_roles.cuh" %>
<% include "prelude/cluster.cuh" %>
using T = << elem >>;
constexpr int tile_m = 128, tile_n = << tile_n >>, depth = 64, wide = 256;
constexpr int stages = << stages >>, block_stages = 2;
constexpr int shares = << shares >>, own_n = tile_n / shares, part_n = own_n < 64 ? own_n : 64;  // rows that a block stores, and at a time
constexpr int x_size = tile_n * depth, part_size = 64 * part_n;  // elements of a stage, and of 64 outputs of so many rows of D
// Bytes of `wide` weights, and of the words of 16 bytes in which they lie, wherever in the first of them they begin.
constexpr int own_bytes = wide / Kind::weights * Kind::bytes, line = << line >>;
static_assert(line % 16 == 0 && line >= own_bytes + (own_bytes % 16 ? 14 : 0), "a line holds the blocks");
static_assert(own_n % part_n == 0 && part_n % 16 == 0, "rows are stored by whole squares");
static_assert((shares - 1) * own_n * tile_m * 4 <= stages * x_size * int(sizeof(T)), "sums of the other shares fit");
<< Sizes >>
// Tile `iteration` of this block; neighbours have the same outputs. Blocks that share tiles have one each.
struct ScheduledTile {
    int row, output;
    bool there;

    __device__ __forceinline__ ScheduledTile(const Sizes& sizes, int iteration) {
        const int number = blockIdx.x / shares + iteration * (shares > 1 ? sizes.tiles_m * sizes.tiles_n : int(gridDim.x));
        row = number % sizes.tiles_n * tile_n;
        output = number / sizes.tiles_n * tile_m;
        there = number < sizes.tiles_m * sizes.tiles_n;
    }
};
__device__ __forceinline__ unsigned pair_of(float a, float b) {
    const float two[2] = {a, b};
    const Pack<T, 2> pack = packed<T>(two);
    return *(const unsigned*)&pack;
}
// The lane's weights of k-block S of the `wide` ones of two rows, 8 lines apart, as the first factor of the products of 16.
template <int S>
__device__ __forceinline__ void dequantise(unsigned (&to)[4][4], const unsigned char* first) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const unsigned char* const blocks = first + 8 * half * line;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const InUnit<Kind> in(4 * S + i);
            const Group group = Kind::Unit(blocks + in.block * Kind::bytes, in.unit).decode(in.group);
            to[i][half] = pair_of(weight(group, 0), weight(group, 1));
            to[i][2 + half] = pair_of(weight(group, 2), weight(group, 3));
        }
    }
}
// Leaves at the beginning of the sums those of the rows that block `rank` of the cluster stores: its own, and those of the others,
// which they store in `memory` of that block when all have done with it.
__device__ __forceinline__ void add_up(float (&sums)[tile_n / 2], float4* memory, int rank) {
    constexpr int own = own_n / 2, fours = own / 4, consumers = 256;
    cluster_barrier();
#pragma unroll
    for (int share = 0; share < shares; ++share) {
        if (share == rank) continue;
        float4* const to = map_shared_rank(memory, share) + (rank - (rank > share)) * fours * consumers + threadIdx.x;
#pragma unroll
        for (int i = 0; i < fours; ++i) {
            const float* const from = &sums[share * own + 4 * i];
            to[i * consumers] = make_float4(from[0], from[1], from[2], from[3]);
        }
    }
#pragma unroll
    for (int share = 1; share < shares; ++share) {
#pragma unroll
        for (int i = 0; i < own; ++i) sums[i] = share == rank ? sums[share * own + i] : sums[i];
    }
    cluster_barrier();
#pragma unroll
    for (int i = 0; i < (shares - 1) * fours; ++i) {
        const float4 four = memory[i * consumers + threadIdx.x];
        float* const to = &sums[i % fours * 4];
        to[0] += four.x, to[1] += four.y, to[2] += four.z, to[3] += four.w;
    }
}

extern "C" __global__ void __launch_bounds__(384, 1) << "__cluster_dims__(%d, 1, 1)" % shares if shares > 1 >> << name >>(
    const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w, << "const T* bias, " if biased >>const __grid_constant__ TensorMap d,
    Sizes sizes)
{
    extern __shared__ __align__(128) unsigned char shared[];
    T* const ring = (T*)(shared + (1024 - __cvta_generic_to_shared(shared) % 1024) % 1024);
    T* const all_parts = ring + stages * x_size;
    unsigned char* const blocks = (unsigned char*)(all_parts + 2 * part_size);
    __shared__ MBarrier full[stages], empty[stages], blocks_full[block_stages], blocks_empty[block_stages];
    if (threadIdx.x == 0) {
        mbarrier_init_ring(full, empty, stages, 1, 8);
        mbarrier_init_ring(blocks_full, blocks_empty, block_stages, 1, 8);
        fence_mbarrier_init();
    }
    __syncthreads();
    const int group = own_group(), rank = blockIdx.x % shares;
    const int first = sizes.inputs / wide * rank / shares, each = sizes.inputs / wide * (rank + 1) / shares - first;
    if (group == 2) {
        give_registers<24>();
        if (threadIdx.x == 256) {
            for (int iteration = 0, number = 0; ScheduledTile(sizes, iteration).there; ++iteration) {
                for (int i = 0; i < each * (wide / depth); ++i, ++number) {
                    const int stage = number % stages;
                    mbarrier_wait(&empty[stage], number / stages % 2 ^ 1);
                    mbarrier_arrive_expecting(&full[stage], x_size * int(sizeof(T)));
                    copy_tile(ring + stage * x_size, x, {ScheduledTile(sizes, iteration).row, first * wide + i * depth}, &full[stage]);
                }
            }
        } else if (threadIdx.x == 288) {
            for (int iteration = 0, number = 0; ScheduledTile(sizes, iteration).there; ++iteration) {
                for (int i = 0; i < each; ++i, ++number) {
                    const int stage = number % block_stages;
                    mbarrier_wait(&blocks_empty[stage], number / block_stages % 2 ^ 1);
                    mbarrier_arrive_expecting(&blocks_full[stage], tile_m * line);
                    copy_tile(blocks + stage * tile_m * line, w, {ScheduledTile(sizes, iteration).output, (first + i) * own_bytes / 16 * 8}, &blocks_full[stage]);
                }
            }
        }
        return;
    }
    take_registers<240>();
    const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
    const int own_line = (64 * group + 16 * warp + lane / 4) * line;
    float sums[tile_n / 2];
    unsigned weights[2][4][4];
    const auto blocks_of = [&](int number, int i) {  // the first of the lane's, when they have come
        mbarrier_wait(&blocks_full[number % block_stages], number / block_stages % 2);
        return blocks + number % block_stages * tile_m * line + own_line + ((first + i) * own_bytes) % 16;
    };
    const auto multiply = [&](int number, const unsigned (&by)[4][4], bool add) {
        const int stage = number % stages;
        mbarrier_wait(&full[stage], number / stages % 2);
        SharedMatrix right(ring + stage * x_size, 16, 1024);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            wgmma<T, tile_n, true>(sums, by[k], right, add || k > 0);
            right += 32;
        }
        wgmma_commit();
        wgmma_wait<1>(sums);  // the k-block before this one has been multiplied
        __syncwarp();
        if (add && lane == 0) mbarrier_arrive(&empty[(number - 1) % stages]);
    };
    int number = 0, numbers = 0;  // of stages with blocks, and with X
    for (int iteration = 0; ScheduledTile(sizes, iteration).there; ++iteration) {
        const unsigned char* own = blocks_of(number, 0);
        dequantise<0>(weights[0], own);
        for (int i = 0; i < each; ++i, ++number, numbers += 4) {
            multiply(numbers, weights[0], i > 0);
            dequantise<1>(weights[1], own);
            multiply(numbers + 1, weights[1], true);
            dequantise<2>(weights[0], own);
            multiply(numbers + 2, weights[0], true);
            dequantise<3>(weights[1], own);
            mbarrier_arrive_warp(&blocks_empty[number % block_stages]);
            multiply(numbers + 3, weights[1], true);
            if (i + 1 < each) {
                own = blocks_of(number + 1, i + 1);
                dequantise<0>(weights[0], own);
            }
        }
        wgmma_wait<0>(sums);
        mbarrier_arrive_warp(&empty[(numbers - 1) % stages]);
        if constexpr (shares > 1) add_up(sums, (float4*)ring, rank);

        const int row = ScheduledTile(sizes, iteration).row + rank * own_n, output = ScheduledTile(sizes, iteration).output + 64 * group;
        float added[2] = {};
<% if biased %>
#pragma unroll
        for (int half = 0; half < 2; ++half)
            added[half] = cast<float>(bias[minimum(output + 16 * warp + 8 * half + lane / 4, sizes.outputs - 1)]);
<% endif %>
#pragma unroll
        for (int part = 0; part < own_n / part_n; ++part) {
            T* const to = all_parts + group * part_size;
            if (threadIdx.x % 128 == 0) wait_stores_read<0>();
            barrier_sync(1 + group, 128);  // the part may be written again
#pragma unroll
            for (int i = 0; i < part_n / 16; ++i) {  // 16 rows by the warp's 16 outputs, in four squares
                unsigned squares[4];
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    const float* const two = &sums[(part * part_n / 8 + 2 * i + j / 2) * 4 + j % 2 * 2];
                    squares[j] = pair_of(two[0] + added[j % 2], two[1] + added[j % 2]);
                }
                const int own_row = 16 * i + lane / 16 * 8 + lane % 8, chunk = 2 * warp + lane / 8 % 2;
                store_matrices_transposed(to + own_row * 64 + (chunk ^ own_row % 8) * 8, squares);
            }
            fence_to_async();
            barrier_sync(1 + group, 128);
            if (threadIdx.x % 128 == 0) {
                if (row + part * part_n < sizes.rows && output < sizes.outputs) store_tile(d, {row + part * part_n, output}, to);
                commit_stores();
            }
        }
    }
    if (threadIdx.x % 128 == 0) wait_stores_read<0>();
}
