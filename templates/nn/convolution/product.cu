// A convolution, or the gradient of its weights, on tensor cores: the products of nn/convolution/tiles.cu for 16-bit floats, or for
// floats that are rounded to tf32, with sums in float. Channels lie innermost in all arrays, in multiples of 16 bytes; the result
// of a gradient of weights is (groups, filters, taps, channels).
// Launch: << warps_m >> by << warps_n >> warps share a tile, <% if grouped %>each warpgroup has 64 of its rows<% else %>each has a part of it<% endif %>; blockIdx.x numbers tiles and groups, blockIdx.y
// parts of the depth, whose sums lie behind one another.
// Shared, dynamic: `stages` k-blocks of both factors<% if grouped %>, and 1024 bytes for alignment<% endif %>. While one is multiplied the next are on their way.
<% include "nn/convolution/product.cuh" %>
<% if grouped %>
<% include "linear/warpgroups.cuh" %>
<% else %>
<% include "linear/warps.cuh" %>
<% endif %>

extern "C" __global__ void __launch_bounds__(threads) << name >>(
    const T* a, const T* b, <% for x in operands %>const << x.type >>* x<< x.k >>, <% endfor %>
    <% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %>Out* d, Sizes g, Steps steps)
{
    const Epilogue epilogue{<% for x in operands %>x<< x.k >>, <% endfor %><% for x in scalars %>s<< loop.index0 >>, <% endfor %>steps};
    extern __shared__ __align__(128) unsigned char shared[];
    const int tiles = g.tiles_m * g.tiles_n, group = blockIdx.x / tiles, tile = blockIdx.x - group * tiles;
    const int m0 = tile / g.tiles_n * tile_m, n0 = tile % g.tiles_n * tile_n;
    const int from = blockIdx.y * g.each, end = min(from + g.each, g.k), warp = threadIdx.x / 32;
    __shared__ KBlocks::Table tables[stages];
    KBlocks feed(g, a, b, group, m0, n0, from, end, tables);
    d += of_weights ? ((index)blockIdx.y * (gridDim.x / tiles) + group) * g.m * g.n : group * g.output.group + g.output_first;
<% if grouped %>
    float sums[tile_n / 2];  // there is at least one k-block: zeros here would part the instructions
    multiply(sums, shared, feed, warp / 4);
    store<tile_n>(epilogue, d, g, group, m0 + 16 * warp, n0, sums);
<% else %>
    const int row = warp / warps_n * warp_m, column = warp % warps_n * warp_n;
    float sums[warp_m / 16][warp_n / 2] = {};
    multiply(sums, (T*)shared, feed, row, column);
#pragma unroll
    for (int x = 0; x < warp_m / 16; ++x) store<warp_n>(epilogue, d, g, group, m0 + row + 16 * x, n0 + column, sums[x]);
<% endif %>
}
