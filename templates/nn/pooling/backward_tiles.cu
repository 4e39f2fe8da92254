// What backward.cu computes, from all windows that reach a thread's elements, which are read first: `pack` an access.
// `even`: every average was divided by its window's number of places.
// Launch: one thread for `items` neighbouring elements of dx in each of `rows` rows, multiples of the strides, which it
// writes `store` an access. Shared: none.
<% include "nn/pooling/windows.cuh" %>
<% include "nn/pooling/segment.cuh" %>
constexpr int block = << block >>, rows = << rows >>, items = << items >>, pack = << pack >>, store = << store >>;
constexpr bool even = << even | lower >>, rounded = << (elem != acc) | lower >>;
// The first window that reaches the thread's first element, and how many reach one of its elements.
constexpr int first_row = -((Reach::rows - Padding::rows) / Stride::rows);
constexpr int first_column = -((Reach::columns - Padding::columns) / Stride::columns);
constexpr int down = (rows - 1 + Padding::rows) / Stride::rows - first_row + 1;
constexpr int across = (items - 1 + Padding::columns) / Stride::columns - first_column + 1;
constexpr int offset = (pack + first_column % pack) % pack;

// Written out row by row as templates, as not every compiler unrolls loops this long.
struct Tile {
    T held[down][across];
    Place place[down][across];
    acc sum[rows][items];

    template <int d = 0>
    __device__ __forceinline__ void load(
        const T* dy, const Place* winners, index start, index i, index out_height, index j, index out_width)
    {
        load_segment<across, pack, offset, true>(held[d], dy, start, i, out_height, j, out_width, T(0.0f));
        if constexpr (largest)
            load_segment<across, pack, offset, false>(place[d], winners, start, i, out_height, j, out_width, Place(0));
        if constexpr (d + 1 < down) load<d + 1>(dy, winners, start, i + 1, out_height, j, out_width);
    }
    template <int d = 0>
    __device__ __forceinline__ void gather(index i, index out_height, index j, index out_width, index height, index width) {
#pragma unroll
        for (int c = 0; c < across; ++c) {
            acc share = cast<acc>(held[d][c]);
            if constexpr (!largest && even) {
                // In a half type's float a product rounds as well as a quotient.
                share = rounded ? share * acc(1.0 / Kernel::places) : share / acc(Kernel::places);
            } else if constexpr (!largest) {
                const bool exists = i >= 0 && i < out_height && j + c >= 0 && j + c < out_width;
                const index top = i * Stride::rows - Padding::rows, left = (j + c) * Stride::columns - Padding::columns;
                share = exists ? share / acc(divisor(top, left, height, width)) : acc(0);
            }
            add<d>(c, share);
        }
        if constexpr (d + 1 < down) gather<d + 1>(i + 1, out_height, j, out_width, height, width);
    }
    template <int d, int a = 0>
    __device__ __forceinline__ void add(int c, acc share) {
        constexpr int h = (first_row + d) * Stride::rows - Padding::rows + a * Dilation::rows;
        if constexpr (0 <= h && h < rows) {
#pragma unroll
            for (int b = 0; b < Kernel::columns; ++b) {
                const int w = (c + first_column) * Stride::columns - Padding::columns + b * Dilation::columns;
                if (w < 0 || w >= items) continue;
                sum[h][w] += !largest || place[d][c] == a * Kernel::columns + b ? share : acc(0);
            }
        }
        if constexpr (a + 1 < Kernel::rows) add<d, a + 1>(c, share);
    }
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* dy, << "const Place* winners," if kind == "maximum" >> T* dx,
    index planes, index height, index width, index out_height, index out_width)
{
    const size thread = size(blockIdx.x) * block + size(threadIdx.x);
    const size groups = divide_up(width, index(items)), bands = divide_up(height, index(rows));
    if (thread >= size(planes) * bands * groups) return;
    const size all_bands = thread / groups;
    const index plane = all_bands / bands, band = all_bands - plane * bands, group = thread - all_bands * groups;
    const index i = band * (rows / Stride::rows) + first_row, j = group * (items / Stride::columns) + first_column;
    const index start = plane * out_height * out_width;

    Tile tile;
    tile.load(dy, << "winners" if kind == "maximum" else "nullptr" >>, start, i, out_height, j, out_width);
#pragma unroll
    for (int h = 0; h < rows; ++h) {
#pragma unroll
        for (int w = 0; w < items; ++w) tile.sum[h][w] = acc(0);
    }
    tile.gather(i, out_height, j, out_width, height, width);
#pragma unroll
    for (int h = 0; h < rows; ++h) {
        const index row = band * rows + h, column = group * items;
        if (row < height) store_segment<store>(dx + ((plane * height + row) * width + column), tile.sum[h], width - column);
    }
}
