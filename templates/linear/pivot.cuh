// The size of a number as a pivot: 0 for NaN, which is never preferred.
using Size = << real >>;
__device__ __forceinline__ Size size_of(<< elem >> x) {
    const Size result = << "fabs(x.re) + fabs(x.im)" if is_complex else "fabs(x)" >>;
    return result == result ? result : Size(0);
}
