"""A product of matrices in five steps: from a thread for each element to tensor cores fed by warps of their own.

    python examples/09_tensor_cores.py
    python examples/09_tensor_cores.py --size 4096   # with a GPU; steps 4 and 5 need one of compute capability 9.0

Each step runs on the host, too, with the same text and the same threads. There the asynchronous work is done as late as
a GPU may do it, or at a random time: a wait that is missing shows, which is tried at the end.

The library's own products are in ``templates/linear``: any layout, any size, and an epilogue.
"""

import argparse
import time

import numpy as np

import cukern as ck
from cukern.testing import asynchrony

# D = A @ B, for A (m, k) and B (k, n) of float16, and D of float32. All sizes are multiples of 128.

# 1. One thread, one element of D. Every element of A and B is read from global memory by many threads.

naive = ck.Kernel(
    """
extern "C" __global__ void << name >>(const __half* a, const __half* b, float* d, int m, int n, int k) {
    const int row = blockIdx.y, column = blockIdx.x * << block >> + threadIdx.x;
    float sum = 0;
    for (int i = 0; i < k; ++i) sum += __half2float(a[row * k + i]) * __half2float(b[i * n + column]);
    d[row * n + column] = sum;
}
""",
    name="naive",
    block=128,
    uses_half=True,
)

# 2. A block makes 64 by 64 elements, from slabs of A and B in shared memory. A thread makes 4 by 4 of them.

shared = ck.Kernel(
    """
constexpr int tile = 64, depth = 16;
extern "C" __global__ void << name >>(const __half* a, const __half* b, float* d, int m, int n, int k) {
    __shared__ float of_a[depth][tile], of_b[depth][tile];
    const int m0 = blockIdx.y * tile, n0 = blockIdx.x * tile;
    const int row = threadIdx.x / 16 * 4, column = threadIdx.x % 16 * 4;
    float sums[4][4] = {};
    for (int k0 = 0; k0 < k; k0 += depth) {
        for (int i = threadIdx.x; i < tile * depth; i += << block >>) {
            of_a[i % depth][i / depth] = __half2float(a[(m0 + i / depth) * k + k0 + i % depth]);
            of_b[i / tile][i % tile] = __half2float(b[(k0 + i / tile) * n + n0 + i % tile]);
        }
        __syncthreads();
        for (int i = 0; i < depth; ++i)
            for (int x = 0; x < 4; ++x)
                for (int y = 0; y < 4; ++y) sums[x][y] += of_a[i][row + x] * of_b[i][column + y];
        __syncthreads();
    }
    for (int x = 0; x < 4; ++x)
        for (int y = 0; y < 4; ++y) d[(m0 + row + x) * n + n0 + column + y] = sums[x][y];
}
""",
    name="shared",
    block=256,
    uses_half=True,
)

# 3. Tensor cores, from sm_80 on. A warp multiplies matrices of 16 by 16 and 16 by 8 elements with one instruction, and
#    makes 32 by 32 elements of D. The next slab is copied to shared memory while this one is multiplied.

warps = ck.Kernel(
    """
<% include "prelude/mma.cuh" %>
<% include "prelude/copy_async.cuh" %>
constexpr int tile = 64, depth = 32, pad = 8;  // the padding spreads rows over the banks of shared memory
extern "C" __global__ void << name >>(const __half* a, const __half* b, float* d, int m, int n, int k) {
    __shared__ __align__(16) __half of_a[2][tile][depth + pad], of_b[2][depth][tile + pad];
    const int m0 = blockIdx.y * tile, n0 = blockIdx.x * tile;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = warp / 2 * 32, column = warp % 2 * 32;
    const auto bring = [&](int slab) {
        for (int i = threadIdx.x; i < tile * depth / 8; i += << block >>) {
            const int chunk_a = i % (depth / 8) * 8, chunk_b = i % (tile / 8) * 8;
            if (slab * depth >= k) break;
            copy_async((uint4*)&of_a[slab % 2][i / (depth / 8)][chunk_a],
                       (const uint4*)(a + (m0 + i / (depth / 8)) * k + slab * depth + chunk_a));
            copy_async((uint4*)&of_b[slab % 2][i / (tile / 8)][chunk_b],
                       (const uint4*)(b + (slab * depth + i / (tile / 8)) * n + n0 + chunk_b));
        }
        commit_copies();
    };
    float sums[2][4][4] = {};
    bring(0);
    for (int slab = 0; slab * depth < k; ++slab) {
        bring(slab + 1);
        wait_copies<1>();
        __syncthreads();
        for (int i = 0; i < depth; i += 16) {
            unsigned left[2][4], right[4][2];
            for (int x = 0; x < 2; ++x)
                load_matrices(left[x], &of_a[slab % 2][row + 16 * x + lane % 16][i + lane / 16 * 8]);
            for (int y = 0; y < 4; ++y)
                load_matrices_transposed(right[y], &of_b[slab % 2][i + lane % 16][column + 8 * y]);
            for (int x = 0; x < 2; ++x)
                for (int y = 0; y < 4; ++y) mma<__half>(sums[x][y], left[x], right[y]);
        }
        __syncthreads();
    }
    for (int x = 0; x < 2; ++x)
        for (int y = 0; y < 4; ++y)
            for (int i = 0; i < 4; ++i) {
                const int own_row = row + 16 * x + lane / 4 + i / 2 * 8;
                d[(m0 + own_row) * n + n0 + column + 8 * y + lane % 4 * 2 + i % 2] = sums[x][y][i];
            }
}
""",
    name="warps",
    block=128,
    uses_half=True,
)

# 4. sm_90a: four warps multiply 64 rows by 64 columns, straight from shared memory, and the hardware brings whole tiles
#    there: one thread asks for them, and a barrier in shared memory counts their bytes.

TILE = """
<% set wgmma_columns = [64] %>
<% include "prelude/wgmma.cuh" %>
<% include "prelude/tensor_map.cuh" %>
<% include "prelude/warp_roles.cuh" %>
constexpr int tile = 64, slab_bytes = 2 * tile * tile * int(sizeof(__half));
// 64 rows of A, and 64 columns of B, 64 deep: lines of 128 bytes, in the order in which TMA leaves them.
struct Slab {
    __half a[tile * tile], b[tile * tile];
};
// Rows `first_row` to first_row + 63 of d, of what a warpgroup has summed up.
__device__ __forceinline__ void store(float* d, int n, int first_row, int first_column, const float (&sums)[32]) {
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    for (int i = 0; i < 32; ++i) {
        const int row = 16 * warp + lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
        d[(first_row + row) * n + first_column + column] = sums[i];
    }
}
__device__ __forceinline__ void multiply(float (&sums)[32], const __half* of_a, const __half* of_b, bool add) {
    SharedMatrix left(of_a, 16, 1024), right(of_b, 0, 1024);
    wgmma_fence();
    for (int i = 0; i < tile; i += 16) {
        wgmma<__half, 64, true, false>(sums, left, right, add || i > 0);
        left += 16 * sizeof(__half);   // along a line of A
        right += 16 * tile * sizeof(__half);  // from line to line of B
    }
    wgmma_commit();
}
"""

tiles = ck.Kernel(
    TILE
    + """
extern "C" __global__ void << name >>(
    const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* d, int m, int n, int k) {
    __shared__ __align__(1024) Slab slab;
    __shared__ MBarrier here;
    if (threadIdx.x == 0) {
        mbarrier_init(&here, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    float sums[32];
    for (int i = 0; i * tile < k; ++i) {
        if (threadIdx.x == 0) {
            mbarrier_arrive_expecting(&here, slab_bytes);
            copy_tile(slab.a, a, {int(blockIdx.y) * tile, i * tile}, &here);
            copy_tile(slab.b, b, {i * tile, int(blockIdx.x) * tile}, &here);
        }
        mbarrier_wait(&here, i % 2);
        multiply(sums, slab.a, slab.b, i > 0);
        wgmma_wait<0>(sums);
        __syncthreads();  // all warps are done with the slab
    }
    store(d, n, blockIdx.y * tile, blockIdx.x * tile, sums);
}
""",
    name="tiles",
    block=128,
    uses_half=True,
)

# 5. Roles: a warpgroup, of which one thread works, brings slabs to a ring of stages; two others multiply, each 64 rows.
#    `full` says that a stage has come, `empty` that both have multiplied it. The first gives its registers away.

ROLES = (
    TILE
    + """
constexpr int stages = << stages >>;
struct Stage {
    __half a[2][tile * tile], b[tile * tile];
};
extern "C" __global__ void __launch_bounds__(<< block >>, 1) << name >>(
    const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* d, int m, int n, int k) {
    extern __shared__ __align__(128) unsigned char memory[];
    Stage* const ring = (Stage*)(memory + (1024 - __cvta_generic_to_shared(memory) % 1024) % 1024);
    __shared__ MBarrier full[stages], empty[stages];
    if (threadIdx.x == 0) {
        for (int s = 0; s < stages; ++s) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 2);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    const int slabs = k / tile, role = threadIdx.x / 128;
    if (role == 2) {
        give_registers<40>();
        for (int i = 0; threadIdx.x == 256 && i < slabs; ++i) {
            const int s = i % stages;
            mbarrier_wait(&empty[s], i / stages % 2 ^ 1);
            mbarrier_arrive_expecting(&full[s], sizeof(Stage));
            for (int half = 0; half < 2; ++half)
                copy_tile(ring[s].a[half], a, {int(blockIdx.y) * 128 + 64 * half, i * tile}, &full[s]);
            copy_tile(ring[s].b, b, {i * tile, int(blockIdx.x) * tile}, &full[s]);
        }
    } else {
        take_registers<232>();
        float sums[32];
        for (int i = 0; i < slabs; ++i) {
            const int s = i % stages;
            mbarrier_wait(&full[s], i / stages % 2);
            multiply(sums, ring[s].a[role], ring[s].b, i > 0);
            wgmma_wait<1>(sums);  // the slab before this one is done with
            barrier_sync(1 + role, 128);
            if (i > 0 && threadIdx.x % 128 == 0) mbarrier_arrive(&empty[(i - 1) % stages]);
        }
        wgmma_wait<0>(sums);
        store(d, n, blockIdx.y * 128 + 64 * role, blockIdx.x * tile, sums);
    }
}
"""
)
STAGES = 3
roles = ck.Kernel(ROLES, name="roles", block=384, uses_half=True, stages=STAGES)


def maps(a, b):
    return ck.TensorMap(a, (64, 64), swizzle=128), ck.TensorMap(b, (64, 64), swizzle=128)


def run(step, a, b):
    (m, k), n = a.shape, b.shape[1]
    d = ck.zeros((m, n), device=a.device)
    if step is naive:
        step(a, b, d, m, n, k, grid=(n // 128, m))
    elif step in (shared, warps):
        step(a, b, d, m, n, k, grid=(n // 64, m // 64))
    elif step is tiles:
        step(*maps(a, b), d, m, n, k, grid=(n // 64, m // 64))
    else:
        step(*maps(a, b), d, m, n, k, grid=(n // 64, m // 128), shared=STAGES * 24576 + 1024)
    return d


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=128)
    size = parser.parse_args().size
    rng = np.random.default_rng(0)
    given = rng.standard_normal((2, size, 2 * size)).astype(np.float16) / 8
    a, b = ck.asarray(given[0]), ck.asarray(given[1].reshape(2 * size, size))
    exact = a.numpy().astype(np.float64) @ b.numpy()
    hopper = a.device.kind == "host" or a.device.properties.compute_capability[0] == 9
    for step in (naive, shared, warps, tiles, roles) if hopper else (naive, shared, warps):
        d = run(step, a, b)
        np.testing.assert_allclose(d.numpy(), exact, rtol=1e-3, atol=1e-3)
        best = np.inf
        for _ in range(3):
            start = time.perf_counter()
            run(step, a, b).numpy()
            best = min(best, time.perf_counter() - start)
        print(f"{step.name:8}{1e3 * best:10.2f} ms, right")

    # What a mistake looks like: the stage is given back before it has been multiplied.
    wrong = ck.Kernel(
        ROLES.replace("wgmma_wait<1>(sums);", "")
        .replace("[(i - 1) % stages]", "[s]")
        .replace("i > 0 && t", "t"),
        name="wrong",
        block=384,
        uses_half=True,
        stages=STAGES,
    )
    with ck.device("host"), asynchrony("late"):
        d = run(wrong, ck.asarray(a.numpy()), ck.asarray(b.numpy()))
    print(
        "given back too early:",
        "right" if np.allclose(d.numpy(), exact, atol=1e-3) else "wrong numbers, seen on the host",
    )


if __name__ == "__main__":
    main()
