// dx[p, h, w] = the sum of dy over the windows of plane p that hold (h, w): each divided as in the forward pass (average),
// or only those whose winner is (h, w) (maximum).
// dy, winners (planes, out_height, out_width), dx (planes, height, width), contiguous; with `channels_last` a plane for each
// image, and after its columns the channels.
// Each element gathers its at most kernel / stride windows an axis, in order: no atomics, so every run gives the same bits.
// Launch: one thread for an element of dx, or for `pack` neighbouring channels of one. Shared: none.
<% include "prelude/packs.cuh" %>
<% include "nn/pooling/windows.cuh" %>
constexpr int block = << block >>, pack = << pack >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* dy, << "const Place* winners," if kind == "maximum" >> T* dx,
    index planes, index height, index width, index out_height, index out_width << ", index channels" if channels_last >>)
{
    << "constexpr index channels = 1;" if not channels_last >>
    const size packs = channels / pack, thread = size(blockIdx.x) * block + size(threadIdx.x);
    if (thread >= size(planes) * size(height) * size(width) * packs) return;
    const size pixel = thread / packs, line = pixel / size(width), plane = line / size(height);
    const index channel = (thread - pixel * packs) * pack;
    const index padded_row = index(line - plane * size(height)) + Padding::rows;
    const index padded_column = index(pixel - line * size(width)) + Padding::columns;
    const index row_reach = Reach::rows, column_reach = Reach::columns;
    const index first_row = padded_row > row_reach ? divide_up(padded_row - row_reach, index(Stride::rows)) : 0;
    const index first_column =
        padded_column > column_reach ? divide_up(padded_column - column_reach, index(Stride::columns)) : 0;
    const index last_row = minimum(padded_row / Stride::rows, out_height - 1);
    const index last_column = minimum(padded_column / Stride::columns, out_width - 1);

    acc sum[pack] = {};
    for (index row = first_row; row <= last_row; ++row) {
        for (index column = first_column; column <= last_column; ++column) {
            const long long out = (((long long)plane * out_height + row) * out_width + column) * channels + channel;
            acc given[pack];
<% if kind == "maximum" %>
            const index down = padded_row - row * Stride::rows, across = padded_column - column * Stride::columns;
            if (down % Dilation::rows || across % Dilation::columns) continue;
            const index place = down / Dilation::rows * Kernel::columns + across / Dilation::columns;
            const Pack<Place, pack> won = load_pack<pack>(winners + out);
            unpack(load_pack<pack>(dy + out), given);
#pragma unroll
            for (int v = 0; v < pack; ++v) sum[v] += index(won.at[v]) == place ? given[v] : acc(0);
<% else %>
            const acc by = acc(divisor(row * Stride::rows - Padding::rows, column * Stride::columns - Padding::columns, height, width));
            unpack(load_pack<pack>(dy + out), given);
#pragma unroll
            for (int v = 0; v < pack; ++v) sum[v] += given[v] / by;
<% endif %>
        }
    }
    store_pack(dx + (long long)pixel * channels + channel, packed<T>(sum));
}
