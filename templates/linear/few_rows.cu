// Skinny GEMM: D = epilogue(X @ W) for up to 16 rows of X, bound by reading W once. X is (rows, k), W (k, columns), both of
// 16-bit floats, multiplied by tensor cores with sums in float, or of float, by one multiply-add for each product. The epilogue
// is an elementwise expression of the sum and of operands that broadcast to D. A factor is contiguous along one of its two
// axes, in rows that begin at multiples of 16 bytes.
// Launch: a block computes `columns` columns of D, blockIdx.x numbers them, blockIdx.y the matrices of the batch. Its warps split
// the depth: warp w takes k-blocks w, w + warps and so on. Their partial sums are added in order. So that not all blocks read the
// same part of X at a time, each group begins at another k-block, and wraps around.
// Registers: W is loaded straight to the registers of the lane that multiplies it. A sum may take its terms in any order, and
// columns of W may have any position in an instruction of the tensor cores: so a lane multiplies what it loads, without shared
// memory. Many warps with `ahead` k-blocks in flight each hide the latency of memory.
// Clusters of `cluster` blocks, if there are any: each multicasts a part of X, whose rows are contiguous along full k-blocks, to
// the shared memory of all (sm_90 and up), because reading X from the L2 for every block takes as long as half of W.
<% include "linear/epilogue.cuh" %>
<% include "lib/pack.cuh" %>
<% include "prelude/streaming.cuh" %>
<% include "prelude/overlap.cuh" %>
<% if elem != "float" %>
<% include "prelude/mma.cuh" %>
<% endif %>
<% if cluster > 1 %>
<% include "prelude/bulk_copy.cuh" %>
<% include "prelude/cluster.cuh" %>
<% endif %>
constexpr int rows = << rows >>, columns = << columns >>, warps = << warps >>, ahead = << ahead >>;
constexpr int asked = << asked >>;  // bytes of W that a block prefetches while earlier kernels end
constexpr int group = << group >>, groups = << groups >>;  // blocks that begin at one k-block, and k-blocks where groups begin
constexpr bool x_by_depth = << "true" if x_by_depth else "false" >>, w_by_depth = << "true" if w_by_depth else "false" >>;
constexpr bool transposed = << "true" if transposed else "false" >>;  // X is the transpose of b, W that of a, and X @ W that of D
constexpr int threads = 32 * warps;
constexpr int chunk = 16 / sizeof(T), depth = 4 * chunk;  // of a lane and of a k-block, along the depth
constexpr int own = columns / 8;                          // columns of a lane
constexpr int pitch = columns + 4;                        // of rows of sums in shared memory: lanes do not meet in the banks
using Bits = << "unsigned" if elem == "float" else "unsigned short" >>;  // of an element
// Strides of the factors in elements, through the batch and between their contiguous rows; those of D.
<< Sizes >>

// The words of N neighbouring elements, of which the first `present` are in memory, `apart` elements from each other; the
// others are zeros. WHOLE: all are there. ONCE: no other thread reads them.
template <int N, bool WHOLE, bool ONCE>
__device__ __forceinline__ Words<N * sizeof(T)> load_present(const T* from, int present, index apart = 1) {
    using Loaded = Words<N * sizeof(T)>;
    if (apart == 1 && (WHOLE || present >= N)) return ONCE ? load_streaming((const Loaded*)from) : *(const Loaded*)from;
    Loaded words = {};
#pragma unroll
    for (int i = 0; i < N; ++i)
        if (WHOLE || i < present) words.at[i * sizeof(T) / 4] |= shl((unsigned)*(const Bits*)(from + i * apart), int(i * sizeof(T) % 4 * 8));
    return words;
}

// The factors as a lane sees them. Lane 4 * g + q has elements q * chunk to (q + 1) * chunk of a k-block's depth: of W in `own`
// columns, of X in the rows asked for. In place of a row or column that is not there it reads the last, whose sums nobody stores.
<% if cluster > 1 %>
__device__ __forceinline__ char* shared_of_block() {
    extern __shared__ __align__(16) char shared[];
    return shared;
}
__device__ __forceinline__ MBarrier* barriers_of_block() {
    __shared__ MBarrier come[<< pieces >>];
    return come;
}
<% endif %>
struct Factors {
    const T *x, *w;
    Sizes sizes;
    int first, k_blocks, start;
<% if cluster > 1 %>
    char* shared = shared_of_block();      // X: pieces of a k-block for each warp, of which rows lie half a round of the banks apart
    MBarrier* come = barriers_of_block();  // of each piece
<% endif %>

    // Column c of this lane's, in the block.
    static __device__ __forceinline__ int column_of(int c) {
        const int g = threadIdx.x % 32 / 4;
        return w_by_depth ? 8 * c + g : own * g + c;
    }
    // Where this lane's part of the block's k-block of that number begins along the depth.
    __device__ __forceinline__ int begin(int k_block) const {
        const int wrapped = k_block + start < k_blocks ? k_block + start : k_block + start - k_blocks;
        return wrapped * depth + threadIdx.x % 4 * chunk;
    }
    __device__ __forceinline__ int present(int k_block) const { return k_block < k_blocks ? sizes.k - begin(k_block) : 0; }

    // Prefetches what the block reads first: of the depth of its columns of W, or, where rows of W are contiguous, its share of
    // the rows that its group reads first.
    __device__ __forceinline__ void ask() const {
        if (w_by_depth) {
            const int own = threadIdx.x, bytes = minimum(sizes.k * int(sizeof(T)), asked / columns);
            const int from = minimum(start * depth, sizes.k - bytes / int(sizeof(T)));
            if (own < columns && first + own < sizes.columns) ask_ahead(w + (first + own) * sizes.row_w + from, bytes);
        } else {
            const int blocks = groups > 1 ? group : gridDim.x, width = blocks * columns * int(sizeof(T));
            const int piece = minimum(2048, width), of_row = divide_up(width, piece), share = asked / piece;
            for (int i = threadIdx.x; i < share; i += threads) {
                const int number = blockIdx.x % blocks * share + i, row = number / of_row;
                const int begin = blockIdx.x / blocks * width + number % of_row * piece;
                const int end = minimum(sizes.columns * int(sizeof(T)), begin + piece);
                const int wrapped_row = row + start * depth;
                if (row < sizes.k && begin < end) ask_ahead((const char*)(w + (wrapped_row < sizes.k ? wrapped_row : wrapped_row - sizes.k) * sizes.row_w) + begin, end - begin);
            }
        }
    }
    template <bool WHOLE>
    __device__ __forceinline__ Words<16> of_x(int row, int k_block) const {
        row = minimum(row, sizes.rows - 1);
        const index at = x_by_depth ? row * sizes.row_x + begin(k_block) : begin(k_block) * sizes.row_x + row;
        return load_present<chunk, WHOLE, false>(x + at, present(k_block), x_by_depth ? 1 : sizes.row_x);
    }
<% if cluster > 1 %>
    static constexpr int pieces = << pieces >>, piece = warps * depth, bytes = piece * sizeof(T), apart = bytes + 64;

    // By one thread, before a block of the cluster copies.
    __device__ __forceinline__ void expect_x() const {
        for (int i = 0; i < pieces; ++i) mbarrier_init(come + i, 1);
        fence_mbarrier_init();
        for (int i = 0; i < pieces; ++i) mbarrier_arrive_expecting(come + i, sizes.rows * bytes);
    }
    // The first lanes of warps multicast the block's part of X to the cluster, in the order of multiplication.
    __device__ __forceinline__ void load_x() const {
        if (threadIdx.x % 32) return;
        for (int row = threadIdx.x / 32; row < sizes.rows; row += warps)
            for (int i = cluster_rank(); i < pieces; i += << cluster >>)
                copy_bulk_multicast(shared + (i * rows + row) * apart, x + row * sizes.row_x + i * piece, bytes, come + i,
                                    << 2 ** cluster - 1 >>);
    }
    __device__ __forceinline__ Words<16> of_shared_x(int row, int k_block) const {
        row = minimum(row, sizes.rows - 1);
        return *(const Words<16>*)(shared + (k_block / warps * rows + row) * apart + k_block % warps * 64 + threadIdx.x % 4 * 16);
    }
<% endif %>
    // Before other blocks of the cluster copy into the memory of this one.
    __device__ __forceinline__ void expect() const {
<% if cluster > 1 %>
        if (threadIdx.x == 0) expect_x();
        cluster_arrive_relaxed();  // the fence has released the barriers
        cluster_wait();
<% endif %>
    }
};
// A lane's elements of W in a k-block: packs along the depth, one a column, or packs along the columns, one per step of the depth.
struct OfW {
    static constexpr int size = w_by_depth ? chunk : own;
    Words<size * sizeof(T)> pack[w_by_depth ? own : chunk];

    template <bool WHOLE>
    __device__ __forceinline__ void load(const Factors& of, int k_block) {
        const int from = of.begin(k_block), left = of.present(k_block), last = of.sizes.columns - 1;
        if (w_by_depth) {
#pragma unroll
            for (int c = 0; c < own; ++c)
                pack[c] = load_present<size, WHOLE, true>(of.w + minimum(of.first + Factors::column_of(c), last) * of.sizes.row_w + from, left);
        } else {
            const int column = minimum(of.first + Factors::column_of(0), last / own * own);
#pragma unroll
            for (int i = 0; i < chunk; ++i)
                pack[i] = load_present<size, WHOLE, true>(of.w + (from + i) * of.sizes.row_w + column, i < left ? last + 1 - column : 0);
        }
    }
    // Element i of column c, of 32 bits; or elements i and i + 1, of 16.
    __device__ __forceinline__ float at(int c, int i) const {
        return __uint_as_float(w_by_depth ? pack[c].at[i] : pack[i].at[c]);
    }
    __device__ __forceinline__ unsigned two(int c, int i) const {
        if (w_by_depth) return pack[c].at[i / 2];
        return __byte_perm(pack[i].at[c / 2], pack[i + 1].at[c / 2], c % 2 ? 0x7632 : 0x5410);
    }
};

<% if elem != "float" %>
constexpr int eights = rows / 8;
// A lane's elements of both factors in a k-block, or of W alone.
struct KBlock {
    OfW w;
<% if cluster > 1 %>

    template <bool WHOLE>
    __device__ __forceinline__ void load(const Factors& of, int k_block) {
        w.load<WHOLE>(of, k_block);
    }
<% else %>
    Words<16> x[eights];

    template <bool WHOLE>
    __device__ __forceinline__ void load(const Factors& of, int k_block) {
#pragma unroll
        for (int e = 0; e < eights; ++e) x[e] = of.of_x<WHOLE>(8 * e + threadIdx.x % 32 / 4, k_block);
        w.load<WHOLE>(of, k_block);
    }
<% endif %>
};
// A warp's sums, W's columns as rows of the tensor cores' A: those of two columns a lane, for each eight rows of X.
struct Sums {
    float of[own / 2][eights][4] = {};

    template <bool WHOLE>
    __device__ __forceinline__ void add(const KBlock& k_block, const Factors&<< " factors, int number" if cluster > 1 else ", int" >>) {
<% if cluster > 1 %>
        mbarrier_wait(factors.come + number / warps, 0);
        Words<16> x[eights];
#pragma unroll
        for (int e = 0; e < eights; ++e) x[e] = factors.of_shared_x(8 * e + threadIdx.x % 32 / 4, number);
<% else %>
        const Words<16>(&x)[eights] = k_block.x;
<% endif %>
#pragma unroll
        for (int i = 0; i < chunk; i += 4)
#pragma unroll
            for (int c = 0; c < own; c += 2) {
                const unsigned a[4] = {k_block.w.two(c, i), k_block.w.two(c + 1, i), k_block.w.two(c, i + 2), k_block.w.two(c + 1, i + 2)};
#pragma unroll
                for (int e = 0; e < eights; ++e) {
                    const unsigned b[2] = {x[e].at[i / 2], x[e].at[i / 2 + 1]};
                    mma<T>(of[c / 2][e], a, b);
                }
            }
    }
    __device__ __forceinline__ void store(float (*to)[pitch]) {
#pragma unroll
        for (int i = 0; i < own * eights * 2; ++i) {
            const int c = i / 4 / eights * 2 + i / 2 % 2, row = i / 4 % eights * 8 + threadIdx.x % 4 * 2 + i % 2;
            to[row][Factors::column_of(c)] = of[c / 2][row / 8][i % 4];
        }
    }
};
<% else %>
struct KBlock {
    OfW w;

    template <bool WHOLE>
    __device__ __forceinline__ void load(const Factors& of, int k_block) {
        w.load<WHOLE>(of, k_block);
    }
};
// A lane's partial sums: its columns in each row of X, over its part of the depth.
struct Sums {
    float of[rows][own] = {};

    template <bool WHOLE>
    __device__ __forceinline__ void add(const KBlock& k_block, const Factors& factors, int number) {
#pragma unroll
        for (int row = 0; row < rows; ++row) {
            const Words<16> x = factors.of_x<WHOLE>(row, number);
#pragma unroll
            for (int i = 0; i < chunk; ++i)
#pragma unroll
                for (int c = 0; c < own; ++c) of[row][c] = fmaf(__uint_as_float(x.at[i]), k_block.w.at(c, i), of[row][c]);
        }
    }
    __device__ __forceinline__ void store(float (*to)[pitch]) {
#pragma unroll
        for (int row = 0; row < rows; ++row)
#pragma unroll
            for (int c = 0; c < own; ++c) {
                float sum = of[row][c] + __shfl_xor_sync(0xffffffff, of[row][c], 1);
                sum += __shfl_xor_sync(0xffffffff, sum, 2);
                if (threadIdx.x % 4 == 0) to[row][Factors::column_of(c)] = sum;
            }
    }
};
<% endif %>

// Adds up a warp's k-blocks. WHOLE: each k-block and the block's columns are there to their ends; then `ahead` are in flight.
template <bool WHOLE>
__device__ __forceinline__ void add_k_blocks(Sums& sums, const Factors& factors, int warp) {
<% if cluster > 1 %>
    constexpr int held = ahead < Factors::pieces ? ahead : Factors::pieces;  // a warp has a k-block of each piece
    KBlock k_block[held];
#pragma unroll
    for (int u = 0; u < held; ++u) k_block[u].template load<WHOLE>(factors, warp + u * warps);
    factors.load_x();
#pragma unroll
    for (int u = 0; u < Factors::pieces; ++u) {
        sums.add<WHOLE>(k_block[u % held], factors, warp + u * warps);
        if (u + held < Factors::pieces) k_block[u % held].template load<WHOLE>(factors, warp + (u + held) * warps);
    }
<% else %>
    constexpr int held = WHOLE ? ahead : 1;
    KBlock k_block[held];
#pragma unroll
    for (int u = 0; u < held; ++u)
        if (warp + u * warps < factors.k_blocks) k_block[u].template load<WHOLE>(factors, warp + u * warps);
    for (int first = warp; first < factors.k_blocks; first += held * warps)
#pragma unroll
        for (int u = 0; u < held; ++u) {
            const int number = first + u * warps, next = number + held * warps;
            if (number < factors.k_blocks) sums.add<WHOLE>(k_block[u], factors, number);
            if (next < factors.k_blocks) k_block[u].template load<WHOLE>(factors, next);
        }
<% endif %>
}

extern "C" __global__ void << "__cluster_dims__(%d, 1, 1) " % cluster if cluster > 1 >>__launch_bounds__(threads, << resident >>) << name >>(
    const T* a, const T* b, <% for x in operands %>const << x.type >>* x<< x.k >>, <% endfor %>
    <% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %>Out* d, Sizes sizes, Steps steps)
{
    const Epilogue epilogue{<% for x in operands %>x<< x.k >>, <% endfor %><% for x in scalars %>s<< loop.index0 >>, <% endfor %>steps};
    __shared__ float of_warps[warps][rows][pitch];
    const int batch = blockIdx.y, first = blockIdx.x * columns, warp = threadIdx.x / 32;
    const T *const x = transposed ? b : a, *const w = transposed ? a : b;
    const int k_blocks = divide_up(sizes.k, depth), start = groups > 1 ? blockIdx.x / group % groups * k_blocks / groups : 0;
    const Factors factors{x + batch * sizes.batch_x, w + batch * sizes.batch_w, sizes, first, k_blocks, start};
    const auto operands_of = [&](int i) {
        const int row = i / columns, column = first + i % columns;
        if (row >= sizes.rows || column >= sizes.columns) return Operands{};
        return transposed ? epilogue.load(batch, column, row) : epilogue.load(batch, row, column);
    };
    allow_next_kernel();
    if (asked) factors.ask();
    factors.expect();
    wait_for_earlier_kernels();
    const Operands early = operands_of(threadIdx.x);  // loaded with the first k-blocks
    Sums sums;
    if (sizes.k % depth == 0 && first + columns <= sizes.columns) add_k_blocks<true>(sums, factors, warp);
    else add_k_blocks<false>(sums, factors, warp);

    sums.store(of_warps[warp]);
    __syncthreads();
    d += (index)batch * sizes.batch_d;
    for (int i = threadIdx.x; i < rows * columns; i += threads) {
        const int row = i / columns, column = first + i % columns;
        if (row >= sizes.rows || column >= sizes.columns) continue;
        const Operands operands = i < threads ? early : operands_of(i);
        float sum = 0;
#pragma unroll
        for (int part = 0; part < warps; ++part) sum += of_warps[part][row][i % columns];
        d[row * sizes.row_d + column * sizes.column_d] = epilogue(sum, operands);
    }
}
