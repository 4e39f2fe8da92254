// Weight gradient of a convolution of stride 1 or 2 by implicit GEMM on the tensor cores of sm_90a:
// weights (filters, taps, channels) = the sum, over the pixels of a part of the bands, of output (pixels, filters) and image
// (pixels, channels), shifted by the tap as nn/convolution/shifted.cu has it: what a band needs is loaded once for all taps.
// Of windows that move by two pixels, taps of even numbers read other pixels than those of odd ones: each of the image's `phases`
// is loaded by a map of its own, of every second row and column.
// image and output (images, height, width, channels or filters) by maps, of 16-bit floats; beyond the arrays are zeros.
// Lines of a band beyond the output's last column or row are zeros, which every tap multiplies by the image's line so far on: a
// pixel near the image's edge, of this row or the next. If that is infinite the sum is NaN, where the exact one may be infinite.
// Launch: blocks of four warpgroups, of which three share the taps of 64 filters by 64 channels. blockIdx.x numbers these tiles,
// blockIdx.y parts of the bands: a cluster of blocks adds up as many, and the sums of clusters lie behind one another. One thread of
// the last warpgroup loads bands to a ring of stages, which goes round as in shifted.cu.
// Shared, dynamic: the stages, of the output's band and the image's, and then the sums of the cluster's other blocks; 1024 bytes
// before for alignment.
<% include "linear/epilogue.cuh" %>
<% set wgmma_columns = [64] %>
<% include "prelude/wgmma.cuh" %>
<% include "prelude/tensor_map.cuh" %>
<% include "prelude/warp_roles.cuh" %>
<% include "prelude/cluster.cuh" %>
<% include "prelude/packs.cuh" %>
constexpr int pitch = << pitch >>, band = << band >>, taps_y = << taps_y >>, taps_x = << taps_x >>, taps = taps_y * taps_x;
constexpr int step_y = << step_y >>, step_x = << step_x >>;
constexpr int by = << by >>, phases_x = taps_x < by ? taps_x : by, phases = << phases >>;  // of the image
constexpr int own_taps = (taps + 2) / 3;  // of a warpgroup
// Blocks of a cluster, and the numbers of a tap that each thread of one of them ends with.
constexpr int cluster = << cluster >>, own = 32 / cluster;
constexpr int stages = << stages >>, line = 64;
// Lines that are loaded of output and image, and those in shared memory: the others stay zeros.
constexpr int loaded_lines = band * pitch, loaded_image = << loaded_image >>, lines = << lines >>, lines_image = << lines_image >>;
constexpr int stage_size = (lines + phases * lines_image) * line;

// All bands, those of an image and those of a part; tiles across; filters and channels; where the first window begins.
<< Sizes >>
struct Images {
    TensorMap of[phases];
};

// The sums of a block's threads, plus those that the other blocks of the cluster have of the same places, in the order of blocks.
// Each block ends with numbers rank * own to rank * own + own of each tap, at the front.
__device__ __forceinline__ void add_up(float (&sums)[own_taps][32], float* from_others, int rank) {
    constexpr int apart = own_taps * own * 384;
    cluster_barrier();  // the stages of all blocks have been multiplied
#pragma unroll
    for (int to = 0; to < cluster; ++to) {
        if (to == rank) continue;
        float* const there = map_shared_rank(from_others, to) + (rank - (rank > to)) * apart + threadIdx.x;
#pragma unroll
        for (int i = 0; i < own_taps * own; ++i) there[i * 384] = sums[i / own][to * own + i % own];
    }
    cluster_barrier();
#pragma unroll
    for (int r = 0; r < cluster; ++r) {
        if (r != rank) continue;
#pragma unroll
        for (int i = 0; i < own_taps * own; ++i) {
            const float mine = sums[i / own][r * own + i % own];
            float total = 0;
#pragma unroll
            for (int block = 0; block < cluster; ++block)
                total += block == r ? mine : from_others[(block - (block > r)) * apart + i * 384 + threadIdx.x];
            sums[i / own][i % own] = total;
        }
    }
}

extern "C" __global__ void << "__cluster_dims__(1, %d, 1)" % cluster if cluster > 1 >> __launch_bounds__(512, 1) << name >>(
    const __grid_constant__ TensorMap output, const __grid_constant__ Images image, Out* d, Sizes g, Steps steps)
{
    const Epilogue epilogue{steps};
    extern __shared__ __align__(128) unsigned char shared[];
    T* const ring = (T*)(shared + (1024 - __cvta_generic_to_shared(shared) % 1024) % 1024);
    __shared__ MBarrier full[stages], empty[stages];
    // By the threads that meet the cluster's other blocks, before those store to the ring.
    for (int i = threadIdx.x; threadIdx.x < 384 && i < stages * stage_size / 8; i += 384) ((uint4*)ring)[i] = uint4{0, 0, 0, 0};
    fence_to_async();
    if (threadIdx.x == 0) {
        mbarrier_init_ring(full, empty, stages, 1, 12);
        fence_mbarrier_init();
    }
    __syncthreads();

    const int group = own_group(), first_filter = blockIdx.x / g.tiles_n * 64, first_channel = blockIdx.x % g.tiles_n * 64;
    const int from = blockIdx.y * g.each, count = minimum(g.each, g.bands - from);
    if (group == 3) {
        give_registers<24>();
        for (int i = 0; threadIdx.x == 384 && i < count; ++i) {
            const int own = from + i, of = own / g.of_image, row = own % g.of_image * band, stage = i % stages;
            T* const to = ring + stage * stage_size;
            mbarrier_wait(&empty[stage], i / stages % 2 ^ 1);
            mbarrier_arrive_expecting(&full[stage], (loaded_lines + phases * loaded_image) * line * int(sizeof(T)));
            copy_tile(to, output, {of, row, 0, first_filter}, &full[stage]);
#pragma unroll
            for (int p = 0; p < phases; ++p)
                copy_tile(to + (lines + p * lines_image) * line, image.of[p],
                          {of, row + ((g.base_y + p / phases_x) >> (by - 1)), (g.base_x + p % phases_x) >> (by - 1), first_channel},
                          &full[stage]);
        }
        return;
    }
    take_registers<160>();
    float sums[own_taps][32];
    for (int i = 0; i < count; ++i) {
        const int stage = i % stages;
        T* const of_output = ring + stage * stage_size;
        T* const of_image = of_output + lines * line;
        mbarrier_wait(&full[stage], i / stages % 2);
        wgmma_fence();
#pragma unroll
        for (int t = 0; t < own_taps; ++t) {
            // A warpgroup with fewer taps makes its last one again.
            const int tap = minimum(group * own_taps + t, taps - 1), y = tap / taps_x, x = tap % taps_x;
            const int phase = y % by * phases_x + x % by, shift = y / by * step_y * pitch + x / by * step_x;
            SharedMatrix left(of_output, 1024, 1024), right(of_image + (phase * lines_image + shift) * line, 1024, 1024);
#pragma unroll 4
            for (int k = 0; k < lines; k += 16) {
                wgmma<T, 64, false, false>(sums[t], left, right, i > 0 || k > 0);
                left += 2048;
                right += 2048;
            }
        }
        wgmma_commit();
        wgmma_wait<1>(sums[0]);  // the band before this one has been multiplied
        if (i > 0) mbarrier_arrive_warp(&empty[(i - 1) % stages]);
    }
#pragma unroll
    for (int t = 0; t < own_taps; ++t) wgmma_wait<0>(sums[t]);
    const int warp = threadIdx.x % 128 / 32, row = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
    const int rank = cluster > 1 ? blockIdx.y % cluster : 0;
    if (cluster > 1) add_up(sums, (float*)ring, rank);
    d += (index)blockIdx.y / cluster * g.filters * taps * g.channels;
#pragma unroll
    for (int t = 0; t < own_taps; ++t) {
        const int tap = group * own_taps + t;
        if (tap >= taps) continue;
#pragma unroll
        for (int i = 0; i < own; i += 2) {
            const int filter = first_filter + 16 * warp + row + i / 2 % 2 * 8;
            const int channel = first_channel + (rank * own + i) / 4 * 8 + 2 * q;
            if (filter >= g.filters || channel >= g.channels) continue;
            const float two[] = {float(epilogue(sums[t][i], Operands{})), float(epilogue(sums[t][i + 1], Operands{}))};
            store_pack(d + ((index)filter * taps + tap) * g.channels + channel, packed<Out>(two));
        }
    }
}
