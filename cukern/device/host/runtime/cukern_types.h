// Vector types, dim3 and the declarations that CUDA makes without an include.
#pragma once

using size_t = decltype(sizeof(0));
using ptrdiff_t = decltype((char*)0 - (char*)0);
#ifndef NULL
#define NULL __null
#endif

#define CUKERN_VECTOR(type, name, align2, align4)                                                          \
    struct name##1 { type x; };                                                                            \
    struct alignas(align2) name##2 { type x, y; };                                                         \
    struct name##3 { type x, y, z; };                                                                      \
    struct alignas(align4) name##4 { type x, y, z, w; };                                                   \
    static inline name##1 make_##name##1(type x) { return {x}; }                                           \
    static inline name##2 make_##name##2(type x, type y) { return {x, y}; }                                \
    static inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                     \
    static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

CUKERN_VECTOR(signed char, char, 2, 4)
CUKERN_VECTOR(unsigned char, uchar, 2, 4)
CUKERN_VECTOR(short, short, 4, 8)
CUKERN_VECTOR(unsigned short, ushort, 4, 8)
CUKERN_VECTOR(int, int, 8, 16)
CUKERN_VECTOR(unsigned int, uint, 8, 16)
CUKERN_VECTOR(long, long, 16, 16)
CUKERN_VECTOR(unsigned long, ulong, 16, 16)
CUKERN_VECTOR(long long, longlong, 16, 16)
CUKERN_VECTOR(unsigned long long, ulonglong, 16, 16)
CUKERN_VECTOR(float, float, 8, 16)
CUKERN_VECTOR(double, double, 16, 16)
#undef CUKERN_VECTOR

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return uint3{x, y, z}; }
};

// Types of the runtime's functions, which structs of programs may have.
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
struct cudaPitchedPtr {
    void* ptr;
    size_t pitch, xsize, ysize;
};
struct cudaExtent {
    size_t width, height, depth;
};
struct cudaPos {
    size_t x, y, z;
};

extern "C" {
int printf(const char*, ...);
void* memcpy(void*, const void*, size_t) noexcept;
void* memset(void*, int, size_t) noexcept;
}
