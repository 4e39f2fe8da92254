// What the kernels of batch and group norm share: how the threads of a block share the elements of channels.
// An array is (instances, outer, channels, inner) in memory. Statistics are of `together` neighbouring channels of an instance;
// the one instance of batch norm is the whole batch. The outer * inner elements of a channel are a sequence, which is cut into
// parts of `each`. Channels that lie innermost (inner is 1) are read in packs of `width` channels, others in packs along the
// sequence, which never reach into another channel.
// `backwards`, elements are taken from the last to the first: those that a kernel before has read last may still be in a cache. If
// that had `before` parts side by side, theirs are interleaved.
// An `activation` follows the normalization z = (x - mean) * factor + shift, and its derivative is a part of the `derivative`.
// Launch: blockIdx.x numbers instances, and in each `blocks` times `across` packs of channels, or its channels; blockIdx.y parts.
<% include "prelude/packs.cuh" %>
<% if activation %>
<% include "prelude/math.cuh" %>
<% include "lib/activation.cuh" %>
<% endif %>
using T = << elem >>;
using U = << out >>;
using acc = << acc >>;
<% include "nn/channel_norm/channel_statistics.cuh" %>
using index = << index >>;
constexpr int block = << block >>, width = << width >>, across = << across >>, unroll = << unroll >>;
constexpr bool last = << last | lower >>, backwards = << backwards | lower >>;
constexpr int down = block / across;            // threads that share a channel
constexpr int own_channels = last ? width : 1;  // of a thread
constexpr int lanes = << lanes >>;              // sums of each of them, side by side
constexpr int step = last ? down : down * width;

<< Sizes >>
// A thread's place among the elements of a channel's part, and how it moves on; `back`, from the last to the first.
template <bool back>
struct WalkOf {
    index instance, channel, at, left, in, step_in, step_at, row, wrap;

    __device__ __forceinline__ WalkOf(const Sizes& g, index of_instance, index own_channel, index part)
        : instance(of_instance), channel(own_channel)
    {
        index from = part * g.each + threadIdx.x / across * (last ? 1 : width);
        const index end = minimum((part + 1) * g.each, g.outer * g.inner);
        left = channel < g.channels ? end - from : index(0);
        if (back && left > 0) from += (left - 1) / step * step;
        row = g.channels * g.inner;
        wrap = g.inner, in = last ? index(0) : from % g.inner;
        step_in = last ? index(0) : step % g.inner;
        step_at = last ? step * row : step / g.inner * row + step_in;
        at = (instance * g.outer + (last ? from : from / g.inner)) * row + channel * g.inner + in;
    }
    // The number of a channel among those of all instances.
    __device__ __forceinline__ index number(const Sizes& g) const { return instance * g.channels + channel; }
    __device__ __forceinline__ bool there() const { return left > 0; }
    __device__ __forceinline__ void go_on() {
        left -= step, at += back ? -step_at : step_at;
        if (last) return;
        in += back ? -step_in : step_in;
        if (back && in < 0) in += wrap, at -= row - wrap;
        if (!back && in >= wrap) in -= wrap, at += row - wrap;
    }
};
using Walk = WalkOf<backwards>;
// The thread's channel among `channels`, of the pack of channels, or the channel, of a block.
__device__ __forceinline__ index own_channel(index of_block) {
    return last ? (of_block * across + threadIdx.x % across) * width : of_block;
}
// The walk of a thread whose block's numbers say what it has.
__device__ __forceinline__ Walk own_walk(const Sizes& g) {
    const index from_end = gridDim.y - 1 - blockIdx.y;
    const index part = backwards ? from_end % g.before * (gridDim.y / g.before) + from_end / g.before : index(blockIdx.y);
    const index block_x = backwards ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
    return Walk(g, block_x / g.blocks, own_channel(block_x % g.blocks), part);
}
// The number of the statistics of a channel.
__device__ __forceinline__ index of_group(const Sizes& g, index number) { return g.together == 1 ? number : number / g.together; }
// Reads the next packs of a walk, and of dy, and tells where they are; -1 beyond its end.
template <bool back>
__device__ __forceinline__ void load_next(
    WalkOf<back>& walk, const T* x, [[maybe_unused]] const U* dy, Pack<T, width> (&xs)[unroll], [[maybe_unused]] Pack<U, width> (&dys)[unroll],
    index (&at)[unroll])
{
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
        at[u] = walk.there() ? walk.at : index(-1);
        if (walk.there()) {
            xs[u] = load_pack<width>(x + walk.at);
            << "dys[u] = load_pack<width>(dy + walk.at);" if derivative >>
            walk.go_on();
        }
    }
}
