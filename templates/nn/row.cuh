// The sum of one number a thread over the << threads >> threads that share a row, the same in each of them and in
// every run. Threads of a row: 1, a power of two up to 32, or the whole block; all threads of the block must call it.
<% if threads > 32 %>
<% set warps = block // 32 %>
<% endif %>
__device__ __forceinline__ << acc >> row_sum(<< acc >> value) {
<% if threads > 1 %>
#pragma unroll
    for (int distance = << [threads, 32] | min // 2 >>; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, distance);
<% endif %>
<% if threads > 32 %>
    __shared__ << acc >> of_warp[<< warps >>];
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warp[0];
#pragma unroll
    for (int warp = 1; warp < << warps >>; ++warp) value += of_warp[warp];
<% endif %>
    return value;
}
