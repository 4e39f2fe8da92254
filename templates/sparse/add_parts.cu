// y[long_rows[l] * R + p, c] for l < count = the sum over firsts[l] <= b < firsts[l + 1] of sums[b * R + p, c].
// Launch: a thread for each number (l, p, c). No shared memory.
using T = << elem >>;
using acc = << acc >>;
constexpr int block = << block >>, R = << height >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const acc* __restrict__ sums, T* __restrict__ y, const long long* __restrict__ long_rows,
    const long long* __restrict__ firsts, long long count, long long columns)
{
    const long long i = (long long)blockIdx.x * block + threadIdx.x, l = i / (R * columns), at = i % (R * columns);
    if (l >= count) return;
    acc sum = acc(0);
#pragma unroll 8
    for (long long b = firsts[l]; b < firsts[l + 1]; ++b) sum += sums[b * R * columns + at];
    y[long_rows[l] * R * columns + at] = cast<T>(sum);
}
