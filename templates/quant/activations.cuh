// Activations in blocks of 32 of 8 bits (Q8_1), in two planes, so that both are aligned: the numbers, and of each block its
// scale and the sums of its halves, which are exact.
struct Scale {
    float d;
    unsigned sums;  // of the first and of the last 16, two signed numbers of 16 bits
};
// The nearest number; 0 for what is not finite, which shows in the scale.
__device__ __forceinline__ int nearest(float scaled) {
    const float level = rintf(scaled);
    return fabsf(level) <= 127.0f ? int(level) : 0;
}
// Quantises 32 neighbours by eight lanes, four numbers each: returns their bytes, and makes the scale, in all eight lanes.
__device__ __forceinline__ unsigned quantize_four(const float (&x)[4], Scale& scale) {
    float largest = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) largest = maximum(largest, fabsf(x[i]));
#pragma unroll
    for (int apart = 4; apart; apart /= 2) largest = maximum(largest, __shfl_xor_sync(0xffffffffu, largest, apart));
    scale.d = largest / 127.0f;
    const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
    unsigned bytes = 0;
    int sum = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const int q = nearest(x[i] * inverse);
        bytes |= shl(unsigned(q & 255), 8 * i);
        sum += q;
    }
#pragma unroll
    for (int apart = 1; apart < 4; apart *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
    const int other = __shfl_xor_sync(0xffffffffu, sum, 4);
    const bool upper = threadIdx.x & 4;
    scale.sums = unsigned((upper ? other : sum) & 0xffff) | shl(unsigned(upper ? sum : other), 16);
    return bytes;
}
