// y[p, i] = sum over j of x[i + j] * k[j], i < count, over the p-th `part` of the m elements of k. x (count + m - 1),
// k (m), y (parts, count): the whole where there is one part, else sums that are still to be added up.
// Launch: blockIdx.y numbers the parts; a thread owns `piece` elements of y, `items` at a time. No shared memory.
// Products are added up as Sum, and every `run` of them as Wide, so that long sums keep their digits.
using T = << elem >>;
using Result = << result >>;
using Sum = << compute >>;
using Wide = << wide >>;
constexpr int block = << block >>, items = << items >>, run = << run >>;

// y[i], `step` at a time as long as there are as many; the first i that is left.
template <int step>
__device__ __forceinline__ long long correlate(
    const T* __restrict__ x, const T* __restrict__ k, Result* __restrict__ y, long long i, long long last, long long begin,
    long long end)
{
    for (; i + step <= last; i += step) {
        Wide total[step] = {};
        for (long long start = begin; start < end; start += run) {
            const long long stop = minimum(end, start + run);
            Sum sum[step] = {};
            for (long long j = start; j < stop; ++j)
                for (int v = 0; v < step; ++v) sum[v] += cast<Sum>(x[i + j + v]) * cast<Sum>(k[j]);
            for (int v = 0; v < step; ++v) total[v] += sum[v];
        }
        for (int v = 0; v < step; ++v) y[i + v] = cast<Result>(total[v]);
    }
    return i;
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ x, const T* __restrict__ k, Result* __restrict__ y, long long count, long long m, long long part,
    long long piece)
{
    const long long first = ((long long)blockIdx.x * block + threadIdx.x) * piece;
    const long long last = minimum(count, first + piece);
    const long long begin = blockIdx.y * part, end = minimum(m, begin + part);
    Result* const sums = y + blockIdx.y * count;
    const long long rest = correlate<items>(x, k, sums, first, last, begin, end);
    if constexpr (items > 1) correlate<1>(x, k, sums, rest, last, begin, end);
}
