// The derivative of lltm_forward.cu. With t = tanh(new_cell) and dc = dcell + dh * o * (1 - t * t):
// dz_i = dc * c * i * (1 - i),  dz_o = dh * t * o * (1 - o),  dz_c = dc * i * (1 if c > 0 else 1 + c),  d old_cell = dc.
// gates (batch, 3, state) as lltm_forward.cu wrote them; new_cell (batch, state).
// dh is output_dh + state_dh and dcell the cell's cotangent (batch, state), each null for zeros.
// dgates (batch, 3, state), old_dcell (batch, state).
// Launch: one thread an element of the state. Shared: none. A thread owns one element and its three gates.
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* gates, const << elem >>* new_cell, const << elem >>* output_dh, const << product >>* state_dh,
    const << elem >>* dcell, << elem >>* dgates, << elem >>* old_dcell, << index >> batch, << index >> state)
{
    using elem = << elem >>;
    using acc = << acc >>;
    using index = << index >>;
    const index i = index(blockIdx.x) * << block >> + index(threadIdx.x);
    if (i >= batch * state) return;
    const index first = i / state * 3 * state + i % state;

    const acc input_gate = cast<acc>(gates[first]);
    const acc output_gate = cast<acc>(gates[first + state]);
    const acc candidate = cast<acc>(gates[first + 2 * state]);
    const acc activated = tanh(cast<acc>(new_cell[i]));
    acc dh = acc(0);
    if (output_dh) dh += cast<acc>(output_dh[i]);
    if (state_dh) dh += cast<acc>(state_dh[i]);
    acc dc = dh * output_gate * (acc(1) - activated * activated);
    if (dcell) dc += cast<acc>(dcell[i]);

    const acc slope = candidate > acc(0) ? acc(1) : acc(1) + candidate;
    dgates[first] = cast<elem>(dc * candidate * input_gate * (acc(1) - input_gate));
    dgates[first + state] = cast<elem>(dh * activated * output_gate * (acc(1) - output_gate));
    dgates[first + 2 * state] = cast<elem>(dc * input_gate * slope);
    old_dcell[i] = cast<elem>(dc);
}
