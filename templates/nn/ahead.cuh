// Packs of 16 bytes that a thread brings from global to shared memory while it goes on, to read them itself: it needs
// no barrier. What it brings between two calls of commit_ahead is one group; wait_ahead<N> waits for all but the last N.
// On the host they are there at once.
template <typename P>
__device__ __forceinline__ void bring_ahead(P* to, const void* from) {
    static_assert(sizeof(P) == 16, "a pack of 16 bytes");
#ifdef __CUDA_ARCH__
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                 :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
#else
    *to = *(const P*)from;
#endif
}
__device__ __forceinline__ void commit_ahead() {
#ifdef __CUDA_ARCH__
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int N>
__device__ __forceinline__ void wait_ahead() {
#ifdef __CUDA_ARCH__
    asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
#endif
}
// A pack that is there, in one access.
template <typename P>
__device__ __forceinline__ P held_at(const P* shared) {
    const Words<16> words = *(const Words<16>*)shared;
    return *(const P*)&words;
}
