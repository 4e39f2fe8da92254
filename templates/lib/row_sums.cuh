// << sums >> numbers summed over the threads of a row at once, as row_reduce of row.cuh would, with its rules. The lanes of a
// warp share the numbers: with each of the first steps a lane hands half of those it has to another, and is left with
// half, which takes as many shuffles for all numbers as for little more than one.
constexpr int row_numbers = << sums >>;
using RowNumber = << acc >>;
struct RowState {
    RowNumber of[row_numbers];
};
__device__ __forceinline__ RowState row_join(RowState a, RowState b) {
#pragma unroll
    for (int i = 0; i < row_numbers; ++i) a.of[i] += b.of[i];
    return a;
}
<% include "lib/row.cuh" %>
<# Where the lanes cannot share the numbers, each has all of them. #>
<% if [threads, 32] | min % sums %>
__device__ __forceinline__ RowState row_sums(RowState state, int& phase) { return row_reduce(state, phase); }
<% else %>
// The sum over `lanes` neighbouring threads.
template <int lanes>
__device__ __forceinline__ RowNumber row_sum_lanes(RowNumber sum) {
#pragma unroll
    for (int distance = lanes / 2; distance > 0; distance /= 2) sum += shuffle_xor(sum, distance);
    return sum;
}
__device__ __forceinline__ RowState row_sums(RowState state, int& phase) {
    constexpr int lanes = row_threads < 32 ? row_threads : 32, share = lanes / row_numbers, warps = row_block / 32;
    constexpr int readers = row_threads <= 32 || share < warps ? share : warps;
#pragma unroll
    for (int left = row_numbers / 2, distance = lanes / 2; left > 0; left /= 2, distance /= 2) {
        const bool upper = threadIdx.x & distance;
#pragma unroll
        for (int i = 0; i < left; ++i) {
            const RowNumber low = state.of[i], high = state.of[left + i];
            state.of[i] = (upper ? high : low) + shuffle_xor(upper ? low : high, distance);
        }
    }
    RowNumber sum = row_sum_lanes<share>(state.of[0]);
<% if threads > 32 %>
    // A number's sums of all warps lie together.
    constexpr int each = warps / readers;
    __shared__ RowNumber of_warp[2][row_numbers * warps];
    if (threadIdx.x % share == 0) of_warp[phase][threadIdx.x % 32 / share * warps + threadIdx.x / 32] = sum;
    __syncthreads();
    const RowNumber* const own = of_warp[phase] + threadIdx.x % (row_numbers * readers) * each;
    sum = own[0];
#pragma unroll
    for (int i = 1; i < each; ++i) sum += own[i];
    sum = row_sum_lanes<readers>(sum);
<% endif %>
#pragma unroll
    for (int i = 0; i < row_numbers; ++i) state.of[i] = __shfl_sync(0xffffffffu, sum, i * readers, lanes);
    return row_reduce_blocks(state, phase);
}
<% endif %>
