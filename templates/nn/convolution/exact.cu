// float32 implicit GEMM on CUDA cores, multistage: a convolution, or the gradient of its weights, as nn/convolution/tiles.cu, for
// many channels and filters; factors are not rounded. The next k-blocks are prefetched to shared memory while threads multiply.
// A k-block is `depth` channels of one tap of the pixels and the weights, or `depth` pixels of output and image.
// Memory: of a convolution filters lie innermost in the weights, in multiples of 16 bytes. A factor is copied 16 bytes at a time
// where its axis that is innermost allows it, else one float. Columns of a gradient of weights are units of 64 channels of a tap;
// its result is (groups, filters, taps, channels).
// Launch: a thread has << items_m >> by << items_n >> elements of a tile; blockIdx.x numbers tiles and groups, blockIdx.y parts of
// the depth, whose sums lie behind one another.
// Shared, dynamic: `stages` k-blocks of both factors.
<% include "linear/epilogue.cuh" %>
<% include "lib/pack.cuh" %>
<% include "prelude/copy_async.cuh" %>
<% include "nn/convolution/geometry.cuh" %>
constexpr int threads = << block >>, tile_m = << tile_m >>, tile_n = << tile_n >>, items_m = << items_m >>, items_n = << items_n >>;
constexpr int depth = << depth >>, stages = << stages >>, unit = 64;
constexpr int lanes_m = << lanes_m >>, lanes_n = 32 / lanes_m;  // of a warp
constexpr int warp_m = lanes_m * items_m, warp_n = lanes_n * items_n;
static_assert(tile_m % warp_m == 0 && tile_n % warp_n == 0 && tile_m / warp_m * (tile_n / warp_n) * 32 == threads, "warps share a tile");
constexpr bool of_weights = << of_weights | lower >>;
// Along which axis each factor lies in a k-block, and whether 16 bytes are copied at a time.
constexpr bool a_by_depth = << a_by_depth | lower >>, b_by_depth = << b_by_depth | lower >>;
constexpr bool a_packs = << a_packs | lower >>, b_packs = << b_packs | lower >>;
constexpr bool whole = << whole | lower >>;  // channels are multiples of the depth
constexpr bool rows_packs = << rows_packs | lower >>, columns_packs = << columns_packs | lower >>;  // of the result

// Copies a pack of floats, or as many zeros.
template <bool PACKS>
__device__ __forceinline__ void copy(float* to, const float* from, bool is) {
    if constexpr (PACKS) copy_async_or_zeros(to, from, is ? 16 : 0);
    else copy_float_or_zero(to, from, is);
}

// A k-block of SIZE lines of a factor, in shared memory. A lane has ITEMS lines of those of its warp.
template <int SIZE, bool BY_DEPTH, bool PACKS, int ITEMS, int LANES>
struct KBlock {
    static constexpr int pitch = BY_DEPTH ? depth + 4 : SIZE, size = BY_DEPTH ? SIZE * pitch : depth * pitch;
    // The threads that copy a line of memory, and how far apart the lines of a thread are.
    static constexpr int pack = PACKS ? 4 : 1, across = (BY_DEPTH ? depth : SIZE) / pack, apart = threads / across;
    static constexpr int rounds = (BY_DEPTH ? SIZE : depth) / apart;
    static_assert(threads % across == 0 && (BY_DEPTH ? SIZE : depth) % apart == 0, "lines are shared evenly");

    static __device__ __forceinline__ int place() { return threadIdx.x % across * pack; }
    static __device__ __forceinline__ int row() { return threadIdx.x / across; }
    static __device__ __forceinline__ float* at(float* k_block, int iteration) { return k_block + (row() + iteration * apart) * pitch + place(); }

    static __device__ __forceinline__ int line(int lane, int i) {
        return BY_DEPTH ? i * LANES + lane : (i / 4 * LANES + lane) * 4 + i % 4;
    }
    // Four depths from k on of a lane's lines, of which the first one of the warp is `first`.
    static __device__ __forceinline__ void load(float (&to)[4][ITEMS], const float* k_block, int first, int lane, int k) {
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            if constexpr (BY_DEPTH) {
                const Pack<float, 4> four = load_pack<4>(k_block + (first + line(lane, i)) * pitch + k);
#pragma unroll
                for (int d = 0; d < 4; ++d) to[d][i] = four.at[d];
            } else if (i % 4 == 0) {
#pragma unroll
                for (int d = 0; d < 4; ++d) {
                    const Pack<float, 4> four = load_pack<4>(k_block + (k + d) * pitch + first + line(lane, i));
#pragma unroll
                    for (int v = 0; v < 4; ++v) to[d][i + v] = four.at[v];
                }
            }
        }
    }
};
using KBlockA = KBlock<tile_m, a_by_depth, a_packs, items_m, lanes_m>;
using KBlockB = KBlock<tile_n, b_by_depth, b_packs, items_n, lanes_n>;
constexpr int stage_size = KBlockA::size + KBlockB::size;

__device__ __forceinline__ bool inside(const Geometry& g, const Line& a, const Line& b) {
    return unsigned(a.z + b.z) < unsigned(g.size[0]) && unsigned(a.y + b.y) < unsigned(g.size[1]) && unsigned(a.x + b.x) < unsigned(g.size[2]);
}

<% if of_weights %>
// A unit of columns: a tap, and its first channel.
struct Unit {
    int number, blocks;

    __device__ __forceinline__ Unit(const Geometry& g, int column) : number(column / unit), blocks((g.inner.by + unit - 1) / unit) {}
    __device__ __forceinline__ int channel() const { return number % blocks * unit; }
    __device__ __forceinline__ int place(const Geometry& g) const { return number / blocks * g.inner.by + channel(); }
};
// K-blocks of pixels, whose offsets are in tables: one is filled for each k-block while those before it are copied.
struct Feed {
    struct Table {
        Line image[depth];
        index output[depth];  // -1 beyond the last pixel
    };
    static constexpr int units = b_by_depth ? tile_n / unit : 1;  // of a thread's columns
    const Geometry& g;
    const T *output, *image;
    Table* tables;
    Line taps[units];
    int channels[units];  // those that are there from the thread's first one on
    int filters, from, end, k_blocks;

    __device__ __forceinline__ Feed(
        const Geometry& g, const T* a, const T* b, int group, int m0, int n0, int from, int end, Table (&tables)[stages])
        : g(g), output(a + group * g.output.group + g.output_first), image(b + group * g.image.group), tables(tables), from(from),
          end(end), k_blocks(from < end ? (end - from + depth - 1) / depth : 0)
    {
        const int own_a = a_by_depth ? KBlockA::row() : KBlockA::place(), own_b = b_by_depth ? KBlockB::row() : KBlockB::place();
        output += (m0 + own_a) * g.output.channel;
        filters = g.m - m0 - own_a;
#pragma unroll
        for (int u = 0; u < units; ++u) {
            const Unit of(g, n0 + own_b + u * unit);
            taps[u] = tap_of_image(g, of.place(g), 0x7fffffff);
            taps[u].offset += own_b % unit * g.image.channel;
            channels[u] = n0 + own_b + u * unit < g.n ? g.inner.by - of.channel() - own_b % unit : 0;
        }
        for (int i = threadIdx.x; i < 2 * stages * depth; i += threads) note(i / depth / 2, i % (2 * depth));
        __syncthreads();
    }
    __device__ __forceinline__ void note(int of_k_block, int i) {
        const int place = i % depth, pixel = from + of_k_block * depth + place;
        Table& to = tables[of_k_block % stages];
        if (i < depth) to.image[place] = pixel_of_image(g, pixel, end);
        else to.output[place] = pixel < end ? pixel_of_output(g, pixel, end).offset : index(-1);
    }
    __device__ __forceinline__ void load(int k_block, float* stage) {
        if (k_block < k_blocks) {
            const Table& table = tables[k_block % stages];
            copy_output(table, stage);
            copy_image(table, stage + KBlockA::size);
            if (k_block + 1 >= stages && threadIdx.x < 2 * depth) note(k_block + 1, threadIdx.x);
        }
        commit_copies();
    }
    __device__ __forceinline__ void copy_output(const Table& table, float* k_block) {
        index offset = a_by_depth ? table.output[KBlockA::place()] : index(0);
#pragma unroll
        for (int j = 0; j < KBlockA::rounds; ++j) {
            if constexpr (!a_by_depth) offset = table.output[KBlockA::row() + j * KBlockA::apart];
            const bool is = offset >= 0 && (a_by_depth ? j * KBlockA::apart : 0) < filters;
            copy<a_packs>(KBlockA::at(k_block, j), output + (is ? offset + (a_by_depth ? j * KBlockA::apart * g.output.channel : 0) : index(0)), is);
        }
    }
    __device__ __forceinline__ void copy_image(const Table& table, float* k_block) {
        if constexpr (b_by_depth) {
            const Line pixel = table.image[KBlockB::place()];
#pragma unroll
            for (int u = 0; u < units; ++u) {
                const bool there = inside(g, pixel, taps[u]);
                const T* const first = image + (there ? pixel.offset + taps[u].offset : index(0));
#pragma unroll
                for (int j = 0; j < unit / KBlockB::apart; ++j) {
                    const bool is = there && j * KBlockB::apart < channels[u];
                    copy<b_packs>(KBlockB::at(k_block, u * (unit / KBlockB::apart) + j), first + (is ? j * KBlockB::apart * g.image.channel : index(0)), is);
                }
            }
        } else {
#pragma unroll
            for (int j = 0; j < KBlockB::rounds; ++j) {
                const Line pixel = table.image[KBlockB::row() + j * KBlockB::apart];
                const bool is = inside(g, pixel, taps[0]) && channels[0] > 0;
                copy<b_packs>(KBlockB::at(k_block, j), image + (is ? pixel.offset + taps[0].offset : index(0)), is);
            }
        }
    }
};
<% else %>
// K-blocks of channels of a tap: all taps of the first ones, then of the next, so that the image is still in the cache.
struct Feed {
    struct Table {};  // none is needed
    static constexpr int lines = a_by_depth ? KBlockA::rounds : 1;
    const Geometry& g;
    const T *image, *weights;
    Line pixels[lines];
    int filters, taps, tap = 0, channel = 0, k_blocks;

    __device__ __forceinline__ Feed(const Geometry& g, const T* a, const T* b, int group, int m0, int n0, int, int, Table (&)[stages])
        : g(g), image(a + group * g.image.group), weights(b + group * g.weight_group + g.weight_first + n0 + KBlockB::place()),
          filters(g.n - n0 - KBlockB::place()), taps(g.inner.divide(g.k)), k_blocks(taps * ((g.inner.by + depth - 1) / depth))
    {
#pragma unroll
        for (int j = 0; j < lines; ++j)
            pixels[j] = pixel_of_image(g, m0 + (a_by_depth ? KBlockA::row() + j * KBlockA::apart : KBlockA::place()), g.m);
    }
    // Loads the next k-block, number i, if there is one; the copies are a group in any case.
    __device__ __forceinline__ void load(int i, float* stage) {
        if (i < k_blocks) {
            const int place = tap * g.inner.by + channel;
            const Line of_image = tap_of_image(g, place, g.k), of_weights = tap_of_weights(g, place, g.k);
            copy_image(of_image, stage);
            const T* const from = weights + (of_weights.offset + KBlockB::row() * g.weight_channel);
#pragma unroll
            for (int j = 0; j < KBlockB::rounds; ++j) {
                const bool is = filters > 0 && (whole || channel + KBlockB::row() + j * KBlockB::apart < g.inner.by);
                copy<b_packs>(KBlockB::at(stage + KBlockA::size, j), is ? from + j * KBlockB::apart * g.weight_channel : weights, is);
            }
            if (++tap == taps) tap = 0, channel += depth;
        }
        commit_copies();
    }
    __device__ __forceinline__ void copy_image(const Line& of_tap, float* k_block) {
        if constexpr (a_by_depth) {
#pragma unroll
            for (int j = 0; j < KBlockA::rounds; ++j) {
                const bool is = inside(g, pixels[j], of_tap) && (whole || channel + KBlockA::place() < g.inner.by);
                copy<a_packs>(KBlockA::at(k_block, j), image + (is ? pixels[j].offset + of_tap.offset + KBlockA::place() : index(0)), is);
            }
        } else {
            const bool there = inside(g, pixels[0], of_tap);
            const T* from = image + (there ? pixels[0].offset + of_tap.offset + KBlockA::row() * g.image.channel : index(0));
#pragma unroll
            for (int j = 0; j < KBlockA::rounds; ++j) {
                const bool is = there && (whole || channel + KBlockA::row() + j * KBlockA::apart < g.inner.by);
                copy<a_packs>(KBlockA::at(k_block, j), is ? from : image, is);
                from += KBlockA::apart * g.image.channel;
            }
        }
    }
};
<% endif %>

__device__ __forceinline__ void multiply(float (&sums)[items_m][items_n], float* const first_stage, Feed& feed, int row, int column) {
    float* const last_stage = first_stage + (stages - 1) * stage_size;
    for (int i = 0; i < stages - 1; ++i) feed.load(i, first_stage + i * stage_size);
    float *stage = first_stage, *free_stage = last_stage;
    const auto next = [&](float* one) { return one == last_stage ? first_stage : one + stage_size; };
    const int lane_m = threadIdx.x % lanes_m, lane_n = threadIdx.x % 32 / lanes_m;
    for (int i = 0; i < feed.k_blocks; ++i) {
        wait_copies<stages - 2>();
        __syncthreads();
        feed.load(i + stages - 1, free_stage);
#pragma unroll
        for (int k = 0; k < depth; k += 4) {
            float left[4][items_m], right[4][items_n];
            KBlockA::load(left, stage, row, lane_m, k);
            KBlockB::load(right, stage + KBlockA::size, column, lane_n, k);
#pragma unroll
            for (int d = 0; d < 4; ++d)
#pragma unroll
                for (int x = 0; x < items_m; ++x)
#pragma unroll
                    for (int y = 0; y < items_n; ++y) sums[x][y] = fmaf(left[d][x], right[d][y], sums[x][y]);
        }
        stage = next(stage);
        free_stage = next(free_stage);
    }
}
// Where row and column of the result lie; -1 if they are not there.
__device__ __forceinline__ index row_at(const Geometry& g, int row) {
    if (row >= g.m) return -1;
    return of_weights ? row * g.weight_filter : pixel_of_output(g, row, g.m).offset;
}
__device__ __forceinline__ index column_at(const Geometry& g, int column) {
<% if of_weights %>
    const Unit of(g, column);
    if (column >= g.n || of.channel() + column % unit >= g.inner.by) return -1;
    return tap_of_weights(g, of.place(g), 0x7fffffff).offset + column % unit * g.weight_channel;
<% else %>
    return column < g.n ? column * g.output.channel : index(-1);
<% endif %>
}

extern "C" __global__ void __launch_bounds__(threads, << resident >>) << name >>(
    const T* a, const T* b, <% for x in operands %>const << x.type >>* x<< x.k >>, <% endfor %>
    <% for type in scalars %><< type >> s<< loop.index0 >>, <% endfor %>Out* d, Geometry g, Steps steps)
{
    const Epilogue epilogue{<% for x in operands %>x<< x.k >>, <% endfor %><% for x in scalars %>s<< loop.index0 >>, <% endfor %>steps};
    extern __shared__ __align__(128) unsigned char shared[];
    const int tiles = g.tiles_m * g.tiles_n, group = blockIdx.x / tiles, tile = blockIdx.x - group * tiles;
    const int m0 = tile / g.tiles_n * tile_m, n0 = tile % g.tiles_n * tile_n, warp = threadIdx.x / 32;
    const int from = blockIdx.y * g.each, end = minimum(from + g.each, g.k);
    __shared__ Feed::Table tables[stages];
    Feed feed(g, a, b, group, m0, n0, from, end, tables);
    const int row = warp % (tile_m / warp_m) * warp_m, column = warp / (tile_m / warp_m) * warp_n;
    float sums[items_m][items_n] = {};
    multiply(sums, (float*)shared, feed, row, column);

    const int lane_m = threadIdx.x % lanes_m, lane_n = threadIdx.x % 32 / lanes_m;
    if constexpr (of_weights) d += (index)blockIdx.y * (gridDim.x / tiles) * g.m * g.weight_filter + group * g.weight_group;
    else d += group * g.output.group + g.output_first;
    if constexpr (rows_packs) {
#pragma unroll
        for (int x = 0; x < items_m; x += 4) {
            const int own_row = m0 + row + KBlockA::line(lane_m, x);
            const index at = row_at(g, own_row);
#pragma unroll
            for (int y = 0; y < items_n; ++y) {
                const int own = n0 + column + KBlockB::line(lane_n, y);
                const index to = column_at(g, own);
                if (at < 0 || to < 0) continue;
                const Operands of = epilogue.load(group, own_row, own);
                const Pack<Out, 4> four{{epilogue(sums[x][y], of), epilogue(sums[x + 1][y], of), epilogue(sums[x + 2][y], of), epilogue(sums[x + 3][y], of)}};
                store_pack(d + (at + to), four);
            }
        }
    } else {
        constexpr int together = columns_packs ? 4 : 1;
#pragma unroll
        for (int y = 0; y < items_n; y += together) {
            const int own = n0 + column + KBlockB::line(lane_n, y);
            const index to = column_at(g, own);
#pragma unroll
            for (int x = 0; x < items_m; ++x) {
                const int own_row = m0 + row + KBlockA::line(lane_m, x);
                const index at = row_at(g, own_row);
                if (at < 0 || to < 0) continue;
                Pack<Out, together> result;
#pragma unroll
                for (int v = 0; v < together; ++v) result.at[v] = epilogue(sums[x][y + v], epilogue.load(group, own_row, own + v));
                store_pack(d + (at + to), result);
            }
        }
    }
}
