// Dropout: y[i] = x[i] * scale where word i of a stream is at least `threshold`, else 0. Words are Philox's, four of each counter from
// `offset` on, as ck.random.bits draws them: the same call computes the derivative, and nothing keeps which were dropped.
// x, y (n), contiguous. `live`: the offset is read from memory, where it changes between replays of one launch.
// Launch: a thread owns `width` elements, a multiple of 4, in packs if x and y are `aligned`. Shared: none.
<% include "prelude/packs.cuh" %>
<% include "lib/philox.cuh" %>
using T = << elem >>;
using acc = << acc >>;
using index = << index >>;
constexpr int block = << block >>, width = << width >>;
constexpr bool aligned = << aligned | lower >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* x, T* y, index n, unsigned threshold, acc scale,
    << "const unsigned long long* place" if live else "unsigned long long offset" >>, unsigned k0, unsigned k1)
{
    const index start = (index(blockIdx.x) * block + threadIdx.x) * width;
    if (start >= n) return;
    const bool whole = start + width <= n;
    Pack<T, width> held = {};
    if (aligned && whole) {
        held = load_pack<width>(x + start);
    } else {
        for (int v = 0; v < width; ++v)
            if (start + v < n) held.at[v] = x[start + v];
    }
    const unsigned long long first = << "*place" if live else "offset" >> + start / 4;
    acc values[width];
    unpack(held, values);
#pragma unroll
    for (int group = 0; group < width / 4; ++group) {
        const RandomWords words = philox(first + group, 0, k0, k1);
#pragma unroll
        for (int v = 0; v < 4; ++v) {
            acc& value = values[4 * group + v];
            value = words.w[v] >= threshold ? value * scale : acc(0);
        }
    }
    held = packed<T>(values);
    if (aligned && whole) {
        store_pack(y + start, held);
    } else {
        for (int v = 0; v < width; ++v)
            if (start + v < n) y[start + v] = held.at[v];
    }
}
