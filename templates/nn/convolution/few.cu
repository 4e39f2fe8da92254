// A convolution with few filters a group, or the gradient of the image of one with few channels, without a product of matrices:
// a thread sums up all filters for some pixels one below the other, whose windows share rows of the image, and neighbouring
// threads have neighbouring columns. It ends with an elementwise expression of each sum and of operands.
// Memory: the last axis of the image is innermost, so that the threads of a warp read neighbours; other strides are any.
// Launch: a thread for `rows` pixels along the second axis, << block >> threads along x, a group each along y.
// Shared: the weights of `depth` slices, which are the planes of channels that a tap of the first axis reads.
<% include "linear/epilogue.cuh" %>
<% include "prelude/packs.cuh" %>
<% include "nn/convolution/geometry.cuh" %>
using acc = << acc >>;
constexpr int block = << block >>, rows = << rows >>, filters = << filters >>, depth = << depth >>;
constexpr int taps_z = << taps_z >>, taps_y = << taps_y >>, taps_x = << taps_x >>, step_y = << step_y >>, tap_step_y = << tap_step_y >>;
constexpr int tap_step_x = << tap_step_x >>;
// The rows of the image that a thread's windows span, from the first one on.
constexpr int low = tap_step_y < 0 ? (taps_y - 1) * tap_step_y : 0;
constexpr int span = (rows - 1) * step_y + 1 + (taps_y - 1) * (tap_step_y < 0 ? -tap_step_y : tap_step_y);
constexpr int pack = 16 / sizeof(acc), weights = (taps_y * taps_x * filters + pack - 1) / pack * pack;

// Weights of a slice, by taps, in a thread's registers.
struct Factors {
    acc at[weights];

    __device__ __forceinline__ void load(const acc* from) {
#pragma unroll
        for (int i = 0; i < weights; i += pack) {
            const Pack<acc, pack> some = load_pack<pack>(from + i);
#pragma unroll
            for (int v = 0; v < pack; ++v) at[i + v] = some.at[v];
        }
    }
};
__device__ __forceinline__ void stage(acc (&slices)[depth][weights], const T* w, const Geometry& g, int first, int count) {
    for (int i = threadIdx.x; i < count * weights; i += block) {
        const int slice = first + i / weights, place = i % weights, filter = place % filters, tap = place / filters;
        const int channel = slice / taps_z, z = slice % taps_z, y = tap / taps_x, x = tap % taps_x;
        const index at = filter * g.weight_filter + channel * g.weight_channel + z * g.weight_at[0] + y * g.weight_at[1] + x * g.weight_at[2];
        slices[i / weights][place] = tap < taps_y * taps_x ? cast<acc>(w[at]) : acc(0);
    }
}

extern "C" __global__ void __launch_bounds__(block) << name >>(
    const T* x, const T* w, <% for one in operands %>const << one.type >>* x<< one.k >>, <% endfor %>
    <% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %>Out* y, Geometry g, Steps steps)
{
    const Epilogue epilogue{<% for one in operands %>x<< one.k >>, <% endfor %><% for one in scalars %>s<< loop.index0 >>, <% endfor %>steps};
    __shared__ __align__(16) acc slices[depth][weights];
    // tiles_m: bands of rows; m: threads that have one.
    const int thread = blockIdx.x * block + threadIdx.x, group = blockIdx.y;
    int rest = minimum(thread, g.m - 1);
    const int column = g.pixels[2].take(rest), bands = g.tiles_m, band = rest % bands;
    rest /= bands;
    const int plane = g.pixels[0].take(rest), top = band * rows;
    const int z0 = plane * g.step[0] + g.base[0], y0 = top * step_y + g.base[1] + low, x0 = column * g.step[2] + g.base[2];
    x += rest * g.image.batch + group * g.image.group + y0 * g.image.at[1] + x0;
    w += group * g.weight_group + g.weight_first;

    acc sums[rows][filters] = {};
    bool inside[taps_x];
#pragma unroll
    for (int c = 0; c < taps_x; ++c) inside[c] = unsigned(x0 + c * tap_step_x) < unsigned(g.size[2]);
    const int all = g.k * taps_z;
    for (int first = 0; first < all; first += depth) {
        const int count = minimum(depth, all - first);
        << "__syncthreads();" if block > 1 >>
        stage(slices, w, g, first, count);
        << "__syncthreads();" if block > 1 >>
        for (int i = 0; i < count; ++i) {
            const int channel = (first + i) / taps_z, at_z = z0 + (first + i) % taps_z * g.tap_step[0];
            if (unsigned(at_z) >= unsigned(g.size[0])) continue;
            const T* from = x + channel * g.image.channel + at_z * g.image.at[0];
            Factors factors;
            factors.load(slices[i]);
#pragma unroll
            for (int j = 0; j < span; ++j, from += g.image.at[1]) {
                const bool there = unsigned(y0 + j) < unsigned(g.size[1]);
                acc values[taps_x];
#pragma unroll
                for (int c = 0; c < taps_x; ++c)
                    values[c] = there && inside[c] ? cast<acc>(from[c * tap_step_x]) : acc(0);
#pragma unroll
                for (int b = 0; b < taps_y; ++b) {
                    const int from_first = j + low - b * tap_step_y, row = from_first / step_y;
                    if (from_first < 0 || from_first % step_y || row >= rows) continue;
#pragma unroll
                    for (int c = 0; c < taps_x; ++c)
#pragma unroll
                        for (int n = 0; n < filters; ++n) sums[row][n] += values[c] * factors.at[(b * taps_x + c) * filters + n];
                }
            }
        }
    }
    if (thread >= g.m) return;
    y += rest * g.output.batch + group * g.output.group + g.output_first + plane * g.output.at[0] + column * g.output.at[2];
#pragma unroll
    for (int r = 0; r < rows; ++r) {
        if (top + r >= g.pixels[1].by) continue;
#pragma unroll
        for (int n = 0; n < filters; ++n)
            y[(top + r) * g.output.at[1] + n * g.output.channel] = epilogue(sums[r][n], epilogue.load(group, 0, n));
    }
}
