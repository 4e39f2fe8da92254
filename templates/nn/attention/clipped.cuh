// An index of a table's axis of n.
template <typename I>
__device__ __forceinline__ index clipped(I i, int n) {
    using Whole = decltype(i + 0);  // which holds n
    return index(minimum(maximum(Whole(i), Whole(0)), Whole(n - 1)));
}
