// GEMM fed by cp.async, by wgmma of sm_90a if `grouped`, else by mma of sm_80 and later: D = epilogue(A @ B) for A (m, k), B (k, n) of
// 16-bit floats in batches: sums in float, and the epilogue an elementwise expression of the sum and of operands that broadcast to
// (m, n). A factor is contiguous along one of its two axes, in rows that begin at multiples of 16 bytes.
// Launch: << warps_m >> by << warps_n >> warps share a tile, <% if grouped %>each warpgroup has 64 of its rows<% else %>each has a part of it<% endif %>; blockIdx.x numbers the tiles, blockIdx.y the
// matrices of the batch. Further results are those of linear/tile_ends.cuh.
// Shared, dynamic: `stages` k-blocks of both factors<% if grouped %>, and 1024 bytes for alignment<% endif %>. While one is multiplied the next are on their way.
<% include "linear/product.cuh" %>
<% include "linear/feed.cuh" %>
<% if grouped %>
<% include "linear/warpgroups.cuh" %>
<% else %>
<% include "linear/warps.cuh" %>
<% endif %>
<% include "linear/tile_ends.cuh" %>
constexpr int parts = << 1 if grouped else "warps_n" >>;  // warps that share rows

extern "C" __global__ void __launch_bounds__(threads) << name >>(
    const T* a, const Right* b, <% for x in operands %>const << x.type >>* x<< x.k >>, <% endfor %>
    <% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %><< "T* saved, " if saves >>Stored* d, Sizes sizes, Steps steps)
{
    const Epilogue epilogue{<% for x in operands %>x<< x.k >>, <% endfor %><% for x in scalars %>s<< loop.index0 >>, <% endfor %>steps};
    extern __shared__ __align__(128) unsigned char shared[];
    const Place at(sizes, blockIdx.y, blockIdx.x);
    const index rows = (index)at.batch * sizes.m;  // of the matrices before
    const Results to{<< "saved + rows * sizes.n, " if saves >>d + rows * (by_rows ? 1 : sizes.n)};
    Feed feed(a, b, sizes, at);
    const int warp = threadIdx.x / 32;
<% if grouped %>
    float sums[tile_n / 2];
    multiply(sums, shared, feed, warp / 4);
    if (by_rows) __syncthreads();  // the k-blocks have been multiplied, and their memory is free
    end<tile_n>(to, epilogue, sizes, at, 16 * warp, 0, sums, shared);
<% else %>
    const int warp_row = warp / warps_n * warp_m, warp_column = warp % warps_n * warp_n;
    float sums[warp_m / 16][warp_n / 2] = {};
    multiply(sums, (T*)shared, feed, warp_row, warp_column);
    if (by_rows) __syncthreads();  // as above
#pragma unroll
    for (int x = 0; x < warp_m / 16; ++x)
        end<warp_n>(to, epilogue, sizes, at, warp_row + 16 * x, warp_column, sums[x], shared, warp % warps_n);
<% endif %>
    if (by_rows) __syncthreads();
    end_rows<parts>(to, sizes, at, shared);
}
