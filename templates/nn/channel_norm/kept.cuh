// A thread's elements of its channels stay in shared memory until results are computed, so global memory is read once: `kept` packs
// of each array for each member. When results are computed of channels that do not lie innermost, the packs at their slots of the
// cluster's next unit are sent for, `ahead` elements away. While blocks wait for each other, the first `asked` ones of a member are
// on their way to the L2 cache.
// Shared, dynamic: the packs of x, then, of the `derivative`, those of dy; a thread uses its own ones alone.
<% include "prelude/copy_async.cuh" %>
constexpr int kept = << kept >>, parts = members > 1 ? 1 : kept < 4 ? kept : 4;  // groups of copies, of a unit
constexpr int each_part = (kept + parts - 1) / parts;

template <typename P, typename E>
__device__ __forceinline__ void stage_pack(P* to, const E* from) {
    if constexpr (sizeof(P) >= 4) copy_async(to, (const P*)from);
    else *to = *(const P*)from;
}
// The packs that a thread has of a member.
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
    __device__ __forceinline__ void stage_one(index at, int slot) const {
        stage_pack(x + slot * block, from + at);
        << "stage_pack(dy + slot * block, above + at);" if derivative >>
    }
    // Sends for a unit's packs.
    __device__ __forceinline__ void stage(const Sizes& g, int unit) const {
        for (int m = 0; m < members; ++m) {
            WalkOf<false> walk = Group(g, unit).walk(g, m);
#pragma unroll 1
            for (int part = 0, i = 0; part < parts; ++part) {
#pragma unroll 1
                for (; i < (part + 1) * each_part && walk.there(); ++i, walk.go_on()) stage_one(walk.at, m * kept + i);
                if (m == members - 1) commit_copies();
            }
        }
    }
<% if asked %>
    // Asks for the first packs of a unit.
    __device__ __forceinline__ void ask(const Sizes& g, int unit) const {
        for (int m = 0; m < members; ++m) {
            WalkOf<false> walk = Group(g, unit).walk(g, m);
#pragma unroll 1
            for (int i = 0; i < << asked >> && walk.there(); ++i, walk.go_on()) {
                ask_ahead(from + walk.at);
                << "ask_ahead(above + walk.at);" if derivative >>
            }
        }
    }
<% endif %>
    template <int N>
    __device__ __forceinline__ void load(Pack<T, width> (&xs)[N], Pack<U, width> (&dys)[N], int slot) const {
#pragma unroll
        for (int u = 0; u < N; ++u) {
            xs[u] = load_pack<width>((const T*)(x + (slot + u) * block));
            << "dys[u] = load_pack<width>((const U*)(dy + (slot + u) * block));" if derivative >>
        }
    }
    template <int N>
    __device__ __forceinline__ void add_some(Sums& sums, int slot) const {
        Pack<T, width> xs[N];
        Pack<U, width> dys[N];
        load(xs, dys, slot);
#pragma unroll
        for (int u = 0; u < N; ++u) sums.add(xs[u], dys[u]);
        sums.settle();
    }
    // Adds those of a member to sums, each group when it has come.
    template <int PART = 0>
    __device__ __forceinline__ void add_to(Sums& sums, const WalkOf<false>& walk, int member) const {
        if (members == 1 || member == 0) wait_copies<parts - 1 - PART>();
        const int count = number_of(walk), end = minimum((PART + 1) * each_part, count);
<% if not derivative %>
        if (PART == 0 && member == 0 && count > 0) {
#pragma unroll
            for (int c = 0; c < own_channels; ++c) sums.offset[c] = cast<acc>(x[0].at[c]);
        }
<% endif %>
        int i = PART * each_part;
#pragma unroll 1
        for (; i + unroll <= end; i += unroll) add_some<unroll>(sums, member * kept + i);
#pragma unroll 1
        for (; i < end; ++i) add_some<1>(sums, member * kept + i);
        if constexpr (PART + 1 < parts) add_to<PART + 1>(sums, walk, member);
    }
    template <int N>
    __device__ __forceinline__ void write_some(
        WalkOf<false>& walk, Result* y, const Channel (&own)[own_channels], int slot, index ahead) const
    {
        Pack<T, width> xs[N];
        Pack<U, width> dys[N];
        index at[N];
        load(xs, dys, slot);
#pragma unroll
        for (int u = 0; u < N; ++u, walk.go_on()) {
            at[u] = walk.at;
            if (ahead != 0) stage_one(walk.at + ahead, slot + u);
        }
#pragma unroll
        for (int u = 0; u < N; ++u) write_pack(y + at[u], xs[u], dys[u], own);
    }
    // Writes the results of a member, and sends for the packs of the next unit.
    __device__ __forceinline__ void write(WalkOf<false> walk, Result* y, const Channel (&own)[own_channels], int member, index ahead) const {
        const int count = number_of(walk);
#pragma unroll 1
        for (int part = 0, i = 0; part < parts; ++part) {
            const int end = minimum((part + 1) * each_part, count);
#pragma unroll 1
            for (; i + unroll <= end; i += unroll) write_some<unroll>(walk, y, own, member * kept + i, ahead);
#pragma unroll 1
            for (; i < end; ++i) write_some<1>(walk, y, own, member * kept + i, ahead);
            if (member == members - 1) commit_copies();
        }
    }
    // How far away the cluster's next unit is; 0 if there is none. One of channels that lie innermost may have fewer of them.
    static __device__ __forceinline__ index ahead_of(const Sizes& g, const Group& here, int unit, int units) {
        if (unit + int(gridDim.x) >= units) return 0;
        const Group next(g, unit + gridDim.x);
        return ((next.instance - here.instance) * g.outer * g.channels + next.first - here.first) * g.inner;
    }
};
