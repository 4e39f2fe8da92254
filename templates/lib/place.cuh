// An index counted from 0. Where the caller has not looked for errors, a negative one counts from the end, and what is
// out of range is the nearest end.
constexpr bool clip = << "true" if clip else "false" >>;
__device__ __forceinline__ long long settled(long long place, long long size) {
    return clip ? maximum(0ll, minimum(place < 0 ? place + size : place, size - 1)) : place;
}
