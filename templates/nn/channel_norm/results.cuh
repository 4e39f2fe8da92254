// Results from elements and their channels' statistics, for the threads of walk.cuh. `streaming`, nobody reads results
// soon.
<% if streaming is defined and streaming %>
<% include "prelude/streaming.cuh" %>
<% endif %>
using Result = << "T" if derivative else "U" >>;
// A channel's factors of results: (x - mean) * factor + offset, or dy * factor - (x - mean) * slope + offset.
struct Channel {
    acc mean, factor, slope, offset<< ", shift" if derivative and activation >>;
};
// Those of a pack of elements, and of dy, written to `to`.
__device__ __forceinline__ void write_pack(
    Result* to, const Pack<T, width>& pack, [[maybe_unused]] const Pack<U, width>& given, const Channel (&own)[own_channels])
{
    acc numbers[width], above[width];
    unpack(pack, numbers);
    if constexpr (derivative) unpack(given, above);
<% if derivative and activation %>
    acc between[width];
#pragma unroll
    for (int v = 0; v < width; ++v) {
        const Channel& of = own[last ? v : 0];
        between[v] = (numbers[v] - of.mean) * of.factor + of.shift;
    }
    over_pack<width>([&](int v) { above[v] = activated(between[v], above[v]); });
<% endif %>
#pragma unroll
    for (int v = 0; v < width; ++v) {
        const Channel& of = own[last ? v : 0];
        const acc apart = numbers[v] - of.mean;
        numbers[v] = derivative ? above[v] * of.factor + (of.offset - apart * of.slope) : apart * of.factor + of.offset;
    }
<% if activation and not derivative %>
    over_pack<width>([&](int v) { numbers[v] = activated(numbers[v]); });
<% endif %>
    << "store_streaming((Pack<Result, width>*)to" if streaming is defined and streaming else "store_pack(to" >>, packed<Result>(numbers));
}
// Writes the results of a walk; `channels` tells the thread's channels, and is asked when the first elements are on their way.
template <bool back, typename Channels>
__device__ __forceinline__ void write_results(
    WalkOf<back> walk, const T* x, const U* dy, Result* y, const Channels& channels)
{
    Channel own[own_channels];
    bool known = false;
    while (walk.there()) {
        Pack<T, width> xs[unroll];
        Pack<U, width> dys[unroll];
        index at[unroll];
        load_next(walk, x, dy, xs, dys, at);
        if (!known) channels(own), known = true;
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            if (at[u] >= 0) write_pack(y + at[u], xs[u], dys[u], own);
        }
    }
}
template <bool back>
__device__ __forceinline__ void write_results(
    WalkOf<back> walk, const T* x, const U* dy, Result* y, const Channel (&own)[own_channels])
{
    write_results(walk, x, dy, y, [&](Channel (&to)[own_channels]) {
#pragma unroll
        for (int c = 0; c < own_channels; ++c) to[c] = own[c];
    });
}
