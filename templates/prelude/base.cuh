// What every kernel text starts with. Host and GPU differ in this folder only.
<% if uses_half %>
#include <cuda_fp16.h>
<% endif %>
<% if uses_bfloat16 %>
#include <cuda_bf16.h>
<% endif %>

// The left shift, whose operator would open a template expression.
template <typename T>
__device__ __forceinline__ T shl(T x, int n) {
    return x << "<<" >> n;
}

template <typename T>
__device__ __forceinline__ T divide_up(T a, T b) {
    return (a + b - 1) / b;
}

// Strided accessor of an array with N axes; strides are counted in elements.
template <typename T, int N>
struct View {
    T* data;
    long long shape[N];
    long long strides[N];

    template <typename... I>
    __device__ __forceinline__ T& operator()(I... i) const {
        static_assert(sizeof...(I) == N, "one index per axis");
        const long long at[N] = {(long long)i...};
        long long offset = 0;
        for (int axis = 0; axis < N; ++axis) offset += at[axis] * strides[axis];
        return data[offset];
    }
};

// The limits of a type: infinities where it has them.
template <typename T>
struct limits {
    static constexpr bool is_signed = T(-1) < T(1);
    __device__ static __forceinline__ T lowest() {
        return is_signed ? T(-highest() - 1) : T(0);
    }
    __device__ static __forceinline__ T highest() { return T(~0ull >> (64 - 8 * sizeof(T) + is_signed)); }
};
template <>
struct limits<bool> {
    __device__ static __forceinline__ bool lowest() { return false; }
    __device__ static __forceinline__ bool highest() { return true; }
};
template <>
struct limits<float> {
    __device__ static __forceinline__ float infinity() { return __int_as_float(0x7f800000); }
    __device__ static __forceinline__ float quiet_nan() { return __int_as_float(0x7fc00000); }
    __device__ static __forceinline__ float lowest() { return -infinity(); }
    __device__ static __forceinline__ float highest() { return infinity(); }
    __device__ static __forceinline__ float epsilon() { return __int_as_float(0x34000000); }
};
template <>
struct limits<double> {
    __device__ static __forceinline__ double infinity() { return __longlong_as_double(0x7ff0000000000000ll); }
    __device__ static __forceinline__ double quiet_nan() { return __longlong_as_double(0x7ff8000000000000ll); }
    __device__ static __forceinline__ double lowest() { return -infinity(); }
    __device__ static __forceinline__ double highest() { return infinity(); }
    __device__ static __forceinline__ double epsilon() { return __longlong_as_double(0x3cb0000000000000ll); }
};

#ifndef __CUDACC__
// Whether one of so many floats or doubles is NaN; so many are even.
template <int count, typename T>
inline bool any_nan(const T* x) {
    int result = 0;
    for (int i = 0; i < count / 2; ++i) result |= __builtin_isunordered(x[i], x[count / 2 + i]);
    return result;
}
#endif
<% if uses_dual %>
<% include "prelude/dual.cuh" %>
<% elif uses_complex %>
<% include "prelude/complex.cuh" %>
<% include "prelude/complex_math.cuh" %>
<% endif %>

// Which of the two half types a type is.
template <typename T>
constexpr bool is_float16 = false;
template <typename T>
constexpr bool is_bfloat16 = false;
<% if uses_half %>
template <>
constexpr bool is_float16<__half> = true;
<% endif %>
<% if uses_bfloat16 %>
template <>
constexpr bool is_bfloat16<__nv_bfloat16> = true;
<% endif %>

// The value x as another element type; the two half types go through float, and bool means "not zero".
template <typename To, typename From>
struct caster {
    __device__ static __forceinline__ To apply(From x) { return static_cast<To>(x); }
};
template <typename From>
struct caster<bool, From> {
    __device__ static __forceinline__ bool apply(From x) { return x != From(0); }
};
<% set halves = (["__half"] if uses_half else []) + (["__nv_bfloat16"] if uses_bfloat16 else []) %>
<% set to_float = {"__half": "__half2float", "__nv_bfloat16": "__bfloat162float"} %>
<% set from_float = {"__half": "__float2half", "__nv_bfloat16": "__float2bfloat16"} %>
<% set from_double = {"__half": "__double2half", "__nv_bfloat16": "__double2bfloat16"} %>
<% for half in halves %>
template <typename To>
struct caster<To, << half >>> {
    __device__ static __forceinline__ To apply(<< half >> x) { return caster<To, float>::apply(<< to_float[half] >>(x)); }
};
template <typename From>
struct caster< << half >>, From> {
    __device__ static __forceinline__ << half >> apply(From x) { return << from_float[half] >>(static_cast<float>(x)); }
};
template <>
struct caster< << half >>, double> {
    __device__ static __forceinline__ << half >> apply(double x) { return << from_double[half] >>(x); }
};
template <>
struct caster<bool, << half >>> {
    __device__ static __forceinline__ bool apply(<< half >> x) { return << to_float[half] >>(x) != 0.0f; }
};
<% for other in halves %>
template <>
struct caster< << half >>, << other >>> {
    __device__ static __forceinline__ << half >> apply(<< other >> x) {
        return << "x" if half == other else from_float[half] ~ "(" ~ to_float[other] ~ "(x))" >>;
    }
};
<% endfor %>
<% endfor %>
template <typename To, typename From>
__device__ __forceinline__ To cast(From x) {
    return caster<To, From>::apply(x);
}

// A number in memory. Of a bool the host reads the byte: its compiler makes no vectors of loops that load bools.
template <typename T>
__device__ __forceinline__ T loaded(const T& x) {
    return x;
}
#ifndef __CUDA_ARCH__
template <>
inline bool loaded(const bool& x) {
    return reinterpret_cast<const unsigned char&>(x) != 0;
}
#endif

// The larger and the smaller of two, NaN if either is NaN, as numpy.maximum and numpy.minimum. Choice by choice: of both conditions
// at once GCC makes branches, and no vectors, where an operand is a choice itself.
template <typename T>
__device__ __forceinline__ T maximum(T a, T b) {
    const T larger = a <= b ? b : a;
    return b != b ? b : larger;
}
template <typename T>
__device__ __forceinline__ T minimum(T a, T b) {
    const T smaller = a >= b ? b : a;
    return b != b ? b : smaller;
}
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <>
__device__ __forceinline__ float maximum(float a, float b) {
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
    return larger;
}
template <>
__device__ __forceinline__ float minimum(float a, float b) {
    float smaller;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(smaller) : "f"(a), "f"(b));
    return smaller;
}
#endif
