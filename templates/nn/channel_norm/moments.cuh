// Count, mean and sum of squared differences from the mean, which is mean + rest: `mean` is near, and never rounded.
struct ShiftedMoments {
    acc count, mean, rest, squares;
};
__device__ __forceinline__ ShiftedMoments joined(const ShiftedMoments& a, const ShiftedMoments& b) {
    if (a.count == acc(0)) return b;
    if (b.count == acc(0)) return a;
    const acc count = a.count + b.count, share = b.count / count, delta = b.mean - a.mean + (b.rest - a.rest);
    return {count, a.mean, a.rest + delta * share, a.squares + b.squares + delta * (delta * (a.count * share))};
}
