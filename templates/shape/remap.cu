// y[i, j, ...] = x[i - before[0], j - before[1], ...]; where a place is outside of x, y has by `beyond`
//   constant: `low` in front of x and `high` behind it;  edge: the element of x that is nearest;
//   wrap, reflect, symmetric: x as a circle, mirrored at its ends, mirrored behind its ends.
// y in C order, x of any strides; elements are moved as T of their size, whatever they hold. The axes are `rows` (the outer
// ones together) by columns. Launch: `lanes` threads share a row; such a group owns `rows_piece` rows and `piece` columns of
// each. Groups of columns lie along blockIdx.y, or along blockIdx.x where there is one row. No shared memory.
using T = << elem >>;
using index = << index >>;
enum Beyond { constant, edge, wrap, reflect, symmetric };
constexpr Beyond beyond = << beyond >>;
constexpr int block = << block >>, lanes = << lanes >>, outer = << outer >>;
constexpr bool unit = << unit | lower >>, alike = beyond == constant || beyond == edge;

// For each axis of y its size, the size of x, the places of y before it, and the step of x in elements, 1 in a row if `unit`.
<< Layout >>

// The place in an axis of n places that stands for p.
__device__ __forceinline__ index inside(index p, index n) {
    if (p >= 0 && p < n) return p;
    if (beyond == edge) return p < 0 ? index(0) : n - 1;
    if (beyond == reflect && n == 1) return index(0);
    const index period = beyond == wrap ? n : beyond == reflect ? 2 * (n - 1) : 2 * n;
    p %= period;
    if (p < 0) p += period;
    if (beyond == wrap) return p;
    return p < n ? p : beyond == reflect ? period - p : period - 1 - p;
}

// Where a row of y is in x; with constants it may be in front of x (outside < 0) or behind it (outside > 0).
struct Row {
    index offset = 0;
    int outside = 0;

    __device__ __forceinline__ Row(const Layout& layout, index row) {
#pragma unroll
        for (int axis = outer - 1; axis >= 0; --axis) {
            const index p = (axis ? row % layout.shape[axis] : row) - layout.before[axis], size = layout.size[axis];
            if (axis) row /= layout.shape[axis];
            if (beyond == constant && (p < 0 || p >= size)) outside = p < 0 ? -1 : 1;
            offset += (beyond == constant ? p : inside(p, size)) * layout.step[axis];
        }
    }
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const T* __restrict__ x, T* __restrict__ y, T low, T high, Layout layout, index rows, index rows_piece, index piece)
{
    const index group = (index(blockIdx.x) * block + index(threadIdx.x)) / lanes;
    const index lane = index(threadIdx.x) % lanes;
    const index columns = layout.shape[outer], size = layout.size[outer], before = layout.before[outer];
    const index step = unit ? index(1) : layout.step[outer];
    const index start = (outer ? index(blockIdx.y) : group) * piece, end = minimum(columns, start + piece);
    const index first = minimum(end, maximum(start, before)), last = minimum(end, maximum(start, before + size));
    const index end_row = outer ? minimum(rows, (group + 1) * rows_piece) : 1;
    for (index row = outer ? group * rows_piece : 0; row < end_row; ++row) {
        const Row own(layout, row);
        T* to = y + row * columns;
        if (beyond == constant && own.outside) {
            for (index j = start + lane; j < end; j += lanes) to[j] = own.outside < 0 ? low : high;
            continue;
        }
        const T* from = x + own.offset;
        // Once around at most, as a roll is, there is no remainder to take.
        if (beyond == wrap && before <= size && columns - before <= 2 * size) {
            for (index j = start + lane; j < first; j += lanes) to[j] = from[(j - before + size) * step];
            for (index j = first + lane; j < last; j += lanes) to[j] = from[(j - before) * step];
            for (index j = last + lane; j < end; j += lanes) to[j] = from[(j - before - size) * step];
            continue;
        }
        if (beyond == edge) low = from[0], high = from[(size - 1) * step];
        for (index j = start + lane; j < first; j += lanes) to[j] = alike ? low : from[inside(j - before, size) * step];
        for (index j = first + lane; j < last; j += lanes) to[j] = from[(j - before) * step];
        for (index j = last + lane; j < end; j += lanes) to[j] = alike ? high : from[inside(j - before, size) * step];
    }
}
