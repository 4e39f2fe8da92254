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
