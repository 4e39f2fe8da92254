// What derivatives of rows of packs share. With n = (x - mean) * rstd and g = dy * weight:
// dx = (g - mean(g) - n * mean(g * n)) * rstd.
<% include "nn/layer_norm/statistics.cuh" %>
<% include "prelude/packs.cuh" %>
constexpr int block = << block >>, groups = << groups >>, chunks = << chunks >>, turn = << turn >>;
constexpr bool narrow = << half | lower >>, exact = << exact | lower >>;
using Held = Pack<T, width>;
<# The sums of g and of g * n, of each row of a turn. #>
<% set sums = 2 * turn %>
<% include "lib/row_sums.cuh" %>

// Where the elements of a thread's chunk begin.
__device__ __forceinline__ index start_of(int chunk) { return (chunk * threads + row_lane()) * width; }

// n, the given cotangents and g of the packs of x and dy. `again`: as unpack has it.
struct Numbers {
    acc n[width], given[width], g[width];

    __device__ __forceinline__ Numbers(
        const Held& x, const Held& dy, const RowStatistics& of, const acc (&weight)[width], bool again = false)
    {
        unpack(x, n, again);
        unpack(dy, given, again);
#pragma unroll
        for (int v = 0; v < width; ++v) {
            n[v] = of.normal(n[v]);
            g[v] = weighted ? weight[v] * given[v] : given[v];
        }
    }
};
// dx of an element; of a half type by fewer operations, whose roundings are far below its own.
__device__ __forceinline__ acc derivative(acc n, acc g, const RowStatistics& of, acc gradient_mean, acc product_mean) {
    if (narrow) return g * of.rstd - (n * (product_mean * of.rstd) + gradient_mean * of.rstd);
    return (g - gradient_mean - n * product_mean) * of.rstd;
}
