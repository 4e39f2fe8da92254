// output[b, i, j] = relu(sum over k of lhs[b, i, k] * rhs[b, k, j] + bias[b, i, j]).
// lhs (batch..., rows, inner), rhs (batch..., inner, columns), bias (batch..., rows, columns): any strides,
// stride 0 where an operand is broadcast; output (batch..., rows, columns) contiguous.
// Launch: one block per tile, grid batches * row tiles * column tiles, block tile_m / thread_m * tile_n / thread_n.
// Shared: with `staged`, two tile_k slabs of each factor as accumulators; without, none (and no barrier).
// A block owns a tile_m x tile_n tile of one batch, a thread thread_m x thread_n outputs of it: with `staged`, squares
// of 4 x 4, those of a warp's lanes side by side.
<% set ndim = batch_ndim + 2 %>
<% if staged %>
<% set lanes_n = 32 // lanes_m %>
<% set warps_n = tile_n // (lanes_n * thread_n) %>
<% include "nn/matmul_add_relu/slab.cuh" %>
<% endif %>
extern "C" __global__ void __launch_bounds__(<< block >><< ", %d" % resident if staged >>) << name >>(
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
<% if staged %>
    // Bands of << band >> rows of tiles, column by column: what runs at a time reads few rows and few columns.
    const index tile = index(blockIdx.x) % (row_tiles * column_tiles);
    const index band = tile / (column_tiles * << band >>) * << band >>;
    const index height = minimum(row_tiles - band, index(<< band >>));
    const index in_band = tile - band * column_tiles;
    const index first_row = (band + in_band % height) * << tile_m >>;
    const index first_column = in_band / height * << tile_n >>;
<% else %>
    const index first_row = index(blockIdx.x) / column_tiles % row_tiles * << tile_m >>;
    const index first_column = index(blockIdx.x) % column_tiles * << tile_n >>;
<% endif %>
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
    const long long left_row = << "1" if lhs_unit == "row" else "lhs.strides[%d]" % batch_ndim >>;
    const long long left_inner = << "1" if lhs_unit == "inner" else "lhs.strides[%d]" % (batch_ndim + 1) >>;
    const long long right_inner = << "1" if rhs_unit == "inner" else "rhs.strides[%d]" % batch_ndim >>;
    const long long right_column = << "1" if rhs_unit == "column" else "rhs.strides[%d]" % (batch_ndim + 1) >>;
    const long long added_row = bias.strides[<< batch_ndim >>], added_column = bias.strides[<< batch_ndim + 1 >>];

    acc sum[<< thread_m >>][<< thread_n >>];
#pragma unroll
    for (int m = 0; m < << thread_m >>; ++m)
#pragma unroll
        for (int n = 0; n < << thread_n >>; ++n)
            sum[m][n] = acc(0);

<% if staged %>
    using Left = Slab<elem, acc, index, << block >>, << tile_m >>, << tile_k >>, << lhs_width >>,
                      << "true" if lhs_turned else "false" >>>;
    using Right = Slab<elem, acc, index, << block >>, << tile_n >>, << tile_k >>, << rhs_width >>,
                      << "true" if rhs_turned else "false" >>>;
    __shared__ alignas(16) acc left_slabs[<< 2 * tile_k * tile_m >>];
    __shared__ alignas(16) acc right_slabs[<< 2 * tile_k * tile_n >>];
    // Of four neighbouring lanes two share a row and two a column: a 16-byte read of a warp then takes two turns.
    const int lane = threadIdx.x % 32, group = lane / 4, warp = threadIdx.x / 32;
    const int thread_row =
        warp / << warps_n >> * << lanes_m * thread_m >> + (group / << lanes_n // 2 >> * 2 + lane / 2 % 2) * 4;
    const int thread_column =
        warp % << warps_n >> * << lanes_n * thread_n >> + (group % << lanes_n // 2 >> * 2 + lane % 2) * 4;

    if (inner > 0) {
        // The first slab is the short one, so that no other needs a check.
        const index slabs = divide_up(inner, index(<< tile_k >>));
        const int depth = int(inner - (slabs - 1) * << tile_k >>);
        Left left_way;
        Right right_way;
        left_way.begin(left + first_row * left_row, rows - first_row, left_row, left_inner);
        right_way.begin(right + first_column * right_column, columns - first_column, right_column, right_inner);
        left_way.load_first(depth);
        right_way.load_first(depth);
        left_way.store(left_slabs);
        right_way.store(right_slabs);
        __syncthreads();
        if (slabs > 1) {
            left_way.advance(depth * left_inner);
            right_way.advance(depth * right_inner);
            left_way.load();
            right_way.load();
        }

        // What is multiplied now, and what next.
        acc a[2][<< thread_m >>], b[2][<< thread_n >>];
        Left::read< << 4 * lanes_m >>>(left_slabs, thread_row, 0, a[0]);
        Right::read< << 4 * lanes_n >>>(right_slabs, thread_column, 0, b[0]);
        const long long left_step = << tile_k >> * left_inner, right_step = << tile_k >> * right_inner;
        int stage = 0;
<% for last in (false, true) %>
<% if not last %>
        for (index slab = 1; slab < slabs; ++slab) {
<% else %>
        {
<% endif %>
#pragma unroll
            for (int k = 0; k < << tile_k >>; ++k) {
<% if not last %>
                if (k == << tile_k - 2 >>) {
                    // Double buffering: the slab that was loaded into registers goes to shared memory, and the next one is
                    // loaded. The last slab is loaded twice: a branch would cost more.
                    left_way.store(left_slabs + (stage ^ 1) * << tile_k * tile_m >>);
                    right_way.store(right_slabs + (stage ^ 1) * << tile_k * tile_n >>);
                    left_way.advance(slab + 1 < slabs ? left_step : 0);
                    right_way.advance(slab + 1 < slabs ? right_step : 0);
                    left_way.load();
                    right_way.load();
                }
                if (k == << tile_k - 1 >>) {
                    __syncthreads();
                    stage ^= 1;
                }
                {
<% else %>
                if (k < << tile_k - 1 >>) {
<% endif %>
                    const int next = (k + 1) % << tile_k >>;
                    Left::read< << 4 * lanes_m >>>(
                        left_slabs + stage * << tile_k * tile_m >>, thread_row, next, a[next % 2]);
                    Right::read< << 4 * lanes_n >>>(
                        right_slabs + stage * << tile_k * tile_n >>, thread_column, next, b[next % 2]);
                }
#pragma unroll
                for (int m = 0; m < << thread_m >>; ++m)
#pragma unroll
                    for (int n = 0; n < << thread_n >>; ++n)
                        sum[m][n] += a[k % 2][m] * b[k % 2][n];
            }
        }
<% endfor %>
    }

    using Four = Several<elem, << width >>>;
#pragma unroll
    for (int m = 0; m < << thread_m >>; ++m) {
        const index row = first_row + thread_row + m / 4 * << 4 * lanes_m >> + m % 4;
        if (row >= rows) break;
#pragma unroll
        for (int n = 0; n < << thread_n >>; n += << width >>) {
            const index column = first_column + thread_column + n / 4 * << 4 * lanes_n >> + n % 4;
            if (column < columns) {
                Four wide;
<% if not bias_unit %>
                const acc more = cast<acc>(added[row * added_row + column * added_column]);
<% else %>
                const Four more = *(const Four*)&added[row * added_row + column];
<% endif %>
#pragma unroll
                for (int v = 0; v < << width >>; ++v) {
                    const acc value = sum[m][n + v] + << "cast<acc>(more.part[v])" if bias_unit else "more" >>;
                    wide.part[v] = cast<elem>(maximum(value, acc(0)));
                }
                *(Four*)&result[(long long)row * columns + column] = wide;
            }
        }
    }
<% else %>
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
    for (int m = 0; m < << thread_m >>; ++m) {
        const index row = first_row + m;
        for (int n = 0; n < << thread_n >>; ++n) {
            const index column = first_column + n;
            if (row < rows && column < columns) {
                const acc value = sum[m][n] + cast<acc>(added[row * added_row + column * added_column]);
                result[(long long)row * columns + column] = cast<elem>(maximum(value, acc(0)));
            }
        }
    }
<% endif %>
}
