// A row is shared by << threads >> threads: 1, a power of two up to 32, a block, or a cluster of << cluster >> blocks.
// A team, which is a block or a cluster, has row_groups rows at a time; row_lane numbers the threads of a row.
// row_sum is the sum of one number a thread, the same in each of them and in every run; all threads that share a row
// must call it, and with threads > 1 all threads of the block.
using Sum = << sum_type >>;
constexpr int row_groups = << [block // threads, 1] | max >>;
<% if cluster > 1 %>
__device__ __forceinline__ int row_lane() { return blockIdx.x % << cluster >> * << block >> + threadIdx.x; }
__device__ __forceinline__ int row_group() { return 0; }
__device__ __forceinline__ unsigned row_team() { return blockIdx.x / << cluster >>; }
__device__ __forceinline__ unsigned row_teams() { return gridDim.x / << cluster >>; }
<% else %>
__device__ __forceinline__ int row_lane() { return threadIdx.x % << threads >>; }
__device__ __forceinline__ int row_group() { return threadIdx.x / << threads >>; }
__device__ __forceinline__ unsigned row_team() { return blockIdx.x; }
__device__ __forceinline__ unsigned row_teams() { return gridDim.x; }
<% endif %>
<% if cluster > 1 %>

__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// The number at the same place of another block's shared memory.
__device__ __forceinline__ Sum of_block_number(const Sum* own, unsigned number) {
    unsigned there;
    Sum value;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there) : "r"((unsigned)__cvta_generic_to_shared(own)), "r"(number));
    asm volatile("ld.shared::cluster.<< "f32" if sum_type == "float" else "f64" >> %0, [%1];"
                 : "=<< "f" if sum_type == "float" else "d" >>"(value) : "r"(there) : "memory");
    return value;
}
<% endif %>

__device__ __forceinline__ Sum row_sum(Sum value) {
<% if threads > 1 %>
#pragma unroll
    for (int distance = << [threads, 32] | min // 2 >>; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, distance);
<% endif %>
<% if threads > 32 %>
    __shared__ Sum of_warp[<< block // 32 >>];
    __syncthreads();
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    value = of_warp[0];
#pragma unroll
    for (int warp = 1; warp < << block // 32 >>; ++warp) value += of_warp[warp];
<% endif %>
<% if cluster > 1 %>
    __shared__ Sum of_block;
    if (threadIdx.x == 0) of_block = value;
    cluster_barrier();
    value = Sum(0);
#pragma unroll
    for (unsigned number = 0; number < << cluster >>; ++number) value += of_block_number(&of_block, number);
    // No block may write its number again, or end, before all have read it.
    cluster_barrier();
<% endif %>
    return value;
}
