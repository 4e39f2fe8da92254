// The functions of elementwise rows that C++ has not, or that differ from NumPy's. T is a type of computation: bool,
// an integer, float or double.

template <typename T>
struct is_floating {
    static constexpr bool value = T(0.5) != T(0);
};

// Quotient rounded down, and the remainder with the divisor's sign; integers divided by 0 give 0, as in NumPy.
template <typename T>
__device__ __forceinline__ T remainder_of(T x, T y) {
    if constexpr (is_floating<T>::value) {
        T r = fmod(x, y);
        if (r == T(0)) return copysign(T(0), y);
        return (r < T(0)) != (y < T(0)) ? r + y : r;
    } else {
        if (y == T(0) || (T(-1) < T(0) && y == T(-1))) return T(0);
        T r = T(x % y);
        return r != T(0) && (r < T(0)) != (y < T(0)) ? T(r + y) : r;
    }
}
template <typename T>
__device__ __forceinline__ T floor_divide(T x, T y) {
    if constexpr (is_floating<T>::value) {
        if (y == T(0) || fabs(x) == limits<T>::infinity()) return x / y;
        // The Array API's rule, where NumPy's quotient is -1 if the signs differ.
        if (fabs(y) == limits<T>::infinity()) return x / y;
        T r = fmod(x, y);
        T q = (x - r) / y;
        if (r != T(0) && (r < T(0)) != (y < T(0))) q -= T(1);
        if (q == T(0)) return copysign(T(0), x / y);
        T down = floor(q);
        return q - down > T(0.5) ? down + T(1) : down;
    } else {
        if (y == T(0)) return T(0);
        if (T(-1) < T(0) && y == T(-1)) return T(0ull - (unsigned long long)x);
        T q = T(x / y);
        return T(x % y) != T(0) && (x < T(0)) != (y < T(0)) ? T(q - T(1)) : q;
    }
}

// Power; integers wrap, and a negative exponent of an integer gives the quotient 1 / x^-y rounded towards 0.
template <typename T>
__device__ __forceinline__ T power(T x, T y) {
    if constexpr (is_floating<T>::value) {
        return pow(x, y);
    } else {
        if (y < T(0)) return x == T(1) || x == T(-1) ? (y % T(2) != T(0) ? x : T(1)) : T(0);
        unsigned long long base = (unsigned long long)x, exponent = (unsigned long long)y, result = 1;
        for (; exponent; exponent /= 2) {
            if (exponent % 2) result *= base;
            base *= base;
        }
        return T(result);
    }
}

// Shifts; by the width of the type or more they leave 0, or -1 of a negative number shifted right.
template <typename T>
__device__ __forceinline__ T left_shift(T x, T y) {
    return y < T(0) || y >= T(8 * sizeof(T)) ? T(0) : T(shl((unsigned long long)x, int(y)));
}
template <typename T>
__device__ __forceinline__ T right_shift(T x, T y) {
    return y < T(0) || y >= T(8 * sizeof(T)) ? (x < T(0) ? T(-1) : T(0)) : T(x >> int(y));
}

template <typename T>
__device__ __forceinline__ T sign_of(T x) {
    return x > T(0) ? T(1) : x < T(0) ? T(-1) : x == T(0) ? T(0) : x;
}
template <typename T>
__device__ __forceinline__ T sigmoid(T x) {
    return T(1) / (T(1) + exp(-x));
}
template <typename T>
__device__ __forceinline__ T softplus(T x) {
    return maximum(x, T(0)) + log1p(exp(-fabs(x)));
}
template <typename T>
__device__ __forceinline__ T log_add_exp(T x, T y) {
    return x == y ? x + T(0.6931471805599453) : maximum(x, y) + log1p(exp(-fabs(x - y)));
}

// Greatest common divisor; the sign of the operands does not matter.
template <typename T>
__device__ __forceinline__ T greatest_divisor(T x, T y) {
    unsigned long long a = x < T(0) ? 0ull - (unsigned long long)x : (unsigned long long)x;
    unsigned long long b = y < T(0) ? 0ull - (unsigned long long)y : (unsigned long long)y;
    while (b) {
        const unsigned long long r = a % b;
        a = b;
        b = r;
    }
    return T(a);
}
template <typename T>
__device__ __forceinline__ T least_multiple(T x, T y) {
    const T d = greatest_divisor(x, y);
    if (d == T(0)) return T(0);
    const unsigned long long m = (unsigned long long)(x / d) * (unsigned long long)y;
    return T(m) < T(0) ? T(0ull - m) : T(m);
}

// The derivative of lgamma. Source: Abramowitz and Stegun, 6.3.7 (reflection), 6.3.5 (recurrence), 6.3.18 (asymptotic
// series), to 1e-15 from 10 on.
__device__ __forceinline__ double digamma_of(double x) {
    double value = 0.0;
    if (x <= 0.0) {
        if (x == floor(x)) return x == 0.0 ? copysign(limits<double>::infinity(), -x) : limits<double>::quiet_nan();
        value = -3.141592653589793 / tan(3.141592653589793 * (x - floor(x)));
        x = 1.0 - x;
    }
#pragma unroll 1
    for (; x < 10.0; x += 1.0) value -= 1.0 / x;
    const double s = 1.0 / (x * x);
    const double series = s * (1.0 / 12 - s * (1.0 / 120 - s * (1.0 / 252 - s * (1.0 / 240 - s * (1.0 / 132 - s * (
        691.0 / 32760 - s / 12))))));
    return value + log(x) - 0.5 / x - series;
}

// The sum of (k + x)^-s over k >= 0 by the formula of Euler and Maclaurin (Abramowitz and Stegun, 23.1.30), for x from
// 10 + s on.
__device__ __forceinline__ double zeta_tail(double s, double x) {
    double sum = pow(x, 1.0 - s) / (s - 1.0) + 0.5 * pow(x, -s);
    const double bernoulli[8] = {1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6, -3617.0 / 510};
    double factor = s * pow(x, -s - 1.0) / 2.0;
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
    for (; x < enough; x += 1.0) sum += pow(x, -s);
    sum += zeta_tail(s, x);
    const double factorial = exp(lgamma(n + 1.0));
    return n != 2.0 * floor(0.5 * n) ? factorial * sum : -factorial * sum;
}

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

<% if body is defined and "special::" in body | map(attribute="code") | join %>
<% include "prelude/special.cuh" %>
<% endif %>
