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
// 6 at most, with P of degree 7 fitted for the least relative error, 5e-6 where the result is normal. One instruction of the
// special function unit, of which there are fewer than of products: a quotient would be another.
__device__ __forceinline__ float gelu_of_half(float x) {
    const float size = fmin(fabs(x), 6.0f);
    float p = fma(size, -1.83295972e-06f, 6.15667383e-05f);
    p = fma(size, p, -0.000930317635f);
    p = fma(size, p, 0.00850723117f);
    p = fma(size, p, -0.0539590208f);
    p = fma(size, p, -0.458465153f);
    p = fma(size, p, -1.15125084f);
    p = fma(size, p, -0.999995241f);
    return fma(-size, exp2(p), maximum(-0.0f, x));
}
// The same for bfloat16, whose results are normal for longer: |x| is 13.6 at most, P of degree 8, and the error 1.5e-4.
__device__ __forceinline__ float gelu_of_bfloat16(float x) {
    const float size = fmin(fabs(x), 13.6f);
    float p = fma(size, 2.73743565e-08f, -1.74156337e-06f);
    p = fma(size, p, 4.77529004e-05f);
    p = fma(size, p, -0.000745554924f);
    p = fma(size, p, 0.00742785535f);
    p = fma(size, p, -0.0508296687f);
    p = fma(size, p, -0.462739484f);
    p = fma(size, p, -1.14906353f);
    p = fma(size, p, -1.00018131f);
    return fma(-size, exp2(p), maximum(-0.0f, x));
}
