// Sums of channels that a cluster of blocks has whole. Units are numbered: in each instance `blocks` groups of channels, of which a
// cluster takes every gridDim.x-th; blockIdx.y numbers its blocks, each with a part of the channels' sequences. `members` channels
// that do not lie innermost are taken one after another. What was read for sums stays in shared memory (see kept.cuh), or, if there is not as much of it
// (`kept` is 0), is read again from caches, from the last to the first.
// `wide`, what is said of a cluster holds for all blocks with the same blockIdx.x: they join their sums through `partials`, a state
// for each slot of each block of each unit, and the blocks of the grid take equally many units, which are whole.
// Shared, static: a state of each of `slots` sums for each warp, of the block, and of the cluster.
<% if wide %>
<% include "prelude/grid.cuh" %>
<% elif cluster > 1 %>
<% include "prelude/cluster.cuh" %>
<% endif %>
<% include "nn/channel_norm/sums.cuh" %>
<% include "nn/channel_norm/results.cuh" %>
using W = << param >>;
constexpr int members = << members >>, warps = block / 32;
constexpr int channels_here = last ? across * width : members;  // of a block
constexpr int slots = last || derivative ? channels_here : 1;

static_assert(slots <= block, "a thread a slot");

// The first channel of a thread, of those of its block.
__device__ __forceinline__ int first_of_thread() { return last ? int(threadIdx.x) % across * width : 0; }
// The instance of a unit, and the first of its channels.
struct Group {
    index instance, first;

    __device__ __forceinline__ Group(const Sizes& g, int unit) : instance(unit / g.blocks), first(unit % g.blocks * channels_here) {}
    // A thread's elements of a member.
    template <bool back = false>
    __device__ __forceinline__ WalkOf<back> walk(const Sizes& g, int member) const {
        return WalkOf<back>(g, instance, first + first_of_thread() + member, blockIdx.y);
    }
};
<% if kept %>
<% include "nn/channel_norm/kept.cuh" %>
<% endif %>

// The slot's sum of a thread's warp is noted.
__device__ __forceinline__ void note(State (&of_warps)[warps][slots], int slot, State state) {
#pragma unroll
    for (int distance = 16; distance >= across; distance /= 2) state = join(state, shuffle_xor(state, distance));
    if (int(threadIdx.x) % 32 < across) of_warps[threadIdx.x / 32][slot] = state;
}
// The sum of what was noted of a slot by all warps of the block.
__device__ __forceinline__ State of_all_warps(const State (&of_warps)[warps][slots], int slot) {
    State total = of_warps[0][slot];
#pragma unroll
    for (int warp = 1; warp < warps; ++warp) total = join(total, of_warps[warp][slot]);
    return total;
}
// whole[slot] = the sum of what was noted of a slot by all warps of all blocks, in the same order in every block.
<% if wide %>
__device__ __forceinline__ void join_all(State (&of_warps)[warps][slots], State* partials, State (&whole)[slots]) {
    constexpr int several = block / slots < warps ? block / slots : warps;  // threads that join a slot's states
    __syncthreads();
    for (int slot = threadIdx.x; slot < slots; slot += block) partials[blockIdx.y * slots + slot] = of_all_warps(of_warps, slot);
    grid_barrier();
    const int slot = threadIdx.x % slots, first = threadIdx.x / slots, blocks = gridDim.y;
    if (first < several) {
        State total{};
#pragma unroll 4
        for (int rank = first; rank < blocks; rank += several) total = join(total, partials[rank * slots + slot]);
        of_warps[first][slot] = total;
    }
    __syncthreads();
    if (first == 0) {
        State total = of_warps[0][slot];
#pragma unroll
        for (int i = 1; i < several; ++i) total = join(total, of_warps[i][slot]);
        whole[slot] = total;
    }
    __syncthreads();
}
<% else %>
__device__ __forceinline__ void join_all(const State (&of_warps)[warps][slots], State (&of_block)[slots], State (&whole)[slots]) {
    __syncthreads();
    for (int slot = threadIdx.x; slot < slots; slot += block) << "of_block" if cluster > 1 else "whole" >>[slot] = of_all_warps(of_warps, slot);
<% if cluster > 1 %>
    cluster_barrier();
    for (int slot = threadIdx.x; slot < slots; slot += block) {
        State total = of_block_number(&of_block[slot], 0);
#pragma unroll
        for (int rank = 1; rank < << cluster >>; ++rank) total = join(total, of_block_number(&of_block[slot], rank));
        whole[slot] = total;
    }
    cluster_arrive();
<% endif %>
    __syncthreads();
}
<% endif %>
// No block ends, or notes other sums, before the others have read its sums.
__device__ __forceinline__ void wait_for_readers() { << "cluster_wait();" if cluster > 1 and not wide >> }
