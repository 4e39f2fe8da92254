// Allows the next kernel of the stream to take the place of blocks that end, before all have: it waits for all of this one's
// writes before it begins to read (sm_90 and up; elsewhere, and on the host, it begins when this one has ended).
// Source: PTX ISA, griddepcontrol.
#ifndef CUKERN_NEXT_KERNEL
#define CUKERN_NEXT_KERNEL
__device__ __forceinline__ void allow_next_kernel() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
#endif  // CUKERN_NEXT_KERNEL
