// Blocks of a cluster wait for each other, and read each other's shared memory: on GPUs alone, where a cluster has several.
__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

// The value at the same place of another block's shared memory.
template <typename T>
__device__ __forceinline__ T of_block_number(const T* own, unsigned number) {
    union {
        T value;
        unsigned word[sizeof(T) / 4];
    } found;
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there) : "r"((unsigned)__cvta_generic_to_shared(own)), "r"(number));
#pragma unroll
    for (int i = 0; i < int(sizeof(T) / 4); ++i)
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(found.word[i]) : "r"(there + 4 * i) : "memory");
    return found.value;
}
