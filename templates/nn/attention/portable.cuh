// Products of tiles in shared memory by plain arithmetic, for every dtype and device: << lanes_y >> by << lanes_x >> threads
// share a result, each with every << lanes_y >>-th row and every << lanes_x >>-th column.
<% include "nn/attention/attention.cuh" %>
constexpr int lanes_x = << lanes_x >>, lanes_y = << lanes_y >>;
constexpr int own_m = tile_m / lanes_y, own_n = tile_n / lanes_x;  // rows and columns of a thread
constexpr int own_head = (head_size + lanes_x - 1) / lanes_x, own_value = (value_size + lanes_x - 1) / lanes_x;
// A row of a tile in shared memory begins a bank after the one before it.
constexpr int head_step = head_size + 1, value_step = value_size + 1, score_step = tile_n + 1;

// Copies rows to shared memory, and zeros for those beyond the end.
template <int COUNT, int SIZE, typename R>
__device__ __forceinline__ void load(A* to, const R& rows, int first) {
    for (int x = threadIdx.x; x < COUNT * SIZE; x += threads) {
        const int r = x / SIZE, e = x % SIZE;
        const T* const from = rows(first + r);
        to[r * (SIZE + 1) + e] = from ? cast<A>(from[e]) : A(0);
    }
}
// sums[i][j] += sum over k of a(row, k) * b(k, column), for the thread's rows and columns below `columns`. The first step of
// an operand is along its rows or columns, the second along k.
template <int DEPTH, int ROWS, int COLUMNS>
__device__ __forceinline__ void multiply(
    A (&sums)[ROWS][COLUMNS], const A* a, int a_step, int a_deep, const A* b, int b_step, int b_deep, int columns)
{
    const int x = threadIdx.x % lanes_x, y = threadIdx.x / lanes_x;
    for (int k = 0; k < DEPTH; ++k) {
        A right[COLUMNS];
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) {
            const int column = j * lanes_x + x;
            right[j] = column < columns ? b[column * b_step + k * b_deep] : A(0);
        }
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            const A left = a[(i * lanes_y + y) * a_step + k * a_deep];
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j) sums[i][j] += left * right[j];
        }
    }
}
// Stores the thread's elements of the rows of a result, times a factor.
template <int SIZE, int ROWS, int COLUMNS, int GROUP, typename P>
__device__ __forceinline__ void store(const Rows<GROUP, P>& rows, int first, const A (&sums)[ROWS][COLUMNS], A factor) {
    const int x = threadIdx.x % lanes_x, y = threadIdx.x / lanes_x;
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        P* const to = rows(first + i * lanes_y + y);
        if (!to) continue;
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j)
            if (j * lanes_x + x < SIZE) to[j * lanes_x + x] = cast<P>(sums[i][j] * factor);
    }
}
