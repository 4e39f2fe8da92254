// The sum of c and of the products of four unsigned bytes with four signed ones: as __dp4a, which takes both of one kind.
// Source: PTX ISA, dp4a.
#ifdef __CUDACC__

__device__ __forceinline__ int dot_unsigned(unsigned a, int b, int c) {
    int sum;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}

#else

inline int dot_unsigned(unsigned a, int b, int c) {
    for (int i = 0; i < 4; ++i) c += int(a >> 8 * i & 255) * (signed char)(b >> 8 * i);
    return c;
}

#endif
