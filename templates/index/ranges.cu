// rows[p] = i and columns[p] = first[i] + p - start[i], for each row i and start[i] <= p < start[i + 1].
// first (count), start (count + 1), rising from 0; rows and columns of start[count] elements.
// Launch: `lanes` threads share a row. No shared memory.
constexpr int block = << block >>, lanes = << lanes >>;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const long long* __restrict__ first, const long long* __restrict__ start, long long* __restrict__ rows,
    long long* __restrict__ columns, long long count)
{
    const long long row = ((long long)blockIdx.x * block + threadIdx.x) / lanes;
    if (row >= count) return;
    const long long from = start[row], end = start[row + 1], shift = first[row] - from;
    for (long long p = from + threadIdx.x % lanes; p < end; p += lanes) rows[p] = row, columns[p] = p + shift;
}
