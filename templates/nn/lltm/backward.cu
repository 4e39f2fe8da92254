// The derivative of lltm_forward.cu. With t = tanh(new_cell) and dc = dcell + dh * o * (1 - t * t):
// dz_i = dc * c * i * (1 - i),  dz_o = dh * t * o * (1 - o),  dz_c = dc * i * (1 if c > 0 else 1 + c),  d old_cell = dc.
// gates (batch, 3, state) as lltm_forward.cu wrote them; new_cell (batch, state).
// dh is output_dh + state_dh, which is null where it is 0, and dcell the cell's cotangent (batch, state); of output_dh and
// of dcell there is one element for all with `one_dh` and `one_dcell`.
// dgates (batch, 3, state), old_dcell (batch, state).
// Launch: grid (batch, divide_up(state, block * items)). Shared: none. A thread owns `items` neighbouring elements
// of a row of the state, moved `pack` at a time, as in lltm_forward.cu.
<% if pack > 1 %>
<% include "prelude/packs.cuh" %>
<% endif %>
<% include "nn/lltm/gates.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* gates, const << elem >>* new_cell,
    const << elem >>* output_dh, const << product >>* state_dh,
    const << elem >>* dcell, << elem >>* dgates, << elem >>* old_dcell,
    << index >> state, << index >> items)
{
    using elem = << elem >>;
    using acc = << acc >>;
    using index = << index >>;
    const index row = index(blockIdx.x) * state;
    const index start = (index(blockIdx.y) * << block >> + index(threadIdx.x)) * items;
<% if pack > 1 %>
    if (start >= state) return;
    const index first = 3 * row + start;
<% for name in ("input_gate", "output_gate", "candidate") %>
    const auto << name >> = load_pack< << pack >>>(gates + first + << loop.index0 >> * state);
<% endfor %>
    const auto cell = load_pack< << pack >>>(new_cell + row + start);
<% if not one_dh %>
    const auto of_output = load_pack< << pack >>>(output_dh + row + start);
<% endif %>
<% if not one_dcell %>
    const auto of_cell = load_pack< << pack >>>(dcell + row + start);
<% endif %>
    Pack< << product >>, << pack >>> of_state = {};
    if (state_dh) of_state = load_pack< << pack >>>(state_dh + row + start);
    Pack<elem, << pack >>> input_d, output_d, candidate_d, cell_d;
#pragma unroll
    for (int k = 0; k < << pack >>; ++k) {
        const Slopes<acc> slopes(
            cast<acc>(input_gate.at[k]), cast<acc>(output_gate.at[k]), cast<acc>(candidate.at[k]), cast<acc>(cell.at[k]),
            cast<acc>(<< "*output_dh" if one_dh else "of_output.at[k]" >>) + cast<acc>(of_state.at[k]), cast<acc>(<< "*dcell" if one_dcell else "of_cell.at[k]" >>));
        input_d.at[k] = cast<elem>(slopes.input_gate);
        output_d.at[k] = cast<elem>(slopes.output_gate);
        candidate_d.at[k] = cast<elem>(slopes.candidate);
        cell_d.at[k] = cast<elem>(slopes.cell);
    }
    store_pack(dgates + first, input_d);
    store_pack(dgates + first + state, output_d);
    store_pack(dgates + first + 2 * state, candidate_d);
    store_pack(old_dcell + row + start, cell_d);
<% else %>
    const index end = minimum(start + items, state);
    for (index unit = start; unit < end; ++unit) {
        const index first = 3 * row + unit;
        const Slopes<acc> slopes(
            cast<acc>(gates[first]), cast<acc>(gates[first + state]), cast<acc>(gates[first + 2 * state]),
            cast<acc>(new_cell[row + unit]),
            cast<acc>(output_dh[<< 0 if one_dh else "row + unit" >>]) + (state_dh ? cast<acc>(state_dh[row + unit]) : acc(0)),
            cast<acc>(dcell[<< 0 if one_dcell else "row + unit" >>]));
        dgates[first] = cast<elem>(slopes.input_gate);
        dgates[first + state] = cast<elem>(slopes.output_gate);
        dgates[first + 2 * state] = cast<elem>(slopes.candidate);
        old_dcell[row + unit] = cast<elem>(slopes.cell);
    }
<% endif %>
}
