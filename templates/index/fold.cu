// reduceat: y[o, k, i] = the << what >> of the elements x[o, j, i] of slice k: from starts[k] to starts[k + 1] - 1, of the
// last slice to n - 1; one element where the next slice does not start after it.
// x (outer, n, inner), y (outer, count, inner), in C order.
// Launch: `lanes` threads of a warp share each of `piece` elements of y. No shared memory.
<% include "prelude/math.cuh" %>
<% include "prelude/reduce.cuh" %>
using index = << index >>;
// Of the elements, of the results, and in which they are combined.
using T = << elem >>;
using To = << result_type >>;
using acc = << acc >>;
constexpr int block = << block >>, lanes = << lanes >>;

struct Fold {
    acc value;
    bool any;

    __device__ __forceinline__ void add(acc b) {
        const acc a = value;
        if (any) {
            const acc << body[0].name >> = << body[0].code >>;
            b = << "cast<acc>(cast<To>(%s))" % body[0].name if in_order else body[0].name >>;
        }
        value = b;
        any = true;
    }
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ x, const long long* __restrict__ starts, To* __restrict__ y,
    index total, index piece, index count, index n, index inner)
{
    const index thread = index(blockIdx.x) * block + index(threadIdx.x), lane = thread % lanes;
    for (index p = 0, item = thread / lanes * piece; p < piece; ++p, ++item) {
        Fold result = {};
        if (item < total) {
            const index k = item / inner % count;
            const T* const rows = x + (long long)(item / inner / count) * n * inner + item % inner;
            const index first = index(minimum(maximum(starts[k], 0ll), (long long)n - 1));
            const index next = k + 1 < count ? index(minimum(starts[k + 1], (long long)n)) : n;
            const index last = maximum(next, first + 1);
#pragma unroll 4
            for (index j = first + lane; j < last; j += lanes)
                result.add(cast<acc>(cast<To>(rows[(long long)j * inner])));
        }
#pragma unroll
        for (int distance = lanes / 2; distance > 0; distance /= 2) {
            const Fold other = shuffle_xor(result, distance);
            if (other.any) result.add(other.value);
        }
        if (item < total && lane == 0) y[item] = cast<To>(result.value);
    }
}
