// GEMM of sm_90a by wgmma, fed by cp.async: D = epilogue(A @ B) for A (m, k) and B (k, n) of 16-bit floats in batches: sums in float, and
// the epilogue an elementwise expression of the sum and of operands that broadcast to (m, n). A factor is contiguous along one
// of its two axes, in rows that begin at multiples of 16 bytes.
// Launch: a warpgroup has 64 rows of a tile and all of its columns; blockIdx.x numbers the tiles, blockIdx.y the matrices.
// Further results are those of linear/tile_ends.cuh.
// Shared, dynamic: `stages` k-blocks of both factors, and up to 1024 bytes before them for alignment. While a k-block is multiplied,
// the previous one may not be done, and copies of the next ones are in flight.
<% include "linear/product.cuh" %>
<% include "linear/feed.cuh" %>
<% include "linear/warpgroups.cuh" %>
<% include "linear/tile_ends.cuh" %>

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
    float sums[tile_n / 2];
    multiply(sums, shared, feed, warp / 4);
    if (by_rows) __syncthreads();  // the k-blocks have been multiplied, and their memory is free
    end<tile_n>(to, epilogue, sizes, at, 16 * warp, 0, sums, shared);
    if (by_rows) __syncthreads();
    end_rows<1>(to, sizes, at, shared);
}
