// kept<k>[i] = given<k>[i] for i < n<k>, k < << count >>, or the other way round without `into`: bytes of arrays in C order.
// Launch: blockIdx.y numbers the array, which the blocks along x share. Shared: none.
<% include "prelude/packs.cuh" %>
__device__ __forceinline__ void copy(const unsigned char* x, unsigned char* y, long long n)
{
    const long long first = (long long)blockIdx.x * << block >> + threadIdx.x, step = (long long)gridDim.x * << block >>;
    const bool aligned = ((unsigned long long)x | (unsigned long long)y) % 16 == 0;
    const long long packs = aligned ? n / 16 : 0;
#pragma unroll 4
    for (long long i = first; i < packs; i += step) ((Words<16>*)y)[i] = ((const Words<16>*)x)[i];
    for (long long i = 16 * packs + first; i < n; i += step) y[i] = x[i];
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<% for side in ("given", "kept") %>
<% for k in range(count) %>
    unsigned char* << side >><< k >>,
<% endfor %>
<% endfor %>
<% for k in range(count) %>
    long long n<< k >><< "," if not loop.last >>
<% endfor %>
) {
<% for k in range(count) %>
    if (blockIdx.y == << k >>) << "copy(given%d, kept%d, n%d)" % (k, k, k) if into else "copy(kept%d, given%d, n%d)" % (k, k, k) >>;
<% endfor %>
}
