// each(i) for i below N, unrolled, so that arrays that it indexes by i can be in registers. GCC leaves loops in loops by itself.
template <int N, typename Each>
__device__ __forceinline__ void in_registers(const Each& each) {
#ifdef __CUDACC__
#pragma unroll
#else
#pragma GCC unroll 32
#endif
    for (int i = 0; i < N; ++i) each(i);
}
