// f(gate) * up in 8 bits, as numbers and factors of activations.cuh, where f is silu or the tanh form of gelu.
// gate, up (rows, columns) in float, rows `step` apart, packs of eight aligned; columns are a multiple of 32.
// Launch: a thread for eight elements, of `packs` = rows * columns / 8.
<% include "quant/gate.cuh" %>
<% include "prelude/overlap.cuh" %>
<% include "quant/kind.cuh" %>
<% include "quant/activations.cuh" %>
<% include "lib/pack.cuh" %>
<% include "quant/activations_warp.cuh" %>
using Held = Pack<float, 8>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const float* gate, const float* up, uint2* numbers, Factor* factors, long long step, int columns, long long packs)
{
    allow_next_kernel();
    wait_for_earlier_kernels();
    const long long pack = (long long)blockIdx.x * << block >> + threadIdx.x, row = 8 * pack / columns;
    const long long at = row * step + 8 * pack % columns;
    Held held = {};
    if (pack < packs) {
        const Held gates = load_pack<8>(gate + at), ups = load_pack<8>(up + at);
#pragma unroll
        for (int j = 0; j < 8; ++j) held.at[j] = activated(gates.at[j]) * ups.at[j];
    }
    Factor factor;
    const uint2 bytes = quantize_eight(held, factor);
    if (pack >= packs) return;
    numbers[pack] = bytes;
    if (pack % (2 * together) == 0) factors[pack / (2 * together)] = factor;
}
