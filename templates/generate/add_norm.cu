// Residual add and RMS norm: x += delta, or with `posted` x += delta / rms(delta) * post; then y = x / rms(x) * weight, where
// rms is the root of the mean square plus eps along a row.
// x, delta (rows, columns) in float, in C order; delta: null for nothing to add; post, weight (columns). y (rows, columns) in
// T; with `planes` in 8 bits, as numbers and factors of activations.cuh.
// Launch: a row a block. A thread has every `threads`-th pack of `width` elements.
<% set cluster, acc = 1, "float" %>
<% include "prelude/math.cuh" %>
<% include "prelude/reduce.cuh" %>
<% include "prelude/packs.cuh" %>
<% include "prelude/overlap.cuh" %>
<% if planes %>
<% include "quant/kind.cuh" %>
<% include "quant/activations.cuh" %>
<% include "quant/activations_warp.cuh" %>
<% else %>
struct Factor;
<% endif %>
using T = << elem >>;
constexpr int threads = << threads >>, columns = << columns >>, width = << width >>;
constexpr int packs = columns / width, chunks = (packs + threads - 1) / threads;
constexpr bool posted = << posted | lower >>;
using RowState = float;
using Held = Pack<float, width>;
__device__ __forceinline__ RowState row_join(RowState a, RowState b) { return a + b; }
<% include "lib/row.cuh" %>

// The index of a thread's pack in a row, which may be beyond its end.
__device__ __forceinline__ int pack_of(int chunk) { return chunk * threads + row_lane(); }
__device__ __forceinline__ float rms_factor(float sum, float eps, int& phase) {
    return 1 / sqrt(row_reduce(sum, phase) / columns + eps);
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    float* x, const float* delta, const float* post, const float* weight, T* y, uint2* numbers, Factor* factors, float eps)
{
    allow_next_kernel();
    Held held[chunks], weights[chunks];
#pragma unroll
    for (int i = 0; i < chunks; ++i)
        if (pack_of(i) < packs) weights[i] = load_pack<width>(weight + pack_of(i) * width);
    wait_for_earlier_kernels();
    const long long start = (long long)row_team() * columns;
    int phase = 0;
    float factor = 1, sum = 0;
#pragma unroll
    for (int i = 0; i < chunks; ++i) {
        for (int j = 0; j < width; ++j) held[i].at[j] = 0;
        if (pack_of(i) < packs && delta) held[i] = load_pack<width>(delta + start + pack_of(i) * width);
        for (int j = 0; j < width; ++j) sum += held[i].at[j] * held[i].at[j];
    }
    if (posted) factor = rms_factor(sum, eps, phase);
    sum = 0;
#pragma unroll
    for (int i = 0; i < chunks; ++i) {
        if (pack_of(i) >= packs) continue;
        float* const to = x + start + pack_of(i) * width;
        const Held before = load_pack<width>(to);
        for (int j = 0; j < width; ++j) {
            const float scaled = posted ? held[i].at[j] * factor * post[pack_of(i) * width + j] : held[i].at[j];
            held[i].at[j] = before.at[j] + scaled;
            sum += held[i].at[j] * held[i].at[j];
        }
        if (delta) store_pack(to, held[i]);
    }
    factor = rms_factor(sum, eps, phase);
#pragma unroll
    for (int i = 0; i < chunks; ++i) {
        for (int j = 0; j < width; ++j) held[i].at[j] *= factor * weights[i].at[j];
<% if planes %>
        Factor factor;
        const uint2 bytes = quantize_eight(held[i], factor);  // by whole warps: packs beyond the row are not stored
        const long long pack = start / width + pack_of(i);
        if (pack_of(i) >= packs) continue;
        numbers[pack] = bytes;
        if (pack % (2 * together) == 0) factors[pack / (2 * together)] = factor;
<% else %>
        if (pack_of(i) >= packs) continue;
        for (int j = 0; j < width; ++j) y[start + pack_of(i) * width + j] = cast<T>(held[i].at[j]);
<% endif %>
    }
    row_end();
}
