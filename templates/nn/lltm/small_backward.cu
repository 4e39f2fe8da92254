// The gradients of the weights and of the bias alone from a step of lltm_small_forward.cu: dz as in lltm_backward.cu,
// dweights = dz.T @ [old_h, input], dbias the sum of dz over the batch.
// gates (batch, 3, state), new_cell, old_h (batch, state), input (batch, features), dh and dcell (batch, state) or one
// element for all with `one_dh` and `one_dcell`; dweights (3, state, state + features), dbias (3, state); in C order.
// Launch: grid (divide_up(state, warps), divide_up(state + features, 32)). Shared: dz of the block's units. A warp does a
// unit of the state, a thread a column of its three rows of weights.
<% include "nn/lltm/gates.cuh" %>
<% set units = block // 32 %>
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* gates, const << elem >>* new_cell, const << elem >>* dh,
    const << elem >>* dcell, const << elem >>* old_h, const << elem >>* input,
    << elem >>* dweights, << elem >>* dbias, int batch, int state, int features)
{
    using elem = << elem >>;
    using acc = << acc >>;
    __shared__ acc dz[3][<< units >>][<< most + 1 >>];  // one more: neighbours lie in different banks
    for (int i = int(threadIdx.x); i < << units >> * batch; i += << block >>) {
        const int own = i % << units >>, row = i / << units >>, unit = int(blockIdx.x) * << units >> + own;
        if (unit >= state) continue;
        const int at = row * state + unit, gate = 3 * row * state + unit;
        const Slopes<acc> slopes(
            cast<acc>(gates[gate]), cast<acc>(gates[gate + state]), cast<acc>(gates[gate + 2 * state]), cast<acc>(new_cell[at]),
            cast<acc>(dh[<< 0 if one_dh else "at" >>]), cast<acc>(dcell[<< 0 if one_dcell else "at" >>]));
        dz[0][own][row] = slopes.input_gate;
        dz[1][own][row] = slopes.output_gate;
        dz[2][own][row] = slopes.candidate;
    }
    __syncthreads();
    const int lane = int(threadIdx.x) % 32, own = int(threadIdx.x) / 32, unit = int(blockIdx.x) * << units >> + own;
    const int width = state + features, column = int(blockIdx.y) * 32 + lane;
    if (unit >= state) return;
    if (column < width) {
        const bool of_state = column < state;
        const elem* const x = of_state ? old_h + column : input + (column - state);
        const int step = of_state ? state : features;
        acc sums[3] = {};
#pragma unroll 8
        for (int row = 0; row < batch; ++row) {
            const acc value = cast<acc>(x[row * step]);
#pragma unroll
            for (int g = 0; g < 3; ++g) sums[g] += value * dz[g][own][row];
        }
#pragma unroll
        for (int g = 0; g < 3; ++g) dweights[(g * state + unit) * width + column] = cast<elem>(sums[g]);
    }
    if (blockIdx.y == 0 && lane < 3) {
        acc sum = 0;
        for (int row = 0; row < batch; ++row) sum += dz[lane][own][row];
        dbias[lane * state + unit] = cast<elem>(sum);
    }
}
