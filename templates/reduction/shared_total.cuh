// The states of `lanes` neighbouring threads together, in the first of them.
template <int threads>
__device__ __forceinline__ State total_of_lanes(State total) {
#pragma unroll
    for (int distance = threads / 2; distance > 0; distance /= 2) total = combine(total, shuffle_xor(total, distance));
    return total;
}
__device__ __forceinline__ State shared_total(State total) {
<% if lanes > 1 %>
    total = total_of_lanes< << [lanes, 32] | min >> >(total);
<% endif %>
<% if lanes > 32 %>
    constexpr int warps = << lanes // 32 >>;
    __shared__ State of_warp[warps];
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x < 32) total = total_of_lanes<warps>(threadIdx.x < warps ? of_warp[threadIdx.x] : identity());
<% endif %>
    return total;
}
