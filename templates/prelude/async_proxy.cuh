// Copies of the hardware and products of warpgroups read shared memory past the threads' own path to it: what threads have
// written there is seen after this fence of each of them, and then a barrier. The fence is for memory of the thread's own
// block: what threads wrote to another block is passed on there, by a thread that has seen it: after a barrier of the cluster.
#ifndef CUKERN_ASYNC_PROXY
#define CUKERN_ASYNC_PROXY
__device__ __forceinline__ void fence_to_async() {
#ifdef __CUDACC__
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#else
    cukern::runtime->fence_to_async();
#endif
}
#endif  // CUKERN_ASYNC_PROXY
