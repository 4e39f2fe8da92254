// What a thread reads of its channels stays in shared memory until results are made, so that global memory is read once: `kept` packs
// of each array for each member. When a result is made, the pack at its place of the cluster's next unit is sent for.
// Shared, dynamic: the packs of x, then, of the `derivative`, those of dy; a thread uses its own ones alone.
<% include "prelude/copy_async.cuh" %>
constexpr int kept = << kept >>, parts = members > 1 ? 1 : kept < 4 ? kept : 4;  // groups of copies, of a unit
constexpr int each_part = (kept + parts - 1) / parts;

template <typename P, typename E>
__device__ __forceinline__ void bring_pack(P* to, const E* from) {
    if constexpr (sizeof(P) >= 4) copy_async(to, (const P*)from);
    else *to = *(const P*)from;
}

// The packs that a thread has of a member's part of a channel.
__device__ __forceinline__ int number_of(const WalkOf<false>& walk) { return walk.there() ? int((walk.left - 1) / step) + 1 : 0; }

struct Kept {
    Pack<T, width>* x;
    Pack<U, width>* dy;
    const T* from;
    const U* above;

    __device__ __forceinline__ Kept(unsigned char* shared, const T* all, const U* all_above)
        : x((Pack<T, width>*)shared + threadIdx.x),
          dy((Pack<U, width>*)((Pack<T, width>*)shared + members * kept * block) + threadIdx.x), from(all), above(all_above)
    {}
    __device__ __forceinline__ void bring_one(const WalkOf<false>& walk, int place) const {
        bring_pack(x + place * block, from + walk.at);
        << "bring_pack(dy + place * block, above + walk.at);" if derivative >>
    }
    // Some of a thread's packs, of which `count` are there.
    struct Packs {
        Pack<T, width> x[unroll];
        Pack<U, width> dy[unroll];

        __device__ __forceinline__ void load(const Kept& from, int place, int count) {
#pragma unroll
            for (int u = 0; u < unroll; ++u) {
                if (u < count) x[u] = from.x[(place + u) * block];
                << "if (u < count) dy[u] = from.dy[(place + u) * block];" if derivative >>
            }
        }
    };
    // Sends for a unit's packs.
    __device__ __forceinline__ void bring(const Sizes& g, int unit) const {
        for (int m = 0; m < members; ++m) {
            WalkOf<false> walk = Group(g, unit).walk(g, m);
            for (int part = 0, i = 0; part < parts; ++part) {
                for (; i < (part + 1) * each_part && walk.there(); ++i, walk.go_on()) bring_one(walk, m * kept + i);
                if (m == members - 1) commit_copies();
            }
        }
    }
    // Adds those of a member to sums, each group when it has come.
    template <int PART = 0>
    __device__ __forceinline__ void add_to(Sums& sums, const WalkOf<false>& walk, int member) const {
        if (members == 1 || member == 0) wait_copies<parts - 1 - PART>();
        const int count = number_of(walk);
<% if not derivative %>
        if (PART == 0 && member == 0 && count > 0) {
#pragma unroll
            for (int c = 0; c < own_channels; ++c) sums.offset[c] = cast<acc>(x[0].at[c]);
        }
<% endif %>
        const int end = minimum((PART + 1) * each_part, count);
        for (int i = PART * each_part; i < end; i += unroll) {
            Packs some;
            some.load(*this, member * kept + i, end - i);
#pragma unroll
            for (int u = 0; u < unroll; ++u) {
                if (u < end - i) sums.add(some.x[u], some.dy[u]);
            }
            sums.settle();
        }
        if constexpr (PART + 1 < parts) add_to<PART + 1>(sums, walk, member);
    }
    // Writes the results of a member, and sends for the packs of the next unit, unless it is none of `units`.
    __device__ __forceinline__ void write(
        const Sizes& g, WalkOf<false> walk, Result* y, const Channel (&own)[own_channels], int member, int next, int units) const
    {
        WalkOf<false> ahead = Group(g, minimum(next, units - 1)).walk(g, member);
        if (next >= units) ahead.left = 0;
        const int count = number_of(walk), most = maximum(count, number_of(ahead));
        for (int part = 0; part < parts; ++part) {
            const int end = minimum((part + 1) * each_part, most);
            for (int i = part * each_part; i < end; i += unroll) {
                const int here = minimum(end, count) - i;
                Packs some;
                some.load(*this, member * kept + i, here);
#pragma unroll
                for (int u = 0; u < unroll; ++u) {
                    if (u < end - i && ahead.there()) bring_one(ahead, member * kept + i + u), ahead.go_on();
                }
#pragma unroll
                for (int u = 0; u < unroll; ++u) {
                    if (u < here) write_pack(y + walk.at, some.x[u], some.dy[u], own), walk.go_on();
                }
            }
            if (member == members - 1) commit_copies();
        }
    }
};
