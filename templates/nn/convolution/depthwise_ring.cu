// The convolution of nn/convolution/depthwise.cu for 16-bit floats whose channels lie innermost, with rows of the image in shared
// memory (sm_90 and up): a block owns 64 channels of a tile of columns, and walks down the image's rows, which one thread loads to a
// ring ahead of it, by a map that fills in zeros beyond the image. Each lane has two channels, each warp `items` columns.
// A stage goes round: `empty` until it may be loaded, `full` when all its bytes have come, and empty again when all warps have read it.
// Launch: blocks of << warps >> warps and one that loads; blockIdx.x numbers tiles of channels, tiles of columns, bands and images.
// Shared, dynamic: the ring.
<% include "linear/epilogue.cuh" %>
<% include "prelude/packs.cuh" %>
<% include "prelude/tensor_map.cuh" %>
using acc = << acc >>;
constexpr int items = << items >>, taps_x = << taps_x >>, taps_y = << taps_y >>, stages = << stages >>, warps = << warps >>, line = 64;
constexpr bool transposed = << transposed | lower >>, whole = << whole | lower >>;  // whether all warps have columns, or none
constexpr int span = items + taps_x - 1, stage_size = (warps * items + taps_x - 1) * line;

// Strides and sizes of the output, strides of the weights; channels; bands of `each` rows; tiles of columns and of channels; top and
// left: the place in the image of the first output's window; images, of which a block has one.
<< Sizes >>

extern "C" __global__ void __launch_bounds__(32 * (warps + 1), << resident >>) << name >>(
    const __grid_constant__ TensorMap image, const T* w, <% for one in operands %>const << one.type >>* x<< one.k >>, <% endfor %>Out* y,
    Sizes g, Steps steps)
{
    const Epilogue epilogue{<% for one in operands %>x<< one.k >>, <% endfor %>steps};
    extern __shared__ __align__(128) unsigned char shared[];
    T* const ring = (T*)shared;
    __shared__ MBarrier full[stages], empty[stages];
    if (threadIdx.x == 0) {
        for (int i = 0; i < stages; ++i) mbarrier_init(&full[i], 1), mbarrier_init(&empty[i], warps);
        fence_mbarrier_init();
    }
    __syncthreads();

    int rest = blockIdx.x;
    const int first_channel = rest % g.tiles_c * line;
    rest /= g.tiles_c;
    const int first_column = rest % g.tiles_x * warps * items;
    rest /= g.tiles_x;
    const int first = rest % g.bands * g.each, batch = rest / g.bands;
    const int rows = minimum(g.each, g.output.rows - first), count = rows + taps_y - 1;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp == warps) {
        for (int r = 0; lane == 0 && r < count; ++r) {
            const int stage = r % stages;
            mbarrier_wait(&empty[stage], r / stages % 2 ^ 1);
            mbarrier_arrive_expecting(&full[stage], stage_size * int(sizeof(T)));
            copy_tile(ring + stage * stage_size, image, {batch, first + r + g.top, first_column + g.left, first_channel}, &full[stage]);
        }
        return;
    }
    const int column = first_column + warp * items, channel = first_channel + 2 * lane;
    const int own_columns = channel < g.channels ? g.output.columns - column : 0;
    acc factors[taps_y][taps_x][2];
    Operands of[2];
#pragma unroll
    for (int v = 0; v < 2; ++v) {
        const int own = minimum(channel + v, g.channels - 1);
        of[v] = epilogue.load(own, 0, 0);
#pragma unroll
        for (int tap = 0; tap < taps_y * taps_x; ++tap) {
            const int b = transposed ? taps_y - 1 - tap / taps_x : tap / taps_x, c = transposed ? taps_x - 1 - tap % taps_x : tap % taps_x;
            factors[tap / taps_x][tap % taps_x][v] = cast<acc>(w[own * g.weights.group + b * g.weights.row + c * g.weights.column]);
        }
    }
    y += batch * g.output.batch + first * g.output.row + column * g.output.column + channel;
    const T* const own = ring + warp * items * line + 2 * lane;
    acc sums[taps_y][items][2] = {};  // of row o of the output at o % taps_y
    for (int start = 0; start < count; start += taps_y) {
#pragma unroll
        for (int k = 0; k < taps_y; ++k) {
            const int r = start + k, stage = r % stages;
            if (r >= count) break;
            acc values[span][2];
            mbarrier_wait(&full[stage], r / stages % 2);
#pragma unroll
            for (int i = 0; i < span; ++i) unpack(load_pack<2>(own + stage * stage_size + i * line), values[i]);
            __syncwarp();
            if (lane == 0) mbarrier_arrive(&empty[stage]);
#pragma unroll
            for (int b = 0; b < taps_y; ++b) {
                acc(&to)[items][2] = sums[(k - b + taps_y) % taps_y];
#pragma unroll
                for (int i = 0; i < items; ++i) {
#pragma unroll
                    for (int c = 0; c < taps_x; ++c) {
                        to[i][0] += values[i + c][0] * factors[b][c][0];
                        to[i][1] += values[i + c][1] * factors[b][c][1];
                    }
                }
            }
            acc(&done)[items][2] = sums[(k + 1) % taps_y];
            const int result = r - (taps_y - 1);
#pragma unroll
            for (int i = 0; i < items; ++i) {
                if (result >= 0 && (whole ? 0 : i) < own_columns) {
                    alignas(4) const Pack<Out, 2> two{{epilogue(done[i][0], of[0]), epilogue(done[i][1], of[1])}};
                    store_pack(y + result * g.output.row + i * g.output.column, two);
                }
                done[i][0] = done[i][1] = acc(0);
            }
        }
    }
}
