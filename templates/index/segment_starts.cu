// starts[k] = how many of the `count` keys, which are in ascending order, are less than k, for k < n.
// Launch: a thread owns `piece` of the n. No shared memory.
using Key = << source >>;
using Start = << result >>;
constexpr int block = << block >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const Key* __restrict__ keys, Start* __restrict__ starts, long long n, long long piece, long long count)
{
    const long long first = ((long long)blockIdx.x * block + threadIdx.x) * piece;
    const long long last = minimum(n, first + piece);
    long long low = 0, high = count;
    while (low < high) {
        const long long middle = low + (high - low) / 2;
        const bool less = keys[middle] < first;
        low = less ? middle + 1 : low;
        high = less ? high : middle;
    }
    for (long long k = first; k < last; ++k) {
        while (low < count && keys[low] < k) ++low;
        starts[k] = Start(low);
    }
}
