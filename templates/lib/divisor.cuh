// Division of numbers from 0 to 2^31 - 1 by what is known when a kernel is launched.
// Source: Granlund and Montgomery, Division by Invariant Integers using Multiplication, 1994.
struct Divisor {
    unsigned multiplier;
    int shift;
    int by;

    __device__ __forceinline__ int divide(int x) const {
        return int((unsigned long long)(unsigned)x * multiplier >> shift);
    }
    // Divides x, and returns what remains.
    __device__ __forceinline__ int take(int& x) const {
        const int all = x;
        x = divide(all);
        return all - x * by;
    }
};
// The same in functions, for indices of any width.
__device__ __forceinline__ int take(int& x, const Divisor& divisor) { return divisor.take(x); }
__device__ __forceinline__ int take(long long& x, const Divisor& divisor) {
    const long long all = x;
    x = all / divisor.by;
    return int(all - x * divisor.by);
}
