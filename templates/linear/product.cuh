// What the kernels of D = epilogue(A @ B) share: sizes, the epilogue, and slabs of the factors in shared memory.
<% include "prelude/copy_async.cuh" %>
using T = << elem >>;
using index = << index >>;
constexpr int tile_m = << tile_m >>, tile_n = << tile_n >>, depth = << depth >>, stages = << stages >>, band = << band >>;
constexpr int threads = << block >>;
constexpr int chunk = 16 / sizeof(T), line = 8 * chunk;  // elements of an access, and of eight, which have 128 bytes
constexpr bool pairs = << "true" if pairs else "false" >>;  // rows of D are aligned to two elements
constexpr bool a_by_depth = << "true" if a_by_depth else "false" >>, b_by_depth = << "true" if b_by_depth else "false" >>;
// The shape of the product, and the steps through the batch and between the rows that are contiguous, in elements.
struct Sizes {
    index batch_a, batch_b, row_a, row_b;
    int m, n, k, tiles_m, tiles_n;
};
// The operands beside the sum, with their steps through the batch, the rows and the columns; and the elements of D.
struct Steps {
    index of[<< [operands | length, 1] | max >>][3];
};
struct Epilogue {
<% for x in operands %>
    const << x.type >>* x<< x.k >>;
<% endfor %>
    Steps steps;

    __device__ __forceinline__ index place(int x, int batch, int row, int column) const {
        return batch * steps.of[x][0] + row * steps.of[x][1] + column * steps.of[x][2];
    }
    __device__ __forceinline__ T operator()(float a0, int batch, int row, int column) const {
<% for x in operands %>
        const << x.compute >> a<< x.k >> = cast< << x.compute >> >(x<< x.k >>[place(<< loop.index0 >>, batch, row, column)]);
<% endfor %>
<% for line in body %>
        const << line.type >> << line.name >> = << line.code >>;
<% endfor %>
        return cast<T>(<< value >>);
    }
    // Stores the elements of a row, in columns `column` and `column` + 1, that lie within D.
    __device__ __forceinline__ void store(T* d, const Sizes& sizes, int batch, int row, int column, const float* sums) const {
        if (row >= sizes.m || column >= sizes.n) return;
        T* to = d + (index)row * sizes.n + column;
        const bool both = column + 1 < sizes.n;
        const T made[2] = {(*this)(sums[0], batch, row, column), both ? (*this)(sums[1], batch, row, column + 1) : T(0)};
        if constexpr (pairs) {
            *(unsigned*)to = *(const unsigned*)made;
        } else {
            to[0] = made[0];
            if (both) to[1] = made[1];
        }
    }
};

// A slab of a factor in shared memory: SIZE rows or columns of the product, `depth` deep, contiguous along the depth if
// BY_DEPTH. It lies in blocks of lines of 128 bytes, one below the other, whose eight chunks change places from line to
// line: eight neighbouring lines are read at one place without bank conflicts.
template <int SIZE, bool BY_DEPTH>
struct Slab {
    static constexpr int lines = BY_DEPTH ? SIZE : depth, chunks = (BY_DEPTH ? depth : SIZE) / chunk;
    static constexpr int block = lines * line;
    T* memory;

    __device__ __forceinline__ T* at(int row, int place) const {
        return memory + place / 8 * block + row * line + (place % 8 ^ row % 8) * chunk;
    }
};

// Copies slab after slab of a factor, from depth 0 on, to shared memory; what lies beyond the matrix is zeros. A thread has
// the same chunk of every `apart`-th line.
template <int SIZE, bool BY_DEPTH>
struct Loader {
    using To = Slab<SIZE, BY_DEPTH>;
    static constexpr int apart = threads / To::chunks;
    static_assert(threads % To::chunks == 0 && apart % 8 == 0 && To::lines % apart == 0, "lines are shared evenly");
    const T* from;
    index step;    // from a line to the next
    int row, left;  // of this thread's first line, and how many there are from it on
    int place, elements;  // of its chunk in a line, and how many there are from it on

    __device__ __forceinline__ Loader(const T* matrix, index step, int first, int size, int depth_end) : step(step) {
        row = threadIdx.x / To::chunks;
        place = threadIdx.x % To::chunks;
        from = matrix + (BY_DEPTH ? (first + row) * step + place * chunk : row * step + first + place * chunk);
        left = (BY_DEPTH ? size - first : depth_end) - row;
        elements = (BY_DEPTH ? depth_end : size - first) - place * chunk;
    }
    __device__ __forceinline__ void next(T* slab) {
        T* const to = To{slab}.at(row, place);
        const int bytes = minimum(maximum(elements, 0), chunk) * int(sizeof(T));
#pragma unroll
        for (int j = 0; j < To::lines / apart; ++j)
            copy_async_or_zeros(to + j * apart * line, from + j * apart * step, j * apart < left ? bytes : 0);
        from += BY_DEPTH ? depth : depth * step;
        (BY_DEPTH ? elements : left) -= depth;
    }
};
using SlabA = Slab<tile_m, a_by_depth>;
using SlabB = Slab<tile_n, b_by_depth>;
using LoaderA = Loader<tile_m, a_by_depth>;
using LoaderB = Loader<tile_n, b_by_depth>;
constexpr int stage_size = (tile_m + tile_n) * depth;

// The tile of a block. Tiles are made in bands of rows of them, so that blocks that run at a time share factors in the L2.
struct Place {
    int batch, m0, n0;

    __device__ __forceinline__ explicit Place(const Sizes& sizes) : batch(blockIdx.y) {
        const int in_band = band * sizes.tiles_n, first = int(blockIdx.x) / in_band * band;
        const int rows = min(band, sizes.tiles_m - first), place = int(blockIdx.x) % in_band;
        m0 = (first + place % rows) * tile_m;
        n0 = place / rows * tile_n;
    }
};
