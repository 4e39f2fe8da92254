// Sums over parts of channels. Forward: count, mean and sum of squared differences from the mean, as parts[channel, part, 3].
// Of the `derivative`: the sums of dy and of dy * (x - mean), as parts[channel, part, 2]. Channels are those of all instances.
// Each thread subtracts an offset before it squares, so that a large mean costs no accuracy: the first element that it meets, and
// whenever it has met twice as many, their mean, as the first may be far from the others.
// Launch: see places.cuh. Shared, static: the sums of the block's threads. The order of sums is the same in every run.
<% include "prelude/next_kernel.cuh" %>
<% include "nn/channel_norm/places.cuh" %>
<% include "prelude/reduce.cuh" %>
constexpr bool derivative = << derivative | lower >>;
constexpr int numbers = derivative ? 2 : 3;
<% if derivative %>
struct State {
    acc total, product;
};
__device__ __forceinline__ State join(State a, State b) { return {a.total + b.total, a.product + b.product}; }
<% else %>
using State = Moments<acc>;
__device__ __forceinline__ State join(State a, State b) { return joined(a, b); }
<% endif %>
// The sums of differences from an offset, and of their squares, become those from the mean of what was summed.
__device__ __forceinline__ void move_to_mean(acc& offset, acc& first, acc& second, acc count) {
    const acc to = offset + first / count, by = to - offset;
    second += by * (by * count - acc(2) * first);
    first -= by * count;
    offset = to;
}

extern "C" __global__ void __launch_bounds__(block, << resident >>) << name >>(
    const T* x, << "const U* dy, const acc* statistics, " if derivative >>acc* parts, Sizes g)
{
    allow_next_kernel();
    Walk walk(g);
    acc offset[own_channels], first[own_channels], second[own_channels];
    clear(first), clear(second);
    index count = 0, moved = 0;
#pragma unroll
    for (int c = 0; c < own_channels; ++c)
        offset[c] = !walk.there() ? acc(0) : << "((const Statistics*)statistics)[of_group(g, walk.number(g) + c)].mean" if derivative else "cast<acc>(x[walk.at + c])" >>;
    while (walk.there()) {
        Pack<T, width> xs[unroll];
<% if derivative %>
        Pack<U, width> dys[unroll];
<% endif %>
        bool there[unroll];
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            there[u] = walk.there();
            if (there[u]) {
                xs[u] = load_pack<width>(x + walk.at);
                << "dys[u] = load_pack<width>(dy + walk.at);" if derivative >>
                walk.go_on();
            }
        }
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            if (!there[u]) continue;
            acc own[width];
            unpack(xs[u], own);
<% if derivative %>
            acc given[width];
            unpack(dys[u], given);
<% endif %>
            count += last ? 1 : width;
#pragma unroll
            for (int v = 0; v < width; ++v) {
                const int c = last ? v : 0;
                const acc apart = own[v] - offset[c];
<% if derivative %>
                first[c] += given[v], second[c] += given[v] * apart;
<% else %>
                first[c] += apart, second[c] += apart * apart;
<% endif %>
            }
        }
        if (!derivative && count >= 2 * moved) {
            moved = count;
#pragma unroll
            for (int c = 0; c < own_channels; ++c) move_to_mean(offset[c], first[c], second[c], acc(count));
        }
    }
    __shared__ State shared[own_channels][block];
    const acc share = acc(1) / acc(maximum(count, index(1)));
#pragma unroll
    for (int c = 0; c < own_channels; ++c) {
<% if derivative %>
        shared[c][threadIdx.x] = {first[c], second[c]};
<% else %>
        const acc mean = first[c] * share, squares = second[c] - first[c] * mean;
        shared[c][threadIdx.x] = {acc(count), offset[c] + mean, squares < acc(0) ? acc(0) : squares};
<% endif %>
    }
    for (int half = down / 2; half > 0; half /= 2) {
        __syncthreads();
        if (int(threadIdx.x) < half * across) {
#pragma unroll
            for (int c = 0; c < own_channels; ++c)
                shared[c][threadIdx.x] = join(shared[c][threadIdx.x], shared[c][threadIdx.x + half * across]);
        }
    }
    if (int(threadIdx.x) >= across || walk.channel >= g.channels) return;
#pragma unroll
    for (int c = 0; c < own_channels; ++c) {
        const State made = shared[c][threadIdx.x];
        acc* const to = parts + ((walk.number(g) + c) * gridDim.y + blockIdx.y) * numbers;
<% if derivative %>
        to[0] = made.total, to[1] = made.product;
<% else %>
        to[0] = made.count, to[1] = made.mean, to[2] = made.squares;
<% endif %>
    }
}
