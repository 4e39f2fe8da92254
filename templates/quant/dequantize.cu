// y[i, :] = the weights of row places[i] of blocks, or of row i if all rows are wanted.
// Launch: each thread owns `piece` units of the rows that are made. No shared memory.
<% include "quant/kind.cuh" %>
<% include "lib/pack.cuh" %>
<% include "lib/place.cuh" %>
using index = << index >>;
using T = << elem >>;
using Place = << place >>;
constexpr bool placed = << "true" if placed else "false" >>;
constexpr int width = sizeof(T) < 16 ? 16 / sizeof(T) : 1;

extern "C" __global__ void __launch_bounds__(<< block >>) << name >>(
    const unsigned char* blocks, const Place* places, T* y, index units, index piece, index row_blocks, long long rows)
{
    const index first = (index(blockIdx.x) * << block >> + index(threadIdx.x)) * piece, end = minimum(units, first + piece);
    const index row_units = row_blocks * Kind::units;
#pragma unroll 1
    for (index i = first; i < end; ++i) {
        const index row = i / row_units, within = i % row_units, block = within / Kind::units;
        const int part = int(within % Kind::units);
        const long long from = (placed ? settled(places[row], rows) : (long long)row) * row_blocks + block;
        const Kind::Unit unit(blocks + from * Kind::bytes, part);
        T* const to = y + ((long long)row * row_blocks + block) * Kind::weights;
#pragma unroll
        for (int g = 0; g < Kind::groups; ++g) {
            const Group group = unit.decode(g);
            T* const at = to + 16 * group_of<Kind>(part, g);
#pragma unroll
            for (int j = 0; j < 16; j += width) {
                Pack<T, width> made;
#pragma unroll
                for (int k = 0; k < width; ++k) made.at[k] = cast<T>(weight(group, j + k));
                store_pack(at + j, made);
            }
        }
    }
}
