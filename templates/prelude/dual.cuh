// Dual numbers, a + b e with e * e = 0: arithmetic and functions carry a value and its derivative along one direction.
// They stand in place of complex numbers, under whose name a launch passes them. Comparisons are those of the values.
<% macro unary(name, value, slope) %>
template <typename T>
__device__ __forceinline__ complex<T> << name >>(complex<T> z) {
    const T x = z.re, y = << value >>;
    return {y, z.im == T(0) ? T(0) : T(<< slope >>) * z.im};
}
<% endmacro %>
<% macro flat(name) %>
template <typename T>
__device__ __forceinline__ complex<T> << name >>(complex<T> z) { return {<< name >>(z.re), T(0)}; }
<% endmacro %>
<% macro test(name) %>
template <typename T>
__device__ __forceinline__ bool << name >>(complex<T> z) { return << name >>(z.re); }
<% endmacro %>
template <typename T>
struct alignas(2 * sizeof(T)) complex {
    T re, im;

    complex() = default;
    __device__ constexpr complex(T value, T slope = T(0)) : re(value), im(slope) {}
    template <typename I, typename = decltype(I(1) % I(1))>
    __device__ constexpr explicit operator I() const { return I(re); }
    __device__ constexpr explicit operator bool() const { return re != T(0); }

    friend __device__ __forceinline__ complex operator+(complex a) { return a; }
    friend __device__ __forceinline__ complex operator-(complex a) { return {-a.re, -a.im}; }
    friend __device__ __forceinline__ complex operator+(complex a, complex b) { return {a.re + b.re, a.im + b.im}; }
    friend __device__ __forceinline__ complex operator-(complex a, complex b) { return {a.re - b.re, a.im - b.im}; }
    friend __device__ __forceinline__ complex operator*(complex a, complex b) {
        return {a.re * b.re, slope(a.im, b.re) + slope(b.im, a.re)};
    }
    friend __device__ __forceinline__ complex operator/(complex a, complex b) {
        const T value = a.re / b.re;
        return {value, slope(a.im - slope(b.im, value), T(1) / b.re)};
    }
    __device__ __forceinline__ complex& operator+=(complex b) { return *this = *this + b; }
    __device__ __forceinline__ complex& operator-=(complex b) { return *this = *this - b; }
    __device__ __forceinline__ complex& operator*=(complex b) { return *this = *this * b; }
    __device__ __forceinline__ complex& operator/=(complex b) { return *this = *this / b; }
    friend __device__ __forceinline__ bool operator==(complex a, complex b) { return a.re == b.re; }
    friend __device__ __forceinline__ bool operator!=(complex a, complex b) { return a.re != b.re; }
    friend __device__ __forceinline__ bool operator<(complex a, complex b) { return a.re < b.re; }
    friend __device__ __forceinline__ bool operator>(complex a, complex b) { return a.re > b.re; }
    friend __device__ __forceinline__ bool operator<=(complex a, complex b) { return a.re <= b.re; }
    friend __device__ __forceinline__ bool operator>=(complex a, complex b) { return a.re >= b.re; }

  private:
    // What does not move stays at 0, even where it is multiplied by an infinity.
    __device__ static __forceinline__ T slope(T moved, T by) { return moved == T(0) ? T(0) : moved * by; }
};

template <typename T>
struct limits<complex<T>> {
    __device__ static __forceinline__ complex<T> infinity() { return limits<T>::infinity(); }
    __device__ static __forceinline__ complex<T> quiet_nan() { return limits<T>::quiet_nan(); }
    __device__ static __forceinline__ complex<T> lowest() { return limits<T>::lowest(); }
    __device__ static __forceinline__ complex<T> highest() { return limits<T>::highest(); }
    __device__ static __forceinline__ complex<T> epsilon() { return limits<T>::epsilon(); }
};

<% for name, parameters in [("__shfl_sync", "int lane"), ("__shfl_up_sync", "unsigned lane"), ("__shfl_down_sync", "unsigned lane"), ("__shfl_xor_sync", "int lane")] %>
template <typename T>
__device__ __forceinline__ complex<T> << name >>(unsigned mask, complex<T> z, << parameters >>, int width = 32) {
    const T value = << name >>(mask, z.re, lane, width);
    return {value, << name >>(mask, z.im, lane, width)};
}
<% endfor %>
template <typename T, typename U>
__device__ __forceinline__ complex<T> atomicAdd(complex<T>* at, U given) {
    const complex<T> more = given;
    const T value = atomicAdd(&at->re, more.re);
    return {value, atomicAdd(&at->im, more.im)};
}

<% for name, value, slope in [
    ("exp", "exp(x)", "y"), ("exp2", "exp2(x)", "0.6931471805599453 * y"), ("exp10", "exp10(x)", "2.302585092994046 * y"),
    ("expm1", "expm1(x)", "y + 1"), ("log", "log(x)", "1 / x"), ("log1p", "log1p(x)", "1 / (1 + x)"),
    ("log2", "log2(x)", "1.4426950408889634 / x"), ("log10", "log10(x)", "0.4342944819032518 / x"),
    ("sin", "sin(x)", "cos(x)"), ("cos", "cos(x)", "-sin(x)"), ("tan", "tan(x)", "1 + y * y"),
    ("sinpi", "sinpi(x)", "3.141592653589793 * cospi(x)"), ("cospi", "cospi(x)", "-3.141592653589793 * sinpi(x)"),
    ("asin", "asin(x)", "1 / sqrt(1 - x * x)"), ("acos", "acos(x)", "-1 / sqrt(1 - x * x)"), ("atan", "atan(x)", "1 / (1 + x * x)"),
    ("sinh", "sinh(x)", "cosh(x)"), ("cosh", "cosh(x)", "sinh(x)"), ("tanh", "tanh(x)", "1 - y * y"),
    ("asinh", "asinh(x)", "1 / sqrt(x * x + 1)"), ("acosh", "acosh(x)", "1 / sqrt(x * x - 1)"), ("atanh", "atanh(x)", "1 / (1 - x * x)"),
    ("sqrt", "sqrt(x)", "0.5 / y"), ("rsqrt", "rsqrt(x)", "-0.5 * y / x"), ("cbrt", "cbrt(x)", "y / (3 * x)"),
    ("erf", "erf(x)", "1.1283791670955126 * exp(-x * x)"), ("erfc", "erfc(x)", "-1.1283791670955126 * exp(-x * x)"),
    ("normcdf", "normcdf(x)", "0.3989422804014327 * exp(-0.5 * x * x)"), ("fabs", "fabs(x)", "x < T(0) ? -1 : x > T(0) ? 1 : 0"),
] %>
<< unary(name, value, slope) >>
<% endfor %>
<% for name in ["floor", "ceil", "round", "trunc", "rint", "nearbyint"] %>
<< flat(name) >>
<% endfor %>
<% for name in ["isnan", "isinf", "isfinite", "signbit"] %>
<< test(name) >>
<% endfor %>
template <typename T>
__device__ __forceinline__ complex<T> abs(complex<T> z) { return fabs(z); }
template <typename T>
__device__ __forceinline__ complex<T> power_of(complex<T> x, complex<T> y) {
    const T value = pow(x.re, y.re);
    const T by_x = x.im == T(0) || y.re == T(0) ? T(0) : y.re * pow(x.re, y.re - T(1)) * x.im;
    const T by_y = y.im == T(0) ? T(0) : value * log(x.re) * y.im;
    return {value, by_x + by_y};
}
template <typename T>
__device__ __forceinline__ complex<T> hypot_of(complex<T> x, complex<T> y) {
    const T value = hypot(x.re, y.re);
    return {value, value == T(0) ? T(0) : (x.re * x.im + y.re * y.im) / value};
}
template <typename T>
__device__ __forceinline__ complex<T> angle_of(complex<T> y, complex<T> x) {
    return {atan2(y.re, x.re), (x.re * y.im - y.re * x.im) / (x.re * x.re + y.re * y.re)};
}
template <typename T>
__device__ __forceinline__ complex<T> larger_of(complex<T> a, complex<T> b) { return a.re > b.re || b.re != b.re ? a : b; }
template <typename T>
__device__ __forceinline__ complex<T> smaller_of(complex<T> a, complex<T> b) { return a.re < b.re || b.re != b.re ? a : b; }
template <typename T>
__device__ __forceinline__ complex<T> with_sign_of(complex<T> a, complex<T> b) { return signbit(a.re) == signbit(b.re) ? a : -a; }
template <typename T>
__device__ __forceinline__ complex<T> modulo_of(complex<T> a, complex<T> b) {
    return {fmod(a.re, b.re), a.im - (b.im == T(0) ? T(0) : trunc(a.re / b.re) * b.im)};
}
<% for name, function in [("pow", "power_of"), ("powf", "power_of"), ("__powf", "power_of"), ("hypot", "hypot_of"), ("hypotf", "hypot_of"),
    ("atan2", "angle_of"), ("atan2f", "angle_of"), ("fmax", "larger_of"), ("fmaxf", "larger_of"), ("max", "larger_of"),
    ("fmin", "smaller_of"), ("fminf", "smaller_of"), ("min", "smaller_of"), ("copysign", "with_sign_of"),
    ("copysignf", "with_sign_of"), ("fmod", "modulo_of"), ("fmodf", "modulo_of")] %>
template <typename T>
__device__ __forceinline__ complex<T> << name >>(complex<T> a, complex<T> b) { return << function >>(a, b); }
<% for number in ["int", "float", "double"] %>
template <typename T>
__device__ __forceinline__ complex<T> << name >>(complex<T> a, << number >> b) { return << function >>(a, complex<T>(T(b))); }
template <typename T>
__device__ __forceinline__ complex<T> << name >>(<< number >> a, complex<T> b) { return << function >>(complex<T>(T(a)), b); }
<% endfor %>
<% endfor %>
template <typename T, typename A, typename B>
__device__ __forceinline__ complex<T> fma(complex<T> x, A y, B z) { return x * y + z; }
template <typename T, typename A, typename B>
__device__ __forceinline__ complex<T> fmaf(complex<T> x, A y, B z) { return x * y + z; }
<% for name in ["exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "tanh", "sinh", "cosh", "sqrt", "rsqrt", "cbrt", "erf", "erfc", "fabs", "floor", "ceil", "round", "trunc", "rint"] %>
template <typename T>
__device__ __forceinline__ complex<T> << name >>f(complex<T> z) { return << name >>(z); }
<% endfor %>
<% for name in ["exp", "log", "log2", "log10", "sin", "cos", "tan"] %>
template <typename T>
__device__ __forceinline__ complex<T> __<< name >>f(complex<T> z) { return << name >>(z); }
<% endfor %>
<% for name, sign in [("__fdividef", "/"), ("__fadd_rn", "+"), ("__fsub_rn", "-"), ("__fmul_rn", "*"), ("__fdiv_rn", "/")] %>
template <typename T>
__device__ __forceinline__ complex<T> << name >>(complex<T> x, complex<T> y) { return x << sign >> y; }
<% endfor %>
<% for name, value in [("__frcp_rn", "complex<T>(T(1)) / z"), ("__fsqrt_rn", "sqrt(z)"), ("__frsqrt_rn", "rsqrt(z)"), ("__half2float", "z"),
    ("__float2half", "z"), ("__float2half_rn", "z"), ("__bfloat162float", "z"), ("__float2bfloat16", "z")] %>
template <typename T>
__device__ __forceinline__ complex<T> << name >>(complex<T> z) { return << value >>; }
<% endfor %>
<% for name in ["sincos", "sincosf", "__sincosf"] %>
template <typename T>
__device__ __forceinline__ void << name >>(complex<T> z, complex<T>* s, complex<T>* c) { *s = sin(z), *c = cos(z); }
<% endfor %>
template <typename T, typename A, typename B>
__device__ __forceinline__ complex<T> __fmaf_rn(complex<T> x, A y, B z) { return x * y + z; }
