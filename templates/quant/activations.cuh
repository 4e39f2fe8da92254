// Activations in blocks of 32 of 8 bits (Q8_1), in two planes, so that both are aligned: the numbers, and for each group or pair of
// groups that share a scale of the weights what their product takes.
constexpr int together = Kind::interleaved ? 1 : 2, scales = Kind::groups / together;  // groups that share a scale, scales of a unit
// The float 1.5 * 2^23: a small integer that is added to its bits is added to its value.
constexpr int magic_bits = 0x4b400000;
constexpr float magic = 12582912.0f;
// The scale d of x; what the integer sum of products starts from, or, if the kind is shifted, d * the sum of x as a float's bits.
struct Factor {
    float d;
    int start;
};
__device__ __forceinline__ Factor factor_of(float d, int sum) {
    return {d, Kind::shifted ? __float_as_int(d * float(sum)) : magic_bits - Kind::zero * sum};
}
// The nearest number; 0 for what is not finite, which shows in the scale.
__device__ __forceinline__ int nearest(float scaled) {
    const float level = rintf(scaled);
    return fabsf(level) <= 127.0f ? int(level) : 0;
}
