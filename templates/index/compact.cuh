// What the stages of compaction share: tiles of flags, each owned by `lanes` threads, 1 or a warp.
constexpr int block = << block >>, lanes = << lanes >>;
<% if lanes > 1 %>

// A bit for each lane: whether its flag is true.
__device__ __forceinline__ unsigned votes(bool flag) { return __ballot_sync(0xffffffffu, flag); }
<% else %>
__device__ __forceinline__ unsigned votes(bool flag) { return flag; }
<% endif %>
