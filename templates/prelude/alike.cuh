// The lanes of a warp whose numbers agree with this one's in the lowest `bits` bits; all lanes take part.
template <int bits>
__device__ __forceinline__ unsigned lanes_alike(unsigned number) {
    unsigned same = 0xffffffffu;
#pragma unroll
    for (int i = 0; i < bits; ++i) {
        const unsigned bit = number & shl(1u, i);
#ifdef __CUDA_ARCH__
        // Half the instructions that NVRTC makes of what stands below.
        unsigned alike;
        asm volatile(
            "{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %1, 0;\n\tvote.sync.ballot.b32 %0, p, 0xffffffff;\n\t@!p not.b32 %0, %0;\n\t}"
            : "=r"(alike)
            : "r"(bit));
        same &= alike;
#else
        const unsigned set = __ballot_sync(0xffffffffu, bit);
        same &= bit ? set : ~set;
#endif
    }
    return same;
}
