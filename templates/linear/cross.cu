// y[i] = a[i] x b[i], the cross product of vectors of three elements. a, b and y (n, 3), in C order.
// Launch: a thread owns `piece` vectors, a block apart. No shared memory.
using T = << elem >>;
using acc = << acc >>;
constexpr int block = << block >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ y, long long n, int piece)
{
    long long i = (long long)blockIdx.x * block * piece + threadIdx.x;
    for (int turn = 0; turn < piece && i < n; ++turn, i += block) {
        const acc a0 = cast<acc>(a[3 * i]), a1 = cast<acc>(a[3 * i + 1]), a2 = cast<acc>(a[3 * i + 2]);
        const acc b0 = cast<acc>(b[3 * i]), b1 = cast<acc>(b[3 * i + 1]), b2 = cast<acc>(b[3 * i + 2]);
        y[3 * i] = cast<T>(a1 * b2 - a2 * b1);
        y[3 * i + 1] = cast<T>(a2 * b0 - a0 * b2);
        y[3 * i + 2] = cast<T>(a0 * b1 - a1 * b0);
    }
}
