// A binary search in sorted elements, NaN last; `items` are searched at once, in lockstep, so that their loads overlap.
using acc = << acc >>;
using I = << index >>;
constexpr int block = << block >>, items = << items >>;
constexpr bool right = << "true" if right else "false" >>;

// Whether x is below y, where NaN is above all; without branches, which would be taken at random.
<% if "complex" in acc %>
// As in sort: numbers without NaN come first, then those of which only the imaginary part is NaN, only the real part, and both.
__device__ __forceinline__ int rank_of_nan(acc x) { return 2 * (x.re != x.re) + (x.im != x.im); }
__device__ __forceinline__ bool below(acc x, acc y) {
    const int of_x = rank_of_nan(x), of_y = rank_of_nan(y);
    return (of_x < of_y) | ((of_x == of_y) & ((x.re < y.re) | (!(y.re < x.re) & (x.im < y.im))));
}
<% else %>
__device__ __forceinline__ bool below(acc x, acc y) { return (x < y) | ((y != y) & (x == x)); }
<% endif %>
// Whether x comes before what is sought: below it, or with `right` equal to it.
__device__ __forceinline__ bool before(acc x, acc wanted) { return right ? !below(wanted, x) : below(x, wanted); }

// How many of the n elements come before each of `wanted`.
template <typename Element>
__device__ __forceinline__ void count_before(I (&position)[items], const acc (&wanted)[items], I n, const Element& element) {
#pragma unroll
    for (int k = 0; k < items; ++k) position[k] = 0;
    // The answer is one of position to position + length.
    for (I length = n; length > 1;) {
        const I middle = length / 2;
#pragma unroll
        for (int k = 0; k < items; ++k) position[k] += I(before(element(position[k] + middle - 1), wanted[k])) * middle;
        length -= middle;
    }
#pragma unroll
    for (int k = 0; k < items; ++k) position[k] += n > 0 && before(element(position[k]), wanted[k]);
}
<% if kept %>

// Elements in shared memory, padded: the first probes are a power of two apart, and would share a bank.
struct Table {
    acc at[<< kept + kept // 32 + kept // 1024 + 1 >>];
    static __device__ __forceinline__ I padded(I i) { return i + i / 32u + i / 1024u; }
    template <typename T>
    __device__ __forceinline__ void fill(const T* __restrict__ xs, I n) {
        for (I i = threadIdx.x; i < n; i += block) at[padded(i)] = cast<acc>(xs[i]);
        __syncthreads();
    }
};
<% endif %>
