// y[i] = sum over j < m of x[i + j] * k[j], i < count. x (count + m - 1), k (m), y (count).
// Launch: a thread owns `piece` elements of y, << block >> threads a block. No shared memory.
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* __restrict__ x, const << elem >>* __restrict__ k, << elem >>* __restrict__ y, long long count,
    long long m, long long piece)
{
    using acc = << acc >>;
    const long long first = ((long long)blockIdx.x * << block >> + threadIdx.x) * piece;
    const long long last = minimum(count, first + piece);
    for (long long i = first; i < last; ++i) {
        acc total = acc(0);
        for (long long j = 0; j < m; ++j) total += cast<acc>(x[i + j]) * cast<acc>(k[j]);
        y[i] = cast< << elem >> >(total);
    }
}
