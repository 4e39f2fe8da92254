// Common to the stages of stream compaction: tiles of flags, each owned by `lanes` threads, 1 or a warp.
constexpr int block = << block >>, lanes = << lanes >>;
// Elements of each lane that a warp reads at a time.
constexpr int ahead = 8;
<% if lanes > 1 %>

// A bit for each lane: whether its flag is true.
__device__ __forceinline__ unsigned votes(bool flag) { return __ballot_sync(0xffffffffu, flag); }
<% else %>
__device__ __forceinline__ unsigned votes(bool flag) { return flag; }
<% endif %>

// For a warp's next flags whether each lane's are true; those from `last` on are not.
__device__ __forceinline__ void choose(bool (&flags)[ahead], const bool* __restrict__ x, long long start, long long last) {
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
        const long long i = start + k * lanes + threadIdx.x % lanes;
        flags[k] = i < last && x[i];
    }
}
