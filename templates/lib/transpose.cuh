// Transposes 4 by 4 words among four neighbouring lanes: lane i gets word i of each.
__device__ __forceinline__ void transpose(unsigned (&word)[4]) {
    const bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const unsigned got = __shfl_xor_sync(0xffffffffu, odd ? word[i] : word[i + 1], 1);
        (odd ? word[i] : word[i + 1]) = got;
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const unsigned got = __shfl_xor_sync(0xffffffffu, upper ? word[i] : word[i + 2], 2);
        (upper ? word[i] : word[i + 2]) = got;
    }
}
