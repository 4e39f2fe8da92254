// Winograd's transforms of all tiles of an array's planes: of an image, of filters, which are a tile each, or of the gradient of
// an output (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016). Outside of a plane are zeros.
// Memory: x has any strides; what is written has one element of each transform behind another, for all tiles and channels.
// Launch: a thread for a tile of a channel, blocks along x; tiles beyond the last one have transforms of zeros. Shared: none.
<% include "prelude/next_kernel.cuh" %>
<% include "prelude/packs.cuh" %>
using T = << elem >>;
using index = << index >>;
<% include "nn/convolution/winograd.cuh" %>

__device__ __forceinline__ void transform(const acc (&x)[size], acc (&y)[points]) {
<% for row in rows %>
    y[<< loop.index0 >>] = << row >>;
<% endfor %>
}
// A row of a tile, of which `inside` tells whether the plane has it.
__device__ __forceinline__ void load(const T* row, bool inside, int left, const Planes& g, acc (&to)[size]) {
    if constexpr (packs) {
        constexpr int first = << first >>;
#pragma unroll
        for (int j = 0; j < size; ++j)
            if (j < first || j >= first + 4) to[j] = inside && unsigned(left + j) < unsigned(g.width) ? cast<acc>(row[j]) : acc(0);
        const Pack<T, 4> four = inside && left + first < g.width ? load_pack<4>(row + first) : Pack<T, 4>{};
#pragma unroll
        for (int j = 0; j < 4; ++j) to[first + j] = cast<acc>(four.at[j]);
    } else {
#pragma unroll
        for (int j = 0; j < size; ++j)
            to[j] = inside && unsigned(left + j) < unsigned(g.width) ? cast<acc>(row[j * g.column]) : acc(0);
    }
}

extern "C" __global__ void __launch_bounds__(block) << name >>(const T* x, T* y, Planes g) {
    allow_next_kernel();
    const int thread = blockIdx.x * block + threadIdx.x;
    if (thread >= g.count) return;
    const Place place(g, thread);
    acc tile[size][size];
    if (place.tile < g.tiles) {
        const Corner corner(g, place);
        x += corner.plane + corner.top * g.row + corner.left * g.column;
#pragma unroll
        for (int i = 0; i < size; ++i)
            load(x + i * g.row, unsigned(corner.top + i) < unsigned(g.height), corner.left, g, tile[i]);
    } else {
#pragma unroll
        for (int i = 0; i < size * size; ++i) tile[i / size][i % size] = 0;
    }
    int part = place.tile;
    const int at = g.each.take(part);
    y += part * g.part + place.channel * g.channel_to + at * g.tile_to;
    acc halves[size][points];  // A tile, by columns
#pragma unroll
    for (int j = 0; j < size; ++j) {
        acc column[size];
#pragma unroll
        for (int i = 0; i < size; ++i) column[i] = tile[i][j];
        transform(column, halves[j]);
    }
#pragma unroll
    for (int i = 0; i < points; ++i) {
        acc row[size], result[points];
#pragma unroll
        for (int j = 0; j < size; ++j) row[j] = halves[j][i];
        transform(row, result);
#pragma unroll
        for (int j = 0; j < points; ++j) y[(i * points + j) * g.point] = cast<T>(result[j]);
    }
}
