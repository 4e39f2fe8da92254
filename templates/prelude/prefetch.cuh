// Memory that a later kernel reads, and nobody writes, comes to the GPU's second-level cache while this kernel leaves time for it
// (sm_90 and up; elsewhere nothing happens). The address and the size are multiples of 16 bytes.
// Source: PTX ISA, cp.async.bulk.prefetch.
__device__ __forceinline__ void prefetch(const unsigned char* from, int bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(from)), "r"(bytes) : "memory");
#endif
}
// One of `parts` equal parts of it, once.
struct Prefetched {
    const unsigned char* from;
    int bytes;

    __device__ __forceinline__ void ask(int part, int parts) {
        const int share = divide_up(divide_up(bytes, 16), parts) * 16, start = part * share;
        if (start < bytes) prefetch(from + start, minimum(share, bytes - start));
        bytes = 0;
    }
};
