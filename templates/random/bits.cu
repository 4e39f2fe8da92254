// y[i] for i < n: << kind >> numbers from Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// 2011), counter (offset + i / each, 0, attempt) and a key of 64 bits: the words depend on nothing else.
// A group of four words gives `each` elements of y (n).
// `live`: the offset is read from memory, where it changes between replays of one launch.
// Launch: a thread owns `piece` groups. No shared memory.
<% include "prelude/math.cuh" %>
<% include "lib/philox.cuh" %>
using Number = << elem >>;
constexpr int block = << block >>, each = << each >>;
// What a number is made from, `each` of a group.
using Word = << "unsigned int" if each == 4 else "unsigned long long" >>;
constexpr int bits = 8 * sizeof(Word);
__device__ __forceinline__ Word word_of(const RandomWords& words, int i) {
    if constexpr (each == 2) return joined(words.w[2 * i], words.w[2 * i + 1]);
    return words.w[i];
}
<% if kind in ("uniform", "normal", "exponential", "gumbel", "laplace", "logistic", "cauchy") %>

using T = << acc >>;
// Digits of the result's dtype, and of numbers in (0, 1) that are fine near 0, or near both ends.
constexpr int digits = << digits >>, near_zero = bits == 64 ? 52 : 32, near_ends = bits == 64 ? 52 : 23;
__device__ constexpr double half_to_the(int n) { return n > 0 ? 0.5 * half_to_the(n - 1) : 1.0; }
// [0, 1) in steps of the spacing below 1 of the result's dtype.
__device__ __forceinline__ T unit(Word word) { return T(word >> (bits - digits)) * T(half_to_the(digits)); }
// (0, 1) in steps of 2^-kept, from the middle of one to the next's.
template <int kept>
__device__ __forceinline__ T open_unit(Word word) {
    return (T(word >> (bits - kept)) + T(0.5)) * T(half_to_the(kept));
}
<% endif %>
<% if kind == "integers" %>

// The range of a draw, 0 for all words. Lemire, "Fast random integer generation in an interval", 2019: where the low half of
// the product is below `refused`, a word is drawn again.
struct Interval {
    unsigned long long range, low, refused;

    __device__ __forceinline__ Interval(unsigned long long range, long long low)
        : range(range), low(low), refused(range ? (0 - range) % range : 0) {}
};
<% endif %>

// The numbers of one group.
struct Group {
    Number at[each];

    __device__ __forceinline__ Group(
        unsigned long long counter, unsigned k0, unsigned k1<< ", const Interval& interval" if kind == "integers" >>)
    {
        const RandomWords words = philox(counter, 0, k0, k1);
<% if kind == "normal" %>
        // Box and Muller, "A note on the generation of random normal deviates", 1958.
#pragma unroll
        for (int i = 0; i < each; i += 2) {
            const T radius = sqrt(T(-2) * log(open_unit<near_zero>(word_of(words, i))));
            const T angle = T(6.283185307179586) * unit(word_of(words, i + 1));
            at[i] = cast<Number>(radius * cos(angle));
            at[i + 1] = cast<Number>(radius * sin(angle));
        }
<% else %>
#pragma unroll
        for (int i = 0; i < each; ++i) {
            Word word = word_of(words, i);
<% if kind == "bits" %>
            at[i] = Number(word);
<% elif kind == "uniform" %>
            at[i] = cast<Number>(unit(word));
<% elif kind == "exponential" %>
            at[i] = cast<Number>(-log(open_unit<near_zero>(word)));
<% elif kind == "gumbel" %>
            at[i] = cast<Number>(-log(-log(open_unit<near_ends>(word))));
<% elif kind == "laplace" %>
            const T u = open_unit<near_ends>(word);
            at[i] = cast<Number>(u < T(0.5) ? log(T(2) * u) : -log(T(2) * (T(1) - u)));
<% elif kind == "logistic" %>
            const T u = open_unit<near_ends>(word);
            at[i] = cast<Number>(log(u / (T(1) - u)));
<% elif kind == "cauchy" %>
            at[i] = cast<Number>(tan(T(3.141592653589793) * (open_unit<near_ends>(word) - T(0.5))));
<% else %>
            unsigned long long value = interval.range ? __umul64hi(word, interval.range) : word;
            for (unsigned attempt = 1; word * interval.range < interval.refused; ++attempt) {
                word = word_of(philox(counter, attempt, k0, k1), i);
                value = __umul64hi(word, interval.range);
            }
            at[i] = Number(interval.low + value);
<% endif %>
        }
<% endif %>
    }
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    Number* y, long long n, long long piece,
    << "const unsigned long long* place" if live else "unsigned long long offset" >>, unsigned k0,
    unsigned k1<< ", unsigned long long range, long long low" if kind == "integers" >>)
{
    << "const unsigned long long offset = *place;" if live >>
    << "const Interval interval(range, low);" if kind == "integers" >>
    const long long groups = divide_up(n, (long long)each);
    const long long first = ((long long)blockIdx.x * block + threadIdx.x) * piece;
    const long long last = minimum(groups, first + piece);
    for (long long group = first; group < last; ++group) {
        const Group made(offset + group, k0, k1<< ", interval" if kind == "integers" >>);
#pragma unroll
        for (int i = 0; i < each; ++i) {
            if (group * each + i < n) y[group * each + i] = made.at[i];
        }
    }
}
