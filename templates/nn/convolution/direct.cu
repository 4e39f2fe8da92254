// A convolution of few channels by few filters a group, as one filter a channel, without a product of matrices: each thread sums
// up neighbours of one row of the output for `width` channels, and reads what their windows share once. It ends with an elementwise
// expression of each sum and of operands.
// x: with width > 1, channels of x, weights and y lie innermost, in multiples of width, and a group has one channel and one filter.
// Launch: a thread for `items` outputs along the last axis of `width` filters, blocks along x. Shared: none.
<% include "linear/epilogue.cuh" %>
<% include "prelude/packs.cuh" %>
<% include "nn/convolution/geometry.cuh" %>
using acc = << acc >>;
using size = unsigned << index >>;
constexpr int block = << block >>, items = << items >>, width = << width >>, taps_x = << taps_x >>;
constexpr int band = << band >>, step_x = << step_x >>, tap_step_x = << tap_step_x >>;
constexpr bool channels_last = << channels_last | lower >>;
// The columns that the windows of a thread's outputs span, from the first one on.
constexpr int low = tap_step_x < 0 ? (taps_x - 1) * tap_step_x : 0;
constexpr int span = (items - 1) * step_x + 1 + (taps_x - 1) * (tap_step_x < 0 ? -tap_step_x : tap_step_x);
constexpr int unroll = << 64 if taps_x * items <= 128 else 1 >>;

extern "C" __global__ void __launch_bounds__(block) << name >>(
    const T* x, const T* w, <% for one in operands %>const << one.type >>* x<< one.k >>, <% endfor %>
    <% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %>Out* y, Geometry g, Steps steps)
{
    const Epilogue epilogue{<% for one in operands %>x<< one.k >>, <% endfor %><% for one in scalars %>s<< loop.index0 >>, <% endfor %>steps};
    // tiles_m: runs of items in a row; tiles_n: packs of `width` filters, of all groups; m: rows of the whole batch.
    size rest = size(blockIdx.x) * block + threadIdx.x;
    int run, pack, row;
    if constexpr (!channels_last) {  // runs of a row, rows of a plane
        const int rows = g.pixels[0].by * g.pixels[1].by;
        run = rest % g.tiles_m;
        rest /= g.tiles_m;
        row = rest % rows;
        rest /= rows;
        pack = rest % g.tiles_n;
        row += int(rest / g.tiles_n) * rows;
    } else {  // a few rows one below the other, which share what their windows read
        pack = rest % g.tiles_n;
        rest /= g.tiles_n;
        row = rest % band;
        rest /= band;
        run = rest % g.tiles_m;
        row += int(rest / g.tiles_m) * band;
    }
    if (row >= g.m) return;
    const int out = pack * width, group = out / g.n, filter = out - group * g.n, column = run * items;
    int batch = row;
    const int qy = g.pixels[1].take(batch), qz = g.pixels[0].take(batch);
    const int z0 = qz * g.step[0] + g.base[0], y0 = qy * g.step[1] + g.base[1], x0 = column * step_x + g.base[2] + low;
    x += batch * g.image.batch + group * g.image.group;
    w += group * g.weight_group + filter * g.weight_filter + g.weight_first;
    y += batch * g.output.batch + group * g.output.group + filter * g.output.channel + g.output_first + qz * g.output.at[0] +
         qy * g.output.at[1] + column * g.output.at[2];

    acc sums[items][width] = {};
    for (int channel = 0; channel < g.k; ++channel) {
        for (int a = 0; a < << taps_z >>; ++a) {
            const int at_z = z0 + a * g.tap_step[0];
            if (unsigned(at_z) >= unsigned(g.size[0])) continue;
#pragma unroll unroll
            for (int b = 0; b < << taps_y >>; ++b) {
                const int at_y = y0 + b * g.tap_step[1];
                if (unsigned(at_y) >= unsigned(g.size[1])) continue;
                const T* const line = x + channel * g.image.channel + at_z * g.image.at[0] + at_y * g.image.at[1];
                const T* const of_line = w + channel * g.weight_channel + a * g.weight_at[0] + b * g.weight_at[1];
                acc factors[taps_x][width];
#pragma unroll unroll
                for (int c = 0; c < taps_x; ++c) unpack(load_pack<width>(of_line + c * g.weight_at[2]), factors[c]);
                Pack<T, width> given[span];
#pragma unroll unroll
                for (int i = 0; i < span; ++i) {
                    const int at_x = x0 + i;
                    given[i] = unsigned(at_x) < unsigned(g.size[2]) ? load_pack<width>(line + at_x * g.image.at[2]) : Pack<T, width>{};
                }
#pragma unroll unroll
                for (int i = 0; i < span; ++i) {
                    acc values[width];
                    unpack(given[i], values);
#pragma unroll unroll
                    for (int c = 0; c < taps_x; ++c) {
                        const int from_first = i + low - c * tap_step_x, item = from_first / step_x;
                        if (from_first < 0 || from_first % step_x || item >= items) continue;
#pragma unroll
                        for (int v = 0; v < width; ++v) sums[item][v] += values[v] * factors[c][v];
                    }
                }
            }
        }
    }
#pragma unroll unroll
    for (int i = 0; i < items; ++i) {
        if (column + i >= g.pixels[2].by) continue;
        Pack<Out, width> result;
#pragma unroll
        for (int v = 0; v < width; ++v) result.at[v] = epilogue(sums[i][v], epilogue.load(group + v, 0, filter));
        store_pack(y + i * g.output.at[2], result);
    }
}
