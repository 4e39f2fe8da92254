// D = epilogue(X @ W) for up to 16 rows of X: W is read once, at the speed of memory. X is (rows, k), W (k, columns), both of
// 16-bit floats, multiplied by tensor cores with sums in float, or of float, by one multiply-add for each product. The epilogue
// is an elementwise expression of the sum and of operands that broadcast to D. A factor is contiguous along one of its two
// axes, in rows that begin at multiples of 16 bytes.
// Launch: a block makes `columns` columns of D, blockIdx.x numbers them, blockIdx.y the matrices of the batch. Its warps share
// the depth, together with those of blocks along z: worker w of all takes slabs w, w + workers and so on, each slab 128 bytes
// deep. The sums of a block's warps are added in order, those of blocks along z lie behind one another in D.
// Shared, dynamic: for each warp `stages` slabs of both factors, of which all but one are on their way, so that the bytes in
// flight of a multiprocessor cover the memory's latency. A warp brings its slabs itself and waits for no other.
<% include "linear/epilogue.cuh" %>
<% include "prelude/copy_async.cuh" %>
<% include "lib/pack.cuh" %>
<% if elem != "float" %>
<% include "prelude/mma.cuh" %>
<% endif %>
constexpr int rows = << rows >>, columns = << columns >>, warps = << warps >>, stages = << stages >>;
constexpr bool x_by_depth = << "true" if x_by_depth else "false" >>, w_by_depth = << "true" if w_by_depth else "false" >>;
constexpr bool turned = << "true" if turned else "false" >>;  // X is the transpose of b, W that of a, and X @ W that of D
constexpr int chunk = 16 / sizeof(T), depth = 8 * chunk;  // elements of an access, and of a slab along the depth
constexpr int threads = 32 * warps, padded = rows < 8 ? 8 : rows;  // rows of X in shared memory
// Strides of the factors in elements, through the batch and between their contiguous rows; those of D.
struct Sizes {
    index batch_x, batch_w, row_x, row_w, batch_d, row_d, column_d;
    int rows, columns, k;
};

// A slab of a factor: SIZE rows of X or columns of W, in lines that are contiguous in global memory, along the depth if
// BY_DEPTH. In shared memory the chunks of 16 bytes lie by place in their line, then by line; in eight lines they change
// places, so that neither neighbours in a line nor lines of one place meet in the banks.
template <int SIZE, bool BY_DEPTH>
struct Slab {
    static constexpr int chunks = (BY_DEPTH ? depth : SIZE) / chunk, lines = BY_DEPTH ? SIZE : depth;
    static constexpr int size = SIZE * depth;
    T* memory;

    __device__ __forceinline__ T* at(int line, int place) const {
        return memory + (place * lines + line / 8 * 8 + (line % 8 ^ place * (8 / chunks))) * chunk;
    }
    // Four neighbours along the depth, for floats.
    __device__ __forceinline__ Pack<T, 4> four(int place, int from) const {
        if constexpr (BY_DEPTH) {
            return load_pack<4>(at(place, from / 4));
        } else {
            Pack<T, 4> pack;
#pragma unroll
            for (int i = 0; i < 4; ++i) pack.at[i] = at(from + i, place / 4)[place % 4];
            return pack;
        }
    }
};

// Copies slabs of a factor to shared memory by one warp; what lies beyond the matrix is zeros. A lane has the same chunk of
// every `apart`-th line.
template <int SIZE, bool BY_DEPTH>
struct Loader {
    using To = Slab<SIZE, BY_DEPTH>;
    static constexpr int apart = 32 / To::chunks;
    const T* from;
    index step;             // from a line to the next
    int line, place;        // of this lane's first chunk
    int lines, elements;    // how many there are from them on

    __device__ __forceinline__ Loader(const T* matrix, index step, int first, int size, int k) : step(step) {
        line = threadIdx.x % 32 / To::chunks;
        place = threadIdx.x % 32 % To::chunks;
        from = matrix + (BY_DEPTH ? (first + line) * step : (index)first) + place * chunk + (BY_DEPTH ? 0 : line * step);
        lines = (BY_DEPTH ? size - first : k) - line;
        elements = (BY_DEPTH ? k : size - first) - place * chunk;
    }
    __device__ __forceinline__ void load(To slab, int number) const {
        const int before = number * depth;
        const T* const first = from + (BY_DEPTH ? (index)before : before * step);
        const int left = BY_DEPTH ? lines : lines - before;
        const int bytes = minimum(maximum(BY_DEPTH ? elements - before : elements, 0), chunk) * int(sizeof(T));
#pragma unroll
        for (int i = 0; i < To::lines / apart; ++i)
            copy_async_or_zeros(slab.at(line + i * apart, place), first + i * apart * step, i * apart < left ? bytes : 0);
    }
};
using SlabX = Slab<padded, x_by_depth>;
using SlabW = Slab<columns, w_by_depth>;
constexpr int stage_size = SlabX::size + SlabW::size;

<% if elem != "float" %>
constexpr int parts = warps;
// What a warp sums up, as tensor cores hold it: for each eight columns those of 16 rows.
struct Sums {
    float of[columns / 8][4] = {};

    // The words of eight rows (or columns) from `first` on, from the chunk of depth `part` on: of 32 elements.
    template <int SIZE, bool BY_DEPTH>
    static __device__ __forceinline__ void fragments(unsigned (&to)[4], Slab<SIZE, BY_DEPTH> slab, int first, int part) {
        const int lane = threadIdx.x % 32;
        if constexpr (BY_DEPTH) load_matrices(to, slab.at(first + lane % 8, part + lane / 8));
        else load_matrices_transposed(to, slab.at(part * chunk + lane, first / chunk));
    }
    __device__ __forceinline__ void add(SlabX x, SlabW w) {
#pragma unroll
        for (int part = 0; part < 8; part += 4) {
            unsigned low[4], high[4] = {}, own[4];
            fragments(low, x, 0, part);
            if constexpr (rows > 8) fragments(high, x, 8, part);
#pragma unroll
            for (int j = 0; j < columns / 8; ++j) {
                fragments(own, w, 8 * j, part);
#pragma unroll
                for (int i = 0; i < 4; i += 2) {
                    const unsigned left[4] = {low[i], high[i], low[i + 1], high[i + 1]}, right[2] = {own[i], own[i + 1]};
                    mma<T>(of[j], left, right);
                }
            }
        }
    }
    __device__ __forceinline__ void store(float (*to)[rows][columns]) const {
        const int lane = threadIdx.x % 32;
#pragma unroll
        for (int i = 0; i < columns / 2; ++i) {
            const int row = lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
            if (row < rows) to[threadIdx.x / 32][row][column] = of[i / 4][i % 4];
        }
    }
};
<% else %>
constexpr int shared_by = 32 / columns, parts = warps * shared_by;  // lanes that share a column
// What a lane sums up: its column in each row.
struct Sums {
    float of[rows] = {};

    __device__ __forceinline__ void add(SlabX x, SlabW w) {
        const int column = threadIdx.x % columns, share = threadIdx.x % 32 / columns;
#pragma unroll
        for (int from = 0; from < depth; from += 4 * shared_by) {
            const Pack<T, 4> own = w.four(column, from + 4 * share);
#pragma unroll
            for (int row = 0; row < rows; ++row) {
                const Pack<T, 4> given = x.four(row, from + 4 * share);
#pragma unroll
                for (int i = 0; i < 4; ++i) of[row] = fmaf(given.at[i], own.at[i], of[row]);
            }
        }
    }
    __device__ __forceinline__ void store(float (*to)[rows][columns]) const {
#pragma unroll
        for (int row = 0; row < rows; ++row) to[threadIdx.x / columns][row][threadIdx.x % columns] = of[row];
    }
};
<% endif %>

extern "C" __global__ void __launch_bounds__(threads) << name >>(
    const T* a, const T* b, <% for x in operands %>const << x.type >>* x<< x.k >>, <% endfor %>
    <% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %>Out* d, Sizes sizes, Steps steps)
{
    const Epilogue epilogue{<% for x in operands %>x<< x.k >>, <% endfor %><% for x in scalars %>s<< loop.index0 >>, <% endfor %>steps};
    extern __shared__ __align__(128) unsigned char shared[];
    const int batch = blockIdx.y, first = blockIdx.x * columns, warp = threadIdx.x / 32;
    const int worker = blockIdx.z * warps + warp, workers = gridDim.z * warps;
    const T *const x = turned ? b : a, *const w = turned ? a : b;
    T* const ring = (T*)shared + warp * stages * stage_size;
    const Loader<padded, x_by_depth> of_x(x + batch * sizes.batch_x, sizes.row_x, 0, sizes.rows, sizes.k);
    const Loader<columns, w_by_depth> of_w(w + batch * sizes.batch_w, sizes.row_w, first, sizes.columns, sizes.k);
    const int slabs = divide_up(sizes.k, depth);
    const auto load = [&](int i) {
        T* const stage = ring + i % stages * stage_size;
        const int number = worker + i * workers;
        if (number < slabs) of_w.load(SlabW{stage + SlabX::size}, number), of_x.load(SlabX{stage}, number);
        commit_copies();
    };
    for (int i = 0; i < stages - 1; ++i) load(i);
    Sums sums;
    for (int i = 0; worker + i * workers < slabs; ++i) {
        wait_copies<stages - 2>();
        __syncwarp();  // all lanes' chunks have come, and the slab before has been multiplied
        load(i + stages - 1);
        T* const stage = ring + i % stages * stage_size;
        sums.add(SlabX{stage}, SlabW{stage + SlabX::size});
    }

    wait_copies<0>();
    __syncthreads();
    float(*const of)[rows][columns] = (float(*)[rows][columns])shared;
    static_assert(parts * rows * columns * sizeof(float) <= warps * stages * stage_size * sizeof(T), "room for all sums");
    sums.store(of);
    __syncthreads();
    d += (index)(blockIdx.z * gridDim.y + batch) * sizes.batch_d;
    for (int i = threadIdx.x; i < rows * columns; i += threads) {
        const int row = i / columns, column = first + i % columns;
        if (row >= sizes.rows || column >= sizes.columns) continue;
        const Operands operands = turned ? epilogue.load(batch, column, row) : epilogue.load(batch, row, column);
        float sum = 0;
#pragma unroll
        for (int part = 0; part < parts; ++part) sum += of[part][row][i % columns];
        d[row * sizes.row_d + column * sizes.column_d] = epilogue(sum, operands);
    }
}
