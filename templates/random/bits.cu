// y[i] for i < n: << kind >> numbers from Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// 2011), counter (offset + i / each, 0, attempt) and a key of 64 bits: the words depend on nothing else.
// A group of four words gives `each` elements of y (n), which is aligned to 16 bytes.
// `located`: each float is `loc + scale` times a number, which is rounded first, as one that is stored.
// `geometric`: trials up to the first success, of which `log_failure` is the logarithm of a failure's probability.
// `live`: the offset is read from memory, where it changes between replays of one launch.
// Launch: a block owns block * `piece` groups, neighbouring threads neighbouring ones. No shared memory.
// `stretch`: the groups of integers that a block of one thread draws at once; 1 for none.
<% include "prelude/math.cuh" %>
<% include "lib/philox.cuh" %>
<% include "lib/pack.cuh" %>
using Number = << elem >>;
constexpr int block = << block >>, each = << each >><< ", stretch = %d" % stretch if stretch > 1 >>;
// The random bits of one number, `each` of a group.
using Word = << "unsigned int" if each == 4 else "unsigned long long" >>;
constexpr int bits = 8 * sizeof(Word);
__device__ __forceinline__ Word word_of(const RandomWords& words, int i) {
    if constexpr (each == 2) return joined(words.w[2 * i], words.w[2 * i + 1]);
    return words.w[i];
}
<% if kind in ("uniform", "normal", "exponential", "gumbel", "laplace", "logistic", "cauchy", "geometric") %>

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
<% if kind == "normal" %>
<% include "prelude/near_root.cuh" %>

// The point that is a part of a turn from (1, 0) on the unit circle.
struct Point {
    T x, y;
};
__device__ __forceinline__ Point on_circle(Word turn) {
    if constexpr (sizeof(T) > 4) return {cos(T(6.283185307179586) * unit(turn)), sin(T(6.283185307179586) * unit(turn))};
    // In an eighth of a turn to either side of a quarter, the series up to t^9 and t^10 are exact to half a unit.
    const unsigned word = unsigned(turn), quarters = (shl(1u, 29) + word) >> 30;
    const T t = T(6.283185307179586 * half_to_the(34)) * T(int(shl(word, 2))), u = t * t;
    const T x = T(1) + u * (T(-1.0 / 2) + u * (T(1.0 / 24) + u * (T(-1.0 / 720) + u * (T(1.0 / 40320) + u * T(-1.0 / 3628800)))));
    const T y = t + t * u * (T(-1.0 / 6) + u * (T(1.0 / 120) + u * (T(-1.0 / 5040) + u * T(1.0 / 362880))));
    const T across = quarters & 1 ? y : x, up = quarters & 1 ? x : y;
    return {quarters == 1 || quarters == 2 ? -across : across, quarters > 1 ? -up : up};
}
<% endif %>
<% if kind == "integers" %>

// The range of a draw, 0 for all words. Lemire, "Fast random integer generation in an interval", 2019: where the low half of
// the product is below `refused`, a word is drawn again.
struct Interval {
    Word range, refused;
    unsigned long long low;

    __device__ __forceinline__ Interval(unsigned long long range, long long low)
        : range(Word(range)), refused(range ? Word(Word(0) - Word(range)) % Word(range) : 0), low(low) {}
    __device__ __forceinline__ Word high(Word word) const {
        if constexpr (each == 2) return __umul64hi(word, range);
        return Word((unsigned long long)word * range >> 32);
    }
    __device__ __forceinline__ bool refuses(Word word) const { return word * range < refused; }
    __device__ __forceinline__ Number number(Word word) const {
        const Word value = range ? high(word) : word;
        if constexpr (sizeof(Number) <= sizeof(Word)) return Number(Word(low) + value);
        return Number(low + value);
    }
};
<% endif %>

// The numbers of one group.
struct Group : Pack<Number, each> {
<% if kind == "normal" %>
    // Box and Muller, "A note on the generation of random normal deviates", 1958.
    template <int i>
    __device__ __forceinline__ void draw_pair(const RandomWords& words) {
        const T radius = near_root(T(-2) * log(open_unit<near_zero>(word_of(words, i))));
        const Point point = on_circle(word_of(words, i + 1));
        at[i] = cast<Number>(radius * point.x);
        at[i + 1] = cast<Number>(radius * point.y);
    }
<% endif %>
    __device__ __forceinline__ Group(
        unsigned long long counter, unsigned k0, unsigned k1<< ", const Interval& interval" if kind == "integers" >><< ", T loc, T scale" if located >><< ", T log_failure" if kind == "geometric" >>)
    {
        const RandomWords words = philox(counter, 0, k0, k1);
<% if kind == "normal" %>
        draw_pair<0>(words);
        if constexpr (each == 4) draw_pair<2>(words);
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
<% elif kind == "geometric" %>
            const T trials = floor(log(open_unit<near_zero>(word)) / log_failure) + T(1);
            at[i] = trials < T(<< 2.0 ** 63 >>) ? Number(trials) : limits<Number>::highest();
<% elif kind == "cauchy" %>
            at[i] = cast<Number>(tan(T(3.141592653589793) * (open_unit<near_ends>(word) - T(0.5))));
<% else %>
            for (unsigned attempt = 1; interval.refuses(word); ++attempt)
                word = word_of(philox(counter, attempt, k0, k1), i);
            at[i] = interval.number(word);
<% endif %>
        }
<% endif %>
<% if located %>
#pragma unroll
        for (int i = 0; i < each; ++i) at[i] = cast<Number>(loc + scale * cast<T>(at[i]));
<% endif %>
    }
<% if stretch > 1 %>
    // Without a branch, so that a compiler can vectorize. A word is refused if `least` falls below the limit.
    __device__ __forceinline__ Group(
        unsigned long long counter, unsigned k0, unsigned k1, const Interval& interval, Word& least)
    {
        const RandomWords words = philox(counter, 0, k0, k1);
#pragma unroll
        for (int i = 0; i < each; ++i) {
            const Word word = word_of(words, i);
            least = minimum(least, word * interval.range);
            at[i] = interval.number(word);
        }
    }
<% endif %>
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    Number* y, long long n, long long piece,
    << "const unsigned long long* counter_memory" if live else "unsigned long long offset" >>, unsigned k0,
    unsigned k1<< ", unsigned long long range, long long low" if kind == "integers" >><< ", T loc, T scale" if located >><< ", T log_failure" if kind == "geometric" >>)
{
    << "const unsigned long long offset = *counter_memory;" if live >>
    << "const Interval interval(range, low);" if kind == "integers" >>
    const long long groups = divide_up(n, (long long)each);
    const long long start = blockIdx.x * piece * block, last = minimum(groups, start + piece * block);
    const long long whole = minimum(last, n / each);
    long long group = start + threadIdx.x;
<% if stretch > 1 %>
    // Refused words are rare: a stretch with one is drawn once more.
    if (interval.refused <= Word(-1) / (16 * each * stretch)) {
        for (; group + stretch <= whole; group += stretch) {
            Word least = Word(-1);
            for (int k = 0; k < stretch; ++k)
                store_pack(y + (group + k) * each, Group(offset + group + k, k0, k1, interval, least));
            for (int k = 0; least < interval.refused && k < stretch; ++k)
                store_pack(y + (group + k) * each, Group(offset + group + k, k0, k1, interval));
        }
    }
<% endif %>
    for (; group < whole; group += block)
        store_pack(y + group * each, Group(offset + group, k0, k1<< ", interval" if kind == "integers" >><< ", loc, scale" if located >><< ", log_failure" if kind == "geometric" >>));
    // The last group has numbers to spare.
    if (group < last) {
        const Group result(offset + group, k0, k1<< ", interval" if kind == "integers" >><< ", loc, scale" if located >><< ", log_failure" if kind == "geometric" >>);
        for (int i = 0; group * each + i < n; ++i) y[group * each + i] = result.at[i];
    }
}
