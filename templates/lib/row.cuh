// Needs prelude/reduce.cuh. A row is shared by row_threads threads: 1, a power of two up to 32, a block, or a cluster of
// blocks. A team, which is a block or a cluster, has row_groups rows at a time; row_lane numbers the threads of a row.
// row_reduce joins one RowState a thread by row_join, both defined before this, or by what it is given: the same in each of
// them and in every run, as join(a, b) is join(b, a). All threads that share a row must call it, and where there are several
// all threads of the block. `phase` is 0 at first: what is shared is written in turns, so that one barrier does. Before its
// end every thread calls row_end.
constexpr int row_threads = << threads >>, row_block = << block >>, row_cluster = << cluster >>;
constexpr int row_groups = row_threads < row_block ? row_block / row_threads : 1;
__device__ __forceinline__ int row_lane() {
    return row_cluster > 1 ? blockIdx.x % row_cluster * row_block + threadIdx.x : threadIdx.x % row_threads;
}
__device__ __forceinline__ int row_group() { return row_cluster > 1 ? 0 : threadIdx.x / row_threads; }
__device__ __forceinline__ unsigned row_team() { return blockIdx.x / row_cluster; }
__device__ __forceinline__ unsigned row_teams() { return gridDim.x / row_cluster; }
<# What waits stands only where it is reached: the host looks for it in the text, to know which threads take turns. #>
<% if cluster > 1 %>

<% include "prelude/cluster.cuh" %>
<% endif %>

struct RowJoin {
    __device__ __forceinline__ RowState operator()(RowState a, RowState b) const { return row_join(a, b); }
};
// The states of `threads` neighbouring threads together.
template <int threads, typename Join>
__device__ __forceinline__ RowState row_reduce_lanes(RowState state, Join join) {
#pragma unroll
    for (int distance = threads / 2; distance > 0; distance /= 2) state = join(state, shuffle_xor(state, distance));
    return state;
}
<% if cluster > 1 %>
__device__ __forceinline__ RowState* row_of_block(int phase) {
    __shared__ RowState of_block[2];
    return &of_block[phase];
}
<% endif %>
<% if threads > 32 %>
__device__ __forceinline__ RowState* row_of_warp(int phase) {
    __shared__ RowState of_warp[2][row_block / 32];
    return of_warp[phase];
}
<% endif %>
// The rest of row_reduce where each thread of a block has the same state.
template <typename Join = RowJoin>
__device__ __forceinline__ RowState row_reduce_blocks(RowState state, int& phase, Join join = {}) {
<% if cluster > 1 %>
    RowState* const of_block = row_of_block(phase);
    if (threadIdx.x == 0) *of_block = state;
    cluster_barrier();
    state = of_block_number(of_block, 0);
#pragma unroll
    for (unsigned number = 1; number < row_cluster; ++number) state = join(state, of_block_number(of_block, number));
<% endif %>
    phase ^= 1;
    return state;
}
// The rest of row_reduce where each thread of a warp has the same state.
template <typename Join = RowJoin>
__device__ __forceinline__ RowState row_reduce_warps(RowState state, int& phase, Join join = {}) {
<% if threads > 32 %>
    RowState* const of_warp = row_of_warp(phase);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = state;
    __syncthreads();
    state = row_reduce_lanes<row_block / 32>(of_warp[threadIdx.x % (row_block / 32)], join);
<% endif %>
    return row_reduce_blocks(state, phase, join);
}
template <typename Join = RowJoin>
__device__ __forceinline__ RowState row_reduce(RowState state, int& phase, Join join = {}) {
<% if threads > 1 %>
    state = row_reduce_lanes<(row_threads < 32 ? row_threads : 32)>(state, join);
<% endif %>
    return row_reduce_warps(state, phase, join);
}
// No block ends before all of its cluster have read its state.
__device__ __forceinline__ void row_end() {
    << "cluster_barrier();" if cluster > 1 >>
}
