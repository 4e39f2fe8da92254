// The function of a gate: silu, or the tanh form of gelu.
<% include "prelude/math.cuh" %>
__device__ __forceinline__ float activated(float x) {
    return << "maximum(x, -1e30f) / (1 + exp(-x))" if gate == "silu" else "0.5f * maximum(x, -1e30f) * (1 + tanh(0.7978845608028654f * (x + 0.044715f * x * x * x)))" >>;
}
