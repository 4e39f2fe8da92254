// A barrier of all blocks of a grid, which because of it a launch starts together: at most as many as run at once.
// On the host a grid is a row of clusters, and its blocks wait for those of their cluster.
// Source: cooperative_groups.h, grid_group; the driver gives such a launch a word that is 0 at first.
#ifndef CUKERN_GRID
#define CUKERN_GRID
<% include "prelude/cluster.cuh" %>
#ifdef __CUDACC__

__device__ __forceinline__ unsigned long long grid_barrier_word() {
    unsigned long long given;
    asm("{ .reg .b32 low, high;\nmov.u32 low, %%envreg2;\nmov.u32 high, %%envreg1;\nmov.b64 %0, {low, high}; }" : "=l"(given));
    return given + 4;
}
// All threads come by grid_arrive, and go on after grid_wait, to which it gives its result: then each sees what those of all blocks
// did before they came.
__device__ __forceinline__ unsigned grid_arrive() {
    __syncthreads();
    unsigned before = 0;
    if (threadIdx.x == 0) {
        // The first block counts up to the highest bit for all: with the last to come it changes.
        const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
        const unsigned own = blockIdx.x + blockIdx.y + blockIdx.z ? 1u : 0x80000000u - (blocks - 1);
        asm volatile("atom.add.release.gpu.u32 %0, [%1], %2;" : "=r"(before) : "l"(grid_barrier_word()), "r"(own) : "memory");
    }
    return before;
}
__device__ __forceinline__ void grid_wait(unsigned before) {
    if (threadIdx.x == 0) {
        unsigned now;
        do asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(grid_barrier_word()) : "memory");
        while (!((before ^ now) & 0x80000000u));
    }
    __syncthreads();
}
__device__ __forceinline__ void grid_barrier() { grid_wait(grid_arrive()); }

#else

inline unsigned grid_arrive(CUKERN_HERE) { return cluster_arrive(file, line), 0; }
inline void grid_wait(unsigned, CUKERN_HERE) { cluster_wait(file, line); }
inline void grid_barrier(CUKERN_HERE) { cluster_barrier(file, line); }

#endif
#endif  // CUKERN_GRID
