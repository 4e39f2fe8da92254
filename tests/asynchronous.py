"""Kernels whose copies, stores and products go on beside their threads."""

#: A warp brings tiles through two stages, another one doubles and stores them.
PIPELINE = """
<% include "prelude/bulk_copy.cuh" %>
extern "C" __global__ void << name >>(const float* x, float* y, int tiles) {
    __shared__ __align__(128) float stages[2][128], made[128];
    __shared__ MBarrier full[2], empty[2];
    constexpr unsigned bytes = sizeof stages[0];
    if (threadIdx.x == 0) {
        for (int s = 0; s < 2; ++s) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 32);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        for (int i = 0; threadIdx.x == 0 && i < tiles; ++i) {
            mbarrier_wait(&empty[i % 2], i / 2 % 2 ^ 1);
            mbarrier_arrive_expecting(&full[i % 2], bytes);
            copy_bulk(stages[i % 2], x + i * 128, bytes, &full[i % 2]);
        }
        return;
    }
    const int lane = threadIdx.x - 32;
    for (int i = 0; i < tiles; ++i) {
        mbarrier_wait(&full[i % 2], i / 2 % 2);
        const float4 own = ((const float4*)stages[i % 2])[lane];
        mbarrier_arrive(&empty[i % 2]);
        ((float4*)made)[lane] = make_float4(2 * own.x, 2 * own.y, 2 * own.z, 2 * own.w);
        fence_to_async();
        __syncwarp();
        if (lane == 0) {
            store_bulk(y + i * 128, made, bytes);
            commit_stores();
            wait_stores_read<0>();
        }
        __syncwarp();
    }
    wait_stores<0>();
}
"""

COPIES = """
<% include "prelude/copy_async.cuh" %>
extern "C" __global__ void << name >>(const float4* x, float4* y) {
    __shared__ float4 words[3][64];
    for (int i = 0; i < 3; ++i) {
        copy_async_or_zeros(&words[i][threadIdx.x], x + i * 64 + threadIdx.x, threadIdx.x % 2 ? 16 : 8);
        commit_copies();
    }
    wait_copies<1>();
    __syncthreads();
    y[threadIdx.x] = words[0][63 - threadIdx.x];
    y[64 + threadIdx.x] = words[1][63 - threadIdx.x];
    wait_copies<0>();
    __syncthreads();
    y[128 + threadIdx.x] = words[2][63 - threadIdx.x];
}
"""

ROLES = """
<% include "prelude/warp_roles.cuh" %>
extern "C" __global__ void << name >>(int* y) {
    // Warps 0 and 1 write what warps 2 and 3 add, by turns. Barrier 1: it is there. Barrier 2: it has been read.
    __shared__ int given[64];
    const int warp = threadIdx.x / 32;
    int sum = 0;
    if (warp < 2) {
        give_registers<24>();
        for (int i = 0; i < 5; ++i) {
            if (i) barrier_sync(2, 128);
            given[threadIdx.x] = (i + 1) * threadIdx.x;
            barrier_arrive(1, 128);
        }
        y[threadIdx.x] = elect_lane();
    } else {
        take_registers<240>();
        for (int i = 0; i < 5; ++i) {
            barrier_sync(1, 128);
            sum += given[127 - threadIdx.x];
            if (i < 4) barrier_arrive(2, 128);
        }
        y[threadIdx.x] = sum;
    }
}
"""

#: D (64, 64) = A (64, 64) @ B (64, 64) of halves in two slabs of 32 rows of depth, each a line of 64 columns.
WARPGROUP = """
<% include "prelude/wgmma.cuh" %>
extern "C" __global__ void << name >>(const __half* a, const __half* b, float* d) {
    // Column-major A and row-major B: 64 elements of a line are 128 bytes.
    __shared__ __align__(1024) __half left[2][32 * 64], right[2][32 * 64];
    const auto bring = [&](int slab) {
        for (int i = threadIdx.x; i < 32 * 8; i += 128) {
            const int line = i / 8, chunk = i % 8;
            const int to = line * 64 + (chunk ^ line % 8) * 8, from = (slab * 32 + line) * 64 + chunk * 8;
            *(uint4*)(left[slab % 2] + to) = *(const uint4*)(a + from);
            *(uint4*)(right[slab % 2] + to) = *(const uint4*)(b + from);
        }
        fence_to_async();
        __syncthreads();
    };
    float sums[32];
    const auto multiply = [&](int slab) {
        SharedMatrix of_a(left[slab % 2], 0, 1024), of_b(right[slab % 2], 0, 1024);
        wgmma_fence();
        for (int k = 0; k < 2; ++k) {
            wgmma<__half, 64, false, false>(sums, of_a, of_b, slab + k > 0);
            of_a += 2048;
            of_b += 2048;
        }
        wgmma_commit();
    };
    bring(0);
    multiply(0);
    bring(1);
    multiply(1);
    wgmma_wait<1>(sums);
    __syncthreads();
    bring(2);
    multiply(2);
    wgmma_wait<0>(sums);
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    for (int i = 0; i < 32; ++i) d[(16 * warp + g + i / 2 % 2 * 8) * 64 + i / 4 * 8 + 2 * q + i % 2] = sums[i];
}
"""

#: D (64, 64) = A (64, 128 / sizeof(T)) @ B, both in rows of 128 bytes: A's by depth, B's by depth or across it.
FACTORS = """
<% set wgmma_columns = [64] %>
<% include "prelude/wgmma.cuh" %>
extern "C" __global__ void << name >>(const uint4* a, const uint4* b, const unsigned* words, float* d) {
    __shared__ __align__(1024) uint4 left[64 * 8], right[64 * 8];
    for (int i = threadIdx.x; i < 64 * 8; i += 128) {
        left[i ^ i / 8 % 8] = a[i];
        right[i ^ i / 8 % 8] = b[i];
    }
    fence_to_async();
    __syncthreads();
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    float sums[32];
<% if in_registers %>
    unsigned own[4][4];
    for (int k = 0; k < 4; ++k)
        for (int i = 0; i < 4; ++i) own[k][i] = words[(16 * warp + g + 8 * (i % 2)) * 32 + 8 * k + 4 * (i / 2) + q];
<% endif %>
    wgmma_fence();
    SharedMatrix of_a(left, 0, 1024), of_b(right, 0, 1024);
    for (int k = 0; k < 4; ++k) {
<% if in_registers %>
        wgmma< << type >>, 64, << by_depth >> >(sums, own[k], of_b, k > 0);
<% else %>
        wgmma< << type >>, 64, true, << by_depth >> >(sums, of_a, of_b, k > 0);
<% endif %>
        of_a += 32;
        of_b += << 32 if by_depth == "true" else 2048 >>;
    }
    wgmma_commit();
    wgmma_wait<0>(sums);
    for (int i = 0; i < 32; ++i) d[(16 * warp + g + i / 2 % 2 * 8) * 64 + i / 4 * 8 + 2 * q + i % 2] = sums[i];
}
"""

#: Transposes a matrix, tile by tile.
TILES = """
<% include "prelude/tensor_map.cuh" %>
extern "C" __global__ void << name >>(
    const __grid_constant__ TensorMap from, const __grid_constant__ TensorMap to, << elem >>* bytes) {
    constexpr int rows = << rows >>, columns = << columns >>, swizzle = << swizzle >>;
    __shared__ __align__(1024) << elem >> tile[rows * columns], made[columns * rows];
    __shared__ MBarrier here;
    if (threadIdx.x == 0) {
        mbarrier_init(&here, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    constexpr int before = 16 / sizeof(tile[0]);  // so far out of bounds begin the first tiles that are copied
    const int row = blockIdx.y * rows, column = blockIdx.x * columns;
    if (threadIdx.x == 0) {
        mbarrier_arrive_expecting(&here, sizeof tile);
        copy_tile(tile, from, {row - before, column - before}, &here);
    }
    mbarrier_wait(&here, 0);
    for (int i = threadIdx.x; i < rows * columns; i += blockDim.x) {
        const unsigned at = i * sizeof(tile[0]), moved = swizzle ? at ^ (at >> 3 & (swizzle - 16)) : at;
        bytes[(blockIdx.y * gridDim.x + blockIdx.x) * rows * columns + i] = tile[moved / sizeof(tile[0])];
        made[i % columns * rows + i / columns] = tile[moved / sizeof(tile[0])];
    }
    fence_to_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        << "add_tile" if adds else "store_tile" >>(to, {column, row}, made);
        commit_stores();
        wait_stores_read<0>();
    }
}
"""

#: Four blocks of a cluster add up what all of them have in static and dynamic shared memory, and count in each other's.
CLUSTER = """
<% include "prelude/cluster.cuh" %>
extern "C" __global__ void __cluster_dims__(2, 2, 1) << name >>(const float* x, float* y, int* counts) {
    __shared__ float own[48];
    extern __shared__ float more[];
    __shared__ int count;
    const int block = blockIdx.y * gridDim.x + blockIdx.x, i = threadIdx.x;
    const unsigned rank = cluster_rank(), next = (rank + 1) % cluster_size();
    own[i] = x[48 * block + i];
    more[i] = 2 * own[i];
    if (i == 0) count = 0;
    cluster_arrive();
    cluster_wait();
    float sum = 0;
    for (int r = 0; r < cluster_size(); ++r)
        sum += of_block_number(own + i, r) + map_shared_rank(more, r)[47 - i];
    atomicAdd(map_shared_rank(&count, next), 1);
    cluster_barrier();
    y[48 * block + i] = sum;
    counts[block] = 1000 * rank + count;
    float* const other = map_shared_rank(own, next);
    other[i] = rank;
    cluster_barrier();
    y[48 * block + i] += own[i];
}
"""

#: Two blocks bring each other the halves of tiles, and each sums the columns of all, with weights of its own.
MULTICAST = """
<% include "prelude/tensor_map.cuh" %>
<% include "prelude/cluster_mbarrier.cuh" %>
extern "C" __global__ void __cluster_dims__(2) << name >>(const __grid_constant__ TensorMap x, float* y, int tiles) {
    __shared__ __align__(1024) float stages[2][16][32];
    __shared__ MBarrier full[2], empty[2];
    constexpr unsigned bytes = sizeof stages[0];
    const int rank = cluster_rank(), lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        for (int s = 0; s < 2; ++s) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 64);
        }
        fence_mbarrier_init();
    }
    cluster_barrier();
    if (threadIdx.x < 32) {
        for (int i = 0; lane == 0 && i < tiles; ++i) {
            mbarrier_wait_cluster(&empty[i % 2], i / 2 % 2 ^ 1);
            mbarrier_arrive_expecting(&full[i % 2], bytes);
            copy_tile_multicast(stages[i % 2][8 * rank], x, {16 * i + 8 * rank, 0}, &full[i % 2], 3);
        }
    } else {
        float sum = 0;
        for (int i = 0; i < tiles; ++i) {
            mbarrier_wait(&full[i % 2], i / 2 % 2);
            for (int row = 0; row < 16; ++row)
                sum += (row + rank) * stages[i % 2][row][(lane / 4 ^ row % 8) * 4 + lane % 4];
            for (int r = 0; r < 2; ++r) mbarrier_arrive_at(&empty[i % 2], r);
        }
        y[32 * blockIdx.x + lane] = sum;
    }
    cluster_arrive();
    cluster_wait();
}
"""

#: Each block sends words of 4, 8 and 16 bytes to the next one of its cluster.
EXCHANGE = """
<% include "prelude/cluster_mbarrier.cuh" %>
extern "C" __global__ void __cluster_dims__(<< blocks >>, 1, 1) << name >>(const uint4* x, uint4* y) {
    __shared__ uint4 wide[32];
    __shared__ uint2 middle[32];
    __shared__ unsigned narrow[32];
    __shared__ MBarrier here;
    const int i = threadIdx.x, to = (cluster_rank() + 1) % << blocks >>;
    if (i == 0) {
        mbarrier_init(&here, 2);
        fence_mbarrier_init();
        mbarrier_arrive_expecting(&here, 32 * 28);
    }
    cluster_barrier();
    const uint4 own = x[blockIdx.x * 32 + i];
    store_async(&wide[i], own, &here, to);
    store_async(&middle[i], make_uint2(own.y, own.x), &here, to);
    store_async(&narrow[i], own.z, &here, to);
    if (i == 0) mbarrier_arrive_expecting_at(&here, 0, to);
    mbarrier_wait_cluster(&here, 0);
    const uint4 w = wide[i];
    y[blockIdx.x * 32 + i] = make_uint4(w.x + middle[i].y, w.y + middle[i].x, w.z + narrow[i], w.w);
    cluster_barrier();
}
"""
