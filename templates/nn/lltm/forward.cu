// One step of an LLTM cell after its matrix products (z = from_input + from_state + bias, gates in the order
// input, output, candidate):  i = sigmoid(z_i), o = sigmoid(z_o), c = elu(z_c),
// new_cell = old_cell + c * i,  new_h = tanh(new_cell) * o.
// from_input, from_state (batch, 3, state), bias (3, state), old_cell, new_h, new_cell (batch, state).
// gates (batch, 3, state): i, o and c, for backward.cu; null unless `keep`.
// Launch: grid (batch, divide_up(state, block * items)). Shared: none. A thread owns `items` neighbouring elements of a row
// of the state: one on a GPU, a whole row on the host, a plain loop, for its compiler to vectorise.
using T = << elem >>;
using acc = << acc >>;
using product = << product >>;
using index = << index >>;
constexpr int block = << block >>;
constexpr bool keep = << keep | lower >>;
<% include "nn/lltm/gates.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const product* from_input, const product* from_state, const T* bias, const T* old_cell, T* new_h, T* new_cell, T* gates,
    index state, index items)
{
    const index row = index(blockIdx.x) * state;
    const index start = (index(blockIdx.y) * block + index(threadIdx.x)) * items;
    const index end = minimum(start + items, state);
    for (index unit = start; unit < end; ++unit) {
        const index i = 3 * row + unit, o = i + state, c = o + state;
        const acc z_i = cast<acc>(from_input[i]) + cast<acc>(from_state[i]) + cast<acc>(bias[unit]);
        const acc z_o = cast<acc>(from_input[o]) + cast<acc>(from_state[o]) + cast<acc>(bias[unit + state]);
        const acc z_c = cast<acc>(from_input[c]) + cast<acc>(from_state[c]) + cast<acc>(bias[unit + 2 * state]);
        const Step<acc> step(z_i, z_o, z_c, cast<acc>(old_cell[row + unit]));
        new_cell[row + unit] = cast<T>(step.cell);
        new_h[row + unit] = cast<T>(step.h);
        if (keep) {
            gates[i] = cast<T>(step.input_gate);
            gates[o] = cast<T>(step.output_gate);
            gates[c] = cast<T>(step.candidate);
        }
    }
}
