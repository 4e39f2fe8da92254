// K-blocks of the factors, multiplied by warpgroups that have 64 rows of a tile each, after linear/tile.cuh.
<% include "linear/warpgroup.cuh" %>
static_assert(stages >= 3 && threads == 2 * tile_m, "a warpgroup for 64 rows");

// The mainloop of warpgroup `group` over a feed's k-blocks. While a k-block is multiplied, the previous one may not be done, and
// copies of the next ones are in flight.
template <class Feed>
__device__ __forceinline__ void multiply(float (&sums)[tile_n / 2], unsigned char* shared, Feed& feed, int group) {
    // Chunks are swizzled by the address: k-blocks begin at multiples of 1024 bytes.
    T* const first_stage = (T*)(shared + (1024 - __cvta_generic_to_shared(shared) % 1024) % 1024);
    T* const last_stage = first_stage + (stages - 1) * stage_size;
    for (int i = 0; i < stages - 2; ++i) feed.load(i, first_stage + i * stage_size);
    T *stage = first_stage, *free_stage = first_stage + (stages - 2) * stage_size;
    const auto next = [&](T* one) { return one == last_stage ? first_stage : one + stage_size; };
    for (int i = 0; i < feed.k_blocks; ++i) {
        wait_copies<stages - 3>();
        fence_to_async();
        __syncthreads();
        SharedMatrix left = part(KBlockA{stage}, 64 * group), right = part(KBlockB{stage + tile_m * depth}, 0);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < depth; k += 16) {
            wgmma<T, tile_n, a_by_depth, b_by_depth>(sums, left, right, i + k > 0);
            left += step_a;
            right += step_b;
        }
        wgmma_commit();
        // The k-block there has been multiplied: before the barrier every thread waited for all but the last k-block.
        feed.load(i + stages - 2, free_stage);
        wgmma_wait<1>(sums);
        stage = next(stage);
        free_stage = next(free_stage);
    }
    wgmma_wait<0>(sums);
    wait_copies<0>();
}
