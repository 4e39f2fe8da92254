// Sums of channels that a cluster of blocks has whole. Units are numbered: in each instance `blocks` groups of channels, of which a
// cluster takes every gridDim.x-th; blockIdx.y numbers its blocks, each with a part of the channels' sequences. `members` channels
// that do not lie innermost are taken one after another. What was read for sums stays in shared memory (see kept.cuh), or, if there is not as much of it
// (`kept` is 0), is read again from caches, from the last to the first.
// `wide`, what is said of a cluster holds for all blocks with the same blockIdx.x: they leave their sums in `partials`, one for each
// slot of each block of each unit. All blocks of the grid take equally many units.
// Shared, static: a Joint, and the factors of results.
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

static_assert(slots <= block && channels_here % slots == 0, "a thread a slot");

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

// The sums of a slot, which add up: of differences from a reference and of their squares, or, of the `derivative`, of dy and of
// dy * (x - mean).
struct alignas(2 * sizeof(acc)) Pair {
    acc first, second;
};
__device__ __forceinline__ Pair add(Pair a, Pair b) { return {a.first + b.first, a.second + b.second}; }
// What a block leaves of a slot.
<% if derivative %>
using Left = Pair;
<% else %>
struct Left {
    acc mean, rest, squares;
};
<% endif %>
struct Joint {
    Pair of_warps[warps][slots];
    Left of_block[slots];
    State whole[slots];
    acc references[slots];
};
// The elements of a channel that a block has; of all members, if they share a slot.
__device__ __forceinline__ acc elements_of(const Sizes& g, int rank) {
    const index all = g.outer * g.inner, from = rank * g.each;
    return acc(minimum(all, from + g.each) - minimum(all, from)) * acc(channels_here / slots);
}
// The slot's sums of a thread's warp are noted.
__device__ __forceinline__ void note(Joint& joint, int slot, Pair sums) {
#pragma unroll
    for (int distance = 16; distance >= across; distance /= 2) sums = add(sums, shuffle_xor(sums, distance));
    if (int(threadIdx.x) % 32 < across) joint.of_warps[threadIdx.x / 32][slot] = sums;
}
<% if not derivative %>
// Those of all channels of a thread, about the offset of one thread of the block: it is near enough to the mean of all.
__device__ __forceinline__ void note_all(Joint& joint, int lane, const Sums& sums) {
    if (int(threadIdx.x) < across) {
#pragma unroll
        for (int c = 0; c < own_channels; ++c) joint.references[lane + c] = sums.offset[c];
    }
    __syncthreads();
#pragma unroll
    for (int c = 0; c < own_channels; ++c) {
        const acc by = sums.count ? sums.offset[c] - joint.references[lane + c] : acc(0), more = acc(sums.count) * by;
        note(joint, lane + c, {total(sums.first[c]) + more, total(sums.second[c]) + by * (acc(2) * total(sums.first[c]) + more)});
    }
}
<% endif %>
<% if not derivative %>
// The sums of so many elements about a reference become the mean, as in channel_statistics.cuh, and the sum of squared differences from it.
__device__ __forceinline__ Left about_mean(Pair sums, acc reference, acc count) {
    const acc by = sums.first / maximum(count, acc(1)), squares = sums.second - sums.first * by;
    return {reference, by, squares < acc(0) ? acc(0) : squares};
}
<% endif %>
// to[slot] = the sums of what was noted of a slot by all warps; if not of the `derivative`, about their mean.
__device__ __forceinline__ void join_warps(Joint& joint, const Sizes& g, Left* to) {
    __syncthreads();
    for (int slot = threadIdx.x; slot < slots; slot += block) {
        Pair total = joint.of_warps[0][slot];
#pragma unroll
        for (int warp = 1; warp < warps; ++warp) total = add(total, joint.of_warps[warp][slot]);
        to[slot] = << "total" if derivative else "about_mean(total, joint.references[slot], elements_of(g, blockIdx.y))" >>;
    }
}
// What a block has left of a slot, as it adds up to the sums of all blocks.
__device__ __forceinline__ Pair of_block(const Sizes& g, const Left& left, [[maybe_unused]] acc reference, [[maybe_unused]] int rank) {
<% if derivative %>
    return left;
<% else %>
    const acc by = left.mean - reference + left.rest, more = elements_of(g, rank) * by;
    return {more, left.squares + more * by};
<% endif %>
}
__device__ __forceinline__ State state_of(const Sizes& g, Pair sums, [[maybe_unused]] acc reference) {
<% if derivative %>
    return {sums.first, sums.second};
<% else %>
    const acc count = acc(g.outer * g.inner) * acc(channels_here / slots);
    const Left moments = about_mean(sums, reference, count);
    return {count, moments.mean, moments.rest, moments.squares};
<% endif %>
}
// joint.whole[slot] = the sums of a slot of all blocks, added in the same order in every block.
// `meanwhile` is called before blocks wait for each other.
<% if wide %>
template <typename Meanwhile>
__device__ __forceinline__ void join_all(Joint& joint, const Sizes& g, const Meanwhile& meanwhile, Left* partials) {
    // Threads that add up a slot's sums, and loads that each has on their way.
    constexpr int several = block / slots < warps ? block / slots : warps, batch = 18;
    join_warps(joint, g, partials + blockIdx.y * slots);
    const unsigned arrived = grid_arrive();
    meanwhile();
    grid_wait(arrived);
    const int slot = threadIdx.x % slots, first = threadIdx.x / slots, blocks = gridDim.y;
    const acc reference = << "acc(0)" if derivative else "partials[slot].mean" >>;
    if (first < several) {
        Pair total{acc(0), acc(0)};
        for (int from = first; from < blocks; from += batch * several) {
            Left left[batch];
#pragma unroll
            for (int i = 0; i < batch; ++i) {
                const int rank = from + i * several;
                left[i] = rank < blocks ? partials[rank * slots + slot] : Left{};
            }
#pragma unroll
            for (int i = 0; i < batch; ++i) total = add(total, of_block(g, left[i], reference, from + i * several));
        }
        joint.of_warps[first][slot] = total;
    }
    __syncthreads();
    if (first == 0) {
        Pair total = joint.of_warps[0][slot];
#pragma unroll
        for (int i = 1; i < several; ++i) total = add(total, joint.of_warps[i][slot]);
        joint.whole[slot] = state_of(g, total, reference);
    }
    __syncthreads();
}
<% else %>
template <typename Meanwhile>
__device__ __forceinline__ void join_all(Joint& joint, const Sizes& g, const Meanwhile& meanwhile) {
    join_warps(joint, g, joint.of_block);
    << "cluster_arrive();" if cluster > 1 >>
    meanwhile();
    << "cluster_wait();" if cluster > 1 >>
    for (int slot = threadIdx.x; slot < slots; slot += block) {
        Pair total{acc(0), acc(0)};
        acc reference = acc(0);
#pragma unroll
        for (int rank = 0; rank < << cluster >>; ++rank) {
            const Left left = << "of_block_number(&joint.of_block[slot], rank)" if cluster > 1 else "joint.of_block[slot]" >>;
            << "if (rank == 0) reference = left.mean;" if not derivative >>
            total = add(total, of_block(g, left, reference, rank));
        }
        joint.whole[slot] = state_of(g, total, reference);
    }
    << "cluster_arrive();" if cluster > 1 >>
    __syncthreads();
}
<% endif %>
// No block ends, or notes other sums, before the others have read its sums.
__device__ __forceinline__ void wait_for_readers() { << "cluster_wait();" if cluster > 1 and not wide >> }
