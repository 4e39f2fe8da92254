// The derivative of lltm_forward.cu. With t = tanh(new_cell) and dc = dcell + dh * o * (1 - t * t):
// dz_i = dc * c * i * (1 - i),  dz_o = dh * t * o * (1 - o),  dz_c = dc * i * (1 if c > 0 else 1 + c),  d old_cell = dc.
// gates (batch, 3, state) as lltm_forward.cu wrote them; new_cell (batch, state).
// dh is output_dh + state_dh, and dcell the cell's cotangent (batch, state).
// dgates (batch, 3, state), old_dcell (batch, state).
// Launch: grid (batch, divide_up(state, block * items)). Shared: none. A thread owns `items` neighbouring elements
// of a row of the state, as in lltm_forward.cu.
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* __restrict__ gates, const << elem >>* __restrict__ new_cell,
    const << elem >>* __restrict__ output_dh, const << product >>* __restrict__ state_dh,
    const << elem >>* __restrict__ dcell, << elem >>* __restrict__ dgates, << elem >>* __restrict__ old_dcell,
    << index >> state, << index >> items)
{
    using elem = << elem >>;
    using acc = << acc >>;
    using index = << index >>;
    const index row = index(blockIdx.x) * state;
    const index start = (index(blockIdx.y) * << block >> + index(threadIdx.x)) * items;
    const index end = minimum(start + items, state);
    for (index unit = start; unit < end; ++unit) {
        const index first = 3 * row + unit;
        const acc input_gate = cast<acc>(gates[first]);
        const acc output_gate = cast<acc>(gates[first + state]);
        const acc candidate = cast<acc>(gates[first + 2 * state]);
        const acc activated = tanh(cast<acc>(new_cell[row + unit]));
        const acc dh = cast<acc>(output_dh[row + unit]) + cast<acc>(state_dh[row + unit]);
        const acc dc = cast<acc>(dcell[row + unit]) + dh * output_gate * (acc(1) - activated * activated);

        const acc slope = candidate > acc(0) ? acc(1) : acc(1) + candidate;
        dgates[first] = cast<elem>(dc * candidate * input_gate * (acc(1) - input_gate));
        dgates[first + state] = cast<elem>(dh * activated * output_gate * (acc(1) - output_gate));
        dgates[first + 2 * state] = cast<elem>(dc * input_gate * slope);
        old_dcell[row + unit] = cast<elem>(dc);
    }
}
