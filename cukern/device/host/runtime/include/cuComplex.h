// CUDA's complex numbers in vector types.
#pragma once
typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;

#define CUKERN_COMPLEX(type, real, suffix, name)                                                             \
    static inline real cuCreal##suffix(type x) { return x.x; }                                               \
    static inline real cuCimag##suffix(type x) { return x.y; }                                               \
    static inline type make_##name(real x, real y) { return {x, y}; }                                        \
    static inline type cuConj##suffix(type x) { return {x.x, -x.y}; }                                        \
    static inline type cuCadd##suffix(type x, type y) { return {x.x + y.x, x.y + y.y}; }                     \
    static inline type cuCsub##suffix(type x, type y) { return {x.x - y.x, x.y - y.y}; }                     \
    static inline type cuCmul##suffix(type x, type y) {                                                      \
        return {x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x};                                               \
    }                                                                                                        \
    static inline type cuCfma##suffix(type x, type y, type z) { return cuCadd##suffix(cuCmul##suffix(x, y), z); } \
    /* Both are scaled first, so that squares neither overflow nor vanish. */                                \
    static inline type cuCdiv##suffix(type x, type y) {                                                      \
        const real scale = 1 / (fabs(y.x) + fabs(y.y));                                                      \
        const real a = x.x * scale, b = x.y * scale, c = y.x * scale, d = y.y * scale;                       \
        const real size = 1 / (c * c + d * d);                                                               \
        return {(a * c + b * d) * size, (b * c - a * d) * size};                                             \
    }                                                                                                        \
    static inline real cuCabs##suffix(type x) { return hypot(x.x, x.y); }
CUKERN_COMPLEX(cuFloatComplex, float, f, cuFloatComplex)
CUKERN_COMPLEX(cuDoubleComplex, double, , cuDoubleComplex)
#undef CUKERN_COMPLEX
static inline cuComplex make_cuComplex(float x, float y) { return {x, y}; }
static inline cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex x) { return {x.x, x.y}; }
static inline cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex x) { return {(float)x.x, (float)x.y}; }
