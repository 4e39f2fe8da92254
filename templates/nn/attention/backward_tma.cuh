// What the backward kernels on sm_90a share: the cotangents of a tile of scores, by lanes' elements.
<% include "nn/attention/warpgroups.cuh" %>
constexpr bool constant_slope = << (slope is not none) | lower >>;  // the derivative of a score by the one it is made of is a number
constexpr bool finite_slope = << finite_slope | lower >>;
constexpr float slope = << slope or "0" >>;

// The cotangents of the scores of a launch.
struct Cotangents {
    const Sizes& sizes;
    const Scores& scores;
    const Draw& draw;
    float unit;  // of scores, for powers of two

    __device__ __forceinline__ Cotangents(const Sizes& sizes, const Scores& scores, const Draw& draw)
        : sizes(sizes), scores(scores), draw(draw), unit(float(sizes.scale * log2_e)) {}
    // Beyond the last query and key, where the row's lse is +inf, the score may be NaN.
    __device__ __forceinline__ float weight(float product, float lse, const Spot& at, const Ahead& ahead) const {
        if constexpr (plain) return power_of_two(product * unit - lse);
        else return power_of_two(scores(product, at, ahead).value * float(<< gain >> * log2_e) - lse);
    }
    // `beyond`: some rows of the tile are no queries; a key of infinities makes NaN of their zeros.
    __device__ __forceinline__ float weight(
        float product, float lse, const Spot& at, const Ahead& ahead, bool attends, bool beyond) const
    {
        const float p = weight(product, lse, at, ahead);
        return attends && ((plain && !beyond) || lse != limits<float>::infinity()) ? p : 0.0f;
    }
    // What the cotangents of scores are multiplied by where they are stored.
    __device__ __forceinline__ float factor() const { return scores.scale * (constant_slope ? slope : 1.0f); }
    // The derivative that the factor leaves out, times a weight.
    __device__ __forceinline__ float sloped(float p, float product, const Spot& at, const Ahead& ahead) const {
        if constexpr (constant_slope) return p;
        else if constexpr (finite_slope) return p * scores(product, at, ahead).slope;
        else return p == 0.0f ? 0.0f : p * scores(product, at, ahead).slope;  // not 0 times a derivative that is infinite there
    }
    // The cotangent of a weight, as it is before dropout.
    __device__ __forceinline__ float before(float d, bool kept) const { return !dropping ? d : kept ? d * float(sizes.kept) : 0.0f; }
};
// The logarithm of a row's sum to base 2; without a sum, +inf, with which its weights are 0. Such a row's delta counts as 0 too:
// from a cotangent of its logarithm it may be infinite or NaN.
__device__ __forceinline__ float exponent(float lse) {
    return lse == -limits<float>::infinity() ? -lse : lse * float(log2_e);
}
