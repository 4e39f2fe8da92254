// << sums >> numbers summed over the threads of a row at once, as row_reduce of row.cuh would, with its rules. The lanes of a
// warp share the numbers: with each of the first steps a lane hands half of those it has to another, and is left with
// half, which takes as many shuffles for all numbers as for little more than one.
struct RowState {
    << acc >> of[<< sums >>];
};
__device__ __forceinline__ RowState row_join(RowState a, RowState b) {
#pragma unroll
    for (int i = 0; i < << sums >>; ++i) a.of[i] += b.of[i];
    return a;
}
<% include "lib/row.cuh" %>
<% set lanes = [threads, 32] | min %>
<# Otherwise each step halves them, to one a lane in the end. #>
<% if lanes % sums %>
__device__ __forceinline__ RowState row_sums(RowState state, int& phase) { return row_reduce(state, phase); }
<% else %>
__device__ __forceinline__ RowState row_sums(RowState state, int& phase) {
#pragma unroll
    for (int left = << sums // 2 >>, distance = << lanes // 2 >>; left > 0; left /= 2, distance /= 2) {
        const bool upper = threadIdx.x & distance;
#pragma unroll
        for (int i = 0; i < left; ++i) {
            const << acc >> low = state.of[i], high = state.of[left + i];
            state.of[i] = (upper ? high : low) + shuffle_xor(upper ? low : high, distance);
        }
    }
    << acc >> sum = state.of[0];
#pragma unroll
    for (int distance = << lanes // sums // 2 >>; distance > 0; distance /= 2) sum += shuffle_xor(sum, distance);
<% set share = lanes // sums %>
<% if threads > 32 %>
<% set warps = block // 32 %>
    // A number's sums of all warps lie together.
    __shared__ << acc >> of_warp[2][<< sums * warps >>];
    if (threadIdx.x % << share >> == 0) of_warp[phase][threadIdx.x % 32 / << share >> * << warps >> + threadIdx.x / 32] = sum;
    __syncthreads();
<% set share = [share, warps] | min %>
    const << acc >>* const own = of_warp[phase] + threadIdx.x % << sums * share >> * << warps // share >>;
    sum = own[0];
#pragma unroll
    for (int i = 1; i < << warps // share >>; ++i) sum += own[i];
#pragma unroll
    for (int distance = << share // 2 >>; distance > 0; distance /= 2) sum += shuffle_xor(sum, distance);
<% endif %>
#pragma unroll
    for (int i = 0; i < << sums >>; ++i) state.of[i] = __shfl_sync(0xffffffffu, sum, i * << share >>, << lanes >>);
    return row_reduce_blocks(state, phase);
}
<% endif %>
