// What a thread reads of its channels stays in shared memory until results are made, so that global memory is read once: `kept` packs
// of each array for each of the `members` channels that a block takes one after another.
// Shared, dynamic: the packs of x, then, of the `derivative`, those of dy; a thread uses its own ones alone.
<% include "prelude/copy_async.cuh" %>
constexpr int kept = << kept >>, turns = members > 1 ? 1 : kept < 4 ? kept : 4;  // groups of copies
constexpr int each_turn = (kept + turns - 1) / turns;

template <typename P, typename E>
__device__ __forceinline__ void bring_pack(P* to, const E* from) {
    if constexpr (sizeof(P) >= 4) copy_async(to, (const P*)from);
    else *to = *(const P*)from;
}

struct Kept {
    Pack<T, width>* x;
    Pack<U, width>* dy;

    __device__ __forceinline__ explicit Kept(unsigned char* shared)
        : x((Pack<T, width>*)shared + threadIdx.x), dy((Pack<U, width>*)((Pack<T, width>*)shared + members * kept * block) + threadIdx.x)
    {}
    // Sends for the packs of a channel.
    __device__ __forceinline__ void bring(WalkOf<false> walk, const T* from, [[maybe_unused]] const U* above, int member) const {
        for (int turn = 0, i = 0; turn < turns; ++turn) {
            for (; i < (turn + 1) * each_turn && walk.there(); ++i, walk.go_on()) {
                bring_pack(x + (member * kept + i) * block, from + walk.at);
                << "bring_pack(dy + (member * kept + i) * block, above + walk.at);" if derivative >>
            }
            if (members == 1) commit_copies();
        }
    }
    // Adds those of a channel to sums, each group when it has come.
    template <int TURN = 0>
    __device__ __forceinline__ void add_to(Sums& sums, const WalkOf<false>& walk, int member) const {
        if (members == 1) wait_copies<turns - 1 - TURN>();
        const int count = number_of(walk);
        for (int i = TURN * each_turn; i < (TURN + 1) * each_turn && i < count; ++i) {
            sums.add(x[(member * kept + i) * block], << "dy[(member * kept + i) * block]" if derivative else "{}" >>);
            sums.settle();
        }
        if constexpr (TURN + 1 < turns) add_to<TURN + 1>(sums, walk, member);
    }
    __device__ __forceinline__ void write(WalkOf<false> walk, Result* y, const Channel (&own)[own_channels], int member) const {
#pragma unroll << unroll >>
        for (int i = 0; walk.there(); ++i, walk.go_on())
            write_pack(y + walk.at, x[(member * kept + i) * block], << "dy[(member * kept + i) * block]" if derivative else "{}" >>, own);
    }
    // The packs that a thread has of a channel.
    static __device__ __forceinline__ int number_of(const WalkOf<false>& walk) {
        return walk.there() ? int((walk.left - 1) / step) + 1 : 0;
    }
};
