// The gradient of nn/convolution/depthwise_weights.cu where columns lie innermost in image and output. A strip is `items` neighbouring
// columns of the output in a band of rows of one plane: a thread walks down the image's rows, and reads each row of image and output
// once. `whole`: rows of both are read in packs of `items` columns, which divide them.
// Launch: blockIdx.x numbers channels, then parts of their strips, whose sums lie behind one another; a block's threads take a part's
// strips round-robin. Shared, static: the sums of the block's warps.
using T = << elem >>;
using index = << index >>;
<% include "prelude/reduce.cuh" %>
<% include "nn/convolution/depthwise.cuh" %>
constexpr int block = << block >>, warps = block / 32, ahead = << ahead >>, taps = taps_y * taps_x;
// Rows of the output whose windows a row of the image is in, at most.
constexpr int step_y = << step_y >>, recent = (taps_y + step_y - 1) / step_y;
constexpr bool whole = << whole | lower >>;
using Row = << "WholeRow" if whole else "SpreadRow" >>;

// Strides and sizes of image and output, strides of the weights; channels and tiles of them; strips of a channel and of a part, those of
// a row, and bands of `each` rows; top and left: the place in the image of the first output's window.
<< Sizes >>
// A row of the image and one of the output that a thread has on their way.
struct Rows {
    Row image;
    Pack<T, items> output;
};

// Adds the products of a strip to the sums.
__device__ __forceinline__ void add_strip(acc (&sums)[taps], const T* x, const T* dy, const Sizes& g, int strip) {
    const int column = strip % g.runs * items, first = strip / g.runs % g.bands * g.each, batch = strip / g.runs / g.bands;
    const int last = (minimum(g.each, g.output.rows - first) - 1) * step_y, top = first * step_y + g.top;
    x += batch * g.image.batch + top * g.image.row;
    dy += batch * g.output.batch + first * g.output.row;
    const auto load = [&](Rows& to, int r, bool begins) {  // `begins`: with the first row of a window
        const bool is = r < last + taps_y && unsigned(top + r) < unsigned(g.image.rows), begun = begins && r <= last;
        const T* const line = dy + r / step_y * g.output.row;
<% if whole %>
        to.image.load(x + r * g.image.row, column * step_x, g.image.columns, is);
        to.output = begun ? load_pack<items>(line + column) : Pack<T, items>{};
<% else %>
        to.image.load(x + r * g.image.row, column * step_x + g.left, g.image.columns, g.image.column, is);
#pragma unroll
        for (int i = 0; i < items; ++i)
            to.output.at[i] = begun && column + i < g.output.columns ? line[(column + i) * g.output.column] : T();
<% endif %>
    };
    Rows next[ahead];
#pragma unroll
    for (int r = 0; r < ahead; ++r) load(next[r], r, r % step_y == 0);
    acc factors[recent][items] = {};  // of row o of the output at o % recent
    for (int start = 0; start < last + taps_y; start += recent * step_y) {
#pragma unroll
        for (int k = 0; k < recent * step_y; ++k) {
            if (start + k >= last + taps_y) break;
            acc values[span][1];
            next[k % ahead].image.numbers(values);
            if (k % step_y == 0) unpack(next[k % ahead].output, factors[k / step_y]);
            load(next[k % ahead], start + k + ahead, (k + ahead) % step_y == 0);
            // Rows of the output that are not the strip's, and columns that are none, add nothing: infinity times zero would be NaN.
#pragma unroll
            for (int b = k % step_y; b < taps_y; b += step_y) {
                const acc(&of)[items] = factors[((k - b) / step_y + recent) % recent];
                if (unsigned(start + k - b) > unsigned(last)) continue;
#pragma unroll
                for (int i = 0; i < items; ++i) {
#pragma unroll
                    for (int c = 0; c < taps_x; ++c)
                        if (whole || column + i < g.output.columns) sums[b * taps_x + c] += values[i * step_x + c][0] * of[i];
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(block, << resident >>) << name >>(const T* output, const T* image, << out >>* d, Sizes g)
{
    __shared__ acc of_warps[warps][taps];
    const int channel = blockIdx.x % g.channels, part = blockIdx.x / g.channels;
    const int end = minimum((part + 1) * g.share, g.strips);
    acc sums[taps] = {};
    for (int strip = part * g.share + threadIdx.x; strip < end; strip += block)
        add_strip(sums, image + channel * g.image.channel, output + channel * g.output.channel, g, strip);
#pragma unroll
    for (int tap = 0; tap < taps; ++tap) {
#pragma unroll
        for (int distance = 16; distance > 0; distance /= 2) sums[tap] += shuffle_xor(sums[tap], distance);
        if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32][tap] = sums[tap];
    }
    __syncthreads();
    d += (index)part * g.channels * taps + channel * g.weights.group;
    for (int tap = threadIdx.x; tap < taps; tap += block) {
        acc total = of_warps[0][tap];
        for (int warp = 1; warp < warps; ++warp) total += of_warps[warp][tap];
        d[tap / taps_x * g.weights.row + tap % taps_x * g.weights.column] = cast< << out >> >(total);
    }
}
