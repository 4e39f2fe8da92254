// A step of Gaussian elimination with row exchanges (LU decomposition) in each of a batch of matrices: `panel` columns are
// eliminated, and the rows of U to the right of them are made. What is to the right of the square, right-hand sides, is
// exchanged and eliminated with it. Left to the caller: rows below and columns to the right, less the product of both.
// a (batch, n, width), n <= width, in C order; columns before `first` are eliminated. A zero pivot leaves its column as it is.
// exchanges (batch): the number of exchanged rows so far.
// Launch: a block for each matrix, `block` threads, a multiple of 32 and at least n - first: a thread owns a row of the
// panel, in registers, then columns to its right. Shared memory: static.
<% include "prelude/reduce.cuh" %>
<% include "linear/pivot.cuh" %>
using T = << elem >>;
constexpr int block = << block >>, warps = block / 32, panel = << panel >>;

// The largest pivot of all threads, the first in the order of rows; `slot` is another one in each turn.
__device__ __forceinline__ Indexed<Size, int> largest_of_block(Indexed<Size, int> best, Indexed<Size, int>* slot) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) best = largest(best, shuffle_xor(best, distance));
    if (warps == 1) return best;
    if (threadIdx.x % 32 == 0) slot[threadIdx.x / 32] = best;
    __syncthreads();
    const int lane = threadIdx.x % 32;
    best = lane < warps ? slot[lane] : Indexed<Size, int>{Size(0), -1};
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) best = largest(best, shuffle_xor(best, distance));
    return best;
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    T* a, int* __restrict__ exchanges, int n, int width, int first)
{
    __shared__ Indexed<Size, int> slots[2][32];
    __shared__ T pivots[2][panel], lower[panel][panel];
    // The row that comes to each place of the panel's top, and the place to which each row there goes.
    __shared__ int origin[panel], target[panel];
    a += (long long)blockIdx.x * n * width + (long long)first * width;
    const int rows = n - first, columns = minimum(panel, rows), thread = threadIdx.x;
    T row[panel];
#pragma unroll
    for (int j = 0; j < panel; ++j) row[j] = thread < rows && j < columns ? a[(long long)thread * width + first + j] : T(0);
    int place = thread, exchanged = 0;
#pragma unroll
    for (int j = 0; j < panel; ++j) {
        if (j < columns) {
            const bool open = place >= j && thread < rows;
            const Indexed<Size, int> best = largest_of_block({open ? size_of(row[j]) : Size(0), open ? place : -1}, slots[j % 2]);
            exchanged += best.at != j;
            const bool chosen = open && place == best.at;
            if (chosen) {
#pragma unroll
                for (int k = j; k < panel; ++k) pivots[j % 2][k] = row[k];
            }
            if (open && place == j) place = best.at;
            if (chosen) place = j;
            __syncthreads();
            if (open && !chosen) {
                const T pivot = pivots[j % 2][j];
                if (size_of(pivot) != Size(0)) row[j] = row[j] / pivot;
#pragma unroll
                for (int k = j + 1; k < panel; ++k) row[k] -= row[j] * pivots[j % 2][k];
            }
        }
    }
    if (thread < rows) {
        if (place < panel) {
            origin[place] = thread;
#pragma unroll
            for (int j = 0; j < panel; ++j) lower[place][j] = row[j];
        }
        if (thread < panel) target[thread] = place;
#pragma unroll
        for (int j = 0; j < panel; ++j)
            if (j < columns) a[(long long)place * width + first + j] = row[j];
    }
    if (thread == 0) exchanges[blockIdx.x] = exchanged + (first ? exchanges[blockIdx.x] : 0);
    __syncthreads();
    for (int c = first + columns + thread; c < width; c += block) {
        T upper[panel];
#pragma unroll
        for (int p = 0; p < panel; ++p) upper[p] = p < columns ? a[(long long)origin[p] * width + c] : T(0);
        for (int r = 0; r < columns; ++r)
            if (target[r] >= columns) a[(long long)target[r] * width + c] = a[(long long)r * width + c];
#pragma unroll
        for (int p = 0; p < panel; ++p) {
            if (p < columns) {
#pragma unroll
                for (int q = 0; q < p; ++q) upper[p] -= lower[p][q] * upper[q];
                a[(long long)p * width + c] = upper[p];
            }
        }
    }
}
