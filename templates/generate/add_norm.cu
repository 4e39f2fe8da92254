// x += delta, or with `posted` x += delta / rms(delta) * post; then y = x / rms(x) * weight, where rms is the root of the mean
// square plus eps along a row.
// x, delta (rows, columns) in float, in C order; delta: null for nothing to add; post, weight (columns); y (rows, columns).
// Launch: a row a block.
<% set cluster, acc = 1, "float" %>
<% include "prelude/math.cuh" %>
<% include "prelude/reduce.cuh" %>
<% include "prelude/overlap.cuh" %>
using T = << elem >>;
constexpr int threads = << threads >>, columns = << columns >>, chunks = (columns + threads - 1) / threads;
constexpr bool posted = << posted | lower >>;
using RowState = float;
__device__ __forceinline__ RowState row_join(RowState a, RowState b) { return a + b; }
<% include "lib/row.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    float* x, const float* delta, const float* post, const float* weight, T* y, float eps)
{
    let_next_kernel_begin();
    wait_for_earlier_kernels();
    const long long start = (long long)row_team() * columns;
    int phase = 0;
    float factor = 1, sum = 0, held[chunks];
    const int lane = row_lane();
#pragma unroll
    for (int i = 0; i < chunks; ++i) {
        const int at = i * threads + lane;
        held[i] = at < columns && delta ? delta[start + at] : 0.0f;
        sum += held[i] * held[i];
    }
    if (posted) factor = 1 / sqrt(row_reduce(sum, phase) / columns + eps);
    sum = 0;
#pragma unroll
    for (int i = 0; i < chunks; ++i) {
        const int at = i * threads + lane;
        if (at >= columns) continue;
        held[i] = x[start + at] + (posted ? held[i] * factor * post[at] : held[i]);
        sum += held[i] * held[i];
    }
    factor = 1 / sqrt(row_reduce(sum, phase) / columns + eps);
#pragma unroll
    for (int i = 0; i < chunks; ++i) {
        const int at = i * threads + lane;
        if (at >= columns) continue;
        if (delta) x[start + at] = held[i];
        y[start + at] = cast<T>(held[i] * factor * weight[at]);
    }
    row_end();
}
