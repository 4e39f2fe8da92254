// The operands of a lane's elements in the epilogue of a warpgroup, after linear/product.cuh: `begins` is the number of a row that
// is added to the product first, `mapped` that of a matrix which is loaded by TMA to shared memory; 0 if there is none.
<% set added = operands | selectattr("k", "equalto", begins) | list %>
<% set operands_later = operands | rejectattr("k", "equalto", begins) | list %>
<% set operands_loaded = operands_later | rejectattr("k", "equalto", mapped) | list %>
constexpr int groups = line / 8;  // of eight columns of a part
template <int BYTES>
struct PairOf {
    using type = unsigned;
};
template <>
struct PairOf<8> {
    using type = uint2;
};
using Pair = PairOf<2 * sizeof(Out)>::type;  // two neighbours
// An element of a pair of bfloat16 by one instruction, where the half of a word is two.
__device__ __forceinline__ float of_pair(unsigned pair, int j) { return __uint_as_float(j == 0 ? shl(pair, 16) : pair & 0xffff0000u); }
// The operands of two neighbours: those that lie in pairs as a word of memory, which takes ptxas fewer registers than a Pack.
struct PairOperands {
<% for x in operands_later %>
    << "PairOf<2 * sizeof(%s)>::type" % x.type if x.paired else x.compute >> a<< x.k >><< "" if x.paired else "[2]" >>;
<% endfor %>

    // With AT_END columns from the n-th on are others'; operands in pairs have whole ones.
    template <bool AT_END>
    __device__ __forceinline__ void load(const Epilogue& epilogue, int batch, int row, int column, int n) {
<% for x in operands_loaded %>
<% if x.paired %>
        a<< x.k >> = *(const decltype(a<< x.k >>)*)epilogue.at<< x.k >>(batch, row, AT_END ? minimum(column, n - 2) : column);
<% else %>
#pragma unroll
        for (int j = 0; j < 2; ++j)
            a<< x.k >>[j] = cast< << x.compute >> >(*epilogue.at<< x.k >>(batch, row, AT_END ? minimum(column + j, n - 1) : column + j));
<% endif %>
<% endfor %>
    }
    __device__ __forceinline__ Operands at(int j) const {
        return {<% for x in operands %><< "0" if x.k == begins else "of_pair(a%d, j)" % x.k if x.paired and x.type == "__nv_bfloat16" else "cast<%s>(((const %s*)&a%d)[j])" % (x.compute, x.type, x.k) if x.paired else "a%d[j]" % x.k >>, <% endfor %>};
    }
};
// The operands of a lane's elements of 64 rows of a part: for the first and second row of each pair, and each eight columns.
struct PartOperands {
    PairOperands of[2][groups];

    // Those beyond the last row or column are others'.
    __device__ __forceinline__ void load(const Epilogue& epilogue, const Sizes& sizes, int batch, int row, int column) {
        const int own_row = row + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4, own_column = column + threadIdx.x % 4 * 2;
        if (row + 64 <= sizes.m && column + line <= sizes.n) load_within(epilogue, batch, own_row, own_column, sizes.m, sizes.n);
        else load_within<true>(epilogue, batch, own_row, own_column, sizes.m, sizes.n);
    }
    template <bool AT_END = false>
    __device__ __forceinline__ void load_within(const Epilogue& epilogue, int batch, int row, int column, int m, int n) {
#pragma unroll
        for (int i = 0; i < 2 * groups; ++i) {
            const int half = i / groups, group = i % groups, r = row + half * 8, c = column + group * 8;
            of[half][group].load<AT_END>(epilogue, batch, AT_END ? minimum(r, m - 1) : r, c, n);
        }
    }
};
// A lane's registers for the operands of a part, and of how many parts it prefetches them: more would leave no registers in
// which to compute several elements at a time.
constexpr int part_registers = 1<% for x in operands_loaded %> + << 1 if x.row == "zero" else 2 >><< "" if x.column == "zero" else " * groups * int(sizeof(%s) / 2)" % x.type if x.paired else " * 2 * groups" >><% endfor %>;
constexpr int ahead = part_registers < 40 ? 2 : 1;
// The operands of two neighbouring groups of eight columns: of the first and second row of a lane's pairs.
struct SliceOperands {
    PairOperands of[2][2];

    // Sets the matrix that is loaded, of which these are a row's elements of a group after those of the other row.
    __device__ __forceinline__ void set_matrix(const unsigned (&pairs)[4]) {
<% if mapped %>
#pragma unroll
        for (int j = 0; j < 4; ++j) of[j % 2][j / 2].a<< mapped >> = pairs[j];
<% endif %>
    }
};
constexpr int slice_registers = << "int(sizeof(SliceOperands)) / 4" if operands_loaded else 0 >>;
// Where the operands of a lane's elements of 64 rows of a tile are.
struct TileOperands {
<% for x in operands_loaded %>
    const << x.type >>* from<< x.k >>[2];
<% endfor %>
    int columns;  // of D from the lane's first one on, whole groups

    __device__ __forceinline__ TileOperands(
        const Epilogue& epilogue, const Sizes& sizes, int batch, int row, int column)
    {
        const int own_row = row + threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4, own_column = column + threadIdx.x % 4 * 2;
        columns = sizes.n - own_column;
<% for x in operands_loaded %>
#pragma unroll
        for (int half = 0; half < 2; ++half)
            from<< x.k >>[half] = epilogue.at<< x.k >>(batch, minimum(own_row + half * 8, sizes.m - 1), own_column);
<% endfor %>
    }
    // Loads those of slice `i`; what lies beyond the last column stays as it is.
    __device__ __forceinline__ void load(SliceOperands& to, const Epilogue& epilogue, int i) const {
#pragma unroll
        for (int group = 0; group < 2; ++group) {
            const int at = 16 * i + 8 * group;
            if (columns <= at) continue;
<% for x in operands_loaded %>
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                PairOperands& two = to.of[half][group];
<% if x.paired %>
                two.a<< x.k >> = *(const decltype(two.a<< x.k >>)*)(from<< x.k >>[half] + at);
<% else %>
#pragma unroll
                for (int j = 0; j < 2; ++j)
                    two.a<< x.k >>[j] = cast< << x.compute >> >(from<< x.k >>[half][<< {"zero": "0", "unit": "at + j", "any": "(at + j) * epilogue.steps.of[%d][2]" % (x.k - 1)}[x.column] >>]);
<% endif %>
            }
<% endfor %>
        }
    }
};
<% for x in added %>
// Two elements of the row x<< x.k >>, which is added to the product first, of a tile whose columns begin at `column`: thread i of a
// warpgroup has columns 2 i and 2 i + 1, if the tile and D have them; the sums of others are not stored.
struct AddedRow {
    PairOf<2 * sizeof(<< x.type >>)>::type pair;

    __device__ __forceinline__ void load(const Epilogue& epilogue, const Sizes& sizes, int batch, int column) {
        const int own = threadIdx.x % 128 * 2;
        if (own < tile_n && column + own < sizes.n) pair = *(const decltype(pair)*)epilogue.at<< x.k >>(batch, 0, column + own);
    }
    __device__ __forceinline__ void store(float* to) const {
        const << x.type >>* const two = (const << x.type >>*)&pair;
        if (threadIdx.x % 128 * 2 < tile_n) *(float2*)(to + threadIdx.x % 128 * 2) = {cast<float>(two[0]), cast<float>(two[1])};
    }
};
constexpr bool begins = true;
<% else %>
struct AddedRow {  // no row is added first
    __device__ __forceinline__ void load(const Epilogue&, const Sizes&, int, int) {}
    __device__ __forceinline__ void store(float*) const {}
};
constexpr bool begins = false;
<% endfor %>
