// What one unit of an LLTM does of its three sums, and the derivative of that.
template <typename T>
struct Step {
    T input_gate, output_gate, candidate, cell, h;

    __device__ __forceinline__ Step(T z0, T z1, T z2, T old_cell) {
        // exp is taken of -|z| only, so that it cannot overflow.
        const T input_exp = exp(-fabs(z0)), output_exp = exp(-fabs(z1));
        input_gate = (z0 >= T(0) ? T(1) : input_exp) / (T(1) + input_exp);
        output_gate = (z1 >= T(0) ? T(1) : output_exp) / (T(1) + output_exp);
        candidate = maximum(z2, T(0)) + expm1(minimum(z2, T(0)));
        cell = old_cell + candidate * input_gate;
        h = tanh(cell) * output_gate;
    }
};

// From the gates i, o and c and the new cell, and the cotangents of the new h and of the new cell.
template <typename T>
struct Slopes {
    T input_gate, output_gate, candidate, cell;

    __device__ __forceinline__ Slopes(T i, T o, T c, T new_cell, T dh, T dcell) {
        const T activated = tanh(new_cell);
        cell = dcell + dh * o * (T(1) - activated * activated);
        input_gate = cell * c * i * (T(1) - i);
        output_gate = dh * activated * o * (T(1) - o);
        candidate = cell * i * (c > T(0) ? T(1) : T(1) + c);
    }
};
