// y[r * R + p, c] = the sum over the entries j of block row r, and over q < C, of a[j, p, q] * x[indices[j] * C + q, c],
// where j = offsets[r], ..., offsets[r + 1] - 1. CSR is R = C = 1.
// a (entries, R, C), x (-, columns), y (rows, columns), in C order.
// Launch: a group of across * along threads, neighbours in a warp, owns `piece` rows of y: `across` of them share the
// columns, of which each has `items` at a time, and `along` the entries. Blocks along y share the columns. Rows of more
// than `longest` entries are left to all groups of the block together, through shared memory. The order of the sums
// depends on the launch alone, so that every run gives the same bits.
<% include "prelude/reduce.cuh" %>
using T = << elem >>;
using acc = << acc >>;
using Place = << place >>;
constexpr int block = << block >>, across = << across >>, along = << along >>, items = << items >>;
constexpr int R = << height >>, C = << width >>, groups = block / (across * along), span = across * items;

// A thread's sums over the entries first, first + step, ... of a row, at its columns.
__device__ __forceinline__ void add_entries(
    acc (&sums)[items], const T* __restrict__ a, const Place* __restrict__ indices, const T* __restrict__ x, long long p,
    long long first, long long last, int step, long long column, long long columns)
{
#pragma unroll
    for (int k = 0; k < items; ++k) sums[k] = acc(0);
#pragma unroll << 4 if height * width == 1 else 1 >>
    for (long long j = first; j < last; j += step) {
        const T* const weights = a + (j * R + p) * C;
        const T* const from = x + (long long)indices[j] * C * columns + column;
#pragma unroll
        for (int q = 0; q < C; ++q) {
            const acc weight = cast<acc>(weights[q]);
#pragma unroll
            for (int k = 0; k < items; ++k)
                if (column + k * across < columns) sums[k] += weight * cast<acc>(from[q * columns + k * across]);
        }
    }
}

// The sums of a group, in each of its threads.
__device__ __forceinline__ void add_group(acc (&sums)[items]) {
#pragma unroll
    for (int k = 0; k < items; ++k) {
#pragma unroll
        for (int distance = across; distance < across * along; distance *= 2) sums[k] += shuffle_xor(sums[k], distance);
    }
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ a, const Place* __restrict__ indices, const Place* __restrict__ offsets, const T* __restrict__ x,
    T* __restrict__ y, long long rows, long long columns, long long piece, long long longest)
{
    const int lane = threadIdx.x % (across * along), part = lane / across, own = threadIdx.x / (across * along);
    const long long start = (long long)blockIdx.x * groups * piece;
    acc sums[items];
    bool shared_rows = false;
    for (long long i = start + own * piece; i < start + (own + 1) * piece; ++i) {
        // All threads take part in the shuffles.
        const long long row = i < rows ? i : 0, r = row / R, first = offsets[r], last = offsets[r + 1];
        const bool inside = i < rows && (groups == 1 || last - first <= longest);
        shared_rows |= i < rows && !inside;
        for (long long base = (long long)blockIdx.y * span; base < columns; base += (long long)gridDim.y * span) {
            const long long column = base + lane % across;
            add_entries(sums, a, indices, x, row % R, first + part, inside ? last : first, along, column, columns);
            add_group(sums);
#pragma unroll
            for (int k = 0; k < items; ++k)
                if (inside && part == 0 && column + k * across < columns) y[row * columns + column + k * across] = cast<T>(sums[k]);
        }
    }
<% if block > across * along %>
    __shared__ acc shared[groups][span];
    if (!__syncthreads_or(shared_rows)) return;
    for (long long row = start; row < start + groups * piece && row < rows; ++row) {
        const long long r = row / R, first = offsets[r], last = offsets[r + 1];
        if (last - first <= longest) continue;
        for (long long base = (long long)blockIdx.y * span; base < columns; base += (long long)gridDim.y * span) {
            const long long column = base + lane % across;
            add_entries(
                sums, a, indices, x, row % R, first + threadIdx.x / across, last, block / across, column, columns);
            add_group(sums);
#pragma unroll
            for (int k = 0; k < items; ++k)
                if (part == 0) shared[own][lane + k * across] = sums[k];
            __syncthreads();
            for (int c = threadIdx.x; c < span; c += block) {
                acc sum = shared[0][c];
                for (int g = 1; g < groups; ++g) sum += shared[g][c];
                if (base + c < columns) y[row * columns + base + c] = cast<T>(sum);
            }
            __syncthreads();
        }
    }
<% endif %>
}
