// A convolution of few channels and many filters by windows of two axes, without a product of matrices: a block sums up `filters`
// filters for a tile of pixels, with the weights and the part of the image of one channel at a time in shared memory. A thread sums
// up eight filters for `columns` neighbouring pixels: it keeps what their windows read of a row of the image in registers, so that a
// weight and a value each serve eight sums. It ends with an elementwise expression of each sum and of operands.
// Memory: any strides. Results are stored in packs along << "columns" if packs == "columns" else "filters" if packs == "filters" else "no axis" >>.
// Launch: << block >> threads; a block for each tile and image along x, and for each `filters` filters along y.
<% include "linear/epilogue.cuh" %>
<% include "lib/pack.cuh" %>
<% include "nn/convolution/geometry.cuh" %>
using acc = << acc >>;
constexpr int block = << block >>, taps_y = << taps_y >>, taps_x = << taps_x >>, step_y = << step_y >>, step_x = << step_x >>;
constexpr int filters = << filters >>, across = << across >>, down = << down >>, columns = << columns >>, lanes = filters / 8;
// Of the image: rows and columns that a tile reads, and columns that a thread does, in packs.
constexpr int height = (down - 1) * step_y + taps_y, width = (across - 1) * step_x + taps_x;
constexpr int reach = ((columns - 1) * step_x + taps_x + 3) / 4 * 4;
constexpr int pitch = << pitch >>, weight_pitch = filters + 4;  // lanes that do not read the same meet in no bank
static_assert(block == lanes * (across / columns) * down, "a thread for each eight filters and `columns` pixels");
static_assert((across - columns) * step_x + reach <= pitch && width <= pitch && columns * step_x % 4 == 0, "packs of rows");

extern "C" __global__ void __launch_bounds__(block, << resident >>) << name >>(
    const T* x, const T* w, <% for one in operands %>const << one.type >>* x<< one.k >>, <% endfor %>
    <% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %>Out* y, Geometry g, Steps steps)
{
    const Epilogue epilogue{<% for one in operands %>x<< one.k >>, <% endfor %><% for one in scalars %>s<< loop.index0 >>, <% endfor %>steps};
    __shared__ __align__(16) acc image[height][pitch];
    __shared__ __align__(16) acc weights[taps_y * taps_x][weight_pitch];
    const int tile = blockIdx.x % (g.tiles_m * g.tiles_n), batch = blockIdx.x / (g.tiles_m * g.tiles_n);
    const int top = tile / g.tiles_n * down, left = tile % g.tiles_n * across, first = blockIdx.y * filters;
    const int y0 = top * step_y + g.base[1], x0 = left * step_x + g.base[2];
    x += batch * g.image.batch + y0 * g.image.at[1] + x0 * g.image.at[2];
    w += g.weight_first;
    const int lane = threadIdx.x % lanes, own_column = threadIdx.x / lanes % (across / columns) * columns;
    const int own_row = threadIdx.x / lanes / (across / columns);

    acc sums[columns][8] = {};
    for (int channel = 0; channel < g.k; ++channel) {
        if (channel > 0) __syncthreads();
        for (int i = threadIdx.x; i < height * width; i += block) {
            const int row = i / width, column = i % width;
            const bool there = unsigned(y0 + row) < unsigned(g.size[1]) && unsigned(x0 + column) < unsigned(g.size[2]);
            image[row][column] = there ? cast<acc>(x[channel * g.image.channel + row * g.image.at[1] + column * g.image.at[2]]) : acc(0);
        }
        for (int i = threadIdx.x; i < filters * taps_y * taps_x; i += block) {
            const int tap = i % (taps_y * taps_x), filter = i / (taps_y * taps_x);
            const index at = (first + filter) * g.weight_filter + channel * g.weight_channel + tap / taps_x * g.weight_at[1] + tap % taps_x * g.weight_at[2];
            weights[tap][filter] = first + filter < g.n ? cast<acc>(w[at]) : acc(0);
        }
        __syncthreads();
#pragma unroll 1
        for (int b = 0; b < taps_y; ++b) {
            acc values[reach];
#pragma unroll
            for (int i = 0; i < reach; i += 4) {
                const Pack<acc, 4> some = load_pack<4>(&image[own_row * step_y + b][own_column * step_x + i]);
#pragma unroll
                for (int j = 0; j < 4; ++j) values[i + j] = some.at[j];
            }
#pragma unroll
            for (int c = 0; c < taps_x; ++c) {
                const acc* const from = weights[b * taps_x + c] + 4 * lane;
                const Pack<acc, 4> own[2] = {load_pack<4>(from), load_pack<4>(from + filters / 2)};
#pragma unroll
                for (int p = 0; p < columns; ++p)
#pragma unroll
                    for (int n = 0; n < 8; ++n) sums[p][n] += values[p * step_x + c] * own[n / 4].at[n % 4];
            }
        }
    }

    const int row = top + own_row, column = left + own_column;
    if (row >= g.pixels[1].by || column >= g.pixels[2].by) return;
    y += batch * g.output.batch + g.output_first + row * g.output.at[1] + column * g.output.at[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int filter = first + half * (filters / 2) + 4 * lane;
        Operands of[4];
#pragma unroll
        for (int n = 0; n < 4; ++n) of[n] = epilogue.load(0, 0, minimum(filter + n, g.n - 1));
<% if packs == "columns" %>
        constexpr int wide = 16 / int(sizeof(Out)) < columns ? 16 / int(sizeof(Out)) : columns;
#pragma unroll
        for (int n = 0; n < 4; ++n)
#pragma unroll
            for (int p = 0; p < columns; p += wide) {
                Pack<Out, wide> result;
#pragma unroll
                for (int i = 0; i < wide; ++i) result.at[i] = epilogue(sums[p + i][4 * half + n], of[n]);
                if (filter + n < g.n) store_pack(y + (filter + n) * g.output.channel + p, result);
            }
<% elif packs == "filters" %>
#pragma unroll
        for (int p = 0; p < columns; ++p) {
            Pack<Out, 4> result;
#pragma unroll
            for (int n = 0; n < 4; ++n) result.at[n] = epilogue(sums[p][4 * half + n], of[n]);
            if (filter < g.n && column + p < g.pixels[2].by) store_pack(y + filter + p * g.output.at[2], result);
        }
<% else %>
#pragma unroll
        for (int p = 0; p < columns; ++p)
#pragma unroll
            for (int n = 0; n < 4; ++n)
                if (filter + n < g.n && column + p < g.pixels[2].by)
                    y[(filter + n) * g.output.channel + p * g.output.at[2]] = epilogue(sums[p][4 * half + n], of[n]);
<% endif %>
    }
}
