// Stable radix sort of each run of `run` elements of rows of `n`, by single threads, one digit per pass.
// x and keys (rows, n), the bits of the elements as integers<< "; indices, where they come from, likewise" if indexed >>; spare ones likewise.
// Launch: a thread sorts one of the `runs` of a row. No shared memory.
<% include "index/radix.cuh" %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const K* __restrict__ x, K* keys, << "I* indices, " if indexed >>K* spare, << "I* spare_indices, " if indexed >>long long rows, I n, I runs, I run)
{
    const long long thread = (long long)blockIdx.x * block + threadIdx.x;
    if (thread >= rows * runs) return;
    const I first = I(thread % runs) * run, size = minimum(run, n - first);
    const long long base = thread / runs * n + first;
    Word start[passes][digits] = {};
    for (I i = 0; i < size; ++i) {
        const K key = canonical(x[base + i]);
        for (int pass = 0; pass < passes; ++pass) ++start[pass][digit_of(key, 8 * pass)];
    }
    // A digit that all keys have moves none, except from x.
    int left = 0;
    for (int pass = 0; pass < passes; ++pass) left += start[pass][digit_of(canonical(x[base]), 8 * pass)] < Word(size);
    const bool sorted = left == 0;
    if (sorted) left = 1;
    const K* from = x + base;
    << "const I* from_indices = nullptr;" if indexed >>
    for (int pass = 0; left; ++pass) {
        if (!sorted && start[pass][digit_of(canonical(x[base]), 8 * pass)] == Word(size)) continue;
        Word sum = 0;
        for (int d = 0; d < digits; ++d) {
            const Word count = start[pass][d];
            start[pass][d] = sum;
            sum += count;
        }
        // The last pass writes the result.
        K* const to = (left % 2 ? keys : spare) + base;
        << "I* const to_indices = (left % 2 ? indices : spare_indices) + base;" if indexed >>
        for (I i = 0; i < size; ++i) {
            const K key = canonical(from[i]);
            const Word at = start[pass][digit_of(key, 8 * pass)]++;
            to[at] = key;
            << "to_indices[at] = from_indices ? from_indices[i] : first + i;" if indexed >>
        }
        from = to;
        << "from_indices = to_indices;" if indexed >>
        --left;
    }
}
