// A binary search in sorted elements, NaN last; `items` are sought together, so that they take as many steps.
using acc = << acc >>;
using I = << index >>;
constexpr int block = << block >>, items = << items >>;
constexpr bool right = << "true" if right else "false" >>;

// Whether x comes before what is sought: below it, or on the left side of equal ones, where NaN equals NaN and is above all;
// without branches, which would be taken at random.
__device__ __forceinline__ bool before(acc x, acc wanted) {
    return right ? !((wanted < x) | ((x != x) & (wanted == wanted))) : (x < wanted) | ((wanted != wanted) & (x == x));
}

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
