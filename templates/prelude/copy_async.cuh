// A word of 4, 8 or 16 bytes on its way from global to shared memory past the registers. What a thread sends between two
// calls of commit_copies is one group; wait_copies<N> waits for all but its last N groups, which it may then read itself;
// copies_arrive for all that it has sent, and lets the other threads of the warp see them.
// ask_ahead prefetches the sector of memory at an address to the L2 cache; nothing is read.
#ifndef CUKERN_COPY_ASYNC
#define CUKERN_COPY_ASYNC
#ifdef CUKERN_FIBERS  // on the host, where threads wait for each other: what they read before it has come is wrong

namespace cukern {
inline void copy_word(const Operation* own) {
    __builtin_memset((void*)own->words[0], 0, own->words[2]);
    __builtin_memcpy((void*)own->words[0], own->source, own->words[1]);
}
__forceinline__ inline void send_copy(const char* name, void* to, const void* from, unsigned bytes, unsigned size, const char* file, int line) {
    if (bytes && ((unsigned long long)to | (unsigned long long)from) % size) fault("an address of an asynchronous copy is no multiple of its size", file, line);
    spoil(to, size);  // until it has come, anything may be there
    Operation own{copy_groups, 0, 0, from, copy_word, name, file, line, {(unsigned long long)to, bytes, size}, false, size};
    runtime->send(&own);
}
}  // namespace cukern

template <typename Word>
__forceinline__ inline void copy_async(Word* to, const Word* from, CUKERN_HERE) {
    cukern::send_copy("copy_async", to, from, sizeof(Word), sizeof(Word), file, line);
}
__forceinline__ inline void copy_async_or_zeros(void* to, const void* from, int bytes, CUKERN_HERE) {
    cukern::send_copy("copy_async_or_zeros", to, from, bytes, 16, file, line);
}
__forceinline__ inline void copy_float_or_zero(float* to, const float* from, bool is, CUKERN_HERE) {
    cukern::send_copy("copy_float_or_zero", to, from, is ? 4 : 0, 4, file, line);
}
inline void ask_ahead(const void*) {}
inline void commit_copies() { cukern::runtime->commit(cukern::copy_groups); }
template <int N>
inline void wait_copies() {
    cukern::runtime->finish(cukern::copy_groups, N, false);
}
inline void copies_arrive() {
    cukern::runtime->commit(cukern::copy_groups);
    cukern::runtime->finish(cukern::copy_groups, 0, false);
    __syncwarp();
}

#else

template <typename Word>
__device__ __forceinline__ void copy_async(Word* to, const Word* from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    const size_t source = __cvta_generic_to_global(from);
    if constexpr (sizeof(Word) == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at), "l"(source) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(source), "n"((int)sizeof(Word)) : "memory");
#else
    *to = *from;
#endif
}
// The first `bytes` of the 16 at `from`, and zeros for the rest: nothing beyond them is read.
__device__ __forceinline__ void copy_async_or_zeros(void* to, const void* from, int bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
                 "l"(__cvta_generic_to_global(from)), "r"(bytes) : "memory");
#else
    for (int i = 0; i < 16; ++i) ((unsigned char*)to)[i] = i < bytes ? ((const unsigned char*)from)[i] : 0;
#endif
}
// The float at `from` if `is`, else zero, and nothing is read.
__device__ __forceinline__ void copy_float_or_zero(float* to, const float* from, bool is) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
                 "l"(__cvta_generic_to_global(from)), "r"(is ? 4 : 0) : "memory");
#else
    *to = is ? *from : 0;
#endif
}
__device__ __forceinline__ void ask_ahead([[maybe_unused]] const void* from) {
#ifdef __CUDA_ARCH__
    asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(from)));
#endif
}
__device__ __forceinline__ void commit_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int N>
__device__ __forceinline__ void wait_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}
__device__ __forceinline__ void copies_arrive() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
    __syncwarp();
}

#endif
#endif  // CUKERN_COPY_ASYNC
