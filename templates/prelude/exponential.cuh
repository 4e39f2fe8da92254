// exp, exp2 and tanh of the accumulator's type; of half types by the device's own instruction, which flushes
// subnormals to 0.
using acc = << acc >>;
__device__ __forceinline__ acc power_of_two(acc x) {
<% if half %>
#ifdef __CUDA_ARCH__
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
#endif
<% endif %>
    return exp2(x);
}
// The hyperbolic tangent of x * log(2) / 2; of half types to within 2e-7, not of the value.
__device__ __forceinline__ acc tanh_of_power(acc x) {
<% if half %>
#ifdef __CUDA_ARCH__
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(power_of_two(x) + 1.0f));
    return fmaf(-2.0f, inverse, 1.0f);
#endif
<% endif %>
    return tanh(x * acc(0.34657359));
}
// The hyperbolic tangent by the device's own instruction, to within 5e-4 of the value.
__device__ __forceinline__ acc tanh_near(acc x) {
<% if half %>
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
    float result;
    asm("tanh.approx.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
#endif
<% endif %>
    return tanh(x);
}
__device__ __forceinline__ acc tanh_of(acc x) {
<% if half %>
#ifdef __CUDA_ARCH__
    return tanh_of_power(x * acc(2 * 1.44269504));
#endif
<% endif %>
    return tanh(x);
}
__device__ __forceinline__ acc exp_of(acc x) {
    return << "power_of_two(x * acc(1.44269504))" if half else "exp(x)" >>;
}
