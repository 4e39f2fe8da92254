// N words of 64 bits to and from memory that other blocks read and write meanwhile: two an access where N is even, each of
// them whole.
template <int N>
__device__ __forceinline__ void store_volatile(volatile unsigned long long* to, const unsigned long long (&words)[N]) {
#ifdef __CUDA_ARCH__
    if constexpr (N % 2 == 0) {
#pragma unroll
        for (int i = 0; i < N; i += 2)
            asm volatile("st.volatile.v2.u64 [%0], {%1, %2};" ::"l"(to + i), "l"(words[i]), "l"(words[i + 1]) : "memory");
        return;
    }
#endif
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = words[i];
}

template <int N>
__device__ __forceinline__ void load_volatile(unsigned long long (&words)[N], const volatile unsigned long long* from) {
#ifdef __CUDA_ARCH__
    if constexpr (N % 2 == 0) {
#pragma unroll
        for (int i = 0; i < N; i += 2)
            asm volatile("ld.volatile.v2.u64 {%0, %1}, [%2];" : "=l"(words[i]), "=l"(words[i + 1]) : "l"(from + i) : "memory");
        return;
    }
#endif
#pragma unroll
    for (int i = 0; i < N; ++i) words[i] = from[i];
}
