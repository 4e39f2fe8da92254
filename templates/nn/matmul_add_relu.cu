// output[b, i, j] = relu(sum over k of lhs[b, i, k] * rhs[b, k, j] + bias[b, i, j]).
// lhs (batch..., rows, inner), rhs (batch..., inner, columns), bias (batch..., rows, columns): any strides,
// stride 0 where an operand is broadcast; output (batch..., rows, columns) contiguous.
// Launch: one block per tile, grid (batches * row tiles * column tiles), block (tile_m / thread_m) * (tile_n / thread_n).
// Shared: with `staged`, one tile_k slab of each factor as accumulators; without, none (and no barrier).
// A block owns a tile_m x tile_n tile of one batch, a thread thread_m x thread_n outputs of it.
<% set ndim = batch_ndim + 2 %>
<% set rows_of_threads = tile_m // thread_m %>
<% set columns_of_threads = tile_n // thread_n %>
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    View<const << elem >>, << ndim >>> lhs, View<const << elem >>, << ndim >>> rhs,
    View<const << elem >>, << ndim >>> bias, << elem >>* output, << index >> inner)
{
    using elem = << elem >>;
    using acc = << acc >>;
    using index = << index >>;
    const index rows = bias.shape[<< batch_ndim >>];
    const index columns = bias.shape[<< batch_ndim + 1 >>];
    const index row_tiles = divide_up(rows, index(<< tile_m >>));
    const index column_tiles = divide_up(columns, index(<< tile_n >>));
    const index first_row = index(blockIdx.x) / column_tiles % row_tiles * << tile_m >>;
    const index first_column = index(blockIdx.x) % column_tiles * << tile_n >>;
    const index batch = index(blockIdx.x) / column_tiles / row_tiles;

    long long lhs_start = 0, rhs_start = 0, bias_start = 0;
    index rest = batch;
<% for axis in range(batch_ndim - 1, -1, -1) %>
    {
        const index position = rest % index(bias.shape[<< axis >>]);
        rest /= index(bias.shape[<< axis >>]);
        lhs_start += position * lhs.strides[<< axis >>];
        rhs_start += position * rhs.strides[<< axis >>];
        bias_start += position * bias.strides[<< axis >>];
    }
<% endfor %>
    const elem* left = lhs.data + lhs_start;
    const elem* right = rhs.data + rhs_start;
    const elem* added = bias.data + bias_start;
    elem* result = output + (long long)batch * rows * columns;
    const long long left_row = lhs.strides[<< batch_ndim >>], left_inner = lhs.strides[<< batch_ndim + 1 >>];
    const long long right_inner = rhs.strides[<< batch_ndim >>];
    const long long right_column = << "1" if rhs_unit else "rhs.strides[%d]" % (batch_ndim + 1) >>;

    acc sum[<< thread_m >>][<< thread_n >>];
#pragma unroll
    for (int m = 0; m < << thread_m >>; ++m)
#pragma unroll
        for (int n = 0; n < << thread_n >>; ++n)
            sum[m][n] = acc(0);

<% if staged %>
    // One column of padding: the transposed store of the left slab then hits each bank once.
    __shared__ acc left_slab[<< tile_k >>][<< tile_m + 1 >>];
    __shared__ acc right_slab[<< tile_k >>][<< tile_n >>];
    const int thread = threadIdx.x;
    const int thread_row = thread / << columns_of_threads >>;
    const int thread_column = thread % << columns_of_threads >>;

    for (index start = 0; start < inner; start += << tile_k >>) {
        for (int i = thread; i < << tile_m * tile_k >>; i += << block >>) {
            const int m = i / << tile_k >>, k = i % << tile_k >>;
            const bool inside = first_row + m < rows && start + k < inner;
            left_slab[k][m] = inside ? cast<acc>(left[(first_row + m) * left_row + (start + k) * left_inner]) : acc(0);
        }
        for (int i = thread; i < << tile_n * tile_k >>; i += << block >>) {
            const int n = i % << tile_n >>, k = i / << tile_n >>;
            const bool inside = first_column + n < columns && start + k < inner;
            right_slab[k][n] =
                inside ? cast<acc>(right[(start + k) * right_inner + (first_column + n) * right_column]) : acc(0);
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < << tile_k >>; ++k) {
            acc a[<< thread_m >>], b[<< thread_n >>];
#pragma unroll
            for (int m = 0; m < << thread_m >>; ++m)
                a[m] = left_slab[k][thread_row + m * << rows_of_threads >>];
#pragma unroll
            for (int n = 0; n < << thread_n >>; ++n)
                b[n] = right_slab[k][thread_column + n * << columns_of_threads >>];
#pragma unroll
            for (int m = 0; m < << thread_m >>; ++m)
#pragma unroll
                for (int n = 0; n < << thread_n >>; ++n)
                    sum[m][n] += a[m] * b[n];
        }
        __syncthreads();
    }
<% else %>
    const int thread_row = 0, thread_column = 0;
    const bool whole = first_column + << thread_n >> <= columns;
    for (index k = 0; k < inner; ++k) {
        acc b[<< thread_n >>];
        const elem* right_row = right + k * right_inner + first_column * right_column;
        if (whole) {
            for (int n = 0; n < << thread_n >>; ++n)
                b[n] = cast<acc>(right_row[n * right_column]);
        } else {
            for (int n = 0; n < << thread_n >>; ++n)
                b[n] = first_column + n < columns ? cast<acc>(right_row[n * right_column]) : acc(0);
        }
<% for m in range(thread_m) %>
        {
            const acc a = cast<acc>(left[minimum(first_row + << m >>, rows - 1) * left_row + k * left_inner]);
            for (int n = 0; n < << thread_n >>; ++n)
                sum[<< m >>][n] += a * b[n];
        }
<% endfor %>
    }
<% endif %>

#pragma unroll
    for (int m = 0; m < << thread_m >>; ++m) {
        const index row = first_row + thread_row + m * << rows_of_threads >>;
#pragma unroll
        for (int n = 0; n < << thread_n >>; ++n) {
            const index column = first_column + thread_column + n * << columns_of_threads >>;
            if (row < rows && column < columns) {
                const acc value = sum[m][n] + cast<acc>(
                    added[row * bias.strides[<< batch_ndim >>] + column * bias.strides[<< batch_ndim + 1 >>]]);
                result[(long long)row * columns + column] = cast<elem>(maximum(value, acc(0)));
            }
        }
    }
}
