// SIMT GEMM: D = epilogue(A @ B) on CUDA cores, for A (m, k) and B (k, n) of any dtype and any strides, in batches: sums in `acc`, and
// the epilogue an elementwise expression of the sum and of operands that broadcast to (m, n). With `rows` each row of D is reduced
// to a number, and a tile has all columns. With `saves` the sums are stored too.
// Launch: a block computes << tile_m >> rows and << tile_n >> columns; blockIdx.x numbers the tiles, blockIdx.y the matrices of the
// batch. A thread has 4 rows and 8 columns, two fours; neighbouring lanes share the rows.
// Shared: a k-block of each factor, << depth >> deep, as accumulators.
<% include "linear/epilogue.cuh" %>
<% include "linear/ends.cuh" %>
<% include "lib/k_block.cuh" %>
using acc = << acc >>;
constexpr int threads = << block >>, tile_m = << tile_m >>, tile_n = << tile_n >>, depth = << depth >>, lanes = tile_n / 8;
// The axis along which a factor is known to be contiguous: its own, or the depth.
constexpr bool a_own_unit = << (unit_a == "own") | lower >>, a_depth_unit = << (unit_a == "depth") | lower >>;
constexpr bool b_own_unit = << (unit_b == "own") | lower >>, b_depth_unit = << (unit_b == "depth") | lower >>;
static_assert(lanes <= 32 && threads / lanes * 4 == tile_m, "a warp has whole rows");
using Left = KBlock<T, acc, index, threads, tile_m, depth, 1, << a_by_depth | lower >>>;
using Right = KBlock<T, acc, index, threads, tile_n, depth, 1, << b_by_depth | lower >>>;
// Strides of the factors in elements, through the batch, along their own axis and along the depth; the product's sizes.
<< Sizes >>

extern "C" __global__ void __launch_bounds__(threads) << name >>(
    const T* a, const T* b, <% for x in operands %>const << x.type >>* x<< x.k >>, <% endfor %>
    <% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %><< "T* saved, " if saves >>Stored* d, Sizes sizes, Steps steps)
{
    const Epilogue epilogue{<% for x in operands %>x<< x.k >>, <% endfor %><% for x in scalars %>s<< loop.index0 >>, <% endfor %>steps};
    __shared__ alignas(16) acc left_k_block[depth * tile_m];
    __shared__ alignas(16) acc right_k_block[depth * tile_n];
    const int batch = blockIdx.y, tiles_n = divide_up(sizes.n, tile_n), m0 = blockIdx.x / tiles_n * tile_m;
    const int n0 = blockIdx.x % tiles_n * tile_n, lane = threadIdx.x % lanes, own_row = threadIdx.x / lanes * 4;
    const index own_a = a_own_unit ? 1 : sizes.own_a, depth_a = a_depth_unit ? 1 : sizes.depth_a;
    const index own_b = b_own_unit ? 1 : sizes.own_b, depth_b = b_depth_unit ? 1 : sizes.depth_b;
    acc sums[4][8] = {};
    Left left;
    Right right;
    left.begin(a + batch * sizes.batch_a + m0 * own_a, sizes.m - m0, own_a, depth_a);
    right.begin(b + batch * sizes.batch_b + n0 * own_b, sizes.n - n0, own_b, depth_b);
    // The first k-block is the short one, so that no other needs a check.
    const int k_blocks = divide_up(sizes.k, depth), first = sizes.k - (k_blocks - 1) * depth;
    left.load_first(first);
    right.load_first(first);
    for (int i = 0; i < k_blocks; ++i) {
        left.store(left_k_block);
        right.store(right_k_block);
        __syncthreads();
        if (i + 1 < k_blocks) {  // prefetched while these are multiplied
            const int by = i ? depth : first;
            left.advance((long long)by * depth_a);
            right.advance((long long)by * depth_b);
            left.load();
            right.load();
        }
#pragma unroll
        for (int k = 0; k < depth; ++k) {
            acc of_a[4], of_b[8];
            Left::read<4>(left_k_block, own_row, k, of_a);
            Right::read<tile_n / 2>(right_k_block, 4 * lane, k, of_b);
#pragma unroll
            for (int y = 0; y < 4; ++y)
#pragma unroll
                for (int x = 0; x < 8; ++x) sums[y][x] += of_a[y] * of_b[x];
        }
        __syncthreads();
    }
#pragma unroll
    for (int y = 0; y < 4; ++y) {
        const int row = minimum(m0 + own_row + y, sizes.m - 1);
        const bool inside = m0 + own_row + y < sizes.m;
        const index of_d = (index)batch * sizes.m + row;
        << "Row::State state = Row::identity();" if rows >>
#pragma unroll
        for (int x = 0; x < 8; ++x) {
            const int column = n0 + x / 4 * (tile_n / 2) + 4 * lane + x % 4;
            if (column >= sizes.n) continue;
            const Out value = epilogue(sums[y][x], epilogue.load(batch, row, column));
            << "state = Row::push(state, value, column);" if rows else "if (inside) d[of_d * sizes.n + column] = value;" >>
            << "if (inside) saved[of_d * sizes.n + column] = Rounded{}(sums[y][x], Operands{});" if saves >>
        }
        << "state = Row::of_lanes<lanes>(state); if (inside && lane == 0) d[of_d] = Row::finish(state, sizes.n);" if rows >>
    }
}
