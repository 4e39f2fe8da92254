<% include "lib/pack.cuh" %>

// The elements of a pack as numbers of the accumulator's type, and a pack of such numbers. `again` unpacks by other
// instructions, so that the compiler does not keep the numbers unpacked before in registers, of which they take twice as many.
template <typename T, int N, typename A>
__device__ __forceinline__ void unpack(const Pack<T, N>& pack, A (&to)[N], bool again = false) {
#ifdef __CUDA_ARCH__
    if constexpr (is_bfloat16<T> && N % 2 == 0) {
        // A shift or a mask each: such a number is the upper half of a float.
#pragma unroll
        for (int v = 0; v < N; v += 2) {
            const unsigned two = *(const unsigned*)&pack.at[v];
            to[v] = __int_as_float((int)(again ? __byte_perm(two, 0, 0x1044) : shl(two, 16)));
            to[v + 1] = __int_as_float((int)(again ? __byte_perm(two, 0, 0x3244) : two & 0xffff0000u));
        }
        return;
    }
#endif
#pragma unroll
    for (int v = 0; v < N; ++v) to[v] = cast<A>(pack.at[v]);
}
template <typename T, int N, typename A>
__device__ __forceinline__ Pack<T, N> packed(const A (&from)[N]) {
    Pack<T, N> pack;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if constexpr ((is_bfloat16<T> || is_float16<T>) && N % 2 == 0 && sizeof(A) == sizeof(float)) {
        // One instruction for two.
#pragma unroll
        for (int v = 0; v < N; v += 2) {
            unsigned& two = *(unsigned*)&pack.at[v];
            if constexpr (is_bfloat16<T>)
                asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(from[v + 1]), "f"(from[v]));
            else
                asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(from[v + 1]), "f"(from[v]));
        }
        return pack;
    }
#endif
#pragma unroll
    for (int v = 0; v < N; ++v) pack.at[v] = cast<T>(from[v]);
    return pack;
}

// What sums begin with: a compiler leaves out what is added to -0.
template <typename T, int N>
__device__ __forceinline__ void clear(T (&sums)[N]) {
#pragma unroll
    for (int v = 0; v < N; ++v) sums[v] = T(-0.0);
}

// The elementwise larger of two packs, as maximum().
template <typename T, int N>
__device__ __forceinline__ Pack<T, N> larger(const Pack<T, N>& a, const Pack<T, N>& b) {
    Pack<T, N> pack;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if constexpr ((is_bfloat16<T> || is_float16<T>) && N % 2 == 0) {
#pragma unroll
        for (int v = 0; v < N; v += 2) {
            unsigned& two = *(unsigned*)&pack.at[v];
            const unsigned of_a = *(const unsigned*)&a.at[v], of_b = *(const unsigned*)&b.at[v];
            if constexpr (is_bfloat16<T>)
                asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(two) : "r"(of_a), "r"(of_b));
            else
                asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(two) : "r"(of_a), "r"(of_b));
        }
        return pack;
    }
#endif
#pragma unroll
    for (int v = 0; v < N; ++v) pack.at[v] = maximum(a.at[v], b.at[v]);
    return pack;
}
