// What forward.cu computes, from all that a thread's windows cover, which is read first: `pack` elements an access. Each
// row's part of the windows is pooled across, and these parts down; results are written `store` elements an access.
// `full`: every window lies inside the plane; `even`: every average is divided by its window's number of places.
// Launch: one thread for `items` neighbouring outputs of each of `rows` rows. Shared: none.
<% include "nn/pooling/windows.cuh" %>
<% include "nn/pooling/segment.cuh" %>
constexpr int block = << block >>, rows = << rows >>, items = << items >>, pack = << pack >>, store = << store >>;
constexpr bool full = << full | lower >>, even = << even | lower >>, keep = << keep | lower >>;
// The windows cover `across` columns, and `down` rows: their places, counted from the first.
constexpr int across = (items - 1) * Stride::columns + Reach::columns + 1, down = << touched | length >>;
__device__ constexpr int covered(int n) {
    const int row[] = {<< touched | join(", ") >>};
    return row[n];
}
// Which of its rows the window `out` below the first has at `row`; -1 for none.
__device__ constexpr int row_of_window(int row, int out) {
    const int below = row - out * Stride::rows;
    return below >= 0 && below <= Reach::rows && below % Dilation::rows == 0 ? below / Dilation::rows : -1;
}

// What is known of a window: its sum; or the largest of its elements, and which place that is.
struct Pooled {
    acc value;
    int place;
};
// With places that come before: of equals, or of NaNs, the first stays.
__device__ __forceinline__ Pooled pooled(Pooled window, Pooled before) {
    if constexpr (!largest) return {window.value + before.value, 0};
    const bool wins = before.value >= window.value || before.value != before.value;
    return {wins ? before.value : window.value, wins ? before.place : window.place};
}

// Written out row by row as templates, as not every compiler unrolls loops this long.
struct Tile {
    T held[down][across];
    Pooled result[rows][items];

    template <int n = 0>
    __device__ __forceinline__ void load(const T* x, index plane, index top, index height, index left, index width) {
        const T outside = cast<T>(largest ? -limits<acc>::infinity() : acc(0));
        load_segment<across, pack, (pack - Padding::columns % pack) % pack, !full>(
            held[n], x, plane * height * width, top + covered(n), height, left, width, outside);
        if constexpr (n + 1 < down) load<n + 1>(x, plane, top, height, left, width);
    }
    // From the last row up.
    template <int n = down - 1>
    __device__ __forceinline__ void pool_rows() {
#pragma unroll
        for (int item = 0; item < items; ++item) {
            const T* const row = held[n] + item * Stride::columns;
            Pooled one = {cast<acc>(row[Reach::columns]), Kernel::columns - 1};
#pragma unroll
            for (int b = Kernel::columns - 2; b >= 0; --b) one = pooled(one, {cast<acc>(row[b * Dilation::columns]), b});
            pool_down<n>(item, one);
        }
        if constexpr (n > 0) pool_rows<n - 1>();
    }
    template <int n, int out = 0>
    __device__ __forceinline__ void pool_down(int item, Pooled one) {
        constexpr int a = row_of_window(covered(n), out);
        const Pooled part = {one.value, one.place + a * Kernel::columns};
        if constexpr (a >= 0) result[out][item] = a == Kernel::rows - 1 ? part : pooled(result[out][item], part);
        if constexpr (out + 1 < rows) pool_down<n, out + 1>(item, one);
    }
};

// The first place of the window at (top, left) that lies inside the plane: the winner where all are -inf.
__device__ __forceinline__ int first_place(index top, index left, index height, index width) {
    const index a = top < 0 ? divide_up(-top, index(Dilation::rows)) : index(0);
    const index b = left < 0 ? divide_up(-left, index(Dilation::columns)) : index(0);
    const bool exists = a < Kernel::rows && top + a * Dilation::rows < height && b < Kernel::columns &&
                        left + b * Dilation::columns < width;
    return exists ? int(a * Kernel::columns + b) : no_winner;
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* x, T* y, << "Place* winners," if keep >>
    index planes, index height, index width, index out_height, index out_width)
{
    const size groups = divide_up(out_width, index(items)), bands = divide_up(out_height, index(rows));
    const size thread = size(blockIdx.x) * block + size(threadIdx.x);
    if (thread >= size(planes) * bands * groups) return;
    const size band = thread / groups;
    const index plane = band / bands, first_row = (band - plane * bands) * rows;
    const index first_out = (thread - band * groups) * items;
    const index top = first_row * Stride::rows - Padding::rows, left = first_out * Stride::columns - Padding::columns;

    Tile tile;
    tile.load(x, plane, top, height, left, width);
    tile.pool_rows();
#pragma unroll
    for (int out = 0; out < rows; ++out) {
        if (first_row + out >= out_height) continue;
        const index at = ((plane * out_height + first_row) + out) * out_width + first_out;
        acc value[items];
        int place[items];
#pragma unroll
        for (int item = 0; item < items; ++item) {
            const index above = top + out * Stride::rows, before = left + item * Stride::columns;
            value[item] = tile.result[out][item].value;
            place[item] = tile.result[out][item].place;
            if constexpr (!largest)
                value[item] /= acc(even ? index(Kernel::places) : divisor(above, before, height, width));
            else if constexpr (keep && !full)
                place[item] = value[item] != -limits<acc>::infinity() ? place[item] : first_place(above, before, height, width);
        }
        store_segment<store>(y + at, value, out_width - first_out);
        << "store_segment<store>(winners + at, place, out_width - first_out);" if keep >>
    }
}
