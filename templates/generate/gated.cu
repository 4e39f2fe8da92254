// f(gate) * up in 8 bits, as numbers and scales of activations.cuh, where f is silu or the tanh form of gelu.
// gate, up (rows, columns) in float, rows `step` apart, packs of four aligned; columns are a multiple of 32.
// Launch: a thread for four elements, of `packs` = rows * columns / 4.
<% include "prelude/math.cuh" %>
<% include "prelude/overlap.cuh" %>
<% include "quant/activations.cuh" %>
<% include "lib/pack.cuh" %>
using Held = Pack<float, 4>;

__device__ __forceinline__ float activated(float x) {
    return << "x / (1 + exp(-x))" if silu else "0.5f * x * (1 + tanh(0.7978845608028654f * (x + 0.044715f * x * x * x)))" >>;
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const float* gate, const float* up, unsigned* numbers, Scale* scales, long long step, int columns, long long packs)
{
    let_next_kernel_begin();
    wait_for_earlier_kernels();
    const long long pack = (long long)blockIdx.x * << block >> + threadIdx.x, row = 4 * pack / columns;
    const long long at = row * step + 4 * pack % columns;
    float held[4] = {};
    if (pack < packs) {
        const Held gates = load_pack<4>(gate + at), ups = load_pack<4>(up + at);
        for (int j = 0; j < 4; ++j) held[j] = activated(gates.at[j]) * ups.at[j];
    }
    Scale scale;
    const unsigned bytes = quantize_four(held, scale);
    if (pack >= packs) return;
    numbers[pack] = bytes;
    if (pack % 8 == 0) scales[pack / 8] = scale;
}
