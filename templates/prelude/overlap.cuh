// For kernels that begin while the one before them ends, on GPUs of compute capability 9; elsewhere they do nothing. A text
// that includes this gets no wait at its kernel's start, so every thread must call wait_for_earlier_kernels() before it reads
// or writes what other kernels write or read. What was written long ago, such as weights, may be asked for above that.

// The next kernel may begin, as far as there is room, once all blocks of this one have called this or ended.
__device__ __forceinline__ void let_next_kernel_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}
// All earlier kernels have ended, and what they wrote is seen.
__device__ __forceinline__ void wait_for_earlier_kernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
