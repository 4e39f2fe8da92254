// The functions of elementwise rows that C++ has not, or that differ from NumPy's. T is a type of computation: bool,
// an integer, float or double.

template <typename T>
struct is_floating {
    static constexpr bool value = T(0.5) != T(0);
};

#ifndef __CUDACC__
// Quotient of integers of at most 32 bits, rounded down, by doubles: they hold it, and a CPU's vectors divide them.
template <typename T>
inline T divide_as_doubles(T x, T y) {
    double q = __builtin_floor(double(x) / double(y == T(0) ? T(1) : y));
    if constexpr (T(-1) < T(0)) return y == T(0) ? T(0) : T(int(q > 2147483647.0 ? -2147483648.0 : q));
    return y == T(0) ? T(0) : T(unsigned(int(q - 2147483648.0)) + 2147483648u);
}
#endif
// Quotient rounded down, and the remainder with the divisor's sign; integers divided by 0 give 0, as in NumPy.
template <typename T>
__device__ __forceinline__ T remainder_of(T x, T y) {
    if constexpr (is_floating<T>::value) {
        T r = fmod(x, y);
        if (r == T(0)) return copysign(T(0), y);
        return (r < T(0)) != (y < T(0)) ? r + y : r;
    } else {
#ifndef __CUDACC__
        if constexpr (sizeof(T) <= 4) return y == T(0) ? T(0) : T(unsigned(x) - unsigned(divide_as_doubles(x, y)) * unsigned(y));
#endif
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
#ifndef __CUDACC__
        if constexpr (sizeof(T) <= 4) return divide_as_doubles(x, y);
#endif
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
    const bool none = y < T(0) || y >= T(8 * sizeof(T));
    if constexpr (sizeof(T) <= 4) return none ? T(0) : T(shl((unsigned)x, int(y)));
    return none ? T(0) : T(shl((unsigned long long)x, int(y)));
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

<# What few rows call stands in files of its own: a compiler reads it for those alone. #>
<% set code = body | map(attribute="code") | join if body is defined else "" %>
<% if "gamma_of" in code or "special::" in code %>
<% include "prelude/digamma.cuh" %>
<% endif %>
<% if "greatest_divisor" in code or "least_multiple" in code %>
// Greatest common divisor; the sign of the operands does not matter. Without divisions: Stein, "Computational problems
// associated with Racah algebra", 1967.
template <typename U>
__device__ __forceinline__ int trailing_zeros(U x) {
    return (sizeof(U) > 4 ? __ffsll((long long)x) : __ffs(int(x))) - 1;
}
template <typename U, typename T>
__device__ __forceinline__ T divisor_by(T x, T y) {
    U a = x < T(0) ? U(0) - U(x) : U(x), b = y < T(0) ? U(0) - U(y) : U(y);
    if (!a || !b) return T(a | b);
    const int twos = trailing_zeros(U(a | b));
    a >>= trailing_zeros(a);
    while (b) {
        b >>= trailing_zeros(b);
        const U least = minimum(a, b);
        b = maximum(a, b) - least;
        a = least;
    }
    return T(shl(a, twos));
}
template <typename T>
__device__ __forceinline__ T greatest_divisor(T x, T y) {
    if constexpr (sizeof(T) > 4) return divisor_by<unsigned long long>(x, y);
    else return divisor_by<unsigned>(x, y);
}
template <typename T>
__device__ __forceinline__ T least_multiple(T x, T y) {
    const T d = greatest_divisor(x, y);
    if (d == T(0)) return T(0);
    const unsigned long long m = (unsigned long long)(x / d) * (unsigned long long)y;
    return T(m) < T(0) ? T(0ull - m) : T(m);
}
<% endif %>
<% if "count_bits" in code %>
// The bits that are set in the magnitude of x: of 32 bits, which vectors count, by sums of 2, 4 and 8 neighbours, and of bytes.
template <typename T>
__device__ __forceinline__ int count_bits(T x) {
    if constexpr (sizeof(T) > 4) {
        unsigned long long a = x < T(0) ? 0ull - (unsigned long long)x : (unsigned long long)x;
        int result = 0;
        for (; a; a &= a - 1) ++result;
        return result;
    }
    unsigned a = x < T(0) ? 0u - unsigned(x) : unsigned(x);
    a -= (a >> 1) & 0x55555555u;
    a = (a & 0x33333333u) + ((a >> 2) & 0x33333333u);
    a = (a + (a >> 4)) & 0x0f0f0f0fu;
    a += a >> 8;
    a += a >> 16;
    return int(a & 63u);
}
<% endif %>
<% if "sinc_of" in code %>
// sin(pi x) / (pi x). Where pi x overflows, the value is smaller than any number.
template <typename T>
__device__ __forceinline__ T sinc_of(T x) {
    const T turn = T(3.141592653589793) * x, ratio = sin(turn) / turn;
    return x == T(0) ? T(1) : fabs(x) < limits<T>::infinity() && fabs(turn) == limits<T>::infinity() ? T(0) : ratio;
}
<% endif %>
<% if "logit_of" in code %>
// log(x / (1 - x)). The logarithm gets back what rounding took from the ratio and from 1 - x: all of it where the ratio is
// near 1 and its logarithm small, where 4 (1 - x) is 1 / x, and elsewhere not too much.
template <typename T>
__device__ __forceinline__ T logit_of(T x) {
    const T rest = T(1) - x, ratio = x / rest, rounding = (T(1) - rest) - x;
    const T lost = fma(-ratio, rounding, fma(-ratio, rest, x));
    return rest == T(0) ? ratio : log(ratio) + T(4) * rest * lost;
}
<% endif %>
<% if "erfc_of" in code or "gelu_of_" in code %>
<% include "prelude/erfc.cuh" %>
<% endif %>
<% if "special::" in code %>
<% include "prelude/special.cuh" %>
<% endif %>
<% if "bessel::" in code %>
<% include "prelude/bessel.cuh" %>
<% endif %>
