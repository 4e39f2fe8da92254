// Numbers T go from thread to thread of a team of `team` neighbouring ones; all threads of the warp call these.
__device__ __forceinline__ T shuffle_up(T t, int distance) {
<% if pair %>
    return {__shfl_up_sync(0xffffffffu, t.a, distance, team), __shfl_up_sync(0xffffffffu, t.b, distance, team)};
<% else %>
    return __shfl_up_sync(0xffffffffu, t, distance, team);
<% endif %>
}
__device__ __forceinline__ T shuffle_down(T t, int distance) {
<% if pair %>
    return {__shfl_down_sync(0xffffffffu, t.a, distance, team), __shfl_down_sync(0xffffffffu, t.b, distance, team)};
<% else %>
    return __shfl_down_sync(0xffffffffu, t, distance, team);
<% endif %>
}
__device__ __forceinline__ T shuffle_from(T t, int lane) {
<% if pair %>
    return {__shfl_sync(0xffffffffu, t.a, lane, team), __shfl_sync(0xffffffffu, t.b, lane, team)};
<% else %>
    return __shfl_sync(0xffffffffu, t, lane, team);
<% endif %>
}

// What the threads of a team up to each one make.
__device__ __forceinline__ T scan_team(T upto) {
    const int lane = threadIdx.x % team;
#pragma unroll
    for (int distance = 1; distance < team; distance *= 2) {
        const T other = shuffle_up(upto, distance);
        if (lane >= distance) upto = combine(other, upto);
    }
    return upto;
}
