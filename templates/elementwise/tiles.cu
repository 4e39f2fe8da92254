// y[i] = f(x0[i], x1[i], ...) where inputs step fastest along another axis than the outputs: the outputs' inner axis has
// `columns` elements, that of the inputs which are "staged" `rows`; what other axes there are, are batches.
// Launch: a block for each tile of `side` by `side` elements, a batch's tiles one after another. Staged inputs are read
// along their own axis and transposed in shared memory: a tile of each. A full tile is moved by packs.
<% from "elementwise/operands.cuh" import parameters, memory, same with context %>
<% include "prelude/math.cuh" %>
using index = << index >>;
constexpr int block = << block >>, width = << width >>, side = << tile >>, batches = << batches >>;
constexpr bool paired = << "true" if paired else "false" >>;
constexpr int lanes = block > 1 ? 32 : 1, across = side / width;
<% set varied = inputs | rejectattr("access", "equalto", "one") | list %>
<% set staged = varied | selectattr("access", "equalto", "staged") | list %>
<% set direct = varied | rejectattr("access", "equalto", "staged") | list %>
<% include "elementwise/operands.cuh" %>
// Divisors: tiles along the inner axis and along the other, sizes of the batches' axes, slowest first. Steps of the
// operands along the batches' axes, the other axis and the inner one, in elements.
<< Layout >>
<# Where an operand has an element of a tile. #>
<% macro address(x, row="row", column="column") %>offset[<< x.table >>] + << row >> * memory.layout.stride[<< x.table >>][batches]<< {"unit": " + " ~ column, "zero": ""}.get(x.access, " + (%s) * memory.layout.stride[%d][batches + 1]" % (column, x.table)) >><% endmacro %>
// What a thread has of the inputs that are not staged, from an element on.
struct Direct {
<% for x in direct %>
    << x.type if x.access == "zero" else "Pack<%s, width>" % x.type >> x<< x.k >>;
<% endfor %>

    __device__ __forceinline__ void load(const Memory& memory, const index* offset, int row, int column) {
<% for x in direct %>
<% if x.access == "any" %>
#pragma unroll
        for (int k = 0; k < width; ++k) x<< x.k >>.at[k] = memory.x<< x.k >>[<< address(x, "row", "column + k") >>];
<% else %>
        x<< x.k >> = << "::load<width>(memory.x%d + %s)" % (x.k, address(x)) if x.access == "unit" else "memory.x%d[%s]" % (x.k, address(x)) >>;
<% endif %>
<% endfor %>
    }
};
// The tiles in shared memory.
struct Tiles {
<% for x in staged %>
    << x.type >>* x<< x.k >>;
<% endfor %>
};
// Where a tile has an element, in groups of 16 bytes. The groups of a row are exchanged so that neither the writes of a
// warp, along a column, nor its reads, along a row, meet in a bank; on the host rows lie a cache line apart.
template <int pack>
__device__ __forceinline__ int in_tile(int row, int column) {
    if (block > 1) return row * side + ((column / pack) ^ (row / pack % 8)) * pack + column % pack;
    return row * (side + 4 * pack) + column;
}
// A tile of an input, transposed from memory, where `piece` elements are aligned, to shared memory.
template <typename T, int piece>
struct Staged {
    static constexpr int pack = 16 / sizeof(T), bundle = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
    static constexpr int parts = side / pack * (side / bundle), rounds = (parts + block - 1) / block;
    Pack<T, pack> held[rounds][bundle];

    __device__ __forceinline__ static int row(int part) { return (part % 8 + part / 32 % (side / pack / 8) * 8) * pack; }
    __device__ __forceinline__ static int column(int part) { return (part / 8 % 4 + part / (4 * side / pack) * 4) * bundle; }
    __device__ __forceinline__ void load(const T* from, index stride) {
#pragma unroll
        for (int u = 0; u < rounds; ++u) {
            const int part = int(threadIdx.x) + u * block;
            if (parts % block && part >= parts) break;
#pragma unroll
            for (int m = 0; m < bundle; ++m) {
#pragma unroll
                for (int i = 0; i < pack; i += piece)
                    reinterpret_cast<Pack<T, piece>&>(held[u][m].at[i]) = ::load<piece>(from + row(part) + (column(part) + m) * stride + i);
            }
        }
    }
    __device__ __forceinline__ void put(T* tile) const {
#pragma unroll
        for (int u = 0; u < rounds; ++u) {
            const int part = int(threadIdx.x) + u * block;
            if (parts % block && part >= parts) break;
#pragma unroll
            for (int k = 0; k < pack; ++k) {
                Pack<T, bundle> transposed;
#pragma unroll
                for (int m = 0; m < bundle; ++m) transposed.at[m] = held[u][m].at[k];
                store_pack(tile + in_tile<pack>(row(part) + k, column(part)), transposed);
            }
        }
    }
};
// A thread's part of a tile that is whole.
struct Whole {
<% for x in staged %>
    Staged< << x.type >>, << x.piece >> > s<< x.k >>;
    Pack< << x.type >>, width> x<< x.k >>;
<% endfor %>
<% for y in outputs %>
    Pack< << y.type >>, width> y<< loop.index0 >>;
<% endfor %>

    __device__ __forceinline__ void load(const Memory& memory, const index* offset) {
<% for x in staged %>
        s<< x.k >>.load(memory.x<< x.k >> + offset[<< x.table >>], memory.layout.stride[<< x.table >>][batches + 1]);
<% endfor %>
    }
    __device__ __forceinline__ void put(const Tiles& tiles) {
<% for x in staged %>
        s<< x.k >>.put(tiles.x<< x.k >>);
<% endfor %>
    }
    __device__ __forceinline__ void compute(const Same& same, const Tiles& tiles, const Direct& direct, int row, int column) {
<% for x in staged %>
        x<< x.k >> = ::load<width>(tiles.x<< x.k >> + in_tile< << x.pack >> >(row, column));
<% endfor %>
#pragma unroll
        for (int k = 0; k < width; ++k) {
            const Values values = expression(same<% for x in varied %>, cast< << x.compute >> >(<< "direct." if x in direct >>x<< x.k >><< ".at[k]" if x.access != "zero" >>)<% endfor %>);
<% for y in outputs %>
            y<< loop.index0 >>.at[k] = values.y<< loop.index0 >>;
<% endfor %>
        }
    }
    __device__ __forceinline__ void store(const Memory& memory, const index* offset, int row, int column) {
<% for y in outputs %>
        ::store(memory.y<< loop.index0 >> + << address(y) >>, y<< loop.index0 >>);
<% endfor %>
    }
};
__device__ __forceinline__ void stage(const Memory& memory, const Tiles& tiles, const index* offset, int row, int column) {
<% for x in staged %>
    tiles.x<< x.k >>[in_tile< << x.pack >> >(row, column)] = memory.x<< x.k >>[offset[<< x.table >>] + row + column * memory.layout.stride[<< x.table >>][batches + 1]];
<% endfor %>
}
__device__ __forceinline__ void one_by_one(const Memory& memory, const Same& same, const Tiles& tiles, const index* offset, int row, int column) {
    const Values values = expression(same<% for x in varied %>, cast< << x.compute >> >(<< "tiles.x%d[in_tile<%d>(row, column)]" % (x.k, x.pack) if x in staged else "memory.x%d[%s]" % (x.k, address(x)) >>)<% endfor %>);
<% for y in outputs %>
    memory.y<< loop.index0 >>[<< address(y) >>] = values.y<< loop.index0 >>;
<% endfor %>
}
<# The tiles themselves, which a kernel declares. #>
<% macro tile_memory() %>
<% for x in staged %>
    << "__shared__ alignas(16) " if block > 1 >><< x.type >> tile<< x.k >>[<< tile * (tile if block > 1 else tile + 4 * x.pack) >>];
<% endfor %>
    const Tiles tiles{<% for x in staged %>tile<< x.k >>, <% endfor %>};
<%- endmacro %>

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<< parameters() >>
    Layout layout, << index >> rows, << index >> columns)
{
<< tile_memory() >>
    constexpr int placed = sizeof(layout.stride) / sizeof(layout.stride[0]);
    index top, left, offset[placed];
    unsigned int rest = 0;
    if constexpr (paired) {
        // A tile and the one that mirrors it are neighbours, so that what both read is read from memory once: the upper
        // triangle is folded to a rectangle, where tiles alternate with their mirror images.
        const unsigned int pair = blockIdx.x / 2, fold = quotient(pair, layout.by[0]), at = pair - fold * layout.by[0].n;
        const unsigned int tiles_down = layout.by[1].n, odd = tiles_down % 2, upper = at + odd > fold;
        const unsigned int low = upper ? fold : tiles_down - 1 + odd - fold;
        const unsigned int high = upper ? at - 1 + odd : tiles_down - 1 - at;
        if (blockIdx.x % 2 && low == high) return;
        top = index(blockIdx.x % 2 ? high : low) * side, left = index(blockIdx.x % 2 ? low : high) * side;
    } else {
        const unsigned int strip = quotient(blockIdx.x, layout.by[0]);
        rest = quotient(strip, layout.by[1]);
        top = index(strip - rest * layout.by[1].n) * side;
        left = index(blockIdx.x - strip * layout.by[0].n) * side;
    }
#pragma unroll
    for (int x = 0; x < placed; ++x) offset[x] = top * layout.stride[x][batches] + left * layout.stride[x][batches + 1];
#pragma unroll
    for (int axis = batches - 1; axis >= 0; --axis) {
        const unsigned int next = quotient(rest, layout.by[2 + axis]);
#pragma unroll
        for (int x = 0; x < placed; ++x) offset[x] += index(rest - next * layout.by[2 + axis].n) * layout.stride[x][axis];
        rest = next;
    }
    const Memory memory{<< memory() >>layout};
    const Same same{<< same() >>};
<% if whole %>
    if (top + side <= rows && left + side <= columns) {
        constexpr int rounds = side * across / block;
        const int thread = int(threadIdx.x);
        Whole all;
        Direct direct[rounds];
        all.load(memory, offset);
#pragma unroll
        for (int u = 0; u < rounds; ++u)
            direct[u].load(memory, offset, (thread + u * block) / across, (thread + u * block) % across * width);
        all.put(tiles);
        __syncthreads();
#pragma unroll
        for (int u = 0; u < rounds; ++u) {
            const int row = (thread + u * block) / across, column = (thread + u * block) % across * width;
            all.compute(same, tiles, direct[u], row, column);
            all.store(memory, offset, row, column);
        }
        return;
    }
<% endif %>
    const int height = int(minimum(index(side), rows - top)), breadth = int(minimum(index(side), columns - left));
    const int lane = int(threadIdx.x) % lanes, group = int(threadIdx.x) / lanes;
    for (int column = group; column < breadth; column += block / lanes)
        for (int row = lane; row < height; row += lanes) stage(memory, tiles, offset, row, column);
<% if block > 1 %>
    __syncthreads();
<% endif %>
    for (int row = group; row < height; row += block / lanes)
        for (int column = lane; column < breadth; column += lanes) one_by_one(memory, same, tiles, offset, row, column);
}
