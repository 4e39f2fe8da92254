// What a mask has in each block of 16 queries and 16 keys: bit 0 if it is true anywhere, bit 1 if it is true everywhere. And the
// mask itself in bits if they are asked for: for each query a line of words with a bit for each key, then for each key one
// with a bit for each query. Along an axis on which the mask does not depend there is one line, and lines have one word of equal bits.
// The mask is an array, or where it is `computed`, a condition of places and of what a score reads by them.
// Launch: a thread for each block of a mask's matrices, in x.
<% if computed %>
<% include "prelude/math.cuh" %>
using index = long long;
<% include "nn/attention/clipped.cuh" %>
<% endif %>
constexpr int side = 16;
constexpr bool packs = << packs | lower >>;  // rows are aligned packs of 16 bytes
constexpr bool makes_bits = << makes_bits | lower >>;
constexpr bool by_query = << by_query | lower >>, by_key = << by_key | lower >>;  // on what the mask depends

// Strides of the mask in bytes, and how many heads, queries and keys there are.
<< Mask >>
<% if computed %>
// Strides of the condition's arrays through batch, head, queries and keys, in elements.
<< Steps >>
// The rows of a block, from its first query and key on.
struct Source {
<% for x in sources %>
    const << x.type >>* << x.name >>;
<% endfor %>
    const Steps& steps;
    const Mask& sizes;
    int batch, row, column;

    static constexpr unsigned whole = ~0u;

    // Whether query a3 attends to key a4; heads are alike.
    __device__ __forceinline__ bool condition([[maybe_unused]] int a1, [[maybe_unused]] int a3, [[maybe_unused]] int a4) const {
<% for x in operands %>
        const << x.compute >> a<< x.k >> = cast< << x.compute >> >(x<< x.k >>[0<% for axis in x.axes %> + a<< axis + 1 >> * steps.of[<< x.number >>][<< axis >>]<% endfor %>]);
<% endfor %>
<% for line in body %>
        const << line.type >> << line.name >> = << line.code >>;
<% endfor %>
        return << value >>;
    }
    // The bits of row r; those of all rows in `any` and `all`, which is `whole` at the end if all are true.
    __device__ __forceinline__ unsigned word(int r, unsigned& any, unsigned& all) const {
        const unsigned beyond = shl(~0u, minimum(side, sizes.keys - column));
        unsigned made = 0;
#pragma unroll
        for (int c = 0; c < side; ++c)  // beyond the last key it reads what that has, as all rows then read the same
            made |= condition(batch, row + r, minimum(column + c, sizes.keys - 1)) ? shl(1u, c) : 0u;
        made &= ~beyond;
        any |= made;
        all &= made | beyond;
        return made;
    }
};
<% else %>
// The rows of a block, from its first query and key on.
struct Source {
    const unsigned char* mask;
    const Mask& sizes;
    int columns;

    static constexpr unsigned whole = 0x01010101u;

    // The bits of row r. In `any` and `all`, what is in any of four bytes, and in all of them.
    __device__ __forceinline__ unsigned word(int r, unsigned& any, unsigned& all) const {
        unsigned made = 0;
        if constexpr (packs) {
            const uint4 pack = *(const uint4*)(mask + r * sizes.query);
            const unsigned fours[4] = {pack.x, pack.y, pack.z, pack.w};
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                any |= fours[c];
                all &= fours[c];
                made |= shl(fours[c] * 0x01020408u >> 24 & 15, 4 * c);  // a bit of each byte
            }
        } else {
            for (int c = 0; c < columns; ++c) {
                const unsigned one = mask[r * sizes.query + c * sizes.key];
                any |= one * 0x01010101u;
                all &= one * 0x01010101u;
                made |= shl(one, c);
            }
        }
        return made;
    }
};
<% endif %>

// Lines of bits, in halves of words; a block's number along them.
struct Lines {
    unsigned short* bits;
    int halves, number, last;
    bool along;

    __device__ __forceinline__ Lines(unsigned* bits, int count, int number, bool along)
        : bits((unsigned short*)bits), halves(divide_up(count, 2 * side) * 2), number(number), last((count - 1) / side), along(along) {}
    __device__ __forceinline__ void store(long long line, unsigned word) const {
        unsigned short* const to = bits + line * halves + number;
        to[0] = (unsigned short)(along ? word : word & 1 ? 0xffffu : 0u);
        if (number == last && number % 2 == 0) to[1] = along ? (unsigned short)0 : to[0];
    }
};

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
<% if computed %>
    <% for x in sources %>const << x.type >>* << x.name >>, <% endfor %>
<% else %>
    const unsigned char* mask,
<% endif %>
    unsigned char* blocks, unsigned* bits, Mask sizes, << "Steps steps, " if computed >>long long count)
{
    const long long i = (long long)blockIdx.x * << block >> + threadIdx.x;
    if (i >= count) return;
    const int rows = divide_up(sizes.queries, side), columns = divide_up(sizes.keys, side);
    const int column = i % columns * side, row = i / columns % rows * side;
    const long long matrix = i / columns / rows;
<% if computed %>
    const Source source{<% for x in sources %><< x.name >>, <% endfor %>steps, sizes, int(matrix), row, column};
<% else %>
    mask += matrix / sizes.heads * sizes.batch + matrix % sizes.heads * sizes.head + row * sizes.query + column * sizes.key;
    const Source source{mask, sizes, minimum(side, sizes.keys - column)};
<% endif %>
    unsigned any = 0, all = ~0u, words[side] = {};
#pragma unroll
    for (int r = 0; r < side; ++r) {
        if (row + r >= sizes.queries) break;
        words[r] = source.word(r, any, all);
    }
    blocks[i] = (any != 0) + 2 * (all == Source::whole);
    if constexpr (makes_bits) {
        const Lines of_queries(bits, sizes.keys, column / side, by_key);
#pragma unroll
        for (int r = 0; r < side; ++r)
            if (row + r < sizes.queries) of_queries.store(matrix * sizes.queries + row + r, words[r]);
        // Blocks of bits change places with those across the diagonal.
#pragma unroll
        for (int n = side / 2; n > 0; n /= 2) {
            const unsigned low = n == 8 ? 0x00ffu : n == 4 ? 0x0f0fu : n == 2 ? 0x3333u : 0x5555u;
#pragma unroll
            for (int r = 0; r < side; ++r) {
                if (r & n) continue;
                const unsigned changed = (words[r] >> n ^ words[r + n]) & low;
                words[r + n] ^= changed;
                words[r] ^= shl(changed, n);
            }
        }
        const long long matrices = count / columns / rows;
        const Lines of_keys(bits + matrices * sizes.queries * divide_up(sizes.keys, 2 * side), sizes.queries, row / side, by_query);
#pragma unroll
        for (int c = 0; c < side; ++c)
            if (column + c < sizes.keys) of_keys.store(matrix * sizes.keys + column + c, words[c]);
    }
}
