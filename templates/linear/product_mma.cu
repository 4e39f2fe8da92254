// D = epilogue(A @ B) on the tensor cores of sm_80 and later, for A (m, k) and B (k, n) of 16-bit floats, or of floats that are
// rounded to tf32, in batches: sums in float, and the epilogue an elementwise expression of the sum and of operands that
// broadcast to (m, n). A factor is contiguous along one of its two axes, in rows that begin at multiples of 16 bytes.
// Launch: << warps_m >> by << warps_n >> warps share a tile; blockIdx.x numbers the tiles, blockIdx.y the matrices of the batch,
// blockIdx.z parts of the depth, whose sums lie behind one another in D.
// With `saves` it stores the sums too, and with `rows` D has a number for each row: a tile has all of its columns then.
// Shared, dynamic: `stages` slabs of both factors. While one is multiplied the next are on their way.
<% include "linear/product.cuh" %>
<% include "linear/feed.cuh" %>
<% include "linear/warps.cuh" %>
<% if rows %>
<% include "linear/tile_rows.cuh" %>
<% endif %>

extern "C" __global__ void __launch_bounds__(threads) << name >>(
    const T* a, const Right* b, <% for x in operands %>const << x.type >>* x<< x.k >>, <% endfor %>
    <% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %><< "T* saved, " if saves >><< "Made" if rows else "Out" >>* d, Sizes sizes, Steps steps)
{
    const Epilogue epilogue{<% for x in operands %>x<< x.k >>, <% endfor %><% for x in scalars %>s<< loop.index0 >>, <% endfor %>steps};
    extern __shared__ __align__(128) unsigned char shared[];
    const Place at(sizes, blockIdx.y, blockIdx.x);
    const Depth along(sizes);
<% if not rows %>
    d += ((index)blockIdx.z * gridDim.y + at.batch) * sizes.m * sizes.n;
<% endif %>
    Feed feed(a, b, sizes, at, along);
    const int warp = threadIdx.x / 32;
    const int warp_row = warp / warps_n * warp_m, warp_column = warp % warps_n * warp_n;
    float sums[warp_m / 16][warp_n / 2] = {};
    multiply(sums, (T*)shared, feed, warp_row, warp_column);
<% if saves %>
    saved += (index)at.batch * sizes.m * sizes.n;
#pragma unroll
    for (int x = 0; x < warp_m / 16; ++x)
        store<warp_n>(Rounded{}, saved, sizes, at.batch, at.m0 + warp_row + 16 * x, at.n0 + warp_column, sums[x]);
<% endif %>
<% if rows %>
    __syncthreads();  // the slabs have been multiplied, and their memory is free
    Row::State* const of_rows = (Row::State*)shared;
#pragma unroll
    for (int x = 0; x < warp_m / 16; ++x)
        reduce<warp_n>(
            of_rows + warp % warps_n * tile_m + warp_row + 16 * x, epilogue, sizes, at.batch, at.m0 + warp_row + 16 * x, warp_column,
            sums[x]);
    store_rows<warps_n>(d + (index)at.batch * sizes.m, of_rows, sizes, at.m0);
<% else %>
#pragma unroll
    for (int x = 0; x < warp_m / 16; ++x)
        store<warp_n>(epilogue, d, sizes, at.batch, at.m0 + warp_row + 16 * x, at.n0 + warp_column, sums[x]);
<% endif %>
}
