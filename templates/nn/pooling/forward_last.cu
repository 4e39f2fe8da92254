// The results of forward.cu where channels lie innermost: y[n, i, j, c] from the windows of channel c of image n.
// x (images, height, width, channels), y and, with `keep`, winners (images, out_height, out_width, channels), contiguous.
// Launch: one thread for `pack` neighbouring channels of a window. Shared: none.
<% include "prelude/packs.cuh" %>
<% include "nn/pooling/windows.cuh" %>
constexpr int block = << block >>, pack = << pack >>;
constexpr int unroll = << 64 if kernel[0] * kernel[1] <= 16 else 1 >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* x, T* y, << "Place* winners," if keep >>
    index images, index height, index width, index out_height, index out_width, index channels)
{
    const size packs = channels / pack, thread = size(blockIdx.x) * block + size(threadIdx.x);
    if (thread >= size(images) * size(out_height) * size(out_width) * packs) return;
    const size window = thread / packs, line = window / size(out_width), image = line / size(out_height);
    const index channel = (thread - window * packs) * pack;
    const index top = index(line - image * size(out_height)) * Stride::rows - Padding::rows;
    const index left = index(window - line * size(out_width)) * Stride::columns - Padding::columns;
    x += ((long long)image * height * width) * channels + channel;

    acc value[pack];
    int place[pack];
#pragma unroll
    for (int v = 0; v < pack; ++v) value[v] = largest ? -limits<acc>::infinity() : acc(0), place[v] = no_winner;
#pragma unroll unroll
    for (int a = 0; a < Kernel::rows; ++a) {
        const index row = top + a * Dilation::rows;
        if (row < 0 || row >= height) continue;
#pragma unroll unroll
        for (int b = 0; b < Kernel::columns; ++b) {
            const index column = left + b * Dilation::columns;
            if (column < 0 || column >= width) continue;
            acc given[pack];
            unpack(load_pack<pack>(x + ((long long)row * width + column) * channels), given);
#pragma unroll
            for (int v = 0; v < pack; ++v) {
                if constexpr (largest) {
                    const bool better = place[v] == no_winner || given[v] > value[v] || (given[v] != given[v] && value[v] == value[v]);
                    if (better) value[v] = given[v], place[v] = a * Kernel::columns + b;
                } else {
                    value[v] += given[v];
                }
            }
        }
    }
    if constexpr (!largest) {
#pragma unroll
        for (int v = 0; v < pack; ++v) value[v] /= acc(divisor(top, left, height, width));
    }
    const long long out = (long long)window * channels + channel;
    store_pack(y + out, packed<T>(value));
<% if keep %>
    Pack<Place, pack> kept;
#pragma unroll
    for (int v = 0; v < pack; ++v) kept.at[v] = Place(place[v]);
    store_pack(winners + out, kept);
<% endif %>
}
