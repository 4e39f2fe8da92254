template <typename T>
struct complex;
namespace complex_parts {
template <typename T>
__device__ __noinline__ complex<T> product(complex<T> a, complex<T> b);
__device__ complex<float> quotient(complex<float> a, complex<float> b);
__device__ complex<double> quotient(complex<double> a, complex<double> b);
}  // namespace complex_parts

// Complex numbers of two floats or doubles, with C99 Annex G's infinities. Numbers on the other side of an operator are
// converted; a complex number never becomes a real one: take real(z), abs(z) or another part of it.
template <typename T>
struct alignas(2 * sizeof(T)) complex {
    T re, im;

    complex() = default;
    __device__ constexpr complex(T real, T imag = T(0)) : re(real), im(imag) {}
    template <typename U>
    __device__ constexpr explicit complex(complex<U> z) : re(T(z.re)), im(T(z.im)) {}
    __device__ constexpr T real() const { return re; }
    __device__ constexpr T imag() const { return im; }

    friend __device__ __forceinline__ complex operator+(complex a) { return a; }
    friend __device__ __forceinline__ complex operator-(complex a) { return {-a.re, -a.im}; }
    friend __device__ __forceinline__ complex operator+(complex a, complex b) { return {a.re + b.re, a.im + b.im}; }
    friend __device__ __forceinline__ complex operator-(complex a, complex b) { return {a.re - b.re, a.im - b.im}; }
    friend __device__ __forceinline__ complex operator*(T a, complex b) { return {a * b.re, a * b.im}; }
    friend __device__ __forceinline__ complex operator*(complex a, T b) { return {a.re * b, a.im * b}; }
    friend __device__ __forceinline__ complex operator/(complex a, T b) { return {a.re / b, a.im / b}; }
    friend __device__ __forceinline__ complex operator*(complex a, complex b) {
        const complex product(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
        return product.re != product.re && product.im != product.im ? complex_parts::product(a, b) : product;
    }
    friend __device__ __forceinline__ complex operator/(complex a, complex b) { return complex_parts::quotient(a, b); }
    __device__ __forceinline__ complex& operator+=(complex b) { return *this = *this + b; }
    __device__ __forceinline__ complex& operator-=(complex b) { return *this = *this - b; }
    __device__ __forceinline__ complex& operator*=(complex b) { return *this = *this * b; }
    __device__ __forceinline__ complex& operator/=(complex b) { return *this = *this / b; }

    friend __device__ __forceinline__ bool operator==(complex a, complex b) { return a.re == b.re && a.im == b.im; }
    friend __device__ __forceinline__ bool operator!=(complex a, complex b) { return !(a == b); }
    // Lexicographic, as NumPy orders complex numbers.
    friend __device__ __forceinline__ bool operator<(complex a, complex b) {
        return a.re < b.re ? a.im == a.im && b.im == b.im : a.re == b.re && a.im < b.im;
    }
    friend __device__ __forceinline__ bool operator>(complex a, complex b) { return b < a; }
    friend __device__ __forceinline__ bool operator<=(complex a, complex b) {
        return a.re < b.re ? a.im == a.im && b.im == b.im : a.re == b.re && a.im <= b.im;
    }
    friend __device__ __forceinline__ bool operator>=(complex a, complex b) { return b <= a; }
};

template <typename T>
struct limits<complex<T>> {
    __device__ static __forceinline__ complex<T> quiet_nan() { return {limits<T>::quiet_nan(), T(0)}; }
    __device__ static __forceinline__ complex<T> lowest() { return {-limits<T>::infinity(), -limits<T>::infinity()}; }
    __device__ static __forceinline__ complex<T> highest() { return {limits<T>::infinity(), limits<T>::infinity()}; }
};

namespace complex_parts {
template <typename T>
__device__ __forceinline__ bool infinite(T x) { return fabs(x) == limits<T>::infinity(); }
template <typename T>
__device__ __forceinline__ bool finite(T x) { return fabs(x) < limits<T>::infinity(); }
// The corner of the square to which an infinite number points, and a number with 0 for NaN.
template <typename T>
__device__ __forceinline__ complex<T> corner(complex<T> z) {
    return {copysign(infinite(z.re) ? T(1) : T(0), z.re), copysign(infinite(z.im) ? T(1) : T(0), z.im)};
}
template <typename T>
__device__ __forceinline__ complex<T> without_nan(complex<T> z) {
    return {z.re != z.re ? copysign(T(0), z.re) : z.re, z.im != z.im ? copysign(T(0), z.im) : z.im};
}
// A product of which both parts came out as NaN: infinite if a factor or a partial product is. Source: C99, Annex G.5.1.
template <typename T>
__device__ __noinline__ complex<T> product(complex<T> a, complex<T> b) {
    const bool of_a = infinite(a.re) || infinite(a.im), of_b = infinite(b.re) || infinite(b.im);
    const bool partial = infinite(a.re * b.re) || infinite(a.im * b.im) || infinite(a.re * b.im) || infinite(a.im * b.re);
    if (!of_a && !of_b && !partial) return {limits<T>::quiet_nan(), limits<T>::quiet_nan()};
    a = without_nan(of_a ? corner(a) : a), b = without_nan(of_b ? corner(b) : b);
    const T infinity = limits<T>::infinity();
    return {infinity * (a.re * b.re - a.im * b.im), infinity * (a.re * b.im + a.im * b.re)};
}
#ifndef __CUDACC__
// 1 and -1, whose values compilers do not know: with these factors both parts of a number are sums, which one vector instruction makes,
// where one would be a sum and the other a difference.
template <typename Z>
inline Z signs() {
    volatile decltype(Z::re) one = 1;
    return {one, -one};
}
// conj, both of whose parts are made by one operation, so that vectors can compute it.
template <typename T>
inline complex<T> plain_conj(complex<T> z, complex<T> signs) { return {signs.re * z.re, signs.im * z.im}; }
// A product without Annex G's infinities, where both parts are NaN, which vectors can compute.
template <typename T>
inline complex<T> plain_product(complex<T> a, complex<T> b, complex<T> signs) {
    return {a.re * b.re + signs.im * (a.im * b.im), a.re * b.im + signs.re * (a.im * b.re)};
}
#endif
// A quotient of which both parts came out as NaN. Source: C99, Annex G.5.1.
template <typename T>
__device__ __noinline__ complex<T> special_quotient(complex<T> a, complex<T> b) {
    const T infinity = limits<T>::infinity();
    if (b.re == T(0) && b.im == T(0)) return {copysign(infinity, b.re) * a.re, copysign(infinity, b.re) * a.im};
    T size = limits<T>::quiet_nan();
    if ((infinite(a.re) || infinite(a.im)) && finite(b.re) && finite(b.im)) {
        a = corner(a), size = infinity;
    } else if ((infinite(b.re) || infinite(b.im)) && finite(a.re) && finite(a.im)) {
        b = corner(b), size = T(0);
    }
    return {size * (a.re * b.re + a.im * b.im), size * (a.im * b.re - a.re * b.im)};
}
// Floats are divided as doubles, whose range holds their squares.
__device__ __forceinline__ complex<float> quotient(complex<float> a, complex<float> b) {
    const double c = b.re, d = b.im, by = 1.0 / (c * c + d * d);
    const complex<float> result(float((a.re * c + a.im * d) * by), float((a.im * c - a.re * d) * by));
    return result.re != result.re && result.im != result.im ? special_quotient(a, b) : result;
}
// The divisor is scaled to a size near 1, the dividend so that no sum of products overflows.
__device__ __forceinline__ complex<double> quotient(complex<double> a, complex<double> b) {
    const double largest = fmax(fabs(b.re), fabs(b.im));
    const int exponent = largest > 0.0 && finite(largest) ? ilogb(largest) : 0;
    const int down = fmax(fabs(a.re), fabs(a.im)) > 1e307 ? 3 : 0;
    const double c = scalbn(b.re, -exponent), d = scalbn(b.im, -exponent), size = c * c + d * d;
    const double x = scalbn(a.re, -down), y = scalbn(a.im, -down);
    const complex<double> result(
        scalbn((x * c + y * d) / size, down - exponent), scalbn((y * c - x * d) / size, down - exponent));
    return result.re != result.re && result.im != result.im ? special_quotient(a, b) : result;
}
}  // namespace complex_parts
#ifndef __CUDACC__
template <int count, typename T>
inline bool any_nan(const complex<T>* z) { return any_nan<2 * count>(&z->re); }
#endif

<% for name, parameters in [("__shfl_sync", "int lane"), ("__shfl_up_sync", "unsigned lane"), ("__shfl_down_sync", "unsigned lane"), ("__shfl_xor_sync", "int lane")] %>
template <typename T>
__device__ __forceinline__ complex<T> << name >>(unsigned mask, complex<T> z, << parameters >>, int width = 32) {
    return {<< name >>(mask, z.re, lane, width), << name >>(mask, z.im, lane, width)};
}
<% endfor %>
template <typename T>
__device__ __forceinline__ bool is_infinite(complex<T> z) {
    return complex_parts::infinite(z.re) || complex_parts::infinite(z.im);
}
template <typename T>
__device__ __forceinline__ bool is_finite(complex<T> z) {
    return complex_parts::finite(z.re) && complex_parts::finite(z.im);
}
template <typename T>
__device__ __forceinline__ T real(complex<T> z) { return z.re; }
template <typename T>
__device__ __forceinline__ T imag(complex<T> z) { return z.im; }
template <typename T>
__device__ __forceinline__ complex<T> conj(complex<T> z) { return {z.re, -z.im}; }
template <typename T>
__device__ __forceinline__ T abs(complex<T> z) { return hypot(z.re, z.im); }
template <typename T>
__device__ __forceinline__ T arg(complex<T> z) { return atan2(z.im, z.re); }
