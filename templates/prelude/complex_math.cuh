// Functions of complex numbers, with the special values of C99's Annex G. Those whose digits would cancel in float are
// computed in double for both types.
<% macro in_double(names) %>
<% for name in names %>
template <typename T>
__device__ __forceinline__ complex<T> << name >>(complex<T> z) {
    return complex<T>(complex_parts::<< name >>(complex<double>(z)));
}
<% endfor %>
<% endmacro %>
template <typename T>
__device__ __forceinline__ complex<T> sqrt(complex<T> z) {
    using namespace complex_parts;
    T x = z.re, y = z.im;
    if (x == T(0) && y == T(0)) return {T(0), y};
    if (infinite(y)) return {fabs(y), y};
    if (x != x) return {x, x};
    if (infinite(x)) return x < T(0) ? complex<T>(fabs(y - y), copysign(x, y)) : complex<T>(x, copysign(y - y, y));
    // Scaled by a power of 4 where the sum below would overflow or lose digits.
    const T largest = fmax(fabs(x), fabs(y)), scale = largest > T(1e37) ? T(0.25) : largest < T(1e-30) ? T(1048576) : T(1);
    const T back = largest > T(1e37) ? T(2) : largest < T(1e-30) ? T(0.0009765625) : T(1);
    x *= scale, y *= scale;
    const T root = sqrt((fabs(x) + hypot(x, y)) * T(0.5)), other = fabs(y) / (root + root);
    return x < T(0) ? complex<T>(other * back, copysign(root * back, y)) : complex<T>(root * back, copysign(other * back, y));
}
template <typename T>
__device__ __forceinline__ complex<T> exp(complex<T> z) {
    using namespace complex_parts;
    if (z.im == T(0)) return {exp(z.re), z.im};
    if (!finite(z.im) && infinite(z.re)) {
        if (z.re < T(0)) return {T(0), copysign(T(0), z.im)};
        return {z.re, z.im - z.im};
    }
    // In two factors, of which a product with a small cosine may be finite.
    const bool large = fabs(z.re) > T(sizeof(T) == 4 ? 80 : 700);
    const T half = exp(large ? z.re * T(0.5) : z.re), rest = large ? half : T(1);
    T s, c;
    sincos(z.im, &s, &c);
    return {half * c * rest, half * s * rest};
}
template <typename T>
__device__ __forceinline__ complex<T> expm1(complex<T> z) {
    if (z.im == T(0)) return {expm1(z.re) + T(0), z.im};  // not -0, by the Array API
    if (!(z.re < T(80))) return exp(z);
    if (complex_parts::infinite(z.re)) return complex_parts::finite(z.im) ? exp(z) - T(1) : complex<T>(T(-1), T(0));
    const T s = sin(z.im * T(0.5));
    return {expm1(z.re) * cos(z.im) - T(2) * s * s, exp(z.re) * sin(z.im)};
}
template <typename T>
__device__ __forceinline__ complex<T> cosh(complex<T> z) {
    using namespace complex_parts;
    const T x = z.re, y = z.im;
    if (y == T(0)) return {cosh(x), copysign(T(0), x) * y};
    if (!finite(y)) {
        if (x == T(0)) return {y - y, copysign(T(0), x)};
        return {infinite(x) ? fabs(x) : y - y, y - y};
    }
    T s, c;
    sincos(y, &s, &c);
    if (x == T(0)) return {c, x * s};
    if (fabs(x) > T(sizeof(T) == 4 ? 80 : 700)) {
        const T half = exp(fabs(x) * T(0.5));
        return {T(0.5) * half * c * half, copysign(T(0.5) * half, x) * s * half};
    }
    return {cosh(x) * c, sinh(x) * s};
}
template <typename T>
__device__ __forceinline__ complex<T> sinh(complex<T> z) {
    using namespace complex_parts;
    const T x = z.re, y = z.im;
    if (y == T(0)) return {sinh(x), y};
    if (!finite(y)) return {x == T(0) || infinite(x) ? x : y - y, y - y};
    T s, c;
    sincos(y, &s, &c);
    if (x == T(0)) return {x * c, s};
    if (fabs(x) > T(sizeof(T) == 4 ? 80 : 700)) {
        const T half = exp(fabs(x) * T(0.5));
        return {copysign(T(0.5) * half, x) * c * half, T(0.5) * half * s * half};
    }
    return {sinh(x) * c, cosh(x) * s};
}
// Source: Kahan, "Branch cuts for complex elementary functions", 1987.
template <typename T>
__device__ __forceinline__ complex<T> tanh(complex<T> z) {
    using namespace complex_parts;
    const T x = z.re, y = z.im;
    if (x != x) return {x, y == T(0) ? y : x};
    if (infinite(x)) return {copysign(T(1), x), copysign(T(0), y)};  // as the Array API has it; in C99 it is sin(2 * y)'s sign
    if (!finite(y)) return {x == T(0) ? x : y - y, y - y};
    if (fabs(x) > T(sizeof(T) == 4 ? 11 : 22)) {
        const T small = exp(-fabs(x));
        return {copysign(T(1), x), T(4) * sin(y) * cos(y) * small * small};
    }
    const T t = tan(y), s = sinh(x), by = T(1) + t * t, size = T(1) + by * s * s;
    return {by * sqrt(T(1) + s * s) * s / size, t / size};
}
template <typename T>
__device__ __forceinline__ complex<T> cos(complex<T> z) { return cosh(complex<T>(-z.im, z.re)); }
template <typename T>
__device__ __forceinline__ complex<T> sin(complex<T> z) {
    const complex<T> result = sinh(complex<T>(-z.im, z.re));
    return {result.im, -result.re};
}
template <typename T>
__device__ __forceinline__ complex<T> tan(complex<T> z) {
    const complex<T> result = tanh(complex<T>(-z.im, z.re));
    return {result.im, -result.re};
}

namespace complex_parts {
// a + b, and what rounding takes from it. Source: Knuth, The Art of Computer Programming, volume 2.
__device__ __forceinline__ double rounded_sum(double a, double b, double* rest) {
    const double sum = __dadd_rn(a, b), other = __dsub_rn(sum, a);
    *rest += __dadd_rn(__dsub_rn(a, __dsub_rn(sum, other)), __dsub_rn(b, other));
    return sum;
}
// a + x * x + y * y, exact but for the last rounding unless all but some 100 bits cancel.
__device__ __forceinline__ double with_squares(double a, double b, double x, double y) {
    const double xx = __dmul_rn(x, x), yy = __dmul_rn(y, y);
    double rest = fma(x, x, -xx) + fma(y, y, -yy);
    double sum = rounded_sum(a, b, &rest);
    sum = rounded_sum(sum, xx, &rest);
    sum = rounded_sum(sum, yy, &rest);
    return sum + rest;
}
// a / b to within a unit of the last place, of a normal b with a normal reciprocal.
__device__ __forceinline__ float near_quotient(float a, float b) {
#ifdef __CUDA_ARCH__
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(b));
    const float q = a * inverse;
    return fma(fma(-b, q, a), inverse, q);
#else
    return a / b;
#endif
}
__device__ __noinline__ complex<double> log(complex<double> z) {
    const double a = fmax(fabs(z.re), fabs(z.im)), b = fmin(fabs(z.re), fabs(z.im)), angle = atan2(z.im, z.re);
    if (!finite(z.re) || !finite(z.im)) return {hypot(z.re, z.im), angle};
    if (a > 0.5 && a < 1.5 && a * a + b * b < 3.0) return {0.5 * log1p(with_squares(-1.0, 0.0, a, b)), angle};
    if (a > 1e300) return {::log(hypot(0.5 * a, 0.5 * b)) + 0.6931471805599453, angle};
    if (a < 1e-290) return {::log(hypot(a * 0x1p200, b * 0x1p200)) - 200 * 0.6931471805599453, angle};
    return {::log(hypot(a, b)), angle};
}
__device__ __forceinline__ complex<double> log1p(complex<double> z) {
    if (fabs(z.re) > 0.5 || fabs(z.im) > 0.5) return log(complex<double>(1.0 + z.re, z.im));
    return {0.5 * ::log1p(with_squares(z.re, z.re, z.re, z.im)), atan2(z.im, 1.0 + z.re)};
}
__device__ __forceinline__ complex<double> log2(complex<double> z) { return 1.4426950408889634 * log(z); }
__device__ __forceinline__ complex<double> log10(complex<double> z) { return 0.4342944819032518 * log(z); }

// The inverse functions. Source: Hull, Fairgrieve and Tang, "Implementing the complex arcsine and arccosine functions
// using exception handling", 1997.
constexpr double epsilon = 0x1p-52, half_pi = 1.5707963267948966, ln2 = 0.6931471805599453;
__device__ __forceinline__ double half_difference(double a, double b, double size) {
    return b < 0.0 ? (size - b) * 0.5 : b == 0.0 ? a * 0.5 : a * a / (size + b) * 0.5;
}
// Of x, y >= 0: the real part of asinh, and its imaginary part as asin(b), or as the angle of (root, height).
struct Inverse {
    double real, b, root, height;
    bool usable;
};
__device__ __noinline__ Inverse inverse_parts(double x, double y) {
    const double r = hypot(x, y + 1.0), s = hypot(x, y - 1.0), a = fmax(0.5 * (r + s), 1.0);
    const bool away = x >= epsilon * fabs(y - 1.0);
    Inverse result{0.0, y / a, 0.0, y, true};
    if (a >= 10.0) {
        result.real = ::log(a + ::sqrt(a * a - 1.0));
    } else if (y == 1.0 && x < epsilon * epsilon / 128) {
        result.real = ::sqrt(x);
    } else if (away) {
        const double less = half_difference(x, 1.0 + y, r) + half_difference(x, 1.0 - y, s);
        result.real = ::log1p(less + ::sqrt(less * (a + 1.0)));
    } else if (y < 1.0) {
        result.real = x / ::sqrt((1.0 - y) * (1.0 + y));
    } else {
        result.real = ::log1p((y - 1.0) + ::sqrt((y - 1.0) * (y + 1.0)));
    }
    result.usable = y >= 0x1p-509 && result.b <= 0.6417;
    if (result.usable) return result;
    if (y < 0x1p-509) {
        result.root = a * (2.0 / epsilon), result.height = y * (2.0 / epsilon);
    } else if (y == 1.0 && x < epsilon / 128) {
        result.root = ::sqrt(x) * ::sqrt(0.5 * (a + y));
    } else if (away) {
        result.root = ::sqrt((half_difference(x, y + 1.0, r) + half_difference(x, y - 1.0, s)) * (a + y));
    } else if (y > 1.0) {
        result.root = x * (4.0 / epsilon / epsilon) * y / ::sqrt((y + 1.0) * (y - 1.0));
        result.height = y * (4.0 / epsilon / epsilon);
    } else {
        result.root = ::sqrt((1.0 - y) * (1.0 + y));
    }
    return result;
}
__device__ __forceinline__ complex<double> asinh(complex<double> z) {
    const double x = z.re, y = z.im, a = fabs(x), b = fabs(y);
    if (x != x || y != y) {
        if (infinite(x)) return {x, y};
        if (infinite(y)) return {y, x};
        return {limits<double>::quiet_nan(), y == 0.0 ? y : limits<double>::quiet_nan()};
    }
    if (a > 1.0 / epsilon || b > 1.0 / epsilon) {
        const complex<double> result = log(complex<double>(a, b));
        return {copysign(result.re + ln2, x), copysign(result.im, y)};
    }
    if (a < 0x1p-27 && b < 0x1p-27) return z;
    const Inverse result = inverse_parts(a, b);
    return {copysign(result.real, x), copysign(result.usable ? ::asin(result.b) : atan2(result.height, result.root), y)};
}
__device__ __forceinline__ complex<double> asin(complex<double> z) {
    const complex<double> result = asinh(complex<double>(z.im, z.re));
    return {result.im, result.re};
}
__device__ __forceinline__ complex<double> acos(complex<double> z) {
    const double x = z.re, y = z.im, a = fabs(x), b = fabs(y);
    const bool negative = signbit(x), below = signbit(y);
    if (x != x || y != y) {
        if (infinite(x)) return {y + x - x, -limits<double>::infinity()};
        if (infinite(y)) return {x, -y};
        return {x == 0.0 ? half_pi : limits<double>::quiet_nan(), limits<double>::quiet_nan()};
    }
    if (a > 1.0 / epsilon || b > 1.0 / epsilon) {
        const complex<double> result = log(z);
        return {fabs(result.im), below ? result.re + ln2 : -(result.re + ln2)};
    }
    if (x == 1.0 && y == 0.0) return {0.0, -y};
    if (a < 0x1p-27 && b < 0x1p-27) return {half_pi - (x - 6.123233995736766e-17), -y};
    const Inverse result = inverse_parts(b, a);
    const double angle = result.usable ? ::acos(negative ? -result.b : result.b)
                                     : atan2(result.root, negative ? -result.height : result.height);
    return {angle, below ? result.real : -result.real};
}
__device__ __forceinline__ complex<double> acosh(complex<double> z) {
    const complex<double> result = acos(z);
    if (result.re != result.re) return {result.im != result.im ? result.im : fabs(result.im), result.re};
    if (result.im != result.im) return {result.im, z.re == 0.0 ? half_pi : result.im};
    return {fabs(result.im), copysign(result.re, z.im)};
}
__device__ __forceinline__ complex<double> atanh(complex<double> z) {
    const double x = z.re, y = z.im, a = fabs(x), b = fabs(y);
    if (y == 0.0 && a <= 1.0) return {::atanh(x), y};
    if (x == 0.0) return {x, ::atan(y)};
    if (x != x || y != y) {
        if (infinite(x)) return {copysign(0.0, x), y};
        if (infinite(y)) return {copysign(0.0, x), copysign(half_pi, y)};
        return {limits<double>::quiet_nan(), limits<double>::quiet_nan()};
    }
    if (a > 1.0 / epsilon || b > 1.0 / epsilon) {
        const bool far = infinite(x) || infinite(y);
        return {far ? copysign(0.0, x) : quotient(complex<double>(1.0), z).re, copysign(half_pi, y)};
    }
    if (a < 0x1p-28 && b < 0x1p-28) return z;
    const double distance = (a - 1.0) * (a - 1.0) + (b < 0x1p-511 ? 0.0 : b * b);
    const double real = a == 1.0 && b < epsilon ? 0.5 * (ln2 - ::log(b)) : 0.25 * ::log1p(4.0 * a / distance);
    const double across = (1.0 - a) * (1.0 + a);
    const double angle = a == 1.0 ? atan2(2.0, -b) : atan2(2.0 * b, b < epsilon ? across : across - b * b);
    return {copysign(real, x), copysign(0.5 * angle, y)};
}
__device__ __forceinline__ complex<double> atan(complex<double> z) {
    const complex<double> result = atanh(complex<double>(z.im, z.re));
    return {result.im, result.re};
}
}  // namespace complex_parts
<< in_double(["log", "log1p", "log2", "log10", "asin", "acos", "atan", "asinh", "acosh", "atanh"]) >>

// The logarithm of floats: (|z|^2 / 2^k - 1) in double, of whose terms the first squares are exact, then in float.
__device__ __forceinline__ complex<float> log(complex<float> z) {
    const float x = fabs(z.re), y = fabs(z.im);
    const double large = fmax(x, y), small = fmin(x, y), most = large * large, rest = small * small, size = most + rest;
    if (!(size > 1e-70 && size < 1e70 && x + y < 1e36f)) return complex<float>(complex_parts::log(complex<double>(z)));
    // size / 2^k in [2/3, 4/3)
    const int k = (__double2hiint(size) - 0x3fe55555) >> 20;
    const double by = __hiloint2double(shl(0x3ff - k, 20), 0);
    const float f = float((most * by - 1.0) + rest * by), ff = f * f;
    float even = fma(-0.130310059f, ff, -0.121483512f), odd = fma(0.140869141f, ff, 0.139814854f);
    even = fma(even, ff, -0.166846126f), odd = fma(odd, ff, 0.200120345f);
    even = fma(odd, f, fma(even, ff, -0.249996200f));
    even = fma(fma(even, f, 0.333331972f), f, -0.5f);
    const float t = complex_parts::near_quotient(float(small), float(large)), tt = t * t;
    float angle = fma(0.00292059547f, tt, -0.0163675454f);
    angle = fma(fma(angle, tt, 0.0432112478f), tt, -0.075521633f);
    angle = fma(fma(angle, tt, 0.106659807f), tt, -0.142110497f);
    angle = fma(t * tt, fma(fma(angle, tt, 0.199937716f), tt, -0.333331525f), t);
    // Half and quarter of a turn, and what rounding to float adds to them.
    angle = y > x ? 1.57079637f - (angle + 4.37113883e-8f) : angle;
    angle = z.re < 0.0f ? 3.14159274f - (angle + 8.74227766e-8f) : angle;
    return {fma(float(k), << 0.6931471805599453 / 2 >>f, 0.5f * fma(even, ff, f)), copysign(angle, z.im)};
}

// Small whole powers by products, 0 ** 0 == 1; others by the logarithm, in double.
template <typename T>
__device__ __forceinline__ complex<T> pow(complex<T> x, complex<T> y) {
    if (y == complex<T>(0)) return T(1);
    if (x == complex<T>(0)) return y.re > T(0) ? complex<T>(0) : complex<T>(limits<T>::quiet_nan(), limits<T>::quiet_nan());
    complex<double> base(x), result(1.0);
    if (y.im == T(0) && y.re == rint(y.re) && fabs(y.re) < T(100)) {
        int n = int(fabs(y.re));
        for (; n; n /= 2) {
            if (n % 2) result *= base;
            base *= base;
        }
        return complex<T>(y.re < T(0) ? complex<double>(1.0) / result : result);
    }
    return complex<T>(exp(complex<double>(y) * complex_parts::log(base)));
}
template <typename T>
__device__ __forceinline__ complex<T> exp2(complex<T> z) { return exp(T(0.6931471805599453) * z); }
template <typename T>
__device__ __forceinline__ complex<T> rint(complex<T> z) { return {rint(z.re), rint(z.im)}; }
// z / |z|, and 0 at 0.
template <typename T>
__device__ __forceinline__ complex<T> direction_of(complex<T> z) {
    using namespace complex_parts;
    if (z == complex<T>(0)) return T(0);
    if (infinite(z.re) != infinite(z.im)) z = corner(z);
    if (infinite(abs(z))) z = z * T(0.25);
    return z / abs(z);
}
