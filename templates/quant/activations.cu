// The planes of activations.cuh of x, whose rows are multiples of 32.
// Launch: eight lanes quantise 32 elements, four each. No shared memory.
<% include "quant/activations.cuh" %>
<% include "lib/pack.cuh" %>
<% include "prelude/overlap.cuh" %>
using T = << elem >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(const T* x, unsigned* numbers, Scale* scales, int count)
{
    let_next_kernel_begin();
    wait_for_earlier_kernels();
    const int i = blockIdx.x * << block >> + threadIdx.x;
    float four[4] = {};
    if (i < count) {
        const Pack<T, 4> pack = load_pack<4>(x + 4ll * i);
#pragma unroll
        for (int j = 0; j < 4; ++j) four[j] = cast<float>(pack.at[j]);
    }
    Scale scale;
    const unsigned bytes = quantize_four(four, scale);
    if (i >= count) return;
    numbers[i] = bytes;
    if (i % 8 == 0) scales[i / 8] = scale;
}
