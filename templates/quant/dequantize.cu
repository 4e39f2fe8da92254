// y[i, :] = the weights of row places[i] of blocks, or of row i if all rows are wanted.
// Launch: each thread owns a group of 16 weights, so that a warp writes neighbours; if `serial`, `piece` units, whose bytes it
// reads once. No shared memory.
<% include "quant/kind.cuh" %>
<% include "lib/pack.cuh" %>
<% include "lib/place.cuh" %>
using index = << index >>;
using T = << elem >>;
using Place = << place >>;
constexpr bool placed = << "true" if placed else "false" >>, serial = << "true" if serial else "false" >>;
constexpr int width = 16 / sizeof(T);

__device__ __forceinline__ void store(T* to, const Group& group) {
#pragma unroll
    for (int j = 0; j < 16; j += width) {
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
                store(y + (long long)block * Kind::weights + 16 * group_of<Kind>(part, g), unit.decode(g));
        }
    } else if (first < end) {
        const InUnit<Kind> in(int(first % (Kind::weights / 16)));
        const index block = first / (Kind::weights / 16), row = block / row_blocks;
        const Kind::Unit unit(block_of(row, block % row_blocks), in.unit);
        Group group;
#pragma unroll
        for (int g = 0; g < Kind::groups; ++g)
            if (g == in.group) group = unit.decode(g);
        store(y + 16ll * first, group);
    }
}
