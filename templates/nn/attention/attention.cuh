// What the kernels of attention share: sizes, which keys a query attends to, and the score of a query and a key.
//
// The query heads that share a head of keys are rows of one matrix: row r is query r / group of head r % group among them.
// Query i attends to keys i + offset - left to i + offset + right, as far as there are such.
<% include "prelude/math.cuh" %>
<% include "prelude/exponential.cuh" %>
<% include "prelude/settled.cuh" %>
<% include "nn/attention/statistics.cuh" %>
<% if dropping %>
<% include "lib/philox.cuh" %>
<% endif %>
using T = << elem >>;
using A = << acc >>;
using Result = << acc if split else elem >>;  // that of a part of the keys is not rounded
using index = << index >>;
constexpr int threads = << block >>;
constexpr int head_size = << head_size >>, value_size = << value_size >>, group = << group >>;
constexpr int sharing = << sharing >>;  // heads of a launch that share a head of keys
constexpr int tile_m = << tile_m >>, tile_n = << tile_n >>;  // rows and keys of a tile
constexpr bool bounded_left = << bounded_left | lower >>, bounded_right = << bounded_right | lower >>;
constexpr bool sequenced = << packed | lower >>, counted = << counted | lower >>, at_end = << at_end | lower >>;
constexpr bool dropping = << dropping | lower >>, by_fours = << by_fours | lower >>;  // elements of a draw are in one row
constexpr bool plain = << plain | lower >>;
constexpr bool reads_places = << reads_places | lower >>;  // the score reads memory by its query or key
constexpr bool split = << split | lower >>;  // the blocks along y share the keys
constexpr bool listed = << listed | lower >>;  // lists have the tiles in which a mask leaves something
constexpr double log2_e = 1.4426950408889634;

// Steps are strides in elements; the features of a row are contiguous. `scale` is the factor of the scores, `kept` that of the weights
// that dropout keeps; heads are those of the keys; a weight is kept if its random word is not below the threshold.
<< Sizes >>
// Strides of the score's arrays through batch, head, queries and keys; an array is broadcast along the others.
<< ScoreSteps >>
// Where a draw of dropout begins in its stream.
struct Draw {
    unsigned long long at;

    // Which weights are kept of elements n / 4 * 4 to n / 4 * 4 + 3: a bit each.
    __device__ __forceinline__ unsigned kept(const Sizes& sizes, unsigned long long n) const {
        unsigned bits = 0;
<% if dropping %>
        const RandomWords words = philox(at + n / 4, 0, sizes.key0, sizes.key1);
#pragma unroll
        for (int i = 0; i < 4; ++i) bits |= words.w[i] >= sizes.threshold ? shl(1u, i) : 0u;
<% endif %>
        return bits;
    }
    // The factor of the weight of element n.
    __device__ __forceinline__ A factor(const Sizes& sizes, unsigned long long n) const {
        return !dropping ? A(1) : kept(sizes, n) >> n % 4 & 1 ? A(sizes.kept) : A(0);
    }
};

<% include "nn/attention/clipped.cuh" %>
// A score after the function of it, and its derivatives by the score before it and by an array.
struct Score {
    A value, slope;
<% if summing %>
    A by_array;
<% endif %>
};
// The place of a score: its batch, head, query and key, the last two in parts that a loop over elements keeps, and what is more in
// the loop's steps. Queries and keys after the last ones have the place of these.
struct Spot {
    int batch, head, row, key, more_row = 0, more_key = 0;
    int last_row = limits<int>::highest(), last_key = limits<int>::highest();
};
// What is brought ahead of a tile of scores: numbers for each distance of a key and a query, of which `origin` is that of none, and an
// element of an array.
struct Ahead {
    const float* windows = nullptr;
    int origin = 0;
    float element = 0.0f;
};
// The function of a score, of its place and of arrays.
struct Scores {
<% for x in operands if not x.tiled %>
    const << x.type >>* x<< x.k >>;
<% endfor %>
<% for x in tables %>
    const << x.type >>* t<< x.k >>;
<% endfor %>
    ScoreSteps steps;
    A scale;  // of the products of queries and keys, which are scores then
    A inverse = A(1) / scale;
<% for x in operands if x.settled %>
    << x.compute >> s<< x.k >>;
<% endfor %>
<% if fed %>
    const unsigned* bits = nullptr;  // of a mask, see mask_blocks.cu, which is no part of the function
<% else %>
    bool open = false;  // the mask is true throughout the tile, and need not be read
<% endif %>

    // The function for one head, of which it keeps the elements of arrays that have one for each.
    __device__ __forceinline__ Scores of([[maybe_unused]] int a1, [[maybe_unused]] int a2) const {
        Scores made = *this;
<% for x in operands if x.settled %>
        made.s<< x.k >> = cast< << x.compute >> >(x<< x.k >>[0<% for axis in x.axes %> + a<< axis + 1 >> * steps.of[<< x.number >>][<< axis >>]<% endfor %>]);
<% endfor %>
        return made;
    }
<% if windows.inputs %>

    // What is made for each distance of key a4 and query a3.
    __device__ __forceinline__ void by_distance(
        float (&made)[<< windows.inputs | length >>], [[maybe_unused]] int a1, [[maybe_unused]] int a2, int a3, int a4) const
    {
<% for x in operands if x.settled %>
        [[maybe_unused]] const << x.compute >> a<< x.k >> = s<< x.k >>;
<% endfor %>
<% for line in windows.lines %>
        const << line.type >> << line.name >> = << line.code >>;
<% endfor %>
<% for value in windows["values"] %>
        made[<< loop.index0 >>] = << value >>;
<% endfor %>
    }
<% endif %>
<% if half %>

    // In place of the library's, which takes longer to be exact where it is small: scores are summands of exponents.
    static __device__ __forceinline__ A tanh(A x) { return tanh_of(x); }
<% endif %>

    __device__ __forceinline__ Score operator()(A product, const Spot& at, [[maybe_unused]] const Ahead& ahead = {}) const {
        [[maybe_unused]] const A a0 = product * scale;
        [[maybe_unused]] const int a1 = at.batch, a2 = at.head;
        [[maybe_unused]] const int a3 = reads_places ? minimum(at.row + at.more_row, at.last_row) : at.row + at.more_row;
        [[maybe_unused]] const int a4 = reads_places ? minimum(at.key + at.more_key, at.last_key) : at.key + at.more_key;
<% for x in operands if x.settled %>
        const << x.compute >> a<< x.k >> = s<< x.k >>;
<% endfor %>
<% for x in operands if x.tiled %>
        const float a<< x.k >> = ahead.element;
<% endfor %>
<% for k in windows.inputs %>
        const float a<< k >> = ahead.windows[<< loop.index0 >> * (tile_m + tile_n) + (ahead.origin + at.key - at.row) + (at.more_key - at.more_row)];
<% endfor %>
<% for x in operands if x.read and not x.settled and not x.tiled %>
        const << x.compute >> a<< x.k >> = << "open || " if x.opened >>cast< << x.compute >> >(x<< x.k >>[0
<% for axis in x.axes %>
            + a<< axis + 1 >> * steps.of[<< x.number >>][<< axis >>]
<% endfor %>
        ]);
<% endfor %>
<% for line in body %>
        const << line.type >> << line.name >> = << line.code >>;
<% endfor %>
        return {<< values | join(", ") >>};
    }
};

// The rows of a matrix of an operand; null beyond its end.
template <int GROUP, typename P>
struct Rows {
    static constexpr bool evenly_spaced = GROUP == 1;
    P* base;
    index head, step;
    int end;

    __device__ __forceinline__ P* operator()(int r) const {
        return r < end ? base + (index)(r / GROUP) * step + (index)(r % GROUP) * head : nullptr;
    }
};

struct Range {
    int first, end;
};

// The part of a launch that a block works on: a tile of one sequence's rows, or keys, of a head.
struct Place {
    int batch, head, tile;  // head: of the keys
    int rows, keys, offset, left, right;
    index before_q, before_k;  // rows of other sequences before this one

    // A head of a batch, without a tile.
    __device__ __forceinline__ Place(const Sizes& sizes, const int* counts, int batch, int head)
        : batch(batch), head(head), tile(0), rows(sizes.queries * group), keys(sizes.keys), offset(sizes.offset),
          left(sizes.left), right(sizes.right), before_q(0), before_k(0)
    {
        if constexpr (counted) keys = minimum(maximum(counts[batch], 0), keys);
        if constexpr (at_end) offset = keys - sizes.queries;
    }
    // The block's.
    __device__ __forceinline__ Place(const Sizes& sizes, const int* starts_q, const int* starts_k, bool of_keys)
        : Place(sizes, starts_k, sequenced ? 0 : blockIdx.x / sizes.tiles / sizes.heads, blockIdx.x / sizes.tiles % sizes.heads)
    {
        tile = blockIdx.x % sizes.tiles;
        if constexpr (sequenced) find(sizes, starts_q, starts_k, of_keys);
    }
    // Goes to the sequence that has the tile of this number among those of all.
    __device__ __forceinline__ void find(const Sizes& sizes, const int* starts_q, const int* starts_k, bool of_keys) {
        const int size = of_keys ? tile_n : tile_m;
        rows = keys = 0;
        // Places out of range are clipped, so that nothing beyond the arrays is touched.
        const auto start = [&](const int* starts, int n, int end) { return minimum(maximum(starts[n], 0), end); };
        for (; batch < sizes.sequences; ++batch) {
            const int first_q = start(starts_q, batch, sizes.queries), first_k = start(starts_k, batch, sizes.keys);
            const int q = start(starts_q, batch + 1, sizes.queries) - first_q;
            const int k = start(starts_k, batch + 1, sizes.keys) - first_k;
            const int tiles = divide_up(of_keys ? k : q * group, size);
            if (tile < tiles) {
                rows = q, keys = k;
                before_q = first_q, before_k = first_k;
                break;
            }
            tile -= tiles;
        }
        batch = minimum(batch, sizes.sequences - 1);
        if constexpr (at_end) offset = keys - rows;
        rows *= group;
    }
    // Work that takes longest is begun first: late queries have the most keys before them.
    __device__ __forceinline__ int first_row(const Sizes& sizes) const {
        return (bounded_right && !sequenced ? sizes.tiles - 1 - tile : tile) * tile_m;
    }
    // The batch of the arrays, in which all sequences are one.
    __device__ __forceinline__ int matrix() const { return sequenced ? 0 : batch; }
    template <typename P>
    __device__ __forceinline__ Rows<group, P> of_rows(P* base, const Steps& steps) const {
        return {base + (index)matrix() * steps.batch + (index)head * group * steps.head + before_q * steps.row, steps.head, steps.row, rows};
    }
    template <typename P>
    __device__ __forceinline__ Rows<1, P> of_keys(P* base, const Steps& steps, int end) const {
        return {base + (index)matrix() * steps.batch + (index)(head / sharing) * steps.head + before_k * steps.row, 0, steps.row, end};
    }
    // The place of a row in an array of one number for each query, (batch, head, query) or (head, query).
    __device__ __forceinline__ index statistic(const Sizes& sizes, int row) const {
        const index heads = (index)matrix() * sizes.heads * group + (index)head * group + row % group;
        return heads * sizes.queries + before_q + row / group;
    }

    // Results of a part of the keys: each part's stand behind those of the parts before it.
    template <typename P>
    __device__ __forceinline__ P* of_part(P* base, const Sizes& sizes, index step) const {
        return split ? base + (index)blockIdx.y * sizes.sequences * step : base;
    }

    __device__ __forceinline__ bool attends(int row, int key) const {
        const int at = row / group + offset;
        return row < rows && key < keys && (!bounded_left || key >= at - left) && (!bounded_right || key <= at + right);
    }
    // Whether every row of a tile attends to every key of one.
    __device__ __forceinline__ bool attends_to_all(int row, int row_end, int key, int key_end) const {
        return row_end <= rows && key_end <= keys && (!bounded_left || key >= (row_end - 1) / group + offset - left) &&
               (!bounded_right || key_end - 1 <= row / group + offset + right);
    }
    // The keys to which the rows of a tile attend: from the start of a tile on.
    __device__ __forceinline__ Range keys_of(int row) const {
        int first = 0, end = row < rows ? keys : 0;
        if constexpr (bounded_left) first = maximum(row / group + offset - left, 0) / tile_n * tile_n;
        if constexpr (bounded_right) end = minimum(end, (minimum(row + tile_m, rows) - 1) / group + offset + right + 1);
        return {first, end};
    }
    // A query's first row. One that is far off counts as the first, or as that after the last: its rows would not fit an int.
    __device__ __forceinline__ int first_row_of(int query) const { return minimum(maximum(query, 0), rows / group) * group; }
    // The rows that attend to the keys of a tile: from the start of a tile on.
    __device__ __forceinline__ Range rows_of(int key) const {
        int first = 0, end = key < keys ? rows : 0;
        if constexpr (bounded_right) first = first_row_of(key - right - offset) / tile_m * tile_m;
        if constexpr (bounded_left) end = minimum(end, first_row_of(minimum(key + tile_n, keys) + left - offset));
        return {first, end};
    }

    // The list of a tile of rows, or of keys, which a mask of so many tiles along has for it; see mask_tiles.cu.
    __device__ __forceinline__ const int* list(const Sizes& sizes, const int* lists, int tile, int along) const {
        if constexpr (!listed) return nullptr;
        constexpr int shared = << list_sharing >>;
        long long which = << "(long long)batch" if lists_by_batch else "0" >>;
<% if lists_by_head %>
        which = which * (sizes.heads / shared) + head / shared;
<% endif %>
        return lists + (which * sizes.tiles + tile) * (along + 1);
    }

    // The element of the matrix of scores that dropout counts.
    __device__ __forceinline__ unsigned long long element(const Sizes& sizes, int row, int key) const {
        const unsigned long long matrix = (sequenced ? 0ull : (unsigned long long)batch * sizes.heads * group) + head * group + row % group;
        return (matrix * sizes.queries + before_q + row / group) * sizes.keys + before_k + key;
    }
};

// The tiles of SIZE rows or keys through which a block goes: those of a range, or of a mask's list as far as they are in it.
template <int SIZE>
struct Course {
    const int* list;  // how many tiles it has; then of each its number twice, plus one if the mask is true throughout
    int first, count;  // the first tile's row or key, or its place in the list

    __device__ __forceinline__ Course(const Range& range, const int* list) : list(list), first(range.first) {
        if constexpr (listed) {
            constexpr bool limited = bounded_left || bounded_right || counted;
            first = limited ? find(range.first / SIZE) : 0;
            count = maximum((limited ? find(divide_up(maximum(range.end, 0), SIZE)) : range.end > 0 ? list[0] : 0) - first, 0);
        } else count = divide_up(maximum(range.end - first, 0), SIZE);
        if constexpr (split) {
            const int part = divide_up(count, (int)gridDim.y), before = minimum((int)blockIdx.y * part, count);
            first += before * (listed ? 1 : SIZE);
            count = minimum(part, count - before);
        }
    }
    // The place in the list of the first tile that is not before this one.
    __device__ __forceinline__ int find(int tile) const {
        int low = 0, high = list[0];
        while (low < high) {
            const int middle = (low + high) / 2;
            if (list[1 + middle] / 2 < tile) low = middle + 1;
            else high = middle;
        }
        return low;
    }
    // Which of the tiles lie within these rows or keys.
    __device__ __forceinline__ Range within(int begin, int end) const {
        if constexpr (!listed) return {divide_up(maximum(begin - first, 0), SIZE), maximum(end - first, 0) / SIZE};
        return {maximum((begin ? find(divide_up(maximum(begin, 0), SIZE)) : 0) - first, 0), maximum(find(maximum(end, 0) / SIZE) - first, 0)};
    }
    // The first row or key of a tile.
    __device__ __forceinline__ int operator[](int i) const { return listed ? list[1 + first + i] / 2 * SIZE : first + i * SIZE; }
    // Which of the tiles begins with this row or key; -1 if none does.
    __device__ __forceinline__ int number_of(int start) const {
        const int i = listed ? find(start / SIZE) - first : (start - first) / SIZE;
        return i >= 0 && i < count && (*this)[i] == start ? i : -1;
    }
    __device__ __forceinline__ bool open(int i) const { return listed && list[1 + first + i] % 2; }
};
// The tiles of keys for a tile of rows, and of rows for a tile of keys.
__device__ __forceinline__ Course<tile_n> keys_for(const Place& at, const Sizes& sizes, const int* lists, int row) {
    return {at.keys_of(row), at.list(sizes, lists, row / tile_m, divide_up(sizes.keys, tile_n))};
}
__device__ __forceinline__ Course<tile_m> rows_for(const Place& at, const Sizes& sizes, const int* lists, int key) {
    return {at.rows_of(key), at.list(sizes, lists, key / tile_n, divide_up(sizes.queries * group, tile_m))};
}

// Statistics of the rows from `first` on, to shared memory: lse, and rest as an exponent of what exp_of is a power of. A row that
// attends to nothing gets +inf, with which its weights are 0.
template <int COUNT>
__device__ __forceinline__ void load_statistics(
    A* to, A* rest, const Place& at, const Sizes& sizes, const RowStatistics* from, int first)
{
    for (int r = threadIdx.x; r < COUNT; r += threads) {
        const RowStatistics x = first + r < at.rows ? from[at.statistic(sizes, first + r)] : RowStatistics{};
        const bool nothing = x.lse == -limits<A>::infinity();
        to[r] = nothing ? -x.lse : x.lse;
        rest[r] = nothing ? A(0) : x.rest<< " * A(log2_e)" if half >>;
    }
}
// The mean of dot products of each row.
template <int COUNT>
__device__ __forceinline__ void load_deltas(A* to, const Place& at, const Sizes& sizes, const A* from, int first) {
    for (int r = threadIdx.x; r < COUNT; r += threads) to[r] = first + r < at.rows ? from[at.statistic(sizes, first + r)] : A(0);
}

// One element of the backward pass; `whole`: the row is known to attend to the key.
struct Element {
    A weight, dscore;  // what multiplies the value, and the cotangent of the unscaled score
<% if summing %>
    A by_array;
<% endif %>

    __device__ __forceinline__ Element(
        const Place& at, const Sizes& sizes, const Scores& scores, const Draw& draw, A product, A dweight, A lse, A rest,
        A delta, int row, int key, bool whole)
        : weight(0), dscore(0)<< ", by_array(0)" if summing >>
    {
        if (!whole && !at.attends(row, key)) return;
        Score score{product * A(sizes.scale), A(1)};
        if constexpr (!plain) score = scores(product, Spot{at.batch, at.head * group + row % group, row / group, key});
        const A apart = << "fma(product, A(sizes.scale), -lse)" if plain and by_fragments else "score.value - lse" >>;
        const A p = << "power_of_two(fma(apart, A(log2_e), -rest))" if half else "exp_of(apart - rest)" >>;
        if (p == A(0)) return;  // not 0 times a derivative that is infinite there
        A factor = A(1);
        if constexpr (dropping) factor = draw.factor(sizes, at.element(sizes, row, key));
        weight = p * factor;
        const A ds = p * (dweight * factor - delta);
        dscore = ds * score.slope * A(sizes.scale);
<% if summing %>
        by_array = ds * score.by_array;
<% endif %>
    }
};
