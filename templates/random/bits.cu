// y[i] for i < n: << kind >> numbers from Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// 2011), counter (offset + i / each, 0, attempt) and a key of 64 bits: the words depend on nothing else.
// A group of four words gives << each >> elements of y (n).
// `live`: the offset is read from memory, where it changes between replays of one launch.
// Launch: a thread owns `piece` groups, << block >> threads a block. No shared memory.
<% include "prelude/math.cuh" %>

using Elem = << elem >>;

<% include "lib/philox.cuh" %>
<% if kind in ("uniform", "normal", "exponential", "gumbel") %>

using T = << acc >>;
// [0, 1) in steps of the spacing below 1 of the result's dtype.
__device__ __forceinline__ T unit(const Words& words, int i) {
<% if acc == "double" %>
    return T(joined(words.w[2 * i], words.w[2 * i + 1]) >> 11) * T(<< 2.0 ** -53 >>);
<% else %>
    return T(words.w[i] >> << 32 - digits >>) * T(<< 2.0 ** -digits >>);
<% endif %>
}
// (0, 1), its logarithm as fine as the words allow, and where `inside` that of 1 - u as well.
__device__ __forceinline__ T open_unit(const Words& words, int i, bool inside) {
<% if acc == "double" %>
    return (T(joined(words.w[2 * i], words.w[2 * i + 1]) >> 12) + T(0.5)) * T(<< 2.0 ** -52 >>);
<% else %>
    return inside ? (T(words.w[i] >> 9) + T(0.5)) * T(<< 2.0 ** -23 >>)
                  : (T(words.w[i]) + T(0.5)) * T(<< 2.0 ** -32 >>);
<% endif %>
}
<% endif %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    Elem* y, long long n, long long piece,
    << "const unsigned long long* place" if live else "unsigned long long offset" >>, unsigned k0, unsigned k1
<%- if kind == "integers" %>, unsigned long long range, long long low<% endif %>)
{
<% if live %>
    const unsigned long long offset = *place;
<% endif %>
    const long long groups = divide_up(n, (long long)<< each >>);
    const long long first = ((long long)blockIdx.x * << block >> + threadIdx.x) * piece;
    const long long last = minimum(groups, first + piece);
<% if kind == "integers" %>
    // Lemire, "Fast random integer generation in an interval", 2019: below this the low half is drawn again.
    const unsigned long long refused = range ? (0 - range) % range : 0;
<% endif %>
    for (long long group = first; group < last; ++group) {
        const Words words = philox(offset + group, 0, k0, k1);
        Elem made[<< each >>];
<% if kind == "bits" %>
#pragma unroll
        for (int i = 0; i < << each >>; ++i)
            made[i] = Elem(<< "words.w[i]" if each == 4 else "joined(words.w[2 * i], words.w[2 * i + 1])" >>);
<% elif kind == "integers" %>
#pragma unroll
        for (int i = 0; i < << each >>; ++i) {
            unsigned long long word = joined(words.w[2 * i], words.w[2 * i + 1]);
            unsigned long long value = range ? __umul64hi(word, range) : word;
            for (unsigned attempt = 1; word * range < refused; ++attempt) {
                const Words more = philox(offset + group, attempt, k0, k1);
                word = joined(more.w[2 * i], more.w[2 * i + 1]);
                value = __umul64hi(word, range);
            }
            made[i] = Elem((unsigned long long)low + value);
        }
<% elif kind == "normal" %>
        // Box and Muller, "A note on the generation of random normal deviates", 1958.
#pragma unroll
        for (int i = 0; i < << each >>; i += 2) {
            const T radius = sqrt(T(-2) * log(open_unit(words, i, false)));
            const T angle = T(<< 6.283185307179586 >>) * unit(words, i + 1);
            made[i] = cast<Elem>(radius * cos(angle));
            made[i + 1] = cast<Elem>(radius * sin(angle));
        }
<% else %>
#pragma unroll
        for (int i = 0; i < << each >>; ++i) {
<% if kind == "uniform" %>
            made[i] = cast<Elem>(unit(words, i));
<% elif kind == "exponential" %>
            made[i] = cast<Elem>(-log(open_unit(words, i, false)));
<% elif kind == "gumbel" %>
            made[i] = cast<Elem>(-log(-log(open_unit(words, i, true))));
<% endif %>
        }
<% endif %>
#pragma unroll
        for (int i = 0; i < << each >>; ++i) {
            if (group * << each >> + i < n) y[group * << each >> + i] = made[i];
        }
    }
}
