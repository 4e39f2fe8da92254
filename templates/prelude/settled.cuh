// x, which the compiler makes once, and not again from what it is made of.
__device__ __forceinline__ float settled(float x) {
#ifdef __CUDA_ARCH__
    asm("" : "+f"(x));
#endif
    return x;
}
