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
// Prefetches bytes to the L2, where what earlier kernels still write to them is seen too. From an address that is a
// multiple of 16 bytes on, in whole 16 bytes (sm_90 and up; elsewhere, and on the host, nothing is asked for).
// Source: PTX ISA, cp.async.bulk.prefetch.
__device__ __forceinline__ void ask_ahead([[maybe_unused]] const void* from, [[maybe_unused]] unsigned bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (bytes >= 16)
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(from)), "r"(bytes / 16 * 16) : "memory");
#endif
}
