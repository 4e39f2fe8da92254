// Cross-entropy and its gradient, in place: losses[r] = peak - x[r, targets[r]] + rest, where peak is row r's largest element and rest the logarithm of the sum of
// exponentials below it; then x[r, c] becomes exp(x[r, c] - peak - rest) - (c == targets[r]), the derivative of losses[r].
// x (rows, columns) in C order, packs of `width` elements aligned; targets (rows): the classes, one out of range taken as the
// nearest; losses (rows). Launch: a block a row, which is in the L2 still when it is read again. Shared: the states of warps.
<% include "nn/cross_entropy/row.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(T* x, const Target* targets, acc* losses, index columns)
{
    T* const row = x + blockIdx.x * columns;
    const long long named = (long long)targets[blockIdx.x];
    const index chosen = index(maximum(minimum(named, (long long)columns - 1), 0ll)), first = threadIdx.x * width;
    RowState state = {limits<acc>::lowest(), acc(0)};
    for (index start = first; start < columns; start += chunks * threads * width) state = extended(state, row, start, columns);
    const acc at_target = cast<acc>(row[chosen]);
    int phase = 0;
    state = row_total(state, phase);
    const acc rest = log(state.sum);
    __syncthreads();  // all have read the target's element
    if (threadIdx.x == 0) losses[blockIdx.x] = state.peak - at_target + rest;
    for (index start = first; start < columns; start += chunks * threads * width) {
        Pack<T, width> packs[chunks];
#pragma unroll
        for (int u = 0; u < chunks; ++u)
            if (exact || start + u * (threads * width) < columns) packs[u] = load_pack<width>(row + start + u * (threads * width));
#pragma unroll
        for (int u = 0; u < chunks; ++u) {
            const index at = start + u * (threads * width);
            if (!exact && at >= columns) break;
            acc numbers[width];
            unpack(packs[u], numbers);
#pragma unroll
            for (int v = 0; v < width; ++v) numbers[v] = exp_of(numbers[v] - state.peak - rest) - (at + v == chosen ? acc(1) : acc(0));
            store_pack(row + at, packed<T>(numbers));
        }
    }
    row_end();
}
