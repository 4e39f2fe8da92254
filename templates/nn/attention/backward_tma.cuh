// What the backward kernels on sm_90a share: the cotangents of a tile of scores, by lanes' elements.
<% include "nn/attention/warpgroups.cuh" %>
constexpr bool early = plain && !dropping;  // weights are made before their cotangents are there

// The cotangents of the scores of a launch.
struct Cotangents {
    const Sizes& sizes;
    const Scores& scores;
    const Draw& draw;
    float unit;  // of scores, for powers of two

    __device__ __forceinline__ Cotangents(const Sizes& sizes, const Scores& scores, const Draw& draw)
        : sizes(sizes), scores(scores), draw(draw), unit(float(sizes.scale * log2_e)) {}
    __device__ __forceinline__ float weight(float product, float lse) const { return power_of_two(product * unit - lse); }
    // From products with the queries and with the cotangent: the weight that multiplies the value, and the cotangent of the
    // score but for its factor.
    __device__ __forceinline__ void finish(
        float& s, float& d, const Spot& at, const Place& place, float lse, float delta, bool attends) const
    {
        if constexpr (early) {
            d = s * (d - delta);
        } else {
            Score score{s * float(sizes.scale), 1.0f};
            if constexpr (!plain) score = scores(s, at);
            // Beyond the last query and key the score may be NaN.
            const float p = attends && lse != limits<float>::infinity() ? power_of_two(score.value * float(log2_e) - lse) : 0.0f;
            float factor = 1.0f;
            if constexpr (dropping) factor = draw.factor(sizes, place.element(sizes, at.row + at.more_row, at.key + at.more_key));
            const float ds = p * (d * factor - delta);
            d = p == 0.0f ? 0.0f : ds * score.slope;  // not 0 times a derivative that is infinite there
            s = p * factor;
        }
    }
};
// The logarithm of a row's sum to base 2; without a sum, +inf, with which its weights are 0. Such a row's delta counts as 0 too:
// from a cotangent of its logarithm it may be infinite or NaN.
__device__ __forceinline__ float exponent(float lse) {
    return lse == -limits<float>::infinity() ? -lse : lse * float(log2_e);
}
