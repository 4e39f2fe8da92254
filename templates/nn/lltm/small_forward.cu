// One step of an LLTM cell with its products, of so few rows and weights that a launch takes longer than they do: as
// forward.cu of z = [old_h, input] @ weights.T + bias.
// input (batch, features), weights (3, state, state + features), bias (3, state), old_h, old_cell, new_h, new_cell
// (batch, state), gates (batch, 3, state), null unless `keep`; all in C order.
// Launch: grid (state, divide_up(batch, rows * warps)). Shared: none. A block does a unit of the state, a warp `rows` rows of the
// batch, its threads share the sums.
<% include "prelude/reduce.cuh" %>
using T = << elem >>;
using acc = << acc >>;
constexpr int block = << block >>, rows = << rows >>;
constexpr bool keep = << keep | lower >>;
<% include "nn/lltm/gates.cuh" %>
// The products of `rows` rows of x with the three gates' weights, those from the lane on, added to the sums.
__device__ __forceinline__ void add_products(
    acc (&sums)[rows][3], const T* x, const T* weights, int size, int gate, int first, int batch, int lane)
{
#pragma unroll 4
    for (int k = lane; k < size; k += 32) {
        acc w[3];
#pragma unroll
        for (int g = 0; g < 3; ++g) w[g] = cast<acc>(weights[g * gate + k]);
#pragma unroll
        for (int j = 0; j < rows; ++j) {
            const acc value = cast<acc>(x[minimum(first + j, batch - 1) * size + k]);
#pragma unroll
            for (int g = 0; g < 3; ++g) sums[j][g] += value * w[g];
        }
    }
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* input, const T* weights, const T* bias, const T* old_h, const T* old_cell, T* new_h, T* new_cell, T* gates,
    int batch, int state, int features)
{
    const int lane = int(threadIdx.x) % 32, unit = int(blockIdx.x), width = state + features;
    const int first = (int(blockIdx.y) * (block / 32) + int(threadIdx.x) / 32) * rows;
    if (first >= batch) return;
    acc sums[rows][3] = {};
    const T* const own = weights + unit * width;
    add_products(sums, old_h, own, state, state * width, first, batch, lane);
    add_products(sums, input, own + state, features, state * width, first, batch, lane);
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
#pragma unroll
        for (int j = 0; j < rows; ++j)
#pragma unroll
            for (int g = 0; g < 3; ++g) sums[j][g] += shuffle_xor(sums[j][g], distance);
    const int row = first + lane;
    if (lane >= rows || row >= batch) return;
    acc z[3];
#pragma unroll
    for (int j = 0; j < rows; ++j)
        if (j == lane) {
#pragma unroll
            for (int g = 0; g < 3; ++g) z[g] = sums[j][g] + cast<acc>(bias[g * state + unit]);
        }
    const int at = row * state + unit;
    const Step<acc> step(z[0], z[1], z[2], cast<acc>(old_cell[at]));
    new_cell[at] = cast<T>(step.cell);
    new_h[at] = cast<T>(step.h);
    if (!keep) return;
    gates[3 * row * state + unit] = cast<T>(step.input_gate);
    gates[(3 * row + 1) * state + unit] = cast<T>(step.output_gate);
    gates[(3 * row + 2) * state + unit] = cast<T>(step.candidate);
}
