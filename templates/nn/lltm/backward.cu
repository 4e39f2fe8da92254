// The derivative of forward.cu. With t = tanh(new_cell) and dc = dcell + dh * o * (1 - t * t):
// dz_i = dc * c * i * (1 - i),  dz_o = dh * t * o * (1 - o),  dz_c = dc * i * (1 if c > 0 else 1 + c),  d old_cell = dc.
// gates (batch, 3, state) as forward.cu wrote them; new_cell (batch, state).
// dh is output_dh + state_dh, which is null where it is 0, and dcell the cell's cotangent (batch, state); of output_dh and
// of dcell there is one element for all with `one_dh` and `one_dcell`.
// dgates (batch, 3, state), old_dcell (batch, state).
// Launch: grid (batch, divide_up(state, block * items)). Shared: none. A thread owns `items` neighbouring elements of a row
// of the state, as in forward.cu.
using T = << elem >>;
using acc = << acc >>;
using product = << product >>;
using index = << index >>;
constexpr int block = << block >>;
constexpr bool one_dh = << one_dh | lower >>, one_dcell = << one_dcell | lower >>;
<% include "nn/lltm/gates.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* gates, const T* new_cell, const T* output_dh, const product* state_dh, const T* dcell, T* dgates, T* old_dcell,
    index state, index items)
{
    const index row = index(blockIdx.x) * state;
    const index start = (index(blockIdx.y) * block + index(threadIdx.x)) * items;
    const index end = minimum(start + items, state);
    for (index unit = start; unit < end; ++unit) {
        const index i = 3 * row + unit, o = i + state, c = o + state, at = row + unit;
        const Slopes<acc> slopes(
            cast<acc>(gates[i]), cast<acc>(gates[o]), cast<acc>(gates[c]), cast<acc>(new_cell[at]),
            cast<acc>(output_dh[one_dh ? 0 : at]) + (state_dh ? cast<acc>(state_dh[at]) : acc(0)),
            cast<acc>(dcell[one_dcell ? 0 : at]));
        dgates[i] = cast<T>(slopes.input_gate);
        dgates[o] = cast<T>(slopes.output_gate);
        dgates[c] = cast<T>(slopes.candidate);
        old_dcell[at] = cast<T>(slopes.cell);
    }
}
