// A step of an LLTM cell as forward.cu makes it, with its arrays and shapes, for threads of a GPU that move `pack`
// neighbouring elements of each array together: pack divides the state, and all arrays are aligned to 16 bytes.
// Launch: grid (batch, divide_up(state, block * items)), where items is pack. Shared: none.
using T = << elem >>;
using acc = << acc >>;
using product = << product >>;
using index = << index >>;
constexpr int block = << block >>, pack = << pack >>;
constexpr bool keep = << keep | lower >>;
<% include "nn/lltm/packs.cuh" %>
<% include "nn/lltm/gates.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const product* from_input, const product* from_state, const T* bias, const T* old_cell, T* new_h, T* new_cell, T* gates,
    index state, index items)
{
    const index row = index(blockIdx.x) * state;
    const index unit = (index(blockIdx.y) * block + index(threadIdx.x)) * items;
    if (unit >= state) return;
    const index first = 3 * row + unit;
    const auto old = load_pack<pack>(old_cell + row + unit);
    const auto x = load_gates(from_input + first, state), y = load_gates(from_state + first, state);
    const auto b = load_gates(bias + unit, state);
    Pack<T, pack> h, cell;
    Gates<T> result;
#pragma unroll
    for (int k = 0; k < pack; ++k) {
        const Step<acc> step(
            cast<acc>(x.input.at[k]) + cast<acc>(y.input.at[k]) + cast<acc>(b.input.at[k]),
            cast<acc>(x.output.at[k]) + cast<acc>(y.output.at[k]) + cast<acc>(b.output.at[k]),
            cast<acc>(x.candidate.at[k]) + cast<acc>(y.candidate.at[k]) + cast<acc>(b.candidate.at[k]),
            cast<acc>(old.at[k]));
        h.at[k] = cast<T>(step.h);
        cell.at[k] = cast<T>(step.cell);
        result.input.at[k] = cast<T>(step.input_gate);
        result.output.at[k] = cast<T>(step.output_gate);
        result.candidate.at[k] = cast<T>(step.candidate);
    }
    store_pack(new_cell + row + unit, cell);
    store_pack(new_h + row + unit, h);
    if (keep) store_gates(gates + first, state, result);
}
