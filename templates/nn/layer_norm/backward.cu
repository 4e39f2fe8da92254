// With n = (x - mean) * rstd and g = dy * weight:  dx = (g - mean(g) - n * mean(g * n)) * rstd,
// dweight = sum over rows of dy * n, dbias = sum over rows of dy. Source: the chain rule through mean and variance.
// Rows are of any length, and read twice: for the sums and for dx.
// x, dy, dx (rows, columns); weight (columns), or not read; statistics (rows, 2) as forward.cu writes them. dweight, dbias
// (slots, columns): sums over the rows of one slot, to be summed over the slots afterwards. With a `residual`, `plus`
// (rows, columns) is added to dx.
// Launch: any grid; a slot is a group of `threads` threads of it, and rows are dealt to the slots in turn. Shared: the
// states of warps. A block owns its slots; no atomics, so every run gives the same bits.
<% include "nn/layer_norm/statistics.cuh" %>
<# Of g and of g * n. #>
<% set sums = 2 %>
<% include "lib/row_sums.cuh" %>

// What a column adds to the column's sums, of dy * n and dy, and to the row's, of g and g * n.
__device__ __forceinline__ void add_up(
    const T* x, const T* dy, const T* weight, const RowStatistics& of, index column,
    acc* weight_sums, acc* bias_sums, acc& sum, acc& product)
{
    const acc n = of.normal(cast<acc>(x[column]));
    const acc given = cast<acc>(dy[column]);
    weight_sums[column] += given * n;
    bias_sums[column] += given;
    const acc g = weighted ? given * cast<acc>(weight[column]) : given;
    sum += g;
    product += g * n;
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ x, const T* __restrict__ dy, const T* __restrict__ weight,
    const acc* __restrict__ statistics, << "const T* __restrict__ plus, " if residual >>T* __restrict__ dx, acc* __restrict__ dweight,
    acc* __restrict__ dbias, index rows, index columns)
{
    const int lane = row_lane();
    const long long slot = (long long)row_team() * row_groups + row_group();
    const acc scale = acc(1) / acc(columns);
    int phase = 0;
    acc* weight_sums = dweight + slot * columns;
    acc* bias_sums = dbias + slot * columns;
    // Each column's sums are one thread's in every row.
    const index packed = columns / width * width;
    for (index start = lane * width; start < packed; start += threads * width)
        for (int v = 0; v < width; ++v) weight_sums[start + v] = bias_sums[start + v] = 0;
    for (index column = packed + lane; column < columns; column += threads) weight_sums[column] = bias_sums[column] = 0;

    // Every thread of a block goes round equally often, since row_sums needs them all.
    for (long long first = (long long)row_team() * row_groups; first < rows;
         first += (long long)row_teams() * row_groups) {
        const bool live = first + row_group() < rows;
        const long long row = live ? first + row_group() : 0;
        const T* source = x + row * columns;
        const T* above = dy + row * columns;
        T* target = dx + row * columns;
        const RowStatistics of(source[0], statistics_of(statistics, row));
        acc sum[width] = {}, product[width] = {};
        const index end = live ? columns : 0, whole = end / width * width;
        for (index start = lane * width; start < whole; start += threads * width)
            for (int v = 0; v < width; ++v)
                add_up(source, above, weight, of, start + v, weight_sums, bias_sums, sum[v], product[v]);
        for (index column = whole + lane; column < end; column += threads)
            add_up(source, above, weight, of, column, weight_sums, bias_sums, sum[0], product[0]);
        for (int v = 1; v < width; ++v) sum[0] += sum[v], product[0] += product[v];
        const RowState total = row_sums({centered ? sum[0] : acc(0), product[0]}, phase);
        const acc gradient_mean = total.of[0] * scale, product_mean = total.of[1] * scale;
        for (index column = lane; column < columns && live; column += threads) {
            const acc n = of.normal(cast<acc>(source[column]));
            const acc g = cast<acc>(above[column]) * (weighted ? cast<acc>(weight[column]) : acc(1));
            target[column] = cast<T>((g - gradient_mean - n * product_mean) * of.rstd<< " + cast<acc>(plus[row * columns + column])" if residual >>);
        }
    }
    row_end();
}
