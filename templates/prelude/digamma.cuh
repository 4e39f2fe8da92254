// The derivative of lgamma. Source: Abramowitz and Stegun, 6.3.7 (reflection), 6.3.5 (recurrence), 6.3.18 (asymptotic
// series), to 1e-15 from 10 on, and with `single` to 2e-11 from 6 on.
__device__ __forceinline__ double digamma_above(double x, double value, bool single) {
    // The sum of 1 / (x + k), over one denominator.
    double over = 0.0, under = 1.0;
#pragma unroll 1
    for (; x < (single ? 6.0 : 10.0); x += 1.0) {
        over = over * x + under;
        under *= x;
    }
    const double inverse = 1.0 / (x * under), reciprocal = inverse * under, s = reciprocal * reciprocal;
    if (over > 0.0) value -= over * (inverse * x);
    const double rest = single ? 0.0 : s * (691.0 / 32760 - s / 12);
    const double series = s * (1.0 / 12 - s * (1.0 / 120 - s * (1.0 / 252 - s * (1.0 / 240 - s * (1.0 / 132 - rest)))));
    return value + log(x) - 0.5 * reciprocal - series;
}
// Called and not copied: it is seldom needed.
__device__ __noinline__ double digamma_near_root(double x, double value) {
    return digamma_above(x, value, false);
}
// At a distance d from a root, the one at -0.504 or that at 1.46, beside which the terms above cancel: Taylor's series.
__device__ __noinline__ double digamma_beside_root(double d, bool positive) {
    const double of[2][16] = {
        {8.939798558792134, -0.8093454625306507, 32.258572064915505, -2.761011648790828, 128.27342343090902,
            -14.70672173553036, 513.2704629562862, -75.37700066344631, 2055.5357119463315, -368.5783503832191,
            8234.667099203069, -1743.364608867363, 32997.785655255044, -8051.818155363498, 132262.95480834588,
            -36529.94596948565},
        {0.9676722454476212, -0.4427631689835921, 0.258499760955651, -0.16394270544240652, 0.10782405069126237,
            -0.07219956125645471, 0.04880428816414311, -0.03316112647484736, 0.022597648232218104, -0.01542476590494896,
            0.010538791616612175, -0.007204534386356869, 0.004926781395729853, -0.003369801655439328,
            0.002305126326734928, -0.0015769367714301972}};
    double result = 0.0;
#pragma unroll 1
    for (int k = 15; k >= 0; --k) result = (result + of[positive][k]) * d;
    return result;
}
// With `single`, to the digits of single precision.
__device__ __forceinline__ double digamma_of(double x, bool single = false) {
    double value = 0.0;
    // The second number is the root's rounding error.
    if (!single && fabs(x + 0.5040830082644554) < 0.05)
        return digamma_beside_root((x + 0.5040830082644554) + 8.15428206243813e-18, false);
    if (!single && fabs(x - 1.4616321449683622) < 0.125)
        return digamma_beside_root((x - 1.4616321449683622) - 9.549995429965697e-17, true);
    if (x != 0.0 && fabs(x) < 1e-15) return -1.0 / x - 0.5772156649015329;
    if (x <= 0.0) {
        if (x == floor(x)) return x == 0.0 ? copysign(limits<double>::infinity(), -x) : limits<double>::quiet_nan();
        value = -3.141592653589793 / tan(3.141592653589793 * (x - rint(x)));
        x = 1.0 - x;
    }
    const double result = digamma_above(x, value, single);
    // Near a root few of the digits are left.
    return single && fabs(result) < 0.003 ? digamma_near_root(x, value) : result;
}

// x^n for a whole n of at least 1.
__device__ __forceinline__ double whole_power(double x, int n) {
    double result = n % 2 ? x : 1.0;
#pragma unroll 1
    while (n /= 2) {
        x *= x;
        if (n % 2) result *= x;
    }
    return result;
}
// x^-n for a whole n of at least 1.
__device__ __forceinline__ double inverse_power(double x, double n) {
    return n > 64.0 ? pow(x, -n) : whole_power(1.0 / x, int(n));
}

// The sum of (k + x)^-s over k >= 0 by the formula of Euler and Maclaurin (Abramowitz and Stegun, 23.1.30), for x from
// 10 + s on, or with `single`, to the digits of single precision, from 4 + s on; `power` is x^(1 - s), `reciprocal` 1 / x.
__device__ __forceinline__ double zeta_tail(double s, double reciprocal, double power, bool single) {
    double sum = (s == 2.0 ? power : power / (s - 1.0)) + 0.5 * (power * reciprocal);
    // Bernoulli's numbers over factorials.
    const double weights[8] = {1.0 / 12, -1.0 / 720, 1.0 / 30240, -1.0 / 1209600, 1.0 / 47900160, -691.0 / 1307674368e3,
        1.0 / 74724249600e0, -3617.0 / 10670622842880e3};
    const double square = reciprocal * reciprocal;
    double factor = s * (power * square);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        if (j == 4 && single) break;
        sum += weights[j] * factor;
        const double k = 2.0 * j;
        factor *= (s + k + 1.0) * (s + k + 2.0) * square;
    }
    return sum;
}

// The derivative of digamma at x > 0 to the digits of single precision (Abramowitz and Stegun, 6.4.6 and 6.4.12).
__device__ __forceinline__ double trigamma_single(double x) {
    double over = 0.0, under = 1.0;
#pragma unroll 1
    for (; x < 5.0; x += 1.0) {
        const double square = x * x;
        over = over * square + under;
        under *= square;
    }
    const double inverse = 1.0 / (x * under), r = inverse * under, s = r * r;
    return over * (inverse * x) + r + 0.5 * s + r * s * (1.0 / 6 - s * (1.0 / 30 - s * (1.0 / 42 - s * (1.0 / 30 - s * (5.0 / 66)))));
}

// The n-th derivative of digamma, n >= 1: (-1)^(n + 1) n! times Hurwitz's zeta of n + 1 and x. Called and not copied: the
// registers that it takes would be those of the first derivative, too.
__device__ __noinline__ double polygamma_of_any(double n, double x, bool single) {
    if (n == 0.0) return digamma_of(x);
    if (!(n > 0.0) || n != floor(n) || x != x || x < -1048576.0) return limits<double>::quiet_nan();
    if (x == limits<double>::infinity()) return 0.0;
    if (x <= 0.0 && x == floor(x)) return limits<double>::infinity();
    const double s = n + 1.0, enough = (single ? 4.0 : 10.0) + s;
    double sum = 0.0, reciprocal;
    if (single && n < 12.0 && x > 1e-20) {
        // The sum of (x + k)^-s, over one denominator.
        double over = 0.0, under = 1.0;
#pragma unroll 1
        for (; x < enough; x += 1.0) {
            const double power = s == 2.0 ? x * x : whole_power(x, int(s));
            over = over * power + under;
            under *= power;
        }
        const double inverse = 1.0 / (x * under);
        reciprocal = inverse * under;
        sum = over * (inverse * x);
    } else {
#pragma unroll 1
        for (; x < enough; x += 1.0) sum += inverse_power(x, s);
        reciprocal = 1.0 / x;
    }
    sum += zeta_tail(s, reciprocal, n > 64.0 ? pow(x, -n) : whole_power(reciprocal, int(n)), single);
    double factorial = n > 64.0 ? exp(lgamma(n + 1.0)) : 1.0;
#pragma unroll 1
    for (double k = 2.0; k <= n && n <= 64.0; k += 1.0) factorial *= k;
    return n != 2.0 * floor(0.5 * n) ? factorial * sum : -factorial * sum;
}
__device__ __forceinline__ double polygamma_of(double n, double x, bool single) {
    const bool first = single && n == 1.0 && x > 1e-20 && x < limits<double>::infinity();
    return first ? trigamma_single(x) : polygamma_of_any(n, x, single);
}
