// The sums of a thread over elements of its channels: of differences from an offset and of their squares, or, of the
// `derivative`, of dy and of dy * (x - offset), where dy is what the activation passes on of what is given.
// Each thread subtracts an offset before it squares, so that a large mean costs no accuracy: the first element that it meets, and
// whenever it has met twice as many, their mean, as the first may be far from the others.
<% include "prelude/reduce.cuh" %>
<% include "nn/channel_norm/walk.cuh" %>
constexpr bool derivative = << derivative | lower >>;
<% if derivative %>
struct State {
    acc total, product;
};
__device__ __forceinline__ State join(State a, State b) { return {a.total + b.total, a.product + b.product}; }
<% else %>
<% include "nn/channel_norm/moments.cuh" %>
using State = ShiftedMoments;
__device__ __forceinline__ State join(State a, State b) { return joined(a, b); }
<% endif %>
// The sums of differences from an offset, and of their squares, become those from the mean of what was summed.
__device__ __forceinline__ void move_to_mean(acc& offset, acc& first, acc& second, acc count, acc share) {
    const acc to = offset + first * share, by = to - offset;
    second += by * (by * count - acc(2) * first);
    first -= by * count;
    offset = to;
}

struct Sums {
    acc offset[own_channels], first[own_channels][lanes], second[own_channels][lanes];
    index count = 0, moved = 0;
<% if derivative and activation %>
    acc factor[own_channels], shift[own_channels];

    // Tells what the activation was applied to in a channel.
    template <typename W>
    __device__ __forceinline__ void normalize(int c, const Statistics& of, const W* weight, const W* bias, index channel) {
        factor[c] = of.rstd * (weight ? cast<acc>(weight[channel]) : acc(1));
        shift[c] = (bias ? cast<acc>(bias[channel]) : acc(0)) - of.rest * factor[c];
    }
    // What is given of the results of elements becomes what the activation passes on.
    __device__ __forceinline__ void pass_on(const acc (&own)[width], acc (&given)[width]) const {
        over_pack<width>([&](int v) {
            const int c = last ? v : 0;
            given[v] = activated((own[v] - offset[c]) * factor[c] + shift[c], given[v]);
        });
    }
<% endif %>

    __device__ __forceinline__ Sums() {
        clear(offset);
#pragma unroll
        for (int c = 0; c < own_channels; ++c) clear(first[c]), clear(second[c]);
    }
    // Adds a pack of elements, and of dy.
    __device__ __forceinline__ void add(const Pack<T, width>& pack, [[maybe_unused]] const Pack<U, width>& above) {
        acc own[width];
        unpack(pack, own);
<% if derivative %>
        acc given[width];
        unpack(above, given);
<% endif %>
<% if derivative and activation %>
        pass_on(own, given);
<% endif %>
        count += last ? 1 : width;
#pragma unroll
        for (int v = 0; v < width; ++v) {
            const int c = last ? v : 0, lane = last ? 0 : v % lanes;
            const acc apart = own[v] - offset[c];
<% if derivative %>
            first[c][lane] += given[v], second[c][lane] += given[v] * apart;
<% else %>
            first[c][lane] += apart, second[c][lane] += apart * apart;
<% endif %>
        }
    }
    __device__ __forceinline__ void settle() {
        if (derivative || count < 2 * moved) return;
        moved = count;
        const acc share = acc(1) / acc(count);
#pragma unroll
        for (int c = 0; c < own_channels; ++c) {
            acc whole = total(first[c]), squares = total(second[c]);
            clear(first[c]), clear(second[c]);
            move_to_mean(offset[c], whole, squares, acc(count), share);
            first[c][0] = whole, second[c][0] = squares;
        }
    }
    // `seen` is called with the place of each pack, and that of dy; if an activation needs it, with the pack between them.
    template <bool back, typename Seen>
    __device__ __forceinline__ void take(WalkOf<back> walk, const T* x, const U* dy, const Seen& seen) {
        while (walk.there()) {
            Pack<T, width> xs[unroll];
            Pack<U, width> dys[unroll];
            index at[unroll];
            load_next(walk, x, dy, xs, dys, at);
#pragma unroll
            for (int u = 0; u < unroll; ++u) {
                if (at[u] >= 0) add(xs[u], dys[u]), seen(at[u], << "xs[u], " if derivative and activation >>dys[u]);
            }
            settle();
        }
    }
    template <bool back>
    __device__ __forceinline__ void take(WalkOf<back> walk, const T* x, const U* dy) {
        take(walk, x, dy, [](index, << "const Pack<T, width>&, " if derivative and activation >>const Pack<U, width>&) {});
    }
    __device__ __forceinline__ State of(int c) const {
<% if derivative %>
        return {total(first[c]), total(second[c])};
<% else %>
        const acc whole = total(first[c]), mean = whole * (acc(1) / acc(maximum(count, index(1))));
        const acc squares = total(second[c]) - whole * mean;
        return {acc(count), offset[c], mean, squares < acc(0) ? acc(0) : squares};
<% endif %>
    }
};
