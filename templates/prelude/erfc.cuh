// erfc to a relative error of 6e-7: t Q(1 / 2 - t) exp(-x * x), t = 1 / (1 + |x| / 2), with Q of degree 9 fitted for the least
// relative error where |x| is at most 10.5, 6e-8 with its coefficients rounded. What x * x loses to rounding is put back.
__device__ __forceinline__ float erfc_of(float x) {
    const float size = fabs(x) > 10.5f ? 10.5f : fabs(x), h = 0.5f * size, t = __fdividef(1.0f, 1.0f + h);
    const float v = fma(h, t, -0.5f);
    float q = fma(v, -0.01168459f, -0.0674914047f);
    q = fma(v, q, -0.0465103276f);
    q = fma(v, q, 0.097322695f);
    q = fma(v, q, 0.102960736f);
    q = fma(v, q, -0.172019094f);
    q = fma(v, q, -0.14574337f);
    q = fma(v, q, 0.558942974f);
    q = fma(v, q, -0.687160909f);
    q = fma(v, q, 0.510791361f);
    const float square = size * size, rounded = exp(-square);
    const float tail = t * q * fma(rounded, fma(-size, size, square), rounded);
    return x < 0.0f ? 2.0f - tail : tail;
}
__device__ __forceinline__ double erfc_of(double x) {
    return erfc(x);
}

// 2 to a power, and 1 / x, by the device's own instructions, which take subnormals for 0.
__device__ __forceinline__ float power_near(float x) {
#ifdef __CUDA_ARCH__
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
#else
    return exp2(x);
#endif
}
__device__ __forceinline__ float reciprocal_near(float x) {
#ifdef __CUDA_ARCH__
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
    return inverse;
#else
    return 1.0f / x;
#endif
}
// erfc of what will be rounded to half precision, of v = x sqrt(log2(e)): t 2^(P(t) - v * v), t = 1 / (1 + 0.55 |x|), with P of
// degree 5 fitted for the least relative error, 2.7e-5, where |x| is all of it.
__device__ __forceinline__ float erfc_of_scaled_half(float v) {
    const float size = fabs(v), t = reciprocal_near(fma(0.457905036f, size, 1.0f));
    float p = fma(t, 0.309754358f, -0.808161089f);
    p = fma(t, p, 0.275300925f);
    p = fma(t, p, 0.467104057f);
    p = fma(t, p, 1.44426686f);
    p = fma(t, p, -1.68822601f);
    const float tail = t * power_near(fma(-size, size, p));
    return v < 0.0f ? 2.0f - tail : tail;
}
