// counts[b] = how many of the n elements of x are in bin b < bins. Rule "value": x itself is the number of the bin. Rules
// "even" and "search": bin b is edges[b] <= x < edges[b + 1], the last one with its end; edges (bins + 1) ascends.
// Mode "own": block k counts for itself, in row k of counts (blocks, bins). Mode "shared": a block counts in shared
// memory, << "bins integers" if mode == "shared" else "not here" >>, and adds that to counts (bins). Mode "global": counts (bins) is added to at once.
// Mode "place": instead of counting, the bin of each element is written to counts (n); bins for none.
// Launch: a block takes `piece` elements. The atomics add integers, so that their order does not matter.
using C = << compute >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << source >>* __restrict__ x,
<%- if rule != "value" %> const << edge >>* __restrict__ edges,<% endif %> << counter >>* counts, long long n,
    long long piece, long long bins)
{
<% if rule != "value" %>
    const C low = cast<C>(edges[0]), high = cast<C>(edges[bins]);
<% endif %>
<% if rule == "even" %>
    const C scale = C(bins) / (high - low);
<% endif %>
<% if mode == "shared" %>
    extern __shared__ unsigned int held[];
    for (long long b = threadIdx.x; b < bins; b += << block >>) held[b] = 0;
    __syncthreads();
<% endif %>
    const long long first = (long long)blockIdx.x * piece, last = minimum(n, first + piece);
    for (long long i = first + threadIdx.x; i < last; i += << block >>) {
        long long bin = bins;
<% if rule == "value" %>
        const long long value = (long long)x[i];
        if (value >= 0 && value < bins) bin = value;
<% else %>
        const C value = cast<C>(x[i]);
        // NaN is in no bin.
        if (value >= low && value <= high) {
<% if rule == "even" %>
            // A guess, then what the edges say.
            const C guess = (value - low) * scale;
            bin = guess >= C(1) ? (guess < C(bins) ? (long long)guess : bins - 1) : 0;
            while (bin > 0 && value < cast<C>(edges[bin])) --bin;
            while (bin + 1 < bins && value >= cast<C>(edges[bin + 1])) ++bin;
<% else %>
            // The first edge above the value.
            long long start = 0, count = bins;
            while (count > 0) {
                const long long step = count / 2;
                if (value >= cast<C>(edges[start + step])) start += step + 1, count -= step + 1;
                else count = step;
            }
            bin = start - 1;
<% endif %>
        }
<% endif %>
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
    for (long long b = threadIdx.x; b < bins; b += << block >>)
        if (held[b]) atomicAdd((unsigned long long*)&counts[b], (unsigned long long)held[b]);
<% endif %>
}
