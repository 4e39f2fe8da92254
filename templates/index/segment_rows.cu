// Of segments between offsets: keys[j] = the segment of row j, for j < count, and starts[k] = the first row of segment k,
// for k <= size. Offsets out of range or order give unspecified segments, within bounds.
// Launch: a thread owns a row and a start. No shared memory.
using Offset = << source >>;
using Row = << result >>;
constexpr int block = << block >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const Offset* __restrict__ offsets, Row* __restrict__ keys, Row* __restrict__ starts, long long count, long long size)
{
    const long long i = (long long)blockIdx.x * block + threadIdx.x;
    if (i <= size) starts[i] = Row(maximum(minimum((long long)offsets[i], count), 0ll));
    if (i >= count) return;
    // How many of all ends but the last are at most i.
    long long low = 0, high = size - 1;
    while (low < high) {
        const long long middle = low + (high - low) / 2;
        const bool less = (long long)offsets[middle + 1] <= i;
        low = less ? middle + 1 : low;
        high = less ? high : middle;
    }
    keys[i] = Row(low);
}
