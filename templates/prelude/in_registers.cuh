// What decides which values are in registers.
#ifndef CUKERN_IN_REGISTERS
#define CUKERN_IN_REGISTERS
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
#ifdef __CUDACC__
// A float, integer or pointer of 4 or 8 bytes, in a register of its own: the compiler does not compute it again where it is used.
__device__ __forceinline__ float in_register(float value) {
    asm volatile("" : "+f"(value));
    return value;
}
template <typename T>
__device__ __forceinline__ T in_register(T value) {
    if constexpr (sizeof(T) == 8) asm volatile("" : "+l"(value));
    else asm volatile("" : "+r"(value));
    return value;
}
#else
template <typename T>
inline T in_register(T value) {
    return value;
}
#endif
#endif  // CUKERN_IN_REGISTERS
