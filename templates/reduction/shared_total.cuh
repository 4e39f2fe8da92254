// Tree reduction by shuffles over `threads` neighbouring lanes, and over the warps of a block by shared memory; the first
// thread has the result.
template <int threads>
__device__ __forceinline__ State reduce_lanes(State total) {
#pragma unroll
    for (int distance = threads / 2; distance > 0; distance /= 2) total = combine(total, shuffle_xor(total, distance));
    return total;
}
__device__ __forceinline__ State shared_total(State total) {
<% if lanes > 1 %>
    total = reduce_lanes< << [lanes, 32] | min >> >(total);
<% endif %>
<% if lanes > 32 %>
    constexpr int warps = << lanes // 32 >>;
    __shared__ State warp_states[warps];
    if (threadIdx.x % 32 == 0) warp_states[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x < 32) total = reduce_lanes<warps>(threadIdx.x < warps ? warp_states[threadIdx.x] : identity());
<% endif %>
    return total;
}
