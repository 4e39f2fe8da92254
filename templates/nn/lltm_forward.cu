// One step of an LLTM cell after its matrix products (z = from_input + from_state + bias, gates in the order
// input, output, candidate):  i = sigmoid(z_i), o = sigmoid(z_o), c = elu(z_c),
// new_cell = old_cell + c * i,  new_h = tanh(new_cell) * o.
// from_input, from_state (batch, 3, state), bias (3, state), old_cell, new_h, new_cell (batch, state).
// gates (batch, 3, state): i, o and c, for lltm_backward.cu; null unless `keep`.
// Launch: grid (batch, divide_up(state, block * items)). Shared: none. A thread owns `items` neighbouring elements
// of a row of the state, 1 on a GPU, a whole row on the host: a plain loop, for its compiler to vectorise.
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << product >>* __restrict__ from_input, const << product >>* __restrict__ from_state,
    const << elem >>* __restrict__ bias, const << elem >>* __restrict__ old_cell, << elem >>* __restrict__ new_h,
    << elem >>* __restrict__ new_cell, << elem >>* __restrict__ gates, << index >> state, << index >> items)
{
    using elem = << elem >>;
    using acc = << acc >>;
    using index = << index >>;
    const index row = index(blockIdx.x) * state;
    const index start = (index(blockIdx.y) * << block >> + index(threadIdx.x)) * items;
    const index end = minimum(start + items, state);
    for (index unit = start; unit < end; ++unit) {
        const index first = 3 * row + unit;
<% for gate in range(3) %>
        const acc z<< gate >> = cast<acc>(from_input[first + << gate >> * state])
                 + cast<acc>(from_state[first + << gate >> * state]) + cast<acc>(bias[unit + << gate >> * state]);
<% endfor %>
        // exp is taken of -|z| only, so that it cannot overflow.
        const acc input_exp = exp(-fabs(z0)), output_exp = exp(-fabs(z1));
        const acc input_gate = (z0 >= acc(0) ? acc(1) : input_exp) / (acc(1) + input_exp);
        const acc output_gate = (z1 >= acc(0) ? acc(1) : output_exp) / (acc(1) + output_exp);
        const acc candidate = maximum(z2, acc(0)) + expm1(minimum(z2, acc(0)));
        const acc cell = cast<acc>(old_cell[row + unit]) + candidate * input_gate;

        new_cell[row + unit] = cast<elem>(cell);
        new_h[row + unit] = cast<elem>(tanh(cell) * output_gate);
<% if keep %>
        gates[first] = cast<elem>(input_gate);
        gates[first + state] = cast<elem>(output_gate);
        gates[first + 2 * state] = cast<elem>(candidate);
<% endif %>
    }
}
