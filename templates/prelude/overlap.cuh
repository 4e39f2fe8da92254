// For kernels that ask for what was written long ago, such as weights, while the kernel before them ends. A text that includes
// this gets no wait at its kernel's start: every thread must call wait_for_earlier_kernels() before it reads or writes what
// the kernels before it write or read.
<% include "prelude/next_kernel.cuh" %>

// All earlier kernels have ended, and what they wrote is seen.
__device__ __forceinline__ void wait_for_earlier_kernels() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
