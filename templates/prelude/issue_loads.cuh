// What is loaded above is asked for before anything below. A compiler puts a load off until its use, to save registers, and
// so a thread waits for one after another. That is done when machine code is made, where an empty statement of assembly is
// nothing: it takes a barrier, and one that the host's threads need not take turns for, as they would for __syncwarp. All
// threads of a warp must call it that have not ended.
__device__ __forceinline__ void issue_loads() {
#ifdef __CUDA_ARCH__
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
#endif
}
