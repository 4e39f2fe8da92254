// A value read from memory by one thread alone: a GPU does not keep it in a multiprocessor's cache.
#ifndef CUKERN_STREAMING
#define CUKERN_STREAMING
template <typename T>
__device__ __forceinline__ T load_streaming(const T* from) {
#ifdef __CUDA_ARCH__
    T value;
    if constexpr (sizeof(T) == 16) {
        uint4& words = reinterpret_cast<uint4&>(value);
        asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w) : "l"(__cvta_generic_to_global(from)));
        return value;
    } else if constexpr (sizeof(T) == 8) {
        uint2& words = reinterpret_cast<uint2&>(value);
        asm volatile("ld.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(words.x), "=r"(words.y) : "l"(__cvta_generic_to_global(from)));
        return value;
    }
#endif
    return *from;
}
// A value written to memory that nobody reads soon: on a GPU it is the first that caches give up.
template <typename T>
__device__ __forceinline__ void store_streaming(T* to, const T& value) {
#ifdef __CUDA_ARCH__
    if constexpr (sizeof(T) == 16) {
        __stcs(reinterpret_cast<uint4*>(to), *reinterpret_cast<const uint4*>(&value));
        return;
    }
#endif
    *to = value;
}
#endif  // CUKERN_STREAMING
