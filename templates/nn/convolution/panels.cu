// A convolution in a processor's vectors, or the gradient of its weights, as a product of which one factor is never in memory: of
// weights (filters, taps and channels) and the image (taps and channels, pixels), with an elementwise expression of each sum and
// of operands; or of image (taps and channels, pixels) and output (pixels, filters), in sums of parts of the pixels.
// Launch: a block is one thread, whose loops over << tile_n >> pixels, or filters, the compiler makes into vectors; blockIdx.x numbers
// tiles and groups, blockIdx.y parts of the pixels, whose sums lie behind one another.
// Shared, dynamic: a panel of the image, << depth >> taps and channels deep, the tile's sums, a panel of the output, and where
// weights are.
<% include "linear/epilogue.cuh" %>
<% include "lib/panel.cuh" %>
<% include "nn/convolution/geometry.cuh" %>
using acc = << acc >>;
constexpr bool of_weights = << of_weights | lower >>, unit = << unit | lower >>;  // neighbours of a row are so in memory
constexpr int tile_m = << tile_m >>, tile_n = << tile_n >>, depth = << depth >>, few = << few >>;

// Pixels of a panel that are of one row: the first of them, how many, and where that one is in the image and in the output.
struct Run {
    int first, count;
    Line image;
    index output;
};
struct Runs {
    Run at[tile_n];
    int count = 0;

    __device__ __forceinline__ Runs(const Geometry& g, int pixel, int end) {
        for (int x = 0; x < tile_n; x += at[count++].count) {
            int rest = pixel + x;
            const int left = g.pixels[2].by - g.pixels[2].take(rest);
            const bool ends = pixel + x >= end;
            at[count] = {
                x, ends ? tile_n - x : min(min(tile_n - x, end - pixel - x), left), pixel_of_image(g, pixel + x, end),
                pixel_of_output(g, pixel + x, end).offset};
        }
    }
};

// Neighbours of a row of the image, and zeros beyond it.
__device__ __forceinline__ void take(
    acc* __restrict__ to, const T* __restrict__ from, int count, int x, int step, int width, index stride)
{
    if (x >= 0 && x + (count - 1) * step < width)
        for (int i = 0; i < count; ++i) to[i] = cast<acc>(from[i * stride]);
    else
        for (int i = 0; i < count; ++i) to[i] = unsigned(x + i * step) < unsigned(width) ? cast<acc>(from[i * stride]) : acc(0);
}

// A run of pixels, of all taps of some channels: columns of a panel. A function by itself, which has all registers.
__device__ __noinline__ void fill(acc* panel, const T* image, const Geometry& g, const Run& run, int channels) {
    const int planes = g.inner.by / (g.taps[0].by * g.taps[1].by), rows = g.taps[0].by, columns = g.taps[1].by;
    const int count = run.count, step = unit ? 1 : g.step[2], width = g.size[2];
    const index stride = unit ? index(1) : step * g.image.at[2], by = g.tap_step[2] * g.image.at[2];
    image += run.image.offset;
    for (int c = 0; c < channels; ++c, image += g.image.channel)
        for (int tz = 0; tz < planes; ++tz)
            for (int ty = 0; ty < rows; ++ty) {
                const int z = tz * g.tap_step[0], y = ty * g.tap_step[1];
                const bool inside = unsigned(run.image.z + z) < unsigned(g.size[0]) && unsigned(run.image.y + y) < unsigned(g.size[1]);
                const T* from = image + z * g.image.at[0] + y * g.image.at[1];
                int x = run.image.x;
                for (int tx = 0; tx < columns; ++tx, panel += tile_n, from += by, x += g.tap_step[2]) {
                    if (!inside)
                        for (int i = 0; i < count; ++i) panel[i] = acc(0);
                    else if (count == tile_n)
                        take(panel, from, tile_n, x, step, width, stride);
                    else
                        take(panel, from, count, x, step, width, stride);
                }
            }
}

// Where the weights of all taps of some channels are.
__device__ __noinline__ void find_weights(index* at, const Geometry& g, int channel, int channels) {
    const int planes = g.inner.by / (g.taps[0].by * g.taps[1].by);
    for (int c = channel; c < channel + channels; ++c)
        for (int z = 0; z < planes; ++z)
            for (int y = 0; y < g.taps[0].by; ++y)
                for (int x = 0; x < g.taps[1].by; ++x)
                    *at++ = c * g.weight_channel + z * g.weight_at[0] + y * g.weight_at[1] + x * g.weight_at[2];
}

extern "C" __global__ void __launch_bounds__(1) << name >>(
    const T* a, const T* b, <% for x in operands %>const << x.type >>* x<< x.k >>, <% endfor %>
    <% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %>Out* d, Geometry g, Steps steps)
{
    const Epilogue epilogue{<% for x in operands %>x<< x.k >>, <% endfor %><% for x in scalars %>s<< loop.index0 >>, <% endfor %>steps};
    extern __shared__ __align__(128) unsigned char memory[];
    acc *const panel = (acc*)memory, *const sums = panel + depth * tile_n;
    acc* const right = sums + (of_weights ? depth : tile_m) * tile_n;
    index* const weight_at = (index*)(right + (of_weights ? tile_n * tile_n : 0));
    const int tiles = g.tiles_m * g.tiles_n, group = blockIdx.x / tiles, tile = blockIdx.x - group * tiles;
    const int taps = g.inner.by, most = depth / taps, step = g.output.at[2];
    const T* const image = (of_weights ? b : a) + group * g.image.group;
    if constexpr (of_weights) {
        const int first = tile / g.tiles_n * most, n0 = tile % g.tiles_n * tile_n;
        const int channels = min(most, g.n / taps - first), filters = min(tile_n, g.m - n0), rows = channels * taps;
        const int from = blockIdx.y * g.each, end = min(from + g.each, g.k);
        const T* const output = a + group * g.output.group + g.output_first + n0 * g.output.channel;
        if (from >= end)
            for (int i = 0; i < rows * tile_n; ++i) sums[i] = acc(0);
        for (int pixel = from; pixel < end; pixel += tile_n) {
            const Runs runs(g, pixel, end);
            for (int i = 0; i < runs.count; ++i) fill(panel + runs.at[i].first, image + first * g.image.channel, g, runs.at[i], channels);
            for (int i = 0; i < runs.count; ++i) {
                const Run& run = runs.at[i];
                const bool ends = pixel + run.first >= end;
                for (int x = 0; x < tile_n; ++x) {
                    const T* const of_filter = output + min(x, filters - 1) * g.output.channel + run.output;
                    acc* const to = right + run.first * tile_n + x;
                    for (int j = 0; j < run.count; ++j) to[j * tile_n] = ends ? acc(0) : cast<acc>(of_filter[j * step]);
                }
            }
            multiply_panel<few, tile_n>(sums, rows, right, tile_n, pixel > from, [=](int first) {
                return [=](long long row, long long k) { return panel[(first + row) * tile_n + k]; };
            });
        }
        find_weights(weight_at, g, first, channels);
        d += (index)blockIdx.y * (gridDim.x / tiles) * g.m * g.n + group * g.weight_group;
        for (int row = 0; row < rows; ++row)
            for (int x = 0; x < filters; ++x)
                d[(n0 + x) * g.weight_filter + weight_at[row]] =
                    epilogue(sums[row * tile_n + x], epilogue.load(group, n0 + x, first * taps + row));
    } else {
        const int m0 = tile / g.tiles_n * tile_m, pixel = tile % g.tiles_n * tile_n;
        const int rows = min(tile_m, g.n - m0), all = g.k / taps;
        const T* const weights = b + group * g.weight_group + g.weight_first + m0 * g.weight_filter;
        const Runs runs(g, pixel, g.m);
        if (!all)
            for (int i = 0; i < rows * tile_n; ++i) sums[i] = acc(0);
        for (int channel = 0; channel < all; channel += most) {
            const int channels = min(most, all - channel), deep = channels * taps;
            find_weights(weight_at, g, channel, channels);
            const T* const from = image + channel * g.image.channel;
            for (int i = 0; i < runs.count; ++i) fill(panel + runs.at[i].first, from, g, runs.at[i], channels);
            const long long by = g.weight_filter;
            multiply_panel<few, tile_n>(sums, rows, panel, deep, channel > 0, [=](int first) {
                const T* const left = weights + first * by;
                return [=](long long row, long long k) { return cast<acc>((left + weight_at[k])[row * by]); };
            });
        }
        d += group * g.output.group + g.output_first + m0 * g.output.channel;
        for (int row = 0; row < rows; ++row, d += g.output.channel) {
            const Operands of_filter = epilogue.load(group, 0, m0 + row);
            for (int i = 0; i < runs.count && pixel + runs.at[i].first < g.m; ++i) {
                const Run& run = runs.at[i];
                const acc* const from = sums + row * tile_n + run.first;
                for (int j = 0; j < run.count; ++j) d[run.output + j * step] = epilogue(from[j], of_filter);
            }
        }
    }
}
