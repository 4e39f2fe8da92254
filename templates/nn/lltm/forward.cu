// One step of an LLTM cell after its matrix products (z = from_input + from_state + bias, gates in the order
// input, output, candidate):  i = sigmoid(z_i), o = sigmoid(z_o), c = elu(z_c),
// new_cell = old_cell + c * i,  new_h = tanh(new_cell) * o.
// from_input, from_state (batch, 3, state), bias (3, state), old_cell, new_h, new_cell (batch, state).
// gates (batch, 3, state): i, o and c, for lltm_backward.cu; null unless `keep`.
// Launch: grid (batch, divide_up(state, block * items)). Shared: none. A thread owns `items` neighbouring elements
// of a row of the state: `pack` on a GPU, moved together where that is not 1 (it then divides the state, and all arrays
// are aligned to 16 bytes); a whole row on the host, a plain loop, for its compiler to vectorise.
<% if pack > 1 %>
<% include "prelude/packs.cuh" %>
<% endif %>
<% include "nn/lltm/gates.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << product >>* from_input, const << product >>* from_state,
    const << elem >>* bias, const << elem >>* old_cell, << elem >>* new_h,
    << elem >>* new_cell, << elem >>* gates, << index >> state, << index >> items)
{
    using elem = << elem >>;
    using acc = << acc >>;
    using index = << index >>;
    const index row = index(blockIdx.x) * state;
    const index start = (index(blockIdx.y) * << block >> + index(threadIdx.x)) * items;
<% if pack > 1 %>
    if (start >= state) return;
    const index first = 3 * row + start;
    const auto old = load_pack< << pack >>>(old_cell + row + start);
<% for gate in range(3) %>
    const auto in_<< gate >> = load_pack< << pack >>>(from_input + first + << gate >> * state);
    const auto of_<< gate >> = load_pack< << pack >>>(from_state + first + << gate >> * state);
    const auto bias_<< gate >> = load_pack< << pack >>>(bias + start + << gate >> * state);
<% endfor %>
    Pack<elem, << pack >>> h, cell, input_gate, output_gate, candidate;
#pragma unroll
    for (int k = 0; k < << pack >>; ++k) {
<% for gate in range(3) %>
        const acc z<< gate >> = cast<acc>(in_<< gate >>.at[k]) + cast<acc>(of_<< gate >>.at[k]) + cast<acc>(bias_<< gate >>.at[k]);
<% endfor %>
        const Step<acc> step(z0, z1, z2, cast<acc>(old.at[k]));
        h.at[k] = cast<elem>(step.h);
        cell.at[k] = cast<elem>(step.cell);
        input_gate.at[k] = cast<elem>(step.input_gate);
        output_gate.at[k] = cast<elem>(step.output_gate);
        candidate.at[k] = cast<elem>(step.candidate);
    }
    store_pack(new_cell + row + start, cell);
    store_pack(new_h + row + start, h);
<% if keep %>
    store_pack(gates + first, input_gate);
    store_pack(gates + first + state, output_gate);
    store_pack(gates + first + 2 * state, candidate);
<% endif %>
<% else %>
    const index end = minimum(start + items, state);
    for (index unit = start; unit < end; ++unit) {
        const index first = 3 * row + unit;
<% for gate in range(3) %>
        const acc z<< gate >> = cast<acc>(from_input[first + << gate >> * state])
                 + cast<acc>(from_state[first + << gate >> * state]) + cast<acc>(bias[unit + << gate >> * state]);
<% endfor %>
        const Step<acc> step(z0, z1, z2, cast<acc>(old_cell[row + unit]));
        new_cell[row + unit] = cast<elem>(step.cell);
        new_h[row + unit] = cast<elem>(step.h);
<% if keep %>
        gates[first] = cast<elem>(step.input_gate);
        gates[first + state] = cast<elem>(step.output_gate);
        gates[first + 2 * state] = cast<elem>(step.candidate);
<% endif %>
    }
<% endif %>
}
