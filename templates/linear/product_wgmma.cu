// D = epilogue(A @ B) on the tensor cores of sm_90a, for A (m, k) and B (k, n) of 16-bit floats in batches: sums in float, and
// the epilogue an elementwise expression of the sum and of operands that broadcast to (m, n). A factor is contiguous along one
// of its two axes, in rows that begin at multiples of 16 bytes.
// Launch: a warpgroup has 64 rows of a tile and all of its columns; blockIdx.x numbers the tiles, blockIdx.y the matrices,
// blockIdx.z parts of the depth, whose sums lie behind one another in D.
// Shared, dynamic: `stages` slabs of both factors, and up to 1024 bytes before them for alignment. While a slab is multiplied,
// the previous one may still be in work, and copies of the next ones are in flight.
<% include "linear/product.cuh" %>
<% include "linear/warpgroup.cuh" %>
static_assert(stages >= 3 && threads == 2 * tile_m, "a warpgroup for 64 rows");

extern "C" __global__ void __launch_bounds__(threads) << name >>(
    const T* a, const Right* b, <% for x in operands %>const << x.type >>* x<< x.k >>, <% endfor %>
    <% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %>Out* d, Sizes sizes, Steps steps)
{
    const Epilogue epilogue{<% for x in operands %>x<< x.k >>, <% endfor %><% for x in scalars %>s<< loop.index0 >>, <% endfor %>steps};
    extern __shared__ __align__(128) unsigned char shared[];
    // Chunks change places by the address: slabs begin at multiples of 1024 bytes.
    T* const first_stage = (T*)(shared + (1024 - __cvta_generic_to_shared(shared) % 1024) % 1024);
    T* const last_stage = first_stage + (stages - 1) * stage_size;
    const Place at(sizes, blockIdx.y, blockIdx.x);
    const Depth along(sizes);
    d += ((index)blockIdx.z * gridDim.y + at.batch) * sizes.m * sizes.n;
    a += at.batch * sizes.batch_a + along.first * (a_by_depth ? 1 : sizes.row_a);
    b += at.batch * sizes.batch_b + along.first * (b_by_depth ? 1 : sizes.row_b);
    LoaderA of_a(a, sizes.row_a, at.m0, sizes.m, along.left);
    LoaderB of_b(b, sizes.row_b, at.n0, sizes.n, along.left);
    const int slabs = along.slabs;
    const auto load = [&](int i, T* stage) {
        if (i < slabs) of_a.next(stage), of_b.next(stage + tile_m * depth);
        commit_copies();
    };
    for (int i = 0; i < stages - 2; ++i) load(i, first_stage + i * stage_size);

    const int warp = threadIdx.x / 32, group = warp / 4;
    float sums[tile_n / 2];
    T *stage = first_stage, *free_stage = first_stage + (stages - 2) * stage_size;
    const auto next = [&](T* one) { return one == last_stage ? first_stage : one + stage_size; };
    for (int i = 0; i < slabs; ++i) {
        wait_copies<stages - 3>();
        fence_to_async();
        __syncthreads();
        SharedMatrix left = part(SlabA{stage}, 64 * group), right = part(SlabB{stage + tile_m * depth}, 0);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < depth; k += 16) {
            wgmma<T, tile_n, a_by_depth, b_by_depth>(sums, left, right, i + k > 0);
            left += step_a;
            right += step_b;
        }
        wgmma_commit();
        // The slab there has been multiplied: before the barrier every thread waited for all but the last slab.
        load(i + stages - 2, free_stage);
        wgmma_wait<1>(sums);
        stage = next(stage);
        free_stage = next(free_stage);
    }
    wgmma_wait<0>(sums);
    wait_copies<0>();
    store<tile_n>(epilogue, d, sizes, at.batch, at.m0 + 16 * warp, at.n0, sums);
}
