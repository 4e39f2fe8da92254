// Square roots of numbers of at least 0; in single precision to within a unit of the last place, subnormal ones flushed to 0.
__device__ __forceinline__ double near_root(double x) { return sqrt(x); }
__device__ __forceinline__ float near_root(float x) {
#ifdef __CUDA_ARCH__
    float root;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(x));
    return root;
#else
    return sqrt(x);
#endif
}
