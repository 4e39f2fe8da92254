// The derivative of lgamma. Source: Abramowitz and Stegun, 6.3.7 (reflection), 6.3.5 (recurrence), 6.3.18 (asymptotic
// series), to 1e-15 from 10 on.
__device__ __forceinline__ double digamma_of(double x) {
    double value = 0.0;
    if (x != 0.0 && fabs(x) < 1e-15) return -1.0 / x - 0.5772156649015329;
    if (x <= 0.0) {
        if (x == floor(x)) return x == 0.0 ? copysign(limits<double>::infinity(), -x) : limits<double>::quiet_nan();
        value = -3.141592653589793 / tan(3.141592653589793 * (x - rint(x)));
        x = 1.0 - x;
    }
    // The sum of 1 / (x + k), over one denominator.
    double over = 0.0, under = 1.0;
#pragma unroll 1
    for (; x < 10.0; x += 1.0) {
        over = over * x + under;
        under *= x;
    }
    const double inverse = 1.0 / (x * under), reciprocal = inverse * under, s = reciprocal * reciprocal;
    if (over > 0.0) value -= over * (inverse * x);
    const double series = s * (1.0 / 12 - s * (1.0 / 120 - s * (1.0 / 252 - s * (1.0 / 240 - s * (1.0 / 132 - s * (
        691.0 / 32760 - s / 12))))));
    return value + log(x) - 0.5 * reciprocal - series;
}

// x^-n for a whole n of at least 1.
__device__ __forceinline__ double inverse_power(double x, double n) {
    if (n > 64.0) return pow(x, -n);
    double made = 1.0, square = 1.0 / x;
#pragma unroll 1
    for (int left = int(n); left; left /= 2) {
        if (left % 2) made *= square;
        square *= square;
    }
    return made;
}

// The sum of (k + x)^-s over k >= 0 by the formula of Euler and Maclaurin (Abramowitz and Stegun, 23.1.30), for x from
// 10 + s on; `power` is x^(1 - s).
__device__ __forceinline__ double zeta_tail(double s, double x, double power) {
    double sum = power / (s - 1.0) + 0.5 * (power / x);
    const double bernoulli[8] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6, -3617.0 / 510};
    double factor = s * (power / x / x) / 2.0;
#pragma unroll 1
    for (int j = 0; j < 8; ++j) {
        sum += bernoulli[j] * factor;
        const double k = 2.0 * j;
        factor *= (s + k + 1.0) * (s + k + 2.0) / ((k + 3.0) * (k + 4.0) * x * x);
    }
    return sum;
}

// The n-th derivative of digamma, n >= 1: (-1)^(n + 1) n! times Hurwitz's zeta of n + 1 and x.
__device__ __forceinline__ double polygamma_of(double n, double x) {
    if (n == 0.0) return digamma_of(x);
    if (!(n > 0.0) || n != floor(n) || x != x || x < -1048576.0) return limits<double>::quiet_nan();
    if (x == limits<double>::infinity()) return 0.0;
    if (x <= 0.0 && x == floor(x)) return limits<double>::infinity();
    const double s = n + 1.0, enough = 10.0 + s;
    double sum = 0.0;
#pragma unroll 1
    for (; x < enough; x += 1.0) sum += inverse_power(x, s);
    sum += zeta_tail(s, x, inverse_power(x, n));
    double factorial = n > 64.0 ? exp(lgamma(n + 1.0)) : 1.0;
#pragma unroll 1
    for (double k = 2.0; k <= n && n <= 64.0; k += 1.0) factorial *= k;
    return n != 2.0 * floor(0.5 * n) ? factorial * sum : -factorial * sum;
}
