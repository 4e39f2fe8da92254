// As activations.cu, for one thread: `count` blocks of 32.
<% include "quant/kind.cuh" %>
<% include "quant/activations.cuh" %>
using T = << elem >>;

extern "C" __global__ void << name >>(const T* x, signed char* numbers, Factor* factors, int count)
{
    for (int i = 0; i < count; ++i) {
        const T* const from = x + 32ll * i;
        float largest = 0;
        for (int j = 0; j < 32; ++j) largest = maximum(largest, fabsf(cast<float>(from[j])));
        const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
        int sums[2 / together] = {};
        for (int j = 0; j < 32; ++j) {
            const int q = nearest(cast<float>(from[j]) * inverse);
            numbers[32ll * i + j] = (signed char)q;
            sums[j / (16 * together)] += q;
        }
        for (int half = 0; half < 2 / together; ++half)
            factors[(2 / together) * (long long)i + half] = factor_of(largest / 127.0f, sums[half]);
    }
}
