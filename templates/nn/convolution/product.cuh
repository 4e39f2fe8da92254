// What the kernels on tensor cores share: copies of k-blocks of a convolution's factors to shared memory, 16 bytes at a time. In all
// arrays channels lie innermost, in multiples of 16 bytes.
<% include "linear/tile.cuh" %>
<% include "prelude/copy_async.cuh" %>
<% include "nn/convolution/geometry.cuh" %>
constexpr bool of_weights = << of_weights | lower >>;
constexpr bool flat = << flat | lower >>;  // the first axis has size 1, without padding

struct Sizes : Geometry {
    __device__ __forceinline__ index row(int of_d) const {
        return of_weights ? (index)of_d * n : pixel_of_output(*this, of_d, m).offset;
    }
};
// Where a place of the window and of the grid meet in the image: an offset that is read only if `inside`.
__device__ __forceinline__ bool inside(const Sizes& g, const Line& a, const Line& b) {
    return (flat || unsigned(a.z + b.z) < unsigned(g.size[0])) && unsigned(a.y + b.y) < unsigned(g.size[1]) &&
           unsigned(a.x + b.x) < unsigned(g.size[2]);
}

<% if of_weights %>
// K-blocks of pixels: of the output (m, its filters) and of the image (n, taps and channels). A thread has the same filters and the
// same tap and channels of every pixel that it copies. The pixels' offsets are in tables, of which one is filled for each k-block while
// those before it are copied.
struct KBlocks {
    static constexpr int chunks_a = tile_m / chunk, chunks_b = tile_n / chunk;
    static constexpr int apart_a = threads / chunks_a, apart_b = threads / chunks_b;
    static_assert(apart_a % 8 == 0 && apart_b % 8 == 0 && depth % apart_a == 0 && depth % apart_b == 0, "lines are shared evenly");
    static_assert(2 * depth <= threads, "a thread finds one place of a table");
    struct Table {
        Line image[depth];
        index output[depth];  // -1 beyond the last pixel
    };
    const Sizes& g;
    const T *output, *image;
    Table* tables;
    Line tap;
    bool filters;
    int from, end, k_blocks;

    __device__ __forceinline__ KBlocks(
        const Sizes& g, const T* a, const T* b, int group, int m0, int n0, int from, int end, Table (&tables)[stages])
        : g(g), output(a + group * g.output.group + g.output_first), image(b + group * g.image.group), tables(tables), from(from),
          end(end), k_blocks(divide_up(end - from, depth))
    {
        const int own = m0 + int(threadIdx.x) % chunks_a * chunk;
        output += own;
        filters = own < g.m;
        tap = tap_of_image(g, n0 + int(threadIdx.x) % chunks_b * chunk, g.n);
        for (int i = threadIdx.x; i < 2 * stages * depth; i += threads) note(i / depth / 2, i % (2 * depth));
        __syncthreads();
    }
    // Half of the threads that make a table find places in the image, the others in the output.
    __device__ __forceinline__ void note(int of_k_block, int i) {
        const int place = i % depth, pixel = from + of_k_block * depth + place;
        Table& to = tables[of_k_block % stages];
        if (i < depth) to.image[place] = pixel_of_image(g, pixel, end);
        else to.output[place] = pixel < end ? pixel_of_output(g, pixel, end).offset : index(-1);
    }
    // Loads k-block i, if there is one; the copies are a group in any case.
    __device__ __forceinline__ void load(int i, T* stage) {
        if (i < k_blocks) copy(i, stage);
        commit_copies();
    }
    __device__ __forceinline__ void copy(int k_block, T* stage) {
        const Table& table = tables[k_block % stages];
        {
            const int row = threadIdx.x / chunks_a;
            T* const to = KBlockA{stage}.at(row, threadIdx.x % chunks_a);
#pragma unroll
            for (int j = 0; j < depth / apart_a; ++j) {
                const index offset = table.output[row + j * apart_a];
                const bool is = filters && offset >= 0;
                copy_async_or_zeros(to + j * apart_a * line, output + (is ? offset : index(0)), is ? 16 : 0);
            }
        }
        const int row = threadIdx.x / chunks_b;
        T* const to = KBlockB{stage + tile_m * depth}.at(row, threadIdx.x % chunks_b);
#pragma unroll
        for (int j = 0; j < depth / apart_b; ++j) {
            const Line one = table.image[row + j * apart_b];
            const bool is = inside(g, one, tap);
            copy_async_or_zeros(to + j * apart_b * line, image + (is ? one.offset + tap.offset : index(0)), is ? 16 : 0);
        }
        if (k_block + 1 >= stages && threadIdx.x < 2 * depth) note(k_block + 1, threadIdx.x);
    }
};
<% else %>
// K-blocks of taps and channels: of the image (m, its pixels) and of the weights (n, filters). A thread has the same tap and
// channels of some pixels and filters.
struct KBlocks {
    static constexpr int chunks = depth / chunk, apart = threads / chunks;
    struct Table {};  // none is needed
    static_assert(apart % 8 == 0 && tile_m % apart == 0 && tile_n % apart == 0, "lines are shared evenly");
    const Sizes& g;
    const T *image, *weights;
    Line pixels[tile_m / apart];
    int filter, place, end, k_blocks;

    __device__ __forceinline__ KBlocks(
        const Sizes& g, const T* a, const T* b, int group, int m0, int n0, int from, int end, Table (&)[stages])
        : g(g), image(a + group * g.image.group), weights(b + group * g.weight_group + g.weight_first),
          filter(n0 + threadIdx.x / chunks), place(from + threadIdx.x % chunks * chunk), end(end),
          k_blocks(divide_up(end - from, depth))
    {
#pragma unroll
        for (int j = 0; j < tile_m / apart; ++j)
            pixels[j] = pixel_of_image(g, m0 + int(threadIdx.x) / chunks + j * apart, g.m);
        weights += filter * g.weight_filter;
    }
    // Loads the next k-block, number i, if there is one; the copies are a group in any case.
    __device__ __forceinline__ void load(int i, T* stage) {
        if (i < k_blocks) copy(stage);
        commit_copies();
    }
    __device__ __forceinline__ void copy(T* stage) {
        const Line of_image = tap_of_image(g, place, end), of_filter = tap_of_weights(g, place, end);
        T* const to = KBlockA{stage}.at(threadIdx.x / chunks, threadIdx.x % chunks);
#pragma unroll
        for (int j = 0; j < tile_m / apart; ++j) {
            const bool is = inside(g, pixels[j], of_image);
            copy_async_or_zeros(to + j * apart * line, image + (is ? pixels[j].offset + of_image.offset : index(0)), is ? 16 : 0);
        }
        T* const to_b = KBlockB{stage + tile_m * depth}.at(threadIdx.x / chunks, threadIdx.x % chunks);
#pragma unroll
        for (int j = 0; j < tile_n / apart; ++j) {
            const bool is = place < end && filter + j * apart < g.n;
            copy_async_or_zeros(to_b + j * apart * line, weights + (is ? j * apart * g.weight_filter + of_filter.offset : index(0)), is ? 16 : 0);
        }
        place += depth;
    }
};
<% endif %>
