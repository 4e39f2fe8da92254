// One step of an LLTM cell after its matrix products (z = products[0] + products[1] + bias, gates in the order
// input, output, candidate):  i = sigmoid(z_i), o = sigmoid(z_o), c = elu(z_c),
// new_cell = old_cell + c * i,  new_h = tanh(new_cell) * o.
// from_input, from_state (batch, 3, state), from_state or null; bias (3, state); old_cell, new_h, new_cell (batch, state).
// gates (batch, 3, state) or null: i, o and c, for lltm_backward.cu.
// Launch: one thread an element of the state. Shared: none. A thread owns one element and its three gates.
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << product >>* from_input, const << product >>* from_state, const << elem >>* bias,
    const << elem >>* old_cell, << elem >>* new_h, << elem >>* new_cell, << elem >>* gates,
    << index >> batch, << index >> state)
{
    using elem = << elem >>;
    using acc = << acc >>;
    using index = << index >>;
    const index i = index(blockIdx.x) * << block >> + index(threadIdx.x);
    if (i >= batch * state) return;
    const index unit = i % state;
    const index first = i / state * 3 * state + unit;

    acc z[3];
#pragma unroll
    for (int gate = 0; gate < 3; ++gate) {
        z[gate] = cast<acc>(from_input[first + gate * state]) + cast<acc>(bias[gate * state + unit]);
        if (from_state) z[gate] += cast<acc>(from_state[first + gate * state]);
    }
    // exp is taken of -|z| only, so that it cannot overflow.
    const acc input_exp = exp(-fabs(z[0])), output_exp = exp(-fabs(z[1]));
    const acc input_gate = (z[0] >= acc(0) ? acc(1) : input_exp) / (acc(1) + input_exp);
    const acc output_gate = (z[1] >= acc(0) ? acc(1) : output_exp) / (acc(1) + output_exp);
    const acc below = expm1(minimum(z[2], acc(0)));
    const acc candidate = z[2] > acc(0) ? z[2] : below;
    const acc cell = cast<acc>(old_cell[i]) + candidate * input_gate;

    new_cell[i] = cast<elem>(cell);
    new_h[i] = cast<elem>(tanh(cell) * output_gate);
    if (gates) {
        gates[first] = cast<elem>(input_gate);
        gates[first + state] = cast<elem>(output_gate);
        gates[first + 2 * state] = cast<elem>(candidate);
    }
}
