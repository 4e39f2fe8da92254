// GEMM in a processor's vectors: D = epilogue(A @ B) for A (m, k) and B (k, n) of floats of any strides, in batches. With `saves`
// the sums are stored too.
// Launch: a block is one thread, whose loops over columns the compiler makes into vectors. It computes << tile_m >> rows and
// << tile_n >> columns; blockIdx.x numbers the tiles, blockIdx.y the matrices of the batch.
// Shared, dynamic: a panel of B, << depth >> deep, and the tile's sums.
<% include "linear/epilogue.cuh" %>
<% include "linear/ends.cuh" %>
<% include "lib/panel.cuh" %>
using acc = << acc >>;
// The sums of `few` rows are in registers.
constexpr int tile_m = << tile_m >>, tile_n = << tile_n >>, depth = << depth >>, few = << few >>;
// Strides of the factors in elements, through the batch, along their own axis and along the depth; the product's sizes.
<< Sizes >>

// A row of a tile to memory.
template <class To, class Ends>
__device__ __forceinline__ void finish(const Ends& ends, const acc* sums, To* to, int columns, int batch, int row, int column) {
    for (int x = 0; x < columns; ++x) to[x] = ends(sums[x], ends.load(batch, row, column + x));
}

extern "C" __global__ void __launch_bounds__(1) << name >>(
    const T* a, const T* b, <% for x in operands %>const << x.type >>* x<< x.k >>, <% endfor %>
    <% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %><< "T* saved, " if saves >>Stored* d, Sizes sizes, Steps steps)
{
    const Epilogue epilogue{<% for x in operands %>x<< x.k >>, <% endfor %><% for x in scalars %>s<< loop.index0 >>, <% endfor %>steps};
    extern __shared__ __align__(128) unsigned char memory[];
    acc *const panel = (acc*)memory, *const sums = panel + depth * tile_n;
    const int batch = blockIdx.y, tiles_n = divide_up(sizes.n, tile_n), m0 = blockIdx.x / tiles_n * tile_m;
    const int n0 = blockIdx.x % tiles_n * tile_n, rows = min(tile_m, sizes.m - m0), columns = min(tile_n, sizes.n - n0);
    const index own_a = sizes.own_a, own_b = sizes.own_b, depth_a = sizes.depth_a, depth_b = sizes.depth_b;
    a += batch * sizes.batch_a + m0 * own_a;
    b += batch * sizes.batch_b + n0 * own_b;
    for (int k0 = 0; k0 < sizes.k; k0 += depth) {
        const int deep = min(depth, sizes.k - k0);
        if (columns == tile_n && own_b == 1) {
            for (int k = 0; k < deep; ++k)
                for (int x = 0; x < tile_n; ++x) panel[k * tile_n + x] = cast<acc>(b[k * depth_b + x]);
        } else if (columns == tile_n) {
            for (int k = 0; k < deep; ++k)
                for (int x = 0; x < tile_n; ++x) panel[k * tile_n + x] = cast<acc>(b[k * depth_b + x * own_b]);
        } else {
            // The last columns stand for those beyond.
            for (int x = 0; x < tile_n; ++x) {
                const T* const from = b + min(x, columns - 1) * own_b;
                for (int k = 0; k < deep; ++k) panel[k * tile_n + x] = cast<acc>(from[k * depth_b]);
            }
        }
        multiply_panel<few, tile_n>(sums, rows, panel, deep, k0 > 0, [=](int first) {
            const T* const left = a + first * own_a;
            return [=](long long row, long long k) { return cast<acc>(left[row * own_a + k * depth_a]); };
        });
        a += deep * depth_a;
        b += deep * depth_b;
    }
    for (int row = 0; row < rows; ++row) {
        const index first = ((index)batch * sizes.m + m0 + row) * sizes.n + n0;
        finish(epilogue, sums + row * tile_n, d + first, columns, batch, m0 + row, n0);
        << "finish(Rounded{}, sums + row * tile_n, saved + first, columns, batch, m0 + row, n0);" if saves >>
    }
}
