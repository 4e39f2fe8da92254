// D = epilogue(A @ B) on the tensor cores of sm_90a, for A (m, k) and B (k, n) of 16-bit floats in batches: sums in float, and
// the epilogue an elementwise expression of the sum and of operands that broadcast to (m, n). A factor is contiguous along one
// of its two axes, in rows that begin at multiples of 16 bytes.
// Launch: a warpgroup has 64 rows of a tile and all of its columns; blockIdx.x numbers the tiles, blockIdx.y the matrices,
// blockIdx.z parts of the depth, whose sums lie behind one another in D.
// With `saves` it stores the sums too, and with `rows` D has a number for each row: a tile has all of its columns then.
// Shared, dynamic: `stages` slabs of both factors, and up to 1024 bytes before them for alignment. While a slab is multiplied,
// the previous one may still be in work, and copies of the next ones are in flight.
<% include "linear/product.cuh" %>
<% include "linear/feed.cuh" %>
<% include "linear/warpgroups.cuh" %>
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
    float sums[tile_n / 2];
    multiply(sums, shared, feed, warp / 4);
<% if saves %>
    saved += (index)at.batch * sizes.m * sizes.n;
    store<tile_n>(Rounded{}, saved, sizes, at.batch, at.m0 + 16 * warp, at.n0, sums);
<% endif %>
<% if rows %>
    __syncthreads();  // the slabs have been multiplied, and their memory is free
    Row::State* const of_rows = (Row::State*)shared;
    reduce<tile_n>(of_rows + 16 * warp, epilogue, sizes, at.batch, at.m0 + 16 * warp, 0, sums);
    store_rows<1>(d + (index)at.batch * sizes.m, of_rows, sizes, at.m0);
<% else %>
    store<tile_n>(epilogue, d, sizes, at.batch, at.m0 + 16 * warp, at.n0, sums);
<% endif %>
}
