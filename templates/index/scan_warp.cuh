// Shuffles and scans of values T in a team of `team` neighbouring threads; all threads of the warp call these.
__device__ __forceinline__ A shuffle_up(A a, int distance) { return __shfl_up_sync(0xffffffffu, a, distance, team); }
__device__ __forceinline__ A shuffle_down(A a, int distance) { return __shfl_down_sync(0xffffffffu, a, distance, team); }
__device__ __forceinline__ A shuffle_from(A a, int lane) { return __shfl_sync(0xffffffffu, a, lane, team); }
<% if pair %>
__device__ __forceinline__ T shuffle_up(T t, int distance) { return {shuffle_up(t.a, distance), shuffle_up(t.b, distance)}; }
__device__ __forceinline__ T shuffle_down(T t, int distance) { return {shuffle_down(t.a, distance), shuffle_down(t.b, distance)}; }
__device__ __forceinline__ T shuffle_from(T t, int lane) { return {shuffle_from(t.a, lane), shuffle_from(t.b, lane)}; }
<% endif %>

// The inclusive scan over the threads of a team.
__device__ __forceinline__ T scan_team(T upto) {
    const int lane = threadIdx.x % team;
#pragma unroll
    for (int distance = 1; distance < team; distance *= 2) {
        const T other = shuffle_up(upto, distance);
        if (lane >= distance) upto = combine(other, upto);
    }
    return upto;
}
