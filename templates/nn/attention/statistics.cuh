// What is kept of a row: the logarithm of the sum of exponentials of its scores, which is lse + rest, as one number would be
// rounded to the digits of large scores. Of a row that attends to nothing lse is -inf.
struct RowStatistics {
    acc lse, rest;
};
// Those of the largest score, and the sum of exponentials below it.
__device__ __forceinline__ RowStatistics statistics_of(acc largest, acc total) {
    if (total == acc(0)) return {-limits<acc>::infinity(), acc(0)};
    const acc more = log(total), lse = largest + more;
    return {lse, fabs(lse) < limits<acc>::infinity() ? largest - lse + more : acc(0)};
}
// The share that a factor lacks which was rounded.
__device__ __forceinline__ float lacking(double exact, float rounded) {
    return rounded == 0.0f ? 0.0f : __fdividef(float(exact - rounded), rounded);
}
// Those of the largest score for powers of two, and the sum of these below it. The logarithm of 2 is that of floats and the rest.
// `lacks`: of the factor that made exponents of scores.
__device__ __forceinline__ RowStatistics statistics_of_powers(float largest, float total, float lacks) {
    if (total == 0.0f) return {-limits<float>::infinity(), 0.0f};
    constexpr float unit = float(0.6931471805599453), more_unit = float(0.6931471805599453 - unit);
    const float more = log2(total), lse = (largest + more) * unit;
    const float apart = fma(largest, unit, -lse) + (largest * fma(unit, lacks, more_unit) + more * unit);
    return {lse, fabs(lse) < limits<float>::infinity() ? apart : 0.0f};
}
