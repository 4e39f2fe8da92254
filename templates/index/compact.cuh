// What the stages of compaction share: tiles of elements, each owned by `lanes` threads, 1 or a warp, of which some are
// chosen: << "the first of each run of equal ones" if runs else "those that are true" >>.
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

__device__ __forceinline__ bool chosen(const T* __restrict__ x, long long i) {
<% if runs %>
    if (i == 0) return true;
    const << acc >> now = cast< << acc >> >(x[i]), before = cast< << acc >> >(x[i - 1]);
    return now != before<< " && before == before" if equal_nan >>;
<% else %>
    return x[i];
<% endif %>
}

// For a warp's next elements whether each lane's are chosen; those from `last` on are not.
__device__ __forceinline__ void choose(bool (&flags)[ahead], const T* __restrict__ x, long long start, long long last) {
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
        const long long i = start + k * lanes + threadIdx.x % lanes;
        flags[k] = i < last && chosen(x, i);
    }
}
