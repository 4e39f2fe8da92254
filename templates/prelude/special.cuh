// Gamma, beta and zeta functions in double precision, where CUDA has none.
namespace special {

// A value and its derivative by one of the parameters.
struct Dual {
    double v, d;
    __device__ __forceinline__ Dual(double value, double derivative = 0.0) : v(value), d(derivative) {}
};
__device__ __forceinline__ Dual operator+(Dual a, Dual b) { return {a.v + b.v, a.d + b.d}; }
__device__ __forceinline__ Dual operator-(Dual a, Dual b) { return {a.v - b.v, a.d - b.d}; }
__device__ __forceinline__ Dual operator*(Dual a, Dual b) { return {a.v * b.v, a.d * b.v + a.v * b.d}; }
__device__ __forceinline__ Dual operator/(Dual a, Dual b) { return {a.v / b.v, (a.d - a.v / b.v * b.d) / b.v}; }
__device__ __forceinline__ double value_of(double x) { return x; }
__device__ __forceinline__ double value_of(Dual x) { return x.v; }
constexpr double all_digits = 1e-17;
__device__ __forceinline__ bool settled_term(double term, double sum, double share = all_digits) {
    return fabs(term) <= share * fabs(sum);
}
__device__ __forceinline__ bool settled_term(Dual term, Dual sum, double share = all_digits) {
    return settled_term(term.v, sum.v, share) && fabs(term.d) <= share * (fabs(sum.d) + fabs(sum.v));
}

// What lgamma(x) adds to Stirling's formula (x - 1/2) log x - x + log(2 pi) / 2, for x >= 10 (Abramowitz and Stegun, 6.1.41).
__device__ __forceinline__ double stirling_rest(double x) {
    const double s = 1.0 / (x * x);
    return (1.0 / 12 - s * (1.0 / 360 - s * (1.0 / 1260 - s * (1.0 / 1680 - s * (1.0 / 1188 - s * (691.0 / 360360 - s / 156)))))) / x;
}
// Called and not copied: the text of CUDA's own is long.
__device__ __noinline__ double log_gamma(double x) {
    return lgamma(x);
}
// log |B(x, y)|. Of large arguments the logarithms of gamma would cancel: their difference is taken term by term.
__device__ __forceinline__ double log_beta(double x, double y) {
    const double a = minimum(x, y), b = maximum(x, y);
    if (!(b >= 10.0) || !(a > 0.0)) return log_gamma(a) + log_gamma(b) - log_gamma(a + b);
    if (b == limits<double>::infinity()) return -b;
    const double rest = stirling_rest(b) - stirling_rest(a + b);
    if (a < 10.0) return log_gamma(a) + rest - (b - 0.5) * log1p(a / b) - a * log(a + b) + a;
    return 0.9189385332046727 - 0.5 * log(b) + stirling_rest(a) + rest + (a - 0.5) * log(a / (a + b)) - b * log1p(a / b);
}
__device__ __forceinline__ double sign_of_gamma(double x) {
    return x < 0.0 && floor(x) != 2.0 * floor(0.5 * floor(x)) ? -1.0 : 1.0;
}
__device__ __forceinline__ double beta_of(double x, double y) {
    return sign_of_gamma(x) * sign_of_gamma(y) * sign_of_gamma(x + y) * exp(log_beta(x, y));
}

// log(1 + x) - x without cancellation, for x > -1.
__device__ __forceinline__ double log1p_less(double x) {
    if (fabs(x) > 0.25) return log1p(x) - x;
    // With r = x / (2 + x): 2 atanh(r) - x.
    const double r = x / (2.0 + x), s = r * r;
    double sum = 0.0;
    for (int k = 33; k >= 3; k -= 2) sum = sum * s + 1.0 / k;
    return 2.0 * r * s * sum - x * r;
}
// x^a e^-x / Gamma(a + 1).
__device__ __forceinline__ double poisson_weight(double a, double x) {
    if (x == 0.0) return a == 0.0 ? 1.0 : 0.0;
    if (a < 10.0) return exp(a * log(x) - x - log_gamma(a + 1.0));
    const double t = (x - a) / a;
    return exp(a * log1p_less(t) - stirling_rest(a)) / sqrt(6.283185307179586 * a);
}
// The regularised incomplete gamma functions, P or with `upper` Q = 1 - P, over the factor x^a e^-x / Gamma(a + 1):
// the series (Abramowitz and Stegun, 6.5.29) below x = a + 1, and the continued fraction (6.5.31) above.
template <typename N>
__device__ __forceinline__ N gamma_series(N a, double x, double share = all_digits) {
    N term(1.0), sum(1.0), n = a;
#pragma unroll 1
    for (int i = 0; i < 100000; ++i) {
        n = n + N(1.0);
        term = term * (N(x) / n);
        sum = sum + term;
        if (settled_term(term, sum, share)) break;
    }
    return sum;
}
template <typename N>
__device__ __forceinline__ N gamma_fraction(N a, double x, double share = all_digits) {
    const double tiny = 1e-300;
    N b = N(x + 1.0) - a, c(1.0 / tiny), d = N(1.0) / b, result = d;
#pragma unroll 1
    for (int i = 1; i < 100000; ++i) {
        const N n(-double(i));
        const N an = n * (N(double(i)) - a);
        b = b + N(2.0);
        d = an * d + b;
        if (fabs(value_of(d)) < tiny) d = N(tiny);
        c = b + an / c;
        if (fabs(value_of(c)) < tiny) c = N(tiny);
        d = N(1.0) / d;
        const N step = c * d;
        result = result * step;
        if (settled_term(step - N(1.0), N(10.0), share)) break;
    }
    return result * a;
}
// x^(a - 1) e^-x / Gamma(a), also of negative a: the derivative by x is that of a - 1 less that of a.
__device__ __forceinline__ double gamma_density(double a, double x) {
    if (a <= 0.0 && a == floor(a)) return x == x ? 0.0 : x;
    const double sign = sign_of_gamma(a);
    if (x == 0.0) return a < 1.0 ? sign * limits<double>::infinity() : double(a == 1.0);
    return sign * poisson_weight(a - 1.0, x);
}
// With `single`, to the digits of single precision.
__device__ __forceinline__ double incomplete_gamma(double a, double x, bool upper, bool single) {
    const double infinity = limits<double>::infinity();
    if (!(a >= 0.0) || !(x >= 0.0) || (a == infinity && x == infinity)) return limits<double>::quiet_nan();
    if (x == 0.0 || a == infinity) return (a == 0.0 ? 1.0 : 0.0) == 1.0 ? double(!upper) : double(upper);
    if (a == 0.0 || x == infinity) return double(!upper);
    const bool below = x < a + 1.0;
    const double weight = poisson_weight(a, x);
    // What is taken from 1 may leave few digits of a small Q.
    const double share = single && !(below && upper) ? 1e-11 : all_digits;
    const double part = weight == 0.0 ? 0.0 : weight * (below ? gamma_series(a, x, share) : gamma_fraction(a, x, share));
    return below == upper ? 1.0 - part : part;
}
// The derivative of P by a; that of Q is its negative.
__device__ __forceinline__ double incomplete_gamma_slope(double a, double x) {
    if (!(a > 0.0) || !(x >= 0.0) || a == limits<double>::infinity()) return limits<double>::quiet_nan();
    if (x == 0.0 || x == limits<double>::infinity()) return 0.0;
    const bool below = x < a + 1.0;
    const double weight = poisson_weight(a, x);
    if (weight == 0.0) return 0.0;
    const Dual part = below ? gamma_series(Dual(a, 1.0), x) : gamma_fraction(Dual(a, 1.0), x);
    const double slope = weight * (part.d + part.v * (log(x) - digamma_of(a + 1.0)));
    return below ? slope : -slope;
}

// The derivative by a of the logarithm y of the z for which P(a, z) is constant.
__device__ __forceinline__ double log_gamma_slope(double a, double y) {
    const double z = exp(y);
    if (z < 1e-8) return (digamma_of(a + 1.0) - y) / a;  // P is z^a / Gamma(a + 1) there
    return -incomplete_gamma_slope(a, z) / (a * poisson_weight(a, z));
}

// The continued fraction of the incomplete beta function (Abramowitz and Stegun, 26.5.8), by Lentz's method.
template <typename N>
__device__ __noinline__ N beta_fraction(N a, N b, double x) {
    const double tiny = 1e-300;
    const N one(1.0);
    N c = one, d = one - (a + b) * N(x) / (a + one);
    if (fabs(value_of(d)) < tiny) d = N(tiny);
    d = one / d;
    N result = d;
#pragma unroll 1
    for (int i = 1; i < 100000; ++i) {
        const N m = N(double(i)), twice = a + m + m;
#pragma unroll 1
        for (int half = 0; half < 2; ++half) {
            const N an = half ? N(-x) * (a + m) * (a + b + m) / (twice * (twice + one))
                              : N(x) * m * (b - m) / ((twice - one) * twice);
            d = one + an * d;
            if (fabs(value_of(d)) < tiny) d = N(tiny);
            c = one + an / c;
            if (fabs(value_of(c)) < tiny) c = N(tiny);
            d = one / d;
            result = result * (c * d);
        }
        if (settled_term(c * d - one, N(10.0))) break;
    }
    return result;
}
// x^a (1 - x)^b / (a B(a, b)).
__device__ __noinline__ double beta_weight(double a, double b, double x) {
    return exp(a * log(x) + b * log1p(-x) - log_beta(a, b)) / a;
}
__device__ __forceinline__ double beta_density(double a, double b, double x) {
    if (x == 0.0) return a < 1.0 ? limits<double>::infinity() : a == 1.0 ? b : 0.0;
    if (x == 1.0) return b < 1.0 ? limits<double>::infinity() : b == 1.0 ? a : 0.0;
    return exp((a - 1.0) * log(x) + (b - 1.0) * log1p(-x) - log_beta(a, b));
}
__device__ __forceinline__ double incomplete_beta(double a, double b, double x) {
    if (!(a > 0.0) || !(b > 0.0) || !(x >= 0.0 && x <= 1.0)) return limits<double>::quiet_nan();
    if (x == 0.0 || x == 1.0) return x;
    const bool above = x > (a + 1.0) / (a + b + 2.0);  // I_x(a, b) = 1 - I_1-x(b, a)
    const double p = above ? b : a, q = above ? a : b, at = above ? 1.0 - x : x;
    const double part = beta_weight(p, q, at) * beta_fraction(p, q, at);
    return above ? 1.0 - part : part;
}
// The derivative of I_x(a, b) by a, or by b where `second`.
__device__ __forceinline__ double incomplete_beta_slope(double a, double b, double x, bool second) {
    if (!(a > 0.0) || !(b > 0.0) || !(x >= 0.0 && x <= 1.0)) return limits<double>::quiet_nan();
    if (x == 0.0 || x == 1.0) return 0.0;
    double p = a, q = b, at = x, sign = 1.0;
    bool by_q = second;
    if (x > (a + 1.0) / (a + b + 2.0)) {  // I_x(a, b) = 1 - I_1-x(b, a)
        p = b, q = a, at = 1.0 - x, sign = -1.0;
        by_q = !second;
    }
    const Dual result = beta_fraction(Dual(p, by_q ? 0.0 : 1.0), Dual(q, by_q ? 1.0 : 0.0), at);
    const double both = digamma_of(p + q);
    const double log_slope = by_q ? log1p(-at) - digamma_of(q) + both : log(at) - digamma_of(p) + both - 1.0 / p;
    return sign * beta_weight(p, q, at) * (result.d + result.v * log_slope);
}

// Hurwitz's zeta function, the sum of (k + q)^-s over k >= 0: as polygamma_of has it. NaN for s < 1; of a q that is not
// positive where s is no whole number. With `single`, to the digits of single precision.
__device__ __forceinline__ double zeta_of(double s, double q, bool single = false) {
    if (!(s >= 1.0) || q != q) return limits<double>::quiet_nan();
    if (s == 1.0) return limits<double>::infinity();
    if (q <= 0.0) {
        if (q == floor(q)) return limits<double>::infinity();
        if (s != floor(s) || q < -1048576.0) return limits<double>::quiet_nan();
    }
    if (s == limits<double>::infinity()) return q < 1.0 ? s : q == 1.0 ? 1.0 : 0.0;
    if (q == limits<double>::infinity()) return 0.0;
    // A power costs more than a term of the tail: of these all eight are taken.
    const double bound = minimum(s, 100.0), enough = single ? 2.4 + 0.65 * bound : 10.0 + bound;
    const double share = single ? 1e-10 : 1e-18;
    // Of a negative q the largest terms may cancel to all their digits.
    const bool quick = single && q > 0.0;
    double sum = 0.0;
    for (; q < enough; q += 1.0) {
        const double term = quick ? exp(-s * log(q)) : pow(q, -s);
        sum += term;
        if (q > 1.0 && term <= share * fabs(sum)) return sum;
    }
    const double term = single ? exp(-s * log(q)) : pow(q, -s);
    // The term may be smaller than any number where the integral beyond it is not.
    const double power = !single && term < 1e-290 ? pow(q, 1.0 - s) : term * q;
    return power == 0.0 ? sum : sum + zeta_tail(s, 1.0 / q, power, false);
}

}  // namespace special
