// Rows of n elements in another order: << "y[r, i] = x[r, places[r, i]]" if mode == "gather" else "y[r, places[r, i]] = x[r, i]" >>. The places of a row are 0, ..., n - 1 in
// any order, so that no two threads write one element. x, y and places have `total` elements, in C order.
// Launch: a thread owns `piece` elements, << block >> threads a block. No shared memory.
extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const << elem >>* x, const long long* places, << elem >>* y,
    long long total, long long n, long long piece)
{
    const long long first = ((long long)blockIdx.x * << block >> + threadIdx.x) * piece;
    const long long last = minimum(total, first + piece);
    for (long long i = first; i < last;) {
        const long long base = i / n * n, stop = minimum(last, base + n);
        for (; i < stop; ++i) << "y[i] = x[base + places[i]]" if mode == "gather" else "y[base + places[i]] = x[i]" >>;
    }
}
