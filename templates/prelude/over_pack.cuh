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
template <int deep, int step, typename Place, typename State, typename Push>
__device__ __forceinline__ State pushed_in_turn(State state, Place r, const Push& push) {
    if constexpr (deep == 0) {
        return state;
    } else {
        return pushed_in_turn<deep - 1, step>(push(state, r), Place(r + step), push);
    }
}
// states[k] = push(states[k], r + k), and again with N more, `deep` times: a state is stored once. From `first` on; returns where
// fewer places than that are left before `end`.
template <int deep, typename Place, typename State, int N, typename Push>
__device__ __forceinline__ Place pushed(State (&states)[N], Place first, Place end, const Push& push) {
    Place r = first;
    for (; r + deep * N - 1 < end; r += deep * N) {
        over_pack<N>([&](int k) { states[k] = pushed_in_turn<deep, N>(states[k], r + k, push); });
    }
    return r;
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
// Each N states side by side combined by neighbours, by loops over all of them: leaves what those from k * N on make at states[k].
template <int N, typename State, int M, typename Combine>
__device__ __forceinline__ void by_neighbours(State (&states)[M], const Combine& combine) {
    for (int left = M / 2; left >= M / N; left /= 2) {
#ifndef __CUDACC__
#pragma GCC ivdep
#endif
        for (int i = 0; i < left; ++i) states[i] = combine(states[2 * i], states[2 * i + 1]);
    }
}
