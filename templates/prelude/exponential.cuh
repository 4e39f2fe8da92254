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
// The hyperbolic tangent of x * log(2) / 2; of half types to within 3e-7, not of the value: 2 / (1 + p) - 1 for p = 2^-|x|. The
// instruction of powers takes longest, and that of inverses would take as long. So 1 / (1 + p) is r * (1 + h + h^2 + h^3), where
// r is a parabola that is right at 0 and 1, and h = 1 - (1 + p) * r is at most 0.017.
__device__ __forceinline__ acc tanh_of_power(acc x) {
<% if half %>
#ifdef __CUDA_ARCH__
    const float p = power_of_two(-fabsf(x));
    const float r = fmaf(fmaf(float(1.0 / 3), p, float(-5.0 / 6)), p, 1.0f), h = fmaf(-r, 1.0f + p, 1.0f);
    return copysignf(fmaf(2.0f, fmaf(r, fmaf(fmaf(h, h, h), h, h), r), -1.0f), x);
#endif
<% endif %>
    return tanh(x * acc(0.34657359));
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
