// The derivative of a step as backward.cu makes it, with its arrays and shapes, for threads of a GPU that move `pack`
// neighbouring elements of each array together: pack divides the state, and all arrays are aligned to 16 bytes.
// Launch: grid (batch, divide_up(state, block * items)), where items is pack. Shared: none.
using T = << elem >>;
using acc = << acc >>;
using product = << product >>;
using index = << index >>;
constexpr int block = << block >>, pack = << pack >>;
constexpr bool one_dh = << one_dh | lower >>, one_dcell = << one_dcell | lower >>;
<% include "nn/lltm/packs.cuh" %>
<% include "nn/lltm/gates.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* gates, const T* new_cell, const T* output_dh, const product* state_dh, const T* dcell, T* dgates, T* old_dcell,
    index state, index items)
{
    const index row = index(blockIdx.x) * state;
    const index unit = (index(blockIdx.y) * block + index(threadIdx.x)) * items;
    if (unit >= state) return;
    const index first = 3 * row + unit, at = row + unit;
    const auto gate = load_gates(gates + first, state);
    const auto cell = load_pack<pack>(new_cell + at);
    Pack<T, pack> of_output, of_cell, cell_d;
    Pack<product, pack> of_state = {};
    if (!one_dh) of_output = load_pack<pack>(output_dh + at);
    if (!one_dcell) of_cell = load_pack<pack>(dcell + at);
    if (state_dh) of_state = load_pack<pack>(state_dh + at);
    Gates<T> result;
#pragma unroll
    for (int k = 0; k < pack; ++k) {
        const Slopes<acc> slopes(
            cast<acc>(gate.input.at[k]), cast<acc>(gate.output.at[k]), cast<acc>(gate.candidate.at[k]), cast<acc>(cell.at[k]),
            cast<acc>(one_dh ? *output_dh : of_output.at[k]) + cast<acc>(of_state.at[k]),
            cast<acc>(one_dcell ? *dcell : of_cell.at[k]));
        result.input.at[k] = cast<T>(slopes.input_gate);
        result.output.at[k] = cast<T>(slopes.output_gate);
        result.candidate.at[k] = cast<T>(slopes.candidate);
        cell_d.at[k] = cast<T>(slopes.cell);
    }
    store_gates(dgates + first, state, result);
    store_pack(old_dcell + at, cell_d);
}
