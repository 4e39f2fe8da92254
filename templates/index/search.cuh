// A binary search in sorted elements, NaN last; `items` are sought together, so that they take as many steps.
using acc = << acc >>;
using I = << index >>;
constexpr int block = << block >>, items = << items >>;
constexpr bool right = << "true" if right else "false" >>;

// Whether x is below y, where NaN is above all; without branches, which would be taken at random.
<% if "complex" in acc %>
// As in the sorts: numbers without NaN come first, then those whose imaginary part alone is NaN, whose real part is, and both.
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
__device__ __forceinline__ void count_before(I (&found)[items], const acc (&wanted)[items], I n, const Element& element) {
#pragma unroll
    for (int k = 0; k < items; ++k) found[k] = 0;
    // What is sought is at one of found to found + length.
    for (I length = n; length > 1;) {
        const I middle = length / 2;
#pragma unroll
        for (int k = 0; k < items; ++k) found[k] += I(before(element(found[k] + middle - 1), wanted[k])) * middle;
        length -= middle;
    }
#pragma unroll
    for (int k = 0; k < items; ++k) found[k] += n > 0 && before(element(found[k]), wanted[k]);
}
<% if kept %>

// Elements in shared memory. A search begins at places a power of two apart, which are spread over the banks.
struct Table {
    acc at[<< kept + kept // 32 + kept // 1024 + 1 >>];
    static __device__ __forceinline__ I place(I i) { return i + i / 32u + i / 1024u; }
    template <typename T>
    __device__ __forceinline__ void fill(const T* __restrict__ xs, I n) {
        for (I i = threadIdx.x; i < n; i += block) at[place(i)] = cast<acc>(xs[i]);
        __syncthreads();
    }
};
<% endif %>
