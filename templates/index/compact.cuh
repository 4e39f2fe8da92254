// Common to the stages of stream compaction: tiles of elements, each owned by `lanes` threads, 1 or a warp. Chosen are
// << "the first of each run of equal ones" if runs else "those that are true" >>.
using T = << elem >>;
constexpr int block = << block >>, lanes = << lanes >>;
// Elements of each lane that a warp reads at a time.
constexpr int ahead = 8;
<% if lanes > 1 %>

// A bit for each lane: whether its flag is true.
__device__ __forceinline__ unsigned votes(bool flag) { return __ballot_sync(0xffffffffu, flag); }
<% else %>
__device__ __forceinline__ unsigned votes(bool flag) { return flag; }
<% endif %>

<% if runs %>
using acc = << acc >>;
__device__ __forceinline__ bool begins(acc now, acc before) {
    return now != before<< " && before == before" if equal_nan >>;
}
__device__ __forceinline__ bool chosen(const T* __restrict__ x, long long i) {
    return i == 0 || begins(cast<acc>(x[i]), cast<acc>(x[i - 1]));
}
<% else %>
__device__ __forceinline__ bool chosen(const T* __restrict__ x, long long i) { return x[i]; }
<% endif %>

// For a warp's next elements whether each lane's are chosen; those from `last` on are not.
__device__ __forceinline__ void choose(bool (&flags)[ahead], const T* __restrict__ x, long long start, long long last) {
    const int lane = threadIdx.x % lanes;
<% if runs and shuffled %>
    // The element before is the neighbour's.
    acc values[ahead];
#pragma unroll
    for (int k = 0; k < ahead; ++k) values[k] = cast<acc>(x[minimum(start + k * lanes + lane, last - 1)]);
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
        const long long i = start + k * lanes + lane;
        acc before = __shfl_up_sync(0xffffffffu, values[k], 1);
        if (lane == 0 && i > 0 && i < last) before = cast<acc>(x[i - 1]);
        flags[k] = i < last && (i == 0 || begins(values[k], before));
    }
<% else %>
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
        const long long i = start + k * lanes + lane;
        flags[k] = i < last && chosen(x, i);
    }
<% endif %>
}
