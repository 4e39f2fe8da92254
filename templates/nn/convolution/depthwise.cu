// A convolution of each channel with one filter of its own, by windows that move by one pixel along rows and columns: a thread
// owns `items` neighbouring columns of the output of `width` channels, and walks down the image's rows. It reads each row once, adds
// it to the sums of all rows of the output whose windows it is in, and ends with an elementwise expression of each sum and of operands.
// Memory: `channels_last`, in image and output, and `width` divides the channels; else width is 1. `whole`: rows of image and output
// are read and written in packs of `items` columns, which divide them.
// Launch: a thread for g.each rows of its columns. << across >> neighbouring threads have packs of channels, the others of a block
// columns; without `channels_last`, columns alone. Shared, static: the windows of the block's channels, if `channels_last`.
<% include "linear/epilogue.cuh" %>
<% include "nn/convolution/geometry.cuh" %>
<% include "nn/convolution/depthwise.cuh" %>
using size = unsigned << index >>;
constexpr int block = << block >>, across = << across >>, down = block / across;
constexpr int ahead = << ahead >>;
constexpr bool channels_last = << channels_last | lower >>, transposed = << transposed | lower >>;
using Row = << "WholeRow" if whole else "SpreadRow" >>;
// The number of a tap of the weights: windows are transposed where places in the image fall as taps rise.
__device__ __forceinline__ index tap_of(const Geometry& g, int b, int c) {
    return (transposed ? taps_y - 1 - b : b) * g.weight_at[1] + (transposed ? taps_x - 1 - c : c) * g.weight_at[2];
}
<% set arguments %><% for one in operands %>x<< one.k >>, <% endfor %><% for one in scalars %>s<< loop.index0 >>, <% endfor %><% endset %>

extern "C" __global__ void __launch_bounds__(block, << resident >>) << name >>(
    const T* x, const T* w, <% for one in operands %>const << one.type >>* x<< one.k >>, <% endfor %>
    <% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %>Out* y, Geometry g, Steps steps)
{
    const Epilogue epilogue{<< arguments >>steps};
    // m: bands of rows; n: channels; tiles_m: runs of `items` columns; tiles_n: blocks for all channels.
    const int tile = channels_last ? int(blockIdx.x % g.tiles_n) : 0, pack = channels_last ? tile * across + threadIdx.x % across : 0;
    size rest = size(channels_last ? blockIdx.x / g.tiles_n : blockIdx.x) * down + threadIdx.x / across;
    const int column = int(rest % g.tiles_m) * items;
    rest /= g.tiles_m;
    const int first = int(rest % g.m) * g.each;
    rest /= g.m;
    const int channel = channels_last ? pack * width : int(rest % g.n), batch = int(channels_last ? rest : rest / g.n);
    w += g.weight_first;
    acc factors[taps_y][taps_x][width];
    if constexpr (channels_last) {
        __shared__ acc shared[taps_y * taps_x][across * width];
        for (int i = threadIdx.x; i < taps_y * taps_x * across * width; i += block) {
            const int tap = i % (taps_y * taps_x), own = i / (taps_y * taps_x), of = tile * across * width + own;
            shared[tap][own] = of < g.n ? cast<acc>(w[of * g.weight_group + tap_of(g, tap / taps_x, tap % taps_x)]) : acc(0);
        }
        << "__syncthreads();" if block > 1 >>
#pragma unroll
        for (int tap = 0; tap < taps_y * taps_x; ++tap) {
#pragma unroll
            for (int v = 0; v < width; ++v) factors[tap / taps_x][tap % taps_x][v] = shared[tap][threadIdx.x % across * width + v];
        }
    }
    if (batch >= g.k || channel >= g.n || int(threadIdx.x) >= down * across) return;
    if constexpr (!channels_last) {
#pragma unroll
        for (int tap = 0; tap < taps_y * taps_x; ++tap)
            factors[tap / taps_x][tap % taps_x][0] = cast<acc>(w[channel * g.weight_group + tap_of(g, tap / taps_x, tap % taps_x)]);
    }
    Operands of[width];
#pragma unroll
    for (int v = 0; v < width; ++v) of[v] = epilogue.load(channel + v, 0, 0);

    const int rows = minimum(g.each, g.pixels[1].by - first), columns = g.pixels[2].by;
    const int top = first + g.base[1] - (transposed ? taps_y - 1 : 0), shift = g.base[2] - (transposed ? taps_x - 1 : 0) + before;
    x += batch * g.image.batch + channel * g.image.group;
    y += batch * g.output.batch + channel * g.output.group + first * g.output.at[1] + column * g.output.at[2];
    auto load = [&](Row& row, int r) {
        const bool is = r < rows + taps_y - 1 && unsigned(top + r) < unsigned(g.size[1]);
        row.load(x + (top + r) * g.image.at[1], column + shift, g.size[2], << "" if whole else "g.image.at[2], " >>is);
    };
    Row given[ahead];
#pragma unroll
    for (int r = 0; r < ahead; ++r) load(given[r], r);
    acc sums[taps_y][items][width] = {};  // of row o of the output at o % taps_y
    for (int start = 0; start < rows + taps_y - 1; start += taps_y) {
#pragma unroll
        for (int k = 0; k < taps_y; ++k) {
            const int r = start + k, result = r - (taps_y - 1);
            if (result >= rows) break;
            acc values[span][width];
            given[k % ahead].numbers(values);
            load(given[k % ahead], r + ahead);
            add_row(sums, values, factors, k);
            acc(&done)[items][width] = sums[(k + 1) % taps_y];
            if (result >= 0) {
                Out* const to = y + result * g.output.at[1];
<% if whole %>
                Pack<Out, items> all;
#pragma unroll
                for (int i = 0; i < items; ++i) all.at[i] = epilogue(done[i][0], of[0]);
                store_pack(to, all);
<% else %>
#pragma unroll
                for (int i = 0; i < items; ++i) {
                    if (column + i >= columns) continue;
                    Pack<Out, width> all;
#pragma unroll
                    for (int v = 0; v < width; ++v) all.at[v] = epilogue(done[i][v], of[v]);
                    store_pack(to + i * g.output.at[2], all);
                }
<% endif %>
            }
#pragma unroll
            for (int i = 0; i < items; ++i) {
#pragma unroll
                for (int v = 0; v < width; ++v) done[i][v] = acc(0);
            }
        }
    }
}
