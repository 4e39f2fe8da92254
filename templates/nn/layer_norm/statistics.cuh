// What the forward pass leaves of a row: the mean less the row's first element, which costs no digits where the mean is
// large beside the spread, and 1 / sqrt(variance + eps). Rows that are not `centered` have 0 in the place of the mean, and
// the mean square in that of the variance: Zhang and Sennrich, "Root mean square layer normalization", 2019.
<% include "prelude/reduce.cuh" %>
using T = << elem >>;
using acc = << acc >>;
using index = << index >>;
constexpr int threads = << threads >>, width = << width >>;
constexpr bool weighted = << weighted | lower >>, centered = << centered | lower >>;
<% if residual %>
__device__ __forceinline__ T sum_of(T x, T residual) { return cast<T>(cast<acc>(x) + cast<acc>(residual)); }
<% endif %>
struct alignas(2 * sizeof(acc)) Statistics {
    acc mean, rstd;
};
__device__ __forceinline__ Statistics statistics_of(const acc* all, long long row) { return ((const Statistics*)all)[row]; }
// With the first element, what the row's elements are normalized by. Elements less the first are exact where the mean is large;
// where the first is k standard deviations from the others, normalized numbers are off by k times the type's rounding.
struct RowStatistics {
    acc first, rstd, offset;
    __device__ __forceinline__ RowStatistics() {}
    __device__ __forceinline__ RowStatistics(T element, Statistics kept)
        : first(cast<acc>(element)), rstd(kept.rstd), offset(-kept.mean * kept.rstd) {}
    __device__ __forceinline__ acc normal(acc element) const { return centered ? (element - first) * rstd + offset : element * rstd; }
};
