// Implicit GEMM on CUDA cores, for arrays of any strides: a convolution, or the gradient of its weights, as a product of matrices
// of which one is never in memory: output (pixels, filters) = image (pixels, taps and channels) @ weights, with an elementwise expression of each sum
// and of operands, or weights (filters, taps and channels) = output @ image, in sums of parts of the pixels.
// Launch: a thread has << items_m >> by << items_n >> elements of a tile; blockIdx.x numbers tiles and groups, blockIdx.y parts
// of the depth, whose sums lie behind one another.
// Shared, static: two k-blocks of each factor. While one is multiplied, the next is prefetched to registers.
<% include "linear/epilogue.cuh" %>
<% include "lib/pack.cuh" %>
<% include "nn/convolution/geometry.cuh" %>
using acc = << acc >>;
constexpr int threads = << block >>, threads_m = << tile_m // items_m >>, threads_n = << tile_n // items_n >>;
constexpr int tile_m = << tile_m >>, tile_n = << tile_n >>, items_m = << items_m >>, items_n = << items_n >>, depth = << depth >>;
constexpr bool of_weights = << of_weights | lower >>;
// Which of its axes a factor is loaded along, and the product is stored along.
constexpr bool a_by_depth = << a_by_depth | lower >>, b_by_depth = << b_by_depth | lower >>, d_by_column = << d_by_column | lower >>;
constexpr int unroll = threads > 1 ? 64 : 1;
constexpr int width = 16 / sizeof(acc);  // elements of an access to shared memory
static_assert(tile_m * depth % threads == 0 && tile_n * depth % threads == 0 && threads == threads_m * threads_n && items_m % width == 0 && items_n % width == 0, "a tile is shared evenly");

// The rows or columns of a factor in a tile, and one k-block of them in shared memory or on its way there.
template <int SIZE, bool BY_DEPTH>
struct Side {
    static constexpr int own = SIZE * depth / threads, row = SIZE + (threads > 1 ? width : 0);
    acc got[own];

    // Of the thread's i-th element. Where the threads have whole rows, one of the two numbers is the same for all i.
    static __device__ __forceinline__ int line(int i) { return BY_DEPTH ? quotient(i, depth) : remainder(i, SIZE); }
    static __device__ __forceinline__ int deep(int i) { return BY_DEPTH ? remainder(i, depth) : quotient(i, SIZE); }
    static __device__ __forceinline__ int quotient(int i, unsigned by) {
        return threads % by ? (threadIdx.x + unsigned(i) * threads) / by : threadIdx.x / by + unsigned(i) * (threads / by);
    }
    static __device__ __forceinline__ int remainder(int i, unsigned by) {
        return threads % by ? (threadIdx.x + unsigned(i) * threads) % by : threadIdx.x % by;
    }
    template <bool IMAGE, class Deep>
    __device__ __forceinline__ void fetch(const T* memory, const Line (&lines)[SIZE], const int (&size)[3], Deep deep_of) {
#pragma unroll unroll
        for (int i = 0; i < own; ++i) {
            const Line one = lines[line(i)], other = deep_of(deep(i));
            const int y = one.y + other.y;
            bool inside = y >= 0;
            if constexpr (IMAGE)
                inside = unsigned(one.z + other.z) < unsigned(size[0]) && unsigned(y) < unsigned(size[1]) &&
                         unsigned(one.x + other.x) < unsigned(size[2]);
            got[i] = inside ? cast<acc>(memory[one.offset + other.offset]) : acc(0);
        }
    }
    __device__ __forceinline__ void put(acc (&k_block)[depth][row]) const {
#pragma unroll unroll
        for (int i = 0; i < own; ++i) k_block[deep(i)][line(i)] = got[i];
    }
};
using SideA = Side<tile_m, a_by_depth>;
using SideB = Side<tile_n, b_by_depth>;

// Which row or column a thread's item is.
template <int THREADS>
__device__ __forceinline__ int place_of(int thread, int item) {
    return (item / width * THREADS + thread) * width + item % width;
}
template <int THREADS, int ITEMS>
__device__ __forceinline__ void load_items(acc (&to)[ITEMS], const acc* row, int thread) {
#pragma unroll unroll
    for (int i = 0; i < ITEMS; i += width) {
        const Pack<acc, width> pack = load_pack<width>(row + place_of<THREADS>(thread, i));
#pragma unroll
        for (int v = 0; v < width; ++v) to[i + v] = pack.at[v];
    }
}

extern "C" __global__ void __launch_bounds__(threads) << name >>(
    const T* a, const T* b, <% for x in operands %>const << x.type >>* x<< x.k >>, <% endfor %>
    <% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %>Out* d, Geometry g, Steps steps)
{
    const Epilogue epilogue{<% for x in operands %>x<< x.k >>, <% endfor %><% for x in scalars %>s<< loop.index0 >>, <% endfor %>steps};
    __shared__ __align__(16) acc k_blocks_a[2][depth][SideA::row], k_blocks_b[2][depth][SideB::row];
    __shared__ Line lines_a[tile_m], lines_b[tile_n];
    const int tiles = g.tiles_m * g.tiles_n, group = blockIdx.x / tiles, tile = blockIdx.x - group * tiles;
    const int m0 = tile / g.tiles_n * tile_m, n0 = tile % g.tiles_n * tile_n;
    const int from = blockIdx.y * g.each, end = min(from + g.each, g.k);
    if constexpr (of_weights) {
        a += group * g.output.group + g.output_first;
        b += group * g.image.group;
        d += (index)blockIdx.y * (gridDim.x / tiles) * g.m * g.n + group * g.weight_group;
        for (int i = threadIdx.x; i < tile_m; i += threads) lines_a[i] = filter_of_output(g, m0 + i, g.m);
        for (int i = threadIdx.x; i < tile_n; i += threads) lines_b[i] = tap_of_image(g, n0 + i, g.n);
    } else {
        a += group * g.image.group;
        b += group * g.weight_group + g.weight_first;
        d += group * g.output.group + g.output_first;
        for (int i = threadIdx.x; i < tile_m; i += threads) lines_a[i] = pixel_of_image(g, m0 + i, g.m);
        for (int i = threadIdx.x; i < tile_n; i += threads) lines_b[i] = filter_of_weights(g, n0 + i, g.n);
    }
    << "__syncthreads();" if block > 1 >>

    SideA of_a;
    SideB of_b;
    const auto fetch = [&](int first) {
        of_a.template fetch<!of_weights>(a, lines_a, g.size, [&](int k) {
            return of_weights ? pixel_of_output(g, first + k, end) : tap_of_image(g, first + k, end);
        });
        of_b.template fetch<of_weights>(b, lines_b, g.size, [&](int k) {
            return of_weights ? pixel_of_image(g, first + k, end) : tap_of_weights(g, first + k, end);
        });
    };
    const int thread_m = d_by_column ? threadIdx.x % threads_m : threadIdx.x / threads_n;
    const int thread_n = d_by_column ? threadIdx.x / threads_m : threadIdx.x % threads_n;
    acc sums[items_m][items_n] = {};
    fetch(from);
    int now = 0;
    for (int k = from; k < end; k += depth, now ^= 1) {
        of_a.put(k_blocks_a[now]);
        of_b.put(k_blocks_b[now]);
        << "__syncthreads();" if block > 1 >>
        if (k + depth < end) fetch(k + depth);
#pragma unroll unroll
        for (int i = 0; i < depth; ++i) {
            acc left[items_m], right[items_n];
            load_items<threads_m>(left, k_blocks_a[now][i], thread_m);
            load_items<threads_n>(right, k_blocks_b[now][i], thread_n);
#pragma unroll unroll
            for (int x = 0; x < items_m; ++x)
#pragma unroll unroll
                for (int y = 0; y < items_n; ++y) sums[x][y] += left[x] * right[y];
        }
    }
#pragma unroll unroll
    for (int x = 0; x < items_m; ++x) {
        const int row = m0 + place_of<threads_m>(thread_m, x);
        if (row >= g.m) continue;
        const index at = of_weights ? row * g.weight_filter : pixel_of_output(g, row, g.m).offset;
#pragma unroll unroll
        for (int y = 0; y < items_n; ++y) {
            const int column = n0 + place_of<threads_n>(thread_n, y);
            if (column >= g.n) continue;
            const index to = of_weights ? tap_of_weights(g, column, g.n).offset : column * g.output.channel;
            d[at + to] = epilogue(sums[x][y], epilogue.load(group, row, column));
        }
    }
}
