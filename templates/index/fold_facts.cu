// facts, 0 before: bit 0 if starts ever decrease, bit 1 if a slice has at least `fan` of the n rows; fold_parts reads them.
// Slices are those of fold_slices.
// Launch: a block owns `piece` slices for each thread, neighbouring threads neighbouring ones. No shared memory.
using index = << index >>;
constexpr int block = << block >>, fan = << fan >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const long long* __restrict__ starts, unsigned* facts, index count, index n, index piece)
{
    const index start = index(blockIdx.x) * block * piece + index(threadIdx.x);
    bool falls = false, large = false;
    for (index i = 0, k = start; i < piece && k < count; ++i, k += block) {
        const long long first = starts[k], next = k + 1 < count ? starts[k + 1] : n;
        falls |= next < first;
        large |= minimum(next, (long long)n) - maximum(first, 0ll) >= fan;
    }
    falls = __syncthreads_or(falls);
    large = __syncthreads_or(large);
    if (threadIdx.x == 0 && (falls || large)) atomicOr(facts, unsigned(falls) + 2u * unsigned(large));
}
