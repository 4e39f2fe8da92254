// The planes of activations.cuh of x, whose rows are multiples of 32.
// Launch: a lane quantises eight elements. No shared memory.
<% include "quant/kind.cuh" %>
<% include "quant/activations.cuh" %>
<% include "lib/pack.cuh" %>
<% include "quant/activations_warp.cuh" %>
using T = << elem >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(const T* x, uint2* numbers, Factor* factors, int count)
{
    const int i = blockIdx.x * << block >> + threadIdx.x;
    Pack<T, 8> eight = {};
    if (i < count) eight = load_pack<8>(x + 8ll * i);
    Factor factor;
    const uint2 bytes = quantize_eight(eight, factor);
    if (i >= count) return;
    numbers[i] = bytes;
    if (i % (2 * together) == 0) factors[i / (2 * together)] = factor;
}
