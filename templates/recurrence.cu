// y[o, j, i] = a[o, j, i] * y[o, j - 1, i] + b[o, j, i], from 0<< ", from the end backwards: of y[o, j + 1, i]" if reverse >>.
// a, b, y (outer, n, inner) in C order; columns = outer * inner.
// Launch: a thread has a column (o, i) to itself, so that sums are taken in one order. No shared memory.
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* __restrict__ a, const << elem >>* __restrict__ b, << elem >>* __restrict__ y, long long columns,
    long long n, long long inner)
{
    const long long column = (long long)blockIdx.x * << block >> + threadIdx.x;
    if (column >= columns) return;
    const long long base = column / inner * n * inner + column % inner;
    << acc >> value = cast< << acc >> >(0);
    for (long long k = 0; k < n; ++k) {
        const long long at = base + (<< "n - 1 - k" if reverse else "k" >>) * inner;
        value = cast< << acc >> >(a[at]) * value + cast< << acc >> >(b[at]);
        y[at] = cast< << elem >> >(value);
    }
}
