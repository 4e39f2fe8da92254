// Quantises 32 neighbours by four lanes, eight numbers each: makes their bytes, and in each lane the factor of its group or pair.
template <class T>
__device__ __forceinline__ uint2 quantize_eight(const Pack<T, 8>& x, Factor& factor) {
    float largest = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) largest = maximum(largest, fabsf(cast<float>(x.at[i])));
#pragma unroll
    for (int apart = 1; apart < 4; apart *= 2) largest = maximum(largest, __shfl_xor_sync(0xffffffffu, largest, apart));
    const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
    unsigned words[2] = {};
    int sum = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int q = nearest(cast<float>(x.at[i]) * inverse);
        words[i / 4] |= shl(unsigned(q & 255), 8 * (i % 4));
        sum += q;
    }
#pragma unroll
    for (int apart = 1; apart < 2 * together; apart *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
    factor = factor_of(largest / 127.0f, sum);
    return make_uint2(words[0], words[1]);
}
