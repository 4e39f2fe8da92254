// An index counted from 0. Where the caller has not checked indices, a negative one counts from the end, and others are
// clipped to the range.
constexpr bool clip = << "true" if clip else "false" >>;
__device__ __forceinline__ long long in_range(long long i, long long size) {
    return clip ? maximum(0ll, minimum(i < 0 ? i + size : i, size - 1)) : i;
}
