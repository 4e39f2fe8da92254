// y[i, :] = the weights of row places[i] of blocks, or of row i if all rows are wanted.
// Launch: each thread owns the weights of a store of 16 bytes, four at least, so that a warp writes neighbours; if `serial`,
// `piece` units, whose bytes it reads once. No shared memory.
<% include "quant/kind.cuh" %>
<% include "lib/pack.cuh" %>
<% include "lib/place.cuh" %>
using index = << index >>;
using T = << elem >>;
using Place = << place >>;
constexpr bool placed = << "true" if placed else "false" >>, serial = << "true" if serial else "false" >>;
constexpr int width = 16 / sizeof(T), own = width < 4 ? 4 : width;

// Stores the first COUNT weights of a group.
template <int COUNT>
__device__ __forceinline__ void store(T* to, const Group& group) {
#pragma unroll
    for (int j = 0; j < COUNT; j += width) {
        Pack<T, width> made;
#pragma unroll
        for (int k = 0; k < width; ++k) made.at[k] = cast<T>(weight(group, j + k));
        store_pack(to + j, made);
    }
}

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const unsigned char* blocks, const Place* places, T* y, index count, index piece, index row_blocks, long long rows)
{
    const index first = (index(blockIdx.x) * << block >> + index(threadIdx.x)) * piece, end = minimum(count, first + piece);
    const auto block_of = [&](index row, index block) {
        return blocks + ((placed ? settled(places[row], rows) : (long long)row) * row_blocks + block) * Kind::bytes;
    };
    if constexpr (serial) {
        for (index i = first; i < end; ++i) {
            const index block = i / Kind::units, row = block / row_blocks;
            const int part = int(i % Kind::units);
            const Kind::Unit unit(block_of(row, block % row_blocks), part);
            for (int g = 0; g < Kind::groups; ++g)
                store<16>(y + (long long)block * Kind::weights + 16 * group_of<Kind>(part, g), unit.decode(g));
        }
    } else if (first < end) {
        const index number = first / (16 / own), block = number / (Kind::weights / 16), row = block / row_blocks;
        const InUnit<Kind> in(int(number % (Kind::weights / 16)));
        const Kind::Unit unit(block_of(row, block % row_blocks), in.unit);
        Group group;
#pragma unroll
        for (int g = 0; g < Kind::groups; ++g)
            if (g == in.group) group = unit.decode(g);
#pragma unroll
        for (int part = 1; part < 16 / own; ++part)
            if (first % (16 / own) == part)
#pragma unroll
                for (int word = 0; word < own / 4; ++word) group.q[word] = group.q[part * (own / 4) + word];
        store<own>(y + (long long)own * first, group);
    }
}
