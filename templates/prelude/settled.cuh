// x, which the compiler computes once and does not rematerialize.
__device__ __forceinline__ float settled(float x) {
#ifdef __CUDA_ARCH__
    asm("" : "+f"(x));
#endif
    return x;
}
// a * b, rounded: it becomes no part of a fused multiply-add.
__device__ __forceinline__ float rounded_product(float a, float b) {
#ifdef __CUDA_ARCH__
    return __fmul_rn(a, b);
#else
    return a * b;
#endif
}
