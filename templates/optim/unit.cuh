// Sums of squares in a unit in which they neither overflow nor vanish, by the threads of a block.
using RowState = double;
__device__ __forceinline__ RowState row_join(RowState a, RowState b) { return a + b; }
<% include "lib/row.cuh" %>
struct Larger {
    __device__ __forceinline__ double operator()(double a, double b) const { return maximum(a, b); }
};

// The power of two that brings `largest` near 1; 1 for 0, infinity and NaN.
__device__ __forceinline__ double unit_of(double largest) {
    return largest > 0 && largest < limits<double>::infinity() ? ldexp(1.0, -maximum(minimum(ilogb(largest), 1000), -1000)) : 1.0;
}
__device__ __forceinline__ double squared(double x, double unit) { return (x * unit) * (x * unit); }
