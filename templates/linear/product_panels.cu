// GEMM in a processor's vectors: D = epilogue(A @ B) for A (m, k) and B (k, n) of floats of any strides, in batches. With `saves`
// the sums are stored too. With `rows` each row of D is reduced to a number, and a block has all columns.
// Launch: a block is one thread, whose loops over columns the compiler makes into vectors. It computes << tile_m >> rows and
// << tile_n >> columns at once; blockIdx.x numbers the tiles, or their rows, blockIdx.y the matrices of the batch.
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
// What is stored in D: each row of a tile, or the reductions of its rows from a state for each column.
struct Result {
<% if rows %>
    Row::State states[tile_m * tile_n];

    __device__ __forceinline__ Result() {
        for (auto& state : states) state = Row::identity();
    }
    __device__ __forceinline__ void add(
        const Epilogue& ends, const acc* sums, Stored*, const Sizes&, int columns, int batch, int m0, int row, int column)
    {
        Row::State* const own = states + row * tile_n;
        for (int x = 0; x < columns; ++x)
            own[x] = Row::push(own[x], ends(sums[x], ends.load(batch, m0 + row, column + x)), column + x);
    }
    __device__ __forceinline__ void store(Stored* d, int rows, int n) {
        by_neighbours<tile_n>(states, Row::combine);
        for (int row = 0; row < rows; ++row) d[row] = Row::finish(states[row], n);
    }
<% else %>
    __device__ __forceinline__ void add(
        const Epilogue& ends, const acc* sums, Stored* d, const Sizes& sizes, int columns, int batch, int m0, int row, int column)
    {
        finish(ends, sums, d + (index)row * sizes.n + column, columns, batch, m0 + row, column);
    }
    __device__ __forceinline__ void store(Stored*, int, int) {}
<% endif %>
};

// Some columns of B, contiguous, from its strides. The last ones stand for those beyond.
__device__ __forceinline__ void copy_panel(acc* panel, const T* b, int deep, int columns, index depth_b, index own_b) {
    if (columns == tile_n && own_b == 1) {
        for (int k = 0; k < deep; ++k)
            for (int x = 0; x < tile_n; ++x) panel[k * tile_n + x] = cast<acc>(b[k * depth_b + x]);
    } else {
        for (int x = 0; x < tile_n; ++x) {
            const T* const from = b + min(x, columns - 1) * own_b;
            for (int k = 0; k < deep; ++k) panel[k * tile_n + x] = cast<acc>(from[k * depth_b]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(1) << name >>(
    const T* a, const T* b, <% for x in operands %>const << x.type >>* x<< x.k >>, <% endfor %>
    <% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %><< "T* saved, " if saves >>Stored* d, Sizes sizes, Steps steps)
{
    const Epilogue epilogue{<% for x in operands %>x<< x.k >>, <% endfor %><% for x in scalars %>s<< loop.index0 >>, <% endfor %>steps};
    extern __shared__ __align__(128) unsigned char memory[];
    acc *const panel = (acc*)memory, *const sums = panel + depth * tile_n;
    const int batch = blockIdx.y, width = by_rows ? sizes.n : tile_n, tiles_n = divide_up(sizes.n, width);
    const int m0 = blockIdx.x / tiles_n * tile_m, first = blockIdx.x % tiles_n * width, end = min(first + width, sizes.n);
    const int rows = min(tile_m, sizes.m - m0);
    const index own_a = sizes.own_a, own_b = sizes.own_b, depth_a = sizes.depth_a, depth_b = sizes.depth_b;
    const index above = (index)batch * sizes.m + m0;
    d += by_rows ? above : above * sizes.n;
    Result result;
    for (int n0 = first; n0 < end; n0 += tile_n) {
        const int columns = min(tile_n, end - n0);
        const T* of_a = a + batch * sizes.batch_a + m0 * own_a;
        const T* of_b = b + batch * sizes.batch_b + n0 * own_b;
        for (int k0 = 0; k0 < sizes.k; k0 += depth) {
            const int deep = min(depth, sizes.k - k0);
            copy_panel(panel, of_b, deep, columns, depth_b, own_b);
            multiply_panel<few, tile_n>(sums, rows, panel, deep, k0 > 0, [=](int first) {
                const T* const left = of_a + first * own_a;
                return [=](long long row, long long k) { return cast<acc>(left[row * own_a + k * depth_a]); };
            });
            of_a += deep * depth_a;
            of_b += deep * depth_b;
        }
        for (int row = 0; row < rows; ++row) {
            const acc* const own = sums + row * tile_n;
            result.add(epilogue, own, d, sizes, columns, batch, m0, row, n0);
            << "finish(Rounded{}, own, saved + (above + row) * sizes.n + n0, columns, batch, m0 + row, n0);" if saves >>
        }
    }
    result.store(d, rows, sizes.n);
}
