// The gradient of nn/convolution/depthwise_weights.cu for 16-bit floats, with rows of image and output in shared memory (sm_90 and up):
// a block owns << line >> channels of a tile of columns in a band of rows of some images, one after the other, and walks down the image's rows,
// which one thread loads to a ring ahead of it with those of the output, by maps that fill in zeros beyond both. Each thread has two
// channels of `items` columns.
// A stage goes round: `empty` until it may be loaded, `full` when all its bytes have come, and empty again when all warps have read it.
// Launch: blocks of << warps >> warps and one that loads; blockIdx.x numbers tiles of channels, then tiles of columns, bands and parts
// of the batch, whose sums lie behind one another. Shared: the ring, dynamic; a tap row's sums of the block's threads, static.
<% include "prelude/packs.cuh" %>
<% include "prelude/tensor_map.cuh" %>
<% include "prelude/warp_roles.cuh" %>
using T = << elem >>;
using acc = << acc >>;
using index = << index >>;
constexpr int items = << items >>, taps_x = << taps_x >>, taps_y = << taps_y >>, taps = taps_y * taps_x, stages = << stages >>;
constexpr int warps = << warps >>, line = << line >>, groups = 32 * warps / (line / 2), step_y = << step_y >>, step_x = << step_x >>;
// Columns of the image that a thread's windows span; rows of the output whose windows a row of the image is in, at most.
constexpr int span = (items - 1) * step_x + taps_x, recent = (taps_y + step_y - 1) / step_y;
constexpr bool whole = << whole | lower >>;  // whether threads have all their columns, or none
// Columns in shared memory, and elements of whole lines of 128 bytes that they take.
constexpr int image_columns = (groups * items - 1) * step_x + taps_x, output_columns = groups * items;
constexpr int image_size = (image_columns * line + 63) / 64 * 64, stage_size = image_size + output_columns * line;

// Strides and sizes of the output, strides of the weights; channels; bands of `each` rows; tiles of columns and of channels; top and
// left: the place in the image of the first output's window; images, and those of a part.
<< Sizes >>

extern "C" __global__ void __launch_bounds__(32 * (warps + 1), << resident >>) << name >>(
    const __grid_constant__ TensorMap output, const __grid_constant__ TensorMap image, << out >>* d, Sizes g)
{
    extern __shared__ __align__(128) unsigned char shared[];
    T* const ring = (T*)shared;
    __shared__ acc of_groups[groups][taps_x][line];
    __shared__ MBarrier full[stages], empty[stages];
    if (threadIdx.x == 0) {
        mbarrier_init_ring(full, empty, stages, 1, warps);
        fence_mbarrier_init();
    }
    __syncthreads();

    const int first_channel = blockIdx.x % g.tiles_c * line, part = blockIdx.x / g.tiles_c;
    const int first_column = part % g.tiles_x * groups * items;
    const int first = part / g.tiles_x % g.bands * g.each, batch = part / g.tiles_x / g.bands * g.share;
    const int images = minimum(g.share, g.batch - batch);
    const int rows = minimum(g.each, g.output.rows - first), last = (rows - 1) * step_y, count = last + taps_y;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = threadIdx.x / (line / 2), pair = threadIdx.x % (line / 2);
    int stage = 0, turn = 0;
    const auto next_stage = [&] {
        if (++stage == stages) stage = 0, turn ^= 1;
    };
    if (warp == warps) {
        for (int n = 0; lane == 0 && n < images; ++n) {
            for (int r = 0; r < count; ++r, next_stage()) {
                T* const to = ring + stage * stage_size;
                mbarrier_wait(&empty[stage], turn ^ 1);
                const bool begins = r <= last && r % step_y == 0;  // with the first row of a window
                mbarrier_arrive_expecting(&full[stage], (begins ? image_columns + output_columns : image_columns) * line * int(sizeof(T)));
                copy_tile(to, image, {batch + n, first * step_y + r + g.top, first_column * step_x + g.left, first_channel}, &full[stage]);
                if (begins) copy_tile(to + image_size, output, {batch + n, first + r / step_y, first_column, first_channel}, &full[stage]);
            }
        }
        return;
    }
    const T* const own = ring + group * items * step_x * line + 2 * pair;
    const T* const of_output = ring + image_size + group * items * line + 2 * pair;
    const int columns = g.output.columns - first_column - group * items;  // that the output has of a thread's
    acc sums[taps][2] = {}, factors[recent][items][2] = {};  // of row o of the output at o % recent
    for (int n = 0; n < images; ++n) {
        for (int start = 0; start < count; start += recent * step_y) {
#pragma unroll
            for (int k = 0; k < recent * step_y; ++k) {
                const int r = start + k;
                if (r >= count) break;
                acc values[span][2];
                mbarrier_wait(&full[stage], turn);
#pragma unroll
                for (int i = 0; i < span; ++i) unpack(load_pack<2>(own + stage * stage_size + i * line), values[i]);
                if (k % step_y == 0 && r <= last) {
#pragma unroll
                    for (int i = 0; i < items; ++i) unpack(load_pack<2>(of_output + stage * stage_size + i * line), factors[k / step_y][i]);
                }
                __syncwarp();
                if (lane == 0) mbarrier_arrive(&empty[stage]);
                next_stage();
                // Rows of the output that are not the block's, and columns that are none, add nothing: infinity times zero would be NaN.
                if (columns <= 0) continue;
#pragma unroll
                for (int b = k % step_y; b < taps_y; b += step_y) {
                    const acc(&of)[items][2] = factors[((k - b) / step_y + recent) % recent];
                    if (unsigned(r - b) > unsigned(last)) continue;
#pragma unroll
                    for (int i = 0; i < items; ++i) {
#pragma unroll
                        for (int c = 0; c < 2 * taps_x; ++c)
                            if (whole || i < columns) sums[b * taps_x + c / 2][c % 2] += values[i * step_x + c / 2][c % 2] * of[i][c % 2];
                    }
                }
            }
        }
    }
    d += (index)part * g.channels * taps;
#pragma unroll
    for (int b = 0; b < taps_y; ++b) {
#pragma unroll
        for (int c = 0; c < 2 * taps_x; ++c) of_groups[group][c / 2][2 * pair + c % 2] = sums[b * taps_x + c / 2][c % 2];
        barrier_sync(1, 32 * warps);
        for (int i = threadIdx.x; i < taps_x * line; i += 32 * warps) {
            const int c = i / line, channel = first_channel + i % line;
            acc total = of_groups[0][c][i % line];
#pragma unroll
            for (int j = 1; j < groups; ++j) total += of_groups[j][c][i % line];
            if (channel < g.channels) d[channel * g.weights.group + b * g.weights.row + c * g.weights.column] = cast< << out >> >(total);
        }
        if (b + 1 < taps_y) barrier_sync(1, 32 * warps);
    }
}
