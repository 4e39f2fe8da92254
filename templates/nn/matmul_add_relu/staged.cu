// What matmul_add_relu.cu computes, the factors read by way of shared memory, a k-block of tile_k places of the inner axis at a
// time; the sums are the same.
// Launch: one block per tile_m x tile_n tile of a batch, grid batches * row tiles * column tiles, block
// tile_m / thread_m * tile_n / thread_n. A thread owns thread_m x thread_n outputs: squares of 4 x 4, those of a warp's
// lanes side by side. Shared: two k-blocks of each factor as accumulators.
<% include "nn/matmul_add_relu/operands.cuh" %>
<% include "lib/k_block.cuh" %>
constexpr int block = << block >>, tile_m = << tile_m >>, tile_n = << tile_n >>, tile_k = << tile_k >>, band = << band >>;
constexpr int thread_m = << thread_m >>, thread_n = << thread_n >>, width = << width >>;
constexpr int lanes_m = << lanes_m >>, lanes_n = 32 / lanes_m, warps_n = tile_n / (lanes_n * thread_n);
// From a thread's squares to the next ones.
constexpr int step_m = 4 * lanes_m, step_n = 4 * lanes_n;
constexpr bool lhs_row_unit = << (lhs_unit == "row") | lower >>, lhs_inner_unit = << (lhs_unit == "inner") | lower >>;
constexpr bool rhs_inner_unit = << (rhs_unit == "inner") | lower >>, rhs_column_unit = << (rhs_unit == "column") | lower >>;
constexpr bool bias_unit = << bias_unit | lower >>;
using Left = KBlock<T, acc, index, block, tile_m, tile_k, << lhs_width >>, << lhs_transposed | lower >>>;
using Right = KBlock<T, acc, index, block, tile_n, tile_k, << rhs_width >>, << rhs_transposed | lower >>>;

// A thread's outputs, and its operands of this step and the next.
struct Products {
    acc sum[thread_m][thread_n], a[2][thread_m], b[2][thread_n];

    __device__ __forceinline__ void read(const acc* left, int row, const acc* right, int column, int k) {
        Left::read<step_m>(left, row, k, a[k % 2]);
        Right::read<step_n>(right, column, k, b[k % 2]);
    }
    __device__ __forceinline__ void add(int k) {
#pragma unroll
        for (int m = 0; m < thread_m; ++m)
#pragma unroll
            for (int n = 0; n < thread_n; ++n) sum[m][n] += a[k % 2][m] * b[k % 2][n];
    }
};

extern "C" __global__ void __launch_bounds__(<< block >>, << resident >>) << name >>(
    View<const T, << batch_ndim + 2 >>> lhs, View<const T, << batch_ndim + 2 >>> rhs,
    View<const T, << batch_ndim + 2 >>> bias, T* output, index inner)
{
    const index rows = bias.shape[axes - 2], columns = bias.shape[axes - 1];
    const index row_tiles = divide_up(rows, index(tile_m)), column_tiles = divide_up(columns, index(tile_n));
    // Bands of rows of tiles, column by column: what runs at a time reads few rows and few columns.
    const index tile = index(blockIdx.x) % (row_tiles * column_tiles);
    const index first_of_band = tile / (column_tiles * band) * band, in_band = tile - first_of_band * column_tiles;
    const index height = minimum(row_tiles - first_of_band, index(band));
    const index first_row = (first_of_band + in_band % height) * tile_m, first_column = in_band / height * tile_n;
    const index batch = index(blockIdx.x) / column_tiles / row_tiles;
    const Matrices of(lhs, rhs, bias, batch);
    T* result = output + (long long)batch * rows * columns;
    const long long lhs_row = lhs_row_unit ? 1 : lhs.strides[axes - 2];
    const long long lhs_inner = lhs_inner_unit ? 1 : lhs.strides[axes - 1];
    const long long rhs_inner = rhs_inner_unit ? 1 : rhs.strides[axes - 2];
    const long long rhs_column = rhs_column_unit ? 1 : rhs.strides[axes - 1];
    const long long bias_row = bias.strides[axes - 2], bias_column = bias_unit ? 1 : bias.strides[axes - 1];

    Products products;
#pragma unroll
    for (int m = 0; m < thread_m; ++m)
#pragma unroll
        for (int n = 0; n < thread_n; ++n) products.sum[m][n] = acc(0);

    __shared__ alignas(16) acc left_k_blocks[2 * tile_k * tile_m];
    __shared__ alignas(16) acc right_k_blocks[2 * tile_k * tile_n];
    // Of four neighbouring lanes two share a row and two a column: a 16-byte read of a warp then takes two turns.
    const int lane = threadIdx.x % 32, group = lane / 4, warp = threadIdx.x / 32;
    const int thread_row = warp / warps_n * (lanes_m * thread_m) + (group / (lanes_n / 2) * 2 + lane / 2 % 2) * 4;
    const int thread_column = warp % warps_n * (lanes_n * thread_n) + (group % (lanes_n / 2) * 2 + lane % 2) * 4;

    if (inner > 0) {
        // The first k-block is the short one, so that no other needs a check.
        const index k_blocks = divide_up(inner, index(tile_k));
        const int depth = int(inner - (k_blocks - 1) * tile_k);
        Left left;
        Right right;
        left.begin(of.lhs + first_row * lhs_row, rows - first_row, lhs_row, lhs_inner);
        right.begin(of.rhs + first_column * rhs_column, columns - first_column, rhs_column, rhs_inner);
        left.load_first(depth);
        right.load_first(depth);
        left.store(left_k_blocks);
        right.store(right_k_blocks);
        __syncthreads();
        if (k_blocks > 1) {
            left.advance(depth * lhs_inner);
            right.advance(depth * rhs_inner);
            left.load();
            right.load();
        }
        products.read(left_k_blocks, thread_row, right_k_blocks, thread_column, 0);
        const long long left_step = tile_k * lhs_inner, right_step = tile_k * rhs_inner;
        int stage = 0;
        for (index k_block = 1; k_block < k_blocks; ++k_block) {
#pragma unroll
            for (int k = 0; k < tile_k; ++k) {
                if (k == tile_k - 2) {
                    // Double buffering: the k-block that was loaded into registers goes to shared memory, and the next one is
                    // loaded. The last k-block is loaded twice: a branch would cost more.
                    left.store(left_k_blocks + (stage ^ 1) * (tile_k * tile_m));
                    right.store(right_k_blocks + (stage ^ 1) * (tile_k * tile_n));
                    left.advance(k_block + 1 < k_blocks ? left_step : 0);
                    right.advance(k_block + 1 < k_blocks ? right_step : 0);
                    left.load();
                    right.load();
                }
                if (k == tile_k - 1) {
                    __syncthreads();
                    stage ^= 1;
                }
                products.read(
                    left_k_blocks + stage * (tile_k * tile_m), thread_row, right_k_blocks + stage * (tile_k * tile_n),
                    thread_column, (k + 1) % tile_k);
                products.add(k);
            }
        }
#pragma unroll
        for (int k = 0; k < tile_k; ++k) {
            if (k + 1 < tile_k)
                products.read(
                    left_k_blocks + stage * (tile_k * tile_m), thread_row, right_k_blocks + stage * (tile_k * tile_n),
                    thread_column, k + 1);
            products.add(k);
        }
    }

#pragma unroll
    for (int m = 0; m < thread_m; ++m) {
        const index row = first_row + thread_row + m / 4 * step_m + m % 4;
        if (row >= rows) break;
#pragma unroll
        for (int n = 0; n < thread_n; n += width) {
            const index column = first_column + thread_column + n / 4 * step_n + n % 4;
            if (column < columns) {
                using Added = Pack<T, bias_unit ? width : 1>;
                const Added added = *(const Added*)&of.bias[row * bias_row + column * bias_column];
                Pack<T, width> wide;
#pragma unroll
                for (int v = 0; v < width; ++v) {
                    const acc value = products.sum[m][n + v] + cast<acc>(added.at[bias_unit ? v : 0]);
                    wide.at[v] = cast<T>(maximum(value, acc(0)));
                }
                *(Pack<T, width>*)&result[(long long)row * columns + column] = wide;
            }
        }
    }
}
