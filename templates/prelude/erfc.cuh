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

// erfc of what will be rounded to half precision: t exp(P(t) - x * x), t = 1 / (1 + 0.55 |x|), with P of degree 5 fitted for
// the least relative error, 2.7e-5, where |x| is all of it.
__device__ __forceinline__ float erfc_of_half(float x) {
    const float size = fabs(x);
    const float t = __fdividef(1.0f, 1.0f + 0.55f * size);
    const float p = -1.1701891f + t * (1.0010895f + t * (0.32377186f + t * (0.19082406f + t * (-0.56017458f + t * 0.21470536f))));
    const float tail = t * __expf(p - size * size);
    return x < 0.0f ? 2.0f - tail : tail;
}

// x times the normal distribution function, of what will be rounded to float16: from max(x, 0) is taken |x| 2^P(|x|), where |x| is
// 6 at most and P = a x * x + b |x| + c + d t + e t * t, t = 1 / (1 + f |x|), fitted for the least relative error, 2e-5.
__device__ __forceinline__ float gelu_of_half(float x) {
    const float size = fmin(fabs(x), 6.0f), t = __fdividef(1.0f, fma(0.377287672f, size, 1.0f));
    const float p = fma(t, fma(t, -0.98254165f, 4.75047642f), -4.76796335f);
    return fma(-size, exp2(fma(size, fma(size, -0.71988547f, -0.09938628f), p)), maximum(-0.0f, x));
}
// The same for bfloat16, whose results are normal for longer: |x| is 13.6 at most, and the error 1.6e-4. It is taken as a part of
// that, so that the power is larger, as GPUs flush what is subnormal to zero; the part itself may be subnormal.
__device__ __forceinline__ float gelu_of_bfloat16(float x) {
    float size, result;
#ifdef __CUDA_ARCH__
    asm("{.reg .f32 size;\n abs.f32 size, %1;\n mul.sat.f32 %0, size, %2;}" : "=f"(size) : "f"(x), "f"(0.0735294118f));
#else
    size = __saturatef(fabs(x) * 0.0735294118f);
#endif
    const float t = __fdividef(1.0f, fma(4.88692593f, size, 1.0f)), p = fma(t, fma(t, -0.90382984f, 4.76013544f), -1.09055166f);
    const float power = exp2(fma(size, fma(size, -133.187415f, -1.25821202f), p)), above = maximum(-0.0f, x);
#ifdef __CUDA_ARCH__
    asm("{.reg .f32 below;\n neg.f32 below, %1;\n fma.rn.f32 %0, below, %2, %3;}" : "=f"(result) : "f"(size), "f"(power), "f"(above));
#else
    result = fma(-size, power, above);
#endif
    return result;
}
