// output[b, i, j] = relu(sum over k of lhs[b, i, k] * rhs[b, k, j] + bias[b, i, j]).
// lhs (batch..., rows, inner), rhs (batch..., inner, columns), bias (batch..., rows, columns): any strides,
// stride 0 where an operand is broadcast; output (batch..., rows, columns) contiguous.
// Launch: one thread a tile of thread_m x thread_n outputs of one batch, grid batches * row tiles * column tiles. Shared: none.
<% include "nn/matmul_add_relu/operands.cuh" %>
constexpr int thread_m = << thread_m >>, thread_n = << thread_n >>;
constexpr bool rhs_column_unit = << (rhs_unit == "column") | lower >>;

// sum[m][n] += lhs[m] * b[n], written out row by row as templates: a loop about the rows would keep g++ from holding the
// sums in registers.
template <int m = 0>
__device__ __forceinline__ void add_products(
    acc (&sum)[thread_m][thread_n], const T* lhs, index first_row, index rows, long long lhs_row, const acc (&b)[thread_n])
{
    const acc a = cast<acc>(lhs[minimum(first_row + m, rows - 1) * lhs_row]);
    for (int n = 0; n < thread_n; ++n) sum[m][n] += a * b[n];
    if constexpr (m + 1 < thread_m) add_products<m + 1>(sum, lhs, first_row, rows, lhs_row, b);
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    View<const T, << batch_ndim + 2 >>> lhs, View<const T, << batch_ndim + 2 >>> rhs,
    View<const T, << batch_ndim + 2 >>> bias, T* output, index inner)
{
    const index rows = bias.shape[axes - 2], columns = bias.shape[axes - 1];
    const index row_tiles = divide_up(rows, index(thread_m)), column_tiles = divide_up(columns, index(thread_n));
    const index first_row = index(blockIdx.x) / column_tiles % row_tiles * thread_m;
    const index first_column = index(blockIdx.x) % column_tiles * thread_n;
    const index batch = index(blockIdx.x) / column_tiles / row_tiles;
    const Matrices of(lhs, rhs, bias, batch);
    const long long lhs_row = lhs.strides[axes - 2], lhs_inner = lhs.strides[axes - 1];
    const long long rhs_inner = rhs.strides[axes - 2], rhs_column = rhs_column_unit ? 1 : rhs.strides[axes - 1];
    const long long bias_row = bias.strides[axes - 2], bias_column = bias.strides[axes - 1];

    acc sum[thread_m][thread_n];
    for (int m = 0; m < thread_m; ++m)
        for (int n = 0; n < thread_n; ++n) sum[m][n] = acc(0);
    const bool whole = first_column + thread_n <= columns;
    for (index k = 0; k < inner; ++k) {
        acc b[thread_n];
        const T* row_of_rhs = of.rhs + k * rhs_inner + first_column * rhs_column;
        if (whole) {
            for (int n = 0; n < thread_n; ++n) b[n] = cast<acc>(row_of_rhs[n * rhs_column]);
        } else {
            for (int n = 0; n < thread_n; ++n)
                b[n] = first_column + n < columns ? cast<acc>(row_of_rhs[n * rhs_column]) : acc(0);
        }
        add_products(sum, of.lhs + k * lhs_inner, first_row, rows, lhs_row, b);
    }
    T* result = output + (long long)batch * rows * columns;
    for (int m = 0; m < thread_m; ++m) {
        const index row = first_row + m;
        for (int n = 0; n < thread_n; ++n) {
            const index column = first_column + n;
            if (row < rows && column < columns) {
                const acc value = sum[m][n] + cast<acc>(of.bias[row * bias_row + column * bias_column]);
                result[(long long)row * columns + column] = cast<T>(maximum(value, acc(0)));
            }
        }
    }
}
