// The gradients of the weights and of the bias alone from a step of small_forward.cu: dz as in backward.cu,
// dweights = dz.T @ [old_h, input], dbias the sum of dz over the batch.
// gates (batch, 3, state), new_cell, old_h (batch, state), input (batch, features), dh and dcell (batch, state) or one
// element for all with `one_dh` and `one_dcell`; dweights (3, state, state + features), dbias (3, state); in C order.
// Launch: grid (divide_up(state, warps), divide_up(state + features, 32)). Shared: dz of the block's units. A warp does a
// unit of the state, a thread a column of its three rows of weights.
using T = << elem >>;
using acc = << acc >>;
constexpr int block = << block >>, units = block / 32, most = << most >>;
constexpr bool one_dh = << one_dh | lower >>, one_dcell = << one_dcell | lower >>;
<% include "nn/lltm/gates.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* gates, const T* new_cell, const T* dh, const T* dcell, const T* old_h, const T* input, T* dweights, T* dbias,
    int batch, int state, int features)
{
    __shared__ acc dz[3][units][most + 1];  // one more: neighbours lie in different banks
    for (int i = int(threadIdx.x); i < units * batch; i += block) {
        const int own = i % units, row = i / units, unit = int(blockIdx.x) * units + own;
        if (unit >= state) continue;
        const int at = row * state + unit, gate = 3 * row * state + unit;
        const Slopes<acc> slopes(
            cast<acc>(gates[gate]), cast<acc>(gates[gate + state]), cast<acc>(gates[gate + 2 * state]), cast<acc>(new_cell[at]),
            cast<acc>(dh[one_dh ? 0 : at]), cast<acc>(dcell[one_dcell ? 0 : at]));
        dz[0][own][row] = slopes.input_gate;
        dz[1][own][row] = slopes.output_gate;
        dz[2][own][row] = slopes.candidate;
    }
    __syncthreads();
    const int lane = int(threadIdx.x) % 32, own = int(threadIdx.x) / 32, unit = int(blockIdx.x) * units + own;
    const int width = state + features, column = int(blockIdx.y) * 32 + lane;
    if (unit >= state) return;
    if (column < width) {
        const bool of_state = column < state;
        const T* const x = of_state ? old_h + column : input + (column - state);
        const int step = of_state ? state : features;
        acc sums[3] = {};
#pragma unroll 8
        for (int row = 0; row < batch; ++row) {
            const acc value = cast<acc>(x[row * step]);
#pragma unroll
            for (int g = 0; g < 3; ++g) sums[g] += value * dz[g][own][row];
        }
#pragma unroll
        for (int g = 0; g < 3; ++g) dweights[(g * state + unit) * width + column] = cast<T>(sums[g]);
    }
    if (blockIdx.y == 0 && lane < 3) {
        acc sum = 0;
        for (int row = 0; row < batch; ++row) sum += dz[lane][own][row];
        dbias[lane * state + unit] = cast<T>(sum);
    }
}
