// The sum of a row's exponentials below its largest number, by the threads that share the row.
<% include "prelude/exponential.cuh" %>

// The largest number, and the sum of exponentials of all those numbers' distances below it.
struct RowState {
    acc peak, sum;
};

// exp(x - peak); 0 where both are -inf.
struct Exponents {
    acc peak;

    __device__ __forceinline__ explicit Exponents(acc largest)
        : peak(largest == limits<acc>::lowest() ? acc(0) : largest) {}
    __device__ __forceinline__ acc operator()(acc x) const {
        return exp_of(x - peak);
    }
};

__device__ __forceinline__ RowState row_join(RowState a, RowState b) {
    const acc peak = maximum(a.peak, b.peak);
    const bool a_higher = a.peak == peak;
    const RowState high = a_higher ? a : b, low = a_higher ? b : a;
    return {peak, high.sum + low.sum * (low.peak == peak ? acc(1) : exp_of(low.peak - peak))};
}
<% include "lib/row.cuh" %>

// row_reduce in fewer instructions: a warp finds its largest number first.
__device__ __forceinline__ RowState row_total(RowState state, int& phase) {
    acc peak = state.peak;
<% if threads > 1 %>
#pragma unroll
    for (int distance = << [threads, 32] | min // 2 >>; distance > 0; distance /= 2)
        peak = maximum(peak, shuffle_xor(peak, distance));
    acc sum = state.sum * (state.peak == peak ? acc(1) : exp_of(state.peak - peak));
#pragma unroll
    for (int distance = << [threads, 32] | min // 2 >>; distance > 0; distance /= 2)
        sum += shuffle_xor(sum, distance);
    state = {peak, sum};
<% endif %>
    return row_reduce_warps(state, phase);
}
