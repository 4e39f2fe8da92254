<% include "prelude/in_registers.cuh" %>

// Rows of sums = or, if it `adds`, += rows of left(first)(row, k) times a panel, which is `deep` deep and has N columns. Compilers make
// vectors of the loops over columns, and keep the sums of FEW rows in registers.
template <int FEW, int N, typename A, class Left>
__device__ __forceinline__ void multiply_few(A* sums, int first, const A* panel, int deep, bool adds, const Left& left) {
    A made[FEW][N];
    const A zero = A(deep < 0);  // a constant would be written by memset, to memory
    in_registers<FEW>([&](int y) {
        for (int x = 0; x < N; ++x) made[y][x] = zero;
    });
    const auto of_rows = left(first);
    for (int k = 0; k < deep; ++k, panel += N)
        in_registers<FEW>([&](int y) {
            const A of_row = of_rows(y, k);
            for (int x = 0; x < N; ++x) made[y][x] = fma(of_row, panel[x], made[y][x]);
        });
    sums += first * N;
    in_registers<FEW>([&](int y) {
        for (int x = 0; x < N; ++x) sums[y * N + x] = adds ? sums[y * N + x] + made[y][x] : made[y][x];
    });
}
// The same for any number of rows: a function by itself, which has all registers.
template <int FEW, int N, typename A, class Left>
__device__ __noinline__ void multiply_panel(A* sums, int rows, const A* panel, int deep, bool adds, Left left) {
    int row = 0;
    for (; row + FEW <= rows; row += FEW) multiply_few<FEW, N>(sums, row, panel, deep, adds, left);
    for (; row < rows; ++row) multiply_few<1, N>(sums, row, panel, deep, adds, left);
}
