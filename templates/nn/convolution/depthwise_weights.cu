// The gradient of the weights of a convolution of each channel with one filter of its own, by windows without dilation: for each
// channel and tap the sum, over the pixels, of products of output and image. Channels lie innermost in both, and `width`
// divides them. A thread owns a strip: `items` neighbouring columns of the output of `width` channels in a band of rows. It walks down
// the image's rows, and reads each row of image and output once.
// Launch: << across >> neighbouring threads have packs of channels, the others of a block strips; blockIdx.x numbers tiles of
// channels, then parts of the strips, whose sums lie behind one another.
// Shared, static: a tap row's sums of the block's threads.
<% include "prelude/packs.cuh" %>
using T = << elem >>;
using acc = << acc >>;
using index = << index >>;
constexpr int block = << block >>, across = << across >>, down = block / across, width = << width >>, items = << items >>;
constexpr int taps_y = << taps_y >>, taps_x = << taps_x >>, taps = taps_y * taps_x, step_y = << step_y >>, step_x = << step_x >>;
// Columns of the image that a thread's windows span; rows of the output whose windows a row of the image is in.
constexpr int span = (items - 1) * step_x + taps_x, recent = (taps_y + step_y - 1) / step_y;
constexpr bool whole = << whole | lower >>;  // whether threads have all their columns

// Strides and sizes of image and output, strides of the weights; channels and tiles of them; strips of a channel and of a part, those of
// a row, and bands of `each` rows; top and left: the place in the image of the first output's window.
<< Sizes >>
// Some columns of a row: zeros where it has none.
template <int COUNT>
struct Row {
    using Access = Words<sizeof(T) * width>;
    Access packs[COUNT];

    __device__ __forceinline__ void load(const T* from, const Plane& of, int row, int column, bool is) {
        const bool there = is && unsigned(row) < unsigned(of.rows);
#pragma unroll
        for (int i = 0; i < COUNT; ++i)
            packs[i] = there && unsigned(column + i) < unsigned(of.columns)
                           ? *(const Access*)(from + row * of.row + (column + i) * of.column) : Access{};
    }
    __device__ __forceinline__ void numbers(acc (&to)[COUNT][width]) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) unpack(*(const Pack<T, width>*)&packs[i], to[i]);
    }
};

extern "C" __global__ void __launch_bounds__(block, << resident >>) << name >>(const T* output, const T* image, << out >>* d, Sizes g)
{
    __shared__ acc shared[down][taps_x][width][across];
    const int tile = blockIdx.x % g.tiles, part = blockIdx.x / g.tiles, own = threadIdx.x % across, thread_row = threadIdx.x / across;
    const int channel = (tile * across + own) * width, strip = part * down + thread_row;
    acc sums[taps][width] = {};
    if (thread_row < down && strip < g.strips && channel < g.channels) {
        const int column = strip % g.runs * items, first = strip / g.runs % g.bands * g.each, batch = strip / g.runs / g.bands;
        const int last = (minimum(g.each, g.output.rows - first) - 1) * step_y;
        const T* const x = image + batch * g.image.batch + channel;
        const T* const dy = output + batch * g.output.batch + channel;
        Row<span> next_x;
        Row<items> next_dy;
        const auto load = [&](int r, bool begins) {  // `begins`: with the first row of a window
            next_x.load(x, g.image, first * step_y + r + g.top, column * step_x + g.left, r < last + taps_y);
            if (begins) next_dy.load(dy, g.output, first + r / step_y, column, r <= last);
        };
        load(0, true);
        acc factors[recent][items][width] = {};  // of row o of the output at o % recent
        for (int start = 0; start < last + taps_y; start += recent * step_y) {
#pragma unroll
            for (int k = 0; k < recent * step_y; ++k) {
                if (start + k >= last + taps_y) break;
                acc values[span][width];
                next_x.numbers(values);
                if (k % step_y == 0) next_dy.numbers(factors[k / step_y]);
                load(start + k + 1, (k + 1) % step_y == 0);
                // Rows of the output that are not the thread's, and columns that are none, add nothing: infinity times zero would be NaN.
#pragma unroll
                for (int b = k % step_y; b < taps_y; b += step_y) {
                    const acc(&of)[items][width] = factors[((k - b) / step_y + recent) % recent];
                    if (unsigned(start + k - b) > unsigned(last)) continue;
#pragma unroll
                    for (int i = 0; i < items; ++i) {
#pragma unroll
                        for (int c = 0; c < taps_x * width; ++c)
                            if (whole || column + i < g.output.columns)
                                sums[b * taps_x + c / width][c % width] += values[i * step_x + c / width][c % width] * of[i][c % width];
                    }
                }
            }
        }
    }
    d += (index)part * g.channels * taps;
#pragma unroll
    for (int b = 0; b < taps_y; ++b) {
        if (thread_row < down) {
#pragma unroll
            for (int i = 0; i < taps_x * width; ++i) shared[thread_row][i / width][i % width][own] = sums[b * taps_x + i / width][i % width];
        }
        << "__syncthreads();" if block > 1 >>
        for (int i = threadIdx.x; i < taps_x * width * across; i += block) {
            const int c = i / (width * across), v = i / across % width, of = (tile * across + i % across) * width + v;
            acc total = 0;
            for (int j = 0; j < down; ++j) total += shared[j][c][v][i % across];
            if (of < g.channels) d[of * g.weights.group + b * g.weights.row + c * g.weights.column] = cast< << out >> >(total);
        }
        << "__syncthreads();" if block > 1 >>
    }
}
