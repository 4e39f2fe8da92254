// each(v) for the elements of a pack: unrolled on a GPU; on the host a loop, as compilers make vectors of choices in loops alone.
template <int N, typename Each>
__device__ __forceinline__ void over_pack(const Each& each) {
#ifdef __CUDACC__
#pragma unroll
#else
#pragma GCC unroll 1
#endif
    for (int v = 0; v < N; ++v) each(v);
}
// The first N of some states combined by halves, by loops.
template <int N, typename State, int M, typename Combine>
__device__ __forceinline__ State by_halves(State (&states)[M], const Combine& combine) {
    if constexpr (N > 1) {
        over_pack<N / 2>([&](int k) { states[k] = combine(states[k], states[k + N / 2]); });
        return by_halves<N / 2>(states, combine);
    } else {
        return states[0];
    }
}
