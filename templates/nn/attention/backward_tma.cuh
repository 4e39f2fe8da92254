// What the backward kernels on sm_90a share: the cotangents of a tile of scores, by lanes' elements.
<% include "nn/attention/warpgroups.cuh" %>
constexpr bool constant_slope = << (slope is not none) | lower >>;  // the derivative of a score by the one it is made of is a number
constexpr bool finite_slope = << finite_slope | lower >>;
constexpr float slope = << slope or "0" >>;
constexpr bool limited = << limited | lower >>;  // no score is large

// The factor that makes exponents of two of scores.
__device__ __forceinline__ float unit_of(const Sizes& sizes) { return float((plain ? sizes.scale : << gain >>) * log2_e); }
// The logarithm of a row's sum to base 2; without a sum, +inf, with which its weights are 0. Such a row's delta counts as 0 too:
// from a cotangent of its logarithm it may be infinite or NaN.
__device__ __forceinline__ float exponent(float lse) {
    return lse == -limits<float>::infinity() ? -lse : lse * float(log2_e);
}
// Whether one number has too few digits for such a logarithm.
__device__ __forceinline__ bool is_large(float lse) { return fabs(lse) >= 256.0f && fabs(lse) < limits<float>::infinity(); }
// What makes the weights of a row: scores less `shift` are made exponents, less `lse`. Where the logarithm is large, a score near it
// has all of its digits in the first difference, and the second is of small numbers.
struct RowShift {
    float shift, lse;
};
// Those of rows' statistics.
struct RowShifts {
    static constexpr float two = float(log2_e);
    float unit, inverse, more_two;

    __device__ __forceinline__ explicit RowShifts(const Sizes& sizes)
        : unit(unit_of(sizes)), inverse(__fdividef(1.0f, unit)),
          more_two(float(log2_e - two) - two * lacking((plain ? float(sizes.scale) : << gain >>) * log2_e, unit)) {}
    __device__ __forceinline__ RowShift operator()(const RowStatistics& of) const {
        const float lse = exponent(of.lse);
        if (!is_large(lse)) return {0.0f, lse};
        const float rest = fma(of.lse, two, -lse) + fma(of.lse, more_two, of.rest * two), shift = lse * inverse;
        return {shift, fma(-shift, unit, lse) + rest};
    }
};
// The cotangents of the scores of a launch.
struct Cotangents {
    const Sizes& sizes;
    const Scores& scores;
    const Draw& draw;
    float unit;

    __device__ __forceinline__ Cotangents(const Sizes& sizes, const Scores& scores, const Draw& draw)
        : sizes(sizes), scores(scores), draw(draw), unit(unit_of(sizes)) {}
    // Of a product that is shifted where it is all of a score. Beyond the last query and key, where the row's lse is +inf, the score
    // may be NaN.
    __device__ __forceinline__ float weight(float product, const RowShift& row, const Spot& at, const Ahead& ahead) const {
        if constexpr (plain) return power_of_two(product * unit - row.lse);
        else return power_of_two((scores(product, at, ahead).value - (limited ? 0.0f : row.shift)) * unit - row.lse);
    }
    // `beyond`: some rows of the tile are no queries; a key of infinities makes NaN of their zeros.
    __device__ __forceinline__ float weight(
        float product, const RowShift& row, const Spot& at, const Ahead& ahead, bool attends, bool beyond) const
    {
        const float p = weight(product, row, at, ahead);
        return attends && ((plain && !beyond) || row.lse != limits<float>::infinity()) ? p : 0.0f;
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
