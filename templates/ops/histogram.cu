// counts[b] = how many of the n elements of x are in bin b < bins. Rule "value": x itself is the number of the bin. Rules
// "even" and "search": bin b is edges[b] <= x < edges[b + 1], the last one with its end; edges (bins + 1) ascends.
// Mode "own": block k counts for itself, in row k of counts (blocks, bins). Mode "shared": a block counts in shared
// memory, `bins` integers, and adds that to counts (bins). Mode "global": counts (bins) is added to at once.
// Mode "place": instead of counting, the bin of each element is written to counts (n); bins for none.
// Launch: a block takes `piece` elements. The atomics add integers, so that their order does not matter.
using X = << source >>;
using C = << compute >>;
constexpr int block = << block >>;

<% if rule == "value" %>
struct Bins {
    long long bins;

    // The number of the bin, `bins` where there is none.
    __device__ __forceinline__ long long operator()(X x) const {
        const long long value = (long long)x;
        return value >= 0 && value < bins ? value : bins;
    }
};
<% else %>
using Edge = << edge >>;
struct Bins {
    const Edge* edges;
    long long bins;
    C low, high, scale;

    __device__ __forceinline__ Bins(const Edge* edges, long long bins)
        : edges(edges), bins(bins), low(cast<C>(edges[0])), high(cast<C>(edges[bins])), scale(C(bins) / (high - low)) {}
    // The number of the bin, `bins` where there is none, as for NaN.
    __device__ __forceinline__ long long operator()(X x) const {
        const C value = cast<C>(x);
        if (!(value >= low && value <= high)) return bins;
        return << rule >>(value);
    }
    // A guess, then what the edges say.
    __device__ __forceinline__ long long even(C value) const {
        const C guess = (value - low) * scale;
        long long bin = guess >= C(1) ? (guess < C(bins) ? (long long)guess : bins - 1) : 0;
        while (bin > 0 && value < cast<C>(edges[bin])) --bin;
        while (bin + 1 < bins && value >= cast<C>(edges[bin + 1])) ++bin;
        return bin;
    }
    // The one before the first edge above the value.
    __device__ __forceinline__ long long search(C value) const {
        long long start = 0, count = bins;
        while (count > 0) {
            const long long step = count / 2;
            if (value >= cast<C>(edges[start + step])) start += step + 1, count -= step + 1;
            else count = step;
        }
        return start - 1;
    }
};
<% endif %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const X* __restrict__ x, << "const Edge* __restrict__ edges," if rule != "value" >>
    long long* counts, long long n, long long piece, long long bins)
{
    const Bins bin_of{<< "edges, " if rule != "value" >>bins};
<% if mode == "shared" %>
    extern __shared__ unsigned int held[];
    for (long long b = threadIdx.x; b < bins; b += block) held[b] = 0;
    __syncthreads();
<% endif %>
    const long long first = (long long)blockIdx.x * piece, last = minimum(n, first + piece);
    for (long long i = first + threadIdx.x; i < last; i += block) {
        const long long bin = bin_of(x[i]);
<% if mode == "place" %>
        counts[i] = bin;
<% elif mode == "own" %>
        if (bin < bins) ++counts[blockIdx.x * bins + bin];
<% elif mode == "shared" %>
        if (bin < bins) atomicAdd(&held[bin], 1u);
<% else %>
        if (bin < bins) atomicAdd((unsigned long long*)&counts[bin], 1ull);
<% endif %>
    }
<% if mode == "shared" %>
    __syncthreads();
    for (long long b = threadIdx.x; b < bins; b += block)
        if (held[b]) atomicAdd((unsigned long long*)&counts[b], (unsigned long long)held[b]);
<% endif %>
}
