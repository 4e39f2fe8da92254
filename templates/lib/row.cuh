// A row is shared by << threads >> threads: 1, a power of two up to 32, a block, or a cluster of << cluster >> blocks.
// A team, which is a block or a cluster, has row_groups rows at a time; row_lane numbers the threads of a row.
// row_reduce joins one RowState a thread by row_join, both defined before this: the same in each of them and in every
// run, as row_join(a, b) is row_join(b, a); all threads that share a row must call it, and with threads > 1 all threads
// of the block. `phase` is 0 at first: what is shared is written in turns, so that one barrier does. Before its end every
// thread calls row_end.
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

// The state at the same place of another block's shared memory.
__device__ __forceinline__ RowState of_block_number(const RowState* own, unsigned number) {
    union {
        RowState state;
        unsigned word[sizeof(RowState) / 4];
    } found;
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there) : "r"((unsigned)__cvta_generic_to_shared(own)), "r"(number));
#pragma unroll
    for (int i = 0; i < int(sizeof(RowState) / 4); ++i)
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(found.word[i]) : "r"(there + 4 * i) : "memory");
    return found.state;
}
<% endif %>

// The rest of row_reduce where each thread of a block has the same state.
__device__ __forceinline__ RowState row_reduce_blocks(RowState state, int& phase) {
<% if cluster > 1 %>
    __shared__ RowState of_block[2];
    if (threadIdx.x == 0) of_block[phase] = state;
    cluster_barrier();
    state = of_block_number(&of_block[phase], 0);
#pragma unroll
    for (unsigned number = 1; number < << cluster >>; ++number)
        state = row_join(state, of_block_number(&of_block[phase], number));
<% endif %>
    phase ^= 1;
    return state;
}
// The rest of row_reduce where each thread of a warp has the same state.
__device__ __forceinline__ RowState row_reduce_warps(RowState state, int& phase) {
<% if threads > 32 %>
    __shared__ RowState of_warp[2][<< block // 32 >>];
    if (threadIdx.x % 32 == 0) of_warp[phase][threadIdx.x / 32] = state;
    __syncthreads();
    state = of_warp[phase][threadIdx.x % << block // 32 >>];
#pragma unroll
    for (int distance = << block // 64 >>; distance > 0; distance /= 2)
        state = row_join(state, shuffle_xor(state, distance));
<% endif %>
    return row_reduce_blocks(state, phase);
}
__device__ __forceinline__ RowState row_reduce(RowState state, int& phase) {
<% if threads > 1 %>
#pragma unroll
    for (int distance = << [threads, 32] | min // 2 >>; distance > 0; distance /= 2)
        state = row_join(state, shuffle_xor(state, distance));
<% endif %>
    return row_reduce_warps(state, phase);
}
// No block ends before all of its cluster have read its state.
__device__ __forceinline__ void row_end() {
<% if cluster > 1 %>
    cluster_barrier();
<% endif %>
}
