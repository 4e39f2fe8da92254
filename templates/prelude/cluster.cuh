// Clusters: blocks that run at the same time, wait for each other, and read and write each other's shared memory (sm_90 and
// up). A kernel has them by __cluster_dims__(x, y, z) after __global__, at most 8 blocks; the grid is made of whole clusters.
// Before a block's memory is touched its block must have begun, and it may not end until then: a barrier of the cluster comes
// first and last, or a block waits at the end for all that others do to its memory. An address in another block's memory is for
// the block that has made it, by map_shared_rank. A kernel without __cluster_dims__ has clusters of one block.
// Source: PTX ISA, barrier.cluster, mapa, st.async.
#ifndef CUKERN_CLUSTER
#define CUKERN_CLUSTER
#ifdef __CUDACC__

// The block's place in its cluster, x first.
__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
__device__ __forceinline__ unsigned cluster_size() {
    unsigned size;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
}
// Every thread comes to its cluster's barrier by cluster_arrive, and goes on after cluster_wait when all have come or ended:
// then it sees what they did before they came.
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait;" ::: "memory"); }
// Arrives relaxed, not as a release, which costs much less: those who have waited may not see yet what it wrote before, and may
// change what it reads.
__device__ __forceinline__ void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory"); }
// cluster_arrive and cluster_wait; all threads of a warp together.
__device__ __forceinline__ void cluster_barrier() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}
// The address in another block's shared memory of what is at this address in one's own: to load, to store, or for atomics.
template <typename T>
__device__ __forceinline__ T* map_shared_rank(T* own, unsigned rank) {
    unsigned long long there;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(own), "r"(rank));
    return (T*)there;
}
// The value at the same offset of another block's shared memory.
template <typename T>
__device__ __forceinline__ T of_block_number(const T* own, unsigned number) {
    static_assert(sizeof(T) % 4 == 0, "of_block_number: a value of whole words of 4 bytes");
    union {
        T value;
        unsigned word[sizeof(T) / 4];
    } result;
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there) : "r"((unsigned)__cvta_generic_to_shared(own)), "r"(number));
#pragma unroll
    for (int i = 0; i < int(sizeof(T) / 4); ++i)
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(result.word[i]) : "r"(there + 4 * i) : "memory");
    return result.value;
}

#else

inline unsigned cluster_rank() { return cukern::runtime->cluster_rank(); }
inline unsigned cluster_size() { return cukern::runtime->cluster_size(); }
inline void cluster_arrive(CUKERN_HERE) { cukern::runtime->cluster_arrive(true, file, line); }
inline void cluster_arrive_relaxed(CUKERN_HERE) { cukern::runtime->cluster_arrive(false, file, line); }
inline void cluster_wait(CUKERN_HERE) { cukern::runtime->cluster_wait(file, line); }
inline void cluster_barrier(CUKERN_HERE) {
    cukern::runtime->cluster_arrive(true, file, line);
    cukern::runtime->cluster_wait(file, line);
}
template <typename T>
inline T* map_shared_rank(T* own, unsigned rank, CUKERN_HERE) {
    return (T*)cukern::runtime->map_shared((const void*)own, rank, file, line);
}
template <typename T>
inline T of_block_number(const T* own, unsigned number, CUKERN_HERE) {
    static_assert(sizeof(T) % 4 == 0, "of_block_number: a value of whole words of 4 bytes");
    return *map_shared_rank(own, number, file, line);
}

#endif
#endif  // CUKERN_CLUSTER
