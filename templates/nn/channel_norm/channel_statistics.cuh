// The statistics of a channel: its mean is mean + rest, and 1 / sqrt(variance + eps). The mean is not one number, as that
// would be rounded to the digits of a large one, which are few beside those of its differences from the elements.
struct Statistics {
    acc mean, rest, rstd;
};
// Those of a total of moments. Running statistics, if there are any, move by `momentum`, or by what `by` points to, towards mean
// and unbiased variance.
template <typename Total>
__device__ __forceinline__ Statistics statistics_of(const Total& total, acc eps) {
    return {total.mean, total.rest, acc(1) / sqrt(total.squares / total.count + eps)};
}
template <typename Total, typename R>
__device__ __forceinline__ void move_running(const Total& total, R* running_mean, R* running_variance, const acc* by, acc momentum) {
    if (by) momentum = *by;
    const acc mean = cast<acc>(*running_mean), variance = cast<acc>(*running_variance);
    *running_mean = cast<R>(mean + (total.mean - mean + total.rest) * momentum);
    *running_variance = cast<R>(variance + (total.squares / (total.count - acc(1)) - variance) * momentum);
}
