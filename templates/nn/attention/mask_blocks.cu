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

struct Mask {
    long long batch, head, query, key;  // strides
    int heads, queries, keys;
};
<% if computed %>
// Strides of the condition's arrays through batch, head, queries and keys.
struct Steps {
    index of[<< [operands | length, 1] | max >>][4];
};
// Whether a query attends to a key; heads are alike.
struct Condition {
<% for x in operands %>
    const << x.type >>* x<< x.k >>;
<% endfor %>
<% for x in tables %>
    const << x.type >>* t<< x.k >>;
<% endfor %>
    const Steps& steps;

    __device__ __forceinline__ bool operator()([[maybe_unused]] int a1, [[maybe_unused]] int a3, [[maybe_unused]] int a4) const {
<% for x in operands %>
        const << x.compute >> a<< x.k >> = cast< << x.compute >> >(x<< x.k >>[0<% for axis in x.axes %> + a<< axis + 1 >> * steps.of[<< x.number >>][<< axis >>]<% endfor %>]);
<% endfor %>
<% for line in body %>
        const << line.type >> << line.name >> = << line.code >>;
<% endfor %>
        return << value >>;
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
<% for x in operands %>
    const << x.type >>* x<< x.k >>,
<% endfor %>
<% for x in tables %>
    const << x.type >>* t<< x.k >>,
<% endfor %>
    unsigned char* blocks, unsigned* bits, Mask sizes, Steps steps, long long count)
<% else %>
    const unsigned char* mask, unsigned char* blocks, unsigned* bits, Mask sizes, long long count)
<% endif %>
{
    const long long i = (long long)blockIdx.x * << block >> + threadIdx.x;
    if (i >= count) return;
    const int rows = divide_up(sizes.queries, side), columns = divide_up(sizes.keys, side);
    const int column = i % columns * side, row = i / columns % rows * side;
    const long long matrix = i / columns / rows;
<% if computed %>
    const Condition condition{<% for x in operands %>x<< x.k >>, <% endfor %><% for x in tables %>t<< x.k >>, <% endfor %>steps};
    const unsigned beyond = shl(~0u, minimum(side, sizes.keys - column));
<% else %>
    mask += matrix / sizes.heads * sizes.batch + matrix % sizes.heads * sizes.head + row * sizes.query + column * sizes.key;
<% endif %>
    unsigned any = 0, all = ~0u, words[side] = {};
#pragma unroll
    for (int r = 0; r < side; ++r) {
        if (row + r >= sizes.queries) break;
<% if computed %>
#pragma unroll
        for (int c = 0; c < side; ++c)  // reads what lies beyond the last key at that one, as all rows then read the same
            words[r] |= condition(matrix, row + r, minimum(column + c, sizes.keys - 1)) ? shl(1u, c) : 0u;
        words[r] &= ~beyond;
        any |= words[r];
        all &= words[r] | beyond;
<% else %>
        if constexpr (packs) {
            const uint4 pack = *(const uint4*)(mask + r * sizes.query);
            const unsigned fours[4] = {pack.x, pack.y, pack.z, pack.w};
#pragma unroll
            for (int c = 0; c < 4; ++c) {
                any |= fours[c];
                all &= fours[c];
                words[r] |= shl(fours[c] * 0x01020408u >> 24 & 15, 4 * c);  // a bit of each byte
            }
        } else {
            for (int c = 0; c < minimum(side, sizes.keys - column); ++c) {
                const unsigned one = mask[r * sizes.query + c * sizes.key];
                any |= one * 0x01010101u;
                all &= one * 0x01010101u;
                words[r] |= shl(one, c);
            }
        }
<% endif %>
    }
    blocks[i] = (any != 0) + 2 * (all == << "~0u" if computed else "0x01010101u" >>);
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
