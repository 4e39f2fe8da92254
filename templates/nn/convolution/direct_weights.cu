// The gradient of the weights of few channels by few filters a group: for each filter and channel of it and each tap the sum, over
// the pixels of a part of the batch, of products of output and image.
// With width > 1, channels lie innermost in image, output and weights, in multiples of width, and a group has one of each.
// Launch: << across >> neighbouring threads have `width` filters each, and the same pixels; the others of a block take pixels by
// turns. blockIdx.x numbers the filters' channels, blockIdx.y parts of the pixels, whose sums lie behind one another, blockIdx.z the
// taps along the first two axes.
// Shared, static: an element for each thread.
<% include "prelude/packs.cuh" %>
using T = << elem >>;
using acc = << acc >>;
using index = << index >>;
<% include "nn/convolution/geometry.cuh" %>
constexpr int block = << block >>, across = << across >>, down = block / across, width = << width >>, taps_x = << taps_x >>;

extern "C" __global__ void __launch_bounds__(block) << name >>(const T* output, const T* image, << out >>* d, Geometry g)
{
    __shared__ acc shared[block];
    // m: filters of a group; n: channels of it; k: pixels; tiles_m: filters' channels of all groups; tiles_n: taps along y.
    const int thread = threadIdx.x, own = thread % across;
    const int pair = min((int(blockIdx.x) * across + own) * width, g.tiles_m - width);
    const int group = pair / (g.m * g.n), filter = pair / g.n - group * g.m, channel = pair % g.n;
    const int tap_z = blockIdx.z / g.tiles_n, tap_y = blockIdx.z % g.tiles_n;
    const int from = blockIdx.y * g.each, end = min(from + g.each, g.k);
    image += group * g.image.group + channel * g.image.channel;
    output += group * g.output.group + filter * g.output.channel;

    acc sums[taps_x][width] = {};
    for (int pixel = from + thread / across; pixel < end; pixel += down) {
        const Line at = pixel_of_image(g, pixel, end);
        const int z = at.z + tap_z * g.tap_step[0], y = at.y + tap_y * g.tap_step[1];
        const bool is = unsigned(z) < unsigned(g.size[0]) && unsigned(y) < unsigned(g.size[1]);
        acc factors[width];
        unpack(load_pack<width>(output + pixel_of_output(g, pixel, end).offset), factors);
        const index line = at.offset + (z - at.z) * g.image.at[0] + (y - at.y) * g.image.at[1];
#pragma unroll
        for (int c = 0; c < taps_x; ++c) {
            const int moved = c * g.tap_step[2];
            const bool there = is && unsigned(at.x + moved) < unsigned(g.size[2]);
            acc values[width];  // zeros beside the image are multiplied too: by infinity they are NaN
            unpack(there ? load_pack<width>(image + (line + moved * g.image.at[2])) : Pack<T, width>{}, values);
#pragma unroll
            for (int v = 0; v < width; ++v) sums[c][v] += values[v] * factors[v];
        }
    }
    d += blockIdx.y * (index)g.tiles_m * gridDim.z * taps_x + group * g.weight_group + filter * g.weight_filter +
         channel * g.weight_channel + tap_z * g.weight_at[0] + tap_y * g.weight_at[1];
    const bool has = (int(blockIdx.x) * across + own) * width < g.tiles_m;
#pragma unroll
    for (int c = 0; c < taps_x; ++c) {
#pragma unroll
        for (int v = 0; v < width; ++v) {
            shared[thread] = sums[c][v];
            << "__syncthreads();" if block > 1 >>
            for (int rest = down / 2; rest; rest /= 2) {
                if (thread < rest * across) shared[thread] += shared[thread + rest * across];
                << "__syncthreads();" if block > 1 >>
            }
            if (thread < across && has) d[c * g.weight_at[2] + v * g.weight_group] = cast< << out >> >(shared[thread]);
            << "__syncthreads();" if block > 1 >>
        }
    }
}
